"""`describe` and `match` against their definitions, which share nothing with them."""

import pytest
from hypothesis import HealthCheck, given, settings

from pytest_affine import truth
from pytest_affine.errors import AffineTransferError
from pytest_affine.layouts import Inventory, Layout, Parameter, describe, match
from pytest_affine.strategies import LAYOUT_KINDS, layout_cases, name_cases, wrong_name_cases

few = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def defined(layout, parameter):
    try:
        return truth.layout_shards(layout, parameter)
    except AffineTransferError:
        return None


def described(layout, parameter):
    try:
        map_ = describe(layout, parameter)
    except AffineTransferError:
        return None
    truth.assert_valid(map_)
    return {
        rank: truth.LayoutShard(map_.shard_shape(rank), truth.element_at(map_, rank))
        for rank in map_.locations
    }


@pytest.mark.parametrize("kind", LAYOUT_KINDS)
def test_describe_says_what_the_definition_says(kind):
    supported = 0

    @few
    @given(layout_cases(kinds=[kind]))
    def agrees(case):
        nonlocal supported
        layout = Layout.from_dict(case.detail["layout"])
        parameter = Parameter.from_dict(case.detail["parameter"])
        wanted = defined(layout, parameter)
        assert described(layout, parameter) == wanted
        supported += wanted is not None

    agrees()
    assert supported >= 20


def inventories_of(case):
    return [Inventory.from_dict(case.detail[side]) for side in ("source", "target")]


@few
@given(name_cases())
def test_match_says_what_the_definition_of_names_says(case):
    wanted = {
        tuple(name): set(map(tuple, parts))
        for held, parts in case.detail["matches"]
        for name in held
    }
    assert match(*inventories_of(case)) == wanted


@few
@given(wrong_name_cases())
def test_match_refuses_names_that_are_missing_or_too_many(case):
    with pytest.raises(AffineTransferError):
        match(*inventories_of(case))
