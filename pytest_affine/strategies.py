"""Hypothesis strategies for valid maps and syncs, small enough to move and to read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

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
from pytest_affine.builders.numbering import renumbered_map
from pytest_affine.contract.cases import Case
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import Padding, ParamAffineMap
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.sync import Sync, SyncParameter

__all__ = ["maps", "sync_cases", "syncs"]

MAX_LOCATIONS = 10
MAX_EXTENT = 6
MAX_ELEMENTS = 720
DTYPES = ("float32", "bfloat16", "int64", "int8", "bool")


def shapes() -> SearchStrategy[tuple[int, ...]]:
    """Logical shapes of up to 5 axes and 720 elements, scalars and empty ones included."""
    extents = st.integers(0, MAX_EXTENT)
    short = st.integers(0, 5).flatmap(lambda num_axes: st.tuples(*[extents] * num_axes))
    long = st.tuples(st.integers(0, 60), st.integers(1, 12))
    return st.one_of(short, long).filter(lambda shape: math.prod(shape) <= MAX_ELEMENTS)


@st.composite
def _widths(draw: DrawFn, extent: int, num_locations: int) -> list[int]:
    """A way to share an extent out, uneven and empty shares included."""
    cuts = draw(
        st.lists(st.integers(0, extent), min_size=num_locations - 1, max_size=num_locations - 1)
    )
    bounds = [0, *sorted(cuts), extent]
    return [stop - start for start, stop in pairwise(bounds)]


@st.composite
def _splits(draw: DrawFn, shape: tuple[int, ...], num_locations: int) -> ParamAffineMap:
    dim = draw(st.integers(0, len(shape) - 1))
    return contiguous_split_map(shape, draw(_widths(shape[dim], num_locations)), dim)


@st.composite
def _fused(draw: DrawFn, shape: tuple[int, ...], num_locations: int) -> ParamAffineMap:
    dim = draw(st.integers(0, len(shape) - 1))
    blocks = draw(_widths(shape[dim], 3))
    widths = [draw(_widths(block, num_locations)) for block in blocks]
    return sub_param_map(shape, blocks, widths, dim)


@st.composite
def _segmented(draw: DrawFn, shape: tuple[int, ...], num_locations: int) -> ParamAffineMap:
    dim = draw(st.integers(0, len(shape) - 1))
    segments = [(size, draw(st.booleans())) for size in draw(_widths(shape[dim], 3))]
    widths = [draw(_widths(size, num_locations)) for size, replicated in segments if not replicated]
    return segmented_map(shape, segments, dim, num_locations, widths)


@st.composite
def _gathered(draw: DrawFn, shape: tuple[int, ...], num_locations: int) -> ParamAffineMap:
    """Blocks of one row, each held by a non-empty set of locations, in any order."""
    dim = draw(st.integers(0, len(shape) - 1))
    held: dict[int | str, list[int]] = {location: [] for location in range(num_locations)}
    anyone = st.sets(st.sampled_from(range(num_locations)), min_size=1)
    for block in draw(st.permutations(range(shape[dim]))):
        for location in sorted(draw(anyone)):
            held[location].append(block)
    return block_gather_map(shape, held, 1, dim)


@st.composite
def _flat(draw: DrawFn, shape: tuple[int, ...], num_locations: int) -> ParamAffineMap:
    stops = [0]
    for width in draw(_widths(math.prod(shape), num_locations)):
        stops.append(stops[-1] + width)
    pairs = list(pairwise(stops))
    order = draw(st.permutations(range(num_locations)))
    return flat_map({"weight": shape}, dict(zip(order, pairs, strict=True)))["weight"]


@st.composite
def _meshed(draw: DrawFn, shape: tuple[int, ...], num_locations: int) -> ParamAffineMap:
    mesh = [2, num_locations // 2] if num_locations % 2 == 0 else [num_locations]
    dims = range(len(shape))
    placement = st.one_of(
        st.just(["replicate"]), st.sampled_from(dims).map(lambda dim: ["shard", dim])
    )
    return mesh_map(shape, mesh, [draw(placement) for _ in mesh])


@st.composite
def maps(
    draw: DrawFn, *, logical_shape: Sequence[int], max_locations: int = MAX_LOCATIONS
) -> ParamAffineMap:
    """Valid maps of one logical shape, of every builder, some with padding.

    They have 1 to `max_locations` locations, numbered below `max_locations` in any order, with
    gaps between the numbers or without.
    """
    shape = tuple(logical_shape)
    num_locations = draw(st.integers(1, max_locations))
    built = draw(_built(shape, num_locations))
    if draw(st.booleans()):
        built = draw(_padded(built))
    numbers = draw(st.permutations(range(max_locations)))
    return renumbered_map(built, numbers[:num_locations])


def _built(shape: tuple[int, ...], num_locations: int) -> SearchStrategy[ParamAffineMap]:
    whole = st.just(replicated_map(shape, num_locations))
    if not shape:
        return whole
    kinds = (_splits, _fused, _segmented, _gathered, _flat, _meshed)
    return st.one_of(whole, *(kind(shape, num_locations) for kind in kinds))


@st.composite
def _padded(draw: DrawFn, map_: ParamAffineMap) -> ParamAffineMap:
    """The map with rows of padding behind some of its shards."""
    shapes, padding = dict(map_.shard_shapes), {}
    for location, shape in map_.shard_shapes:
        if shape and (num_rows := draw(st.integers(0, 2))):
            inner = shape[1:]
            shapes[location] = (shape[0] + num_rows, *inner)
            block = Padding((num_rows, *inner), math.prod(shape), row_major_strides(shape))
            padding[location] = [block]
    return ParamAffineMap(map_.logical_shape, shapes, map_.pieces_by_location, padding)


@st.composite
def syncs(draw: DrawFn, *, num_processes: int, max_parameters: int = 3) -> Sync:
    """Valid syncs on `num_processes` processes: any binding, any budget that holds an element."""
    parameters = []
    for index in range(draw(st.integers(1, max_parameters))):
        shape, dtype = draw(shapes()), draw(st.sampled_from(DTYPES))
        parameters.append(
            SyncParameter(
                name=f"p{index}",
                source=draw(maps(logical_shape=shape)),
                target=draw(maps(logical_shape=shape)),
                source_dtype=dtype,
                target_dtype=dtype,
            )
        )
    processes = st.integers(0, num_processes - 1)
    bound = dict.fromkeys(range(MAX_LOCATIONS), processes)
    return Sync(
        parameters=tuple(parameters),
        endpoints=TransferEndpoints(
            draw(st.fixed_dictionaries(bound)), draw(st.fixed_dictionaries(bound))
        ),
        num_processes=num_processes,
        budget=StagingBudget(draw(st.integers(8, 96))),
    )


def sync_cases(num_processes: int) -> SearchStrategy[Case]:
    """Drawn syncs, as cases of the suite."""
    return syncs(num_processes=num_processes).map(
        lambda sync: Case(name="drawn", kind="sync", sync=sync)
    )
