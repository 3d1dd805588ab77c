"""Meshes of locations with a placement per mesh axis, as DTensor describes them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from pytest_affine.builders.arguments import axis_of, count, items, sizes
from pytest_affine.builders.runs import Run, box_map, chunk
from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import ParamAffineMap

__all__ = ["mesh_map"]


def mesh_map(
    shape: Sequence[int], mesh_shape: Sequence[int], placements: Sequence[Sequence[Any]]
) -> ParamAffineMap:
    """A mesh of locations, numbered row-major; placements are applied from left to right.

    Args:
        shape: shape of the full tensor.
        mesh_shape: extents of the mesh.
        placements: one per mesh axis. `["replicate"]`: the same at every index of the mesh axis.
            `["shard", dim]`: `dim` cut as `torch.chunk` cuts it. `["strided_shard", dim,
            split_factor]`: `dim` cut in `split_factor` outer blocks, each of them cut at the same
            offsets; both cuts are `torch.chunk`'s, of the whole and of the first outer block. A
            later placement on the same `dim` cuts what the former left.
    """
    extents, mesh = sizes(shape, "shape"), _mesh_extents(mesh_shape)
    splits = [
        _split_of(placement, extents, f"placements[{axis}]")
        for axis, placement in enumerate(items(placements, "placements", len(mesh), "mesh axis"))
    ]
    places = list(itertools.product(*map(range, mesh)))
    axes_by_location = {}
    for location, holders in enumerate(_holders(places, splits)):
        axes = [[Run(0, extent, holders)] for extent in extents]
        for index, num_parts, split in zip(places[location], mesh, splits, strict=True):
            if split:
                dim, split_factor = split
                axes[dim] = chunk(axes[dim], num_parts, index, split_factor)
        axes_by_location[location] = axes
    return box_map(extents, axes_by_location)


def _mesh_extents(mesh_shape: object) -> tuple[int, ...]:
    mesh = sizes(mesh_shape, "mesh_shape")
    return tuple(count(extent, f"mesh_shape[{axis}]") for axis, extent in enumerate(mesh))


def _split_of(placement: object, shape: Sequence[int], field: str) -> tuple[int, int] | None:
    """The dim and split factor of a sharding placement; None for a replicating one."""
    match placement:
        case ["replicate"]:
            return None
        case ["shard", dim]:
            return axis_of(dim, shape, f"{field}[1]"), 1
        case ["strided_shard", dim, split_factor]:
            return axis_of(dim, shape, f"{field}[1]"), count(split_factor, f"{field}[2]")
    raise InvalidMapError(
        f'{field} must be ["replicate"], ["shard", dim] or '
        f'["strided_shard", dim, split_factor], got {placement!r}'
    )


def _holders(
    places: Sequence[tuple[int, ...]], splits: Sequence[tuple[int, int] | None]
) -> list[frozenset[int]]:
    """For each location those that hold the same: places that differ on replicated axes only."""
    keys = [tuple(itertools.compress(place, splits)) for place in places]
    alike: dict[tuple[int, ...], set[int]] = {}
    for location, key in enumerate(keys):
        alike.setdefault(key, set()).add(location)
    return [frozenset(alike[key]) for key in keys]
