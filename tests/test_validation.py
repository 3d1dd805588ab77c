import math
import re

import pytest

from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.proof import PlacedMap, is_proven, place_map
from pytest_affine.validation import MAX_ENUMERATED, validate_map


def run(full_start, shard_start, length, locations=(0,), scale=1.0):
    """A piece of consecutive elements on both sides."""
    return AffinePiece((length,), full_start, (1,), shard_start, (1,), locations, scale)


def one_shard(size, *pieces, logical_shape=None, padding=()):
    shape = (size,) if logical_shape is None else logical_shape
    return ParamAffineMap(shape, {0: (size,)}, {0: pieces}, {0: padding})


def shards(logical_shape, pieces_by_location):
    """A map whose shards are as large as their pieces."""
    sizes = {
        location: (sum(piece.num_elements for piece in pieces),)
        for location, pieces in pieces_by_location.items()
    }
    return ParamAffineMap(logical_shape, sizes, pieces_by_location)


def refused(map_, *problems):
    """Exactly these problems are listed."""
    with pytest.raises(InvalidMapError) as caught:
        validate_map(map_)
    assert str(caught.value) == "the map breaks its rules:\n- " + "\n- ".join(problems)


def test_two_halves_that_fill_a_shard_in_the_other_order_are_valid():
    validate_map(one_shard(4, run(0, 2, 2), run(2, 0, 2)))


def test_shard_elements_filled_twice_and_not_at_all_are_refused_though_the_sizes_add_up():
    refused(
        one_shard(4, run(0, 0, 2), run(2, 0, 2)),
        "MAP-TILE: location 0: shard address 0, the first of 2, is filled by piece 0, piece 1",
        "MAP-TILE: location 0: shard address 2, the first of 2, is filled by nothing",
    )


def test_strided_pieces_that_fill_the_same_shard_elements_are_refused():
    strided = [AffinePiece((2,), start, (1,), 0, (2,), (0,)) for start in (0, 2)]
    refused(
        one_shard(4, *strided),
        "MAP-TILE: location 0: shard address 0, the first of 1, is filled by piece 0, piece 1",
        "MAP-TILE: location 0: shard address 1, the first of 1, is filled by nothing",
        "MAP-TILE: location 0: shard address 2, the first of 1, is filled by piece 0, piece 1",
        "MAP-TILE: location 0: shard address 3, the first of 1, is filled by nothing",
    )


def test_a_piece_that_reaches_behind_its_shard_is_refused():
    # Columns 2 of 3 that keep the stride of the full rows.
    columns = AffinePiece((2, 2), 0, (3, 1), 0, (3, 1), (0,))
    last = AffinePiece((2, 1), 2, (3, 1), 0, (1, 1), (1,))
    refused(
        ParamAffineMap((2, 3), {0: (2, 2), 1: (2, 1)}, {0: [columns], 1: [last]}),
        "MAP-TILE: location 0: piece 0 reaches shard address 4; there are 4 elements",
        "MAP-TILE: location 0: shard address 0, the first of 4, is filled by nothing",
    )


def test_padding_that_is_missing_is_a_gap():
    refused(
        ParamAffineMap((5,), {0: (6,)}, {0: [run(0, 0, 5)]}),
        "MAP-TILE: location 0: shard address 5, the first of 1, is filled by nothing",
    )


def test_padding_that_overlaps_a_piece_is_refused():
    map_ = ParamAffineMap((5,), {0: (6,)}, {0: [run(0, 0, 5)]}, {0: [Padding((2,), 4, (1,))]})
    refused(
        map_,
        "MAP-TILE: location 0: shard address 4, the first of 1, is filled by piece 0, padding 0",
    )


def test_shard_sizes_rounded_to_a_grain_leave_a_gap_in_the_full_tensor():
    pieces = {0: [run(0, 0, 4)], 1: [run(4, 0, 4, (1,))], 2: []}
    refused(
        shards((10,), pieces),
        "MAP-COVER: no location holds element (8,), the first of 2 that are missing there",
    )


def test_a_gap_between_boxes_is_named_by_its_index():
    top = AffinePiece((1, 3), 0, (3, 1), 0, (3, 1), (0,))
    left = AffinePiece((1, 2), 3, (3, 1), 3, (2, 1), (0,))
    refused(
        ParamAffineMap((2, 3), {0: (5,)}, {0: [top, left]}),
        "MAP-COVER: no location holds element (1, 2), the first of 1 that are missing there",
    )


def test_a_piece_that_reaches_behind_the_full_tensor_is_refused():
    refused(
        one_shard(4, run(0, 0, 2), run(3, 2, 2)),
        "MAP-COVER: location 0, piece 1 reaches full address 4; there are 4 elements",
        "MAP-COVER: no location holds element (2,), the first of 2 that are missing there",
    )


def test_a_run_that_crosses_a_change_of_holders_is_refused():
    # Location 0 holds 0, 1, 4, 5 and location 1 holds 2, 3, 4, 5; its run 2..5 is one piece.
    pieces = {0: [run(0, 0, 2), run(4, 2, 2, (0, 1))], 1: [run(2, 0, 4, (0, 1))]}
    refused(
        shards((6,), pieces),
        "MAP-HOLD: location 1, piece 0 names locations (0, 1), but element (2,) is held by (1,)",
    )


def test_a_split_declared_as_replicated_is_refused():
    pieces = {0: [run(0, 0, 2, (0, 1))], 1: [run(2, 0, 2, (0, 1))]}
    refused(
        shards((4,), pieces),
        "MAP-HOLD: location 0, piece 0 names locations (0, 1), but element (0,) is held by (0,)",
        "MAP-HOLD: location 1, piece 0 names locations (0, 1), but element (2,) is held by (1,)",
    )


def test_a_holder_that_is_not_named_is_refused():
    refused(
        shards((4,), {0: [run(0, 0, 4, (0,))], 1: [run(0, 0, 4, (0, 1))]}),
        "MAP-HOLD: location 0, piece 0 names locations (0,), but element (0,) is held by (0, 1)",
    )


def test_an_element_held_twice_by_one_location_is_refused():
    refused(
        ParamAffineMap((3,), {0: (4,)}, {0: [run(0, 0, 2), run(1, 2, 2)]}),
        "MAP-HOLD: locations [0] hold element (1,) more than once",
    )


def test_experts_taken_by_local_slot_leave_a_gap_and_are_held_twice():
    # Locations 0 and 1 have two experts each; both call theirs 0 and 1.
    pieces = {location: [run(0, 0, 2, (location,))] for location in (0, 1)}
    refused(
        shards((4, 1), pieces),
        *(
            f"MAP-HOLD: location {location}, piece 0 names locations ({location},), "
            "but element (0, 0) is held by (0, 1)"
            for location in (0, 1)
        ),
        "MAP-COVER: no location holds element (2, 0), the first of 2 that are missing there",
    )


def test_replicas_of_different_scale_are_refused():
    refused(
        shards((2,), {0: [run(0, 0, 2, (0, 1), 1.0)], 1: [run(0, 0, 2, (0, 1), 0.5)]}),
        "MAP-HOLD: element (0,) is held with different scales [0.5, 1.0]",
    )


@pytest.mark.parametrize("scale", [0.0, -0.0, math.inf, -math.inf, math.nan])
def test_a_scale_that_is_zero_or_not_finite_is_refused(scale):
    refused(
        one_shard(2, run(0, 0, 2, (0,), scale)),
        f"MAP-SCALE: location 0, piece 0: the scale is {scale}, it must be finite and not zero",
    )


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("shape", (-2,), "(-2,)"),
        ("full_offset", -1, "-1"),
        ("full_strides", (-1,), "(-1,)"),
        ("shard_offset", -1, "-1"),
        ("shard_strides", (-1,), "(-1,)"),
    ],
)
def test_negative_numbers_of_a_piece_are_refused(field, value, shown):
    fields = {
        "shape": (2,),
        "full_offset": 0,
        "full_strides": (1,),
        "shard_offset": 0,
        "shard_strides": (1,),
        "locations": (0,),
    }
    refused(
        one_shard(2, AffinePiece(**{**fields, field: value})),
        f"MAP-SCALE: location 0, piece 0: {field} is {shown}, negative numbers are refused",
    )


def test_negative_numbers_elsewhere_are_refused():
    map_ = ParamAffineMap((-2,), {-1: (-3,)}, {}, {-1: [Padding((1,), -4, (-1,))]})
    refused(
        map_,
        "MAP-SCALE: the map: logical_shape is (-2,), negative numbers are refused",
        "MAP-SCALE: the map: locations is (-1,), negative numbers are refused",
        "MAP-SCALE: location -1: shard_shape is (-3,), negative numbers are refused",
        "MAP-SCALE: location -1, padding 0: shard_offset is -4, negative numbers are refused",
        "MAP-SCALE: location -1, padding 0: shard_strides is (-1,), negative numbers are refused",
    )


def test_a_long_list_of_problems_is_cut_and_says_so():
    message = re.escape("location 0, piece 19: the scale is 0.0, it must be finite and not zero")
    with pytest.raises(InvalidMapError, match=rf"{message}\n- and perhaps more$"):
        validate_map(one_shard(100, *(run(at, at, 1, (0,), 0.0) for at in range(100))))


def test_of_many_pieces_in_one_place_the_first_two_are_named():
    with pytest.raises(
        InvalidMapError,
        match=r"address 0, the first of 1, is filled by piece 0, piece 1 and 8 more",
    ):
        validate_map(one_shard(1, *(run(0, 0, 1) for _ in range(10))))


def columns(rows, widths, *, locations=None):
    """Column blocks of one tensor, each piece at its own place in shards of the full width."""
    width = sum(widths)
    for index, extent in enumerate(widths):
        start = sum(widths[:index])
        yield AffinePiece((rows, extent), start, (width, 1), start, (width, 1), locations or (0,))


VALID = {
    "a scalar on two locations": shards(
        (), {at: [AffinePiece((), 0, (), 0, (), (0, 1))] for at in (0, 1)}
    ),
    "an empty parameter": ParamAffineMap((0, 3), {0: (0, 3), 1: (0,)}, {}),
    "an empty piece that names anyone": one_shard(
        2, run(0, 0, 2), AffinePiece((0,), 99, (1,), 99, (1,), (7,), 0.5)
    ),
    "more locations than rows": ParamAffineMap((1, 2), {0: (1, 2), 1: (0, 2)}, {0: [run(0, 0, 2)]}),
    "an uneven strided shard": ParamAffineMap(
        (5,),
        {0: (4,), 1: (1,)},
        {0: [run(0, 0, 2), run(3, 2, 2)], 1: [run(2, 0, 1, (1,))]},
    ),
    "columns packed in shards of their own": ParamAffineMap(
        (2, 3),
        {0: (2, 2), 1: (2, 1)},
        {
            0: [AffinePiece((2, 2), 0, (3, 1), 0, (2, 1), (0,))],
            1: [AffinePiece((2, 1), 2, (3, 1), 0, (1, 1), (1,))],
        },
    ),
    "interleaved columns of a flat shard": ParamAffineMap(
        (2, 6), {0: (12,)}, {0: list(columns(2, [1, 3, 2]))}
    ),
    "padding between rows": ParamAffineMap(
        (2, 3),
        {0: (2, 4)},
        {0: [AffinePiece((2, 3), 0, (3, 1), 0, (4, 1), (0,))]},
        {0: [Padding((2,), 3, (4,))]},
    ),
    "a transposed shard": ParamAffineMap(
        (2, 3), {0: (3, 2)}, {0: [AffinePiece((3, 2), 0, (1, 3), 0, (2, 1), (0,))]}
    ),
    "replicas cut in different places": shards(
        (6,),
        {
            0: [run(0, 0, 2, (0, 1)), run(2, 2, 4, (0, 1))],
            1: [run(0, 0, 5, (0, 1)), run(5, 5, 1, (0, 1))],
        },
    ),
    "parts of different pitch one behind the other": ParamAffineMap(
        (18,),
        {0: (18,)},
        {
            0: [
                AffinePiece((2, 2), 0, (2, 1), 0, (4, 1), (0,)),
                AffinePiece((2, 2), 4, (2, 1), 2, (4, 1), (0,)),
                AffinePiece((2, 3), 8, (3, 1), 8, (5, 1), (0,)),
                AffinePiece((2, 2), 14, (2, 1), 11, (5, 1), (0,)),
            ]
        },
    ),
    "a last row that is shorter": ParamAffineMap(
        (3 * 2**40 - 1,),
        {0: (3 * 2**40 - 1,)},
        {
            0: [
                AffinePiece((2**40, 2), 0, (2, 1), 0, (3, 1), (0,)),
                AffinePiece((2**40 - 1,), 2**41, (1,), 2, (3,), (0,)),
            ]
        },
    ),
    "every second element": shards(
        (2**40,),
        {at: [AffinePiece((2**39,), at, (2,), 0, (1,), (at,))] for at in (0, 1)},
    ),
    "strides that do not nest": ParamAffineMap(
        (8,),
        {0: (8,)},
        {0: [AffinePiece((3, 2), 0, (2, 1), 0, (2, 3), (0,)), run(6, 1, 1), run(7, 6, 1)]},
    ),
    "extents of 2 to the 60": ParamAffineMap(
        (2**60, 6), {0: (2**60, 6)}, {0: list(columns(2**60, [1, 3, 2]))}
    ),
    "offsets beyond 2 to the 53": shards(
        (2**53 + 3,), {0: [run(0, 0, 2**53 + 1)], 1: [run(2**53 + 1, 0, 2, (1,))]}
    ),
    "eight axes": one_shard(2**8, run(0, 0, 2**8), logical_shape=(2,) * 8),
}


@pytest.mark.parametrize("map_", VALID.values(), ids=VALID)
def test_a_map_that_keeps_its_rules_is_accepted(map_):
    validate_map(map_)


# No boxes of the full tensor, too many of them, and no boxes of a grid of the shard.
NOT_PROVEN = {"every second element", "a last row that is shorter", "strides that do not nest"}


@pytest.mark.parametrize("name", VALID)
def test_a_valid_map_of_boxes_takes_no_closer_look(name):
    placed = place_map(VALID[name])
    proven = isinstance(placed, PlacedMap) and is_proven(VALID[name], placed)
    assert proven == (name not in NOT_PROVEN)


def test_one_element_too_many_among_2_to_the_60_is_found():
    rows = 2**60
    refused(
        ParamAffineMap(
            (rows, 2), {0: (rows, 2)}, {0: [run(0, 0, rows + 1), run(rows, rows, rows)]}
        ),
        f"MAP-HOLD: locations [0] hold element ({rows // 2}, 0) more than once",
        f"MAP-TILE: location 0: shard address {rows}, the first of 1, "
        "is filled by piece 0, piece 1",
    )


def unnested(num_rows):
    """A piece whose shard strides 2 and 3 do not nest: rows at 0, 2, 4 and so on, two wide."""
    return AffinePiece((num_rows, 2), 0, (2, 1), 0, (2, 3), (0,))


def test_blocks_that_fit_no_grid_are_judged_one_by_one():
    refused(
        ParamAffineMap((6,), {0: (8,)}, {0: [unnested(3)]}),
        "MAP-TILE: location 0: shard address 1, the first of 1, is filled by nothing",
        "MAP-TILE: location 0: shard address 6, the first of 1, is filled by nothing",
    )


@pytest.mark.parametrize(
    ("shape", "strides", "size", "element"), [((2, 2), (1, 1), 3, 1), ((2,), (0,), 1, 0)]
)
def test_a_piece_that_covers_an_element_twice_is_refused(shape, strides, size, element):
    piece = AffinePiece(shape, 0, strides, 0, row_major_strides(shape), (0,))
    refused(
        ParamAffineMap((size,), {0: shape}, {0: [piece]}),
        f"MAP-HOLD: locations [0] hold element ({element},) more than once",
    )


def test_too_many_elements_that_fit_no_grid_are_unsupported():
    num_rows = MAX_ENUMERATED // 2 + 1
    message = (
        "MAP-TILE: location 0: the shard has blocks that fit no common grid, at addresses 0 to "
        f"{2 * num_rows + 1}, with strides [2, 3]; up to {MAX_ENUMERATED} such elements are "
        f"checked one by one, these are {2 * num_rows}: cut the blocks into boxes or flat intervals"
    )
    map_ = ParamAffineMap((2 * num_rows,), {0: (2 * num_rows + 2,)}, {0: [unnested(num_rows)]})
    with pytest.raises(UnsupportedLayoutError, match=f"^{re.escape(message)}$"):
        validate_map(map_)
