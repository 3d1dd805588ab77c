"""SCHED-*, DIGEST-*, EXEC-*, STATS-* and ANALYZE-* of parameters that are cast on the way."""

from __future__ import annotations

from dataclasses import replace

from pytest_affine.conformance import analysis, messages, schedules, wire
from pytest_affine.conformance._batches import planned_batch, sync_of
from pytest_affine.conformance._moves import assert_landed, moved
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import cases, requirement
from pytest_affine.fixtures.casts import CASTS


@requirement("SCHED-DIRECT", "schedule_transfers[cast]")
@cases(CASTS)
def test_messages_are_staged_where_they_are_cast(
    implementation: ImplementationProxy, case: Case
) -> None:
    messages.test_a_message_is_direct_exactly_when_it_is_one_packed_region(implementation, case)


@requirement("SCHED-BUDGET", "schedule_transfers[cast]")
@cases(CASTS)
def test_messages_of_the_smaller_elements_fit_the_budget(
    implementation: ImplementationProxy, case: Case
) -> None:
    schedules.test_no_message_exceeds_the_budget(implementation, case)


@requirement("SCHED-VOLUME", "schedule_transfers[cast]")
@cases(CASTS)
def test_bytes_are_those_of_the_smaller_elements(
    implementation: ImplementationProxy, case: Case
) -> None:
    schedules.test_bytes_sent_are_received_and_with_local_ones_are_what_the_plans_move(
        implementation, case
    )


@requirement("DIGEST-SENSITIVE", "plan_digest[cast]")
@cases([case for case in CASTS if "16 to " not in case.name or "32" in case.name])
def test_elements_cast_the_other_way_change_the_digest(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = planned_batch(implementation, sync_of(case))
    turned = replace(batch, casts={name: both[::-1] for name, both in batch.casts.items()})
    usual, other, uncast = (
        each.given_to(implementation.plan_digest)
        for each in (batch, turned, replace(batch, casts={}))
    )
    if usual in (other, uncast):
        raise AssertionError(
            f"elements that are cast between sizes of {dict(batch.casts)} bytes have the digest of "
            f"{'those cast the other way' if usual == other else 'those that are not'}"
        )


@requirement("EXEC-DTYPE", "execute_transfers[cast]")
@cases(CASTS)
def test_elements_are_cast_as_torch_casts_them(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_landed(moved(implementation, sync_of(case)))


@requirement("EXEC-STATS", "execute_transfers[cast]")
@cases(CASTS)
def test_statistics_of_casts_are_what_was_seen(
    implementation: ImplementationProxy, case: Case
) -> None:
    wire.test_statistics_are_what_was_seen_on_the_wire_and_in_the_buffers(implementation, case)


@requirement("STATS-EQUAL", "execute_transfers[cast]", "analyze_transfers[cast]")
@cases(CASTS)
def test_expected_statistics_of_casts_are_those_that_the_executor_returns(
    implementation: ImplementationProxy, case: Case
) -> None:
    analysis.test_expected_statistics_are_those_that_the_executor_returns(implementation, case)


@requirement("ANALYZE-SUM", "analyze_transfers[cast]")
@cases(CASTS)
def test_the_volume_of_casts_is_what_the_plans_move(
    implementation: ImplementationProxy, case: Case
) -> None:
    analysis.test_the_volume_and_the_pairs_are_what_the_plans_move(implementation, case)
