"""Planners whose plans have one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from pytest_affine.adapters.reference import Reference
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferPlan, TransferSegment


class FaultyPlanner(Reference):
    """Changes each plan."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        return self.changed(super().plan_transfer(source, target, **options))

    def changed(self, plan: TransferPlan) -> TransferPlan:
        raise NotImplementedError


def with_segments(plan: TransferPlan, segments: Iterable[TransferSegment]) -> TransferPlan:
    kept = tuple(segments)
    return replace(plan, segments=kept, moved_elements=sum(s.num_elements for s in kept))


class DropsLastSegment(FaultyPlanner):
    """F22."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, plan.segments[:-1])


class RepeatsFirstSegment(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, (*plan.segments, *plan.segments[:1]))


class ReadsOwnNumberOnly(FaultyPlanner):
    """F24: a target reads only the source that has its own number."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        own = (s for s in plan.segments if s.source_location == s.target_location)
        return with_segments(plan, own)


class KeepsOneOfEqualSizes(FaultyPlanner):
    """F19: takes source shards of equal size for copies, and reads the first."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        firsts = {size: at for at, size in reversed(plan.source_sizes or ())}.values()
        return with_segments(plan, (s for s in plan.segments if s.source_location in firsts))


class WritesPartsEndToEnd(FaultyPlanner):
    """F43: a target shard is what comes from each source, end to end."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        ends: dict[int, int] = {}
        segments = []
        for segment in sorted(plan.segments, key=lambda segment: segment.source_location):
            start = ends.get(segment.target_location, 0)
            ends[segment.target_location] = start + segment.num_elements
            strides = row_major_strides(segment.shape)
            segments.append(replace(segment, target_offset=start, target_strides=strides))
        return with_segments(plan, segments)


class SaysLargerTargets(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(
            plan, target_sizes=tuple((at, size + 1) for at, size in plan.target_sizes or ())
        )


class SaysNoSizes(FaultyPlanner):
    """No fault: a plan may lack them."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, source_sizes=None, target_sizes=None)


class LeavesOutEmptySources(FaultyPlanner):
    """F17: in its sizes."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, source_sizes=tuple(s for s in plan.source_sizes or () if s[1]))


class FlattensLogicalShapes(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, logical_shape=(math.prod(plan.logical_shape),))


class CountsLocationsFromOne(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        others = (replace(s, target_location=s.target_location + 1) for s in plan.segments)
        return with_segments(plan, others)


class CopiesBackwards(FaultyPlanner):
    """From the last element to the first: strides that no tensor can have."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, map(self.turned, plan.segments))

    def turned(self, segment: TransferSegment) -> TransferSegment:
        last = [extent - 1 for extent in segment.shape]
        source, target = (
            sum(index * stride for index, stride in zip(last, strides, strict=True))
            for strides in (segment.source_strides, segment.target_strides)
        )
        return replace(
            segment,
            source_offset=segment.source_offset + source,
            source_strides=tuple(-stride for stride in segment.source_strides),
            target_offset=segment.target_offset + target,
            target_strides=tuple(-stride for stride in segment.target_strides),
        )


class CountsBytes(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, moved_elements=4 * plan.moved_elements)


class CountsPadding(FaultyPlanner):
    """F15: moves what the target shards have room for."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, moved_elements=sum(size for _, size in plan.target_sizes or ()))


class AddsAnEmptySegment(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        empty = (replace(s, shape=(0,) * len(s.shape)) for s in plan.segments[:1])
        return with_segments(plan, (*plan.segments, *empty))


class CutsOuterAxis(FaultyPlanner):
    """F45: makes a segment of every row."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, (row for s in plan.segments for row in self.rows(s)))

    def rows(self, segment: TransferSegment) -> Iterable[TransferSegment]:
        if len(segment.shape) < 2:
            return [segment]
        return [
            replace(
                segment,
                source_offset=segment.source_offset + row * segment.source_strides[0],
                source_strides=segment.source_strides[1:],
                target_offset=segment.target_offset + row * segment.target_strides[0],
                target_strides=segment.target_strides[1:],
                shape=segment.shape[1:],
            )
            for row in range(segment.shape[0])
        ]


class CopiesEachElement(CutsOuterAxis):
    def rows(self, segment: TransferSegment) -> Iterable[TransferSegment]:
        for index in product(*map(range, segment.shape)):
            source, target = (
                sum(position * stride for position, stride in zip(index, strides, strict=True))
                for strides in (segment.source_strides, segment.target_strides)
            )
            yield replace(
                segment,
                source_offset=segment.source_offset + source,
                source_strides=(),
                target_offset=segment.target_offset + target,
                target_strides=(),
                shape=(),
            )


class CutsInHalves(CutsOuterAxis):
    """F45: does not merge neighbours."""

    def rows(self, segment: TransferSegment) -> Iterable[TransferSegment]:
        if not segment.shape or segment.shape[0] < 2:
            return [segment]
        half, *rest = segment.shape[0] // 2, *segment.shape[1:]
        first = replace(segment, shape=(half, *rest))
        second = replace(
            segment,
            source_offset=segment.source_offset + half * segment.source_strides[0],
            target_offset=segment.target_offset + half * segment.target_strides[0],
            shape=(segment.shape[0] - half, *rest),
        )
        return [first, second]
