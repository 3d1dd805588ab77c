"""BATCH-*: plans of one sync, and the choice of replicas."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_affine import strategies, truth
from pytest_affine.conformance._answered import (
    METHOD,
    assert_exact_as_answered,
    pairs_of,
    sizes_of,
)
from pytest_affine.conformance._batches import one_or_each, sync_of
from pytest_affine.conformance._moves import shares_of
from pytest_affine.conformance._policies import (
    Asked,
    Pairs,
    Refused,
    any_valid,
    halves,
    highest,
    lowest,
    planned,
    refused,
    rows_in_turn,
)
from pytest_affine.conformance._reading import elements_of_box
from pytest_affine.conformance._refusals import all_refuse
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.fixtures.batches import MIXED
from pytest_affine.fixtures.invalid import BAD_MAPS, BAD_MAPS_IN_2D, BAD_PAIRS
from pytest_affine.fixtures.real import REAL
from pytest_affine.fixtures.replicas import (
    HUGE_REPLICAS,
    REPLICAS,
    UNLIKE,
)
from pytest_affine.fixtures.syncs import CORE, EVERYDAY, HOLDERS, MANY
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import ReplicaRequest, TransferPlan
from pytest_affine.ranks import current_rank
from pytest_affine.reference.policies import first_holder, per_request


def told_of(case: Case) -> Iterator[dict[str, Any]]:
    """Options that tell the policy nothing, and such as tell it all: processes and bytes."""
    yield {}
    yield {
        "endpoints": sync_of(case).endpoints,
        "element_size": one_or_each(sizes_of(case)),
    }


@requirement("BATCH-ONCE")
@cases(EVERYDAY, REPLICAS, MIXED, MANY)
@drawn(strategies.sync_cases)
def test_the_policy_is_asked_once_about_every_region_in_order(
    implementation: ImplementationProxy, case: Case
) -> None:
    pairs = pairs_of(case)
    for options in told_of(case):
        asked: Asked = implementation.run(planned, pairs, lowest, options, method=METHOD)
        requests = asked.requests
        assert_in_order(requests, list(pairs))
        assert_facts(requests, case, options)
        for name, (source, target) in pairs.items():
            own = [request for request in requests if request.parameter == name]
            assert_tiled(name, own, source, target)


def assert_in_order(requests: Sequence[ReplicaRequest], names: Sequence[str]) -> None:
    """Fail unless requests are ordered by parameter, target location and logical origin."""
    __tracebackhide__ = True
    for request in requests:
        if request.parameter not in names:
            raise AssertionError(f"a request for {request.parameter!r}, which is not in the batch")
    keys = [
        (names.index(str(each.parameter)), each.target_location, each.logical_origin)
        for each in requests
    ]
    for before, key, request in zip(keys, keys[1:], requests[1:], strict=False):
        if not before < key:
            raise AssertionError(f"this request is asked too late: {request}")


def assert_facts(
    requests: Sequence[ReplicaRequest], case: Case, options: Mapping[str, Any]
) -> None:
    """Fail unless requests have sorted holders, and the bytes and processes that were told."""
    __tracebackhide__ = True
    sizes = sizes_of(case) if options else dict.fromkeys(pairs_of(case), 1)
    sources, targets = dict(sync_of(case).endpoints.source), dict(sync_of(case).endpoints.target)
    for request in requests:
        size = sizes[str(request.parameter)]
        right = replace(
            request,
            holders=tuple(sorted(set(request.holders))),
            element_size=size,
            num_bytes=math.prod(request.shape) * size,
            target_process=targets[request.target_location] if options else None,
            holder_processes=tuple(sources[at] for at in request.holders) if options else None,
        )
        if request != right:
            raise AssertionError(f"the policy was asked\n{request}, should be asked\n{right}")


def assert_tiled(
    name: str,
    requests: Sequence[ReplicaRequest],
    source: ParamAffineMap,
    target: ParamAffineMap,
) -> None:
    """Fail unless regions have every target element once, with exactly its holders."""
    __tracebackhide__ = True
    asked = [
        (request.target_location, element, request.holders)
        for request in requests
        for element in elements_of_box(request.logical_origin, request.shape, source.logical_shape)
    ]
    times = Counter((location, element) for location, element, _ in asked)
    wanted = Counter(
        (location, element)
        for location in target.locations
        for element in truth.element_at(target, location)
        if element is not None
    )
    for location, element in sorted((wanted - times) + (times - wanted)):
        raise AssertionError(
            f"the policy was asked {times[location, element]} times about element {element} of "
            f"{name!r} for target location {location}, should be {wanted[location, element]}"
        )
    held = [sorted(location for location, _, _ in each) for each in truth.holders(source)]
    for _, element, holders in asked:
        if list(holders) != held[element]:
            raise AssertionError(
                f"element {element} of {name!r} is held by locations {held[element]}, and the "
                f"policy was told {holders}"
            )


POLICIES = (highest, rows_in_turn, *(partial(any_valid, seed=seed) for seed in range(3)))


@requirement("BATCH-EXACT")
@cases(CORE, EVERYDAY, REPLICAS, MIXED)
@drawn(strategies.sync_cases)
def test_whatever_is_answered_the_plans_are_exact_and_read_what_it_says(
    implementation: ImplementationProxy, case: Case
) -> None:
    pairs = pairs_of(case)
    for options in told_of(case):
        for policy in POLICIES:
            asked = implementation.run(planned, pairs, policy, options, method=METHOD)
            assert_exact_as_answered(asked, pairs)


@requirement("BATCH-EXACT")
@cases(HUGE_REPLICAS)
def test_halves_of_what_no_32_bits_can_count_are_exact(
    implementation: ImplementationProxy, case: Case
) -> None:
    pairs = pairs_of(case)
    for options in told_of(case):
        asked: Asked = implementation.run(planned, pairs, halves, options, method=METHOD)
        assert_facts(asked.requests, case, options)
        for name, (source, target) in pairs.items():
            plan = asked.plans[name]
            truth.assert_exact(plan, source, target)
            read = {segment.source_location for segment in plan.segments}
            if read != set(source.locations):
                raise AssertionError(
                    f"each half is to be read from another of the locations {source.locations}, "
                    f"the plan reads {sorted(read)}"
                )


@requirement("BATCH-MAPS")
@cases(BAD_MAPS, BAD_MAPS_IN_2D, BAD_PAIRS)
def test_maps_are_validated_before_the_policy_runs(
    implementation: ImplementationProxy, case: Case
) -> None:
    good = pairs_of(CORE[0])["weight"]
    pairs = {"before": good, **pairs_of(case), "behind": good}
    ended: Refused = implementation.run(refused, pairs, lowest, {}, method=METHOD)
    if not {"InvalidMapError", "UnsupportedLayoutError"} & set(ended.kinds):
        raise AssertionError(
            f"{case.name}: must be refused with InvalidMapError or UnsupportedLayoutError, got "
            f"{ended.text or 'plans'}"
        )
    if ended.num_calls:
        raise AssertionError(f"{case.name}: the policy was asked before the maps were validated")


@requirement("BATCH-FIRST")
@cases(EVERYDAY, REPLICAS, MANY, REAL)
@drawn(strategies.sync_cases)
def test_first_holder_and_per_request_reproduce_plan_transfer(
    implementation: ImplementationProxy, case: Case
) -> None:
    both = implementation.run(planned_both_ways, pairs_of(case), method=METHOD)
    for policy, (together, alone) in both.items():
        for name in alone:
            if together.get(name) != alone[name]:
                raise AssertionError(
                    f"with the policy {policy} the plan of {name!r} is\n{together.get(name)}, "
                    f"plan_transfer gives\n{alone[name]}"
                )


Plans = Mapping[str, TransferPlan]


def planned_both_ways(resident: Resident, pairs: Pairs) -> dict[str, tuple[Plans, Plans]]:
    """By policy, the plans of `plan_transfers` with it and of `plan_transfer` without."""
    return {
        "first_holder": (
            resident.plan_transfers(pairs, replica_policy=first_holder),
            {name: resident.plan_transfer(*pair) for name, pair in pairs.items()},
        ),
        "per_request": (
            resident.plan_transfers(pairs, replica_policy=per_request(by_place)),
            {
                name: resident.plan_transfer(*pair, replica_selector=by_place)
                for name, pair in pairs.items()
            },
        ),
    }


def by_place(request: ReplicaRequest) -> int:
    """A holder that depends on where the region is, and on nothing that is a batch's."""
    place = request.target_location + sum(request.logical_origin) + 1
    return request.holders[place % len(request.holders)]


@requirement("BATCH-BALANCE")
@cases(REPLICAS, HOLDERS, MIXED, MANY)
@drawn(strategies.sync_cases)
def test_the_default_reads_what_is_local_or_else_from_who_sends_least(
    implementation: ImplementationProxy, case: Case
) -> None:
    pairs = pairs_of(case)
    for options in told_of(case):
        asked: Asked = implementation.run(planned, pairs, lowest, options, method=METHOD)
        plans = implementation.plan_transfers(pairs, **options)
        answers = tuple(balanced(asked.requests))
        assert_exact_as_answered(replace(asked, answers=answers, plans=plans), pairs, "default")


def balanced(requests: Sequence[ReplicaRequest]) -> Iterator[int]:
    """What the contract says of the default, one request after the other."""
    sent_bytes: Counter[int] = Counter()
    for request in requests:
        processes = request.holder_processes or request.holders
        candidates = list(zip(request.holders, processes, strict=True))
        local = [holder for holder, process in candidates if process == request.target_process]
        if local:
            yield min(local)
            continue
        _, holder, process = min((sent_bytes[on], holder, on) for holder, on in candidates)
        sent_bytes[process] += request.num_bytes
        yield holder


@requirement("BATCH-AGREE")
@cases(UNLIKE)
def test_answers_that_differ_between_ranks_are_caught_before_anything_moves(
    implementation: ImplementationProxy, case: Case
) -> None:
    sync = sync_of(case)
    shares = shares_of(implementation, sync)
    by_rank: list[Plans] = implementation.run_on_every_rank(
        planned_by_rank, pairs_of(case), method=METHOD
    )
    if len({tuple(plans.items()) for plans in by_rank}) == 1:
        raise AssertionError("the policy answered otherwise on each rank, and the plans are equal")
    shares = [
        replace(share, batch=replace(share.batch, plans=plans))
        for share, plans in zip(shares, by_rank, strict=True)
    ]
    all_refuse(implementation, sync, shares)


def planned_by_rank(resident: Resident, pairs: Pairs) -> Plans:
    """Plan with the holder whose turn it is on this rank. Called on every rank."""
    plans: Plans = resident.plan_transfers(pairs, replica_policy=holder_of_rank)
    return plans


def holder_of_rank(requests: Sequence[ReplicaRequest]) -> list[int]:
    """A holder by the number of this rank."""
    return [request.holders[current_rank() % len(request.holders)] for request in requests]
