"""A launched process as a host of the controller: what both ends of their connection do."""

from __future__ import annotations

import pickle
import select
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pytest_affine.ranks.channel import Channel, Message
from pytest_affine.ranks.failures import RankSetupError
from pytest_affine.ranks.hosts import QUICK_SECONDS, Descriptors, Host, HostLostError, start_process
from pytest_affine.ranks.processes import PRELOADED, START_SECONDS

__all__ = ["RemoteHost", "serve"]

T = TypeVar("T")

Dial = Callable[[], socket.socket]


class RemoteHost(Host):
    """The controller's hold on a launched process.

    Args:
        rank: the rank that it keeps.
        control: the connection that it made; `serve` answers at its other end.
        accept: gives the next connection that it makes.
    """

    def __init__(self, rank: int, control: socket.socket, accept: Dial) -> None:
        self.rank = rank
        self._control = Channel(control, blocking=False)
        self._accept = accept

    @property
    def server(self) -> object:
        """The launched process itself."""
        return self

    def run(self, function: Callable[..., T], /, *args: Any, seconds: float = QUICK_SECONDS) -> T:
        """Send the function and wait for what it returns or raises."""
        if not self._control.ended:
            self._control.send((pickle.dumps((function, args)),))
        answer = self._answer(time.monotonic() + seconds)
        if answer is None:
            # An answer that comes later would be taken for that of another function.
            self._control.close()
            raise HostLostError("its launched process is gone or does not answer")
        error, value = pickle.loads(answer[0])
        if error is not None:
            raise error
        result: T = value
        return result

    def launch(self, *, hash_seed: int | None = None) -> Descriptors:
        """Have it start a process, whose channel and status are connections that it makes."""
        try:
            folder = self.run(_start_connected, hash_seed, PRELOADED, seconds=START_SECONDS)
            channel, status = self._accept(), self._accept()
        except OSError as error:
            raise RankSetupError(f"rank {self.rank} can't be started: {error}") from None
        return Descriptors(channel, status.detach(), folder)

    def finish(self, status: int) -> None:
        """Tell it the exit status of the session, with which it ends once the controller has."""
        self._control.send((b"end", pickle.dumps(status)))

    def _answer(self, limit: float) -> Message | None:
        while (message := self._control.receive()) is None:
            if self._control.ended or (left := limit - time.monotonic()) <= 0:
                return None
            poll = select.poll()
            writable = select.POLLOUT if self._control.pending else 0
            poll.register(self._control, select.POLLIN | writable)
            poll.poll(left * 1000)
            self._control.flush()
        return message


_dial: Dial | None = None


def serve(control: socket.socket, dial: Dial) -> int | None:
    """Do what the controller asks until it has ended; the exit status that it told, if it did.

    Args:
        control: a connection to the controller.
        dial: makes another one.
    """
    global _dial
    _dial = dial
    channel, status = Channel(control, blocking=True), None
    while (message := channel.receive()) is not None:
        if len(message) > 1:
            status = pickle.loads(message[1])
        else:
            channel.send((_performed(message[0]),))
    channel.close()
    return status


def _performed(request: bytes) -> bytes:
    function, args = pickle.loads(request)
    try:
        return pickle.dumps((None, function(*args)))
    except Exception as error:
        return pickle.dumps((error, None))


def _start_connected(hash_seed: int | None, modules: Sequence[str]) -> Path:
    """Start a process here whose channel and status lead to the controller."""
    PRELOADED[:] = modules
    if _dial is None:
        raise RuntimeError("only a launched process can be asked for a rank")
    channel = _dial()
    try:
        status = _dial()
    except BaseException:
        channel.close()
        raise
    return start_process(channel.detach(), status.detach(), hash_seed)
