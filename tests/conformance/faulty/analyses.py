"""Statistics and analyses with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from dataclasses import replace
from typing import Any

from faulty.parts import Plans
from pytest_affine.adapters.reference import Reference
from pytest_affine.plans import (
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
