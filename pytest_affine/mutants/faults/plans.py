"""Planners whose plans have one fault each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import ParamAffineMap
from pytest_affine.mutants.faults.parts import with_segments
from pytest_affine.plans import TransferPlan, TransferSegment


class FaultyPlanner(Implementation):
    """Changes each plan."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        return self.changed(super().plan_transfer(source, target, **options))

    def changed(self, plan: TransferPlan) -> TransferPlan:
        raise NotImplementedError


class DropsTheLastSegment(FaultyPlanner):
    """Leaves out the last segment of each plan."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, plan.segments[:-1])


class RepeatsTheFirstSegment(FaultyPlanner):
    """Adds the first segment of each plan once more."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, (*plan.segments, *plan.segments[:1]))


class ReadsItsOwnNumberOnly(FaultyPlanner):
    """Has a target read only the source that has its own number."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        own = (s for s in plan.segments if s.source_location == s.target_location)
        return with_segments(plan, own)


class KeepsOneOfEqualSizes(FaultyPlanner):
    """Takes source shards of equal size for copies of each other, and reads the first."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        sizes: dict[int, int] = {}
        for segment in plan.segments:
            sizes[segment.source_location] = (
                sizes.get(segment.source_location, 0) + segment.num_elements
            )
        firsts = {size: at for at, size in sorted(sizes.items(), reverse=True)}.values()
        return with_segments(plan, (s for s in plan.segments if s.source_location in firsts))


class WritesPartsEndToEnd(FaultyPlanner):
    """Writes what comes from each source end to end into a target shard."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        ends: dict[int, int] = {}
        segments = []
        for segment in sorted(plan.segments, key=lambda segment: segment.source_location):
            start = ends.get(segment.target_location, 0)
            ends[segment.target_location] = start + segment.num_elements
            strides = row_major_strides(segment.shape)
            segments.append(replace(segment, target_offset=start, target_strides=strides))
        return with_segments(plan, segments)


class SwapsTwoSources(FaultyPlanner):
    """Has the first two segments of one shape read each other's source elements."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        for index, (one, other) in enumerate(zip(plan.segments, plan.segments[1:], strict=False)):
            if one.shape == other.shape and 0 not in one.shape:
                both = self.reading(one, other), self.reading(other, one)
                return with_segments(
                    plan, (*plan.segments[:index], *both, *plan.segments[index + 2 :])
                )
        return plan

    def reading(self, segment: TransferSegment, other: TransferSegment) -> TransferSegment:
        return replace(
            segment,
            source_location=other.source_location,
            source_offset=other.source_offset,
            source_strides=other.source_strides,
        )


class TouchesPadding(FaultyPlanner):
    """Has one more segment in each plan of a map that has padding."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(source, target, **options)
        return with_segments(plan, self.touched(plan, source, target))

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return plan

    def touched(
        self, plan: TransferPlan, source: ParamAffineMap, target: ParamAffineMap
    ) -> Iterable[TransferSegment]:
        raise NotImplementedError


def first_padding(map_: ParamAffineMap) -> tuple[int, int] | None:
    """Location and address of the first element of padding, if there is one."""
    found = [
        (location, block.shard_offset)
        for location, blocks in map_.padding_by_location
        for block in blocks
        if block.num_elements
    ]
    return found[0] if found else None


class WritesPadding(TouchesPadding):
    """Writes one element of padding, of the target, beside all that it must write."""

    def touched(
        self, plan: TransferPlan, source: ParamAffineMap, target: ParamAffineMap
    ) -> Iterable[TransferSegment]:
        if (padding := first_padding(target)) is None or not plan.segments:
            return plan.segments
        first, *_ = plan.segments
        more = TransferSegment(
            source_location=first.source_location,
            source_offset=first.source_offset,
            source_strides=(),
            target_location=padding[0],
            target_offset=padding[1],
            target_strides=(),
            shape=(),
        )
        return (*plan.segments, more)


class ReadsPadding(TouchesPadding):
    """Reads the first segment's elements from padding of the source, where it has some."""

    def touched(
        self, plan: TransferPlan, source: ParamAffineMap, target: ParamAffineMap
    ) -> Iterable[TransferSegment]:
        if (padding := first_padding(source)) is None or not plan.segments:
            return plan.segments
        first, *others = plan.segments
        strides = (0,) * len(first.shape)
        read = replace(
            first, source_location=padding[0], source_offset=padding[1], source_strides=strides
        )
        return (read, *others)


class SaysLargerSources(FaultyPlanner):
    """Says that every source shard has one element more."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        sizes = None if plan.source_sizes is None else one_more(plan.source_sizes)
        return replace(plan, source_sizes=sizes)


class SaysLargerTargets(FaultyPlanner):
    """Says that every target shard has one element more."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        sizes = None if plan.target_sizes is None else one_more(plan.target_sizes)
        return replace(plan, target_sizes=sizes)


def one_more(sizes: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sizes by location, each of them one larger."""
    return tuple((location, size + 1) for location, size in sizes)


class LeavesOutEmptySources(FaultyPlanner):
    """Leaves source shards without elements out of the sizes."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        if plan.source_sizes is None:
            return plan
        return replace(plan, source_sizes=tuple(s for s in plan.source_sizes if s[1]))


class FlattensLogicalShapes(FaultyPlanner):
    """Says that the full tensor has one axis."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, logical_shape=(math.prod(plan.logical_shape),))


class CountsTargetsFromOne(FaultyPlanner):
    """Counts target locations from 1."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        others = (replace(s, target_location=s.target_location + 1) for s in plan.segments)
        return with_segments(plan, others)


class CountsSourcesFromOne(FaultyPlanner):
    """Counts source locations from 1."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        others = (replace(s, source_location=s.source_location + 1) for s in plan.segments)
        return with_segments(plan, others)


class ReadsBehindSources(FaultyPlanner):
    """Reads each segment from behind the end of its source shard."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(source, target, **options)
        return with_segments(
            plan,
            (replace(s, source_offset=source.shard_size(s.source_location)) for s in plan.segments),
        )

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return plan


class CopiesFromTheEnd(FaultyPlanner):
    """Copies from the last element to the first, with strides that no tensor can have."""

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
    """Counts bytes of float32 for elements."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, moved_elements=4 * plan.moved_elements)


class CountsPadding(FaultyPlanner):
    """Counts what the target shards have room for as moved, padding too."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(source, target, **options)
        return replace(plan, moved_elements=sum(map(target.shard_size, target.locations)))

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return plan


class AddsAnEmptySegment(FaultyPlanner):
    """Adds a segment without elements to each plan."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        empty = (replace(s, shape=(0,) * len(s.shape)) for s in plan.segments[:1] if s.shape)
        return with_segments(plan, (*plan.segments, *empty))


class CutsTheOuterAxis(FaultyPlanner):
    """Makes a segment of every row."""

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


class CopiesEachElement(CutsTheOuterAxis):
    """Makes a segment of every element."""

    def rows(self, segment: TransferSegment) -> Iterator[TransferSegment]:
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


class CutsInHalves(CutsTheOuterAxis):
    """Cuts each segment in two, and does not merge neighbours."""

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
