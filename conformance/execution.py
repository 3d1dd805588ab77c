"""EXEC-*: what is in the buffers after a batch was moved, and after one was refused."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import cast

from pytest_affine import strategies
from pytest_affine.conformance._batches import sync_of
from pytest_affine.conformance._contents import changed_elsewhere
from pytest_affine.conformance._judging import assert_equal_statistics
from pytest_affine.conformance._moves import (
    assert_landed,
    execute,
    landed_shards,
    moved,
    shares_of,
)
from pytest_affine.conformance._refusals import refusals
from pytest_affine.conformance._runs import Group, Step
from pytest_affine.contract.cases import Case
from pytest_affine.contract.outcomes import NotRun
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.moves import DISTURBED, DTYPES, FLOAT8, GROUPS, VIEWS
from pytest_affine.fixtures.refusals import UNEXECUTABLE, UNPACKED
from pytest_affine.fixtures.syncs import EVERYDAY
from pytest_affine.ranks import Delay, Reorder

LATE_SECONDS = 0.02
"""How long what leaves late is held: longer than messages take that are not."""


@requirement("EXEC-EXACT")
@cases(EVERYDAY, MIXED)
@drawn(strategies.sync_cases)
def test_every_target_shard_is_what_the_full_tensor_says(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_landed(moved(implementation, sync_of(case)))


@requirement("EXEC-EXACT")
@cases(DISTURBED)
def test_messages_that_leave_late_or_in_another_order_change_nothing(
    implementation: ImplementationProxy, case: Case
) -> None:
    if (backend := implementation.pool.backend) != "gloo":
        raise NotRun(f"messages are held back on gloo, and the ranks have {backend}")
    shares = shares_of(implementation, sync_of(case), num_runs=2)
    delays = (Delay(LATE_SECONDS, sender) for sender in cast("list[int]", case.detail["late"]))
    steps = [Step(), Step(run=1, faults=(Reorder(), *delays))]
    landed = execute(implementation, [shares], steps)
    assert_landed(landed_shards(shares, steps, landed))
    for process, (usual, disturbed) in enumerate(landed):
        what = f"process {process}: statistics must be those of messages in time,"
        assert_equal_statistics(asdict(usual.stats), asdict(disturbed.stats), what)


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


@requirement("EXEC-DTYPE")
@cases(DTYPES)
def test_elements_of_every_dtype_arrive_bit_for_bit(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_landed(moved(implementation, sync_of(case)))


@requirement("EXEC-DTYPE")
@cases(FLOAT8)
def test_elements_of_every_float8_dtype_that_torch_has_arrive_bit_for_bit(
    implementation: ImplementationProxy, case: Case
) -> None:
    sync = sync_of(case)
    names = [parameter.source_dtype for parameter in sync.parameters]
    known: list[str] = implementation.run(known_dtypes, names, method="execute_transfers")
    parameters = tuple(each for each in sync.parameters if each.source_dtype in known)
    assert_landed(moved(implementation, replace(sync, parameters=parameters)))


def known_dtypes(resident: Resident, names: list[str]) -> list[str]:
    """Those of these dtypes that torch has. Called on one rank."""
    import torch

    return [name for name in names if hasattr(torch, name)]


@requirement("EXEC-VIEW")
@cases(VIEWS)
def test_shards_that_are_windows_of_larger_buffers_are_moved(
    implementation: ImplementationProxy, case: Case
) -> None:
    landed = [*moved(implementation, sync_of(case), form=case.detail["form"])]
    assert_landed(landed)
    assert_landed(landed, changed_elsewhere)


@requirement("EXEC-VIEW")
@cases(UNPACKED)
def test_shards_that_are_not_packed_are_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    refusals(implementation, case)


@requirement("EXEC-REFUSE")
@cases(UNEXECUTABLE)
def test_what_does_not_fit_is_refused_on_every_rank_before_anything_moves(
    implementation: ImplementationProxy, case: Case
) -> None:
    refusals(implementation, case)


@requirement("EXEC-GROUP")
@cases(GROUPS)
def test_processes_are_ranks_of_the_group_that_is_given(
    implementation: ImplementationProxy, case: Case
) -> None:
    group = group_of(case, implementation)
    assert_landed(moved(implementation, sync_of(case), group=group))


def group_of(case: Case, implementation: ImplementationProxy) -> Group:
    """The group that a case is about.

    Raises:
        NotRun: its ranks are not there, or torch can't order them so.
    """
    if case.detail["group"] is None:
        return None
    ranks = tuple(cast("list[int]", case.detail["group"]))
    if max(ranks) >= implementation.num_ranks:
        raise NotRun(f"needs rank {max(ranks)}, there are {implementation.num_ranks} ranks")
    if [*ranks] != sorted(ranks) and not implementation.run(
        can_order_ranks, method="execute_transfers"
    ):
        raise NotRun("this torch makes only groups of ranks in order")
    return ranks


def can_order_ranks(resident: Resident) -> bool:
    """Whether torch makes groups of ranks in any order. Called on one rank."""
    import inspect

    import torch.distributed as dist

    return "sort_ranks" in inspect.signature(dist.new_group).parameters
