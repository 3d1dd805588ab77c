"""RESHARD-*, LAYOUT-SELF, LAYOUT-SHAPE, WIRE-SEEN: whole syncs, moved in one call or often."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pytest_affine import strategies
from pytest_affine.conformance._batches import sync_of
from pytest_affine.conformance._contents import Shard, changed_elsewhere, wrong_elements
from pytest_affine.conformance._moves import assert_landed
from pytest_affine.conformance._refusals import with_fault
from pytest_affine.conformance._reshards import (
    landed,
    reshard_landed,
    take_turns,
    told_of,
    went_on,
)
from pytest_affine.conformance._turns import Told, Turn, closed
from pytest_affine.conformance._wire import require_seen
from pytest_affine.conformance.execution import group_of
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.errors import AffineTransferError
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.casts import CASTS
from pytest_affine.fixtures.moves import DTYPES, GROUPS
from pytest_affine.fixtures.relaid import BETWEEN, SELVES
from pytest_affine.fixtures.reshards import CHANGES, MISSHAPEN, REFUSED, TWINS
from pytest_affine.fixtures.staged import STAGED
from pytest_affine.fixtures.syncs import CORE, EVERYDAY
from pytest_affine.sync import Sync


@requirement("RESHARD-EXACT")
@cases(EVERYDAY, TWINS, BETWEEN, MIXED, BINDINGS, DTYPES)
@drawn(strategies.sync_cases)
def test_every_target_shard_of_a_sync_is_what_the_full_tensor_says(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_landed(reshard_landed(implementation, sync_of(case)))


@requirement("RESHARD-EXACT")
@cases([case for case in GROUPS if case.detail["group"]])
def test_processes_of_a_sync_are_ranks_of_the_group_that_is_given(
    implementation: ImplementationProxy, case: Case
) -> None:
    group = group_of(case, implementation)
    assert_landed(reshard_landed(implementation, sync_of(case), group=group))


@requirement("RESHARD-GUARD")
@cases(EVERYDAY, TWINS, BETWEEN, MIXED, BINDINGS)
def test_a_sync_leaves_guards_padding_and_sources_as_they_were(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_landed(reshard_landed(implementation, sync_of(case)), changed_elsewhere)


@requirement("RESHARD-DTYPE")
@cases(CASTS)
def test_elements_of_another_dtype_are_cast_or_every_rank_refuses(
    implementation: ImplementationProxy, case: Case
) -> None:
    try:
        found = reshard_landed(implementation, sync_of(case))
    except AffineTransferError:
        return
    assert_landed(found)
    assert_landed(found, changed_elsewhere)


@requirement("RESHARD-REFUSE")
@cases(REFUSED)
def test_what_one_rank_can_not_do_is_refused_on_every_rank_and_the_group_is_usable(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_refused_by_all(implementation, case)


@requirement("LAYOUT-SHAPE")
@cases(MISSHAPEN)
def test_a_shard_of_another_shape_than_declared_is_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_refused_by_all(implementation, case)


def assert_refused_by_all(implementation: ImplementationProxy, case: Case) -> None:
    """Fail unless every rank refuses a case of kind "refusal", and then moves the sync."""
    __tracebackhide__ = True
    right = told_of(implementation, sync_of(case))
    everything = [shard for told in right for shard in told.shards]
    faulty: list[Told] = [
        with_fault(told, everything, case.detail) if process in case.detail["processes"] else told
        for process, told in enumerate(right)
    ]
    turns = [Turn(is_refused=True), Turn(sync=1)]
    after = take_turns(implementation, [faulty, right], turns)
    if after[0][1].refusal is not None:
        raise AssertionError(f"after a refusal, what is right is refused: {after[0][1].refusal}")
    assert_landed(landed([faulty, right], turns, after))


@requirement("RESHARD-REFUSE", "open_sync")
@cases(CORE[:2])
def test_a_sync_that_is_closed_does_not_run(
    implementation: ImplementationProxy, case: Case
) -> None:
    told = told_of(implementation, sync_of(case))
    wrong: list[str] = implementation.run_on_every_rank(closed, told, method="open_sync")
    if any(wrong):
        process, text = next((p, text) for p, text in enumerate(wrong) if text)
        raise AssertionError(f"after close, process {process} {text}")


TURNS = (
    Turn(),
    Turn(run=1),
    Turn(run=2, renewed=("target",)),
    Turn(sync=1),
    Turn(sync=1, run=1, renewed=("source",)),
    Turn(run=3),
    Turn(sync=1, run=2, renewed=("source", "target")),
    Turn(run=4),
)
"""New values, a replaced target, another sync into the same target, replaced sources, and back."""

NAMES = (
    "the first time",
    "with new values",
    "with new target buffers",
    "with another sync",
    "with new source buffers",
    "with the first sync again",
    "with the other sync and new buffers",
    "with the first sync in new buffers",
)


@requirement("RESHARD-FRESH")
@cases(CHANGES)
def test_a_call_knows_nothing_of_the_calls_before(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_fresh(implementation, case, "reshard")


@requirement("RESHARD-FRESH", "open_sync")
@cases(CHANGES)
def test_an_open_sync_runs_with_what_it_was_told_last(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_fresh(implementation, case, "open_sync")


def assert_fresh(implementation: ImplementationProxy, case: Case, method: str) -> None:
    """Fail if a turn that is not refused does not do what it does alone."""
    __tracebackhide__ = True
    syncs = (sync_of(case), Sync.from_dict(case.detail["other"]))
    implementation.require_support(syncs[1])
    told = [told_of(implementation, sync, len(TURNS)) for sync in syncs]
    after = take_turns(implementation, told, TURNS, method=method)
    for index, turn, own in went_on(TURNS, after):
        found = [*landed(told, [turn], [[each] for each in own])]
        try:
            assert_landed(found, wrong_elements)
            assert_landed(found, changed_elsewhere)
        except AssertionError as wrong:
            raise AssertionError(f"turn {index + 1}, {NAMES[index]}: {wrong}") from None


@requirement("LAYOUT-SELF")
@cases(SELVES)
def test_a_layout_moved_onto_itself_changes_no_element(
    implementation: ImplementationProxy, case: Case
) -> None:
    """Judged twice: with targets that are right before, and with targets that are wrong."""
    told = told_of(implementation, sync_of(case), 2)
    told = [replace(each, shards=tuple(map(_right_before, each.shards))) for each in told]
    turns = [Turn(), Turn(run=1)]
    found = [*landed([told], turns, take_turns(implementation, [told], turns))]
    assert_landed(found, wrong_elements)
    assert_landed(found, changed_elsewhere)


def _right_before(shard: Shard) -> Shard:
    """The shard, which holds before the first run what it holds after it."""
    return replace(shard, before=(shard.after[0], *shard.before[1:]))


@requirement("WIRE-SEEN")
@cases(STAGED)
def test_no_more_bytes_change_hands_than_the_tap_sees(
    implementation: ImplementationProxy, case: Case
) -> None:
    sync = sync_of(case)
    told = [told_of(implementation, sync)]
    after = take_turns(implementation, told, [Turn()])
    assert_landed(landed(told, [Turn()], after))
    received = [sum(event.received_bytes for event in own.events) for (own,) in after]
    require_seen(sync, Counter(dict(enumerate(received))))
