"""SCHED-DIRECT, -ARENA and -ROUNDS: how each message is staged, and when it is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_affine import strategies
from pytest_affine.conformance._batches import Batch, Processes, scheduled
from pytest_affine.conformance._regions import batch_of_segment, segment_cases
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.segments import SEGMENTS
from pytest_affine.fixtures.syncs import EVERYDAY
from pytest_affine.plans import Chunk, Message, ProcessSchedule, Queue

SIDES = {"sends": "source", "receives": "target"}
"""Which side of a segment a direction of messages touches."""


@requirement("SCHED-DIRECT")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_a_message_is_direct_exactly_when_it_is_one_packed_region(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch, processes in scheduled(implementation, case):
        assert_direct(implementation, batch, processes)


@requirement("SCHED-DIRECT")
@cases(SEGMENTS)
@drawn(segment_cases)
def test_the_packed_test_is_that_of_torch_for_any_shape_and_strides(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = batch_of_segment(case.detail)
    assert_direct(
        implementation, batch, batch.given_to(implementation.schedule_transfers).processes
    )


def assert_direct(implementation: ImplementationProxy, batch: Batch, processes: Processes) -> None:
    """Fail unless each side of each message is direct exactly when it has to be."""
    __tracebackhide__ = True
    ends = [*ends_of_messages(processes)]
    single = [end for end in ends if len(end.message.chunks) == 1]
    regions = [region(end, batch) for end in single]
    packed: list[bool] = implementation.run(are_packed, regions, method="schedule_transfers")
    wanted = {id(end): is_packed for end, is_packed in zip(single, packed, strict=True)}
    for end in ends:
        is_cast = batch.is_cast_at(end.message.chunks[0].parameter, SIDES[end.direction])
        if end.message.direct != (wanted.get(id(end), False) and not is_cast):
            about = "not one" if id(end) not in wanted else f"one, of {region(end, batch)}"
            about += ", cast here" * is_cast
            raise AssertionError(
                f"{end} is {'direct' if end.message.direct else 'staged'}; its chunks are {about}"
            )


@dataclass(frozen=True, slots=True)
class End:
    """A message as one of its two processes has it."""

    process: int
    direction: str
    peer: int
    index: int
    message: Message

    def __str__(self) -> str:
        """Which message it is."""
        towards = "to" if self.direction == "sends" else "from"
        return f"message {self.index} of process {self.process} {towards} process {self.peer}"


def ends_of_messages(processes: Processes) -> Iterator[End]:
    """Every message, once at its sender and once at its receiver."""
    for process, direction, peer, queue in queues(processes):
        for index, message in enumerate(queue.messages):
            yield End(process, direction, peer, index, message)


def queues(processes: Processes) -> Iterator[tuple[int, str, int, Queue]]:
    """Every queue: (process, direction, peer, queue)."""
    for process, own in processes.items():
        for direction in SIDES:
            for peer, queue in getattr(own, direction).items():
                yield process, direction, peer, queue


Region = tuple[tuple[int, ...], tuple[int, ...]]


def region(end: End, batch: Batch) -> Region:
    """Shape and strides, in the shard of this end, of the only chunk of a message."""
    chunk: Chunk = end.message.chunks[0]
    segment: Any = batch.plans[chunk.parameter].segments[chunk.segment]
    return chunk.shape, getattr(segment, f"{SIDES[end.direction]}_strides")


def are_packed(resident: Resident, regions: Sequence[Region]) -> list[bool]:
    """What torch says of these regions. Called on one rank."""
    import torch

    return [torch.empty_strided(*each, device="meta").is_contiguous() for each in regions]


@requirement("SCHED-ARENA")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_an_arena_holds_the_largest_staged_message_and_no_more(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch, processes in scheduled(implementation, case):
        for process, direction, peer, queue in queues(processes):
            staged = [message.num_bytes for message in queue.messages if not message.direct]
            if queue.arena_bytes != max(staged, default=0):
                raise AssertionError(
                    f"process {process} {direction} staged messages of {staged} bytes for process "
                    f"{peer} and has an arena of {queue.arena_bytes} bytes; the budget is "
                    f"{batch.budget.bytes_per_peer}"
                )


@requirement("SCHED-ROUNDS")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_a_process_has_as_many_rounds_as_its_longest_queue_and_they_all_end(
    implementation: ImplementationProxy, case: Case
) -> None:
    for _, processes in scheduled(implementation, case):
        for process, own in processes.items():
            lengths = [
                len(queue.messages) for queue in (*own.sends.values(), *own.receives.values())
            ]
            if own.num_rounds != max(lengths, default=0):
                raise AssertionError(
                    f"process {process} has {own.num_rounds} rounds for queues of {lengths}"
                    " messages"
                )
        assert_rounds_end(processes)


def assert_rounds_end(processes: Processes) -> None:
    """Fail if processes that take their rounds in order wait for each other forever.

    A process leaves a round when each of its messages in it was also posted by the peer, which
    does so in the round of the message's place in its own queue.
    """
    __tracebackhide__ = True
    rounds = dict.fromkeys(processes, 0)
    while True:
        able = [p for p, own in processes.items() if can_go_on(p, own, rounds, processes)]
        if not able:
            break
        for process in able:
            rounds[process] += 1
    for process, own in processes.items():
        if rounds[process] < own.num_rounds:
            raise AssertionError(
                f"process {process} waits in round {rounds[process]} of {own.num_rounds} forever; "
                f"the others are in {rounds}"
            )


def can_go_on(
    process: int, own: ProcessSchedule, rounds: dict[int, int], processes: Processes
) -> bool:
    """Whether a process is in a round, and all its messages in it have been posted by its peers."""
    index = rounds[process]
    if index >= own.num_rounds:
        return False
    for direction, opposite in (("sends", "receives"), ("receives", "sends")):
        for peer, queue in getattr(own, direction).items():
            if index < len(queue.messages):
                theirs = (
                    getattr(processes[peer], opposite).get(process) if peer in processes else None
                )
                if theirs is None or index >= len(theirs.messages) or rounds[peer] < index:
                    return False
    return True
