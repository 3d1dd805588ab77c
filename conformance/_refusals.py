"""Having the implementation's executor refuse: what is wrong with a call, and what must follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pytest_affine.conformance._batches import Batch, endpoints_of, sync_of
from pytest_affine.conformance._buffers import Held, Share
from pytest_affine.conformance._contents import Shard
from pytest_affine.conformance._moves import assert_landed, moved, shares_of
from pytest_affine.conformance._runs import Attempt, attempted
from pytest_affine.conformance._wire import surplus
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.plans import StagingBudget
from pytest_affine.sync import Sync

__all__ = ["all_refuse", "broken", "refusals", "with_fault"]

Holding = TypeVar("Holding", bound=Held)


def refusals(implementation: ImplementationProxy, case: Case) -> list[str]:
    """By rank, the text with which it refuses a case of kind "refusal"; fails as `all_refuse`."""
    __tracebackhide__ = True
    shares = _faulty_shares(implementation, case)
    return all_refuse(implementation, sync_of(case), shares, case.detail.get("processes"))


def all_refuse(
    implementation: ImplementationProxy,
    sync: Sync,
    shares: Sequence[Share],
    processes: Sequence[int] | None = None,
) -> list[str]:
    """By rank, the text with which it refuses its share; `processes` have a fault, or all.

    Fails unless every rank raises `TransferRefusedError`, no buffer has changed, nothing beyond
    the exchange went over the wire, and the group then moves the sync.

    The exchange of a refusal may be longer than that of a batch that runs, for reasons are told in
    it. What it takes is seen in batches of no parameters that are refused by the same processes:
    as many messages to each peer, and as many collectives of each kind, are granted.
    """
    __tracebackhide__ = True
    refusing = range(implementation.num_ranks) if processes is None else processes
    attempts: list[Attempt] = implementation.run_on_every_rank(
        attempted, shares, sync.endpoints, refusing, method="execute_transfers"
    )
    for rank, (share, attempt) in enumerate(zip(shares, attempts, strict=True)):
        if not attempt.is_refusal:
            raise AssertionError(
                f"process {rank} must raise TransferRefusedError, got {attempt.error}"
            )
        if changed := [s for s in share.shards if attempt.contents[s.key] != s.before[0]]:
            raise AssertionError(
                f"process {rank} refused, but these have changed: {', '.join(map(str, changed))}"
            )
        if more := surplus(attempt.events, attempt.exchanges):
            raise AssertionError(
                f"process {rank} refused, but beyond the exchange these went over the wire: {more}"
            )
    assert_landed(moved(implementation, sync, num_runs=1))
    return [attempt.error for attempt in attempts]


def _faulty_shares(implementation: ImplementationProxy, case: Case) -> list[Share]:
    """By rank, what it passes, with what the detail of the case says is wrong."""
    sync, detail = sync_of(case), case.detail
    if "endpoints" in detail:
        sync = replace(sync, endpoints=endpoints_of(detail["endpoints"]))
    shares = shares_of(implementation, sync)
    if detail.get("sizes") == "absent":
        shares = [_without_sizes(share) for share in shares]
    told = [*shares]
    if "told" in detail:
        told = shares_of(implementation, Sync.from_dict(detail["told"]))
    everything = [shard for share in shares for shard in share.shards]
    for rank in detail.get("processes", ()):
        shares[rank] = with_fault(told[rank], everything, detail)
    return shares


def _without_sizes(share: Share) -> Share:
    plans = {
        name: replace(plan, source_sizes=None, target_sizes=None)
        for name, plan in share.batch.plans.items()
    }
    return replace(share, batch=replace(share.batch, plans=plans))


def with_fault(share: Holding, everything: Sequence[Shard], detail: Mapping[str, Any]) -> Holding:
    """What a rank holds with what a case says is wrong with its buffers, if anything.

    `everything` are the shards of all ranks.
    """
    fault = detail["fault"]
    if fault == "another sync":
        return share
    if fault == "overlap":
        faulty, *others = sorted(share.shards, key=lambda shard: shard.side != "target")
        host = next(shard for shard in others if shard.side == detail["side"])
        return replace(share, fault=fault, faulty=faulty.key, host=host.key)
    eligible = [
        shard
        for shard in everything
        if shard.side == detail["side"] and shard.name == detail.get("parameter", shard.name)
    ]
    if fault == "stranger":
        stranger = next(shard for shard in eligible if shard not in share.shards)
        return replace(share, shards=(*share.shards, stranger))
    own = next(shard for shard in eligible if shard in share.shards)
    if fault == "missing":
        return replace(share, shards=tuple(shard for shard in share.shards if shard != own))
    if fault in SURPLUS:
        return replace(share, shards=(*share.shards, SURPLUS[fault](own)))
    return replace(share, fault=fault, faulty=own.key)


SURPLUS: dict[str, Callable[[Shard], Shard]] = {
    "parameter": lambda own: replace(own, parameter=replace(own.parameter, name="no.such.name")),
    "location": lambda own: replace(own, location=99),
}
"""Buffers that no plan has, made from one that a plan has."""


def broken(batch: Batch, detail: Mapping[str, Any]) -> Batch:
    """The batch with what a case of kind "refusal" says is wrong with it."""
    if "budget" in detail:
        batch = replace(batch, budget=StagingBudget(detail["budget"]))
    if "endpoints" in detail:
        batch = replace(batch, endpoints=endpoints_of(detail["endpoints"]))
    return replace(batch, plans={}) if detail.get("empty") else batch
