"""Random maps in numbers; AFFINE_MANY=10000 takes so many pairs, and so many invalid maps."""

import os
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from brute_force import (
    addresses,
    all_pairs_plan,
    assert_exact,
    assert_merged,
    keeps_its_rules,
    locations_read,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from random_maps import damaged, random_map, random_shape

from pytest_affine import strategies, truth
from pytest_affine.builders import contiguous_split_map
from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import ParamAffineMap
from pytest_affine.reference.planner import plan_transfer
from pytest_affine.sync import canonical_json

MANY = int(os.environ.get("AFFINE_MANY", "100"))
AT_A_TIME = 50


def random_pair(seed):
    random = Random(seed)
    shape = random_shape(random)
    return random_map(random, shape), random_map(random, shape)


SEEDS = [range(first, first + AT_A_TIME) for first in range(0, MANY, AT_A_TIME)]


@pytest.mark.parametrize("seeds", [*SEEDS, [1141]], ids=lambda seeds: f"from {seeds[0]}")
def test_plans_are_those_of_comparing_all_pairs_and_truth_finds_nothing(seeds):
    # In 1141 what is merged depends on the order in which boxes of a replica are read.
    for seed in seeds:
        source, target = random_pair(seed)
        ours, theirs = Random(seed), Random(seed)
        chosen = plan_transfer(
            source, target, replica_selector=lambda request, ours=ours: ours.choice(request.holders)
        )
        for plan, second in (
            (plan_transfer(source, target), all_pairs_plan(source, target)),
            (chosen, all_pairs_plan(source, target, theirs.choice)),
        ):
            assert plan == second, seed
            assert not truth.plan_problems(plan, source, target), seed
            assert plan.statistics.plan_bytes == len(canonical_json(plan.to_dict())), seed


def invalid_maps(random: Random) -> Iterator[ParamAffineMap]:
    """Maps damaged until truth finds fault with them."""
    while True:
        map_ = random_map(random, random_shape(random))
        while not truth.map_problems(map_):
            map_ = damaged(random, map_)
        yield map_


@pytest.mark.parametrize("first", range(0, MANY, AT_A_TIME))
def test_invalid_maps_are_refused_with_documented_errors(first):
    random = Random(first)
    for map_, _ in zip(invalid_maps(random), range(AT_A_TIME), strict=False):
        valid = random_map(random, map_.logical_shape)
        with pytest.raises((InvalidMapError, UnsupportedLayoutError)):
            map_.validate()
        for source, target in ((map_, valid), (valid, map_)):
            with pytest.raises(
                (InvalidMapError, UnsupportedLayoutError), match=r"^(source|target) map: "
            ):
                plan_transfer(source, target)


@pytest.mark.parametrize("first", range(0, MANY, AT_A_TIME))
def test_validation_agrees_with_truth_about_damaged_maps(first):
    # Some damage is none: to the stride of an axis of extent 1, say.
    for seed in range(first, first + AT_A_TIME):
        random = Random(seed)
        map_ = damaged(random, random_map(random, random_shape(random)))
        if truth.map_problems(map_):
            with pytest.raises(InvalidMapError, match="MAP-"):
                map_.validate()
        else:
            map_.validate()


@pytest.mark.parametrize("seed", range(40))
def test_validation_agrees_with_counting_every_element(seed):
    map_, _ = random_pair(seed)
    assert keeps_its_rules(map_)
    map_.validate()


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


@st.composite
def built_pairs(draw):
    shape = draw(strategies.shapes())
    return draw(strategies.maps(logical_shape=shape)), draw(strategies.maps(logical_shape=shape))


@settings(max_examples=100)
@given(built_pairs())
def test_maps_of_every_builder_are_planned_as_by_comparing_all_pairs(pair):
    plan = plan_transfer(*pair)
    assert plan == all_pairs_plan(*pair)
    assert not truth.plan_problems(plan, *pair)
    assert_merged(plan)


@settings(max_examples=50)
@given(built_pairs(), st.randoms(use_true_random=False))
def test_shuffled_mappings_and_other_plans_before_change_nothing(pair, random):
    alone = plan_transfer(*pair)
    plan_transfer(*reversed(pair))
    assert plan_transfer(*(shuffled(map_, random) for map_ in pair)) == alone


def shuffled(map_, random):
    """The same map, its mappings filled in another order."""
    mappings = (map_.shard_shapes, map_.pieces_by_location, map_.padding_by_location)
    orders = (dict(random.sample(pairs, len(pairs))) for pairs in map(list, mappings))
    return ParamAffineMap(map_.logical_shape, *orders)


def test_a_plan_that_was_cut_short_is_noticed():
    source = contiguous_split_map((16,), [8, 8], 0)
    target = contiguous_split_map((16,), [16], 0)
    plan = plan_transfer(source, target)
    cut_short = replace(plan, segments=plan.segments[:1], moved_elements=8)
    with pytest.raises(AssertionError):
        assert_exact(cut_short, source, target)
