"""STATS-* and ANALYZE-*: what is said of a batch before it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from pytest_affine import strategies
from pytest_affine.conformance._batches import Batch, planned_batch, sync_of, with_budgets
from pytest_affine.conformance._moves import execute, shares_of
from pytest_affine.contract.cases import Case
from pytest_affine.contract.implementation import NotClaimedError
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.syncs import EVERYDAY
from pytest_affine.plans import TransferReport, TransferStats


@requirement("STATS-EQUAL")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_expected_statistics_are_those_that_the_executor_returns(
    implementation: ImplementationProxy, case: Case
) -> None:
    shares = shares_of(implementation, sync_of(case))
    for batch in with_budgets(shares[0].batch):
        landed = execute(implementation, [replace(share, batch=batch) for share in shares])
        report = batch.given_to(implementation.analyze_transfers)
        for process in batch.endpoints.processes:
            expected = implementation.expected_stats(report, process)
            assert_equal_stats(expected, landed[process][0].stats, process, batch)


def assert_equal_stats(
    expected: TransferStats, returned: TransferStats, process: int, batch: Batch
) -> None:
    """Fail if a field differs; one that an implementation does not have is None."""
    __tracebackhide__ = True
    both = {name: (want, getattr(returned, name)) for name, want in asdict(expected).items()}
    pairs = {name: values for name, values in both.items() if None not in values}
    if not pairs:
        raise NotClaimedError("a field of TransferStats that both stages have")
    wrong = [f"{name} {want}, got {got}" for name, (want, got) in pairs.items() if want != got]
    if wrong:
        raise AssertionError(
            f"process {process}, budget {batch.budget.bytes_per_peer}: expected_stats says "
            f"{', '.join(wrong)}"
        )


def analyzed(
    implementation: ImplementationProxy, case: Case, **options: Any
) -> Iterator[tuple[Batch, TransferReport]]:
    """The case's batch under several budgets, beside its report."""
    for batch in with_budgets(planned_batch(implementation, sync_of(case))):
        yield batch, batch.given_to(implementation.analyze_transfers, **options)


def assert_same(said: Mapping[Any, object], wanted: Mapping[Any, object], what: str) -> None:
    """Fail where two tables differ; an entry of zeros is the same as none."""
    __tracebackhide__ = True
    empty = (None, 0, (0, 0))
    wrong = [
        f"{key}: {said.get(key)}, should be {wanted.get(key)}"
        for key in sorted(said.keys() | wanted.keys())
        if said.get(key) != wanted.get(key)
        and not (said.get(key) in empty and wanted.get(key) in empty)
    ]
    if wrong:
        raise AssertionError(f"{what}: {'; '.join(wrong)}")


@requirement("ANALYZE-SUM")
@cases(EVERYDAY, BINDINGS, MIXED)
@drawn(strategies.sync_cases)
def test_the_volume_and_the_pairs_are_what_the_plans_move(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch, report in analyzed(implementation, case):
        elements, num_bytes = Counter[bool](), Counter[tuple[int, int]]()
        for name, _, segment in batch.segments():
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
        local = sum(process.local_copy_bytes for process in own.values())
        if local != report.volume.local_bytes:
            raise AssertionError(
                f"processes copy {local} bytes locally, the volume says {report.volume.local_bytes}"
            )


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
