"""Statistics that are returned, or expected, with one fault each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.mutants.faults.parts import NOTHING
from pytest_affine.plans import TransferReport, TransferStats


class FaultyStats(Implementation):
    """Returns other statistics, where nothing is cast."""

    def execute_transfers(self, *args: Any, **options: Any) -> TransferStats:
        stats = super().execute_transfers(*args, **options)
        return stats if options.get("cast") else self.changed(stats)

    def changed(self, stats: TransferStats) -> TransferStats:
        raise NotImplementedError


class LiesInOneField(FaultyStats):
    """Returns one more in one field, where it has that."""

    field: str

    def changed(self, stats: TransferStats) -> TransferStats:
        value = getattr(stats, self.field)
        return stats if value is None else replace(stats, **{self.field: value + 1})


class ReturnsOneSegmentMore(LiesInOneField):
    """Returns one segment more."""

    field = "segments"


class ReturnsOneChunkMore(LiesInOneField):
    """Returns one chunk more."""

    field = "chunks"


class ReturnsOneRoundMore(LiesInOneField):
    """Returns one round more."""

    field = "rounds"


class ReturnsOneByteMoreCopied(LiesInOneField):
    """Returns one byte more as copied locally."""

    field = "local_copy_bytes"


class ReturnsOneByteMoreSent(LiesInOneField):
    """Returns one byte more as sent."""

    field = "sent_bytes"


class ReturnsOneByteMoreReceived(LiesInOneField):
    """Returns one byte more as received."""

    field = "received_bytes"


class CountsLocalBytesAsSent(FaultyStats):
    """Returns what was copied locally as sent."""

    def changed(self, stats: TransferStats) -> TransferStats:
        return replace(
            stats, sent_bytes=stats.sent_bytes + stats.local_copy_bytes, local_copy_bytes=0
        )


class ReturnsRoundsOfSendersOnly(FaultyStats):
    """Returns no rounds where nothing is sent."""

    def changed(self, stats: TransferStats) -> TransferStats:
        return replace(stats, rounds=stats.rounds if stats.sent_bytes else 0)


class FaultyExpectation(Implementation):
    """Expects other statistics."""

    def expected_stats(self, report: TransferReport, process: int) -> TransferStats:
        return self.changed(super().expected_stats(report, process), report, process)

    def changed(self, stats: TransferStats, report: TransferReport, process: int) -> TransferStats:
        raise NotImplementedError


class LeavesOutReceiversRounds(FaultyExpectation):
    """Expects as many rounds as messages that are sent to one peer."""

    def changed(self, stats: TransferStats, report: TransferReport, process: int) -> TransferStats:
        sent = [messages for (p, _), (_, messages) in report.pairs.items() if p == process]
        return replace(stats, rounds=max(sent, default=0))


class ExpectsNoSegments(FaultyExpectation):
    """Expects no segments."""

    def changed(self, stats: TransferStats, report: TransferReport, process: int) -> TransferStats:
        return replace(stats, segments=0)


class ExpectsNothingOfStrangers(Implementation):
    """Expects zeros of a process that nobody knows."""

    def expected_stats(self, report: TransferReport, process: int) -> TransferStats:
        return super().expected_stats(report, process) if process in report.processes else NOTHING
