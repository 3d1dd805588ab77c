"""Joining copies that continue each other on both sides, in any number of dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from pytest_affine.geometry import Axis, PlacedBox, join_axes
from pytest_affine.plans import PlanBudget, TransferSegment
from pytest_affine.reference.limits import check_limit

__all__ = ["Copy", "copy_box", "merge_copies"]

Direction: TypeAlias = tuple[int, int]
"""A stride in the target shard, and the stride in the source shard that goes with it."""


class _Joint(NamedTuple):
    """Where one copy ends and another begins, and the axes that both must have."""

    rest: tuple[Axis, ...]
    target_offset: int
    source_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A strided copy in its shortest form.

    Attributes:
        source_location: location that is read.
        source_offset: address of the first element in its shard.
        target_location: location that is written.
        target_offset: address of the first element in its shard.
        axes: (extent, target stride, source stride), outermost in the target first; every extent
            is more than 1, and no axis runs on into the next on both sides.
        spare: how copies of one element along some axis would go on there.
    """

    source_location: int
    source_offset: int
    target_location: int
    target_offset: int
    axes: tuple[Axis, ...]
    spare: tuple[Direction, ...]

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Where this copy can be continued, innermost first."""
        return tuple((target, source) for _, target, source in reversed(self.axes)) + self.spare

    def extent(self, direction: Direction) -> int:
        """How many elements it has in a direction."""
        return next((extent for extent, *strides in self.axes if (*strides,) == direction), 1)

    def start(self, direction: Direction) -> _Joint:
        """Where it begins, for one that ends there."""
        rest = tuple(axis for axis in self.axes if axis[1:] != direction)
        return _Joint(rest, self.target_offset, self.source_offset)

    def end(self, direction: Direction) -> _Joint:
        """Where it ends, for one that begins there."""
        start, extent = self.start(direction), self.extent(direction)
        target_stride, source_stride = direction
        return start._replace(
            target_offset=start.target_offset + extent * target_stride,
            source_offset=start.source_offset + extent * source_stride,
        )

    def to_segment(self) -> TransferSegment:
        """The copy as a segment of a plan; a single element has no axes."""
        return TransferSegment(
            source_location=self.source_location,
            source_offset=self.source_offset,
            source_strides=tuple(source for _, _, source in self.axes),
            target_location=self.target_location,
            target_offset=self.target_offset,
            target_strides=tuple(target for _, target, _ in self.axes),
            shape=tuple(extent for extent, _, _ in self.axes),
        )


_Merged: TypeAlias = tuple[list[Copy], int]


def copy_box(
    source_location: int, source: PlacedBox, target_location: int, target: PlacedBox
) -> Copy:
    """The copy of one box of the full tensor, given where it sits in either shard."""
    axes = list(zip(target.shape, target.strides, source.strides, strict=True))
    return Copy(
        source_location=source_location,
        source_offset=source.offset,
        target_location=target_location,
        target_offset=target.offset,
        axes=tuple(join_axes(axes)),
        spare=tuple(
            (target_stride, source_stride)
            for extent, target_stride, source_stride in reversed(axes)
            if extent == 1
        ),
    )


def merge_copies(copies: Iterable[Copy], limits: PlanBudget) -> list[Copy]:
    """Join copies until no two of them continue each other along one axis on both sides.

    Args:
        copies: copies that write every target element at most once.
        limits: passes are counted per pair of locations, checks over all of them.

    Returns:
        Copies sorted by target location and offset.

    Raises:
        PlanLimitError: more passes, or more checks in all, than `limits` allows.
    """
    by_locations: dict[tuple[int, int], list[Copy]] = {}
    for copy in copies:
        by_locations.setdefault((copy.source_location, copy.target_location), []).append(copy)
    merged: list[Copy] = []
    num_checks = 0
    for group in by_locations.values():
        joined, num_checks = _merge_group(group, limits, num_checks)
        merged += joined
    return sorted(merged, key=lambda copy: (copy.target_location, copy.target_offset))


def _merge_group(group: Sequence[Copy], limits: PlanBudget, num_checks: int) -> _Merged:
    """Merge copies of one source and one target location."""
    copies = {copy.target_offset: copy for copy in group}
    num_passes, num_before = 0, 0
    while len(copies) > 1 and len(copies) != num_before:
        num_passes += 1
        check_limit(limits, "max_merge_passes", num_passes)
        num_before = len(copies)
        # In order of first use: an order by size could change with the extents.
        for direction, offsets in _by_direction(copies.values()).items():
            num_checks += len(offsets)
            check_limit(limits, "max_merge_checks", num_checks)
            _merge_along(direction, offsets, copies)
    return list(copies.values()), num_checks


def _by_direction(copies: Iterable[Copy]) -> dict[Direction, list[int]]:
    offsets: dict[Direction, list[int]] = {}
    for copy in copies:
        for direction in copy.directions:
            offsets.setdefault(direction, []).append(copy.target_offset)
    return offsets


def _merge_along(direction: Direction, offsets: Iterable[int], copies: dict[int, Copy]) -> None:
    """Join the runs in one direction, in place, under the target offset of the first of each."""
    for offset in offsets:
        if offset not in copies:
            continue
        run = _run(copies[offset], direction, copies)
        for copy in run[1:]:
            del copies[copy.target_offset]
        if len(run) > 1:
            extent = sum(copy.extent(direction) for copy in run)
            axes = join_axes([*run[0].start(direction).rest, (extent, *direction)])
            copies[run[0].target_offset] = replace(run[0], axes=tuple(axes))


def _run(copy: Copy, direction: Direction, copies: Mapping[int, Copy]) -> list[Copy]:
    """All copies that continue each other in one direction, `copy` among them.

    What is looked for before it is of one element there; a longer one finds it in its own turn.
    """
    while (before := copies.get(copy.target_offset - direction[0])) and (
        before.end(direction) == copy.start(direction)
    ):
        copy = before
    run = [copy]
    while (after := copies.get(run[-1].end(direction).target_offset)) and (
        after.start(direction) == run[-1].end(direction)
    ):
        run.append(after)
    return run
