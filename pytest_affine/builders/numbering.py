"""The same shards under other location numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_affine.maps import ParamAffineMap

__all__ = ["renumbered_map", "spread_map"]


def renumbered_map(map_: ParamAffineMap, numbers: Sequence[int]) -> ParamAffineMap:
    """The map with its locations, in order, called `numbers`: as many, and distinct."""
    return spread_map(map_, dict(zip(numbers, map_.locations, strict=True)))


def spread_map(map_: ParamAffineMap, location_by_number: Mapping[int, int]) -> ParamAffineMap:
    """The map in which each number holds the shard of a location; every location has a number."""
    numbers: dict[int, list[int]] = {}
    for number, location in location_by_number.items():
        numbers.setdefault(location, []).append(number)
    pieces = {
        location: [
            replace(piece, locations=tuple(new for at in piece.locations for new in numbers[at]))
            for piece in held
        ]
        for location, held in map_.pieces_by_location
    }
    shapes, padding = dict(map_.shard_shapes), dict(map_.padding_by_location)
    return ParamAffineMap(
        map_.logical_shape,
        {number: shapes[at] for number, at in location_by_number.items()},
        {number: pieces[at] for number, at in location_by_number.items()},
        {number: padding[at] for number, at in location_by_number.items() if at in padding},
    )
