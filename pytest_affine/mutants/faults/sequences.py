"""Executors with faults that depend on the budget, the group, the memory, or on earlier calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import TransferRefusedError
from pytest_affine.geometry import row_major_strides
from pytest_affine.mutants.faults.executors import FaultyExecutor
from pytest_affine.mutants.faults.parts import (
    NOTHING,
    Buffers,
    Plans,
    changed_tensors,
    each,
    raise_type_error,
)
from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferStats

DEFAULT = StagingBudget()


class TakesAnyGroupForTheWorld(Implementation):
    """Moves in the whole world, whatever the group."""

    def execute_transfers(self, *args: Any, **options: Any) -> TransferStats:
        options["group"] = dist.group.WORLD
        return super().execute_transfers(*args, **options)


class SortsTheGroup(Implementation):
    """Takes the process of that number in the order of ranks for the one that is named."""

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: TransferEndpoints,
        *,
        group: Any = None,
        **options: Any,
    ) -> TransferStats:
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        place = {process: ranks.index(rank) for process, rank in enumerate(sorted(ranks))}
        sides = (
            {at: place[process] for at, process in side}
            for side in (endpoints.source, endpoints.target)
        )
        return super().execute_transfers(
            plans,
            source_buffers,
            target_buffers,
            TransferEndpoints(*sides),
            group=group,
            **options,
        )


class NeedsAGroup(Implementation):
    """Crashes where no group is given."""

    def execute_transfers(self, *args: Any, group: Any = None, **options: Any) -> TransferStats:
        if group is None:
            raise_type_error()
        return super().execute_transfers(*args, group=group, **options)


class DropsASegmentUnderOddBudgets(Implementation):
    """Leaves out the last segment of each plan where the budget is not a multiple of 4."""

    def execute_transfers(
        self, plans: Any, *args: Any, budget: StagingBudget = DEFAULT, **options: Any
    ) -> TransferStats:
        if budget.bytes_per_peer % 4:
            plans = {
                name: replace(plan, segments=plan.segments[:-1]) for name, plan in plans.items()
            }
        return super().execute_transfers(plans, *args, budget=budget, **options)


class DropsSegmentsThatAreCut(Implementation):
    """Leaves out segments that do not fit into the budget."""

    def execute_transfers(
        self, plans: Any, *args: Any, budget: StagingBudget = DEFAULT, **options: Any
    ) -> TransferStats:
        whole = {
            name: replace(
                plan,
                segments=tuple(
                    segment
                    for segment in plan.segments
                    if 4 * segment.num_elements <= budget.bytes_per_peer
                ),
            )
            for name, plan in plans.items()
        }
        return super().execute_transfers(whole, *args, budget=budget, **options)


class KeepsTheFirstPlans(Implementation):
    """Moves the first of all syncs that have equal names."""

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[tuple[str, ...], tuple[Any, Any]] = {}

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: TransferEndpoints,
        **options: Any,
    ) -> TransferStats:
        key = tuple(plans)
        plans, endpoints = self._first.setdefault(key, (plans, endpoints))
        return super().execute_transfers(
            plans, source_buffers, target_buffers, endpoints, **options
        )


class StopsAfterNothing(Implementation):
    """Takes an empty batch for the end, and moves nothing after it."""

    is_over = False

    def execute_transfers(self, plans: Any, *args: Any, **options: Any) -> TransferStats:
        if self.is_over:
            return NOTHING
        self.is_over = not plans
        return super().execute_transfers(plans, *args, **options)


class RefusesOtherPlans(Implementation):
    """Refuses other plans than the first."""

    def __init__(self) -> None:
        super().__init__()
        self._first: Any = None

    def execute_transfers(self, plans: Any, *args: Any, **options: Any) -> TransferStats:
        if plans and self._first is None:
            self._first = plans
        if plans and plans != self._first:
            raise TransferRefusedError("other plans than before")
        return super().execute_transfers(plans, *args, **options)


class FillsWithTheLastRun(FaultyExecutor):
    """Writes what the last call moved into the target that has its place."""

    last: Buffers | None = None

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        kept = changed_tensors(targets, torch.clone)
        if self.last is not None:
            for name, held in targets.items():
                for location, tensor in held.items():
                    old = self.last.get(name, {}).get(location)
                    if old is not None and old.shape == tensor.shape and old.dtype == tensor.dtype:
                        tensor.copy_(old)
        self.last = kept


class LeavesAMessage(FaultyExecutor):
    """Sends a message that no call receives."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        if dist.get_rank() == 0:
            self._work = dist.isend(torch.zeros(1), 1, tag=77)


class SendsMoreThanItSays(FaultyExecutor):
    """Sends 8 bytes to the next rank beyond what it says, where there is something to move."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        if plans:
            own, num_ranks = dist.get_rank(), dist.get_world_size()
            more = torch.zeros(8, dtype=torch.uint8)
            work = dist.isend(more, (own + 1) % num_ranks)
            dist.recv(torch.empty_like(more), (own - 1) % num_ranks)
            assert work is not None
            work.wait()


class BroadcastsMoreThanItSays(FaultyExecutor):
    """Sends 8 bytes to everybody beyond what it says, where there is something to move."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        if plans:
            dist.broadcast(torch.zeros(8, dtype=torch.uint8), 0)


class WritesIntoEarlierTargets(FaultyExecutor):
    """Writes into the targets of the call before."""

    earlier: Buffers | None = None

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        if self.earlier and plans:
            for tensor in each(self.earlier):
                if all(tensor is not own for own in each(targets)):
                    tensor.view(-1)[:1].view(torch.uint8).bitwise_not_()
        self.earlier = targets if plans else self.earlier


class WantsWholeStorages(FaultyExecutor):
    """Moves what is at the beginning of the buffer in which a source lies."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, *rest = arguments
        whole = changed_tensors(
            sources, lambda t: t.as_strided(t.shape, t.stride(), min(t.storage_offset(), 3))
        )
        return plans, whole, *rest


class LooksAtEveryStride(FaultyExecutor):
    """Crashes where an axis of extent 1 has a stride of its own."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        for side in arguments[1:3]:
            if any(tensor.stride() != row_major_strides(tensor.shape) for tensor in each(side)):
                raise_type_error()
        return arguments


class TakesMoreMemory(FaultyExecutor):
    """Takes memory while it executes."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        for tensor in self.copied(sources, targets):
            tensor.clone()

    def copied(self, sources: Buffers, targets: Buffers) -> list[torch.Tensor]:
        raise NotImplementedError


class CopiesSources(TakesMoreMemory):
    """Takes as much memory as the largest source."""

    def copied(self, sources: Buffers, targets: Buffers) -> list[torch.Tensor]:
        return [*each(sources)]


class CopiesTargets(TakesMoreMemory):
    """Takes as much memory as the largest target."""

    def copied(self, sources: Buffers, targets: Buffers) -> list[torch.Tensor]:
        return [*each(targets)]


class StagesTheWholeBatch(Implementation):
    """Stages with the default budget, whatever it is told."""

    def execute_transfers(
        self, *args: Any, budget: StagingBudget = DEFAULT, **options: Any
    ) -> TransferStats:
        return super().execute_transfers(*args, budget=DEFAULT, **options)


class StagesWithHalfTheBudget(Implementation):
    """Stages with half the budget."""

    def execute_transfers(
        self, *args: Any, budget: StagingBudget = DEFAULT, **options: Any
    ) -> TransferStats:
        half = StagingBudget(max(budget.bytes_per_peer // 2, 8))
        return super().execute_transfers(*args, budget=half, **options)
