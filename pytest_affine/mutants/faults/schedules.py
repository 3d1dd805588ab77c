"""Schedulers whose queues have one fault each, or that take what must be refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import AffineTransferError
from pytest_affine.mutants.faults.parts import Plans, raise_type_error
from pytest_affine.plans import (
    Chunk,
    Message,
    ProcessSchedule,
    Queue,
    Schedule,
    StagingBudget,
    TransferEndpoints,
)

Messages: TypeAlias = tuple[Message, ...]


class FaultyScheduler(Implementation):
    """Changes each process's part of the schedule, where nothing is cast."""

    def schedule_transfers(self, *args: Any, **options: Any) -> Schedule:
        schedule = super().schedule_transfers(*args, **options)
        if options.get("cast"):
            return schedule
        return Schedule({p: self.changed(own) for p, own in schedule.processes.items()})

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        raise NotImplementedError


def changed_queues(
    queues: Mapping[int, Queue], change: Callable[[Messages], Messages]
) -> dict[int, Queue]:
    """Queues with other messages."""
    return {peer: replace(queue, messages=change(queue.messages)) for peer, queue in queues.items()}


class FaultyReceives(FaultyScheduler):
    """Has receivers expect other messages."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, receives=changed_queues(own.receives, self.expected))

    def expected(self, messages: Messages) -> Messages:
        return tuple(map(self.expected_message, messages))

    def expected_message(self, message: Message) -> Message:
        raise NotImplementedError


class ReceivesInAnotherOrder(FaultyReceives):
    """Has receivers expect the last message first."""

    def expected(self, messages: Messages) -> Messages:
        return messages[::-1]


class ExpectsOneMessageLess(FaultyReceives):
    """Has receivers expect one message less from each peer."""

    def expected(self, messages: Messages) -> Messages:
        return messages[:-1]


class ExpectsMoreElements(FaultyReceives):
    """Has receivers expect one element more in each message."""

    def expected_message(self, message: Message) -> Message:
        return replace(message, num_elements=message.num_elements + 1)


class ExpectsMoreBytes(FaultyReceives):
    """Has receivers expect one byte more in each message."""

    def expected_message(self, message: Message) -> Message:
        return replace(message, num_bytes=message.num_bytes + 1)


class ExpectsOtherChunks(FaultyReceives):
    """Has receivers expect the chunks of a message in reverse order."""

    def expected_message(self, message: Message) -> Message:
        return replace(message, chunks=message.chunks[::-1])


class SchedulesNoReceives(FaultyScheduler):
    """Schedules nothing to receive."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, receives={})


class SchedulesNoLocalCopies(FaultyScheduler):
    """Schedules no local copies."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, local_copies=())


class FaultyBothEnds(FaultyScheduler):
    """Changes messages at both ends, so that they agree."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        sends = changed_queues(own.sends, self.queued)
        receives = changed_queues(own.receives, self.queued)
        return replace(own, sends=sends, receives=receives)

    def queued(self, messages: Messages) -> Messages:
        raise NotImplementedError


class ForgetsLastMessages(FaultyBothEnds):
    """Leaves out the last message of each queue, at both ends."""

    def queued(self, messages: Messages) -> Messages:
        return messages[:-1]


class SaysFewerBytes(FaultyBothEnds):
    """Says half of the bytes of each message, at both ends, and not in its chunks."""

    def queued(self, messages: Messages) -> Messages:
        return tuple(replace(message, num_bytes=message.num_bytes // 2) for message in messages)


class SaysMoreBytes(FaultyBothEnds):
    """Says twice the bytes of each message, at both ends, and not in its chunks."""

    def queued(self, messages: Messages) -> Messages:
        return tuple(replace(message, num_bytes=message.num_bytes * 2) for message in messages)


class MovesOneChunkTwice(FaultyScheduler):
    """Copies one chunk twice in place of another, so that all bytes add up."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, local_copies=tuple(self.repeated(own.local_copies)))

    def repeated(self, chunks: tuple[Chunk, ...]) -> Iterator[Chunk]:
        seen: dict[tuple[int, ...], Chunk] = {}
        for chunk in chunks:
            yield seen.setdefault(chunk.shape, chunk)


class DoublesTheBudget(Implementation):
    """Schedules with twice the budget, where nothing is cast."""

    def schedule_transfers(self, *args: Any, budget: StagingBudget, **options: Any) -> Schedule:
        factor = 1 if options.get("cast") else 2
        doubled = StagingBudget(factor * budget.bytes_per_peer)
        return super().schedule_transfers(*args, budget=doubled, **options)


class SchedulesEmptyBatches(Implementation):
    """Schedules an empty batch without looking at the budget."""

    def schedule_transfers(self, plans: Plans, *args: Any, **options: Any) -> Schedule:
        return super().schedule_transfers(plans, *args, **options) if plans else Schedule({})


class SchedulesUnknownProcesses(Implementation):
    """Schedules nothing for a process that no endpoint names."""

    def schedule_transfers(
        self,
        plans: Plans,
        endpoints: TransferEndpoints,
        *,
        process: int | None = None,
        **options: Any,
    ) -> Schedule:
        if process is None:
            return super().schedule_transfers(plans, endpoints, **options)
        if process in endpoints.processes:
            return super().schedule_transfers(plans, endpoints, process=process, **options)
        nothing = ProcessSchedule(sends={}, receives={}, local_copies=(), num_rounds=0)
        return Schedule({process: nothing})


class TakesAnyBudget(Implementation):
    """Takes a budget that holds no element for one of 8 bytes."""

    def schedule_transfers(self, *args: Any, budget: StagingBudget, **options: Any) -> Schedule:
        usable = StagingBudget(max(int(budget.bytes_per_peer), 8))
        return super().schedule_transfers(*args, budget=usable, **options)


class TruncatesBudgets(Implementation):
    """Takes a fractional budget for the integer below."""

    def schedule_transfers(self, *args: Any, budget: StagingBudget, **options: Any) -> Schedule:
        whole = StagingBudget(int(budget.bytes_per_peer))
        return super().schedule_transfers(*args, budget=whole, **options)


class LeavesOutUnboundLocations(Implementation):
    """Leaves out segments of locations that have no endpoint."""

    def schedule_transfers(
        self, plans: Plans, endpoints: TransferEndpoints, **options: Any
    ) -> Schedule:
        sources, targets = dict(endpoints.source), dict(endpoints.target)
        bound = {
            name: replace(
                plan,
                segments=tuple(
                    segment
                    for segment in plan.segments
                    if segment.source_location in sources and segment.target_location in targets
                ),
                source_sizes=None,
                target_sizes=None,
            )
            for name, plan in plans.items()
        }
        return super().schedule_transfers(bound, endpoints, **options)


class TakesAnyProcess(Implementation):
    """Takes a negative or fractional process for process 0."""

    def schedule_transfers(
        self, plans: Plans, endpoints: TransferEndpoints, **options: Any
    ) -> Schedule:
        sides = (
            {at: p if type(p) is int and p >= 0 else 0 for at, p in side}
            for side in (endpoints.source, endpoints.target)
        )
        return super().schedule_transfers(plans, TransferEndpoints(*sides), **options)


class CrashesInSchedules(Implementation):
    """Crashes on what can't be scheduled."""

    def schedule_transfers(self, *args: Any, **options: Any) -> Schedule:
        try:
            return super().schedule_transfers(*args, **options)
        except AffineTransferError:
            raise_type_error()
