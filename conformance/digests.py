"""DIGEST-*: what ranks compare before anything moves, and what they do where it differs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import combinations, product
from typing import Any

from pytest_affine.conformance._batches import Batch, planned_batch, sync_of
from pytest_affine.conformance._refusals import refusals
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, requirement
from pytest_affine.errors import AffineTransferError
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.refusals import DISAGREEMENTS, REJECTIONS
from pytest_affine.fixtures.syncs import CORE, EDGE, NAMED, WIDE
from pytest_affine.plans import (
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferSegment,
)

HASH_SEEDS = (0, 1)


def digest_twice(resident: Resident, batch: Batch) -> tuple[str, str]:
    """Two digests of one batch. Called on every rank."""
    return batch.given_to(resident.plan_digest), batch.given_to(resident.plan_digest)


@requirement("DIGEST-STABLE")
@cases(CORE, EDGE, MIXED, NAMED)
def test_the_digest_is_the_same_on_every_rank_and_every_time(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = planned_batch(implementation, sync_of(case))
    first = implementation.run_on_every_rank(digest_twice, batch, method="plan_digest")
    again = implementation.run_on_every_rank(digest_twice, batch, method="plan_digest")
    distinct = {digest for pair in (*first, *again) for digest in pair}
    if len(distinct) > 1:
        raise AssertionError(f"one batch has the digests {first}, and later {again}, by rank")


@requirement("DIGEST-STABLE")
@cases(NAMED)
def test_the_digest_does_not_depend_on_the_string_hash_seed(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = planned_batch(implementation, sync_of(case))
    digests: dict[object, tuple[str, str]] = {
        seed: implementation.run_in_fresh_interpreter(
            digest_twice, batch, hash_seed=seed, method="plan_digest"
        )
        for seed in HASH_SEEDS
    }
    digests["a rank"] = implementation.run(digest_twice, batch, method="plan_digest")
    distinct = {digest for pair in digests.values() for digest in pair}
    if len(distinct) > 1:
        raise AssertionError(f"one batch has these digests by PYTHONHASHSEED: {digests}")


@requirement("DIGEST-SENSITIVE")
@cases(NAMED, MIXED, BINDINGS[:1])
def test_every_change_to_what_ranks_must_agree_on_changes_the_digest(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = planned_batch(implementation, sync_of(case))
    digests = {"nothing": batch.given_to(implementation.plan_digest)}
    for what, changed in changes(batch):
        try:
            digests[what] = changed.given_to(implementation.plan_digest)
        except AffineTransferError:
            continue  # whoever refuses the change has noticed it
    unnoticed = [pair for pair in combinations(digests, 2) if digests[pair[0]] == digests[pair[1]]]
    if unnoticed:
        pairs = "; ".join(f"{one!r} and {other!r}" for one, other in unnoticed)
        raise AssertionError(f"these changes have one digest: {pairs}")


def changes(batch: Batch) -> Iterator[tuple[str, Batch]]:
    """In what a batch differs from this one, and that batch; no two of them are equal."""
    yield "the budget", replace(batch, budget=StagingBudget(batch.budget.bytes_per_peer + 1))
    for name, size in batch.sizes.items():
        sizes = {**batch.sizes, name: 2 * size}
        yield f"the element size of {name!r}", replace(batch, sizes=sizes)
    sources, targets = dict(batch.endpoints.source), dict(batch.endpoints.target)
    for location, process in sources.items():
        moved = TransferEndpoints({**sources, location: process + 1}, targets)
        yield f"the process of source location {location}", replace(batch, endpoints=moved)
    for location, process in targets.items():
        moved = TransferEndpoints(sources, {**targets, location: process + 1})
        yield f"the process of target location {location}", replace(batch, endpoints=moved)
    for what, plans in changes_of_plans(batch.plans):
        # A new name stands where the old one did, whose element size it keeps.
        by_place = zip(plans, batch.sizes.values(), strict=False)
        sizes = {name: batch.sizes.get(name, size) for name, size in by_place}
        yield what, replace(batch, plans=plans, sizes=sizes)


Plans = dict[str, TransferPlan]


def changes_of_plans(plans: Mapping[str, TransferPlan]) -> Iterator[tuple[str, Plans]]:
    """Every change to the names, to their order, and to every plan."""
    names = list(plans)
    for changed in names:
        renamed = {name + "_" * (name == changed): plan for name, plan in plans.items()}
        yield f"the name of {changed!r}", renamed
    if len(names) > 1:
        yield "the order of parameters", {name: plans[name] for name in reversed(names)}
        yield "a parameter less", {name: plans[name] for name in names[:-1]}
        yield "which parameter a segment is of", {**plans, **last_to_next(plans, *names[:2])}
    for name in names:
        for what, plan in changes_of_plan(plans[name]):
            yield f"{what} of {name!r}", {**plans, name: plan}


def last_to_next(plans: Mapping[str, TransferPlan], name: str, following: str) -> Plans:
    """Two neighbours, where the last segment of the one is the first of the other."""
    *kept, last = plans[name].segments
    moved = (last, *plans[following].segments)
    return {
        name: replace(plans[name], segments=tuple(kept)),
        following: replace(plans[following], segments=moved),
    }


def changes_of_plan(plan: TransferPlan) -> Iterator[tuple[str, TransferPlan]]:
    """Every change to shapes and sizes, and to every number of every segment."""
    yield "the logical shape", replace(plan, logical_shape=(1, *plan.logical_shape))
    for name in ("source_sizes", "target_sizes"):
        sizes = getattr(plan, name)
        one_more = tuple((location, size + 1) for location, size in sizes or ((0, 0),))
        variants: dict[str, Any] = {"absent": None, "empty": (), "larger": one_more}
        for what, other in variants.items():
            if other != sizes:
                yield f"{name} {what}", replace(plan, **{name: other})
    first, *others = plan.segments
    yield "the order of segments", replace(plan, segments=(*others, first))
    yield "a segment less", replace(plan, segments=tuple(others))
    for index, segment in enumerate(plan.segments):
        for what, changed in changes_of_segment(segment):
            segments = (*plan.segments[:index], changed, *plan.segments[index + 1 :])
            yield f"{what} of segment {index}", replace(plan, segments=segments)


def changes_of_segment(segment: TransferSegment) -> Iterator[tuple[str, TransferSegment]]:
    """One more of every number of a segment, one at a time."""
    for field in fields(TransferSegment):
        value = getattr(segment, field.name)
        more: Any
        if isinstance(value, int):
            more = value + 1
            yield field.name, replace(segment, **{field.name: more})
            continue
        for axis in range(len(value)):
            more = (*value[:axis], value[axis] + 1, *value[axis + 1 :])
            yield f"{field.name}[{axis}]", replace(segment, **{field.name: more})


@requirement("DIGEST-CANONICAL")
@cases(BINDINGS, NAMED, WIDE)
def test_the_digest_does_not_depend_on_the_order_in_which_endpoints_were_filled(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = planned_batch(implementation, sync_of(case))
    digests: list[str] = implementation.run(digests_of_orders, batch, method="plan_digest")
    if len({*digests}) > 1:
        raise AssertionError(f"endpoints filled in several orders have the digests {digests}")


def digests_of_orders(resident: Resident, batch: Batch) -> list[str]:
    """Digests of one batch whose endpoints are filled in several orders. Called on one rank."""
    found = []
    for sides in product(*map(orders, (batch.endpoints.source, batch.endpoints.target))):
        endpoints = TransferEndpoints(*map(dict, sides))
        found.append(replace(batch, endpoints=endpoints).given_to(resident.plan_digest))
    return found


def orders(bound: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """These locations and processes from the front, from the back, and from the middle."""
    middle = len(bound) // 2
    return [[*bound], [*reversed(bound)], [*bound[middle:], *bound[:middle]]]


def has_number(text: str, number: int) -> bool:
    """Whether a text has this number: alone or after "rank", and not inside another word."""
    alone = rf"(?:(?<![\w.])|\b(?:rank|process)_?){number}(?!\w|\.\d)"
    return re.search(alone, text) is not None


def assert_named(texts: Sequence[str], case: Case, wanted: Sequence[str] = ()) -> None:
    """Fail unless the error of every rank names the case's processes, and these words."""
    __tracebackhide__ = True
    for rank, text in enumerate(texts):
        unnamed = [str(p) for p in case.detail["processes"] if not has_number(text, p)]
        unnamed += [word for word in wanted if word not in text]
        if unnamed:
            raise AssertionError(f"the error of process {rank} does not name {unnamed}: {text}")


@requirement("DIGEST-AGREE")
@cases(DISAGREEMENTS)
def test_ranks_that_disagree_all_refuse_and_name_who_differs(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_named(refusals(implementation, case), case)


@requirement("DIGEST-REJECT")
@cases(REJECTIONS)
def test_every_rank_tells_which_ranks_refuse_and_why(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_named(refusals(implementation, case), case, wanted=[case.detail["parameter"]])
