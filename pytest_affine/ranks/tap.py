"""The wire tap: every send, receive and collective of this process, recorded.

The methods of the class `torch.distributed.ProcessGroup` are replaced, so that every group and
every function that someone imported by name is seen, and a group stays what it is. Functional
collectives run below Python; they are seen by kernels that lie over the ones of torch, in whatever
thread they run and also in a backward pass, while no other operation pays for it.

Not seen: what is done on a backend without its group, or in C++ (the reducer of DDP), one-sided
transports, and messages that torch.compile put into a graph. Every rank of a pool has the tap from
its start; the functions here are called on it.
"""

from __future__ import annotations

from pathlib import Path

import torch.distributed as dist

from pytest_affine.ranks.functional import FunctionalTap
from pytest_affine.ranks.methods import Groups, MethodTap
from pytest_affine.ranks.page import Page
from pytest_affine.ranks.record import Record
from pytest_affine.ranks.wire import Traffic, WireEvent


class _Tap:
    def __init__(self, path: Path | None) -> None:
        self.record = Record(Page(dist.get_world_size(), path))
        groups = Groups()
        made = MethodTap(self.record, groups).replacements()
        self._originals = {(kind, name): kind.__dict__[name] for kind, name in made}
        for (kind, name), method in made.items():
            setattr(kind, name, method)
        self._functional = FunctionalTap(self.record, groups)

    def remove(self) -> None:
        for (kind, name), method in self._originals.items():
            setattr(kind, name, method)
        self._functional.remove()


_tap: _Tap | None = None


def install(path: Path | None = None) -> None:
    """Record from now on; nothing happens if that is so already.

    The default group must be there. With a path, the latest events are also in the file there,
    for `page.read`.
    """
    global _tap
    if _tap is None:
        _tap = _Tap(path)


def uninstall() -> None:
    """Record no more, and put back what was replaced; nothing happens if that is so already."""
    global _tap
    if _tap is not None:
        _tap.remove()
        _tap = None


def record() -> Record:
    """The record of this process. RuntimeError if there is none."""
    if _tap is None:
        raise RuntimeError("the wire tap is not installed in this process: tap.install() does that")
    return _tap.record


def mark() -> int:
    """A mark for `events_since`: the index that the next event will have."""
    return record().next_index


def events_since(mark: int) -> list[WireEvent]:
    """The events since a mark, in order; of those that ended, only the latest 10,000 are kept."""
    return record().events(mark)


def events() -> list[WireEvent]:
    """The events that are kept, in order."""
    return record().events()


def unfinished() -> list[WireEvent]:
    """The events that nobody has waited for, in order, and that are not seen to be complete.

    On gloo a message is known to be complete only once it was waited for.
    """
    return record().unfinished()


def totals() -> tuple[Traffic, ...]:
    """How many messages and bytes passed between this rank and each other, since `clear`."""
    return record().totals()


def clear() -> None:
    """Forget the events that are not open, and count from 0."""
    record().clear()
