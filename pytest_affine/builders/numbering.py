"""The same shards under other location numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_affine.maps import ParamAffineMap

__all__ = ["renumbered_map"]


def renumbered_map(map_: ParamAffineMap, numbers: Sequence[int]) -> ParamAffineMap:
    """The map with its locations, in order, called `numbers`: as many, and distinct."""
    new = dict(zip(map_.locations, numbers, strict=True))
    pieces = {
        new[location]: [
            replace(piece, locations=tuple(new[at] for at in piece.locations)) for piece in held
        ]
        for location, held in map_.pieces_by_location
    }
    return ParamAffineMap(
        map_.logical_shape,
        {new[location]: shape for location, shape in map_.shard_shapes},
        pieces,
        {new[location]: blocks for location, blocks in map_.padding_by_location},
    )
