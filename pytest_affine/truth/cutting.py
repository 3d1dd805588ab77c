"""Cutting blocks into groups that coincide: element by element, or by boxes of any size."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence

from pytest_affine.truth.blocks import Affine, Block, Cut, Group, cut_by_element
from pytest_affine.truth.digits import Chart, Grid, Numbers, axes_of, charts_of, grid_for

__all__ = ["MAX_ENUMERATED", "choose_cut", "cut_by_box"]

MAX_ENUMERATED = 2**16
"""Up to so many elements of all blocks together, every single one is looked at."""


def choose_cut(spaces: Iterable[Iterable[Block]], max_enumerated: int) -> Cut:
    """How to cut the blocks of these spaces: by element while all have few elements together."""
    total = sum(block.num_elements for blocks in spaces for block in blocks)
    return cut_by_element if total <= max_enumerated else cut_by_box


def cut_by_box(blocks: Sequence[Block]) -> Iterator[Group]:
    """Cut blocks into groups: those of one group coincide, and two groups share no address.

    Boxes of digits are split against each other, so the work depends on the number of blocks and
    never on their extents.

    Args:
        blocks: blocks of one space, with strides of at least 0.

    Raises:
        UnsupportedLayoutError: a block is no union of few boxes.
    """
    grid = grid_for(axis for block in blocks for axis in axes_of(block))
    charts = [chart for block in blocks for chart in charts_of(block, grid)]
    for lower, upper, members in _split(charts):
        yield _group(lower, upper, members, grid)


def _split(charts: list[Chart]) -> Iterator[tuple[Numbers, Numbers, list[Chart]]]:
    """Cut space until every chart that meets a box covers it: (lower, upper, charts)."""
    if not charts:
        return
    lower = tuple(map(min, zip(*(chart.lower for chart in charts), strict=True)))
    upper = tuple(map(max, zip(*(chart.upper for chart in charts), strict=True)))
    boxes = [(lower, upper, charts)]
    while boxes:
        lower, upper, members = boxes.pop()
        digit, cuts = _cuts(lower, upper, members)
        if not cuts:
            yield lower, upper, members
            continue
        cut = sorted(cuts)[len(cuts) // 2]
        above = [chart for chart in members if chart.upper[digit] > cut]
        below = [chart for chart in members if chart.lower[digit] < cut]
        if above:
            boxes.append((_put(lower, digit, cut), upper, above))
        if below:
            boxes.append((lower, _put(upper, digit, cut), below))


def _cuts(lower: Numbers, upper: Numbers, charts: list[Chart]) -> tuple[int, set[int]]:
    """The digit at which charts begin or end in most places within a box, and those places."""
    best: tuple[int, set[int]] = (0, set())
    for digit, (low, high) in enumerate(zip(lower, upper, strict=True)):
        places = {chart.lower[digit] for chart in charts} | {chart.upper[digit] for chart in charts}
        inside = {place for place in places if low < place < high}
        if len(inside) > len(best[1]):
            best = (digit, inside)
    return best


def _put(values: Numbers, digit: int, value: int) -> Numbers:
    return (*values[:digit], value, *values[digit + 1 :])


def _group(lower: Numbers, upper: Numbers, charts: list[Chart], grid: Grid) -> Group:
    extents = tuple(map(operator.sub, upper, lower))
    kept = [digit for digit, extent in enumerate(extents) if extent > 1]
    near = Affine(Affine(0, grid).at(lower), tuple(grid[digit] for digit in kept))
    return tuple(
        Block(
            shape=tuple(extents[digit] for digit in kept),
            near=near,
            far=tuple(
                Affine(
                    side.at(map(operator.sub, lower, chart.lower)),
                    tuple(side.strides[digit] for digit in kept),
                )
                for side in chart.far
            ),
            tag=chart.tag,
        )
        for chart in charts
    )
