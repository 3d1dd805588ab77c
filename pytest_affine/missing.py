"""Messages that ranks wait for in vain, as the schedules of what they execute know them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from pytest_affine.plans import Chunk, Message, ProcessSchedule, Schedule
from pytest_affine.ranks.wire import MissingMessage

__all__ = ["missing_messages"]

MAX_SEGMENTS = 8
"""How many segments of a message are named."""


def missing_messages(missing: Sequence[MissingMessage], schedules: Sequence[Schedule]) -> list[str]:
    """Say which message of which pair each of these is: its number, bytes, round and segments.

    Pure. A message whose bytes are not those that the schedules have at its place is left out.

    Args:
        missing: `RankFailure.missing` of a call that ran past its deadline.
        schedules: of the batches that the ranks executed in that call, in order; all in one group,
            with one message on the wire for each of the schedule and no others.
    """
    return [line for each in missing for line in _lines(each, schedules)]


def _lines(missing: MissingMessage, schedules: Sequence[Schedule]) -> Iterator[str]:
    rank, event = missing.rank, missing.event
    if event.peer is None or not {rank, event.peer} <= {*event.group_ranks}:
        return
    process, peer = event.group_ranks.index(rank), event.group_ranks.index(event.peer)
    index = event.sequence
    for number, schedule in enumerate(schedules, 1):
        messages = _queue(schedule.processes.get(process), event.kind, peer)
        if index >= len(messages):
            index -= len(messages)
            continue
        if messages[index].num_bytes == event.num_bytes:
            waits, towards, never = _WORDS[event.kind]
            call = f" in batch {number} of {len(schedules)}" if len(schedules) > 1 else ""
            yield (
                f"rank {rank} {waits} message {index + 1} of {len(messages)} {towards} rank "
                f"{event.peer}{call} ({event.num_bytes:,} bytes, round {index + 1}: "
                f"{_segments(messages[index].chunks)}), which rank {event.peer} never {never}"
            )
        return


_WORDS = {
    "recv": ("waits for", "from", "sent"),
    "send": ("waits to send", "to", "asked for"),
}


def _queue(own: ProcessSchedule | None, kind: str, peer: int) -> tuple[Message, ...]:
    queues = {} if own is None else own.receives if kind == "recv" else own.sends
    return queues[peer].messages if peer in queues else ()


def _segments(chunks: Sequence[Chunk]) -> str:
    """The segments that a message has chunks of, by parameter."""
    found = dict.fromkeys((chunk.parameter, chunk.segment) for chunk in chunks)
    texts = []
    for name, own in groupby(islice(found, MAX_SEGMENTS), lambda each: each[0]):
        numbers = [str(segment) for _, segment in own]
        texts.append(f"parameter {name!r}, segment{'s'[: len(numbers) > 1]} {', '.join(numbers)}")
    more = len(found) - MAX_SEGMENTS
    return "; ".join([*texts, f"and {more} more"] if more > 0 else texts)
