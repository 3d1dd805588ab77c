"""What one rank did on the wire: the events, which of them ended, and how much passed.

It knows nothing of torch: a work is an object that can say whether it is completed.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

from pytest_affine.ranks.page import RAISED, Facts, Page, packed
from pytest_affine.ranks.wire import (
    COLUMNS,
    MESSAGES,
    Collectives,
    Traffic,
    WireEvent,
    traffic_of,
)

NUM_KEPT = 10_000
"""How many events that ended are kept."""

_COLUMN = {name: number for number, name in enumerate(COLUMNS)}


class Call:
    """One event while it may still change; `num_pending` waits are left before it has ended."""

    __slots__ = (
        "data",
        "ended",
        "facts",
        "index",
        "is_message",
        "kind",
        "num_pending",
        "number",
        "received_bytes",
        "sent_bytes",
        "sent_parts",
    )

    def __init__(self, facts: Facts, sent_bytes: int, received_bytes: int) -> None:
        self.facts = facts
        self.kind = facts[0]
        self.is_message = self.kind in MESSAGES
        self.index = facts[8]
        self.data = packed(facts)
        self.sent_bytes = sent_bytes
        self.received_bytes = received_bytes
        self.sent_parts: tuple[int, ...] = ()
        self.ended: float | None = None
        self.num_pending = 1
        self.number = 0

    @property
    def peer(self) -> int | None:
        """The peer of the event."""
        return self.facts[3]

    def event(self) -> WireEvent:
        """The event as it is now."""
        kind, group, ranks, peer, num_bytes, dtype, tag, sequence, index, started = self.facts
        return WireEvent(
            kind=kind,
            group=group,
            group_ranks=ranks,
            peer=peer,
            num_bytes=num_bytes,
            dtype=dtype,
            tag=tag,
            sequence=sequence,
            index=index,
            started=started,
            ended=self.ended,
            sent_bytes=self.sent_bytes,
            received_bytes=self.received_bytes,
            sent_parts=self.sent_parts,
        )


class _Followed(weakref.ref[Any]):
    """A work in use, held weakly: a tap that kept works alive would hide that a test drops them."""

    __slots__ = ("calls", "key")
    calls: Sequence[Call]
    key: int


class Record:
    """The events of this process; every one is in the page of the rank while it is recent."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.next_index = 0
        self._first_index = 0
        self._ended: deque[Call] = deque(maxlen=NUM_KEPT)
        self._open: dict[int, Call] = {}
        self._lost: deque[Call] = deque(maxlen=NUM_KEPT)
        self._works: dict[int, _Followed] = {}
        self._promised: list[tuple[Any, Sequence[Call]]] = []
        self._active: list[Call] = []
        self._sequences: dict[tuple[Any, ...], int] = {}
        self._collectives: dict[str, Collectives] = {}
        self._cleared = [0] * len(page.counters)

    def begin(self) -> None:
        """Begin a call of the pool: sequences start from 0, problems of before are forgotten."""
        self._first_index = self.next_index
        self._sequences.clear()
        self._collectives.clear()
        self._active.clear()
        self.page.begin(self.next_index)

    def enter(
        self,
        kind: str,
        group: str,
        group_ranks: tuple[int, ...],
        peer: int | None,
        num_bytes: int,
        dtype: str,
        tag: int,
        sent_bytes: int,
        received_bytes: int,
    ) -> Call:
        """An event begins, and is what this rank does now."""
        key = _sequence_key(kind, group, peer, tag)
        sequence = self._sequences.get(key, 0)
        self._sequences[key] = sequence + 1
        index, self.next_index = self.next_index, self.next_index + 1
        started = time.monotonic()
        facts = (kind, group, group_ranks, peer, num_bytes, dtype, tag, sequence, index, started)
        call = Call(facts, sent_bytes, received_bytes)
        call.number = self.page.add(call.is_message, call.data)
        self._open[index] = call
        self._active.append(call)
        return call

    def resume(self, call: Call) -> None:
        """This rank waits for an event."""
        self._active.append(call)
        self.page.set_current(call.data)

    def leave(self, call: Call, raised: bool = False) -> None:
        """The rank is out of a call or wait."""
        if call in self._active:
            self._active.remove(call)
        if self._active:
            self.page.set_current(self._active[-1].data)
        elif raised:
            self.page.set_current(call.data, RAISED)
        else:
            self.page.clear_current()

    def started(self, call: Call) -> None:
        """The call returned: what it began is on the wire."""
        if call.kind == "send":
            self._count(call, sent_messages=1, sent_bytes=call.sent_bytes)
        elif call.kind == "recv":
            self._count(call, asked_messages=1)
        else:
            self._add_collective(call)

    def _add_collective(self, call: Call) -> None:
        kind, group, ranks, peer, num_bytes, dtype, *_ = call.facts
        known = self._collectives.get(group) or Collectives(ranks=ranks)
        self._collectives[group] = known.followed_by(kind, peer, num_bytes, dtype)

    def refuse(self, call: Call) -> None:
        """The call raised: it is kept as an event that never ended, but is not on the wire."""
        self.leave(call, raised=True)
        kind, group, _, peer, _, _, tag, *_ = call.facts
        self._sequences[_sequence_key(kind, group, peer, tag)] -= 1
        self.page.remove(call.is_message, call.number)
        self._ended.append(self._open.pop(call.index))

    def lose(self, call: Call) -> None:
        """An event that nobody can wait for any more."""
        if self._open.pop(call.index, None) is not None:
            self._lost.append(call)

    def end(self, call: Call, when: float | None = None) -> None:
        """One wait for an event is over; after the last of them it has ended."""
        call.num_pending -= 1
        if call.num_pending or self._open.pop(call.index, None) is None:
            return
        call.ended = time.monotonic() if when is None else when
        self._ended.append(call)
        self.page.end(call.is_message, call.number, call.ended)
        if call.kind == "recv":
            self._count(call, received_messages=1, received_bytes=call.received_bytes)

    def found_peer(self, call: Call, peer: int) -> None:
        """The rank from which a receive from any rank got its message."""
        call.facts = (*call.facts[:3], peer, *call.facts[4:])
        self.started(call)

    def follow(self, work: Any, calls: Sequence[Call]) -> None:
        """These events have ended once this work has."""
        key = id(work)
        followed = _Followed(work, self._drop)
        followed.key, followed.calls = key, calls
        self._works[key] = followed

    def calls_of(self, work: Any) -> Sequence[Call]:
        """The events that end with this work; they stay so after that, for it may be waited for
        again, and forever.
        """
        followed = self._works.get(id(work))
        return () if followed is None else followed.calls

    def work_ended(self, work: Any) -> None:
        """A work was waited for, or is seen to be completed."""
        for call in self.calls_of(work):
            self.end(call)

    def promise(self, work: Any, future: Any) -> None:
        """The events of a work end with this future too, which may outlive the work."""
        if calls := self.calls_of(work):
            self._promised.append((future, calls))

    def events(self, first_index: int = 0) -> list[WireEvent]:
        """The events that are kept, in order, from this index on."""
        self._look()
        calls = [*self._ended, *self._lost, *self._open.values()]
        chosen = [call for call in calls if call.index >= first_index]
        return [call.event() for call in sorted(chosen, key=lambda call: call.index)]

    def unfinished(self, first_index: int = 0) -> list[WireEvent]:
        """The events that have not ended, in order."""
        if self._open:
            self._look()
        calls = [call for call in (*self._lost, *self._open.values()) if call.index >= first_index]
        return [call.event() for call in sorted(calls, key=lambda call: call.index)]

    def left_unfinished(self) -> list[WireEvent]:
        """The unfinished events of this call of the pool."""
        return self.unfinished(self._first_index)

    def traffic(self) -> tuple[Traffic, ...]:
        """What passed between this rank and each other in this call of the pool."""
        return traffic_of(self.page.counts())

    def collectives(self) -> dict[str, Collectives]:
        """By name of a group, its collectives in this call."""
        return dict(self._collectives)

    def totals(self) -> tuple[Traffic, ...]:
        """What passed between this rank and each other since `clear`."""
        return traffic_of([*map(int.__sub__, self.page.counters, self._cleared)])

    def clear(self) -> None:
        """Forget all events that are not open, and start the totals from 0."""
        self._ended.clear()
        self._lost.clear()
        self._cleared = list(self.page.counters)

    def _count(self, call: Call, **amounts: int) -> None:
        peer = call.peer
        if peer is not None:  # a receive from any rank is counted once it has ended
            for name, amount in amounts.items():
                self.page.counters[len(COLUMNS) * peer + _COLUMN[name]] += amount

    def _look(self) -> None:
        done = [(future, calls) for future, calls in self._promised if future.done()]
        for future, calls in done:
            self._promised.remove((future, calls))
            for call in calls:
                if call.ended is None:
                    self.end(call)
        for followed in list(self._works.values()):
            if any(call.ended is None for call in followed.calls):
                work = followed()
                if work is not None and work.is_completed():
                    self.work_ended(work)

    def _drop(self, followed: _Followed) -> None:
        if self._works.get(followed.key) is followed:
            del self._works[followed.key]
        if not any(calls is followed.calls for _, calls in self._promised):
            for call in followed.calls:
                self.lose(call)


def _sequence_key(kind: str, group: str, peer: int | None, tag: int) -> tuple[Any, ...]:
    return (group, kind, peer, tag) if kind in MESSAGES else (group,)
