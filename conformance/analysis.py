"""STATS-* and ANALYZE-*: what is said of a batch before it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from pytest_affine import strategies
from pytest_affine.conformance._batches import Batch, planned_batch, sync_of, with_budgets
from pytest_affine.conformance._judging import (
    assert_equal_statistics,
    assert_refused,
    assert_same,
    through_json,
)
from pytest_affine.conformance._moves import execute, shares_of
from pytest_affine.conformance._refusals import broken
from pytest_affine.conformance._runs import Step
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.errors import AffineTransferError
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.refusals import UNSCHEDULABLE
from pytest_affine.fixtures.syncs import CORE, EDGE, EVERYDAY
from pytest_affine.plans import TransferReport


@requirement("STATS-EQUAL")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_expected_statistics_are_those_that_the_executor_returns(
    implementation: ImplementationProxy, case: Case
) -> None:
    shares = shares_of(implementation, sync_of(case))
    batches = [*with_budgets(shares[0].batch)]
    steps = [Step(budget=batch.budget.bytes_per_peer) for batch in batches]
    landed = execute(implementation, [shares], steps)
    for index, batch in enumerate(batches):
        report = batch.given_to(implementation.analyze_transfers)
        for process in batch.endpoints.processes:
            expected = implementation.expected_stats(report, process)
            assert_equal_statistics(
                asdict(expected),
                asdict(landed[process][index].stats),
                f"process {process}, budget {batch.budget.bytes_per_peer}: expected_stats says",
            )


def analyzed(
    implementation: ImplementationProxy, case: Case, **options: Any
) -> Iterator[tuple[Batch, TransferReport]]:
    """The case's batch under several budgets, beside its report."""
    for batch in with_budgets(planned_batch(implementation, sync_of(case))):
        yield batch, batch.given_to(implementation.analyze_transfers, **options)


@requirement("ANALYZE-SUM")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_the_volume_and_the_pairs_are_what_the_plans_move(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch, report in analyzed(implementation, case):
        elements, num_bytes = Counter[bool](), Counter[tuple[int, int]]()
        segments = [*batch.segments()]
        for name, _, segment in segments:
            sender, receiver = batch.ends(segment)
            elements[sender == receiver] += segment.num_elements
            num_bytes[sender, receiver] += segment.num_elements * batch.sizes[name]
        remote = {pair: moved for pair, moved in num_bytes.items() if pair[0] != pair[1]}
        volume = {
            "local_elements": elements[True],
            "remote_elements": elements[False],
            "local_bytes": num_bytes.total() - sum(remote.values()),
            "remote_bytes": sum(remote.values()),
        }
        assert_same(asdict(report.volume), volume, "volume")
        said = {pair: moved for pair, (moved, _) in report.pairs.items()}
        assert_same(said, remote, "bytes per pair")
        sizes = Counter(segment.num_elements * batch.sizes[name] for name, _, segment in segments)
        assert_same(report.segment_sizes, sizes, "segments per size")
        if own := [pair for pair in report.pairs if pair[0] == pair[1]]:
            raise AssertionError(f"pairs hold {own}, which are no pairs")


@requirement("ANALYZE-SUM")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_totals_of_processes_are_those_of_their_pairs_and_of_the_volume(
    implementation: ImplementationProxy, case: Case
) -> None:
    for _, report in analyzed(implementation, case):
        sent, received = Counter[int](), Counter[int]()
        sends, receives = Counter[int](), Counter[int]()
        for (sender, receiver), (moved, messages) in report.pairs.items():
            sent[sender] += moved
            received[receiver] += moved
            sends[sender] += messages
            receives[receiver] += messages
        own = report.processes
        for said, wanted, what in (
            ({p: own[p].sent_bytes for p in own}, sent, "bytes sent"),
            ({p: own[p].received_bytes for p in own}, received, "bytes received"),
            ({p: own[p].num_sent_messages for p in own}, sends, "messages sent"),
            ({p: own[p].num_received_messages for p in own}, receives, "messages received"),
        ):
            assert_same(said, wanted, f"{what}, by process")
        peers = {process: num_peers(report, process) for process in own}
        assert_same({p: own[p].num_peers for p in own}, peers, "peers, by process")
        totals = {
            "rounds": max((process.num_rounds for process in own.values()), default=0),
            "messages": sends.total(),
            "bytes of messages": sent.total(),
        }
        sizes = report.message_sizes
        said_in_all = {
            "rounds": report.num_rounds,
            "messages": sum(sizes.values()),
            "bytes of messages": sum(size * number for size, number in sizes.items()),
        }
        assert_same(said_in_all, totals, "in all")
        local = sum(process.local_copy_bytes for process in own.values())
        if local != report.volume.local_bytes:
            raise AssertionError(
                f"processes copy {local} bytes locally, the volume says {report.volume.local_bytes}"
            )


def num_peers(report: TransferReport, process: int) -> int:
    """How many others a process sends to or receives from, by the pairs."""
    return len({peer for pair in report.pairs if process in pair for peer in pair} - {process})


def default_path(sender: int, receiver: int) -> str:
    """The path labels of the contract, where none are given."""
    return "local" if sender == receiver else "remote"


def path_between_nodes(sender: int, receiver: int) -> str:
    """Labels that tell directions apart, and that local copies share with messages."""
    return f"{sender // 2} to {receiver // 2}"


@requirement("ANALYZE-SUM")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_totals_of_paths_are_those_of_their_pairs_and_local_copies(
    implementation: ImplementationProxy, case: Case
) -> None:
    for _, report in analyzed(implementation, case):
        assert_same(report.paths, totals_by_path(report, default_path), "default paths")
    if "path_of" in implementation.claims["analyze_transfers"]:
        for _, report in analyzed(implementation, case, path_of=path_between_nodes):
            assert_same(report.paths, totals_by_path(report, path_between_nodes), "other paths")


def totals_by_path(
    report: TransferReport, path_of: Callable[[int, int], str]
) -> dict[str, tuple[int, int]]:
    """Bytes and messages per path; local copies add bytes and no message."""
    num_bytes, messages = Counter[str](), Counter[str]()
    for process, own in report.processes.items():
        num_bytes[path_of(process, process)] += own.local_copy_bytes
    for pair, (moved, sent) in report.pairs.items():
        num_bytes[path_of(*pair)] += moved
        messages[path_of(*pair)] += sent
    return {path: (num_bytes[path], messages[path]) for path in num_bytes}


@requirement("ANALYZE-JSON")
@cases(CORE, EDGE, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_a_report_is_ready_for_json_and_survives_it(
    implementation: ImplementationProxy, case: Case
) -> None:
    for _, report in analyzed(implementation, case):
        entry = implementation.report_to_dict(report)
        if strange := [repr(key) for key in keys_of(entry) if not isinstance(key, str)]:
            raise AssertionError(f"these keys of the report's dict are no strings: {strange}")
        if (read := through_json(entry)) != entry:
            raise AssertionError(f"the report's dict {entry!r} came back from JSON as {read!r}")
        schema, numbering = entry.get("schema"), entry.get("process_numbering")
        if type(schema) is not int or numbering != report.process_numbering:
            raise AssertionError(
                f"the report's dict must have a schema number and the process_numbering "
                f"{report.process_numbering!r}, got {schema!r} and {numbering!r}"
            )


def keys_of(document: object) -> Iterator[object]:
    """The keys of a document and of all that is in it."""
    if isinstance(document, dict):
        yield from document
        document = [*document.values()]
    if isinstance(document, list | tuple):
        for entry in document:
            yield from keys_of(entry)


@requirement("ANALYZE-REFUSE")
@cases([case for case in UNSCHEDULABLE if "process" not in case.detail])
def test_what_the_schedule_refuses_the_analysis_refuses(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = broken(planned_batch(implementation, sync_of(case)), case.detail)
    assert_refused(
        lambda: batch.given_to(implementation.analyze_transfers),
        case.detail["fault"],
        kinds=(AffineTransferError,),
    )


@requirement("ANALYZE-REFUSE", "expected_stats")
@cases([case for case in UNSCHEDULABLE if "process" in case.detail])
def test_statistics_of_an_unknown_process_are_not_expected(
    implementation: ImplementationProxy, case: Case
) -> None:
    batch = broken(planned_batch(implementation, sync_of(case)), case.detail)
    report = batch.given_to(implementation.analyze_transfers)
    assert_refused(
        lambda: implementation.expected_stats(report, case.detail["process"]),
        case.detail["fault"],
        kinds=(AffineTransferError,),
    )
