"""What `maps` and `map_pairs` draw: all that they promise, and nothing that is invalid."""

import math
import subprocess
import sys

import pytest
from finding import EXAMPLES, found, smallest
from hypothesis import given, settings

from pytest_affine import truth
from pytest_affine.builders import replicated_map
from pytest_affine.reference.planner import plan_transfer
from pytest_affine.strategies import MAP_KINDS, POWERS_OF_TWO, map_pairs, maps, shapes

TILED = ("tiled_boxes", "tiled_intervals")


def pieces_of(map_):
    return [piece for _, held in map_.pieces_by_location for piece in held]


def held_at(map_):
    return [held for _, held in map_.pieces_by_location]


def wide_axes(piece):
    """(extent, full stride, shard stride) of the axes of more than one element."""
    axes = zip(piece.shape, piece.full_strides, piece.shard_strides, strict=True)
    return [axis for axis in axes if axis[0] > 1]


def last_address(block):
    return block.shard_offset + sum(
        (extent - 1) * stride
        for extent, stride in zip(block.shape, block.shard_strides, strict=True)
    )


def padding_of(map_):
    """(padding block, shard size, pieces of the same location)."""
    return [
        (block, map_.shard_size(location), map_.pieces(location))
        for location, blocks in map_.padding_by_location
        for block in blocks
        if block.num_elements
    ]


def crosses_rows(map_, piece):
    """Whether a piece is an interval that begins within a row and ends in a later one."""
    row = max((1, *map_.logical_shape[-1:]))
    first, last = piece.full_offset, piece.full_offset + piece.num_elements - 1
    packed = [stride for _, stride, _ in wide_axes(piece)] == [1]
    return packed and first % row > 0 and first // row < last // row


def two_pieces_interleaved(held):
    return any(
        0 < second.shard_offset - first.shard_offset < last_address(first) - first.shard_offset
        and first.num_elements > 1 < second.num_elements
        for first in held
        for second in held
    )


def how_often(locations, held):
    return sum(piece.locations == locations for piece in held)


PROMISES = {
    "a scalar": lambda map_: map_.logical_shape == (),
    "a tensor without elements": lambda map_: map_.num_elements == 0,
    "a tensor of five axes": lambda map_: len(map_.logical_shape) == 5,
    "a long tensor": lambda map_: max(map_.logical_shape, default=0) > 20,
    "nine locations or more": lambda map_: len(map_.locations) > 8,
    "numbers with gaps": lambda map_: max(map_.locations) >= len(map_.locations),
    "an empty shard beside others": lambda map_: {0} < {math.prod(s) for _, s in map_.shard_shapes},
    "one copy of some elements and more of others": lambda map_: (
        1 in (copies := {len(piece.locations) for piece in pieces_of(map_)}) and max(copies) > 1
    ),
    "padding behind": lambda map_: any(
        last_address(block) == size - 1 and any(piece.num_elements for piece in held)
        for block, size, held in padding_of(map_)
    ),
}


@pytest.mark.parametrize("promise", PROMISES)
def test_maps_of_builders_include(promise):
    assert found(maps(kinds=MAP_KINDS[:-2]), PROMISES[promise])


TILED_PROMISES = {
    **PROMISES,
    "padding in front": lambda map_: any(
        block.shard_offset == 0 and held for block, _, held in padding_of(map_)
    ),
    "padding between": lambda map_: any(
        min(piece.shard_offset for piece in held) < block.shard_offset
        and max(map(last_address, held)) > last_address(block)
        for block, _, held in padding_of(map_)
        if held
    ),
    "a shard of padding alone": lambda map_: any(not held for _, _, held in padding_of(map_)),
    "a piece at every second address": lambda map_: any(
        [axis[2] for axis in wide_axes(piece)] == [2] for piece in pieces_of(map_)
    ),
    "pieces that take turns": lambda map_: any(map(two_pieces_interleaved, held_at(map_))),
    "axes in another order": lambda map_: any(
        [axis[1] for axis in axes] == [1, map_.logical_shape[-1]] and axes[0][2] > axes[1][2]
        for axes in map(wide_axes, pieces_of(map_))
        if map_.logical_shape
    ),
    "more axes than the tensor has": lambda map_: any(
        len(piece.shape) > len(map_.logical_shape) for piece in pieces_of(map_)
    ),
    "one axis as two": lambda map_: any(
        {axis[1] for axis in wide_axes(piece)} == {1, 2}
        for piece in pieces_of(map_)
        if len(map_.logical_shape) == 1
    ),
    "a piece without elements": lambda map_: (
        map_.num_elements and any(not piece.num_elements for piece in pieces_of(map_))
    ),
    "parts in another order": lambda map_: any(
        first.full_offset > second.full_offset and first.shard_offset < second.shard_offset
        for held in held_at(map_)
        for first in held
        for second in held
    ),
    "holders that cut what they hold differently": lambda map_: any(
        len({how_often(piece.locations, map_.pieces(at)) for at in piece.locations}) > 1
        for piece in pieces_of(map_)
        if piece.num_elements
    ),
    "shards of two axes": lambda map_: any(len(shape) == 2 for _, shape in map_.shard_shapes),
}


@pytest.mark.parametrize("promise", TILED_PROMISES)
def test_maps_that_no_builder_makes_include(promise):
    assert found(maps(kinds=TILED), TILED_PROMISES[promise])


def test_intervals_begin_and_end_within_rows():
    assert found(
        maps(kinds=["tiled_intervals"]),
        lambda map_: any(crosses_rows(map_, piece) for piece in pieces_of(map_)),
    )


@pytest.mark.parametrize(
    "is_joined",
    [
        lambda axes: {stride for _, stride, _ in axes} == {12, 1} and max(axes)[0] > 4,
        lambda axes: max(axes, default=(0,))[0] > 12,
    ],
    ids=["two of them", "all of them"],
)
def test_intervals_run_over_some_axes_of_three(is_joined):
    assert found(
        maps(kinds=["tiled_intervals"], logical_shape=[2, 3, 4]),
        lambda map_: any(is_joined(wide_axes(piece)) for piece in pieces_of(map_)),
    )


def test_locations_need_not_be_in_the_order_of_what_they_hold():
    def first_offsets(map_):
        return [held[0].full_offset for held in held_at(map_) if held]

    assert found(
        maps(kinds=["contiguous_split_map"]),
        lambda map_: first_offsets(map_) != sorted(first_offsets(map_)),
    )


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        ("replicated_map", lambda map_: {p.locations for p in pieces_of(map_)} == {(0, 1, 2)}),
        (
            "contiguous_split_map",
            lambda map_: len({map_.shard_size(at) for at in map_.locations} | {0}) == 3,
        ),
        ("sub_param_map", lambda map_: max(map(len, held_at(map_))) == 3),
        (
            "segmented_map",
            lambda map_: {1, len(map_.locations)} == {len(p.locations) for p in pieces_of(map_)},
        ),
        (
            "block_gather_map",
            lambda map_: any(
                len(held) > 1
                and held[0].full_offset > held[1].full_offset
                and held[0].shape == (2,)
                for held in held_at(map_)
            ),
        ),
        ("flat_map", lambda map_: any(crosses_rows(map_, piece) for piece in pieces_of(map_))),
        ("mesh_map", lambda map_: max(map(len, held_at(map_))) == 2),
    ],
)
def test_maps_of_every_builder_are_drawn(kind, condition):
    assert found(maps(kinds=[kind]), condition)


@settings(EXAMPLES, max_examples=50)
@given(maps(scales=POWERS_OF_TWO))
def test_maps_are_valid_and_small(map_):
    assert truth.map_problems(map_) == ()
    map_.validate()
    assert map_.num_elements <= 720
    assert set(map_.locations) <= set(range(10))


@settings(EXAMPLES)
@given(map_pairs(scales=(0.5, -1.0)))
def test_pairs_are_of_one_tensor_and_one_scale(pair):
    assert pair[0].logical_shape == pair[1].logical_shape
    scales = {piece.scale for map_ in pair for piece in pieces_of(map_) if piece.num_elements}
    assert scales in (set(), {0.5}, {-1.0})


@settings(EXAMPLES, max_examples=50)
@given(map_pairs())
def test_plans_of_pairs_are_exact(pair):
    assert truth.plan_problems(plan_transfer(*pair), *pair) == ()


@pytest.mark.parametrize("scale", [2.0, -1.0])
def test_pairs_are_scaled_alike(scale):
    source, target = found(
        map_pairs(scales=POWERS_OF_TWO, kinds=TILED),
        lambda pair: {piece.scale for map_ in pair for piece in pieces_of(map_)} == {scale},
    )
    assert truth.plan_problems(plan_transfer(source, target), source, target) == ()


def test_blocks_of_one_map_may_have_scales_of_their_own():
    assert found(
        maps(kinds=TILED, scales=(1.0, 0.5, 2.0)),
        lambda map_: len({piece.scale for piece in pieces_of(map_)}) == 3,
    )


@settings(EXAMPLES)
@given(map_pairs(logical_shape=[3, 4], max_locations=2, padding=False))
def test_pairs_keep_to_the_options(pair):
    for map_ in pair:
        assert map_.logical_shape == (3, 4)
        assert set(map_.locations) <= {0, 1}
        assert map_.padding_by_location == ()


@settings(EXAMPLES)
@given(maps(max_elements=9, kinds=["contiguous_split_map"]))
def test_drawn_shapes_keep_to_the_options(map_):
    assert map_.num_elements <= 9
    assert map_.logical_shape != ()


@settings(EXAMPLES)
@given(shapes(min_axes=2, max_axes=3, max_elements=20, empty=False))
def test_shapes_keep_to_the_options(shape):
    assert len(shape) in (2, 3)
    assert 1 <= math.prod(shape) <= 20


def test_a_map_of_six_elements_shrinks_to_one_whole_copy():
    drawn = smallest(maps(), lambda map_: map_.num_elements > 5)
    assert drawn.num_elements == 6
    assert drawn == replicated_map(drawn.logical_shape, 1)


def test_a_split_shrinks_to_one_element_on_each_side():
    drawn = smallest(
        maps(padding=False),
        lambda map_: (
            [map_.shard_size(at) > 0 for at in map_.locations] == [True, True]
            and all(len(piece.locations) == 1 for piece in pieces_of(map_))
        ),
    )
    assert [(at, drawn.shard_size(at)) for at in drawn.locations] == [(0, 1), (1, 1)]


def test_a_map_that_no_builder_makes_shrinks_to_what_is_asked_for():
    drawn = smallest(
        maps(kinds=TILED),
        lambda map_: any(axis[2] == 2 for piece in pieces_of(map_) for axis in wide_axes(piece)),
    )
    (piece,) = drawn.pieces(0)
    assert drawn.locations == (0,)
    assert (drawn.num_elements, drawn.shard_size(0)) == (2, 4)
    assert wide_axes(piece) == [(2, 1, 2)]


def test_a_pair_shrinks_together():
    source, target = smallest(
        map_pairs(), lambda pair: pair[0].locations == (0, 1) != pair[1].locations
    )
    assert (source, target) == (replicated_map((), 2), replicated_map((), 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["split"]}, r"kinds must be some of replicated_map, .*, got \['split'\]"),
        ({"kinds": []}, r"kinds must be some of .*, got \[\]"),
        ({"max_locations": 0}, r"max_locations must be 1 or more, got 0"),
        ({"max_elements": 0}, r"max_elements must be 1 or more, got 0"),
        ({"scales": [0.0]}, r"scales must be finite numbers other than 0, got \[0.0\]"),
        ({"scales": [math.inf]}, r"scales must be finite .*, got \[inf\]"),
        ({"scales": []}, r"scales must be finite .*, got \[\]"),
        (
            {"logical_shape": (), "kinds": ["sub_param_map", "segmented_map"]},
            r"of a scalar there are no maps of these kinds: sub_param_map, segmented_map",
        ),
    ],
)
def test_bad_options_are_refused_before_anything_is_drawn(options, message):
    for strategy in (maps, map_pairs):
        with pytest.raises(ValueError, match=message):
            strategy(**options)


def test_bad_bounds_of_shapes_are_refused():
    with pytest.raises(ValueError, match=r"0 <= min_axes <= max_axes must hold, got 3 and 2"):
        shapes(min_axes=3, max_axes=2)


def test_importing_the_strategies_imports_no_torch():
    code = "import sys, pytest_affine.strategies; print('torch' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"
