"""Analyses and their documents with one fault each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import AffineTransferError
from pytest_affine.mutants.faults.parts import Plans, raise_type_error
from pytest_affine.plans import (
    StagingBudget,
    TransferEndpoints,
    TransferReport,
)


class FaultyAnalyzer(Implementation):
    """Says something else, where nothing is cast."""

    def analyze_transfers(self, *args: Any, **options: Any) -> TransferReport:
        report = super().analyze_transfers(*args, **options)
        return report if options.get("cast") else self.changed(report)

    def changed(self, report: TransferReport) -> TransferReport:
        raise NotImplementedError


class ReportsOneSegmentMore(FaultyAnalyzer):
    """Reports one segment more."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, num_segments=report.num_segments + 1)


class ReportsOneChunkMore(FaultyAnalyzer):
    """Reports one chunk more."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, num_chunks=report.num_chunks + 1)


class CountsSegmentsOfOneSizeOnce(FaultyAnalyzer):
    """Reports one segment of each size."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, segment_sizes=dict.fromkeys(report.segment_sizes, 1))


class ReportsSegmentsOneByteLarger(FaultyAnalyzer):
    """Reports every segment as one byte larger."""

    def changed(self, report: TransferReport) -> TransferReport:
        sizes = {size + 1: number for size, number in report.segment_sizes.items()}
        return replace(report, segment_sizes=sizes)


class ReportsMessagesOneByteLarger(FaultyAnalyzer):
    """Reports every message as one byte larger."""

    def changed(self, report: TransferReport) -> TransferReport:
        sizes = {size + 1: number for size, number in report.message_sizes.items()}
        return replace(report, message_sizes=sizes)


class CountsMessagesOfOneSizeOnce(FaultyAnalyzer):
    """Reports one message of each size."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, message_sizes=dict.fromkeys(report.message_sizes, 1))


class ReportsOneRoundMoreInAll(FaultyAnalyzer):
    """Reports one round more than any process has."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, num_rounds=report.num_rounds + 1)


class ReportsThePeersOfOneDirection(FaultyAnalyzer):
    """Reports as peers of a process those that it sends to."""

    def changed(self, report: TransferReport) -> TransferReport:
        processes = {
            process: replace(own, num_peers=sum(pair[0] == process for pair in report.pairs))
            for process, own in report.processes.items()
        }
        return replace(report, processes=processes)


class FaultyVolume(FaultyAnalyzer):
    """Reports one more in one field of the volume."""

    field: str

    def changed(self, report: TransferReport) -> TransferReport:
        more = getattr(report.volume, self.field) + 1
        return replace(report, volume=replace(report.volume, **{self.field: more}))


class ReportsOneElementMoreCopied(FaultyVolume):
    """Reports one element more as moved within processes."""

    field = "local_elements"


class ReportsOneElementMoreSent(FaultyVolume):
    """Reports one element more as moved between processes."""

    field = "remote_elements"


class ReportsOneByteMoreCopied(FaultyVolume):
    """Reports one byte more as moved within processes."""

    field = "local_bytes"


class ReportsOneByteMoreSent(FaultyVolume):
    """Reports one byte more as moved between processes."""

    field = "remote_bytes"


class LeavesLocalBytesOutOfVolume(FaultyAnalyzer):
    """Leaves local bytes out of the volume."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, volume=replace(report.volume, local_bytes=0))


class LeavesLocalBytesOutOfPaths(FaultyAnalyzer):
    """Leaves the path called "local" out."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, paths={k: v for k, v in report.paths.items() if k != "local"})


class CountsMessagesForLocalCopies(FaultyAnalyzer):
    """Reports a message for local copies."""

    def changed(self, report: TransferReport) -> TransferReport:
        paths = {path: (moved, sent or 1) for path, (moved, sent) in report.paths.items()}
        return replace(report, paths=paths)


class HoldsPairsOfOne(FaultyAnalyzer):
    """Reports a process and itself as a pair, of which nothing is sent."""

    def changed(self, report: TransferReport) -> TransferReport:
        own = dict.fromkeys(((p, p) for p in report.processes), (0, 0))
        return replace(report, pairs={**report.pairs, **own})


class TurnsPairsAround(FaultyAnalyzer):
    """Reports the receiver of each pair as its sender."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, pairs={(q, p): value for (p, q), value in report.pairs.items()})


class ShiftsBytesBetweenPairs(FaultyAnalyzer):
    """Reports a byte more for some pairs and less for others, so that all totals agree."""

    def changed(self, report: TransferReport) -> TransferReport:
        shifts = {(0, 2): 1, (0, 3): -1, (1, 2): -1, (1, 3): 1}
        if not report.pairs.keys() >= shifts.keys():
            return report
        shifted = {pair: report.pairs[pair] for pair in shifts}
        shifted = {pair: (size + shifts[pair], sent) for pair, (size, sent) in shifted.items()}
        return replace(report, pairs={**report.pairs, **shifted})


class CountsOneMessageForEachPair(FaultyAnalyzer):
    """Reports one message for each pair."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, pairs={pair: (size, 1) for pair, (size, _) in report.pairs.items()})


class LeavesOutOnePair(FaultyAnalyzer):
    """Leaves out the first pair."""

    def changed(self, report: TransferReport) -> TransferReport:
        return replace(report, pairs=dict([*report.pairs.items()][1:]))


class FaultyProcessReports(FaultyAnalyzer):
    """Reports one more in one field of each process."""

    field: str

    def changed(self, report: TransferReport) -> TransferReport:
        processes = {
            process: replace(own, **{self.field: getattr(own, self.field) + 1})
            for process, own in report.processes.items()
        }
        return replace(report, processes=processes)


class ReportsOneByteMoreSentByEach(FaultyProcessReports):
    """Reports one byte more as sent by each process."""

    field = "sent_bytes"


class ReportsOneByteMoreReceivedByEach(FaultyProcessReports):
    """Reports one byte more as received by each process."""

    field = "received_bytes"


class ReportsOneMessageMoreSentByEach(FaultyProcessReports):
    """Reports one message more as sent by each process."""

    field = "num_sent_messages"


class ReportsOneMessageMoreReceivedByEach(FaultyProcessReports):
    """Reports one message more as received by each process."""

    field = "num_received_messages"


class ReportsOneRoundMoreOfEach(FaultyProcessReports):
    """Reports one round more of each process."""

    field = "num_rounds"


class ReportsOneByteMoreStaged(FaultyProcessReports):
    """Reports one byte more as staged."""

    field = "staging_bytes"


class ReportsOneByteMorePacked(FaultyProcessReports):
    """Reports one byte more as packed."""

    field = "pack_bytes"


class ReportsOneByteMoreUnpacked(FaultyProcessReports):
    """Reports one byte more as unpacked."""

    field = "unpack_bytes"


class ReportsOneByteMoreCopiedByEach(Implementation):
    """Reports one byte more as copied by each process, in its path too, and not in the volume."""

    def analyze_transfers(self, *args: Any, **options: Any) -> TransferReport:
        report = super().analyze_transfers(*args, **options)
        path_of = options.get("path_of", lambda sender, receiver: "local")
        processes, paths = {}, dict(report.paths)
        for process, own in report.processes.items():
            processes[process] = replace(own, local_copy_bytes=own.local_copy_bytes + 1)
            moved, sent = paths.get(path_of(process, process), (0, 0))
            paths[path_of(process, process)] = moved + 1, sent
        return replace(report, processes=processes, paths=paths)


class StagesEveryMessage(FaultyAnalyzer):
    """Reports all messages as staged, direct ones too."""

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


class IgnoresPathOf(Implementation):
    """Ignores the labels of paths that are asked for."""

    def analyze_transfers(self, *args: Any, path_of: Any = None, **options: Any) -> TransferReport:
        return super().analyze_transfers(*args, **options)


class FaultyDocument(Implementation):
    """Writes the report otherwise."""

    def report_to_dict(self, report: TransferReport) -> dict[str, Any]:
        return self.changed(super().report_to_dict(report))

    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError


class KeysOfIntegers(FaultyDocument):
    """Writes processes with integers as keys."""

    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "processes": {int(p): own for p, own in entry["processes"].items()}}


class PairsOfTuples(FaultyDocument):
    """Writes bytes and messages as tuples."""

    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "paths": {label: tuple(each) for label, each in entry["paths"].items()}}


class SetsOfLabels(FaultyDocument):
    """Writes a set of labels."""

    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "labels": {"local"}}


class NoNumberForInfinity(FaultyDocument):
    """Writes an infinite number."""

    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "seconds": float("inf")}


class NoSchema(FaultyDocument):
    """Writes no schema number."""

    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in entry.items() if key != "schema"}


class NoNumbering(FaultyDocument):
    """Writes no numbering of processes."""

    def changed(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in entry.items() if key != "process_numbering"}


class AnalyzesEmptyBatches(Implementation):
    """Analyzes an empty batch without looking at the budget."""

    def analyze_transfers(
        self,
        plans: Plans,
        endpoints: TransferEndpoints,
        *,
        budget: StagingBudget,
        **options: Any,
    ) -> TransferReport:
        usable = budget if plans else StagingBudget()
        return super().analyze_transfers(plans, endpoints, budget=usable, **options)


class AnalyzesFractions(Implementation):
    """Takes a fractional budget for the integer below."""

    def analyze_transfers(
        self, *args: Any, budget: StagingBudget, **options: Any
    ) -> TransferReport:
        whole = StagingBudget(int(budget.bytes_per_peer))
        return super().analyze_transfers(*args, budget=whole, **options)


class CrashesInAnalyses(Implementation):
    """Crashes on what can't be analyzed."""

    def analyze_transfers(self, *args: Any, **options: Any) -> TransferReport:
        try:
            return super().analyze_transfers(*args, **options)
        except AffineTransferError:
            raise_type_error()
