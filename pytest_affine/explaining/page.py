"""A drawn sync as one page of HTML, which is well-formed XML and needs nothing beside it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TypeAlias

from pytest_affine.explaining.holdings import (
    Explained,
    ExplainedParameter,
    Move,
    Region,
    Shard,
    Side,
)
from pytest_affine.explaining.text import (
    locations_of,
    ranges_of,
    shard_text,
    shown,
    size_text,
)

__all__ = ["to_page"]

Box: TypeAlias = tuple[float, float, float, float]
"""x, y, width and height of a rectangle."""

WIDTH, HEIGHT, LARGEST_CELL = 360, 240, 36
SHARD_HEIGHT = 18
MAX_RECTANGLES = 512
"""Of one side's full tensor so many are drawn, and the caption says so."""

MAX_SHARDS = 64

STYLE = """
body { font: 14px sans-serif; margin: 2em; }
section { border-top: 1px solid #999; }
figure { display: inline-block; margin: 0 2em 1em 0; vertical-align: top; }
svg { display: block; margin: 0.3em 0; }
svg text { font: 11px sans-serif; text-anchor: middle; dominant-baseline: central; }
rect { stroke: #333; }
.padding { fill: #bbb; }
.refusal, .trouble { color: #a00; white-space: pre-wrap; }
td { padding: 0 1em 0 0; text-align: right; }
"""
HATCH = (
    '<svg width="0" height="0"><defs><pattern id="hatch" width="6" height="6" '
    'patternUnits="userSpaceOnUse"><path d="M0,6 L6,0" stroke="#333"/></pattern></defs></svg>'
)


def to_page(explained: Explained) -> str:
    """The whole drawing.

    Of each side one rectangle per box of the full tensor, coloured by the process of its first
    holder, with a second, hatched one over it if it has several; and one per shard, with a second,
    grey one for its padding.
    """
    refusal = ""
    if explained.refusal is not None:
        refusal = f'<p class="refusal">refused: {_safe(explained.refusal)}</p>\n'
    sections = "\n".join(map(_section, explained.parameters))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"/>'
        f"<title>A sync</title><style>{STYLE}</style></head>\n<body>\n{HATCH}\n"
        "<p>Colours are processes. What is hatched has several holders; what is grey is padding."
        f"</p>\n{refusal}{sections}\n</body>\n</html>\n"
    )


def _safe(text: str) -> str:
    """Text as XML may hold it: escaped, and without control characters."""
    lines = (shown(line) for line in text.splitlines())
    return escape("\n".join(lines))


def _section(parameter: ExplainedParameter) -> str:
    sides = "\n".join(_figure(side, parameter.shape) for side in parameter.sides)
    return (
        f"<section>\n<h2>{_safe(shown(parameter.name))} {list(parameter.shape)}</h2>\n{sides}\n"
        f"{_table('moves', parameter.moves)}{_table('stays', parameter.stays)}</section>"
    )


def _figure(side: Side, shape: Sequence[int]) -> str:
    caption = f"{side.title}, {_safe(side.dtype)}"
    if side.trouble is not None:
        drawn = f'<p class="trouble">{_safe(side.trouble)}</p>'
    else:
        drawn = _full(side, shape)
    return f"<figure><figcaption>{caption}</figcaption>\n{drawn}\n{_shards(side.shards)}\n</figure>"


def _full(side: Side, shape: Sequence[int]) -> str:
    num_rows, num_columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    if num_rows * num_columns == 0:
        return "<p>no elements</p>"
    across, down = min(LARGEST_CELL, WIDTH / num_columns), min(LARGEST_CELL, HEIGHT / num_rows)
    places = ((region, *place) for region in side.regions for place in _places(region, shape))
    drawn = [
        _region(
            region,
            (column * across, row * down, columns * across, rows * down),
            side.process_of,
        )
        for region, row, column, rows, columns in itertools.islice(places, MAX_RECTANGLES)
    ]
    more = ""
    if next(places, None) is not None:
        more = f"<p>only the first {MAX_RECTANGLES} rectangles are drawn</p>"
    return _svg(num_columns * across, num_rows * down, drawn) + more


def _places(region: Region, shape: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Where a box is if all axes but the last are rows: row, column, rows, columns."""
    if not shape:
        yield 0, 0, 1, 1
        return
    *outer, rows = (1, *region.shape[:-1])
    *first, row = (0, *region.origin[:-1])
    *extents, length = (1, *shape[:-1])
    ranges = (range(low, low + extent) for low, extent in zip(first, outer, strict=True))
    for index in itertools.product(*ranges):
        slab = 0
        for step, extent in zip(index, extents, strict=True):
            slab = slab * extent + step
        yield slab * length + row, region.origin[-1], rows, region.shape[-1]


def _region(region: Region, box: Box, process_of: Mapping[int, int | None]) -> str:
    first = region.locations[0]
    title = f"{ranges_of(region)} at {locations_of(region)}"
    drawn = _rectangle(box, f'fill="{_colour(process_of[first])}"', title)
    if len(region.locations) > 1:
        drawn += _rectangle(box, 'class="replica" fill="url(#hatch)"', title)
    return drawn + _label(box, locations_of(region))


def _colour(process: int | None) -> str:
    """Neighbours differ most: the golden angle is between their hues."""
    return "#fff" if process is None else f"hsl({process * 137.5 % 360:g}, 60%, 75%)"


def _rectangle(box: Box, looks: str, title: str) -> str:
    x, y, width, height = (f"{value:.6g}" for value in box)
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {looks}>'
        f"<title>{title}</title></rect>"
    )


def _label(box: Box, text: str) -> str:
    """The text in the middle of a box, if it fits."""
    x, y, width, height = box
    if width < 7 * len(text) or height < 12:
        return ""
    return f'<text x="{x + width / 2:.6g}" y="{y + height / 2:.6g}">{text}</text>'


def _svg(width: float, height: float, drawn: Sequence[str]) -> str:
    size = f'width="{width + 2:.6g}" height="{height + 2:.6g}"'
    box = f'viewBox="-1 -1 {width + 2:.6g} {height + 2:.6g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>{"".join(drawn)}</svg>'


def _shards(shards: Sequence[Shard]) -> str:
    largest = max((math.prod(shard.shape) for shard in shards), default=0) or 1
    rows = "".join(
        f"<li>{_safe(shard_text(shard))}{_bar(shard, WIDTH / largest)}</li>"
        for shard in shards[:MAX_SHARDS]
    )
    more = len(shards) - MAX_SHARDS
    return f"<ul>{rows}</ul>" + (f"<p>and {more:,} more</p>" if more > 0 else "")


def _bar(shard: Shard, element_width: float) -> str:
    """How large a shard is beside the others, and how much of it is padding."""
    num_held = math.prod(shard.shape) - shard.num_padding
    held, padding = num_held * element_width, shard.num_padding * element_width
    title = f"location {shard.location}"
    bar = (0.0, 0.0, held, float(SHARD_HEIGHT))
    drawn = [_rectangle(bar, f'fill="{_colour(shard.process)}"', title)]
    if padding:
        behind = (held, 0.0, padding, float(SHARD_HEIGHT))
        drawn.append(_rectangle(behind, 'class="padding"', f"{title}, padding"))
    return _svg(WIDTH, SHARD_HEIGHT, drawn)


def _table(title: str, moves: Sequence[Move]) -> str:
    if not moves:
        return ""
    rows = "".join(
        f"<tr><td>process {move.sender}</td><td>process {move.receiver}</td>"
        f"<td>{size_text(move.num_bytes, 'byte')}</td>"
        f"<td>{size_text(move.num_segments, 'segment')}</td></tr>\n"
        for move in moves
    )
    return f"<table><caption>{title}</caption>\n{rows}</table>\n"
