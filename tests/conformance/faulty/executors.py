"""Executors that move with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from faulty.parts import NOTHING, Buffers, Plans, changed_tensors, each, raise_type_error
from pytest_affine.adapters.reference import Reference
from pytest_affine.geometry import row_major_strides
from pytest_affine.plans import (
    TransferEndpoints,
    TransferPlan,
    TransferSegment,
    TransferStats,
)


class FaultyExecutor(Reference):
    """Does something before and something after the transfer."""

    def execute_transfers(
        self,
        plans: Plans,
        sources: Buffers,
        targets: Buffers,
        endpoints: TransferEndpoints,
        **options: Any,
    ) -> TransferStats:
        arguments = self.before(plans, sources, targets, endpoints)
        stats: TransferStats = super().execute_transfers(*arguments, **options)
        self.after(plans, sources, targets, endpoints)
        return stats

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        return arguments

    def after(
        self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: TransferEndpoints
    ) -> None:
        pass


def changed_segments(
    plans: Plans, change: Callable[[TransferSegment], TransferSegment]
) -> dict[str, TransferPlan]:
    return {
        name: replace(plan, segments=tuple(map(change, plan.segments)))
        for name, plan in plans.items()
    }


class SkipsLocalCopies(FaultyExecutor):
    """F30: puts back what was there before."""

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
    """F28."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, *rest = arguments
        packed = changed_segments(
            plans, lambda s: replace(s, source_strides=row_major_strides(s.shape))
        )
        return packed, *rest


class ReadsFromStorageStart(FaultyExecutor):
    """F44."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, *rest = arguments
        at_start = changed_tensors(sources, lambda t: t.as_strided(t.shape, t.stride(), 0))
        return plans, at_start, *rest


class WritesAtStorageStart(FaultyExecutor):
    """F44, on the other side."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, targets, endpoints = arguments
        at_start = changed_tensors(targets, lambda t: t.as_strided(t.shape, t.stride(), 0))
        return plans, sources, at_start, endpoints


class LosesSignOfZero(FaultyExecutor):
    """Adds zero on the way."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, *rest = arguments
        return (
            plans,
            changed_tensors(sources, lambda t: t if t.dtype == torch.bool else t + 0),
            *rest,
        )


class QuietsNans(FaultyExecutor):
    """Casts on the way."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, *rest = arguments
        return plans, changed_tensors(sources, lambda t: t.double().to(t.dtype)), *rest


class DeliversOnlyOnce(Reference):
    """F41: a second run of the same plans moves nothing."""

    def __init__(self) -> None:
        self._last: tuple[Any, Any] = (None, None)

    def execute_transfers(self, plans: Plans, *args: Any, **options: Any) -> TransferStats:
        if self._last[0] is not plans:
            self._last = plans, super().execute_transfers(plans, *args, **options)
        stats: TransferStats = self._last[1]
        return stats


class KeepsFirstValues(Reference):
    """A second run of the same plans delivers what the first one did."""

    def __init__(self) -> None:
        self._last: tuple[Any, Any] = (None, None)

    def execute_transfers(
        self, plans: Plans, sources: Buffers, *args: Any, **options: Any
    ) -> TransferStats:
        if self._last[0] is not plans:
            self._last = plans, changed_tensors(sources, torch.clone)
        return super().execute_transfers(plans, self._last[1], *args, **options)


class WritesBehindTargets(FaultyExecutor):
    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        for tensor in each(targets):
            tensor.as_strided((1,), (1,), tensor.storage_offset() + tensor.numel()).zero_()


class WritesBeforeTargets(FaultyExecutor):
    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        for tensor in each(targets):
            tensor.as_strided((1,), (1,), tensor.storage_offset() - 1).zero_()


class ClearsTargets(FaultyExecutor):
    """F15: padding too."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        for tensor in each(arguments[2]):
            tensor.zero_()
        return arguments


class ClearsSources(FaultyExecutor):
    def after(self, plans: Plans, sources: Buffers, targets: Buffers, endpoints: Any) -> None:
        for tensor in each(sources):
            tensor.zero_()


class FillsOneLocationPerProcess(FaultyExecutor):
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
    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, _, targets, endpoints = arguments
        bound = [location for location, process in endpoints.target if process == dist.get_rank()]
        for name in plans:
            if not set(bound) <= targets.get(name, {}).keys():
                raise_type_error()
        return arguments


class SkipsIdleRanks(Reference):
    """F26: a rank that no endpoint names does not take part."""

    def execute_transfers(
        self, plans: Plans, sources: Any, targets: Any, endpoints: TransferEndpoints, **options: Any
    ) -> TransferStats:
        if dist.get_rank() in endpoints.processes:
            return super().execute_transfers(plans, sources, targets, endpoints, **options)
        return NOTHING


class SkipsRanksWithoutElements(Reference):
    """F32: a rank whose target shards are all empty does not take part."""

    def execute_transfers(
        self, plans: Plans, sources: Any, targets: Buffers, *args: Any, **options: Any
    ) -> TransferStats:
        if any(tensor.numel() for tensor in each(targets)):
            return super().execute_transfers(plans, sources, targets, *args, **options)
        return NOTHING
