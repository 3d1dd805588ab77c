"""Joining the processes of a launcher: rank 0's becomes the controller, the others its hosts.

The controller listens on a port of its own, which it tells the others through the launcher's store,
together with a token that every connection has to show. Connections rather than the store carry
what follows, since an end of a process is seen on them at once.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_affine.ranks.failures import RankSetupError
from pytest_affine.ranks.hosts import Host, LocalHost, set_launched
from pytest_affine.ranks.meeting import launcher_store
from pytest_affine.ranks.processes import fork_server
from pytest_affine.ranks.remote import RemoteHost, serve

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

__all__ = ["JOINED", "Launch", "follow", "lead", "read_launch"]

JOINED = "AFFINE_JOINED"
"""Set in the environment of processes that have joined: what they start has not been launched."""

JOIN_SECONDS = 300.0
"""How long the launched processes wait for each other."""

_HELLO_SECONDS = 5.0
_CONTROLLER = "controller"
_TOKEN_BYTES = 16
_HELLO = struct.Struct(f"!{_TOKEN_BYTES}sI")  # the token, and whose connection it is
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TIME_SAMPLES = 5

_Address: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a launcher has told this process.

    Attributes:
        rank: the number of this process.
        world_size: how many were launched.
        local_rank: its number on its node; the index of its device.
        node: equal for processes on one node.
        hosts_store: whether rank 0 opens the store, since the launcher has not.
    """

    rank: int
    world_size: int
    local_rank: int
    node: str
    hosts_store: bool


def read_launch(environment: Mapping[str, str]) -> Launch | None:
    """What the variables of torchrun and its like say; None if this process was not launched.

    Raises RankSetupError if they contradict each other.
    """
    if "RANK" not in environment or "WORLD_SIZE" not in environment or JOINED in environment:
        return None
    rank, world_size = (_number(environment, name) for name in ("RANK", "WORLD_SIZE"))
    local_rank = _number(environment, "LOCAL_RANK") if "LOCAL_RANK" in environment else rank
    _number(environment, "MASTER_PORT")
    if not environment.get("MASTER_ADDR"):
        raise _wrong("MASTER_ADDR is not set")
    if rank >= world_size:
        raise _wrong(f"RANK is {rank} and WORLD_SIZE {world_size}, which must be larger")
    return Launch(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        node=environment.get("GROUP_RANK") or socket.gethostname(),
        hosts_store=environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
    )


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name)
    if text is None or not (text.isascii() and text.isdigit()):
        raise _wrong(f"{name} must be an integer of at least 0, got {text!r}")
    return int(text)


def _wrong(what: str) -> RankSetupError:
    return RankSetupError(
        f"{what}: a launcher sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (and LOCAL_RANK); "
        "choices: correct them, unset RANK, --affine-launcher=ignore"
    )


@contextmanager
def lead(launch: Launch) -> Iterator[Callable[[int], None]]:
    """Be the controller of a launch: while this lasts, ranks run beside the launched processes.

    Yields a function that tells the others the exit status of the session, with which they end once
    this process has. Raises RankSetupError if they do not all come.
    """
    os.environ[JOINED] = "1"
    fork_server()  # with the environment as it is now, whatever tests will do to it
    reception = _Reception(launch)
    try:
        others = reception.gather()
        own = LocalHost()
        own.node, own.device_index = launch.node, launch.local_rank
        for host in (own, *others):
            host.address = host.address or reception.outer_address
        set_launched([own, *others])

        def finish(status: int) -> None:
            for host in others:
                host.finish(int(status))

        yield finish
    finally:
        set_launched(())
        reception.close()


def follow(launch: Launch) -> int | None:
    """Keep the rank of this process for the controller, until that has ended.

    Returns the exit status of its session, or None if it ended without one. Raises RankSetupError
    if there is no controller.
    """
    store = _open_store(launch)
    try:
        notice = json.loads(store.get(_CONTROLLER))
    except Exception as error:
        raise RankSetupError(
            f"the process of rank 0 has not become the controller within {JOIN_SECONDS} s: {error}"
        ) from None
    store.set(_process_key(launch.rank), json.dumps([launch.node, launch.local_rank]))
    os.environ[JOINED] = "1"
    hello = _HELLO.pack(bytes.fromhex(notice["token"]), launch.rank)
    control, address = _reach(notice, hello)
    return serve(control, partial(_connect, address, hello))


def _open_store(launch: Launch) -> Store:
    is_master = launch.hosts_store and launch.rank == 0
    return launcher_store(timedelta(seconds=JOIN_SECONDS), is_master=is_master)


def _process_key(rank: int) -> str:
    return f"process-{rank}"


def _reach(notice: Mapping[str, Any], hello: bytes) -> tuple[socket.socket, _Address]:
    """A connection to the controller, and at which of its addresses that is."""
    tried = []
    for host in notice["addresses"]:
        address = host, notice["port"]
        try:
            connection = _connect(address, hello)
            if _received(connection, _TOKEN_BYTES) == bytes.fromhex(notice["answer"]):
                connection.settimeout(None)
                return connection, address
            tried.append(f"{host}: somebody else answers")
            connection.close()
        except OSError as error:
            tried.append(f"{host}: {error}")
    raise RankSetupError(
        f"the controller can't be reached at port {notice['port']} of {'; '.join(tried)}"
    )


def _connect(address: _Address, hello: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=_HELLO_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(hello)
    return connection


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


class _Reception:
    """Where the controller takes the connections of the others.

    Attributes:
        outer_address: where other nodes reach this one; None if they have not.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._token, self._answer = (secrets.token_bytes(_TOKEN_BYTES) for _ in range(2))
        self._waiting: list[tuple[int, socket.socket]] = []
        self.outer_address: str | None = None
        self._store = _open_store(launch)  # which the others see as long as we hold it
        family, self._own_address = _route_to(os.environ["MASTER_ADDR"])
        only = self._own_address if os.environ["MASTER_ADDR"] in _LOOPBACK else ""
        self._listener = socket.create_server((only, 0), family=family, backlog=1024)

    def gather(self) -> list[RemoteHost]:
        """Tell the others where we are, and wait for them."""
        addresses = [self._own_address, os.environ["MASTER_ADDR"], socket.getfqdn()]
        notice = {
            "addresses": list(dict.fromkeys(addresses)),
            "port": self._listener.getsockname()[1],
            "token": self._token.hex(),
            "answer": self._answer.hex(),
        }
        self._store.set(_CONTROLLER, json.dumps(notice))
        limit = time.monotonic() + JOIN_SECONDS
        connections: dict[int, socket.socket] = {}
        while missing := [*({*range(1, self._launch.world_size)} - {*connections})]:
            try:
                rank, connection = self._next(limit)
            except TimeoutError:
                raise RankSetupError(
                    f"of {self._launch.world_size} launched processes those of ranks "
                    f"{sorted(missing)} have not joined within {JOIN_SECONDS} s; choices: the same "
                    "command line in each, a WORLD_SIZE that is true, --affine-launcher=ignore"
                ) from None
            connections[rank] = connection
        return [self._host(rank, connection) for rank, connection in sorted(connections.items())]

    def accept(self, rank: int) -> socket.socket:
        """The next connection of the process of a rank."""
        limit = time.monotonic() + _HELLO_SECONDS
        while not (mine := [each for each in self._waiting if each[0] == rank]):
            self._waiting.append(self._next(limit))
        self._waiting.remove(mine[0])
        return mine[0][1]

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _next(self, limit: float) -> tuple[int, socket.socket]:
        """The next connection that shows the token, and the rank whose process made it."""
        while (left := limit - time.monotonic()) > 0:
            self._listener.settimeout(left)
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_HELLO_SECONDS)
            with suppress(OSError, struct.error):
                token, rank = _HELLO.unpack(_received(connection, _HELLO.size))
                if hmac.compare_digest(token, self._token):
                    connection.settimeout(None)
                    return rank, connection
            connection.close()
        raise TimeoutError(f"no connection within {_HELLO_SECONDS} s")

    def _host(self, rank: int, connection: socket.socket) -> RemoteHost:
        connection.sendall(self._answer)
        host = RemoteHost(rank, connection, partial(self.accept, rank))
        host.node, host.device_index = json.loads(self._store.get(_process_key(rank)))
        host.clock_offset = _clock_offset(host)
        if not ip_address(connection.getpeername()[0]).is_loopback:
            host.address, self.outer_address = (
                name[0] for name in (connection.getpeername(), connection.getsockname())
            )
        return host


def _route_to(name: str) -> tuple[socket.AddressFamily, str]:
    """The family of an address, and our own address on the way there."""
    family, kind, protocol, _, address = socket.getaddrinfo(name, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # of a datagram socket: nothing is sent
        return family, probe.getsockname()[0]


def _clock_offset(host: Host) -> float:
    """What to add to its monotonic clock to have ours; 0 if no difference can be measured."""
    samples = []
    for _ in range(_TIME_SAMPLES):
        before = time.monotonic()
        theirs = host.run(time.monotonic)
        after = time.monotonic()
        samples.append((after - before, (before + after) / 2 - theirs))
    trip, offset = min(samples)
    return offset if abs(offset) > trip else 0.0
