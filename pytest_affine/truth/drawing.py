"""A text drawing of one shard: one character per element."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import ParamAffineMap
from pytest_affine.truth.blocks import Affine, Block
from pytest_affine.truth.problems import Box, Problem, boxes_of, index_at

__all__ = ["draw_shard", "is_drawn"]

MAX_ROWS, MAX_COLUMNS, MAX_SLABS = 16, 64, 4

MARKS = {
    "right": ".",
    "padding": "#",
    "never written": "?",
    "gap": "?",
    "not covered": "?",
    "written twice": "2",
    "overlap": "2",
    "held twice": "2",
    "padding written": "!",
    "wrong element": "x",
    "padding read": "p",
    "nothing read": "n",
    "outside the source": "o",
    "unknown source": "u",
    "wrong holders": "h",
    "scales differ": "s",
}
"""What is drawn, in the order of the legend."""

PARTLY = "~"


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a shard that is drawn: slabs by row-major number, rows and columns."""

    slabs: range
    rows: range
    columns: range


def is_drawn(problem: Problem) -> bool:
    """Whether a problem affects elements inside a shard or the full tensor."""
    return problem.kind in MARKS


def draw_shard(map_: ParamAffineMap, location: int | None, problems: Sequence[Problem] = ()) -> str:
    """Draw the elements of a shard, or of the full tensor where `location` is None.

    The last two axes are rows and columns, the others stacked slabs. Of a large shard the part
    near the first problem is drawn, and "…" stands where it goes on. The legend names the
    characters that occur.

    Args:
        map_: the map that has the shard.
        location: whose shard; `InvalidMapError` if the map has none there.
        problems: of any shards; where several affect one element the first is drawn.
    """
    shape = map_.logical_shape if location is None else map_.shard_shape(location)
    title = f"{'full tensor' if location is None else f'location {location}'}, shape {shape}"
    if math.prod(shape) == 0:
        return f"{title}: no elements"
    here = [problem for problem in problems if problem.location == location and is_drawn(problem)]
    labels = [("padding", box) for box in _padding(map_, location, shape)]
    labels += [(p.kind, Box(p.origin, p.shape, p.num_elements)) for p in reversed(here)]
    window = _window(shape, here[0].origin if here else (0,) * len(shape))
    cells = _paint(labels, shape, window)
    lines = [line for slab in window.slabs for line in _slab(slab, shape, window, cells)]
    more = [] if len(window.slabs) == math.prod(shape[:-2]) else ["…"]
    return "\n".join([title, *lines, *more, _legend(set(cells.values()))])


def _padding(map_: ParamAffineMap, location: int | None, shape: tuple[int, ...]) -> Iterator[Box]:
    for block in () if location is None else map_.padding(location):
        near = Affine(block.shard_offset, block.shard_strides)
        yield from boxes_of(Block(shape=block.shape, near=near), shape)


def _framed(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
    """The same with axes of one row or one element put before, so that there are two."""
    return (fill,) * (2 - len(values)) + values


def _window(shape: tuple[int, ...], first: tuple[int, ...]) -> Window:
    *outer, num_rows, num_columns = _framed(shape, 1)
    *slab, row, column = _framed(first, 0)
    number = Affine(0, row_major_strides(outer)).at(slab)
    return Window(
        slabs=_part(math.prod(outer), number, MAX_SLABS),
        rows=_part(num_rows, row, MAX_ROWS),
        columns=_part(num_columns, column, MAX_COLUMNS),
    )


def _part(extent: int, first: int, most: int) -> range:
    """At most `most` steps of an axis, a few before the first that matters."""
    start = max(0, min(first - 2, extent - most))
    return range(start, min(start + most, extent))


def _paint(
    labels: Sequence[tuple[str, Box]], shape: tuple[int, ...], window: Window
) -> dict[tuple[int, int, int], str]:
    """The label of every element of the window; later ones cover earlier ones."""
    cells = dict.fromkeys(itertools.product(window.slabs, window.rows, window.columns), "right")
    for label, box in labels:
        *outer, rows, columns = (
            range(low, low + extent)
            for low, extent in zip(_framed(box.origin, 0), _framed(box.shape, 1), strict=True)
        )
        exact = box.num_elements == math.prod(box.shape)
        for slab in window.slabs:
            index = index_at(slab, shape[:-2])
            if all(step in steps for step, steps in zip(index, outer, strict=True)):
                shown = _common(rows, window.rows), _common(columns, window.columns)
                for row, column in itertools.product(*shown):
                    cells[slab, row, column] = label if exact else f"in part {label}"
    return cells


def _common(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _slab(
    slab: int, shape: tuple[int, ...], window: Window, cells: dict[tuple[int, int, int], str]
) -> Iterator[str]:
    *outer, num_rows, num_columns = _framed(shape, 1)
    if outer:
        yield f"[{', '.join(map(str, index_at(slab, tuple(outer))))}, :, :]"
    before = "…" if window.columns.start > 0 else ""
    after = "…" if window.columns.stop < num_columns else ""
    width = len(str(window.rows[-1]))
    yield f"{'':{width}} {' ' * len(before)}{_ruler(window.columns)}"
    if window.rows.start > 0:
        yield f"{'…':>{width}}"
    for row in window.rows:
        marks = (MARKS.get(cells[slab, row, column], PARTLY) for column in window.columns)
        yield f"{row:>{width}} {before}{''.join(marks)}{after}"
    if window.rows.stop < num_rows:
        yield f"{'…':>{width}}"


def _ruler(columns: range) -> str:
    """Numbers of the first column and of every fifth, where they fit."""
    line = ""
    for place, column in enumerate(columns):
        if place == 0 or (column % 5 == 0 and len(line) < place):
            line = f"{line:{place}}{column}"
    return line


def _legend(labels: set[str]) -> str:
    order = [*MARKS, *(f"in part {label}" for label in MARKS)]
    found = sorted(labels, key=order.index)
    return ", ".join(f"{MARKS.get(label, PARTLY)} {label}" for label in found)
