"""EXEC-BUDGET and EXEC-REPEAT: one call after the other, with the same buffers and group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_affine import strategies
from pytest_affine.conformance._batches import Batch, sync_of
from pytest_affine.conformance._buffers import Share
from pytest_affine.conformance._contents import Shard
from pytest_affine.conformance._moves import assert_landed, execute, landed_shards, shares_of
from pytest_affine.conformance._runs import Landed, Step
from pytest_affine.conformance._wire import unreceived
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.errors import AffineTransferError
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.moves import REPEATED
from pytest_affine.fixtures.syncs import CORE, EDGE, PADDED, STRIDED, WIDE
from pytest_affine.sync import Sync

MAX_BUDGETS = 8


@requirement("EXEC-BUDGET")
@cases(CORE, STRIDED, PADDED, EDGE, WIDE, MIXED, BINDINGS[-2:])
@drawn(strategies.sync_cases)
def test_every_budget_gives_the_same_result(
    implementation: ImplementationProxy, case: Case
) -> None:
    shares = shares_of(implementation, sync_of(case), MAX_BUDGETS)
    budgets = some_of(sorted(budgets_that_matter(shares[0].batch)))
    steps = [Step(run=run, budget=budget) for run, budget in enumerate(budgets)]
    landed = execute(implementation, [shares], steps)
    for index, budget in enumerate(budgets):
        own = [[each[index]] for each in landed]
        try:
            assert_landed(landed_shards(shares, steps[index : index + 1], own))
        except AssertionError as wrong:
            raise AssertionError(f"with a budget of {budget} bytes: {wrong}") from None


def budgets_that_matter(batch: Batch) -> set[int]:
    """Budgets at and around those where a segment is cut otherwise, or a message has room for more.

    A segment is cut otherwise from one product of inner extents to the next; a message ends where
    segments of one pair of processes, in a row, no longer fit.
    """
    at, in_a_row = {batch.budget.bytes_per_peer}, dict[tuple[int, int], int]()
    for name, _, segment in batch.segments():
        num_bytes = batch.sizes[name]
        for extent in reversed(segment.shape):
            num_bytes *= extent
            at.update((num_bytes, 2 * num_bytes))
        ends = batch.ends(segment)
        in_a_row[ends] = in_a_row.get(ends, 0) + num_bytes
        at.add(in_a_row[ends])
    least = max(batch.sizes.values())
    around = {budget + more for budget in at for more in (-1, 0, 1)}
    return {least} | {budget for budget in around if budget >= least}


def some_of(budgets: Sequence[int]) -> list[int]:
    """At most `MAX_BUDGETS` of them, from the first to the last."""
    if len(budgets) <= MAX_BUDGETS:
        return [*budgets]
    last = len(budgets) - 1
    return [budgets[place * last // (MAX_BUDGETS - 1)] for place in range(MAX_BUDGETS)]


TURNS = (
    Step(sync=0, run=0),
    Step(sync=0, run=1),
    Step(sync=1, run=0),
    Step(sync=0, is_empty=True),
    Step(sync=1, is_empty=True),
    Step(sync=0, run=2),
    Step(sync=1, run=1),
    Step(sync=0, run=3),
    Step(sync=1, run=2),
    Step(sync=1, run=3),
)
"""Twice the same, by turns, and batches of no parameters between; each time with other values."""


@requirement("EXEC-REPEAT")
@cases(REPEATED)
def test_calls_one_after_the_other_have_nothing_to_do_with_each_other(
    implementation: ImplementationProxy, case: Case
) -> None:
    syncs = (sync_of(case), Sync.from_dict(case.detail["other"]))
    shares = [shares_of(implementation, sync, len(TURNS)) for sync in syncs]
    landed = taken_in_turns(implementation, shares)
    for index, after in enumerate(zip(*landed, strict=True)):
        what = f"after call {index + 1} of {len(TURNS)}: "
        if left := unreceived([own.events for own in after]):
            raise AssertionError(what + left)
        if wrong := [
            text for own in zip(*shares, after, strict=True) for text in strays(index, *own)
        ]:
            raise AssertionError(what + wrong[0])


def taken_in_turns(
    implementation: ImplementationProxy, shares: Sequence[Sequence[Share]]
) -> list[list[Landed]]:
    """What became of the buffers; fails if a sync is refused that is not when it is alone."""
    __tracebackhide__ = True
    try:
        return execute(implementation, shares, TURNS)
    except AffineTransferError as refusal:
        for alone in shares:
            implementation.discard_ranks()
            execute(implementation, [alone], [Step()])
        implementation.discard_ranks()
        raise AssertionError(f"moved in fresh ranks, and by turns refused: {refusal}") from None


def strays(index: int, one: Share, other: Share, after: Landed) -> Iterator[str]:
    """What in the buffers of a process is not as the calls so far leave it."""
    for sync, share in enumerate((one, other)):
        runs = [step.run for step in TURNS[: index + 1] if step.sync == sync and not step.is_empty]
        for shard in share.shards:
            wanted = shard.after[runs[-1]] if runs else shard.before[0]
            yield from differences(shard, wanted, after.contents[sync])


def differences(
    shard: Shard, wanted: bytes, contents: Mapping[tuple[str, str, int], bytes]
) -> Iterator[str]:
    """What is wrong with a shard, if anything."""
    landed = contents[shard.key]
    wrong = [at for at in shard.addresses if shard.at(at, landed) != shard.at(at, wanted)]
    if wrong:
        yield (
            f"{shard} has the wrong bits at {len(wrong)} addresses; the first, {wrong[0]}, has "
            f"{shard.at(wrong[0], landed)} and should have {shard.at(wrong[0], wanted)}"
        )
