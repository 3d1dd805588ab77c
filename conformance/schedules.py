"""SCHED-*: what is sent in which message, judged from the schedule and the plans alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

from pytest_affine import strategies
from pytest_affine.conformance._batches import (
    Batch,
    Processes,
    planned_batch,
    scheduled,
    sent_messages,
    sync_of,
    with_budgets,
)
from pytest_affine.conformance._judging import assert_refused, assert_same
from pytest_affine.conformance._refusals import broken
from pytest_affine.contract.cases import Case
from pytest_affine.contract.implementation import NotClaimedError
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.errors import AffineTransferError
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.refusals import UNSCHEDULABLE
from pytest_affine.fixtures.syncs import CORE, EVERYDAY, STRIDED
from pytest_affine.plans import (
    Chunk,
    Queue,
    TransferSegment,
)


@requirement("SCHED-AGREE")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_both_ends_of_every_message_agree(implementation: ImplementationProxy, case: Case) -> None:
    for _, processes in scheduled(implementation, case):
        sent = queues_between(processes, "sends")
        received = queues_between(processes, "receives")
        for sender, receiver in sorted(sent.keys() | received.keys()):
            ends = sent.get((sender, receiver)), received.get((sender, receiver))
            if ends[0] != ends[1]:
                raise AssertionError(
                    f"process {sender} sends to process {receiver} the messages (elements, bytes, "
                    f"chunks) {ends[0]}, which expects {ends[1]}"
                )


Contents = list[tuple[int, int, tuple[Chunk, ...]]]


def queues_between(
    processes: Processes, direction: Literal["sends", "receives"]
) -> dict[tuple[int, int], Contents]:
    """By sender and receiver, elements, bytes and chunks of every message, as one end has them."""
    return {
        (process, peer) if direction == "sends" else (peer, process): [
            (message.num_elements, message.num_bytes, message.chunks) for message in queue.messages
        ]
        for process, own in processes.items()
        for peer, queue in getattr(own, direction).items()
        if queue.messages
    }


@requirement("SCHED-BUDGET")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_no_message_exceeds_the_budget(implementation: ImplementationProxy, case: Case) -> None:
    for batch, processes in scheduled(implementation, case):
        budget = batch.budget.bytes_per_peer
        for sender, receiver, message in sent_messages(processes):
            num_bytes = sum(bytes_of(chunk, batch) for chunk in message.chunks)
            if not num_bytes == message.num_bytes <= budget:
                raise AssertionError(
                    f"a message from process {sender} to process {receiver} has {num_bytes} bytes "
                    f"in its chunks and says {message.num_bytes}; the budget is {budget}"
                )


def bytes_of(chunk: Chunk, batch: Batch) -> int:
    """Bytes of a chunk."""
    return chunk.num_elements * batch.sizes[chunk.parameter]


@requirement("SCHED-VOLUME")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_bytes_sent_are_received_and_with_local_ones_are_what_the_plans_move(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch, processes in scheduled(implementation, case):
        sent = sum(num_bytes(own.sends) for own in processes.values())
        received = sum(num_bytes(own.receives) for own in processes.values())
        local = sum(
            bytes_of(chunk, batch) for own in processes.values() for chunk in own.local_copies
        )
        if sent != received or sent + local != batch.moved_bytes():
            raise AssertionError(
                f"{sent} bytes are sent, {received} received and {local} copied locally; the plans "
                f"move {batch.moved_bytes()}"
            )


def num_bytes(queues: Mapping[int, Queue]) -> int:
    """Bytes of all messages of one direction."""
    return sum(message.num_bytes for queue in queues.values() for message in queue.messages)


@requirement("SCHED-VOLUME")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_every_element_of_every_segment_goes_once_between_the_segments_processes(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch, processes in scheduled(implementation, case):
        assert_moves_once(batch, processes)


def assert_moves_once(batch: Batch, processes: Processes) -> None:
    """Fail unless every element of every segment goes once, between the segment's processes."""
    __tracebackhide__ = True
    moves = Counter(moves_of(processes))
    wanted = Counter(
        ((name, index), batch.ends(segment), element)
        for name, index, segment in batch.segments()
        for element in elements_of(segment)
    )
    for move in sorted((moves - wanted) + (wanted - moves)):
        (name, index), (sender, receiver), element = move
        raise AssertionError(
            f"element {element} of segment {index} of {name!r} goes {moves[move]} times from "
            f"process {sender} to process {receiver}, should go {wanted[move]} times"
        )


Move = tuple[tuple[str, int], tuple[int, int], tuple[int, ...]]


def moves_of(processes: Processes) -> Iterator[Move]:
    """Every element that a schedule moves: (parameter, segment), processes, index."""
    chunks = [((p, p), chunk) for p, own in processes.items() for chunk in own.local_copies]
    for sender, receiver, message in sent_messages(processes):
        chunks += [((sender, receiver), chunk) for chunk in message.chunks]
    for ends, chunk in chunks:
        ranges = (range(o, o + e) for o, e in zip(chunk.origin, chunk.shape, strict=True))
        for element in product(*ranges):
            yield (chunk.parameter, chunk.segment), ends, element


def elements_of(segment: TransferSegment) -> Iterator[tuple[int, ...]]:
    """The index of every element of a segment."""
    return product(*map(range, segment.shape))


@requirement("SCHED-ONE")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_the_schedule_for_one_process_is_its_entry_in_the_schedule_for_all(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch, processes in scheduled(implementation, case):
        alone: dict[int, Processes] = implementation.run(
            scheduled_alone, batch, [*processes], method="schedule_transfers"
        )
        for process, own in processes.items():
            if alone[process] != {process: own}:
                raise AssertionError(
                    f"the schedule for process {process} is {alone[process]}, and its entry in "
                    f"that for all is {own}"
                )


def scheduled_alone(
    resident: Resident, batch: Batch, processes: Sequence[int]
) -> dict[int, Processes]:
    """By process, the schedule for it alone. Called on one rank."""
    return {
        process: batch.given_to(resident.schedule_transfers, process=process).processes
        for process in processes
    }


@requirement("SCHED-SHARED")
@cases(CORE, STRIDED)
def test_one_plan_of_two_parameters_is_moved_for_each(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch in with_budgets(shared(implementation, case)):
        assert_moves_once(batch, batch.given_to(implementation.schedule_transfers).processes)


@requirement("SCHED-SHARED", "analyze_transfers")
@cases(CORE, STRIDED)
def test_one_plan_of_two_parameters_is_counted_twice(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = shared(implementation, case)
    report = batch.given_to(implementation.analyze_transfers)
    volume = report.volume
    said = {
        "segments": report.num_segments,
        "bytes": volume.local_bytes + volume.remote_bytes,
        "segments by size": sum(report.segment_sizes.values()),
    }
    num_segments = len([*batch.segments()])
    wanted = {
        "segments": num_segments,
        "bytes": batch.moved_bytes(),
        "segments by size": num_segments,
    }
    assert_same(said, wanted, "the report")


def shared(implementation: ImplementationProxy, case: Case) -> Batch:
    """The case's batch with one plan object for two parameters."""
    batch = planned_batch(implementation, sync_of(case))
    (name, plan), *_ = batch.plans.items()
    names = (name, f"{name} again")
    return replace(
        batch, plans=dict.fromkeys(names, plan), sizes=dict.fromkeys(names, batch.sizes[name])
    )


@requirement("SCHED-REFUSE")
@cases(UNSCHEDULABLE)
def test_what_cannot_be_scheduled_is_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = planned_batch(implementation, sync_of(case))
    options = {key: value for key, value in case.detail.items() if key == "process"}
    if not set(options) <= set(implementation.claims["schedule_transfers"]):
        raise NotClaimedError("schedule_transfers[process]")
    assert_refused(
        lambda: broken(batch, case.detail).given_to(implementation.schedule_transfers, **options),
        case.detail["fault"],
        kinds=(AffineTransferError,),
    )
