"""EXEC-*: what is in the buffers after a batch was moved, and after one was refused."""

from __future__ import annotations

from pytest_affine import strategies
from pytest_affine.conformance._batches import sync_of
from pytest_affine.conformance._contents import changed_elsewhere
from pytest_affine.conformance._moves import assert_landed, moved
from pytest_affine.conformance._refusals import refusals
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.refusals import UNEXECUTABLE
from pytest_affine.fixtures.syncs import EVERYDAY


@requirement("EXEC-EXACT")
@cases(EVERYDAY, MIXED)
@drawn(strategies.sync_cases)
def test_every_target_shard_is_what_the_full_tensor_says(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_landed(moved(implementation, sync_of(case)))


@requirement("EXEC-GUARD")
@cases(EVERYDAY, MIXED, BINDINGS)
def test_guards_padding_and_sources_stay_as_they_were(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_landed(moved(implementation, sync_of(case)), changed_elsewhere)


@requirement("EXEC-ENDPOINTS")
@cases(BINDINGS)
def test_processes_bound_in_any_way_receive_what_is_theirs(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_landed(moved(implementation, sync_of(case)))


@requirement("EXEC-REFUSE")
@cases(UNEXECUTABLE)
def test_what_does_not_fit_is_refused_on_every_rank_before_anything_moves(
    implementation: ImplementationProxy, case: Case
) -> None:
    refusals(implementation, case)
