"""Where ranks run: here, or beside launched processes of which each keeps one rank.

What the controller has of a process is descriptors, which may lead anywhere. What must be done
beside the process, with its files and its id, is a plain function that `Host.run` runs there.
"""

from __future__ import annotations

import os
import socket
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pytest_affine.ranks.failures import RankSetupError
from pytest_affine.ranks.processes import fork_server

__all__ = [
    "LOCAL",
    "QUICK_SECONDS",
    "Descriptors",
    "Host",
    "HostLostError",
    "LocalHost",
    "hosts_for",
    "launched_hosts",
    "set_launched",
    "start_process",
]

T = TypeVar("T")

QUICK_SECONDS = 5.0
"""How long a host may take for one of the small functions that are run there."""


class HostLostError(OSError):
    """The launched process of a host does not answer any more."""


class Descriptors(NamedTuple):
    """What the controller has of a process: channel of its calls, its status, its folder."""

    channel: socket.socket
    status: int
    folder: Path


class Host(ABC):
    """A place where ranks run.

    Attributes:
        node: equal for hosts on one machine.
        device_index: index on its node of the device that its rank has; None where any may be.
        address: where ranks on other nodes reach those here; None if there are no other nodes.
        clock_offset: seconds to add to its monotonic clock to have the controller's.
    """

    node: str = ""
    device_index: int | None = None
    address: str | None = None
    clock_offset: float = 0.0

    @property
    @abstractmethod
    def server(self) -> object:
        """What its processes end with: with another one they have gone."""

    @abstractmethod
    def run(self, function: Callable[..., T], /, *args: Any, seconds: float = QUICK_SECONDS) -> T:
        """Run a small function there; raises what it raises, or HostLostError."""

    @abstractmethod
    def launch(self, *, hash_seed: int | None = None) -> Descriptors:
        """Start a process that waits for calls; with a hash seed, a new interpreter.

        Raises RankSetupError.
        """


class LocalHost(Host):
    """The controller's own."""

    @property
    def server(self) -> object:
        """The fork server, started if there is none."""
        return fork_server()

    def run(self, function: Callable[..., T], /, *args: Any, seconds: float = QUICK_SECONDS) -> T:
        """Call the function."""
        return function(*args)

    def launch(self, *, hash_seed: int | None = None) -> Descriptors:
        """Have the fork server start a process."""
        channel, theirs = socket.socketpair()
        status, their_status = os.pipe()
        try:
            folder = start_process(theirs.detach(), their_status, hash_seed)
        except BaseException:
            channel.close()
            os.close(status)
            raise
        return Descriptors(channel, status, folder)


def start_process(channel: int, status: int, hash_seed: int | None) -> Path:
    """Start a process of the fork server here; its ends of both are closed. Returns its folder."""
    descriptors = [status, channel]
    try:
        folder = Path(tempfile.mkdtemp(dir=fork_server().folder))
        for name in ("output", "stack"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptors.append(os.open(folder / name, flags, 0o600))
        fork_server().launch(descriptors, hash_seed=hash_seed)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return folder


LOCAL = LocalHost()
_launched: tuple[Host, ...] = ()


def set_launched(hosts: Sequence[Host]) -> None:
    """Have rank r of every pool run on the r-th of these hosts; on our own if there are none."""
    global _launched
    _launched = tuple(hosts)


def launched_hosts() -> tuple[Host, ...]:
    """The hosts of the processes that a launcher has started, by rank; none without a launcher."""
    return _launched


def hosts_for(num_ranks: int) -> list[Host]:
    """The host of each rank of a pool; RankSetupError if a launcher has started too few."""
    if not _launched:
        return [LOCAL] * num_ranks
    if num_ranks > len(_launched):
        raise RankSetupError(
            f"asked for {num_ranks} ranks, but the launcher has started {len(_launched)} "
            f"processes, of which each keeps one rank; choices: at most {len(_launched)} ranks, "
            "more processes, --affine-launcher=ignore"
        )
    return [*_launched[:num_ranks]]
