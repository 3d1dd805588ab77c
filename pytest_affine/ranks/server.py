"""The fork server: a process with torch imported, from which ranks are forked.

This is what runs in the server process; the controller's side is in `processes`. A request is one
number and the descriptors that the new process is to have. What goes back, on the status pipe that
comes with the request, is the id of the process and, promptly after its end, its exit code. The
server ends when the controller does, and its processes end with it.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pytest_affine.ranks import worker

NUMBER = struct.Struct("!q")
"""What goes over the sockets and pipes: a request, a process id, an exit code."""

FORK, EXECUTE = -2, -1
"""Requests: a fork of the server, a new interpreter; 0 and up: one with that PYTHONHASHSEED."""

_WATCH_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main_code(module: str, *arguments: object) -> str:
    """What `python -c` needs to run `main` of a module of this package, with our `sys.path`."""
    text = ", ".join(map(repr, arguments))
    return (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from pytest_affine.ranks import {module}; {module}.main({text})"
    )


def main(control: int, folder: str, *modules: str) -> None:
    """Serve requests until the controller is gone, then end what was started.

    The modules are imported before the first fork.
    """
    server = _Server(socket.socket(fileno=control), modules)
    try:
        server.serve()
    finally:
        server.end_all()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # torch takes its time to go


class _Server:
    def __init__(self, control: socket.socket, modules: Sequence[str]) -> None:
        self._pid = os.getpid()
        self._parent = os.getppid()
        self._control = control
        self._statuses: dict[int, int] = {}
        self._modules = modules
        self._preloaded = False
        self._wake, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._launch)
        self._selector.register(self._wake, selectors.EVENT_READ, self._reap)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        if sys.platform == "linux":
            # What a rank has started becomes our child when the rank ends, in whatever session.
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def serve(self) -> None:
        # A fork of the controller may hold the socket open, so the parent is looked at too.
        while os.getppid() == self._parent:
            for key, _ in self._selector.select(_WATCH_SECONDS):
                if not key.data():
                    return

    def end_all(self) -> None:
        for pid in self._statuses:
            os.kill(pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        for pid in self._statuses:
            os.waitpid(pid, 0)
        self._statuses.clear()
        while orphans := self._end_orphans():
            for pid in orphans:
                os.waitpid(pid, 0)

    def _launch(self) -> bool:
        request, descriptors, _, _ = socket.recv_fds(self._control, NUMBER.size, 4)
        if not request:
            return False
        (what,) = NUMBER.unpack(request)
        if what == FORK and not self._preloaded:
            worker.preload(self._modules)
            self._preloaded = True
        status, *others = descriptors
        with warnings.catch_warnings():
            # The threads that numpy starts know how to survive a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            self._become(what, status, *others)
        for descriptor in others:
            os.close(descriptor)
        self._statuses[pid] = status
        _report(status, pid)
        return True

    def _reap(self) -> bool:
        self._wake.recv(4096)
        with suppress(ChildProcessError):  # there are no more
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if (descriptor := self._statuses.pop(pid, None)) is not None:
                    _report(descriptor, os.waitstatus_to_exitcode(status))
                    os.close(descriptor)
                    self._end_orphans()
        return True

    def _end_orphans(self) -> list[int]:
        """Kill what ended ranks have left, which no process group may hold; the ids of it."""
        children: list[int] = []
        for path in Path("/proc/self/task").glob("*/children"):
            children += map(int, path.read_text().split())
        orphans = [pid for pid in children if pid not in self._statuses]
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        return orphans

    def _become(self, what: int, status: int, channel: int, output: int, stack: int) -> NoReturn:
        try:
            self._leave(status)
            os.setpgid(0, 0)
            _die_with(self._pid)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            if what == FORK:
                worker.main(channel, stack)
            _execute(what, channel, stack)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)

    def _leave(self, status: int) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for end in (self._control, self._wake, self._waker):
            end.close()
        for descriptor in (status, *self._statuses.values()):
            os.close(descriptor)


def _report(status: int, number: int) -> None:
    with suppress(BrokenPipeError):  # the controller may have let go of this process
        os.write(status, NUMBER.pack(number))


def _die_with(server: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


def _execute(hash_seed: int, channel: int, stack: int) -> NoReturn:
    environment = dict(os.environ)
    if hash_seed >= 0:
        environment["PYTHONHASHSEED"] = str(hash_seed)
    code = main_code("worker", channel, stack)
    os.execve(sys.executable, [sys.executable, "-c", code], environment)
