"""Where ranks find each other to set up their process group, and on which interface."""

from __future__ import annotations

import os
import socket
import struct
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

__all__ = ["interface_of", "launcher_store", "meet_at_launcher", "meet_in_file"]

_SIOCGIFADDR = 0x8915
"""Linux: the IPv4 address of an interface; see netdevice(7)."""


def meet_in_file(path: str, num_ranks: int) -> Store:
    """A store in a file that all ranks see; every rank of a pool calls it."""
    import torch.distributed as dist

    return dist.FileStore(path, num_ranks)  # type: ignore[attr-defined]


def meet_at_launcher(prefix: str, num_ranks: int) -> Store:
    """A part of the launcher's store; every rank of a pool calls it, with a prefix of the pool's.

    The file's signature; the launcher's store knows of no number.
    """
    import torch.distributed as dist

    return dist.PrefixStore(prefix, launcher_store(timedelta(days=1)))  # type: ignore[attr-defined]


def launcher_store(timeout: timedelta, *, is_master: bool = False) -> Store:
    """The store at MASTER_ADDR and MASTER_PORT, which is opened here if `is_master`.

    The parts of it that an earlier attempt of the launcher used are left alone.
    """
    import torch.distributed as dist

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(  # type: ignore[attr-defined]
        address, port, is_master=is_master, timeout=timeout, wait_for_workers=False
    )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"pytest-affine/{attempt}", store)  # type: ignore[attr-defined]


def interface_of(address: str | None) -> str | None:
    """The network interface with this IPv4 address, the loopback one for None; None if unknown."""
    import fcntl

    for _, name in socket.if_nameindex():
        if address is None:
            if name.startswith("lo"):
                return name
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, request)
            except OSError:
                continue  # it has no IPv4 address
        if socket.inet_ntoa(answer[20:24]) == address:
            return name
    return None
