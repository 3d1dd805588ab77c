"""The controller's hold on one rank: its channel, its process, and what it printed."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_affine.ranks import server, worker
from pytest_affine.ranks.channel import Channel, Message
from pytest_affine.ranks.failures import Kind, RankError
from pytest_affine.ranks.page import page_path, read
from pytest_affine.ranks.processes import Process, fork_server
from pytest_affine.ranks.wire import TAP_FILES, Sighting

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
    channel: Channel
    process: Process
    output: Path
    stack: Path

    def receive(self) -> tuple[Message | None, bool]:
        """The rank's answer if it is there, and whether the rank has ended."""
        self.channel.flush()
        ended = self.process.wait(0)  # looked at first: what it sent before its end is read below
        return self.channel.receive(), ended

    def failure(self, kind: Kind, message: str) -> RankError:
        """A failure that the rank cannot tell, with the Python stack that it left."""
        return RankError(kind=kind, message=message, traceback=_python_stack(self.stack))

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
        return read(page_path(self.output.parent, self.rank))

    def printed(self) -> str:
        """The end of what the rank printed in its current call."""
        with open(self.output, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _TAIL_BYTES, 0))
            return file.read().decode(errors="replace")


def launch(rank: int, name: str, folder: Path, *, hash_seed: int | None = None) -> Member:
    """Start a process that waits for calls; its files are in the folder."""
    output, stack = folder / f"output-{rank}", folder / f"stack-{rank}"
    ours, theirs = socket.socketpair()
    descriptors = [theirs.detach()]
    try:
        for path in (output, stack):
            descriptors.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        process = fork_server().launch(descriptors, hash_seed=hash_seed)
    except BaseException:
        ours.close()
        raise
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    channel = Channel(ours, blocking=False)
    return Member(
        rank=rank, name=name, channel=channel, process=process, output=output, stack=stack
    )


def end(members: Sequence[Member], patience: float = 0.0) -> None:
    """End the ranks: idle ones exit by themselves, the others are killed when patience ends."""
    for member in members:
        member.channel.close()
    _wait_for_ends(members, patience)
    for member in members:
        member.process.send_signal(signal.SIGKILL)
    _wait_for_ends(members, _END_SECONDS)
    for member in members:
        member.process.close()


def dump_stacks(members: Sequence[Member]) -> None:
    """Have the ranks write their Python stacks, and wait a little until they have."""
    for member in members:
        member.process.send_signal(signal.SIGUSR1)
    limit = time.monotonic() + _DUMP_SECONDS
    before: list[int] = []
    while time.monotonic() < limit:
        time.sleep(_POLL_SECONDS)
        sizes = [member.stack.stat().st_size for member in members]
        if all(sizes) and sizes == before:
            return
        before = sizes


def _wait_for_ends(members: Sequence[Member], seconds: float) -> None:
    limit = time.monotonic() + seconds
    for member in members:
        member.process.wait(limit - time.monotonic())


def _python_stack(path: Path) -> str:
    """What faulthandler wrote, without our own frames and the list of extension modules."""
    lines = path.read_text(errors="replace").splitlines()
    return "\n".join(line for line in lines if not any(part in line for part in _NOT_SHOWN))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
