"""The controller's side of the fork server: one per controller, started when first needed."""

from __future__ import annotations

import atexit
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pytest_affine.ranks.server import EXECUTE, FORK, NUMBER, main_code

START_SECONDS = 60.0
"""The longest that a server, a process or a process group may take to start."""

PRELOADED: list[str] = []
"""Modules that a server imports before it forks; those added later are for the next server."""

_CAN_FORK = sys.platform == "linux"
_END_SECONDS = 5.0


class Process:
    """The controller's hold on a process of the server: readable once that has ended.

    `exit_code` is then its exit code, the negative number of the signal that killed it, or None
    where the server is gone and nobody knows.
    """

    def __init__(self, status: int) -> None:
        self._status = open(status, "rb", buffering=0)  # noqa: SIM115
        self.ended = False
        self.exit_code: int | None = None
        try:
            self.pid = self._read(START_SECONDS)
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._status.fileno()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, by now or within so many seconds."""
        if not self.ended and _readable(self._status.fileno(), seconds):
            self.ended = True
            with suppress(ConnectionError):
                self.exit_code = self._read(0)
        return self.ended

    def close(self) -> None:
        """Let go of it."""
        self._status.close()

    def _read(self, seconds: float) -> int:
        if not _readable(self._status.fileno(), seconds):
            raise TimeoutError(f"no answer within {seconds} s")
        data = self._status.read(NUMBER.size)
        if len(data) < NUMBER.size:
            raise ConnectionError("it has ended")
        number: int = NUMBER.unpack(data)[0]
        return number


class ForkServer:
    """The controller's hold on the server process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="affine-ranks-"))
        self._log = self.folder / "server-log"
        self._control, theirs = socket.socketpair()
        code = main_code("server", theirs.fileno(), str(self.folder), *PRELOADED)
        with theirs, open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt from the terminal is the controller's alone
            )

    @property
    def alive(self) -> bool:
        """Whether the server listens; it never writes, so there can only be an end to read."""
        return self._control.fileno() >= 0 and not _readable(self._control.fileno(), 0)

    def launch(self, descriptors: Sequence[int], *, hash_seed: int | None = None) -> None:
        """Start a process with these descriptors: status, channel, output, stack.

        It is forked from the server; with a hash seed, and where nothing can be forked, it is a
        new interpreter. `Process` takes the other end of the status.
        """
        what = hash_seed
        if what is None:
            what = FORK if _CAN_FORK else EXECUTE
        with suppress(ConnectionError):  # the end of the server shows on the status
            socket.send_fds(self._control, [NUMBER.pack(what)], descriptors)

    def read_log(self) -> str:
        """What the server and its processes have printed before they were ranks."""
        return self._log.read_text(errors="replace")

    def end(self) -> None:
        """End the server and all its processes, within a bounded time."""
        self._control.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)


_lock = threading.Lock()
_server: ForkServer | None = None


def fork_server() -> ForkServer:
    """The server of this process, started if there is none."""
    global _server
    with _lock:
        if _server is not None and _server.owner == os.getpid():
            if _server.alive:
                return _server
            _server.end()
        _server = ForkServer()
        return _server


def give_up_server() -> str:
    """End a server that has started no process; what it printed. The next use starts another."""
    with _lock:
        if _server is None:
            return ""
        log = _server.read_log()
        _server.end()
        return log


@atexit.register
def shutdown() -> None:
    """End the fork server, and with it every rank; the next use starts another."""
    global _server
    with _lock:
        if _server is not None and _server.owner == os.getpid():
            _server.end()
        _server = None


def _readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(seconds, 0) * 1000))
