"""PLAN-*: plans of one parameter."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_affine import strategies, truth
from pytest_affine.conformance._judging import (
    assert_exact_or_refused,
    assert_keeps_rule,
    assert_refused,
    no_more_refusals,
    parameters_of,
    through_json,
)
from pytest_affine.conformance._reading import assert_read_from, elements_of_box
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.errors import (
    AffineTransferError,
    InvalidReplicaPolicyError,
    UnsupportedLayoutError,
)
from pytest_affine.fixtures.growth import GROWING, grown
from pytest_affine.fixtures.invalid import BAD_MAPS, BAD_MAPS_IN_2D, BAD_PAIRS
from pytest_affine.fixtures.real import REAL
from pytest_affine.fixtures.syncs import (
    CORE,
    EDGE,
    EVERYDAY,
    HOLDERS,
    HUGE,
    MANY,
    NAMED,
    ODD,
    SCALED,
    SYMBOLIC,
    WIDE,
)
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import PlanBudget, ReplicaRequest, TransferPlan, TransferSegment
from pytest_affine.sync import SyncParameter


def planned(
    implementation: ImplementationProxy, case: Case
) -> Iterator[tuple[TransferPlan, ParamAffineMap, ParamAffineMap]]:
    """The plan of every parameter of a case, with the maps that it is for."""
    for parameter in parameters_of(case):
        plan = implementation.plan_transfer(parameter.source, parameter.target)
        yield plan, parameter.source, parameter.target


@requirement("PLAN-TILE")
@cases(EVERYDAY, REAL)
@drawn(strategies.sync_cases)
def test_every_target_element_is_written_exactly_once(
    implementation: ImplementationProxy, case: Case
) -> None:
    for plan, source, target in planned(implementation, case):
        assert_keeps_rule("PLAN-TILE", plan, source, target)


@requirement("PLAN-SOURCE")
@cases(EVERYDAY, REAL)
@drawn(strategies.sync_cases)
def test_every_write_reads_the_same_logical_element(
    implementation: ImplementationProxy, case: Case
) -> None:
    for plan, source, target in planned(implementation, case):
        assert_keeps_rule("PLAN-SOURCE", plan, source, target)


@requirement("PLAN-BOUNDS")
@cases(EVERYDAY, REAL)
@drawn(strategies.sync_cases)
def test_no_segment_addresses_outside_a_shard(
    implementation: ImplementationProxy, case: Case
) -> None:
    for plan, source, target in planned(implementation, case):
        assert_keeps_rule("PLAN-BOUNDS", plan, source, target)


@requirement("PLAN-ONCE")
@cases(EVERYDAY)
@drawn(strategies.sync_cases)
def test_moved_elements_is_the_sum_of_segments_none_of_them_empty(
    implementation: ImplementationProxy, case: Case
) -> None:
    for plan, source, target in planned(implementation, case):
        assert_keeps_rule("PLAN-ONCE", plan, source, target)


def plan_with_holders_in_turn(
    resident: Resident, source: ParamAffineMap, target: ParamAffineMap
) -> tuple[TransferPlan, dict[ReplicaRequest, int]]:
    """A plan whose selector names the last holder first, then the one before it, and so on.

    Comes with what the selector was asked, and what it answered.
    """
    named: dict[ReplicaRequest, int] = {}

    def holder_in_turn(request: ReplicaRequest) -> int:
        turn = -1 - len(named) % len(request.holders)
        return named.setdefault(request, request.holders[turn])

    return resident.plan_transfer(source, target, replica_selector=holder_in_turn), named


@requirement("PLAN-HOLDER")
@cases(HOLDERS)
def test_the_holder_that_the_selector_names_is_read(
    implementation: ImplementationProxy, case: Case
) -> None:
    for parameter in parameters_of(case):
        source, target = parameter.source, parameter.target
        plan, answers = implementation.run(
            plan_with_holders_in_turn, source, target, method="plan_transfer"
        )
        truth.assert_exact(plan, source, target)
        single = [request.holders for request in answers if len(request.holders) < 2]
        assert not single, f"the selector was asked where there is no choice: {single}"
        named = _holders_named(answers, source.logical_shape)
        assert_read_from(plan, source, named, "selector")


def _holders_named(
    answers: Mapping[ReplicaRequest, int], logical_shape: Sequence[int]
) -> dict[tuple[int, int], int]:
    """By target location and logical element, the holder that the selector named."""
    return {
        (request.target_location, element): holder
        for request, holder in answers.items()
        for element in elements_of_box(request.logical_origin, request.shape, logical_shape)
    }


BAD_ANSWERS = (None, True, 0.0, "0", -1, 99)


def kind_of_refusal(resident: Resident, parameter: SyncParameter, answer: object) -> str:
    """What a selector's answer leads to: the kind of error, or "a plan"."""
    try:
        resident.plan_transfer(
            parameter.source, parameter.target, replica_selector=lambda request: answer
        )
    except AffineTransferError as error:
        return type(error).__name__
    return "a plan"


@requirement("PLAN-HOLDER")
@cases(case for case in HOLDERS if case.name == "replicas to split")
def test_a_selector_that_names_no_holder_is_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    (parameter,) = parameters_of(case)
    for answer in BAD_ANSWERS:
        kind = implementation.run(kind_of_refusal, parameter, answer, method="plan_transfer")
        assert kind == InvalidReplicaPolicyError.__name__, (
            f"the answer {answer!r} must raise InvalidReplicaPolicyError, got {kind}"
        )


@requirement("PLAN-SCALE")
@cases(SCALED)
def test_unequal_scales_are_refused_and_equal_ones_never_planned_wrongly(
    implementation: ImplementationProxy, case: Case
) -> None:
    for parameter in parameters_of(case):
        source, target = parameter.source, parameter.target

        def plan(source: ParamAffineMap = source, target: ParamAffineMap = target) -> TransferPlan:
            return implementation.plan_transfer(source, target)

        if case.detail["scales"] == "unequal":
            assert_refused(plan, case.name, kinds=(UnsupportedLayoutError,))
        else:
            assert_exact_or_refused(plan, source, target)


def plan_all(
    resident: Resident, parameters: Sequence[SyncParameter], order: Sequence[int]
) -> list[TransferPlan]:
    """Plan the parameters in an order of their own; the plans come back in the parameters'."""
    plans = {}
    for index in order:
        plans[index] = resident.plan_transfer(parameters[index].source, parameters[index].target)
    return [plans[index] for index in range(len(parameters))]


@requirement("PLAN-DETERMINISTIC")
@cases(MANY, NAMED)
def test_a_plan_depends_on_the_maps_and_on_nothing_else(
    implementation: ImplementationProxy, case: Case
) -> None:
    parameters = parameters_of(case)
    forth = range(len(parameters))
    method = "plan_transfer"
    first = implementation.run(plan_all, parameters, forth, method=method)
    with no_more_refusals("planned once"):
        assert_planned_alike(implementation, parameters, first)


def assert_planned_alike(
    implementation: ImplementationProxy,
    parameters: Sequence[SyncParameter],
    first: Sequence[TransferPlan],
) -> None:
    """Fail unless the same plans come of any order and of other processes."""
    __tracebackhide__ = True
    method, forth = "plan_transfer", range(len(parameters))
    back = tuple(reversed(forth))
    others = {
        "planned again": implementation.run(plan_all, parameters, forth, method=method),
        "planned in reverse order": implementation.run(plan_all, parameters, back, method=method),
        "planned in another process, hash seed 0": implementation.run_in_fresh_interpreter(
            plan_all, parameters, forth, hash_seed=0, method=method
        ),
        "planned in another process, hash seed 1, in reverse order": (
            implementation.run_in_fresh_interpreter(
                plan_all, parameters, back, hash_seed=1, method=method
            )
        ),
    }
    for circumstance, plans in others.items():
        for parameter, one, other in zip(parameters, first, plans, strict=True):
            assert one == other, (
                f"{circumstance}, parameter {parameter.name!r} has another plan:\n"
                f"{one.to_dict()}\n{other.to_dict()}"
            )


def refilled(map_: ParamAffineMap) -> ParamAffineMap:
    """An equal map whose mappings were filled in the reverse order."""
    return ParamAffineMap(
        map_.logical_shape,
        dict(reversed(map_.shard_shapes)),
        dict(reversed(map_.pieces_by_location)),
        dict(reversed(map_.padding_by_location)),
    )


@requirement("PLAN-DETERMINISTIC")
@cases(CORE)
def test_the_order_in_which_mappings_were_filled_does_not_matter(
    implementation: ImplementationProxy, case: Case
) -> None:
    for plan, source, target in planned(implementation, case):
        with no_more_refusals("planned once"):
            other = implementation.plan_transfer(refilled(source), refilled(target))
        assert plan == other, f"mappings filled in reverse order give another plan: {other}"


@requirement("PLAN-REFUSE")
@cases(BAD_MAPS, BAD_MAPS_IN_2D, BAD_PAIRS)
def test_maps_that_break_a_rule_are_never_planned(
    implementation: ImplementationProxy, case: Case
) -> None:
    for parameter in parameters_of(case):
        assert_refused(
            lambda p=parameter: implementation.plan_transfer(p.source, p.target),  # type: ignore[misc]
            f"{case.name} ({case.detail['rule']}, {case.detail['side']})",
        )


@requirement("PLAN-HONEST")
@cases(ODD)
@drawn(strategies.sync_cases)
def test_an_unusual_layout_is_planned_exactly_or_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    for parameter in parameters_of(case):
        assert_exact_or_refused(
            lambda p=parameter: implementation.plan_transfer(p.source, p.target),  # type: ignore[misc]
            parameter.source,
            parameter.target,
        )


@requirement("PLAN-LIMIT")
@cases(CORE, WIDE)
def test_a_limit_that_a_plan_exceeds_raises(
    implementation: ImplementationProxy, case: Case
) -> None:
    for plan, source, target in planned(implementation, case):
        for limit, needed in _needed(plan, source, target).items():
            limits = replace(PlanBudget(), **{limit: needed - 1})
            assert_refused(
                lambda s=source, t=target, b=limits: implementation.plan_transfer(s, t, limits=b),  # type: ignore[misc]
                f"{limit}={needed - 1} where {needed} are needed",
                kinds=(AffineTransferError,),
            )
            enough = replace(PlanBudget(), **{limit: needed})
            again = implementation.plan_transfer(source, target, limits=enough)
            assert again == plan, f"{limit}={needed} gives another plan than the default limits"


def _needed(plan: TransferPlan, source: ParamAffineMap, target: ParamAffineMap) -> dict[str, int]:
    """The smallest value of each judged limit that a plan needs."""
    num_pieces = (
        sum(len(pieces) for _, pieces in map_.pieces_by_location) for map_ in (source, target)
    )
    return {
        "max_ndim": len(plan.logical_shape),
        "max_pieces_per_map": max(num_pieces),
        "max_segments": len(plan.segments),
    }


@requirement("PLAN-TOPOLOGY")
@cases(GROWING)
def test_larger_extents_need_no_more_segments(
    implementation: ImplementationProxy, case: Case
) -> None:
    for parameter in parameters_of(case):
        by_8 = exact_plan(implementation, grown(parameter, 8))
        with no_more_refusals("planned with extents multiplied by 8"):
            by_64 = exact_plan(implementation, grown(parameter, 64))
        assert len(by_8.segments) == len(by_64.segments), (
            f"{len(by_8.segments)} segments with extents multiplied by 8, "
            f"{len(by_64.segments)} by 64"
        )


def exact_plan(implementation: ImplementationProxy, parameter: SyncParameter) -> TransferPlan:
    """The plan of a parameter; fail unless it is exact."""
    __tracebackhide__ = True
    plan = implementation.plan_transfer(parameter.source, parameter.target)
    truth.assert_exact(plan, parameter.source, parameter.target)
    return plan


@requirement("PLAN-MERGED")
@cases(EVERYDAY)
@drawn(strategies.sync_cases)
def test_no_two_segments_continue_each_other(
    implementation: ImplementationProxy, case: Case
) -> None:
    for plan, _, _ in planned(implementation, case):
        for one, other in itertools.permutations(plan.segments, 2):
            assert not _continues(one, other), f"{other} continues {one}"


def _continues(one: TransferSegment, other: TransferSegment) -> bool:
    """Whether `other` goes on where `one` ends, on both sides, along one axis."""
    one, other = _with_axes(one), _with_axes(other)
    if _apart_from_place(one) != _apart_from_place(other):
        return False
    for axis, extent in enumerate(one.shape):
        rest = one.shape[:axis] + one.shape[axis + 1 :]
        same = rest == other.shape[:axis] + other.shape[axis + 1 :]
        source = one.source_offset + extent * one.source_strides[axis]
        target = one.target_offset + extent * one.target_strides[axis]
        if same and (source, target) == (other.source_offset, other.target_offset):
            return True
    return False


def _with_axes(segment: TransferSegment) -> TransferSegment:
    """A segment of one element goes on as in a packed tensor."""
    if segment.shape:
        return segment
    return replace(segment, shape=(1,), source_strides=(1,), target_strides=(1,))


def _apart_from_place(segment: TransferSegment) -> tuple[object, ...]:
    return (
        segment.source_location,
        segment.target_location,
        segment.source_strides,
        segment.target_strides,
        len(segment.shape),
    )


@requirement("PLAN-EDGE")
@cases(EDGE, HUGE)
def test_degenerate_and_huge_parameters_are_planned_exactly(
    implementation: ImplementationProxy, case: Case
) -> None:
    for plan, source, target in planned(implementation, case):
        truth.assert_exact(plan, source, target)


def peak_bytes(resident: Resident, parameters: Sequence[SyncParameter]) -> list[int]:
    """Peak memory of planning each parameter, after one round to warm up."""
    peaks = []
    plan_all(resident, parameters, range(len(parameters)))
    for parameter in parameters:
        tracemalloc.start()
        resident.plan_transfer(parameter.source, parameter.target)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return peaks


@requirement("PLAN-SYMBOLIC")
@cases(SYMBOLIC)
def test_planning_2_to_the_60_elements_takes_no_more_memory_than_2_to_the_10(
    implementation: ImplementationProxy, case: Case
) -> None:
    small, large = parameters_of(case)
    assert (small.source.num_elements, large.source.num_elements) == (2**10, 2**60)
    peaks = implementation.run(peak_bytes, (small, large), method="plan_transfer")
    assert peaks[1] <= 2 * peaks[0], f"peaks at {peaks[1]} bytes for 2^60, {peaks[0]} for 2^10"


@requirement("PLAN-TRIP")
@cases(EVERYDAY, HUGE)
@drawn(strategies.sync_cases)
def test_a_plan_to_json_and_back_is_the_same(
    implementation: ImplementationProxy, case: Case
) -> None:
    for plan, _, _ in planned(implementation, case):
        document = through_json(implementation.plan_to_dict(plan))
        back = implementation.plan_from_dict(document)
        assert back == plan, f"{plan} comes back as {back}"
