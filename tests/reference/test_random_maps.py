from dataclasses import replace
from random import Random

import pytest
from brute_force import (
    addresses,
    assert_exact,
    assert_merged,
    keeps_its_rules,
    locations_read,
)
from random_maps import damaged, random_map, random_shape

from pytest_affine.builders import contiguous_split_map
from pytest_affine.errors import InvalidMapError
from pytest_affine.geometry import row_major_strides
from pytest_affine.reference.planner import plan_transfer


def random_pair(seed):
    random = Random(seed)
    shape = random_shape(random)
    return random_map(random, shape), random_map(random, shape)


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_moves_every_element_once_and_is_merged(seed):
    source, target = random_pair(seed)
    plan = plan_transfer(source, target)
    assert_exact(plan, source, target)
    assert_merged(plan)


@pytest.mark.parametrize("seed", range(40))
def test_every_region_is_read_from_the_holder_that_the_selector_named(seed):
    source, target = random_pair(seed)
    strides = row_major_strides(source.logical_shape)
    random, named = Random(seed), {}

    def selector(request):
        location = random.choice(request.holders)
        start = sum(i * s for i, s in zip(request.logical_origin, strides, strict=True))
        for address in addresses(request.shape, start, strides):
            named[request.target_location, address] = location
        return location

    plan = plan_transfer(source, target, replica_selector=selector)
    assert_exact(plan, source, target)
    read = locations_read(plan, target)
    assert {place: read[place] for place in named} == named


@pytest.mark.parametrize("seed", range(100))
def test_validation_agrees_with_counting_every_element(seed):
    random = Random(seed)
    map_ = damaged(random, random_map(random, random_shape(random)))
    # Some damage is none: to the stride of an axis of extent 1, say.
    if keeps_its_rules(map_):
        map_.validate()
    else:
        with pytest.raises(InvalidMapError, match="MAP-"):
            map_.validate()


def test_a_plan_that_was_cut_short_is_noticed():
    source = contiguous_split_map((16,), [8, 8], 0)
    target = contiguous_split_map((16,), [16], 0)
    plan = plan_transfer(source, target)
    cut_short = replace(plan, segments=plan.segments[:1], moved_elements=8)
    with pytest.raises(AssertionError):
        assert_exact(cut_short, source, target)
