"""Golden answers of `map_problems`, derived by hand; F numbers are kinds of real faults."""

import math
from dataclasses import replace

import pytest
from truth_cases import map_of

from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.truth import map_problems

WHOLE = AffinePiece((4,), 0, (1,), 0, (1,), (0,))


def one_shard(shape, shard_shape, *pieces, padding=()):
    return ParamAffineMap(shape, {0: shard_shape}, {0: pieces}, {0: padding})


def texts(map_):
    return [str(problem) for problem in map_problems(map_)]


@pytest.mark.parametrize(
    ("shape", "shards"),
    [
        ((6,), {0: [0, 1, 2], 1: [3, 4, 5]}),
        ((6,), {0: [0, 1, 4, 5], 1: [2, 3, 4, 5]}),
        ((5, 1), {0: [0, 1, 2], 1: [3, 4, None]}),
        ((2, 3), {0: [[0, 1], [3, 4]], 1: [[2], [5]]}),
        ((2, 2), {0: [3, 1, None, 0, 2]}),
        ((4,), {2: [0, 1, 2], 0: [3], 1: []}),
        ((), {0: 0, 1: 0}),
        ((0, 3), {0: [], 1: []}),
        ((1, 1, 1, 1, 1, 1, 1, 2), {0: [0], 1: [1]}),
    ],
    ids=str,
)
def test_a_map_that_keeps_its_rules_has_no_problems(shape, shards):
    assert map_problems(map_of(shape, shards)) == ()


def test_f01_an_address_filled_twice_is_an_overlap_and_one_never_filled_a_gap():
    map_ = one_shard(
        (4,), (4,), replace(WHOLE, shape=(2,)), replace(WHOLE, shape=(2,), full_offset=2)
    )
    assert texts(map_) == [
        "MAP-TILE gap: location 0 [2:4], 2 elements; address 2 is filled by nothing",
        "MAP-TILE overlap: location 0 [0:2], 2 elements; address 0 is filled 2 times",
    ]


def test_f01_strided_pieces_are_judged_by_address_too():
    first = AffinePiece((2,), 0, (1,), 0, (2,), (0,))
    assert texts(one_shard((4,), (4,), first, replace(first, full_offset=2))) == [
        "MAP-TILE gap: location 0 [1:2], 1 element; address 1 is filled by nothing",
        "MAP-TILE gap: location 0 [3:4], 1 element; address 3 is filled by nothing",
        "MAP-TILE overlap: location 0 [0:1], 1 element; address 0 is filled 2 times",
        "MAP-TILE overlap: location 0 [2:3], 1 element; address 2 is filled 2 times",
    ]


def test_padding_over_a_piece_is_an_overlap():
    map_ = one_shard((4,), (4,), WHOLE, padding=[Padding((), 3, ())])
    assert texts(map_) == [
        "MAP-TILE overlap: location 0 [3:4], 1 element; address 3 is filled 2 times"
    ]


def test_a_gap_is_a_box_in_the_axes_of_the_shard():
    shard = [[0, 1, None, None], [2, 3, None, None]]
    right = map_of((4,), {0: shard})
    left = ParamAffineMap((4,), right.shard_shapes, right.pieces_by_location)
    assert texts(left) == [
        "MAP-TILE gap: location 0 [0:2, 2:4], 4 elements; address 2 is filled by nothing"
    ]


def test_a_gap_that_runs_over_rows_is_several_boxes():
    head, tail = AffinePiece((), 0, (), 0, (), (0,)), AffinePiece((), 1, (), 11, (), (0,))
    assert [problem.origin for problem in map_problems(one_shard((2,), (4, 3), head, tail))] == [
        (0, 1),
        (1, 0),
        (3, 0),
    ]


def test_a_piece_that_leaves_its_shard_is_outside():
    map_ = one_shard((4,), (2, 1), WHOLE)
    assert texts(map_) == [
        "MAP-TILE outside the shard: location 0 [2:4, 0:1], 2 elements; address 2 is outside"
    ]


def test_f03_an_element_in_no_piece_is_not_covered():
    map_ = map_of((10,), {0: [0, 1, 2, 3], 1: [4, 5, 6, 7], 2: []})
    assert texts(map_) == [
        "MAP-COVER not covered: full tensor [8:10], 2 elements; logical (8,) is in no piece"
    ]


def test_f08_a_column_shard_with_the_full_row_stride_leaves_a_gap_and_its_shard():
    right = map_of((2, 3), {0: [[0, 1], [3, 4]], 1: [[2], [5]]})
    piece = AffinePiece((2, 1), 2, (3, 1), 0, (3, 1), (1,))
    pieces = {0: right.pieces(0), 1: [piece]}
    assert texts(ParamAffineMap((2, 3), right.shard_shapes, pieces)) == [
        "MAP-TILE gap: location 1 [1:2, 0:1], 1 element; address 1 is filled by nothing",
        "MAP-TILE outside the shard: location 1 [3:4, 0:1], 1 element; address 3 is outside",
    ]


def test_f13_expert_slots_taken_for_expert_numbers_leave_experts_uncovered():
    slot = AffinePiece((2, 1), 0, (1, 1), 0, (1, 1), (0,))
    pieces = {0: [slot], 1: [replace(slot, locations=(1,))]}
    assert texts(ParamAffineMap((4, 1), {0: (2, 1), 1: (2, 1)}, pieces)) == [
        "MAP-COVER not covered: full tensor [2:4, 0:1], 2 elements; logical (2, 0) is in no piece",
        "MAP-HOLD wrong holders: full tensor [0:2, 0:1], 2 elements; logical (0, 0) is held by "
        "locations [0, 1]; a piece at location 0 names [0]",
    ]


def test_a_piece_that_leaves_the_full_tensor_is_outside():
    assert texts(one_shard((3,), (4,), WHOLE)) == [
        "MAP-COVER outside the full tensor: full tensor [3:4], 1 element; "
        "logical (3,) does not exist"
    ]


def test_elements_of_an_empty_tensor_do_not_exist():
    assert texts(one_shard((0,), (4,), WHOLE)) == [
        "MAP-COVER outside the full tensor: full tensor [0:4], 4 elements; "
        "logical (0,) does not exist"
    ]


def test_f02_a_piece_merged_across_a_change_of_holders_names_the_wrong_ones():
    first = [
        AffinePiece((2,), 0, (1,), 0, (1,), (0,)),
        AffinePiece((2,), 4, (1,), 2, (1,), (0, 1)),
    ]
    merged = AffinePiece((4,), 2, (1,), 0, (1,), (1,))
    map_ = ParamAffineMap((6,), {0: (4,), 1: (4,)}, {0: first, 1: [merged]})
    assert texts(map_) == [
        "MAP-HOLD wrong holders: full tensor [4:6], 2 elements; logical (4,) is held by "
        "locations [0, 1]; a piece at location 1 names [1]"
    ]


def test_a_piece_that_names_a_location_without_the_element_names_the_wrong_holders():
    assert texts(one_shard((4,), (4,), replace(WHOLE, locations=(0, 7)))) == [
        "MAP-HOLD wrong holders: full tensor [0:4], 4 elements; logical (0,) is held by "
        "locations [0]; a piece at location 0 names [0, 7]"
    ]


def test_a_location_that_holds_an_element_in_two_places_is_named():
    again = AffinePiece((), 3, (), 4, (), (0,))
    assert texts(one_shard((4,), (5,), WHOLE, again)) == [
        "MAP-HOLD held twice: full tensor [3:4], 1 element; "
        "logical (3,) is held more than once by locations [0]"
    ]


def test_a_piece_that_repeats_an_element_holds_it_twice():
    assert texts(one_shard((1,), (4,), replace(WHOLE, full_strides=(0,)))) == [
        "MAP-HOLD held twice: full tensor [0:1], 1 element; "
        "logical (0,) is held more than once by locations [0]"
    ]


def test_holders_of_one_element_must_have_one_scale():
    both = replace(WHOLE, locations=(0, 1))
    pieces = {0: [both], 1: [replace(both, scale=2.0)]}
    assert texts(ParamAffineMap((4,), {0: (4,), 1: (4,)}, pieces)) == [
        "MAP-HOLD scales differ: full tensor [0:4], 4 elements; "
        "logical (0,) is held with scales [1.0, 2.0]"
    ]


@pytest.mark.parametrize("scale", [0.0, -0.0, math.nan, math.inf, -math.inf])
def test_a_scale_must_be_finite_and_not_zero(scale):
    assert texts(one_shard((4,), (4,), replace(WHOLE, scale=scale))) == [
        f"MAP-SCALE bad scale: scale of piece 0 of location 0 is {scale}"
    ]


@pytest.mark.parametrize("scale", [-1.0, 1e-300])
def test_a_negative_or_tiny_scale_is_allowed(scale):
    assert map_problems(one_shard((4,), (4,), replace(WHOLE, scale=scale))) == ()


@pytest.mark.parametrize(
    ("changes", "example"),
    [
        ({"shape": (-4,)}, "shape of piece 0 of location 0 is -4"),
        ({"full_offset": -1}, "full_offset of piece 0 of location 0 is -1"),
        ({"full_strides": (-1,)}, "full_strides of piece 0 of location 0 is -1"),
        ({"shard_offset": -1}, "shard_offset of piece 0 of location 0 is -1"),
        ({"shard_strides": (-1,)}, "shard_strides of piece 0 of location 0 is -1"),
        ({"locations": (-1, 0)}, "locations of piece 0 of location 0 is -1, 0"),
    ],
    ids=str,
)
@pytest.mark.parametrize("extent", [0, 4])
def test_a_negative_number_in_a_piece_is_refused_even_if_the_piece_is_empty(
    changes, example, extent
):
    piece = replace(WHOLE, **({"shape": (extent,)} | changes))
    assert texts(one_shard((extent,), (extent,), piece)) == [
        f"MAP-SCALE negative number: {example}"
    ]


@pytest.mark.parametrize(
    ("map_", "example"),
    [
        (ParamAffineMap((-1,), {0: (0,)}, {}), "logical_shape of the map is -1"),
        (ParamAffineMap((0,), {0: (2, -1)}, {}), "shard_shape of location 0 is 2, -1"),
        (ParamAffineMap((0,), {-1: (0,)}, {}), "location of a shard is -1"),
        (
            one_shard((4,), (4,), WHOLE, padding=[Padding((0,), -2, (1,))]),
            "shard_offset of padding block 0 of location 0 is -2",
        ),
    ],
)
def test_a_negative_number_anywhere_else_is_refused(map_, example):
    assert texts(map_) == [f"MAP-SCALE negative number: {example}"]


def test_bad_scales_are_named_beside_negative_numbers():
    bad = one_shard((4,), (4,), replace(WHOLE, full_offset=-1, scale=0.0))
    assert [problem.kind for problem in map_problems(bad)] == ["negative number", "bad scale"]


def test_an_empty_piece_imposes_nothing():
    empty = AffinePiece((0, 3), 99, (7, 7), 99, (0, 0), (5,))
    assert map_problems(one_shard((4,), (4,), WHOLE, empty)) == ()


def test_problems_come_by_location_then_rule_and_the_full_tensor_last():
    pieces = {
        0: [replace(WHOLE, shape=(5,), locations=(0,))],
        1: [replace(WHOLE, shape=(1,), locations=(1,))],
    }
    problems = map_problems(ParamAffineMap((6,), {0: (4,), 1: (2,)}, pieces))
    assert [(problem.location, problem.kind) for problem in problems] == [
        (0, "outside the shard"),
        (1, "gap"),
        (None, "not covered"),
        (None, "wrong holders"),
    ]
