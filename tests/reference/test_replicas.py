"""Plans of a batch: what the policy is asked, when, and what becomes of its answers."""

import itertools
import random
import re

import pytest
from brute_force import addresses, locations_read
from brute_force import assert_exact as assert_exact_by_brute_force
from handmade import block, run
from hypothesis import given
from hypothesis import strategies as st
from random_maps import random_map, random_shape

from pytest_affine import strategies, truth
from pytest_affine.builders import (
    block_gather_map,
    contiguous_split_map,
    mesh_map,
    replicated_map,
    sub_param_map,
)
from pytest_affine.errors import (
    AffineTransferError,
    InvalidMapError,
    PlanLimitError,
    UnsupportedLayoutError,
)
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.plans import PlanBudget, ReplicaPart, ReplicaRequest, TransferEndpoints
from pytest_affine.reference import replicas
from pytest_affine.reference.balancing import balanced_split
from pytest_affine.reference.planner import plan_transfer
from pytest_affine.reference.policies import first_holder, local_first_least_loaded, per_request
from pytest_affine.reference.replicas import plan_transfers


def split(*widths, columns=()):
    return contiguous_split_map((sum(widths), *columns), widths, 0)


def copies(shape, num_locations):
    return replicated_map(shape, num_locations)


def asked(pairs, policy=first_holder, **options):
    """Every call that the policy got, and the plans."""
    calls = []

    def recording(requests):
        calls.append(requests)
        return policy(requests)

    return calls, plan_transfers(pairs, replica_policy=recording, **options)


def test_the_policy_is_called_once_with_every_request_of_the_batch_in_order():
    # Names are not in alphabetical order, target locations are 1 before 0 in the full tensor.
    swapped = block_gather_map((4,), {0: [1], 1: [0]}, 2, 0)
    pairs = {"b": (split(1, 3), swapped), "a": (copies((2, 3), 2), copies((2, 3), 1))}
    calls, _ = asked(pairs, element_size={"a": 2, "b": 4})
    assert calls == [
        (
            request("b", 0, (2,), (2,), (1,), 4, 8),
            request("b", 1, (0,), (1,), (0,), 4, 4),
            request("b", 1, (1,), (1,), (1,), 4, 4),
            request("a", 0, (0, 0), (2, 3), (0, 1), 2, 12),
        )
    ]


def request(parameter, target, origin, shape, holders, size, num_bytes, to=None, on=None):
    return ReplicaRequest(
        parameter=parameter,
        target_location=target,
        logical_origin=origin,
        shape=shape,
        holders=holders,
        element_size=size,
        num_bytes=num_bytes,
        target_process=to,
        holder_processes=on,
    )


def test_requests_say_the_processes_of_their_own_sides_locations():
    endpoints = TransferEndpoints({0: 5, 1: 3}, {0: 7, 1: 5})
    calls, _ = asked({"w": (copies((2,), 2), split(1, 1))}, endpoints=endpoints)
    assert calls == [
        (
            request("w", 0, (0,), (1,), (0, 1), 1, 1, 7, (5, 3)),
            request("w", 1, (1,), (1,), (0, 1), 1, 1, 5, (5, 3)),
        )
    ]


def test_processes_are_those_of_each_regions_own_holders():
    shared, own = (
        AffinePiece((2,), 0, (1,), 0, (1,), (0, 1)),
        AffinePiece((2,), 2, (1,), 2, (1,), (0,)),
    )
    source = ParamAffineMap((4,), {0: (4,), 1: (2,)}, {0: [shared, own], 1: [shared]})
    endpoints = TransferEndpoints({0: 5, 1: 3}, {0: 7})
    ((requests,), _) = asked({"w": (source, split(4))}, endpoints=endpoints)
    assert [(each.holders, each.holder_processes) for each in requests] == [
        ((0, 1), (5, 3)),
        ((0,), (5,)),
    ]


def test_an_empty_batch_asks_the_policy_once_and_has_no_plans():
    assert asked({}) == ([()], {})


def test_an_empty_parameter_has_no_request_and_an_empty_plan():
    empty = (copies((0, 3), 2), copies((0, 3), 1))
    calls, plans = asked({"empty": empty, "w": (split(2), split(2))})
    assert [each.parameter for (requests,) in [calls] for each in requests] == ["w"]
    assert list(plans) == ["empty", "w"]
    assert plans["empty"] == plan_transfer(*empty)


def test_the_default_policy_is_the_least_loaded_one():
    pairs = {"w": (copies((4,), 2), split(2, 2))}
    assert plan_transfers(pairs) == plan_transfers(pairs, replica_policy=local_first_least_loaded)
    assert [s.source_location for s in plan_transfers(pairs)["w"].segments] == [0, 1]


def test_loads_add_up_over_all_parameters_of_the_batch():
    pairs = {name: (copies((size,), 2), split(size)) for name, size in [("a", 4), ("b", 3)]}
    read = {
        name: [segment.source_location for segment in plan.segments]
        for name, plan in plan_transfers({**pairs, "c": pairs["b"]}).items()
    }
    assert read == {"a": [0], "b": [1], "c": [1]}


def test_loads_are_bytes_and_not_elements():
    pairs = {name: (copies((size,), 2), split(size)) for name, size in [("a", 4), ("b", 3)]}
    plans = plan_transfers({**pairs, "c": pairs["b"]}, element_size={"a": 1, "b": 8, "c": 1})
    assert [plan.segments[0].source_location for plan in plans.values()] == [0, 1, 0]


def test_a_split_region_is_read_from_each_holder_along_axis_0():
    # Two locations hold all of 4 x 2; 0 must also send 4 elements of "fixed".
    pairs = {"fixed": (split(4), split(4)), "w": (copies((4, 2), 2), copies((4, 2), 1))}
    plans = plan_transfers(pairs, replica_policy=balanced_split)
    assert list(plans["fixed"].segments) == [run((0, 0), (0, 0), 4)]
    # 6 elements each: one row of location 0, three of location 1.
    assert [(s.source_location, s.num_elements) for s in plans["w"].segments] == [(0, 2), (1, 6)]
    truth.assert_exact(plans["w"], *pairs["w"])


@pytest.mark.parametrize("side", ["source", "target"])
def test_all_maps_are_validated_before_the_policy_is_called(side):
    good = split(2, 2)
    bad = ParamAffineMap((4,), {0: (3,)}, {0: [AffinePiece((3,), 0, (1,), 0, (1,), (0,))]})
    pairs = {"good": (good, good), "bad": (bad, good) if side == "source" else (good, bad)}
    with pytest.raises(
        InvalidMapError, match=f"parameter 'bad': {side} map: the map breaks its rules"
    ):
        plan_transfers(pairs, replica_policy=pytest.fail)


@pytest.mark.parametrize(
    ("pair", "options", "kind", "text"),
    [
        (
            (split(4), split(3)),
            {},
            InvalidMapError,
            "parameter 'w': source and target must be of one tensor",
        ),
        (
            (replicated_map((4,), 1, 0.5), split(4)),
            {},
            UnsupportedLayoutError,
            "parameter 'w': target location 0 needs scale 1.0",
        ),
        (
            (split(1, 1, 1), split(3)),
            {"limits": PlanBudget(max_pieces_per_map=2)},
            PlanLimitError,
            "parameter 'w': planning takes 3 or more of what PlanBudget.max_pieces_per_map",
        ),
        (
            (split(2, 2), split(4)),
            {"endpoints": TransferEndpoints({0: 0}, {0: 0})},
            AffineTransferError,
            "parameter 'w': endpoints.source names no process for locations [1]; those bound: [0]",
        ),
        (
            (split(4), split(2, 2)),
            {"endpoints": TransferEndpoints({0: 0}, {0: 0})},
            AffineTransferError,
            "parameter 'w': endpoints.target names no process for locations [1]; those bound: [0]",
        ),
        (
            (split(4), split(4)),
            {"endpoints": TransferEndpoints({0: -1}, {0: 0})},
            AffineTransferError,
            "endpoints.source[0] must be 0 or more, got -1",
        ),
        (
            (split(4), split(4)),
            {"element_size": 0},
            AffineTransferError,
            "element_size must be 1 or more, got 0",
        ),
        (
            (split(4), split(4)),
            {"element_size": {"w": True}},
            InvalidMapError,
            "element_size['w'] must be an integer, got True",
        ),
        (
            (split(4), split(4)),
            {"element_size": {"other": 4}},
            AffineTransferError,
            "element_size lacks parameters ['w']; it has ['other']",
        ),
        (
            (split(4), split(4)),
            {"min_split_bytes": -1},
            AffineTransferError,
            "min_split_bytes must be 0 or more, got -1",
        ),
        (
            (split(4), split(4)),
            {"min_split_bytes": 0.5},
            InvalidMapError,
            "min_split_bytes must be an integer, got 0.5",
        ),
        (
            (split(4),),
            {},
            InvalidMapError,
            "pairs['w'] must be a source and a target ParamAffineMap, got (ParamAffineMap(",
        ),
        (
            split(4),
            {},
            InvalidMapError,
            "pairs['w'] must be a source and a target ParamAffineMap, got ParamAffineMap(",
        ),
        (
            (split(4), None),
            {},
            InvalidMapError,
            "pairs['w'] must be a source and a target ParamAffineMap, got (ParamAffineMap(",
        ),
    ],
)
def test_what_is_not_planned_is_refused_before_the_policy_is_called(pair, options, kind, text):
    with pytest.raises(kind, match=re.escape(text)) as raised:
        plan_transfers({"w": pair}, replica_policy=pytest.fail, **options)
    assert type(raised.value) is kind


def test_a_limit_on_segments_is_named_with_the_parameter():
    said = "parameter 'w': planning takes 2 or more of what PlanBudget.max_segments limits to 1"
    with pytest.raises(PlanLimitError, match=said):
        plan_transfers({"w": (split(2, 2), split(4))}, limits=PlanBudget(max_segments=1))


def test_limits_are_those_of_one_parameter():
    pair = (split(2, 2), split(4))
    limits = PlanBudget(max_segments=2, max_pieces_per_map=2, max_pair_checks=4)
    assert len(plan_transfers({"a": pair, "b": pair}, limits=limits)) == 2


def renewed(map_):
    """An equal map that is another object."""
    return ParamAffineMap.from_dict(map_.to_dict())


def test_equal_maps_are_prepared_and_drafted_once_and_equal_plans_are_one(monkeypatch):
    counts = {"prepare_map": 0, "draft_plan": 0, "finish_plan": 0}

    def counted(name, function):
        def call(*args):
            counts[name] += 1
            return function(*args)

        return call

    for name in counts:
        monkeypatch.setattr(replicas, name, counted(name, getattr(replicas, name)))
    source, target = copies((4,), 2), split(2, 2)
    pairs = {"a": (source, target), "b": (source, target)}
    pairs["c"] = (renewed(source), renewed(target))
    pairs["d"] = (source, split(4))
    plans = plan_transfers(pairs, replica_policy=first_holder)
    assert counts == {"prepare_map": 3, "draft_plan": 2, "finish_plan": 2}
    assert plans["a"] is plans["b"] is plans["c"]
    assert plans["a"] == plan_transfer(source, target)
    assert plans["d"] == plan_transfer(source, split(4))


def test_one_map_object_is_hashed_once_however_often_it_comes(monkeypatch):
    hashed = []
    original = ParamAffineMap.__hash__
    monkeypatch.setattr(ParamAffineMap, "__hash__", lambda m: hashed.append(m) or original(m))
    pair = (copies((4,), 2), split(2, 2))
    plan_transfers({str(index): pair for index in range(9)})
    assert len(hashed) == 2


def test_equal_pairs_that_are_answered_otherwise_have_plans_of_their_own():
    pair = (copies((4,), 2), split(4))
    plans = plan_transfers({"a": pair, "b": pair})
    assert list(plans["a"].segments) == [run((0, 0), (0, 0), 4)]
    assert list(plans["b"].segments) == [run((1, 0), (0, 0), 4)]


def test_two_handoffs_of_one_size_between_other_locations_have_plans_of_their_own():
    # F23
    def halves(first):
        return block_gather_map((4,), {first: [0], first + 1: [1]}, 2, 0)

    plans = plan_transfers({"there": (halves(0), halves(2)), "back": (halves(2), halves(0))})
    assert list(plans["there"].segments) == [run((0, 0), (2, 0), 2), run((1, 0), (3, 0), 2)]
    assert list(plans["back"].segments) == [run((2, 0), (0, 0), 2), run((3, 0), (1, 0), 2)]


def test_what_was_planned_before_changes_no_plan():
    # F04
    pairs = {
        "blocks": (sub_param_map((6,), [2, 2, 2], [[1, 1]] * 3, 0), split(6)),
        "rows": (split(3, 3, 3, 3), split(12)),
    }
    alone = {name: plan_transfers({name: pair})[name] for name, pair in pairs.items()}
    backwards = dict(reversed(pairs.items()))
    assert plan_transfers(pairs) == plan_transfers(backwards) == plan_transfers(pairs) == alone


def test_split_shards_are_not_taken_for_copies():
    # F19
    calls, plans = asked({"w": (split(2, 2), split(4))}, local_first_least_loaded)
    assert [each.holders for each in calls[0]] == [(0,), (1,)]
    assert list(plans["w"].segments) == [run((0, 0), (0, 0), 2), run((1, 0), (0, 2), 2)]


def test_of_two_replicas_only_the_one_that_is_named_is_read():
    # F21
    pairs = {"w": (copies((2,), 2), split(2))}
    for location in (0, 1):
        plans = plan_transfers(pairs, replica_policy=lambda requests, at=location: [at])
        assert list(plans["w"].segments) == [run((location, 0), (0, 0), 2)]


@pytest.mark.parametrize(("size", "element_size"), [(2**31 + 8, 1), (2**29 + 8, 4), (2**60, 8)])
def test_bytes_and_offsets_beyond_32_bits_are_exact(size, element_size):
    # F35
    half = size // 2
    pairs = {"w": (copies((size,), 2), split(size))}
    calls, plans = asked(pairs, balanced_split, element_size=element_size)
    assert [each.num_bytes for each in calls[0]] == [size * element_size]
    assert list(plans["w"].segments) == [run((0, 0), (0, 0), half), run((1, half), (0, half), half)]


def test_replicas_that_are_cut_elsewhere_are_split_all_the_same():
    def pieces(cut):
        return [
            AffinePiece((cut,), 0, (1,), 0, (1,), (0, 1)),
            AffinePiece((6 - cut,), cut, (1,), cut, (1,), (0, 1)),
        ]

    source = ParamAffineMap((6,), {0: (6,), 1: (6,)}, {0: pieces(2), 1: pieces(5)})
    plans = plan_transfers({"w": (source, split(6))}, replica_policy=balanced_split)
    truth.assert_exact(plans["w"], source, split(6))


def test_parts_are_cut_along_the_first_axis_of_a_region_inside_the_tensor():
    source, target = copies((4, 6), 2), mesh_map((4, 6), [2, 2], [["shard", 0], ["shard", 1]])

    def policy(requests):
        last = requests[-1]
        assert (last.logical_origin, last.shape) == ((2, 3), (2, 3))
        parts = [ReplicaPart(1, (2, 3), (1, 3)), ReplicaPart(0, (3, 3), (1, 3))]
        return [*first_holder(requests[:-1]), parts]

    plans = plan_transfers({"w": (source, target)}, replica_policy=policy)
    assert list(plans["w"].segments)[-2:] == [
        block((1, 15, (1,)), (3, 0, (1,)), (3,)),
        block((0, 21, (1,)), (3, 3, (1,)), (3,)),
    ]


def random_pairs(seed):
    """Up to four parameters, two of them of equal maps."""
    source = random.Random(seed)
    pairs = {}
    for name in "abc":
        shape = random_shape(source)
        pairs[name] = (random_map(source, shape), random_map(source, shape))
    return {**pairs, "like a": tuple(map(renewed, pairs["a"]))}


@pytest.mark.parametrize("seed", range(20))
def test_first_holder_and_per_request_reproduce_plan_transfer(seed):
    pairs = random_pairs(seed)

    def selector(request):
        return request.holders[sum(request.logical_origin) % len(request.holders)]

    for policy, options in (
        (first_holder, {}),
        (per_request(selector), {"replica_selector": selector}),
    ):
        expected = {name: plan_transfer(*pair, **options) for name, pair in pairs.items()}
        plans = plan_transfers(pairs, replica_policy=policy)
        assert plans == expected
        statistics = {name: plan.statistics for name, plan in plans.items()}
        assert statistics == {name: plan.statistics for name, plan in expected.items()}


def test_a_selector_that_names_no_holder_is_refused_as_in_plan_transfer():
    pair = (copies((4,), 2), split(4))
    for answer in (None, True, 0.0, "0", -1, 99):
        with pytest.raises(AffineTransferError) as one:
            plan_transfer(*pair, replica_selector=lambda _, a=answer: a)
        with pytest.raises(AffineTransferError) as batch:
            plan_transfers({"w": pair}, replica_policy=per_request(lambda _, a=answer: a))
        assert type(one.value) is type(batch.value)


def random_answer(draw, asked):
    """Any answer that is right: a holder, or parts of any sizes from any holders, in any order."""
    holders = st.sampled_from(asked.holders)
    if not draw(st.booleans()):
        return draw(holders)
    if not asked.shape:
        return [ReplicaPart(draw(holders), (), ())]
    first, inner = asked.logical_origin[0], asked.shape[1:]
    cuts = draw(st.sets(st.integers(1, asked.shape[0] - 1))) if asked.shape[0] > 1 else set()
    bounds = [0, *sorted(cuts), asked.shape[0]]
    parts = [
        ReplicaPart(
            draw(holders), (first + start, *asked.logical_origin[1:]), (stop - start, *inner)
        )
        for start, stop in itertools.pairwise(bounds)
    ]
    return draw(st.permutations(parts))


@given(st.data(), strategies.syncs(num_processes=4), st.booleans())
def test_whatever_a_policy_answers_the_plan_is_exact_and_reads_what_it_says(data, sync, bound):
    answers = {}

    def policy(requests):
        answers.update((each, random_answer(data.draw, each)) for each in requests)
        return [answers[each] for each in requests]

    pairs = {each.name: (each.source, each.target) for each in sync.parameters}
    plans = plan_transfers(
        pairs, replica_policy=policy, endpoints=sync.endpoints if bound else None
    )
    assert list(plans) == list(pairs)
    for name, plan in plans.items():
        truth.assert_exact(plan, *pairs[name])
        own = {asked: answer for asked, answer in answers.items() if asked.parameter == name}
        assert locations_read(plan, pairs[name][1]) == locations_named(own, plan.logical_shape)


def locations_named(answers, logical_shape):
    """{(target location, address in the full tensor): source location that the policy named}."""
    strides = row_major_strides(logical_shape)
    named = {}
    for each, answer in answers.items():
        parts = answer
        if isinstance(answer, int):
            parts = [ReplicaPart(answer, each.logical_origin, each.shape)]
        for part in parts:
            start = sum(i * s for i, s in zip(part.logical_origin, strides, strict=True))
            for address in addresses(part.shape, start, strides):
                assert (each.target_location, address) not in named
                named[each.target_location, address] = part.source_location
    return named


@pytest.mark.parametrize("seed", range(20))
def test_messy_maps_are_planned_exactly_whichever_policy_is_given(seed):
    pairs = random_pairs(seed)
    for policy in (local_first_least_loaded, balanced_split):
        plans = plan_transfers(pairs, replica_policy=policy)
        for name, plan in plans.items():
            assert_exact_by_brute_force(plan, *pairs[name])
