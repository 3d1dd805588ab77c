"""Random valid maps, messier than any builder's: mixed replicas, cuts, orders, padding, strides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from random import Random
from typing import Any, TypeAlias

from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap

Block: TypeAlias = tuple[tuple[int, ...], int, tuple[int, ...]]
"""Shape, offset and strides of a block of the full tensor."""

FIELDS = (
    "shape",
    "full_offset",
    "full_strides",
    "shard_offset",
    "shard_strides",
    "locations",
    "scale",
)


def random_shape(random: Random) -> tuple[int, ...]:
    """Up to three axes of up to five elements."""
    return tuple(random.randint(1, 5) for _ in range(random.randint(0, 3)))


def random_map(random: Random, logical_shape: tuple[int, ...]) -> ParamAffineMap:
    """A map on one to three locations, of boxes or of flat intervals."""
    shape = random.choice([logical_shape, (math.prod(logical_shape),)])
    held: dict[int, list[tuple[Block, tuple[int, ...]]]] = {
        location: [] for location in range(random.randint(1, 3))
    }
    for block in _cut(random, (shape, 0, row_major_strides(shape))):
        holders = tuple(sorted(random.sample(sorted(held), random.randint(1, len(held)))))
        for location in holders:
            held[location] += [(part, holders) for part in _cut(random, block)]
    shards = {location: _laid_out(random, parts) for location, parts in held.items()}
    return ParamAffineMap(
        logical_shape,
        {location: (size,) for location, (size, _, _) in shards.items()},
        {location: pieces for location, (_, pieces, _) in shards.items()},
        {location: padding for location, (_, _, padding) in shards.items()},
    )


def _cut(random: Random, block: Block) -> Iterator[Block]:
    """Cut a block up, again and again."""
    shape, offset, strides = block
    wide = [axis for axis, extent in enumerate(shape) if extent > 1]
    if not wide or random.random() < 0.4:
        yield block
        return
    axis = random.choice(wide)
    at = random.randint(1, shape[axis] - 1)
    for start, extent in ((0, at), (at, shape[axis] - at)):
        part = (*shape[:axis], extent, *shape[axis + 1 :])
        yield from _cut(random, (part, offset + start * strides[axis], strides))


def _reordered(random: Random, block: Block) -> Block:
    """The same elements with the axes in any order, and perhaps one more of extent 1."""
    shape, offset, strides = block
    axes = list(zip(shape, strides, strict=True))
    axes += [(1, random.randint(0, 7))] * random.randint(0, 1)
    random.shuffle(axes)
    return tuple(extent for extent, _ in axes), offset, tuple(stride for _, stride in axes)


def _laid_out(
    random: Random, parts: list[tuple[Block, tuple[int, ...]]]
) -> tuple[int, list[AffinePiece], list[Padding]]:
    """Parts one behind the other in any order, perhaps at every second address only."""
    spread = random.choice([1, 1, 2])
    parts = random.sample(parts, len(parts))
    stops = [0, *accumulate(math.prod(shape) for (shape, _, _), _ in parts)]
    pieces = []
    for (block, holders), (start, _) in zip(parts, pairwise(stops), strict=True):
        shape, offset, strides = _reordered(random, block)
        shard_strides = tuple(spread * stride for stride in row_major_strides(shape))
        pieces.append(AffinePiece(shape, offset, strides, spread * start, shard_strides, holders))
    padding = [Padding((stops[-1],), 1, (2,))] if spread == 2 else []
    return spread * stops[-1], pieces, padding


def damaged(random: Random, map_: ParamAffineMap) -> ParamAffineMap:
    """The map with one number changed or one block lost; this may do no damage."""
    shapes = dict(map_.shard_shapes)
    pieces = {location: list(held) for location, held in map_.pieces_by_location}
    padding = {location: list(held) for location, held in map_.padding_by_location}
    what = random.choice(["shard shape", "padding", *["piece"] * 8])
    if what == "shard shape":
        location = random.choice(list(shapes))
        shapes[location] = (max(0, math.prod(shapes[location]) + random.choice([-1, 1])),)
    elif what == "padding" and padding:
        random.choice(list(padding.values())).pop()
    elif filled := [held for held in pieces.values() if held]:
        held = random.choice(filled)
        index = random.randrange(len(held))
        held[index : index + 1] = _damaged_piece(random, held[index], list(shapes))
    return ParamAffineMap(map_.logical_shape, shapes, pieces, padding)


def _damaged_piece(random: Random, piece: AffinePiece, locations: list[int]) -> list[AffinePiece]:
    """The piece with one number changed; nothing, or the piece twice."""
    field = random.choice(["number", *FIELDS])
    changed: dict[str, Any] = {}
    if field == "number":
        return [piece] * random.choice([0, 2])
    if field.endswith("offset"):
        changed[field] = getattr(piece, field) + random.choice([-1, 1])
    elif field == "scale":
        changed[field] = random.choice([0.0, 0.5, -1.0, math.inf, math.nan])
    elif field == "locations":
        changed[field] = {*piece.locations} ^ {random.choice([*locations, 7])}
    elif piece.shape:
        values = list(getattr(piece, field))
        axis = random.randrange(len(values))
        values[axis] += random.choice([-1, 1, 2])
        changed[field] = values
    return [replace(piece, **changed)]
