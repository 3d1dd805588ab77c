from itertools import product
from math import prod
from random import Random

import pytest

from pytest_affine.cells import Cell, cells
from pytest_affine.geometry import (
    MAX_UNROLLED,
    PlacedBox,
    join_axes,
    overlap,
    place_piece,
    reach,
    row_major_strides,
    unravel,
)


def box(origin, shape, offset=0, strides=None):
    strides = (0,) * len(shape) if strides is None else strides
    return PlacedBox(origin=origin, shape=shape, offset=offset, strides=strides)


def as_tuples(boxes):
    return [(box.origin, box.shape, box.offset, box.strides) for box in boxes]


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((5,), (1,)), ((2, 3, 4), (12, 4, 1)), ((2, 0, 4), (4, 4, 1))]
)
def test_a_packed_tensor_has_row_major_strides(shape, strides):
    assert row_major_strides(shape) == strides


def test_an_address_beyond_2_to_the_53_is_unravelled_exactly():
    assert unravel(2**60 + 7, (2**40, 2**21)) == (2**39, 7)


def test_a_block_reaches_to_its_last_element():
    assert reach((2, 3), (10, 2)) == 14
    assert reach((), ()) == 0


def test_axes_that_run_on_into_each_other_on_every_side_are_joined():
    assert join_axes([(3, 1, 1), (4, 6, 3), (2, 24, 12), (1, 99, 99)]) == [(8, 6, 3), (3, 1, 1)]


def test_axes_that_run_on_into_each_other_on_one_side_only_stay_apart():
    assert join_axes([(2, 3, 1), (3, 1, 2)]) == [(2, 3, 1), (3, 1, 2)]


@pytest.mark.parametrize(
    ("piece", "placed"),
    [
        pytest.param(((), 0, (), 5, ()), [((0, 0), (1, 1), 5, (6, 1))], id="no axes"),
        pytest.param(
            ((4, 2), 2, (6, 1), 9, (2, 1)), [((0, 2), (4, 2), 9, (2, 1))], id="column block"
        ),
        pytest.param(
            ((2, 4), 2, (1, 6), 9, (4, 1)), [((0, 2), (4, 2), 9, (1, 4))], id="transposed"
        ),
        pytest.param(
            ((1, 4, 1, 2), 2, (77, 6, 0, 1), 0, (5, 2, 5, 1)),
            [((0, 2), (4, 2), 0, (2, 1))],
            id="extra axes of extent 1",
        ),
        pytest.param(((12,), 6, (1,), 0, (1,)), [((1, 0), (2, 6), 0, (6, 1))], id="whole rows"),
        pytest.param(
            ((15,), 4, (1,), 10, (2,)),
            [
                ((0, 4), (1, 2), 10, (12, 2)),
                ((1, 0), (2, 6), 14, (12, 2)),
                ((3, 0), (1, 1), 38, (12, 2)),
            ],
            id="flat interval",
        ),
        pytest.param(
            ((2, 3), 5, (6, 1), 0, (3, 1)),
            [((0, 5), (2, 1), 0, (3, 1)), ((1, 0), (2, 2), 1, (3, 1))],
            id="rows that wrap round",
        ),
        pytest.param(
            ((2, 3), 6, (3, 1), 0, (3, 1)),
            [((1, 0), (1, 6), 0, (6, 1))],
            id="two axes that form one",
        ),
        pytest.param(
            ((2, 3), 6, (3, 1), 0, (1, 2)),
            [((1, 0), (1, 3), 0, (6, 2)), ((1, 3), (1, 3), 1, (6, 2))],
            id="one axis permuted in the shard",
        ),
        pytest.param(
            ((3, 1), 8, (6, 1), 0, (7, 5)),
            [((1, 2), (3, 1), 0, (7, 5))],
            id="how an axis of extent 1 would go on is kept",
        ),
        pytest.param(((0, 2), 0, (6, 1), 0, (2, 1)), [], id="empty"),
    ],
)
def test_a_piece_of_four_by_six_is_cut_into_boxes(piece, placed):
    assert as_tuples(place_piece(*piece, (4, 6))) == placed


def test_a_box_is_placed_as_one_that_takes_a_closer_look():
    random, num_boxes = Random(0), 0
    for _ in range(1000):
        logical_shape = tuple(random.randint(1, 5) for _ in range(random.randint(1, 4)))
        shape = tuple(random.randint(1, extent) for extent in logical_shape)
        offset = random.randrange(prod(logical_shape))
        strides = row_major_strides(logical_shape)
        shard = tuple(random.randint(0, 9) for _ in shape)
        placed = place_piece(shape, offset, strides, 3, shard, logical_shape)
        closer = ((*shape, 1), offset, (*strides, 0), 3, (*shard, 0), logical_shape)
        assert placed == place_piece(*closer)
        num_boxes += placed is not None and len(placed) == 1
    assert num_boxes > 300


def test_logical_axes_of_extent_1_take_no_part():
    piece = ((7,), 1, (1,), 0, (1,))
    assert as_tuples(place_piece(*piece, (1, 4, 1, 3))) == [
        ((0, 0, 0, 1), (1, 1, 1, 2), 0, (12, 3, 3, 1)),
        ((0, 1, 0, 0), (1, 1, 1, 3), 2, (12, 3, 3, 1)),
        ((0, 2, 0, 0), (1, 1, 1, 2), 5, (12, 3, 3, 1)),
    ]


@pytest.mark.parametrize("num_axes", [1, 2, 3, 4])
def test_a_flat_interval_of_d_axes_gives_2d_minus_1_boxes(num_axes):
    shape = (4,) * num_axes
    inside = ((4**num_axes - 2,), 1, (1,), 0, (1,))
    assert len(place_piece(*inside, shape)) == 2 * num_axes - 1


def test_a_scalar_is_one_box_without_axes():
    assert as_tuples(place_piece((1,), 0, (1,), 3, (1,), ())) == [((), (), 3, ())]


def test_extents_of_2_to_the_60_are_placed_exactly():
    rows = 2**60
    piece = ((3 * rows - 2,), 1, (1,), 0, (1,))
    assert as_tuples(place_piece(*piece, (rows, 3))) == [
        ((0, 1), (1, 2), 0, (3, 1)),
        ((1, 0), (rows - 2, 3), 2, (3, 1)),
        ((rows - 1, 0), (1, 2), 3 * rows - 4, (3, 1)),
    ]


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(((2,), 0, (2,), 0, (1,)), id="every second element"),
        pytest.param(((4,), 0, (7,), 0, (1,)), id="diagonal"),
        pytest.param(((2, 2), 0, (1, 1), 0, (2, 1)), id="one stride twice"),
        pytest.param(((2, 7), 0, (6, 1), 0, (7, 1)), id="rows that overlap"),
        pytest.param(((2,), 0, (0,), 0, (1,)), id="one element twice"),
        pytest.param(((2,), 23, (1,), 0, (1,)), id="beyond the end"),
        pytest.param(((2,), -1, (1,), 0, (1,)), id="before the start"),
    ],
)
def test_what_is_no_box_of_four_by_six_is_not_placed(piece):
    assert place_piece(*piece, (4, 6)) is None


@pytest.mark.parametrize(("num_parts", "is_placed"), [(MAX_UNROLLED, True), (2000, False)])
def test_a_permuted_axis_is_cut_into_a_limited_number_of_parts(num_parts, is_placed):
    piece = ((num_parts, 2), 0, (2, 1), 0, (1, num_parts))
    assert (place_piece(*piece, (2 * num_parts,)) is not None) == is_placed


def elements(shape, *sides):
    """Addresses of every element on every side, each an offset and strides."""
    for index in product(*map(range, shape)):
        yield tuple(offset + sumprod(index, strides) for offset, strides in sides)


def sumprod(first, second):
    return sum(a * b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("num_axes", [2, 3, 4])
def test_the_boxes_of_a_piece_have_its_elements_at_its_places(num_axes):
    random, num_cut = Random(num_axes), 0
    for _ in range(1000):
        logical_shape = tuple(random.randint(1, 4) for _ in range(num_axes))
        steps = row_major_strides(logical_shape)
        shape = [random.randint(1, 5) for _ in range(random.randint(0, 3))]
        full = (random.randrange(4), [random.choice([1, 2, *steps]) for _ in shape])
        shard = (3, [random.randint(0, 9) for _ in shape])
        boxes = place_piece(shape, *full, *shard, logical_shape)
        if boxes is None:
            continue
        num_cut += len(boxes) > 1
        placed = [
            element
            for box in boxes
            for element in elements(
                box.shape, (sumprod(box.origin, steps), steps), (box.offset, box.strides)
            )
        ]
        assert sorted(placed) == sorted(elements(shape, full, shard))
    assert num_cut > 10


def test_boxes_share_what_both_cover():
    assert overlap(box((0, 2), (4, 4)), box((3, 0), (5, 5))) == ((3, 2), (1, 3))
    assert overlap(box((), ()), box((), ())) == ((), ())


def test_boxes_that_touch_share_nothing():
    assert overlap(box((0, 0), (2, 2)), box((0, 2), (2, 2))) is None


def test_a_box_knows_its_end_its_size_and_where_index_0_would_be():
    placed = box((2, 3), (4, 5), 100, (10, 2))
    assert (placed.stop, placed.num_elements, placed.anchor) == ((6, 8), 20, 100 - 20 - 6)


def test_a_part_of_a_box_has_its_own_place_in_the_shard():
    assert box((2, 3), (4, 4), 100, (10, 2)).cut((3, 5), (1, 2)) == box(
        (3, 5), (1, 2), 114, (10, 2)
    )


def test_cells_show_what_covers_every_part_of_a_tensor():
    left, middle = box((0, 0), (2, 2)), box((0, 1), (1, 2))
    assert list(cells([left, middle], (2, 3))) == [
        Cell((0, 0), (1, 1), (0,)),
        Cell((0, 1), (1, 1), (0, 1)),
        Cell((0, 2), (1, 1), (1,)),
        Cell((1, 0), (1, 2), (0,)),
        Cell((1, 2), (1, 1), ()),
    ]


def test_a_scalar_is_one_cell():
    assert list(cells([box((), ())], ())) == [Cell((), (), (0,))]
