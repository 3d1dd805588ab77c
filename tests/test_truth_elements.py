import pytest
from truth_cases import map_of

from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.truth import element_at, holders


def test_element_at_names_the_logical_element_of_every_address():
    piece = AffinePiece((2, 2), 1, (3, 1), 0, (1, 2), (0,))
    rest = AffinePiece((2,), 0, (3,), 0, (1,), (1,))
    map_ = ParamAffineMap((2, 3), {0: (4,), 1: (2, 1), 2: (0,)}, {0: [piece], 1: [rest]})
    assert element_at(map_, 0) == (1, 4, 2, 5)
    assert element_at(map_, 1) == (0, 3)
    assert element_at(map_, 2) == ()


def test_element_at_is_none_for_padding():
    assert element_at(map_of((2,), {0: [None, 1, 0, None]}), 0) == (None, 1, 0, None)


def test_holders_are_location_address_and_scale_of_every_element():
    map_ = map_of((3,), {0: [2, 0], 4: [None, 1, 2]}, scale=0.5)
    assert holders(map_) == (((0, 1, 0.5),), ((4, 1, 0.5),), ((0, 0, 0.5), (4, 2, 0.5)))


@pytest.mark.parametrize(
    ("shard_shape", "pieces", "address"),
    [
        ((3,), [AffinePiece((2,), 0, (1,), 0, (1,), (0,))], 2),
        ((2,), [AffinePiece((2,), 0, (1,), 0, (0,), (0,))], 0),
        ((1,), [AffinePiece((2,), 0, (1,), 0, (1,), (0,))], 1),
        ((0,), [AffinePiece((), 0, (), 0, (), (0,))] * 2, 0),
    ],
)
def test_element_at_refuses_an_address_that_is_not_filled_once(shard_shape, pieces, address):
    map_ = ParamAffineMap((2,), {0: shard_shape}, {0: pieces})
    with pytest.raises(InvalidMapError, match=f"^address {address} of location 0 is not filled"):
        element_at(map_, 0)


@pytest.mark.parametrize(("extent", "element"), [(3, 2), (1, 1)])
def test_holders_refuse_an_element_that_is_not_held_or_does_not_exist(extent, element):
    piece = AffinePiece((2,), 0, (1,), 0, (1,), (0,))
    map_ = ParamAffineMap((extent,), {0: (2,)}, {0: [piece]})
    with pytest.raises(
        InvalidMapError, match=f"^logical element {element} is not held, or outside the tensor"
    ):
        holders(map_)
