"""Hypothesis strategies for valid maps and syncs, small enough to move and to read."""

from __future__ import annotations

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
from pytest_affine.contract.cases import Case
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.sync import Sync, SyncParameter

__all__ = ["maps", "sync_cases", "syncs"]

MAX_LOCATIONS = 4
MAX_EXTENT = 6
DTYPES = ("float32", "bfloat16", "int64", "int8", "bool")


def shapes() -> SearchStrategy[tuple[int, ...]]:
    """Logical shapes of up to 3 axes, scalars and empty ones included."""
    return st.lists(st.integers(0, MAX_EXTENT), max_size=3).map(tuple)


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
    size = 1
    for extent in shape:
        size *= extent
    stops = [0]
    for width in draw(_widths(size, num_locations)):
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
    """Valid maps of one logical shape: of every builder, on 1 to `max_locations` locations."""
    shape = tuple(logical_shape)
    num_locations = draw(st.integers(1, max_locations))
    if not shape:
        return replicated_map(shape, num_locations)
    kinds = (_splits, _fused, _segmented, _gathered, _flat, _meshed)
    kind = draw(st.sampled_from([None, *kinds]))
    if kind is None:
        return replicated_map(shape, num_locations)
    return draw(kind(shape, num_locations))


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
