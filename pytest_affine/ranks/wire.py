"""What passes between ranks, as values: events, counters, and what is known of a rank."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

MESSAGES = frozenset({"send", "recv"})
"""The kinds of events that have one peer; all others are collectives."""

DEFAULT_GROUP = "0"
"""The name that torch gives to the default group."""

TAP_FILES = tuple(
    str(Path(__file__).with_name(name)) for name in ("methods.py", "functional.py", "trouble.py")
)
"""Where the frames of the tap and of faults on the wire are, which are not shown."""

_TO_ROOT = frozenset({"reduce", "gather"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WireEvent:
    """One send, receive or collective, as one rank made it; ranks are global ones.

    Attributes:
        kind: `send`, `recv`, or the name of the collective in torch.distributed.
        group: the name of the process group.
        group_ranks: its ranks.
        peer: the other rank of a message (None: receives from any), or the root of a collective.
        num_bytes: size of the message; of a collective, of one rank's part.
        dtype: its data type, as `float32`; empty for a barrier.
        tag: tag of a message.
        sequence: number among the rank's messages of this kind, peer, group and tag, or among its
            collectives of this group; from 0 in each call of the pool.
        index: number among all events of the rank.
        started: when it was begun, in seconds of `time.monotonic`.
        ended: when it was waited for, or seen to be complete; None before that.
        sent_bytes: size of what the rank gave to it.
        received_bytes: size of what the rank gets out of it.
        sent_parts: of an all-to-all, the bytes that the rank gave for each of `group_ranks`.
    """

    kind: str
    group: str
    group_ranks: tuple[int, ...]
    peer: int | None
    num_bytes: int
    dtype: str
    tag: int
    sequence: int
    index: int
    started: float
    ended: float | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    sent_parts: tuple[int, ...] = ()

    @property
    def is_message(self) -> bool:
        """Whether it is a send or receive."""
        return self.kind in MESSAGES

    @property
    def operation(self) -> str:
        """What it does, in words that members of a collective have in common."""
        text = f"{self.kind} of {self.num_bytes} bytes of {self.dtype}" if self.dtype else self.kind
        if self.peer is not None:
            towards = "to" if self.kind == "send" or self.kind in _TO_ROOT else "from"
            text += f" {towards} rank {self.peer}"
        elif self.is_message:
            text += " from any rank"
        return f"{text} with tag {self.tag}" if self.tag else text

    def __str__(self) -> str:
        """The operation and its group; the default group goes without saying in a message."""
        if self.group == DEFAULT_GROUP:
            return self.operation if self.is_message else f"{self.operation} on the default group"
        return f"{self.operation} on group {self.group} of ranks {[*self.group_ranks]}"


@dataclass(frozen=True, slots=True)
class MissingMessage:
    """A message that a rank waits for, and that the rank at its other end has not begun.

    Attributes:
        rank: who waits.
        event: its send or receive.
    """

    rank: int
    event: WireEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """How many messages passed between a rank and one peer, and their bytes.

    `asked` are receives that were begun, `received` those of them that ended.
    """

    sent_messages: int = 0
    sent_bytes: int = 0
    asked_messages: int = 0
    received_messages: int = 0
    received_bytes: int = 0


NUM_COMPARED = 8
"""How many of the latest collectives can be named where those of two ranks differ."""

_SIZES_AGREE = frozenset({"all_reduce", "broadcast", "reduce"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectives:
    """The collectives of a group that one rank has entered, to be compared with another's.

    Attributes:
        ranks: the ranks of the group.
        count: how many there were.
        digest: of what all ranks must have in common, of all of them in order.
        latest: that of the latest ones, as texts.
    """

    ranks: tuple[int, ...]
    count: int = 0
    digest: int = 0
    latest: tuple[str, ...] = ()

    def followed_by(self, kind: str, peer: int | None, num_bytes: int, dtype: str) -> Collectives:
        """These and one more."""
        size = f" of {num_bytes} bytes" if kind in _SIZES_AGREE else ""
        root = "" if peer is None else f", root {peer}"
        text = f"{kind}{size}{f' of {dtype}' if dtype else ''}{root}"
        return Collectives(
            ranks=self.ranks,
            count=self.count + 1,
            digest=zlib.crc32(text.encode(), self.digest),
            latest=(*self.latest[1 - NUM_COMPARED :], text),
        )


COLUMNS = tuple(field.name for field in fields(Traffic))
"""The order of the counters in a table of traffic."""


def traffic_of(counts: Sequence[int]) -> tuple[Traffic, ...]:
    """A table of traffic: for each peer in order, its counters in the order of COLUMNS."""
    starts = range(0, len(counts), len(COLUMNS))
    rows = (counts[start : start + len(COLUMNS)] for start in starts)
    return tuple(Traffic(**dict(zip(COLUMNS, row, strict=True))) for row in rows)


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a rank's page tells about its current call of the pool.

    Attributes:
        current: the event that the rank is in, or that raised in it; None if it is in none.
        raised: whether the current event raised.
        recent: the latest messages and collectives, in order.
        traffic: by peer, in the order of the ranks.
    """

    current: WireEvent | None
    raised: bool
    recent: tuple[WireEvent, ...]
    traffic: tuple[Traffic, ...]
