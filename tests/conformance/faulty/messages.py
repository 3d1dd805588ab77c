"""Schedulers that stage, time or select messages with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from faulty.parts import Plans
from faulty.schedules import FaultyScheduler
from pytest_affine.adapters.reference import Reference
from pytest_affine.geometry import row_major_strides
from pytest_affine.plans import (
    Message,
    ProcessSchedule,
    Queue,
    Schedule,
    TransferEndpoints,
    TransferReport,
)


class FaultyStaging(Reference):
    """Says otherwise which messages are direct, and makes the arenas fit."""

    def schedule_transfers(self, plans: Plans, *args: Any, **options: Any) -> Schedule:
        schedule = super().schedule_transfers(plans, *args, **options)
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


class StagesEverything(FaultyStaging):
    """F49."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        return False


class LooksAtStridesOfExtentsOfOne(FaultyStaging):
    """F49."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        chunk = message.chunks[0]
        strides = getattr(plans[chunk.parameter].segments[chunk.segment], f"{side}_strides")
        return message.direct and strides == row_major_strides(chunk.shape)


class SendsSingleChunksDirectly(FaultyStaging):
    """F28: strided or not."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        return len(message.chunks) == 1


class AsksTheSourceOnly(FaultyStaging):
    """Both sides are direct where the source is."""

    def is_direct(self, message: Message, side: str, plans: Plans) -> bool:
        chunk = message.chunks[0]
        strides = plans[chunk.parameter].segments[chunk.segment].source_strides
        return len(message.chunks) == 1 and strides == row_major_strides(chunk.shape)


class FaultyArenas(FaultyScheduler):
    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        return replace(own, sends=self.sized(own.sends), receives=self.sized(own.receives))

    def sized(self, queues: Mapping[int, Queue]) -> dict[int, Queue]:
        return {
            peer: replace(queue, arena_bytes=self.size(queue)) for peer, queue in queues.items()
        }

    def size(self, queue: Queue) -> int:
        raise NotImplementedError


class ArenasForAll(FaultyArenas):
    """Direct messages too."""

    def size(self, queue: Queue) -> int:
        return max(message.num_bytes for message in queue.messages)


class ArenasOfTheFirst(FaultyArenas):
    def size(self, queue: Queue) -> int:
        first = queue.messages[0]
        return 0 if first.direct else first.num_bytes


class RoundsOfSends(FaultyScheduler):
    """F47."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        lengths = [len(queue.messages) for queue in own.sends.values()]
        return replace(own, num_rounds=max(lengths, default=0))


class RoundsOfTheBatch(Reference):
    """Every process has as many as the busiest."""

    def schedule_transfers(self, *args: Any, **options: Any) -> Schedule:
        own = super().schedule_transfers(*args, **options).processes
        most = max((each.num_rounds for each in own.values()), default=0)
        return Schedule({p: replace(each, num_rounds=most) for p, each in own.items()})


class WaitsForNobody(FaultyScheduler):
    """Receives nothing, and has the rounds for that."""

    def changed(self, own: ProcessSchedule) -> ProcessSchedule:
        lengths = [len(queue.messages) for queue in own.sends.values()]
        return replace(own, receives={}, num_rounds=max(lengths, default=0))


class OneForAll(Reference):
    """The schedule for one process is that for all."""

    def schedule_transfers(
        self, *args: Any, process: int | None = None, **options: Any
    ) -> Schedule:
        return super().schedule_transfers(*args, **options)


class AloneWithoutReceives(Reference):
    def schedule_transfers(
        self, *args: Any, process: int | None = None, **options: Any
    ) -> Schedule:
        own = super().schedule_transfers(*args, process=process, **options).processes
        if process is None:
            return Schedule(own)
        return Schedule({p: replace(each, receives={}) for p, each in own.items()})


def distinct(plans: Plans) -> dict[str, Any]:
    """Each plan object under its first name only."""
    return dict({id(plan): (name, plan) for name, plan in [*plans.items()][::-1]}.values())


class MovesSharedPlansOnce(Reference):
    def schedule_transfers(
        self, plans: Plans, endpoints: TransferEndpoints, **options: Any
    ) -> Schedule:
        return super().schedule_transfers(distinct(plans), endpoints, **options)


class CountsSharedPlansOnce(Reference):
    def analyze_transfers(
        self, plans: Plans, endpoints: TransferEndpoints, **options: Any
    ) -> TransferReport:
        return super().analyze_transfers(distinct(plans), endpoints, **options)
