"""Schedulers with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from faulty.parts import Plans, raise_type_error
from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import (
    AffineTransferError,
)
from pytest_affine.plans import (
    Chunk,
    ProcessSchedule,
    Queue,
    Schedule,
    StagingBudget,
    TransferEndpoints,
)


class FaultyScheduler(Reference):
    """Changes each process's part of the schedule."""

    def schedule_transfers(self, *args: Any, **options: Any) -> Schedule:
        schedule = super().schedule_transfers(*args, **options)
        return Schedule({p: self.changed(own) for p, own in schedule.processes.items()})

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        raise NotImplementedError


def changed_queues(
    queues: Mapping[int, Queue], change: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> dict[int, Queue]:
    return {peer: replace(queue, messages=change(queue.messages)) for peer, queue in queues.items()}


class ReceivesInAnotherOrder(FaultyScheduler):
    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, receives=changed_queues(own.receives, lambda queue: queue[::-1]))


class ExpectsOneMessageLess(FaultyScheduler):
    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, receives=changed_queues(own.receives, lambda queue: queue[:-1]))


class SchedulesNoReceives(FaultyScheduler):
    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, receives={})


class SchedulesNoLocalCopies(FaultyScheduler):
    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, local_copies=())


class ForgetsLastMessages(FaultyScheduler):
    """On both ends, so that they agree."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        sends = changed_queues(own.sends, lambda queue: queue[:-1])
        receives = changed_queues(own.receives, lambda queue: queue[:-1])
        return replace(own, sends=sends, receives=receives)


class MovesOneChunkTwice(FaultyScheduler):
    """In place of another, so that all bytes add up."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, local_copies=tuple(self.repeated(own.local_copies)))

    def repeated(self, chunks: tuple[Chunk, ...]) -> Iterator[Chunk]:
        seen: dict[tuple[int, ...], Chunk] = {}
        for chunk in chunks:
            yield seen.setdefault(chunk.shape, chunk)


class DoublesTheBudget(Reference):
    def schedule_transfers(self, *args: Any, budget: StagingBudget, **options: Any) -> Schedule:
        doubled = StagingBudget(2 * budget.bytes_per_peer)
        return super().schedule_transfers(*args, budget=doubled, **options)


class SaysFewerBytes(FaultyScheduler):
    """On both ends, and not in its chunks."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        def halved(queue: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(replace(message, num_bytes=message.num_bytes // 2) for message in queue)

        sends, receives = changed_queues(own.sends, halved), changed_queues(own.receives, halved)
        return replace(own, sends=sends, receives=receives)


class SchedulesEmptyBatches(Reference):
    """F50: without looking at the budget."""

    def schedule_transfers(self, plans: Plans, *args: Any, **options: Any) -> Schedule:
        return super().schedule_transfers(plans, *args, **options) if plans else Schedule({})


class SchedulesUnknownProcesses(Reference):
    """F50: with nothing to do."""

    def schedule_transfers(
        self,
        plans: Plans,
        endpoints: TransferEndpoints,
        *,
        process: int | None = None,
        **options: Any,
    ) -> Schedule:
        if process is None or process in endpoints.processes:
            return super().schedule_transfers(plans, endpoints, process=process, **options)
        nothing = ProcessSchedule(sends={}, receives={}, local_copies=(), num_rounds=0)
        return Schedule({process: nothing})


class TakesAnyBudget(Reference):
    def schedule_transfers(self, *args: Any, budget: StagingBudget, **options: Any) -> Schedule:
        usable = StagingBudget(max(int(budget.bytes_per_peer), 8))
        return super().schedule_transfers(*args, budget=usable, **options)


class LeavesOutUnboundLocations(Reference):
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


class RaisesTypeErrors(Reference):
    def schedule_transfers(self, *args: Any, **options: Any) -> Schedule:
        try:
            return super().schedule_transfers(*args, **options)
        except AffineTransferError:
            raise_type_error()


class NoProcessOption(Reference):
    """No fault: it does not claim the option."""

    def schedule_transfers(
        self, plans: Plans, endpoints: TransferEndpoints, *, element_size: Any, budget: Any
    ) -> Schedule:
        return super().schedule_transfers(
            plans, endpoints, element_size=element_size, budget=budget
        )
