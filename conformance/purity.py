"""SCHED-PURE and ANALYZE-PURE: what is computed before anything runs touches no tensor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pytest_affine.conformance._batches import Batch, planned_batch, sync_of
from pytest_affine.conformance._purity import impurities
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, requirement
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.syncs import CORE, EDGE

TENSORLESS = (CORE, EDGE, BINDINGS, MIXED)


def assert_pure(
    implementation: ImplementationProxy, call: Callable[[Resident], object], method: str
) -> None:
    """Fail if a call creates a tensor or communicates; it is made on one rank alone."""
    __tracebackhide__ = True
    found: list[str] = implementation.run(impurities, call, method=method)
    if found:
        raise AssertionError(f"{method} is not pure; seen were {', '.join(found)}")


@requirement("SCHED-PURE")
@cases(*TENSORLESS)
def test_scheduling_creates_no_tensor_and_communicates_nothing(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = planned_batch(implementation, sync_of(case))
    assert_pure(implementation, partial(schedule, batch=batch), "schedule_transfers")


def schedule(resident: Resident, batch: Batch) -> None:
    """Called on one rank."""
    batch.given_to(resident.schedule_transfers)


@requirement("ANALYZE-PURE")
@cases(*TENSORLESS)
def test_analysing_creates_no_tensor_and_communicates_nothing(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = planned_batch(implementation, sync_of(case))
    assert_pure(implementation, partial(analyze, batch=batch), "analyze_transfers")


def analyze(resident: Resident, batch: Batch) -> None:
    """Called on one rank."""
    batch.given_to(resident.analyze_transfers)


@requirement("ANALYZE-PURE", "expected_stats")
@cases(*TENSORLESS)
def test_expecting_statistics_creates_no_tensor_and_communicates_nothing(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = planned_batch(implementation, sync_of(case))
    report = batch.given_to(implementation.analyze_transfers)

    def expect(resident: Resident) -> None:
        for process in batch.endpoints.processes:
            resident.expected_stats(report, process)

    assert_pure(implementation, expect, "expected_stats")
