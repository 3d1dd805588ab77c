"""Joining copies that continue each other on both sides, in any number of dimensions.

Copies of one pair of locations are found by the target address that they begin at, so that looking
for what continues one takes constant time. A pass goes through every direction and joins runs; the
passes end when one joins nothing. The cost is linear in the copies, their axes and the passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from pytest_affine.geometry import Axis, join_axes
from pytest_affine.plans import PlanBudget
from pytest_affine.reference.limits import check_limit

__all__ = ["Copy", "Form", "box_form", "merge_copies"]

Direction: TypeAlias = tuple[int, int]
"""A stride in the target shard, and the stride in the source shard that goes with it."""


class Form:
    """How copies step through both shards, in its shortest form; many copies share one.

    Attributes:
        axes: (extent, target stride, source stride), outermost in the target first; every extent
            is more than 1, and no axis runs on into the next on both sides.
        spare: how copies of one element along some axis would go on there.
        shape: the extents; a single element has no axes.
        target_strides: the strides in the target's shard.
        source_strides: the strides in the source's shard.
    """

    def __init__(self, axes: tuple[Axis, ...], spare: tuple[Direction, ...]) -> None:
        self.axes = axes
        self.spare = spare
        fields: tuple[tuple[int, ...], ...] = tuple(zip(*axes, strict=True)) or ((), (), ())
        self.shape, self.target_strides, self.source_strides = fields

    @cached_property
    def extents(self) -> dict[Direction, int]:
        """By direction in which a copy can be continued, innermost first, its elements there."""
        extents = {(target, source): extent for extent, target, source in reversed(self.axes)}
        return extents | {direction: 1 for direction in self.spare if direction not in extents}

    def rest(self, direction: Direction) -> tuple[Axis, ...]:
        """The axes in other directions."""
        return tuple(axis for axis in self.axes if axis[1:] != direction)


class Copy(NamedTuple):
    """A strided copy, from an address in a source shard to one in a target shard."""

    target_location: int
    target_offset: int
    source_location: int
    source_offset: int
    form: Form


def box_form(
    shape: Sequence[int], target_strides: Sequence[int], source_strides: Sequence[int]
) -> Form:
    """The form of copies of one box of the full tensor, given its strides in either shard."""
    axes = list(zip(shape, target_strides, source_strides, strict=True))
    spare = [(target, source) for extent, target, source in reversed(axes) if extent == 1]
    return Form(tuple(join_axes(axes)), tuple(spare))


def merge_copies(copies: Sequence[Copy], limits: PlanBudget) -> list[Copy]:
    """Join copies until no two of them continue each other along one axis on both sides.

    Args:
        copies: copies that write every target element at most once.
        limits: passes are counted per pair of locations, checks over all of them.

    Returns:
        Copies sorted by target location and offset.

    Raises:
        PlanLimitError: more passes, or more checks in all, than `limits` allows.
    """
    if len(set(map(itemgetter(0, 2), copies))) == len(copies):
        return sorted(copies)  # no two between the same locations
    by_locations: dict[tuple[int, int], list[Copy]] = {}
    for copy in copies:
        by_locations.setdefault((copy[0], copy[2]), []).append(copy)
    merged: list[Copy] = []
    num_checks = 0
    for group in by_locations.values():
        if len(group) == 1:
            merged += group
        else:
            num_checks = _merge_group(group, limits, num_checks, merged)
    merged.sort()  # by target location and offset, which no two share
    return merged


def _merge_group(
    group: Sequence[Copy], limits: PlanBudget, num_checks: int, merged: list[Copy]
) -> int:
    """Merge copies of one source and one target location into `merged`; return all checks."""
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
    merged += copies.values()
    return num_checks


def _by_direction(copies: Iterable[Copy]) -> dict[Direction, list[int]]:
    offsets: dict[Direction, list[int]] = {}
    for copy in copies:
        for direction in copy.form.extents:
            offsets.setdefault(direction, []).append(copy.target_offset)
    return offsets


def _merge_along(direction: Direction, offsets: Iterable[int], copies: dict[int, Copy]) -> None:
    """Join the runs in one direction, in place, under the target offset of the first of each."""
    for offset in offsets:
        if offset not in copies:
            continue
        first, *others = _run(copies[offset], direction, copies)
        if not others:
            continue
        extent = sum(copy.form.extents.get(direction, 1) for copy in (first, *others))
        axes = join_axes([*first.form.rest(direction), (extent, *direction)])
        for copy in others:
            del copies[copy.target_offset]
        copies[first.target_offset] = first._replace(form=Form(tuple(axes), first.form.spare))


def _run(copy: Copy, direction: Direction, copies: Mapping[int, Copy]) -> list[Copy]:
    """All copies that continue each other in one direction, `copy` among them.

    What is looked for before it is of one element there; a longer one finds it in its own turn.
    """
    while (before := copies.get(copy.target_offset - direction[0])) and _continues(
        before, copy, direction
    ):
        copy = before
    run = [copy]
    while (after := copies.get(_end(run[-1], direction)[0])) and _continues(
        run[-1], after, direction
    ):
        run.append(after)
    return run


def _end(copy: Copy, direction: Direction) -> tuple[int, int]:
    """Target and source address behind a copy in a direction."""
    extent = copy.form.extents.get(direction, 1)
    target_stride, source_stride = direction
    return copy.target_offset + extent * target_stride, copy.source_offset + extent * source_stride


def _continues(copy: Copy, after: Copy, direction: Direction) -> bool:
    """Whether one copy begins where another ends in a direction, and is like it otherwise."""
    begin = (after.target_offset, after.source_offset)
    return _end(copy, direction) == begin and (
        copy.form is after.form or copy.form.rest(direction) == after.form.rest(direction)
    )
