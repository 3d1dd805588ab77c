"""Maps and plans written down element by element."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.plans import TransferPlan, TransferSegment


def map_of(shape: Sequence[int], shards: Mapping[int, Any], scale: float = 1.0) -> ParamAffineMap:
    """A map from nested lists of logical elements by location; None is padding.

    A shard's shape is that of the list; every element is a piece of its own.
    """
    shapes = {location: shape_of(shard) for location, shard in shards.items()}
    flat = {location: list(flattened(shard)) for location, shard in shards.items()}
    pieces = {
        location: [
            AffinePiece(
                (), element, (), at, (), tuple(o for o in flat if element in flat[o]), scale
            )
            for at, element in enumerate(shard)
            if element is not None
        ]
        for location, shard in flat.items()
    }
    padding = {
        location: [Padding((), at, ()) for at, element in enumerate(shard) if element is None]
        for location, shard in flat.items()
    }
    return ParamAffineMap(shape, shapes, pieces, padding)


def shape_of(shard: Any) -> tuple[int, ...]:
    if not isinstance(shard, Sequence):
        return ()
    return (len(shard), *shape_of(shard[0])) if shard else (0,)


def flattened(shard: Any) -> list[int | None]:
    if not isinstance(shard, Sequence):
        return [shard]
    return list(itertools.chain.from_iterable(map(flattened, shard)))


def split_map(shape: Sequence[int], num_locations: int, dim: int) -> ParamAffineMap:
    """Even blocks along one axis, one piece each."""
    full = row_major_strides(shape)
    width = shape[dim] // num_locations
    block = (*shape[:dim], width, *shape[dim + 1 :])
    pieces = {
        location: [
            AffinePiece(
                block, location * width * full[dim], full, 0, row_major_strides(block), (location,)
            )
        ]
        for location in range(num_locations)
    }
    return ParamAffineMap(shape, dict.fromkeys(pieces, block), pieces)


def copy(
    shape: Sequence[int],
    source: tuple[int, int, Sequence[int]],
    target: tuple[int, int, Sequence[int]],
) -> TransferSegment:
    """A segment; `source` and `target` are location, offset, strides."""
    return TransferSegment(
        source_location=source[0],
        source_offset=source[1],
        source_strides=tuple(source[2]),
        target_location=target[0],
        target_offset=target[1],
        target_strides=tuple(target[2]),
        shape=tuple(shape),
    )


def run(count: int, source: tuple[int, int], target: tuple[int, int]) -> TransferSegment:
    """A contiguous copy; `source` and `target` are location and offset."""
    return copy((count,), (*source, (1,)), (*target, (1,)))


def plan_of(
    source: ParamAffineMap, target: ParamAffineMap, *segments: TransferSegment, **changes: Any
) -> TransferPlan:
    """A plan whose totals are right, but for the changes."""
    totals: dict[str, Any] = {
        "logical_shape": target.logical_shape,
        "source_sizes": {location: source.shard_size(location) for location in source.locations},
        "target_sizes": {location: target.shard_size(location) for location in target.locations},
        "moved_elements": sum(math.prod(segment.shape) for segment in segments),
    }
    return TransferPlan(segments=segments, **(totals | changes))
