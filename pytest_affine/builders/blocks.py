"""Whole tensors, and tensors cut in blocks along one axis."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from pytest_affine.builders.arguments import (
    IntegersByLocation,
    axis_of,
    by_location,
    check_sum,
    count,
    items,
    sizes,
)
from pytest_affine.builders.runs import Run, box_map, map_along, merged, starts
from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.values import number

__all__ = [
    "block_gather_map",
    "contiguous_split_map",
    "replicated_map",
    "segmented_map",
    "sub_param_map",
]


def replicated_map(shape: Sequence[int], num_locations: int, scale: float = 1.0) -> ParamAffineMap:
    """Every location holds the whole tensor, multiplied by `scale`."""
    extents, everyone = sizes(shape, "shape"), range(count(num_locations, "num_locations"))
    if not math.isfinite(number(scale, "scale")) or scale == 0:
        raise InvalidMapError(f"scale must be finite and not 0, got {scale!r}")
    whole = [[Run(0, extent, frozenset(everyone))] for extent in extents]
    return box_map(extents, dict.fromkeys(everyone, whole), scale)


def contiguous_split_map(shape: Sequence[int], widths: Sequence[int], dim: int) -> ParamAffineMap:
    """Location i holds the next `widths[i]` indices of `dim`; widths may be uneven or 0."""
    extents = sizes(shape, "shape")
    axis = axis_of(dim, extents, "dim")
    num_locations = len(items(widths, "widths"))
    runs = _split(0, extents[axis], widths, num_locations, "widths")
    return map_along(extents, axis, {location: [run] for location, run in enumerate(runs)})


def sub_param_map(
    shape: Sequence[int],
    block_sizes: Sequence[int],
    widths_by_block: Sequence[Sequence[int]],
    dim: int,
) -> ParamAffineMap:
    """Blocks end to end along `dim`, each split over all locations: fused Q, K and V, gate and up.

    Args:
        shape: shape of the full tensor.
        block_sizes: extent of each block along `dim`.
        widths_by_block: for each block, how many of its indices each location holds.
        dim: the axis of the blocks. A shard holds its part of every block, in their order.
    """
    extents, blocks = sizes(shape, "shape"), sizes(items(block_sizes, "block_sizes"), "block_sizes")
    axis = axis_of(dim, extents, "dim")
    check_sum(blocks, extents[axis], "block_sizes")
    widths = items(widths_by_block, "widths_by_block", len(blocks), "block")
    num_locations = len(items(widths[0], "widths_by_block[0]"))
    runs = [
        _split(start, size, widths[index], num_locations, f"widths_by_block[{index}]")
        for index, (start, size) in enumerate(zip(starts(blocks), blocks, strict=True))
    ]
    return map_along(extents, axis, dict(enumerate(zip(*runs, strict=True))))


def segmented_map(
    shape: Sequence[int],
    segments: Sequence[Sequence[int]],
    dim: int,
    num_locations: int,
    widths_by_split_block: Sequence[Sequence[int]],
) -> ParamAffineMap:
    """Blocks end to end along `dim`, each split over all locations or whole on every one.

    Args:
        shape: shape of the full tensor.
        segments: for each block its extent along `dim`, and whether it is replicated.
        dim: the axis of the blocks. A shard holds its part of every block, in their order.
        num_locations: number of locations.
        widths_by_split_block: for each block that is not replicated, in order, how many of its
            indices each location holds.
    """
    extents, num_locations = sizes(shape, "shape"), count(num_locations, "num_locations")
    axis, blocks = axis_of(dim, extents, "dim"), _segments(segments)
    check_sum([size for size, _ in blocks], extents[axis], "the sizes of segments")
    num_split = sum(not replicated for _, replicated in blocks)
    widths = items(widths_by_split_block, "widths_by_split_block", num_split, "split block")
    everyone, rows, runs = frozenset(range(num_locations)), enumerate(widths), []
    for start, (size, replicated) in zip(starts(size for size, _ in blocks), blocks, strict=True):
        if replicated:
            runs.append([Run(start, size, everyone)] * num_locations)
        else:
            index, row = next(rows)
            field = f"widths_by_split_block[{index}]"
            runs.append(_split(start, size, row, num_locations, field))
    return map_along(extents, axis, dict(enumerate(zip(*runs, strict=True))))


def block_gather_map(
    shape: Sequence[int],
    block_ids_by_location: IntegersByLocation,
    block_size: int,
    dim: int,
) -> ParamAffineMap:
    """Each location holds chosen blocks of one size, in its own order: experts, Yuan's heads.

    Several locations may hold one block. Consecutive blocks with the same holders are one piece.

    Args:
        shape: shape of the full tensor.
        block_ids_by_location: for each location the blocks of its shard, in the shard's order.
        block_size: extent of a block along `dim`.
        dim: the axis of the blocks.
    """
    extents, size = sizes(shape, "shape"), count(block_size, "block_size")
    axis, field = axis_of(dim, extents, "dim"), "block_ids_by_location"
    num_blocks, rest = divmod(extents[axis], size)
    if rest:
        raise InvalidMapError(f"block_size must divide the extent {extents[axis]}, got {size}")
    ids_by_location = {
        location: _block_ids(ids, num_blocks, f"{field}[{location}]")
        for location, ids in by_location(block_ids_by_location, field).items()
    }
    runs = {
        block: Run(block * size, size, holders)
        for block, holders in _holders(ids_by_location, num_blocks, field).items()
    }
    held = {
        location: merged(runs[block] for block in ids) for location, ids in ids_by_location.items()
    }
    return map_along(extents, axis, held)


def _split(start: int, size: int, widths: object, num_locations: int, field: str) -> list[Run]:
    """The runs of locations 0, 1, ..., end to end from `start`."""
    lengths = sizes(items(widths, field, num_locations, "location"), field)
    check_sum(lengths, size, field)
    return [
        Run(start + first, length, frozenset([location]))
        for location, (first, length) in enumerate(zip(starts(lengths), lengths, strict=True))
    ]


def _segments(segments: object) -> list[tuple[int, bool]]:
    blocks = []
    for index, segment in enumerate(items(segments, "segments")):
        match segment:
            case [size, bool() as replicated]:
                (extent,) = sizes([size], f"segments[{index}]")
                blocks.append((extent, replicated))
            case _:
                raise InvalidMapError(
                    f"segments[{index}] must be [size, replicated], got {segment!r}"
                )
    return blocks


def _block_ids(values: object, num_blocks: int, field: str) -> tuple[int, ...]:
    ids = sizes(values, field)
    if unknown := [block for block in ids if block >= num_blocks]:
        raise InvalidMapError(f"{field} must hold blocks below {num_blocks}, got {unknown}")
    if twice := [block for block, times in Counter(ids).items() if times > 1]:
        raise InvalidMapError(f"{field} must hold a block at most once, got {twice} more often")
    return ids


def _holders(
    ids_by_location: Mapping[int, Sequence[int]], num_blocks: int, field: str
) -> dict[int, frozenset[int]]:
    holders: dict[int, set[int]] = {}
    for location, ids in ids_by_location.items():
        for block in ids:
            holders.setdefault(block, set()).add(location)
    if missing := num_blocks - len(holders):
        first = next(block for block in range(num_blocks) if block not in holders)
        raise InvalidMapError(
            f"{field} must name each of {num_blocks} blocks; {missing} have no holder, "
            f"the first is block {first}"
        )
    return {block: frozenset(locations) for block, locations in holders.items()}
