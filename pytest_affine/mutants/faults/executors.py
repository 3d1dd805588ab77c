"""Executors that move with one fault each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import TransferRefusedError
from pytest_affine.geometry import row_major_strides
from pytest_affine.mutants.faults.parts import (
    NOTHING,
    Buffers,
    Plans,
    changed_segments,
    changed_tensors,
    each,
    raise_type_error,
)
from pytest_affine.plans import TransferEndpoints, TransferPlan, TransferStats


class FaultyExecutor(Implementation):
    """Does something before and something after the transfer, where nothing is cast."""

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: TransferEndpoints,
        **options: Any,
    ) -> TransferStats:
        if options.get("cast"):
            return super().execute_transfers(
                plans, source_buffers, target_buffers, endpoints, **options
            )
        arguments = self.before(plans, source_buffers, target_buffers, endpoints)
        stats = super().execute_transfers(*arguments, **options)
        self.after(plans, source_buffers, target_buffers, endpoints)
        return stats

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        return arguments

    def after(
        self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: TransferEndpoints
    ) -> None:
        pass


class SkipsLocalCopies(FaultyExecutor):
    """Leaves out what stays within a process."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, _, targets, endpoints = arguments
        self._kept = [
            (region, region.clone()) for region in self.local_regions(plans, targets, endpoints)
        ]
        return arguments

    def after(self, *arguments: Any) -> None:
        for region, kept in self._kept:
            region.copy_(kept)

    def local_regions(
        self, plans: Plans, targets: Buffers, endpoints: TransferEndpoints
    ) -> Iterator[torch.Tensor]:
        own = dist.get_rank()
        sources, reached = dict(endpoints.source), dict(endpoints.target)
        for name, plan in plans.items():
            for segment in plan.segments:
                ends = sources[segment.source_location], reached[segment.target_location]
                if ends == (own, own):
                    tensor = targets[name][segment.target_location]
                    offset = tensor.storage_offset() + segment.target_offset
                    yield tensor.as_strided(segment.shape, segment.target_strides, offset)


class SwapsTwoOffsets(FaultyExecutor):
    """Has the first two segments of a plan read at each other's offset, where they can."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, *rest = arguments
        return {name: self.swapped(plan) for name, plan in plans.items()}, *rest

    def swapped(self, plan: TransferPlan) -> TransferPlan:
        if len(plan.segments) < 2:
            return plan
        first, second, *others = plan.segments
        if first.shape != second.shape or first.source_location != second.source_location:
            return plan
        offsets = first.source_offset, second.source_offset
        first = replace(first, source_offset=offsets[1])
        second = replace(second, source_offset=offsets[0])
        return replace(plan, segments=(first, second, *others))


class ReadsStridedAsPacked(FaultyExecutor):
    """Reads a strided region as if it were packed."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, *rest = arguments
        packed = changed_segments(
            plans, lambda s: replace(s, source_strides=row_major_strides(s.shape))
        )
        return packed, *rest


class ReadsFromTheStoragesStart(FaultyExecutor):
    """Counts source offsets from the start of the storage."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, *rest = arguments
        at_start = changed_tensors(sources, lambda t: t.as_strided(t.shape, t.stride(), 0))
        return plans, at_start, *rest


class WritesAtTheStoragesStart(FaultyExecutor):
    """Counts target offsets from the start of the storage."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, targets, endpoints = arguments
        at_start = changed_tensors(targets, lambda t: t.as_strided(t.shape, t.stride(), 0))
        return plans, sources, at_start, endpoints


class LosesTheSignOfZero(FaultyExecutor):
    """Adds zero to elements on their way."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, *rest = arguments
        return (
            plans,
            changed_tensors(sources, lambda t: t if t.dtype == torch.bool else t + 0),
            *rest,
        )


class CastsOnTheWay(FaultyExecutor):
    """Casts elements to float64 and back on their way."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, *rest = arguments
        return plans, changed_tensors(sources, self.cast), *rest

    def cast(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double().to(tensor.dtype)


class CastsFloat8OnTheWay(CastsOnTheWay):
    """Casts elements of float8 dtypes to float64 and back on their way."""

    def cast(self, tensor: torch.Tensor) -> torch.Tensor:
        return super().cast(tensor) if "float8" in str(tensor.dtype) else tensor


class CastsIntegersOnTheWay(CastsOnTheWay):
    """Casts int64 to float64 and back on its way."""

    def cast(self, tensor: torch.Tensor) -> torch.Tensor:
        return super().cast(tensor) if tensor.dtype == torch.int64 else tensor


class LosesImaginaryPartsOnTheWay(CastsOnTheWay):
    """Moves the real parts of complex numbers only."""

    def cast(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.real.to(tensor.dtype) if tensor.is_complex() else tensor


class DeliversOnlyOnce(Implementation):
    """Moves nothing when it runs the same plans again."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Any, Any] = (None, None)

    def execute_transfers(self, plans: Any, *args: Any, **options: Any) -> TransferStats:
        if self._last[0] is not plans:
            self._last = plans, super().execute_transfers(plans, *args, **options)
        stats: TransferStats = self._last[1]
        return stats


class KeepsTheFirstValues(Implementation):
    """Moves the values of the first run again when it runs the same plans."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Any, Any] = (None, None)

    def execute_transfers(
        self, plans: Any, source_buffers: Any, *args: Any, **options: Any
    ) -> TransferStats:
        if self._last[0] is not plans:
            self._last = plans, changed_tensors(source_buffers, torch.clone)
        return super().execute_transfers(plans, self._last[1], *args, **options)


class FillsRankZeroOnly(FaultyExecutor):
    """Leaves the targets of all ranks but the first as they were."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, targets, endpoints = arguments
        if dist.get_rank() > 0:
            targets = changed_tensors(targets, torch.clone)
        return plans, sources, targets, endpoints


class WritesBehindTargets(FaultyExecutor):
    """Clears the element behind each target."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        for tensor in each(targets):
            tensor.as_strided((1,), (1,), tensor.storage_offset() + tensor.numel()).zero_()


class WritesBeforeTargets(FaultyExecutor):
    """Clears the element before each target."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        for tensor in each(targets):
            tensor.as_strided((1,), (1,), tensor.storage_offset() - 1).zero_()


class ClearsTargets(FaultyExecutor):
    """Clears targets before it fills them, padding too."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        for tensor in each(arguments[2]):
            tensor.zero_()
        return arguments


class ClearsSources(FaultyExecutor):
    """Clears sources when they have been moved."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        for tensor in each(sources):
            tensor.zero_()


class FillsOneLocationPerProcess(FaultyExecutor):
    """Fills one target of each parameter and process."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, targets, endpoints = arguments
        firsts = {
            name: {
                location: tensor if location == min(held) else tensor.clone()
                for location, tensor in held.items()
            }
            for name, held in targets.items()
        }
        return plans, sources, firsts, endpoints


class NeedsEmptyBuffers(FaultyExecutor):
    """Crashes where the buffer of an empty target is left out."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, _, targets, endpoints = arguments
        bound = [location for location, process in endpoints.target if process == dist.get_rank()]
        for name in plans:
            if not set(bound) <= targets.get(name, {}).keys():
                raise_type_error()
        return arguments


class RefusesWhenItHasMoved(FaultyExecutor):
    """Refuses a batch when it has moved it, on every rank that has a target."""

    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        if targets:
            raise TransferRefusedError("this should not have been moved")


class SkipsIdleRanks(Implementation):
    """Does not take part on a rank that no endpoint names."""

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: TransferEndpoints,
        **options: Any,
    ) -> TransferStats:
        if dist.get_rank() not in endpoints.processes:
            return NOTHING
        return super().execute_transfers(
            plans, source_buffers, target_buffers, endpoints, **options
        )


class SkipsRanksWithoutElements(Implementation):
    """Does not take part on a rank whose target shards are all empty."""

    def execute_transfers(
        self, plans: Any, source_buffers: Any, target_buffers: Any, *args: Any, **options: Any
    ) -> TransferStats:
        if not any(tensor.numel() for tensor in each(target_buffers)):
            return NOTHING
        return super().execute_transfers(plans, source_buffers, target_buffers, *args, **options)
