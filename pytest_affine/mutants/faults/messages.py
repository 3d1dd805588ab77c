"""Schedulers that stage, time or select messages with one fault each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.geometry import row_major_strides
from pytest_affine.mutants.faults.parts import Plans
from pytest_affine.mutants.faults.schedules import FaultyScheduler
from pytest_affine.plans import (
    Message,
    ProcessSchedule,
    Queue,
    Schedule,
    TransferEndpoints,
    TransferReport,
)


class FaultyStaging(Implementation):
    """Says otherwise which messages are direct, and makes the arenas fit, where nothing is cast."""

    def schedule_transfers(self, plans: Plans, *args: Any, **options: Any) -> Schedule:
        schedule = super().schedule_transfers(plans, *args, **options)
        if options.get("cast"):
            return schedule
        return Schedule({p: self.staged(own, plans) for p, own in schedule.processes.items()})

    def staged(self, own: ProcessSchedule, plans: Plans) -> ProcessSchedule:
        sides = {
            side: {peer: self.queue(queue, side, plans) for peer, queue in queues.items()}
            for side, queues in (("source", own.sends), ("target", own.receives))
        }
        return replace(own, sends=sides["source"], receives=sides["target"])

    def queue(self, queue: Queue, side: str, plans: Plans) -> Queue:
        messages = tuple(
            replace(message, direct=self.is_direct(message, side, plans))
            for message in queue.messages
        )
        staged = [message.num_bytes for message in messages if not message.direct]
        return Queue(messages, max(staged, default=0))

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        raise NotImplementedError


def strides_of(message: Message, side: str, plans: Plans) -> tuple[int, ...]:
    """Strides of the first chunk of a message in the shard of one side."""
    segment = plans[message.chunks[0].parameter].segments[message.chunks[0].segment]
    return segment.source_strides if side == "source" else segment.target_strides


class StagesEverything(FaultyStaging):
    """Stages every message."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        return False


class StagesWhatIsReceived(FaultyStaging):
    """Stages every message that is received."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        return message.direct and side == "source"


class LooksAtStridesOfExtentsOfOne(FaultyStaging):
    """Stages a region whose axis of extent 1 has a stride of its own."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        packed = row_major_strides(message.chunks[0].shape)
        return message.direct and strides_of(message, side, plans) == packed


class LooksAtStridesOfZero(FaultyStaging):
    """Stages a region that has a stride of 0, though along an extent of 1."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        return message.direct and 0 not in strides_of(message, side, plans)


class SendsSingleChunksDirectly(FaultyStaging):
    """Moves messages of one chunk directly, whether it is packed or not."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        return len(message.chunks) == 1


class SendsManyChunksDirectly(FaultyStaging):
    """Moves messages of several chunks directly."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        return message.direct or len(message.chunks) > 1


class AsksTheSourceOnly(FaultyStaging):
    """Moves a message directly on both sides where the source is packed."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        packed = row_major_strides(message.chunks[0].shape)
        return len(message.chunks) == 1 and strides_of(message, "source", plans) == packed


class FaultyArenas(FaultyScheduler):
    """Has arenas of other sizes."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, sends=self.sized(own.sends), receives=self.sized(own.receives))

    def sized(self, queues: Mapping[int, Queue]) -> dict[int, Queue]:
        return {
            peer: replace(queue, arena_bytes=self.size(queue)) for peer, queue in queues.items()
        }

    def size(self, queue: Queue) -> int:
        raise NotImplementedError


class ArenasForAll(FaultyArenas):
    """Has arenas for direct messages too."""

    def size(self, queue: Queue) -> int:
        return max((message.num_bytes for message in queue.messages), default=0)


class ArenasOfTheFirst(FaultyArenas):
    """Has arenas that hold the first message."""

    def size(self, queue: Queue) -> int:
        return next((0 if m.direct else m.num_bytes for m in queue.messages), 0)


class ArenasOfTheSum(FaultyArenas):
    """Has arenas that hold all staged messages at one time."""

    def size(self, queue: Queue) -> int:
        return sum(message.num_bytes for message in queue.messages if not message.direct)


class RoundsOfSends(FaultyScheduler):
    """Has as many rounds as messages to send to one peer."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        lengths = [len(queue.messages) for queue in own.sends.values()]
        return replace(own, num_rounds=max(lengths, default=0))


class RoundsOfTheBatch(Implementation):
    """Has as many rounds for every process as the busiest has."""

    def schedule_transfers(self, *args: Any, **options: Any) -> Schedule:
        own = super().schedule_transfers(*args, **options).processes
        most = max((each.num_rounds for each in own.values()), default=0)
        return Schedule({p: replace(each, num_rounds=most) for p, each in own.items()})


class WaitsForNobody(FaultyScheduler):
    """Has nothing to receive, and the rounds for that."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        lengths = [len(queue.messages) for queue in own.sends.values()]
        return replace(own, receives={}, num_rounds=max(lengths, default=0))


class SchedulesAllForOne(Implementation):
    """Gives the schedule for all in place of that for one process."""

    def schedule_transfers(
        self, *args: Any, process: int | None = None, **options: Any
    ) -> Schedule:
        return super().schedule_transfers(*args, **options)


class SchedulesOneWithoutReceives(Implementation):
    """Leaves out what is received in the schedule for one process."""

    def schedule_transfers(
        self, *args: Any, process: int | None = None, **options: Any
    ) -> Schedule:
        if process is None:
            return super().schedule_transfers(*args, **options)
        own = super().schedule_transfers(*args, process=process, **options).processes
        return Schedule({p: replace(each, receives={}) for p, each in own.items()})


def distinct(plans: Plans) -> Plans:
    """Each plan object under its first name only."""
    return dict({id(plan): (name, plan) for name, plan in [*plans.items()][::-1]}.values())


class MovesSharedPlansOnce(Implementation):
    """Schedules a plan of two parameters once."""

    def schedule_transfers(
        self, plans: Plans, endpoints: TransferEndpoints, **options: Any
    ) -> Schedule:
        return super().schedule_transfers(distinct(plans), endpoints, **options)


class CountsSharedPlansOnce(Implementation):
    """Counts a plan of two parameters once in its report."""

    def analyze_transfers(
        self, plans: Plans, endpoints: TransferEndpoints, **options: Any
    ) -> TransferReport:
        return super().analyze_transfers(distinct(plans), endpoints, **options)
