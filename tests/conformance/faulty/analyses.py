"""Statistics and analyses with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from dataclasses import replace
from typing import Any

from faulty.parts import NOTHING, Plans
from pytest_affine.adapters.reference import Reference
from pytest_affine.plans import (
    StagingBudget,
    TransferEndpoints,
    TransferReport,
    TransferStats,
)


class FaultyStats(Reference):
    """Returns other statistics."""

    def execute_transfers(self, *args: Any, **options: Any) -> TransferStats:
        return self.changed(super().execute_transfers(*args, **options))

    def changed(self, stats: TransferStats) -> TransferStats:
        raise NotImplementedError


class CountsLocalBytesAsSent(FaultyStats):
    """F30."""

    def changed(self, stats: TransferStats) -> TransferStats:
        return replace(
            stats, sent_bytes=stats.sent_bytes + stats.local_copy_bytes, local_copy_bytes=0
        )


class HasNoRounds(FaultyStats):
    """No fault: it lacks a field."""

    def changed(self, stats: TransferStats) -> TransferStats:
        return replace(stats, rounds=None)  # type: ignore[arg-type]


class LeavesOutReceiversRounds(Reference):
    """F47."""

    def expected_stats(self, report: TransferReport, process: int) -> TransferStats:
        sent = [messages for (p, _), (_, messages) in report.pairs.items() if p == process]
        return replace(super().expected_stats(report, process), rounds=max(sent, default=0))


class ExpectsOwnSegmentsOnly(Reference):
    def expected_stats(self, report: TransferReport, process: int) -> TransferStats:
        return replace(super().expected_stats(report, process), segments=0)


class FaultyAnalyzer(Reference):
    """Says something else."""

    def analyze_transfers(self, *args: Any, **options: Any) -> TransferReport:
        return self.changed(super().analyze_transfers(*args, **options))

    def changed(self, report: TransferReport) -> TransferReport:
        raise NotImplementedError


class LeavesLocalBytesOutOfPaths(FaultyAnalyzer):
    """F48."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, paths={k: v for k, v in report.paths.items() if k != "local"})


class CountsMessagesForLocalCopies(FaultyAnalyzer):
    def changed(self, report: TransferReport) -> TransferReport:
        paths = {path: (moved, sent or 1) for path, (moved, sent) in report.paths.items()}
        return replace(report, paths=paths)


class HoldsPairsOfOne(FaultyAnalyzer):
    def changed(self, report: TransferReport) -> TransferReport:
        own = {(p, p): (each.local_copy_bytes, 0) for p, each in report.processes.items()}
        return replace(report, pairs={**report.pairs, **own})


class TurnsPairsAround(FaultyAnalyzer):
    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, pairs={(q, p): value for (p, q), value in report.pairs.items()})


class LeavesLocalBytesOutOfVolume(FaultyAnalyzer):
    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, volume=replace(report.volume, local_bytes=0))


class FaultyProcessReports(FaultyAnalyzer):
    """Says something else of each process."""

    field: str

    def changed(self, report: TransferReport) -> TransferReport:
        processes = {
            process: replace(own, **{self.field: getattr(own, self.field) + 1})
            for process, own in report.processes.items()
        }
        return replace(report, processes=processes)


class CountsOneByteMoreReceived(FaultyProcessReports):
    field = "received_bytes"


class CountsOneMessageMoreSent(FaultyProcessReports):
    field = "num_sent_messages"


class CountsOneByteMoreLocal(FaultyProcessReports):
    field = "local_copy_bytes"


class IgnoresPathOf(Reference):
    def analyze_transfers(self, *args: Any, path_of: Any = None, **options: Any) -> TransferReport:
        return super().analyze_transfers(*args, **options)


class NoPathOption(Reference):
    """No fault: it does not claim the option."""

    def analyze_transfers(
        self, plans: Plans, endpoints: TransferEndpoints, *, element_size: Any, budget: Any
    ) -> TransferReport:
        return super().analyze_transfers(plans, endpoints, element_size=element_size, budget=budget)


class CountsOneMessageForEachPair(FaultyAnalyzer):
    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, pairs={pair: (size, 1) for pair, (size, _) in report.pairs.items()})


class LeavesOutOnePair(FaultyAnalyzer):
    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, pairs=dict([*report.pairs.items()][1:]))


class FaultyStaging(FaultyProcessReports):
    """Says one more of what is staged."""


class CountsOneByteMoreStaged(FaultyStaging):
    field = "staging_bytes"


class CountsOneByteMorePacked(FaultyStaging):
    field = "pack_bytes"


class CountsOneByteMoreUnpacked(FaultyStaging):
    field = "unpack_bytes"


class StagesEveryMessage(FaultyAnalyzer):
    """F49: also direct ones."""

    def changed(self, report: TransferReport) -> TransferReport:
        processes = {
            process: replace(
                own,
                staging_bytes=own.sent_bytes + own.received_bytes,
                pack_bytes=own.sent_bytes,
                unpack_bytes=own.received_bytes,
            )
            for process, own in report.processes.items()
        }
        return replace(report, processes=processes)


class FaultyDocument(Reference):
    """Writes the report otherwise."""

    def report_to_dict(self, report: TransferReport) -> dict[str, Any]:
        return self.changed(super().report_to_dict(report))

    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError


class KeysOfIntegers(FaultyDocument):
    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "processes": {int(p): own for p, own in entry["processes"].items()}}


class PairsOfTuples(FaultyDocument):
    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "paths": {label: tuple(each) for label, each in entry["paths"].items()}}


class SetsOfLabels(FaultyDocument):
    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "labels": {"local"}}


class NoNumberForInfinity(FaultyDocument):
    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "seconds": float("inf")}


class NoSchema(FaultyDocument):
    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in entry.items() if key != "schema"}


class NoNumbering(FaultyDocument):
    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in entry.items() if key != "process_numbering"}


class AnalyzesEmptyBatches(Reference):
    """F50: without looking at the budget."""

    def analyze_transfers(
        self, plans: Plans, endpoints: TransferEndpoints, *, budget: Any, **options: Any
    ) -> TransferReport:
        usable = budget if plans else StagingBudget()
        return super().analyze_transfers(plans, endpoints, budget=usable, **options)


class AnalyzesFractions(Reference):
    def analyze_transfers(self, *args: Any, budget: Any, **options: Any) -> TransferReport:
        whole = StagingBudget(int(budget.bytes_per_peer))
        return super().analyze_transfers(*args, budget=whole, **options)


class ExpectsNothingOfStrangers(Reference):
    """F50: zeros for a process that nobody knows."""

    def expected_stats(self, report: TransferReport, process: int) -> TransferStats:
        return super().expected_stats(report, process) if process in report.processes else NOTHING
