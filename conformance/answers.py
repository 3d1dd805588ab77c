"""BATCH-ANSWER and BATCH-LIMIT: what a policy must not answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pytest_affine.conformance._answered import (
    METHOD,
    assert_exact_as_answered,
    pairs_of,
    sizes_of,
)
from pytest_affine.conformance._batches import one_or_each
from pytest_affine.conformance._judging import no_more_refusals
from pytest_affine.conformance._policies import (
    Long,
    Pairs,
    Refused,
    in_one_part,
    lowest,
    planned,
    refused,
    rows_in_turn,
)
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, requirement
from pytest_affine.fixtures.replicas import (
    BAD_REPLIES,
    LONG_ANSWERS,
    MISANSWERED,
    STACKED,
    TOO_SMALL,
)
from pytest_affine.plans import PlanBudget, ReplicaRequest


def assert_refused_as_answer(ended: Refused, what: str) -> None:
    """Fail unless planning ended with `InvalidReplicaPolicyError`."""
    __tracebackhide__ = True
    if "InvalidReplicaPolicyError" not in ended.kinds:
        raise AssertionError(
            f"{what} must raise InvalidReplicaPolicyError, got {ended.text or 'plans'}"
        )


@requirement("BATCH-ANSWER")
@cases(MISANSWERED)
def test_what_is_no_valid_answer_is_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    fault = case.detail["fault"]
    ended = implementation.run(refused_reply, pairs_of(case), fault, method=METHOD)
    assert_refused_as_answer(ended, fault)


def refused_reply(resident: Resident, pairs: Pairs, fault: str) -> Refused:
    """Plan a batch whose policy returns what has this fault."""
    return refused(resident, pairs, BAD_REPLIES[fault], {})


@requirement("BATCH-ANSWER", "plan_transfers[min_split_bytes]", "plan_transfers[element_size]")
@cases(TOO_SMALL)
def test_parts_of_a_split_have_the_least_bytes_asked_for(
    implementation: ImplementationProxy, case: Case
) -> None:
    pairs, least = pairs_of(case), case.detail["min_split_bytes"]
    options = {"element_size": one_or_each(sizes_of(case)), "min_split_bytes": least}
    ended = implementation.run(refused, pairs, rows_in_turn, options, method=METHOD)
    assert_refused_as_answer(ended, case.detail["fault"])
    enough = {**options, "min_split_bytes": least - 1}
    asked = implementation.run(planned, pairs, rows_in_turn, enough, method=METHOD)
    assert_exact_as_answered(asked, pairs)
    whole = {**options, "min_split_bytes": 2**40}
    with no_more_refusals("split into parts large enough"):
        asked = implementation.run(planned, pairs, in_one_part, whole, method=METHOD)
    assert_exact_as_answered(asked, pairs)


@requirement("BATCH-LIMIT")
@cases(LONG_ANSWERS)
def test_an_answer_of_too_many_parts_is_refused_before_one_is_read(
    implementation: ImplementationProxy, case: Case
) -> None:
    length = case.detail["length"]
    ended, num_read = implementation.run(refused_unread, pairs_of(case), length, method=METHOD)
    assert_refused_as_answer(ended, f"an answer of {length} parts")
    if num_read:
        raise AssertionError(f"an answer of {length} parts was refused after {num_read} were read")


def refused_unread(resident: Resident, pairs: Pairs, length: int) -> tuple[Refused, int]:
    """Plan a batch with one long answer; how that ended, and how many parts were read."""
    long = Long(length)
    policy = partial(with_last, answer=long)
    return refused(resident, pairs, policy, {"limits": PlanBudget()}), long.num_read


def with_last(requests: Sequence[ReplicaRequest], answer: object) -> list[object]:
    """The lowest holder of each region but the last, which is answered like this."""
    return [*lowest(requests[:-1]), answer]


@requirement("BATCH-LIMIT")
@cases(STACKED)
def test_parts_count_together_for_one_parameter_and_apart_for_several(
    implementation: ImplementationProxy, case: Case
) -> None:
    pairs, options = pairs_of(case), {"limits": PlanBudget(max_pair_checks=100)}
    if case.detail["fits"]:
        alone = dict(list(pairs.items())[:1])
        implementation.run(planned, alone, rows_in_turn, options, method=METHOD)
        with no_more_refusals("one parameter was planned alone"):
            asked = implementation.run(planned, pairs, rows_in_turn, options, method=METHOD)
        assert_exact_as_answered(asked, pairs)
    else:
        ended = implementation.run(refused, pairs, rows_in_turn, options, method=METHOD)
        assert_refused_as_answer(ended, "120 parts of one parameter, within 100 pairs,")
