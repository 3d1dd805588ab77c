"""Maps that the builders make, of one shape and number of locations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pytest_affine.builders import (
    block_gather_map,
    contiguous_split_map,
    flat_map,
    mesh_map,
    replicated_map,
    segmented_map,
    sub_param_map,
)
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import Padding, ParamAffineMap
from pytest_affine.strategies.extents import shares

__all__ = ["BUILT", "NEED_AN_AXIS", "padded"]

Shape: TypeAlias = tuple[int, ...]

MAX_BLOCKS = 3


def _replicated(shape: Shape, num_locations: int) -> SearchStrategy[ParamAffineMap]:
    return st.just(replicated_map(shape, num_locations))


@st.composite
def _split(draw: DrawFn, shape: Shape, num_locations: int) -> ParamAffineMap:
    dim = draw(_dims(shape))
    return contiguous_split_map(shape, draw(shares(shape[dim], num_locations)), dim)


@st.composite
def _fused(draw: DrawFn, shape: Shape, num_locations: int) -> ParamAffineMap:
    dim = draw(_dims(shape))
    blocks = draw(shares(shape[dim], draw(st.integers(1, MAX_BLOCKS))))
    widths = [draw(shares(block, num_locations)) for block in blocks]
    return sub_param_map(shape, blocks, widths, dim)


@st.composite
def _segmented(draw: DrawFn, shape: Shape, num_locations: int) -> ParamAffineMap:
    dim = draw(_dims(shape))
    blocks = draw(shares(shape[dim], draw(st.integers(1, MAX_BLOCKS))))
    segments = [(size, draw(st.booleans())) for size in blocks]
    widths = [draw(shares(size, num_locations)) for size, replicated in segments if not replicated]
    return segmented_map(shape, segments, dim, num_locations, widths)


@st.composite
def _gathered(draw: DrawFn, shape: Shape, num_locations: int) -> ParamAffineMap:
    """Blocks of one size, each held by a non-empty set of locations, in any order."""
    dim = draw(_dims(shape))
    size = draw(st.sampled_from(_divisors(shape[dim])))
    held: dict[int, list[int]] = {location: [] for location in range(num_locations)}
    anyone = st.sets(st.sampled_from(range(num_locations)), min_size=1)
    for block in draw(st.permutations(range(shape[dim] // size))):
        for location in sorted(draw(anyone)):
            held[location].append(block)
    return block_gather_map(shape, held, size, dim)


@st.composite
def _flat(draw: DrawFn, shape: Shape, num_locations: int) -> ParamAffineMap:
    """Intervals in any order of locations, some of them empty."""
    stops = [0]
    for width in draw(shares(math.prod(shape), num_locations)):
        stops.append(stops[-1] + width)
    order = draw(st.permutations(range(num_locations)))
    intervals = dict(zip(order, pairwise(stops), strict=True))
    return flat_map({"weight": shape}, intervals)["weight"]


@st.composite
def _meshed(draw: DrawFn, shape: Shape, num_locations: int) -> ParamAffineMap:
    """Any mesh of so many locations, any placements."""
    inner = draw(st.sampled_from(_divisors(num_locations)))
    outer = draw(st.sampled_from(_divisors(num_locations // inner)))
    mesh = [outer, num_locations // inner // outer, inner]
    return mesh_map(shape, mesh, [draw(_placements(shape)) for _ in mesh])


def _placements(shape: Shape) -> SearchStrategy[list[Any]]:
    whole: SearchStrategy[list[Any]] = st.just(["replicate"])
    if not shape:
        return whole
    return st.one_of(
        whole,
        st.builds(lambda dim: ["shard", dim], _dims(shape)),
        st.builds(lambda dim, factor: ["strided_shard", dim, factor], _dims(shape), _FACTORS),
    )


_FACTORS = st.integers(2, 4)


def _dims(shape: Shape) -> SearchStrategy[int]:
    return st.integers(0, len(shape) - 1)


def _divisors(number: int) -> list[int]:
    """Of 0 just 1."""
    return [factor for factor in range(1, max(number, 1) + 1) if number % factor == 0]


BUILT: Mapping[str, Callable[[Shape, int], SearchStrategy[ParamAffineMap]]] = {
    "replicated_map": _replicated,
    "contiguous_split_map": _split,
    "sub_param_map": _fused,
    "segmented_map": _segmented,
    "block_gather_map": _gathered,
    "flat_map": _flat,
    "mesh_map": _meshed,
}
"""By the name of a builder, its maps of a shape on so many locations."""

NEED_AN_AXIS = ("contiguous_split_map", "sub_param_map", "segmented_map", "block_gather_map")
"""The builders that can not make a scalar's map."""


@st.composite
def padded(draw: DrawFn, map_: ParamAffineMap) -> ParamAffineMap:
    """The map with rows of padding behind some of its shards."""
    shapes, padding = dict(map_.shard_shapes), {}
    for location, shape in map_.shard_shapes:
        if shape and (num_rows := draw(st.integers(0, 2))):
            inner = shape[1:]
            shapes[location] = (shape[0] + num_rows, *inner)
            block = Padding((num_rows, *inner), math.prod(shape), row_major_strides(shape))
            padding[location] = [block]
    return ParamAffineMap(map_.logical_shape, shapes, map_.pieces_by_location, padding)
