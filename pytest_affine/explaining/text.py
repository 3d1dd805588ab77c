"""A drawn sync as text, of at most `MAX_LINES` lines per parameter."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from pytest_affine.explaining.holdings import (
    Explained,
    ExplainedParameter,
    Move,
    Region,
    Shard,
    Side,
)

__all__ = [
    "MAX_LINES",
    "locations_of",
    "move_text",
    "ranges_of",
    "shard_text",
    "shown",
    "size_text",
    "to_text",
]

MAX_SHARDS, MAX_REGIONS, MAX_MOVES = 4, 8, 5
MAX_LINES = 1 + 2 * (1 + MAX_SHARDS + MAX_REGIONS) + 2 * (1 + MAX_MOVES)
MAX_COLUMNS = 24
MAX_LOCATIONS = 4


def to_text(explained: Explained) -> str:
    """The whole drawing; parameters are a line apart."""
    refusal = [] if explained.refusal is None else [f"refused: {explained.refusal}"]
    return "\n\n".join([*refusal, *map(_parameter, explained.parameters)])


def shown(name: str) -> str:
    """A name on one line, whatever is in it."""
    return name if name.isprintable() else repr(name)


def size_text(num: int, noun: str) -> str:
    """A number with its noun: `1 byte`, `2,048 bytes`."""
    return f"{num:,} {noun}" if num == 1 else f"{num:,} {noun}s"


def ranges_of(region: Region) -> str:
    """The box as Python would slice it: `[0:2, 4:8]`."""
    ends = (
        f"{low}:{low + extent}" for low, extent in zip(region.origin, region.shape, strict=True)
    )
    return f"[{', '.join(ends)}]"


def locations_of(region: Region) -> str:
    """Who holds it: `0+1`; of many the first few."""
    first = "+".join(map(str, region.locations[:MAX_LOCATIONS]))
    return first if len(region.locations) <= MAX_LOCATIONS else f"{first}+…"


def shard_text(shard: Shard) -> str:
    """One shard: location, process, shape, padding and name."""
    process = "no process" if shard.process is None else f"process {shard.process}"
    padding = f", {shard.num_padding:,} of it padding" if shard.num_padding else ""
    name = f", called {shown(shard.name)}" if shard.name is not None else ""
    return f"location {shard.location} ({process}): {list(shard.shape)}{padding}{name}"


def move_text(move: Move) -> str:
    """One move: `process 0 to process 1: 8 bytes in 1 segment`, or within a process."""
    to = "" if move.sender == move.receiver else f" to process {move.receiver}"
    size = size_text(move.num_bytes, "byte")
    return f"process {move.sender}{to}: {size} in {size_text(move.num_segments, 'segment')}"


def _parameter(parameter: ExplainedParameter) -> str:
    return "\n".join(
        [
            f"{shown(parameter.name)} {list(parameter.shape)}",
            *(line for side in parameter.sides for line in _side(side, parameter.shape)),
            *_listed("moves", parameter.moves),
            *_listed("stays", parameter.stays),
        ]
    )


def _side(side: Side, shape: Sequence[int]) -> list[str]:
    shards = _bounded(map(shard_text, side.shards), MAX_SHARDS)
    if side.trouble is not None:
        drawn = _bounded(side.trouble.splitlines(), MAX_REGIONS)
    else:
        drawn = _grid(side.regions, shape) or _bounded(map(_region, side.regions), MAX_REGIONS)
    return [f"  {side.title}, {side.dtype}", *(f"    {line}" for line in [*shards, *drawn])]


def _region(region: Region) -> str:
    return f"{ranges_of(region)} at {locations_of(region)}"


def _grid(regions: Sequence[Region], shape: Sequence[int]) -> list[str]:
    """Locations element by element; nothing where that is too much, or of more than two axes."""
    num_rows, num_columns = (1, *shape)[-2:] if shape else (1, 1)
    if len(shape) > 2 or not regions or num_rows > MAX_REGIONS or num_columns > MAX_COLUMNS:
        return []
    cells = {
        index: locations_of(region)
        for region in regions
        for index in itertools.product(
            *(
                range(low, low + extent)
                for low, extent in zip(region.origin, region.shape, strict=True)
            )
        )
    }
    width = max(map(len, cells.values()))
    words = [cells[index].rjust(width) for index in sorted(cells)]
    return [" ".join(words[row * num_columns : (row + 1) * num_columns]) for row in range(num_rows)]


def _listed(title: str, moves: Sequence[Move]) -> list[str]:
    if not moves:
        return []
    total = size_text(sum(move.num_bytes for move in moves), "byte")
    lines = _bounded(map(move_text, moves), MAX_MOVES)
    return [f"  {title}, {total}", *(f"    {line}" for line in lines)]


def _bounded(lines: Iterable[str], most: int) -> list[str]:
    """The first lines, and as the last one how many more there are."""
    found = list(lines)
    if len(found) <= most:
        return found
    return [*found[: most - 1], f"… and {len(found) - most + 1:,} more"]
