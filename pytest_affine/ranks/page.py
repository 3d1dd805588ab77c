"""A page of memory in which a rank leaves what it is doing, for the controller to read.

The controller reads it without help of the rank, which may be stuck or dead. A rank writes its
current event into the first slot and the latest ones into two rings of slots, one for messages and
one for collectives; after them come counters by peer: those of all time, and as they were when the
current call of the pool began.
"""

from __future__ import annotations

import marshal
import mmap
import struct
from dataclasses import fields
from pathlib import Path

from pytest_affine.ranks.wire import COLUMNS, Sighting, WireEvent, traffic_of

NUM_RECENT = 8
"""How many of the latest messages, and how many of the latest collectives, a page has."""

IN_CALL, RAISED = 1, 2
"""States of the current event."""

Facts = tuple[str, str, tuple[int, ...], int | None, int, str, int, int, int, float]
"""The fields of an event, in order, up to its start."""

_NAMES = [field.name for field in fields(WireEvent)][:10]
_RANKS = _NAMES.index("group_ranks")
_HEAD = struct.Struct("=qq")  # number of ranks, index of the first event of the current call
_SLOT = struct.Struct("=dHB")  # when the event ended or 0, length of the facts or 0, state
_SLOT_BYTES = 1024
_RINGS_START = _HEAD.size + _SLOT_BYTES
_COUNTERS_START = _RINGS_START + 2 * NUM_RECENT * _SLOT_BYTES
_ATTEMPTS = 100


class Page:
    """The rank's side; without a path nobody else sees it."""

    def __init__(self, num_ranks: int, path: Path | None = None) -> None:
        half = 8 * len(COLUMNS) * num_ranks
        size = _COUNTERS_START + 2 * half
        if path is None:
            self._memory = mmap.mmap(-1, size)
        else:
            with open(path, "w+b") as file:
                file.truncate(size)
                self._memory = mmap.mmap(file.fileno(), size)
        view = memoryview(self._memory)
        self.counters = view[_COUNTERS_START : _COUNTERS_START + half].cast("q")
        self._before = view[_COUNTERS_START + half :].cast("q")
        self._num_ranks = num_ranks
        self._numbers = [0, 0]
        self.begin(0)

    def begin(self, first_index: int) -> None:
        """Start a call of the pool; the next event has this index."""
        _HEAD.pack_into(self._memory, 0, self._num_ranks, first_index)
        self._before[:] = self.counters
        self.clear_current()

    def add(self, is_message: bool, data: bytes) -> int:
        """Write an event, which is the current one from now on; its number is for `end`."""
        number = self._numbers[is_message]
        self._numbers[is_message] += 1
        self._write(_place(is_message, number), data, IN_CALL)
        self.set_current(data)
        return number

    def end(self, is_message: bool, number: int, when: float) -> None:
        """Note when an event ended, if it is still there."""
        if self._numbers[is_message] - number <= NUM_RECENT:
            struct.pack_into("=d", self._memory, _place(is_message, number), when)

    def remove(self, is_message: bool, number: int) -> None:
        """Take back the latest event of its ring."""
        self._numbers[is_message] = number
        _SLOT.pack_into(self._memory, _place(is_message, number), 0.0, 0, 0)

    def set_current(self, data: bytes, state: int = IN_CALL) -> None:
        """Write the current event."""
        self._write(_HEAD.size, data, state)

    def clear_current(self) -> None:
        """There is no current event."""
        _SLOT.pack_into(self._memory, _HEAD.size, 0.0, 0, 0)

    def counts(self) -> list[int]:
        """The counters of the current call of the pool."""
        return [now - before for now, before in zip(self.counters, self._before, strict=True)]

    def _write(self, place: int, data: bytes, state: int) -> None:
        _SLOT.pack_into(self._memory, place, 0.0, 0, 0)
        start = place + _SLOT.size
        self._memory[start : start + len(data)] = data
        _SLOT.pack_into(self._memory, place, 0.0, len(data), state)


def _place(is_message: bool, number: int) -> int:
    return _RINGS_START + (is_message * NUM_RECENT + number % NUM_RECENT) * _SLOT_BYTES


def packed(facts: Facts) -> bytes:
    """An event as bytes for a page, without the ranks of its group if they are too many."""
    data = marshal.dumps(facts)
    if len(data) > _SLOT_BYTES - _SLOT.size:
        data = marshal.dumps((*facts[:_RANKS], (), *facts[_RANKS + 1 :]))
    return data


def page_path(folder: Path) -> Path:
    """Where the page of a rank is, in its folder."""
    return folder / "wire"


def read(path: Path) -> Sighting | None:
    """What the page of a rank says; None if the rank has not made one. The controller calls it."""
    try:
        memory = _steady(path)
    except FileNotFoundError:
        return None
    if len(memory) <= _COUNTERS_START:
        return None
    num_ranks, first_index = _HEAD.unpack_from(memory, 0)
    current, state = _slot(memory, _HEAD.size)
    places = range(_RINGS_START, _COUNTERS_START, _SLOT_BYTES)
    events = [event for event, _ in (_slot(memory, place) for place in places) if event]
    recent = [event for event in events if event.index >= first_index]
    return Sighting(
        current=current,
        raised=state == RAISED,
        recent=tuple(sorted(recent, key=lambda event: event.index)),
        traffic=traffic_of(_counts(memory, num_ranks)),
    )


def _steady(path: Path) -> bytes:
    """The page while the rank was not writing, if there is such a moment."""
    memory = path.read_bytes()
    for _ in range(_ATTEMPTS):
        before, memory = memory, path.read_bytes()
        if before == memory:
            break
    return memory


def _slot(memory: bytes, place: int) -> tuple[WireEvent | None, int]:
    ended, length, state = _SLOT.unpack_from(memory, place)
    if not length:
        return None, 0
    start = place + _SLOT.size
    try:
        facts = marshal.loads(memory[start : start + length])
    except (EOFError, ValueError):
        return None, 0  # it was being written
    values = dict(zip(_NAMES, facts, strict=True))
    return WireEvent(**values, ended=ended or None), state


def _counts(memory: bytes, num_ranks: int) -> list[int]:
    half = 8 * len(COLUMNS) * num_ranks
    now = memoryview(memory)[_COUNTERS_START : _COUNTERS_START + half].cast("q")
    before = memoryview(memory)[_COUNTERS_START + half :].cast("q")
    return [a - b for a, b in zip(now, before, strict=True)]
