"""What each builder's map holds, element by element, by definitions written here again."""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_affine.builders import (
    BUILDERS,
    block_gather_map,
    contiguous_split_map,
    flat_map,
    mesh_map,
    replicated_map,
    segmented_map,
    sub_param_map,
)
from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import AffinePiece, ParamAffineMap, maps_from_dict

unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

Index = tuple[int, ...]


def refuses(message: str) -> Any:
    return pytest.raises(InvalidMapError, match=f"^{re.escape(message)}$")


def address(index: Sequence[int], shape: Sequence[int]) -> int:
    """Row-major address, by Horner's rule."""
    result = 0
    for coordinate, extent in zip(index, shape, strict=True):
        result = result * extent + coordinate
    return result


def dot(index: Sequence[int], strides: Sequence[int]) -> int:
    return sum(i * stride for i, stride in zip(index, strides, strict=True))


def elements(map_: ParamAffineMap) -> dict[int, list[int]]:
    """For each location the full address behind each shard address; every one must be filled once.

    On the way each piece must hold elements, and be named by exactly the locations that hold them.
    """
    held: dict[int, dict[int, int]] = {location: {} for location in map_.locations}
    holders: dict[int, set[int]] = {}
    for location, pieces in map_.pieces_by_location:
        for piece in pieces:
            assert piece.num_elements > 0
            for index in itertools.product(*map(range, piece.shape)):
                full = piece.full_offset + dot(index, piece.full_strides)
                shard = piece.shard_offset + dot(index, piece.shard_strides)
                assert shard not in held[location]
                held[location][shard] = full
                holders.setdefault(full, set()).add(location)
    for location, pieces in map_.pieces_by_location:
        assert sorted(held[location]) == list(range(map_.shard_size(location)))
        for piece in pieces:
            for index in itertools.product(*map(range, piece.shape)):
                full = piece.full_offset + dot(index, piece.full_strides)
                assert set(piece.locations) == holders[full]
    assert sorted(holders) == list(range(map_.num_elements))
    return {location: [full for _, full in sorted(by.items())] for location, by in held.items()}


def along(shape: Sequence[int], axis: int, kept: Sequence[int]) -> list[int]:
    """Addresses of the sub-tensor that has these indices of one axis, in row-major order."""
    axes: list[Sequence[int]] = [range(extent) for extent in shape]
    axes[axis] = kept
    return [address(index, shape) for index in itertools.product(*axes)]


# Golden answers: the addresses that each location's shard holds, in the shard's order.
GOLDEN: dict[str, tuple[ParamAffineMap, dict[int, list[int]]]] = {
    "replicated": (replicated_map((2, 2), 2), {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]}),
    "replicated scalar (F17)": (replicated_map((), 2), {0: [0], 1: [0]}),
    "replicated without elements (F17)": (replicated_map((0, 3), 2), {0: [], 1: []}),
    "columns of a narrow tensor (F08)": (
        contiguous_split_map((2, 3), [2, 1], 1),
        {0: [0, 1, 3, 4], 1: [2, 5]},
    ),
    "columns, not pieces end to end (F43)": (
        contiguous_split_map((2, 4), [2, 2], 1),
        {0: [0, 1, 4, 5], 1: [2, 3, 6, 7]},
    ),
    "the middle of three axes": (
        contiguous_split_map((2, 3, 2), [1, 2], 1),
        {0: [0, 1, 6, 7], 1: [2, 3, 4, 5, 8, 9, 10, 11]},
    ),
    "the first axis counted from the end": (
        contiguous_split_map((2, 2), [1, 1], -2),
        {0: [0, 1], 1: [2, 3]},
    ),
    "zero widths": (contiguous_split_map((3,), [0, 2, 0, 1], 0), {0: [], 1: [0, 1], 2: [], 3: [2]}),
    "a split without elements (F17)": (
        contiguous_split_map((0, 3), [1, 2], 1),
        {0: [], 1: []},
    ),
    "plain rows (F11)": (contiguous_split_map((4, 1), [2, 2], 0), {0: [0, 1], 1: [2, 3]}),
    "gate and up (F11)": (
        sub_param_map((4, 1), [2, 2], [[1, 1], [1, 1]], 0),
        {0: [0, 2], 1: [1, 3]},
    ),
    "fused q, k and v (F10)": (
        sub_param_map((8, 1), [4, 2, 2], [[2, 2], [1, 1], [1, 1]], 0),
        {0: [0, 1, 4, 6], 1: [2, 3, 5, 7]},
    ),
    "fused columns, unevenly": (
        sub_param_map((2, 4), [3, 1], [[1, 2], [1, 0]], 1),
        {0: [0, 3, 4, 7], 1: [1, 2, 5, 6]},
    ),
    "a replicated segment between split ones": (
        segmented_map((5,), [(2, False), (1, True), (2, False)], 0, 2, [[1, 1], [0, 2]]),
        {0: [0, 2], 1: [1, 2, 3, 4]},
    ),
    "rows q,q,k,v twice, taken apart (F09)": (
        block_gather_map((8, 1), {0: [0, 1, 4, 5], 1: [2, 6], 2: [3, 7]}, 1, 0),
        {0: [0, 1, 4, 5], 1: [2, 6], 2: [3, 7]},
    ),
    "experts in order (F13)": (
        block_gather_map((4, 1), {0: [0, 1], 1: [2, 3]}, 1, 0),
        {0: [0, 1], 1: [2, 3]},
    ),
    "experts by table (F13)": (
        block_gather_map((4, 1), {0: [0, 3], 1: [1, 2]}, 1, 0),
        {0: [0, 3], 1: [1, 2]},
    ),
    "blocks of columns in another order": (
        block_gather_map((2, 4), {"1": [1, 0]}, 2, 1),
        {1: [2, 3, 0, 1, 6, 7, 4, 5]},
    ),
    "a chunked row, as torch does it": (
        mesh_map((5,), [4], [["shard", 0]]),
        {0: [0, 1], 1: [2, 3], 2: [4], 3: []},
    ),
    "an even strided shard": (
        mesh_map((8,), [2], [["strided_shard", 0, 2]]),
        {0: [0, 1, 4, 5], 1: [2, 3, 6, 7]},
    ),
    "an uneven strided shard (F06)": (
        mesh_map((5,), [2], [["strided_shard", 0, 2]]),
        {0: [0, 1, 3, 4], 1: [2]},
    ),
    "data parallel over tensor parallel rows": (
        mesh_map((8,), [2, 2], [["strided_shard", 0, 2], ["shard", 0]]),
        {0: [0, 1], 1: [4, 5], 2: [2, 3], 3: [6, 7]},
    ),
    "both axes, locations row-major over the mesh": (
        mesh_map((2, 3), [2, 2], [["shard", 0], ["shard", -1]]),
        {0: [0, 1], 1: [2], 2: [3, 4], 3: [5]},
    ),
    "replicas along the first mesh axis": (
        mesh_map((4,), [2, 2], [["replicate"], ["shard", 0]]),
        {0: [0, 1], 1: [2, 3], 2: [0, 1], 3: [2, 3]},
    ),
    "a mesh of one": (mesh_map((2,), [], []), {0: [0, 1]}),
}


@pytest.mark.parametrize(("map_", "held"), GOLDEN.values(), ids=GOLDEN)
def test_a_builder_gives_the_elements_that_were_worked_out_by_hand(
    map_: ParamAffineMap, held: dict[int, list[int]]
) -> None:
    assert elements(map_) == held
    map_.validate()


@pytest.mark.parametrize(
    ("map_", "shapes"),
    [
        (contiguous_split_map((2, 3), [2, 1], 1), {0: (2, 2), 1: (2, 1)}),
        (contiguous_split_map((2, 3), [2, 0], 0), {0: (2, 3), 1: (0, 3)}),
        (replicated_map((0, 3), 2), {0: (0, 3), 1: (0, 3)}),
        (mesh_map((3, 5), [2, 2], [["shard", 0], ["shard", 1]]), {0: (2, 3), 1: (2, 2), 2: (1, 3)}),
    ],
)
def test_shards_have_the_shape_of_what_they_hold(
    map_: ParamAffineMap, shapes: dict[int, tuple[int, ...]]
) -> None:
    assert {location: map_.shard_shape(location) for location in shapes} == shapes


def test_a_narrow_shard_has_the_strides_of_its_own_width() -> None:
    """F08: the full tensor's row stride of 3 would leave the shard of 2 elements."""
    assert contiguous_split_map((2, 3), [2, 1], 1).pieces(1) == (
        AffinePiece((2, 1), 2, (3, 1), 0, (1, 1), (1,)),
    )


def test_blocks_are_merged_only_where_all_their_holders_agree() -> None:
    """F02: blocks 2 to 5 of location 1 continue each other, but location 0 holds two of them."""
    map_ = block_gather_map((6,), {0: [0, 1, 4, 5], 1: [2, 3, 4, 5]}, 1, 0)
    shared = AffinePiece((2,), 4, (1,), 2, (1,), (0, 1))
    assert map_.pieces(0) == (AffinePiece((2,), 0, (1,), 0, (1,), (0,)), shared)
    assert map_.pieces(1) == (AffinePiece((2,), 2, (1,), 0, (1,), (1,)), shared)


def test_blocks_in_falling_order_stay_apart() -> None:
    assert len(block_gather_map((4,), {0: [1, 0]}, 2, 0).pieces(0)) == 2


def test_outer_blocks_that_one_location_holds_whole_are_merged() -> None:
    assert mesh_map((6,), [1], [["strided_shard", 0, 3]]) == replicated_map((6,), 1)


def test_the_scale_is_on_every_piece() -> None:
    map_ = replicated_map((2,), 2, 0.5)
    assert [piece.scale for location in (0, 1) for piece in map_.pieces(location)] == [0.5, 0.5]


def test_fragments_are_placed_by_offset_and_not_by_location() -> None:
    """F05: location 2 holds the first three elements, location 0 the last, location 1 none."""
    map_ = flat_map({"weight": (2, 2)}, {"2": [0, 3], "0": [3, 4], "1": [0, 0]})["weight"]
    assert elements(map_) == {0: [3], 1: [], 2: [0, 1, 2]}
    assert map_.logical_shape == (2, 2)
    assert map_.shard_shapes == ((0, (1,)), (1, (0,)), (2, (3,)))


def test_parameters_without_elements_or_axes_are_flattened_with_the_others() -> None:
    """F17: 8, 0 and 24 elements in 16 and 16, and a scalar behind them."""
    shapes: list[list[Any]] = [["first", [8]], ["empty", [0, 3]], ["last", [4, 6]], ["scalar", []]]
    maps = flat_map(shapes, {0: [0, 16], 1: [16, 33]})
    assert list(maps) == ["first", "empty", "last", "scalar"]
    assert elements(maps["first"]) == {0: list(range(8)), 1: []}
    assert elements(maps["empty"]) == {0: [], 1: []}
    assert elements(maps["last"]) == {0: list(range(8)), 1: list(range(8, 24))}
    assert elements(maps["scalar"]) == {0: [], 1: [0]}
    assert maps["scalar"].logical_shape == ()
    assert maps["scalar"].shard_shape(1) == (1,)


def test_flat_parameters_keep_the_order_they_are_given_in() -> None:
    maps = flat_map({"b": [1], "a": [2]}, {0: [0, 1], 1: [1, 3]})
    assert list(maps) == ["b", "a"]
    assert elements(maps["b"]) == {0: [0], 1: []}


def test_builders_are_found_by_name() -> None:
    assert list(BUILDERS) == [
        "replicated_map",
        "contiguous_split_map",
        "sub_param_map",
        "segmented_map",
        "block_gather_map",
        "flat_map",
        "mesh_map",
    ]
    assert BUILDERS["mesh_map"] is mesh_map


def test_huge_extents_take_no_more_pieces_than_small_ones() -> None:
    map_ = mesh_map((2**60, 2**40), [2, 4], [["strided_shard", 0, 2], ["shard", 1]])
    assert [len(pieces) for _, pieces in map_.pieces_by_location] == [2] * 8
    assert map_.pieces(4)[0].full_offset == 2**98
    assert flat_map({"a": [2**62]}, {0: [0, 2**61], 1: [2**61, 2**62]})["a"].shard_size(1) == 2**61


shapes = st.lists(st.integers(0, 4), min_size=1, max_size=3)
widths = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@st.composite
def shaped(draw: st.DrawFn, extent: int) -> tuple[list[int], int]:
    """A shape and the axis of it that has this extent."""
    shape = draw(shapes)
    axis = draw(st.integers(0, len(shape) - 1))
    shape[axis] = extent
    return shape, axis


@st.composite
def widths_by_block(draw: st.DrawFn) -> list[list[int]]:
    num_locations = draw(st.integers(1, 4))
    row = st.lists(st.integers(0, 3), min_size=num_locations, max_size=num_locations)
    return draw(st.lists(row, min_size=1, max_size=3))


def owners(widths: Sequence[int]) -> list[int]:
    """The owner of each index, where location i owns the next `widths[i]`."""
    return [location for location, width in enumerate(widths) for _ in range(width)]


def owned(
    shape: Sequence[int], axis: int, holders: Sequence[set[int]], num_locations: int
) -> dict[int, list[int]]:
    """What every location holds, given the set of holders of each index of the axis."""
    return {
        location: along(shape, axis, [i for i, held in enumerate(holders) if location in held])
        for location in range(num_locations)
    }


@unhurried
@given(shapes, st.integers(1, 4))
def test_replicated_maps_hold_everything_everywhere(shape: list[int], num_locations: int) -> None:
    everything = list(range(math.prod(shape)))
    map_ = replicated_map(shape, num_locations)
    assert elements(map_) == dict.fromkeys(range(num_locations), everything)
    assert set(map_.shard_shapes) == {(i, tuple(shape)) for i in range(num_locations)}


@unhurried
@given(st.data(), widths)
def test_contiguous_splits_give_each_index_to_its_owner(
    data: st.DataObject, widths: list[int]
) -> None:
    shape, axis = data.draw(shaped(sum(widths)))
    holders = [{owner} for owner in owners(widths)]
    map_ = contiguous_split_map(shape, widths, axis)
    assert elements(map_) == owned(shape, axis, holders, len(widths))


@unhurried
@given(st.data(), widths_by_block())
def test_sub_params_give_each_index_of_each_block_to_its_owner(
    data: st.DataObject, rows: list[list[int]]
) -> None:
    blocks = [sum(row) for row in rows]
    shape, axis = data.draw(shaped(sum(blocks)))
    holders = [{owner} for row in rows for owner in owners(row)]
    map_ = sub_param_map(shape, blocks, rows, axis)
    assert elements(map_) == owned(shape, axis, holders, len(rows[0]))


@unhurried
@given(st.data(), widths_by_block())
def test_segments_are_split_over_all_locations_or_whole_on_each(
    data: st.DataObject, rows: list[list[int]]
) -> None:
    num_locations = len(rows[0])
    segments = [(sum(row), data.draw(st.booleans())) for row in rows]
    shape, axis = data.draw(shaped(sum(size for size, _ in segments)))
    holders = [
        set(range(num_locations)) if replicated else {owner}
        for row, (_, replicated) in zip(rows, segments, strict=True)
        for owner in owners(row)
    ]
    split = [row for row, (_, replicated) in zip(rows, segments, strict=True) if not replicated]
    map_ = segmented_map(shape, segments, axis, num_locations, split)
    assert elements(map_) == owned(shape, axis, holders, num_locations)


@unhurried
@given(st.data(), st.integers(0, 4), st.integers(1, 3), st.integers(1, 3))
def test_gathered_blocks_follow_each_other_in_the_order_of_their_ids(
    data: st.DataObject, num_blocks: int, block_size: int, num_locations: int
) -> None:
    shape, axis = data.draw(shaped(num_blocks * block_size))
    ids = {
        location: data.draw(st.permutations(range(num_blocks)))[
            : data.draw(st.integers(0, num_blocks))
        ]
        for location in range(num_locations)
    }
    ids[7] = [block for block in range(num_blocks) if not any(block in own for own in ids.values())]
    expected = {
        location: along(
            shape, axis, [block * block_size + i for block in own for i in range(block_size)]
        )
        for location, own in ids.items()
    }
    assert elements(block_gather_map(shape, ids, block_size, axis)) == expected


@unhurried
@given(st.data(), st.lists(st.lists(st.integers(0, 3), max_size=2), min_size=1, max_size=4))
def test_flat_maps_hold_their_interval_of_all_parameters_end_to_end(
    data: st.DataObject, shapes: list[list[int]]
) -> None:
    every = [(f"p{n}", i) for n, shape in enumerate(shapes) for i in range(math.prod(shape))]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(every)), max_size=3)))
    intervals = list(zip([0, *cuts], [*cuts, len(every)], strict=True))
    locations = data.draw(st.permutations(range(len(intervals))))
    by_location = dict(zip(locations, intervals, strict=True))
    maps = flat_map({f"p{n}": shape for n, shape in enumerate(shapes)}, by_location)
    assert list(maps) == [f"p{n}" for n in range(len(shapes))]
    for name, map_ in maps.items():
        expected = {
            location: [i for owner, i in every[start:stop] if owner == name]
            for location, (start, stop) in by_location.items()
        }
        assert elements(map_) == expected
        assert dict(map_.shard_shapes) == {at: (len(held),) for at, held in expected.items()}


def strided_chunk(indices: list[int], num_parts: int, part: int, split_factor: int) -> list[int]:
    """Rows of outer blocks, the last ones padded; their columns are chunked by torch."""
    width = -(-len(indices) // split_factor)
    padded = indices + [-1] * (split_factor * width - len(indices))
    columns = torch.tensor(padded, dtype=torch.int64).view(split_factor, width)
    chunks = torch.chunk(columns, num_parts, dim=1)
    chosen = chunks[part].flatten().tolist() if part < len(chunks) else []
    return [index for index in chosen if index >= 0]


placements = st.one_of(
    st.just(["replicate"]),
    st.tuples(st.just("shard"), st.integers(0, 1)).map(list),
    st.tuples(st.just("strided_shard"), st.integers(0, 1), st.integers(1, 4)).map(list),
)


@unhurried
@given(st.data(), st.tuples(st.integers(0, 9), st.integers(0, 5)), st.integers(0, 3))
def test_meshes_chunk_what_the_former_placements_left(
    data: st.DataObject, shape: tuple[int, int], num_axes: int
) -> None:
    mesh = [data.draw(st.integers(1, 3)) for _ in range(num_axes)]
    placed: list[list[Any]] = [data.draw(placements) for _ in mesh]
    expected = {}
    for location, place in enumerate(itertools.product(*map(range, mesh))):
        kept = [list(range(extent)) for extent in shape]
        for part, num_parts, placement in zip(place, mesh, placed, strict=True):
            if placement[0] != "replicate":
                dim, split_factor = placement[1], (*placement, 1)[2]
                kept[dim] = strided_chunk(kept[dim], num_parts, part, split_factor)
        expected[location] = [address(index, shape) for index in itertools.product(*kept)]
    assert elements(mesh_map(shape, mesh, placed)) == expected


@unhurried
@given(st.integers(0, 20), st.integers(1, 6))
def test_a_shard_has_the_sizes_of_torch_chunk(extent: int, num_parts: int) -> None:
    chunks = [chunk.tolist() for chunk in torch.chunk(torch.arange(extent), num_parts)]
    chunks += [[]] * (num_parts - len(chunks))
    map_ = mesh_map((extent,), [num_parts], [["shard", 0]])
    assert elements(map_) == dict(enumerate(chunks))


VALID: dict[str, dict[str, Any]] = {
    "replicated_map": {"shape": [4], "num_locations": 2},
    "contiguous_split_map": {"shape": [4, 2], "widths": [3, 1], "dim": 0},
    "sub_param_map": {
        "shape": [4, 2],
        "block_sizes": [3, 1],
        "widths_by_block": [[2, 1], [0, 1]],
        "dim": 0,
    },
    "segmented_map": {
        "shape": [4, 2],
        "segments": [[3, False], [1, True]],
        "dim": 0,
        "num_locations": 2,
        "widths_by_split_block": [[2, 1]],
    },
    "block_gather_map": {
        "shape": [4, 2],
        "block_ids_by_location": {"0": [1], "1": [0]},
        "block_size": 2,
        "dim": 0,
    },
    "flat_map": {"shapes": {"w": [4]}, "intervals_by_location": {"0": [0, 3], "1": [3, 4]}},
    "mesh_map": {"shape": [4, 2], "mesh_shape": [2], "placements": [["shard", 0]]},
}


@pytest.mark.parametrize("name", VALID)
def test_arguments_survive_json(name: str) -> None:
    arguments = json.loads(json.dumps(VALID[name]))
    assert BUILDERS[name](**arguments) == BUILDERS[name](**VALID[name])


AXES = "dim must be one of [-2, -1, 0, 1], the axes of shape [4, 2], got"
KINDS = '["replicate"], ["shard", dim] or ["strided_shard", dim, split_factor]'


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("replicated_map", {"shape": [4.0]}, "shape[0] must be an integer, got 4.0"),
        ("replicated_map", {"shape": 4}, "shape must be a sequence of integers, got 4"),
        (
            "replicated_map",
            {"shape": [-1, 2]},
            "shape must hold integers of 0 or more, got [-1, 2]",
        ),
        ("replicated_map", {"num_locations": 0}, "num_locations must be 1 or more, got 0"),
        ("replicated_map", {"num_locations": True}, "num_locations must be an integer, got True"),
        ("replicated_map", {"scale": 0.0}, "scale must be finite and not 0, got 0.0"),
        ("replicated_map", {"scale": math.inf}, "scale must be finite and not 0, got inf"),
        ("replicated_map", {"scale": "1"}, "scale must be a number, got '1'"),
        ("contiguous_split_map", {"dim": 2}, f"{AXES} 2"),
        ("contiguous_split_map", {"dim": -3}, f"{AXES} -3"),
        ("contiguous_split_map", {"dim": 0.0}, "dim must be an integer, got 0.0"),
        (
            "contiguous_split_map",
            {"shape": [], "widths": [1]},
            "dim must be one of [], the axes of shape [], got 0",
        ),
        ("contiguous_split_map", {"widths": []}, "widths must not be empty"),
        ("contiguous_split_map", {"widths": 4}, "widths must be a list, got 4"),
        (
            "contiguous_split_map",
            {"widths": [5, -1]},
            "widths must hold integers of 0 or more, got [5, -1]",
        ),
        (  # F03: sizes rounded to a grain of 4
            "contiguous_split_map",
            {"shape": [10], "widths": [4, 4, 0]},
            "widths must sum to 10, got [4, 4, 0], which sum to 8",
        ),
        ("sub_param_map", {"dim": 2}, f"{AXES} 2"),
        (
            "sub_param_map",
            {"block_sizes": [2, 1]},
            "block_sizes must sum to 4, got [2, 1], which sum to 3",
        ),
        ("sub_param_map", {"block_sizes": []}, "block_sizes must not be empty"),
        (
            "sub_param_map",
            {"widths_by_block": [[2, 1]]},
            "widths_by_block must have 2 entries, one per block, got 1",
        ),
        (
            "sub_param_map",
            {"widths_by_block": [[2, 1], [1]]},
            "widths_by_block[1] must have 2 entries, one per location, got 1",
        ),
        (
            "sub_param_map",
            {"widths_by_block": [[2, 2], [0, 1]]},
            "widths_by_block[0] must sum to 3, got [2, 2], which sum to 4",
        ),
        (
            "sub_param_map",
            {"widths_by_block": [[2, 1], [2, -1]]},
            "widths_by_block[1] must hold integers of 0 or more, got [2, -1]",
        ),
        ("sub_param_map", {"widths_by_block": [[], []]}, "widths_by_block[0] must not be empty"),
        ("segmented_map", {"dim": 2}, f"{AXES} 2"),
        ("segmented_map", {"num_locations": 0}, "num_locations must be 1 or more, got 0"),
        ("segmented_map", {"segments": []}, "segments must not be empty"),
        (
            "segmented_map",
            {"segments": [[3, False], [1, 1]]},
            "segments[1] must be [size, replicated], got [1, 1]",
        ),
        (
            "segmented_map",
            {"segments": [[5, False], [-1, True]]},
            "segments[1] must hold integers of 0 or more, got [-1]",
        ),
        (
            "segmented_map",
            {"segments": [[3, False], [2, True]]},
            "the sizes of segments must sum to 4, got [3, 2], which sum to 5",
        ),
        (
            "segmented_map",
            {"widths_by_split_block": [[2, 1], [1, 0]]},
            "widths_by_split_block must have 1 entries, one per split block, got 2",
        ),
        (
            "segmented_map",
            {"widths_by_split_block": [[1, 1]]},
            "widths_by_split_block[0] must sum to 3, got [1, 1], which sum to 2",
        ),
        (
            "segmented_map",
            {"num_locations": 3},
            "widths_by_split_block[0] must have 3 entries, one per location, got 2",
        ),
        ("block_gather_map", {"dim": 2}, f"{AXES} 2"),
        ("block_gather_map", {"block_size": 0}, "block_size must be 1 or more, got 0"),
        ("block_gather_map", {"block_size": 3}, "block_size must divide the extent 4, got 3"),
        (
            "block_gather_map",
            {"block_ids_by_location": [[0], [1]]},
            "block_ids_by_location must be a mapping by location, got [[0], [1]]",
        ),
        (
            "block_gather_map",
            {"block_ids_by_location": {}},
            "block_ids_by_location must name at least one location",
        ),
        (
            "block_gather_map",
            {"block_ids_by_location": {"a": [0, 1]}},
            "block_ids_by_location must have locations (0, 1, ...) as keys, got 'a'",
        ),
        (
            "block_gather_map",
            {"block_ids_by_location": {"0": [0], 0: [1]}},
            "block_ids_by_location names location 0 twice",
        ),
        (
            "block_gather_map",
            {"block_ids_by_location": {0: [0, 2, 3]}},
            "block_ids_by_location[0] must hold blocks below 2, got [2, 3]",
        ),
        (
            "block_gather_map",
            {"block_ids_by_location": {0: [0, -1]}},
            "block_ids_by_location[0] must hold integers of 0 or more, got [0, -1]",
        ),
        (
            "block_gather_map",
            {"block_ids_by_location": {0: [1, 0, 1]}},
            "block_ids_by_location[0] must hold a block at most once, got [1] more often",
        ),
        (
            "block_gather_map",
            {"block_size": 1, "block_ids_by_location": {0: [0], 1: [2]}},
            "block_ids_by_location must name each of 4 blocks; 2 have no holder, "
            "the first is block 1",
        ),
        ("flat_map", {"shapes": {}}, "shapes must not be empty"),
        ("flat_map", {"shapes": 4}, "shapes must be a list, got 4"),
        ("flat_map", {"shapes": [["w", [2]], ["w", [2]]]}, "shapes names 'w' twice"),
        ("flat_map", {"shapes": [[4]]}, "shapes must hold a name and a value each, got [4]"),
        (
            "flat_map",
            {"shapes": {"w": [-4]}},
            "shapes['w'] must hold integers of 0 or more, got [-4]",
        ),
        (
            "flat_map",
            {"intervals_by_location": {}},
            "intervals_by_location must name at least one location",
        ),
        *(
            (
                "flat_map",
                {"intervals_by_location": {"0": bounds}},
                "intervals_by_location[0] must be [start, stop] with 0 <= start <= stop <= 4, "
                f"got {bounds}",
            )
            for bounds in ([4], [0, 5], [-1, 4], [3, 2])
        ),
        (
            "flat_map",
            {"intervals_by_location": {"0": 4}},
            "intervals_by_location[0] must be a sequence of integers, got 4",
        ),
        *(
            (
                "flat_map",
                {"intervals_by_location": dict(enumerate(intervals))},
                f"intervals_by_location must hold each of 4 elements once, but they {fault}",
            )
            for intervals, fault in (
                ([[0, 2], [3, 4]], "leave a gap at [2, 3)"),
                ([[1, 4]], "leave a gap at [0, 1)"),
                ([[0, 3]], "leave a gap at [3, 4)"),
                ([[1, 1]], "leave a gap at [0, 4)"),
                ([[1, 4], [0, 2]], "overlap at [1, 2)"),
                ([[0, 4], [0, 4]], "overlap at [0, 4)"),
            )
        ),
        (
            "mesh_map",
            {"placements": [["replicate"], ["shard", 0]]},
            "placements must have 1 entries, one per mesh axis, got 2",
        ),
        ("mesh_map", {"mesh_shape": [0]}, "mesh_shape[0] must be 1 or more, got 0"),
        ("mesh_map", {"mesh_shape": 2}, "mesh_shape must be a sequence of integers, got 2"),
        (
            "mesh_map",
            {"placements": [["shard", 2]]},
            "placements[0][1] must be one of [-2, -1, 0, 1], the axes of shape [4, 2], got 2",
        ),
        (
            "mesh_map",
            {"placements": [["strided_shard", 0, 0]]},
            "placements[0][2] must be 1 or more, got 0",
        ),
        *(
            (
                "mesh_map",
                {"placements": [placement]},
                f"placements[0] must be {KINDS}, got {placement!r}",
            )
            for placement in (["shard"], ["replicate", 0], ["partial"], "replicate", None)
        ),
    ],
)
def test_a_wrong_argument_is_refused_with_its_name(
    name: str, changes: dict[str, Any], message: str
) -> None:
    with refuses(message):
        BUILDERS[name](**{**VALID[name], **changes})


# The calls of fixtures/golden/README.md, made here.
OURS: Mapping[str, ParamAffineMap] = {
    "replicated": replicated_map((2, 3), 2),
    "replicated_scalar": replicated_map((), 2),
    "replicated_scaled": replicated_map((4,), 4, scale=0.25),
    "rows_even": contiguous_split_map((4, 3), [2, 2], 0),
    "columns_uneven": contiguous_split_map((2, 3), [2, 1], 1),
    "middle_axis": contiguous_split_map((2, 3, 2), [1, 2], 1),
    "zero_width": contiguous_split_map((3, 2), [2, 0, 1], 0),
    "fused_qkv": sub_param_map((8, 2), [4, 2, 2], [[2, 2], [1, 1], [1, 1]], 0),
    "fused_columns": sub_param_map((2, 6), [4, 2], [[1, 3], [2, 0]], 1),
    "replicated_kv": segmented_map((6, 2), [(4, False), (2, True)], 0, 2, [[1, 3]]),
    "segments_mixed": segmented_map(
        (2, 7), [(2, True), (3, False), (2, False)], 1, 2, [[1, 2], [2, 0]]
    ),
    "gathered_blocks": block_gather_map((6, 2), {0: [0, 1], 1: [2]}, 2, 0),
    "gathered_reordered": block_gather_map((2, 8), {0: [3, 0], 1: [1, 2]}, 2, 1),
}
WITH_EMPTY_PIECES = {"zero_width", "fused_columns", "segments_mixed"}
DEEPSPEED: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "fixtures/golden/deepspeed_maps.json").read_text()
)


def without_empty_pieces(map_: ParamAffineMap) -> ParamAffineMap:
    held = {
        location: [piece for piece in pieces if piece.num_elements]
        for location, pieces in map_.pieces_by_location
    }
    return ParamAffineMap(map_.logical_shape, map_.shard_shapes, held)


def with_integer_keys(envelope: dict[str, Any]) -> dict[str, Any]:
    params = {
        name: {**entry, "ranks": {int(key): rank for key, rank in entry["ranks"].items()}}
        for name, entry in envelope["params"].items()
    }
    return {**envelope, "params": params}


@pytest.mark.parametrize("envelope", [DEEPSPEED, with_integer_keys(DEEPSPEED)])
def test_maps_that_deepspeed_wrote_are_those_that_our_builders_make(
    envelope: dict[str, Any],
) -> None:
    theirs = maps_from_dict(envelope)
    assert {name: without_empty_pieces(map_) for name, map_ in theirs.items()} == OURS
    assert {name for name in OURS if theirs[name] != OURS[name]} == WITH_EMPTY_PIECES


@pytest.mark.parametrize("name", OURS)
def test_maps_that_deepspeed_wrote_are_valid(name: str) -> None:
    maps_from_dict(DEEPSPEED)[name].validate()


@pytest.mark.parametrize("name", sorted(set(OURS) - WITH_EMPTY_PIECES))
def test_our_json_is_what_deepspeed_wrote(name: str) -> None:
    assert OURS[name].to_dict() == DEEPSPEED["params"][name]
