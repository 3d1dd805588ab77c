"""The controller's hold on one rank: its channel, its process, and what it printed."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pytest_affine.ranks import server, worker
from pytest_affine.ranks.channel import Channel, Message
from pytest_affine.ranks.failures import Kind, RankError, RankSetupError
from pytest_affine.ranks.hosts import Host, HostLostError
from pytest_affine.ranks.page import page_path, read
from pytest_affine.ranks.processes import Process, give_up_server
from pytest_affine.ranks.wire import TAP_FILES, Sighting

T = TypeVar("T")

_DUMP_SECONDS = 0.5
_END_SECONDS = 5.0
_POLL_SECONDS = 0.01
_TAIL_BYTES = 8192
_NOT_SHOWN = (
    worker.__file__,
    server.__file__,
    'File "<string>"',
    "Extension modules: ",
    *TAP_FILES,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Member:
    """A running rank, or an interpreter that is used like one; `name` is what messages call it."""

    rank: int
    name: str
    host: Host
    channel: Channel
    process: Process
    folder: Path

    def receive(self) -> tuple[Message | None, bool]:
        """The rank's answer if it is there, and whether the rank has ended."""
        self.channel.flush()
        ended = self.process.wait(0)  # looked at first: what it sent before its end is read below
        return self.channel.receive(), ended

    def failure(self, kind: Kind, message: str) -> RankError:
        """A failure that the rank cannot tell, with the Python stack that it left."""
        stack = self._look(Path.read_text, self.folder / "stack", "utf-8", "replace")
        return RankError(kind=kind, message=message, traceback=_python_stack(stack or ""))

    def death(self, *, before: bool) -> RankError:
        """How the process ended, during its call or `before` that."""
        code, when = self.process.exit_code, " before this call" if before else ""
        if code is None:
            return self.failure("lost", f"lost together with the fork server{when}")
        if code >= 0:
            return self.failure("exit", f"exited with status {code}{when}")
        return self.failure("signal", f"killed by {_signal_name(-code)}{when}")

    def sighting(self) -> Sighting | None:
        """What the rank did last on the wire; it may be stuck or dead."""
        return self._look(read, page_path(self.folder))

    def printed(self) -> str:
        """The end of what the rank printed in its current call."""
        return self._look(_tail, self.folder / "output") or ""

    def send_signal(self, number: int) -> None:
        """Send it a signal unless it has ended."""
        if not self.process.wait(0):
            self._look(_send_signal, self.process.pid, number)

    def stack_bytes(self) -> int:
        """How much of its Python stack it has written."""
        return self._look(os.path.getsize, self.folder / "stack") or 0

    def close(self) -> None:
        """Let go of it, once it has ended, and remove what it has left: processes and files."""
        self.process.close()
        self._look(_remove, self.process.pid, self.folder)

    def _look(self, function: Callable[..., T], *args: object) -> T | None:
        """What a function finds there; None if nobody can look any more."""
        try:
            return self.host.run(function, *args)
        except HostLostError:
            return None


def launch(host: Host, rank: int, name: str, *, hash_seed: int | None = None) -> Member:
    """Start a process that waits for calls; RankSetupError says what kept it from starting."""
    channel, status, folder = host.launch(hash_seed=hash_seed)
    try:
        process = Process(status)
    except OSError as error:
        channel.close()
        log = host.run(give_up_server)
        raise RankSetupError(f"the fork server starts no process: {error}\n{log}") from None
    return Member(
        host=host,
        rank=rank,
        name=name,
        channel=Channel(channel, blocking=False),
        process=process,
        folder=folder,
    )


def end(members: Sequence[Member], patience: float = 0.0) -> None:
    """End the ranks: idle ones exit by themselves, the others are killed when patience ends."""
    for member in members:
        member.channel.close()
    _wait_for_ends(members, patience)
    for member in members:
        member.send_signal(signal.SIGKILL)
    _wait_for_ends(members, _END_SECONDS)
    for member in members:
        member.close()


def dump_stacks(members: Sequence[Member]) -> None:
    """Have the ranks write their Python stacks, and wait a little until they have."""
    for member in members:
        member.send_signal(signal.SIGUSR1)
    limit = time.monotonic() + _DUMP_SECONDS
    before: list[int] = []
    while time.monotonic() < limit:
        time.sleep(_POLL_SECONDS)
        sizes = [member.stack_bytes() for member in members]
        if all(sizes) and sizes == before:
            return
        before = sizes


def _wait_for_ends(members: Sequence[Member], seconds: float) -> None:
    limit = time.monotonic() + seconds
    for member in members:
        member.process.wait(limit - time.monotonic())


def _tail(path: Path) -> str:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL_BYTES, 0))
        return file.read().decode(errors="replace")


def _send_signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _remove(pid: int, folder: Path) -> None:
    """End what a process has forked, since it led a process group of its own, and its files."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)  # the fork server removes what we cannot


def _python_stack(stack: str) -> str:
    """What faulthandler wrote, without our own frames and the list of extension modules."""
    lines = stack.splitlines()
    return "\n".join(line for line in lines if not any(part in line for part in _NOT_SHOWN))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
