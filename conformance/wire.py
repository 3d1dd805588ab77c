"""EXEC-STATS and ANALYZE-WIRE: what was said of a batch, beside what went over the wire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

from pytest_affine import strategies, truth
from pytest_affine.conformance._batches import Batch, sync_of, wire_bytes, with_budgets
from pytest_affine.conformance._judging import assert_equal_statistics, assert_same
from pytest_affine.conformance._moves import assert_landed, execute, landed_shards, shares_of
from pytest_affine.conformance._runs import Step
from pytest_affine.conformance._wire import Payload, payload, require_sight
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.syncs import EVERYDAY
from pytest_affine.plans import TransferStats
from pytest_affine.sync import Sync


def observed(
    implementation: ImplementationProxy, sync: Sync
) -> Iterator[tuple[Batch, Payload, list[TransferStats]]]:
    """The sync's batch, what went by wire, and the statistics by process; under two budgets.

    Fails where something did not land: only then is it known what must have changed hands.
    """
    __tracebackhide__ = True
    shares = shares_of(implementation, sync, num_runs=2)
    first, *_, last = with_budgets(shares[0].batch)
    batches = [first, last]
    steps = [
        Step(is_empty=True),
        *(Step(run=run, budget=each.budget.bytes_per_peer) for run, each in enumerate(batches)),
    ]
    landed = execute(implementation, [shares], steps)
    assert_landed(landed_shards(shares, steps, landed))
    exchange, *runs = zip(*([step.events for step in own] for own in landed), strict=True)
    for index, (each, seen) in enumerate(zip(batches, runs, strict=True), 1):
        moved = payload(exchange, seen)
        require_sight(sync, moved)
        yield each, moved, [own[index].stats for own in landed]


@requirement("EXEC-STATS")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_statistics_are_what_was_seen_on_the_wire_and_in_the_buffers(
    implementation: ImplementationProxy, case: Case
) -> None:
    sync = sync_of(case)
    landed = landed_bytes(sync)
    for batch, moved, by_process in observed(implementation, sync):
        for process, stats in enumerate(by_process):
            assert_equal_statistics(
                seen_by(process, moved, landed[process]),
                asdict(stats),
                f"process {process}, budget {batch.budget.bytes_per_peer}: on the wire and in the "
                "buffers were",
            )


def landed_bytes(sync: Sync) -> Counter[int]:
    """By process, the bytes of all elements of its target shards."""
    landed = Counter[int]()
    for parameter in sync.parameters:
        for location, process in sync.endpoints.target:
            if location in parameter.target.locations:
                held = [e for e in truth.element_at(parameter.target, location) if e is not None]
                landed[process] += len(held) * wire_bytes(parameter)
    return landed


def seen_by(process: int, moved: Payload, num_landed_bytes: int) -> dict[str, int]:
    """The statistics of one process that can be seen; what landed and was not received is local."""
    sent = [traffic for (sender, _), traffic in moved.items() if sender == process]
    received = [traffic for (_, receiver), traffic in moved.items() if receiver == process]
    received_bytes = sum(num_bytes for num_bytes, _ in received)
    return {
        "rounds": max((messages for _, messages in (*sent, *received)), default=0),
        "sent_bytes": sum(num_bytes for num_bytes, _ in sent),
        "received_bytes": received_bytes,
        "local_copy_bytes": num_landed_bytes - received_bytes,
    }


@requirement("ANALYZE-WIRE")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_bytes_and_messages_of_each_pair_are_what_was_seen_on_the_wire(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch, moved, _ in observed(implementation, sync_of(case)):
        report = batch.given_to(implementation.analyze_transfers)
        said = {pair: tuple(traffic) for pair, traffic in report.pairs.items()}
        what = f"bytes and messages per pair, budget {batch.budget.bytes_per_peer}"
        assert_same(said, moved, what)
