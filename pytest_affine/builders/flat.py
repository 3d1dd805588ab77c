"""Parameters flattened end to end and cut into intervals, as ZeRO partitions do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_affine.builders.arguments import IntegersByLocation, by_location, interval, named, sizes
from pytest_affine.builders.runs import starts
from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import AffinePiece, ParamAffineMap

__all__ = ["flat_map"]


def flat_map(
    shapes: Mapping[str, Sequence[int]] | Sequence[Sequence[Any]],
    intervals_by_location: IntegersByLocation,
) -> dict[str, ParamAffineMap]:
    """One map for each of several parameters that are flattened end to end and cut into intervals.

    A location's shard of a parameter is one-dimensional, and empty where its interval holds none.

    Args:
        shapes: the parameters in order: a mapping from name to shape or, where JSON with sorted
            keys would lose their order, a list of [name, shape].
        intervals_by_location: for each location its [start, stop) of the concatenation. Locations
            may be in any order and intervals empty; together they hold every element once.
    """
    extents = {
        name: sizes(shape, f"shapes[{name!r}]") for name, shape in named(shapes, "shapes").items()
    }
    lengths = [math.prod(shape) for shape in extents.values()]
    intervals = _intervals(intervals_by_location, sum(lengths))
    return {
        name: _parameter_map(shape, start, intervals)
        for (name, shape), start in zip(extents.items(), starts(lengths), strict=True)
    }


def _intervals(values: object, total: int) -> dict[int, tuple[int, int]]:
    field = "intervals_by_location"
    intervals = {
        location: interval(bounds, total, f"{field}[{location}]")
        for location, bounds in by_location(values, field).items()
    }
    held = sorted(bounds for bounds in intervals.values() if bounds[0] < bounds[1])
    ends = [0, *(stop for _, stop in held)]
    for end, start in zip(ends, [*(start for start, _ in held), total], strict=True):
        if end != start:
            fault = "leave a gap at" if end < start else "overlap at"
            raise InvalidMapError(
                f"{field} must hold each of {total} elements once, "
                f"but they {fault} [{min(end, start)}, {max(end, start)})"
            )
    return intervals


def _parameter_map(
    shape: Sequence[int], first: int, intervals: Mapping[int, tuple[int, int]]
) -> ParamAffineMap:
    last = first + math.prod(shape)
    shard_shapes, pieces = {}, {}
    for location, (start, stop) in intervals.items():
        low, high = max(start, first), min(stop, last)
        shard_shapes[location] = (max(0, high - low),)
        if low < high:
            pieces[location] = [AffinePiece((high - low,), low - first, (1,), 0, (1,), (location,))]
    return ParamAffineMap(shape, shard_shapes, pieces)
