"""PLAN-LOCAL and LOAD-BALANCE: what each rank plans of a sync."""

from __future__ import annotations

from pytest_affine import strategies
from pytest_affine.conformance._batches import sync_of
from pytest_affine.conformance._judging import assert_keeps_rule
from pytest_affine.conformance._parts import assembled, load_of, mismatches
from pytest_affine.contract.cases import Case
from pytest_affine.contract.outcomes import Measured, NotRun
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.relaid import BETWEEN, SELVES
from pytest_affine.fixtures.reshards import BALANCED, TWINS
from pytest_affine.fixtures.syncs import EVERYDAY
from pytest_affine.plans import RankPlan
from pytest_affine.sync import Sync


def parts_of(implementation: ImplementationProxy, sync: Sync) -> list[RankPlan]:
    """By process, its part of the plan of a sync; idle ones plan too.

    Raises:
        NotRun: the sync needs more ranks than there are.
    """
    if sync.num_processes > implementation.num_ranks:
        raise NotRun(f"needs {sync.num_processes} ranks, there are {implementation.num_ranks}")
    parts: list[RankPlan] = implementation.run_on_every_rank(part, sync, method="plan_on_rank")
    return parts


def part(resident: Resident, sync: Sync) -> RankPlan:
    """This rank's part. Called on every rank."""
    import torch.distributed as dist

    planned: RankPlan = resident.plan_on_rank(sync, group=dist.group.WORLD)
    return planned


@requirement("PLAN-LOCAL")
@cases(EVERYDAY, TWINS, BETWEEN, SELVES, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_the_parts_of_all_ranks_are_one_plan(
    implementation: ImplementationProxy, case: Case
) -> None:
    sync = sync_of(case)
    parts = parts_of(implementation, sync)
    if wrong := next(mismatches(sync, parts), ""):
        raise AssertionError(wrong)
    for parameter in sync.parameters:
        plan = assembled(parameter, parts)
        for rule in ("PLAN-TILE", "PLAN-SOURCE"):
            assert_keeps_rule(rule, plan, parameter.source, parameter.target)


@requirement("LOAD-BALANCE")
@cases(BALANCED)
def test_how_well_the_parts_of_all_ranks_spread_the_load(
    implementation: ImplementationProxy, case: Case
) -> None:
    sync = sync_of(case)
    raise Measured(load_of(sync, parts_of(implementation, sync)))
