"""Blocks as boxes of digits.

The addresses of a space are written in digits: a grid is a list of strides, ascending from 1, each
a multiple of the one before, and the digits of an address say how often each stride is taken; the
last digit has no bound. On a grid that has a block's strides the block is a few boxes of digits,
whatever its extents.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.truth.blocks import Affine, Block

__all__ = ["Axis", "Chart", "Grid", "Numbers", "axes_of", "charts_of", "grid_for"]

MAX_CHARTS = 2**10
"""A block that takes more boxes of digits is refused."""

Grid: TypeAlias = tuple[int, ...]
Numbers: TypeAlias = tuple[int, ...]
Ranges: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A box of digits, lowest digit first.

    Attributes:
        lower: smallest value of each digit.
        upper: one more than the largest.
        far: addresses elsewhere; the index counts each digit from `lower`.
        tag: the block's.
    """

    lower: Numbers
    upper: Numbers
    far: tuple[Affine, ...]
    tag: object


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a block: how far a step goes, in its space and elsewhere."""

    extent: int
    near: int
    far: Numbers

    def every(self, step: int, first: int) -> Axis:
        """The axis of the elements `first`, `first + step` and so on."""
        extent = -(-(self.extent - first) // step)
        return Axis(extent, self.near * step, tuple(far * step for far in self.far))


def charts_of(block: Block, grid: Grid, most: int = MAX_CHARTS) -> list[Chart]:
    """The block as boxes of digits.

    Raises:
        UnsupportedLayoutError: it takes more than `most`.
    """
    axes = axes_of(block)
    steps = [_step(axis, grid) for axis in axes]
    if block.num_elements == 0:
        return []
    if math.prod(steps) <= most:
        charts = list(itertools.islice(_charts(block, axes, steps, grid), most + 1))
        if len(charts) <= most:
            return charts
    raise UnsupportedLayoutError(
        f"the block of shape {block.shape} at address {block.near.offset} with strides "
        f"{block.near.strides} is too large to enumerate, and it takes more than {most} boxes of "
        f"an array of strides {grid[::-1]}"
    )


def axes_of(block: Block) -> list[Axis]:
    """Axes of more than one element, by near stride; those that continue each other are joined."""
    axes = [
        Axis(extent, stride, tuple(side.strides[axis] for side in block.far))
        for axis, (extent, stride) in enumerate(zip(block.shape, block.near.strides, strict=True))
        if extent > 1
    ]
    joined: list[Axis] = []
    for outer in sorted(axes, key=lambda axis: axis.near):
        inner = joined[-1] if joined else None
        if inner and inner.every(inner.extent, 0) == Axis(1, outer.near, outer.far):
            joined[-1] = Axis(inner.extent * outer.extent, inner.near, inner.far)
        else:
            joined.append(outer)
    return joined


def grid_for(axes: Iterable[Axis]) -> Grid:
    """Digits for these axes, the longest first.

    A stride that does not fit those before enters as a common multiple, unless taking the elements
    of its axis one by one makes no more boxes.
    """
    extents: dict[int, int] = {}
    for axis in axes:
        extents[axis.near] = max(axis.extent, extents.get(axis.near, 0))
    extents.pop(0, None)
    grid = [1]
    for stride, extent in sorted(extents.items(), key=lambda item: (-item[1], item[0])):
        digit = stride
        for known in grid:
            if digit % known and known % digit:
                digit = math.lcm(digit, known)
        if digit // stride < extent and digit not in grid:
            bisect.insort(grid, digit)
    return tuple(grid)


def _step(axis: Axis, grid: Grid) -> int:
    """Of how many elements to take one, so that the stride is a digit's or one is left."""
    multiples = (digit // axis.near for digit in grid if axis.near and digit % axis.near == 0)
    return min(axis.extent, next(multiples, axis.extent))


def _charts(block: Block, axes: list[Axis], steps: list[int], grid: Grid) -> Iterator[Chart]:
    for firsts in itertools.product(*map(range, steps)):
        near, far = block.near.offset, tuple(side.offset for side in block.far)
        parts = []
        for axis, first, step in zip(axes, firsts, steps, strict=True):
            near, far = near + first * axis.near, _moved(far, axis.far, first)
            parts.append(axis.every(step, first))
        parts = sorted((axis for axis in parts if axis.extent > 1), key=lambda axis: axis.near)
        for ranges, start, strides in _place(near, far, parts, grid):
            yield Chart(
                lower=tuple(lower for lower, _ in ranges),
                upper=tuple(upper for _, upper in ranges),
                far=tuple(map(Affine, start, zip(*strides, strict=True))),
                tag=block.tag,
            )


def _moved(far: Numbers, strides: Numbers, steps: int) -> Numbers:
    return tuple(start + steps * stride for start, stride in zip(far, strides, strict=True))


def _place(
    near: int, far: Numbers, axes: list[Axis], grid: Grid
) -> Iterator[tuple[Ranges, Numbers, tuple[Numbers, ...]]]:
    """Boxes of digits for axes whose strides are digits, ascending; `near` is in whole `grid[0]`.

    Yields the range of each digit, the far addresses of the box's first element, and how far one
    more of each digit goes elsewhere.
    """
    if not grid:
        yield (), far, ()
        return
    if not axes or axes[0].near != grid[0]:
        axes = [Axis(1, grid[0], (0,) * len(far)), *axes]
    axis, rest = axes[0], axes[1:]
    lower = grid.index(rest[0].near) if rest else len(grid)
    units = tuple(digit // grid[0] for digit in grid[:lower])
    carry = rest[0].near // grid[0] if rest else None
    first = near // grid[0]
    for base, start, stop in _turns(first, first + axis.extent, carry):
        for run in _runs(start, stop, units):
            counted = base + sum(low * unit for (low, _), unit in zip(run, units, strict=True))
            moved = _moved(far, axis.far, counted - first)
            strides = tuple(axis.every(unit, 0).far for unit in units)
            for outer in _place(base * grid[0], moved, rest, grid[lower:]):
                yield run + outer[0], outer[1], strides + outer[2]


def _turns(start: int, stop: int, carry: int | None) -> Iterator[tuple[int, int, int]]:
    """Cut the count from `start` to `stop` where it carries: (carried, start and stop beyond)."""
    if carry is None:
        yield 0, start, stop
        return
    for base in range(start - start % carry, stop, carry):
        yield base, max(start - base, 0), min(stop - base, carry)


def _runs(start: int, stop: int, units: Numbers) -> Iterator[Ranges]:
    """Boxes of the digits that count from `start` to `stop`; no digits count from 0 to 1."""
    if len(units) < 2:
        yield ((start, stop),) * len(units)
        return
    *inner, unit = units
    (first, head), (last, tail) = divmod(start, unit), divmod(stop, unit)
    if first == last:
        parts = [(first, first + 1, head, tail)]
    else:
        whole = first + 1 if head else first
        parts = [(first, whole, head, unit), (whole, last, 0, unit), (last, last + 1, 0, tail)]
    for low, high, begin, end in parts:
        if low < high and begin < end:
            for run in _runs(begin, end, tuple(inner)):
                yield (*run, (low, high))
