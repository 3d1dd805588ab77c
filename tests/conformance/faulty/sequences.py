"""Executors with faults that depend on the budget, the group, the memory, or on earlier calls."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from faulty.executors import FaultyExecutor
from faulty.parts import NOTHING, Buffers, Plans, changed_tensors, each, raise_type_error
from pytest_affine.adapters.reference import Reference
from pytest_affine.geometry import row_major_strides
from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferStats


class TakesGroupRanksForGlobalOnes(Reference):
    """F29: whatever the group, it asks who it is in the whole world."""

    def execute_transfers(
        self, plans: Plans, sources: Any, targets: Any, endpoints: TransferEndpoints, **options: Any
    ) -> TransferStats:
        options["group"] = dist.group.WORLD
        return super().execute_transfers(plans, sources, targets, endpoints, **options)


class SortsTheGroup(Reference):
    """F29: takes the process of that number in order for the one that is named."""

    def execute_transfers(
        self,
        plans: Plans,
        sources: Any,
        targets: Any,
        endpoints: TransferEndpoints,
        *,
        group: Any,
        **options: Any,
    ) -> TransferStats:
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        place = {process: ranks.index(rank) for process, rank in enumerate(sorted(ranks))}
        sides = (
            {at: place[process] for at, process in side}
            for side in (endpoints.source, endpoints.target)
        )
        return super().execute_transfers(
            plans, sources, targets, TransferEndpoints(*sides), group=group, **options
        )


class NeedsAGroup(Reference):
    def execute_transfers(self, *args: Any, group: Any, **options: Any) -> TransferStats:
        if group is None:
            raise_type_error()
        return super().execute_transfers(*args, group=group, **options)


class DropsWhatIsLeftOfTheBudget(Reference):
    """Moves only as many parameters as fit whole elements."""

    def execute_transfers(
        self, plans: Plans, *args: Any, budget: StagingBudget, dtype: Any, **options: Any
    ) -> TransferStats:
        if budget.bytes_per_peer % 4:
            plans = {
                name: replace(plan, segments=plan.segments[:-1]) for name, plan in plans.items()
            }
        return super().execute_transfers(plans, *args, budget=budget, dtype=dtype, **options)


class DropsSegmentsThatAreCut(Reference):
    def execute_transfers(
        self, plans: Plans, *args: Any, budget: StagingBudget, **options: Any
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


class KeepsFirstPlans(Reference):
    """F23: of two syncs of equal names, the first is moved always."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], tuple[Any, Any]] = {}

    def execute_transfers(
        self,
        plans: Plans,
        sources: Buffers,
        targets: Buffers,
        endpoints: TransferEndpoints,
        **options: Any,
    ) -> TransferStats:
        key = tuple(plans)
        plans, endpoints = self._first.setdefault(key, (plans, endpoints))
        return super().execute_transfers(plans, sources, targets, endpoints, **options)


class StopsAfterNothing(Reference):
    """Takes an empty batch for the end."""

    is_over = False

    def execute_transfers(self, plans: Plans, *args: Any, **options: Any) -> TransferStats:
        if self.is_over:
            return NOTHING
        self.is_over = not plans
        return super().execute_transfers(plans, *args, **options)


class FillsWithLastRun(FaultyExecutor):
    """F41: writes what the last call moved into the target that has its place."""

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
    """To be received by a later call."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        if dist.get_rank() == 0:
            self._work = dist.isend(torch.zeros(1), 1, tag=77)


class WritesIntoEarlierTargets(FaultyExecutor):
    """Those of the call before."""

    earlier: Buffers | None = None

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        if self.earlier and plans:
            for tensor in each(self.earlier):
                if all(tensor is not own for own in each(targets)):
                    tensor.view(-1)[:1].view(torch.uint8).bitwise_not_()
        self.earlier = targets if plans else self.earlier


class PacksWhatIsNotPacked(FaultyExecutor):
    """Takes any buffer, and loses what it writes."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, targets, endpoints = arguments
        packed = (changed_tensors(side, torch.Tensor.contiguous) for side in (sources, targets))
        return plans, *packed, endpoints


class WantsWholeStorages(FaultyExecutor):
    """F44: moves what is at the beginning of the buffer in which a shard lies."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, *rest = arguments
        whole = changed_tensors(
            sources, lambda t: t.as_strided(t.shape, t.stride(), min(t.storage_offset(), 3))
        )
        return plans, whole, *rest


class LooksAtEveryStride(FaultyExecutor):
    """F49: raises where an axis of extent 1 has a stride of its own."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        for side in arguments[1:3]:
            if any(tensor.stride() != row_major_strides(tensor.shape) for tensor in each(side)):
                raise_type_error()
        return arguments


class TakesMoreMemory(FaultyExecutor):
    """While it executes."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        for tensor in self.copied(sources, targets):
            tensor.clone()

    def copied(self, sources: Buffers, targets: Buffers) -> list[torch.Tensor]:
        raise NotImplementedError


class CopiesSources(TakesMoreMemory):
    def copied(self, sources: Buffers, targets: Buffers) -> list[torch.Tensor]:
        return [*each(sources)]


class CopiesTargets(TakesMoreMemory):
    def copied(self, sources: Buffers, targets: Buffers) -> list[torch.Tensor]:
        return [*each(targets)]


class StagesTheWholeBatch(Reference):
    """F49: with the default budget, whatever it is told."""

    def execute_transfers(self, *args: Any, budget: StagingBudget, **options: Any) -> TransferStats:
        return super().execute_transfers(*args, budget=StagingBudget(), **options)
