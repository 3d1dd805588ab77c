"""Schedules, analyses and statistics that are computed with tensors, or by several ranks."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.distributed as dist

from pytest_affine.contract.implementation import Implementation
from pytest_affine.plans import Schedule, TransferReport, TransferStats


class Impure(Implementation):
    """Does something that a pure function does not."""

    def soil(self) -> None:
        raise NotImplementedError


class ImpureSchedule(Impure):
    """Does so before each schedule."""

    def schedule_transfers(self, *args: Any, **options: Any) -> Schedule:
        self.soil()
        return super().schedule_transfers(*args, **options)


class ImpureAnalysis(Impure):
    """Does so before each analysis."""

    def analyze_transfers(self, *args: Any, **options: Any) -> TransferReport:
        self.soil()
        return super().analyze_transfers(*args, **options)


class MakesTensors(Impure):
    """Makes a tensor."""

    def soil(self) -> None:
        torch.tensor([1, 2]).prod()


class MakesMetaTensors(Impure):
    """Makes a tensor without memory."""

    def soil(self) -> None:
        torch.empty(2**40, device="meta")


class MakesTensorsOverBytes(Impure):
    """Makes a tensor over memory that is there, which is no operation."""

    def soil(self) -> None:
        torch.frombuffer(bytearray(8), dtype=torch.int64)


class MakesStorages(Impure):
    """Makes a storage without a tensor."""

    def soil(self) -> None:
        torch.UntypedStorage(8)  # type: ignore[no-untyped-call]


class MakesTensorsInThreads(Impure):
    """Makes a tensor in a thread."""

    def soil(self) -> None:
        thread = threading.Thread(target=lambda: torch.zeros(3))
        thread.start()
        thread.join()


class TakesViews(Impure):
    """Takes a view of a tensor that was there before."""

    kept = torch.zeros(4)

    def soil(self) -> None:
        self.kept[1:]


class SendsAWord(Impure):
    """Sends a word to the next rank, and waits for no answer."""

    word = torch.zeros(1)

    def soil(self) -> None:
        dist.isend(self.word, (dist.get_rank() + 1) % dist.get_world_size())


class SchedulesWithTensors(MakesTensors, ImpureSchedule):
    """Makes a tensor to schedule."""


class SchedulesWithMetaTensors(MakesMetaTensors, ImpureSchedule):
    """Makes a tensor without memory to schedule."""


class SchedulesWithTensorsOverBytes(MakesTensorsOverBytes, ImpureSchedule):
    """Makes a tensor over memory that is there to schedule."""


class SchedulesWithStorages(MakesStorages, ImpureSchedule):
    """Makes a storage to schedule."""


class SchedulesInThreads(MakesTensorsInThreads, ImpureSchedule):
    """Makes a tensor in a thread to schedule."""


class SchedulesWithViews(TakesViews, ImpureSchedule):
    """Takes a view of a tensor that was there before to schedule."""


class SchedulesTogether(SendsAWord, ImpureSchedule):
    """Sends a word to the next rank to schedule."""


class AnalyzesWithTensors(MakesTensors, ImpureAnalysis):
    """Makes a tensor to analyze."""


class AnalyzesWithMetaTensors(MakesMetaTensors, ImpureAnalysis):
    """Makes a tensor without memory to analyze."""


class AnalyzesWithTensorsOverBytes(MakesTensorsOverBytes, ImpureAnalysis):
    """Makes a tensor over memory that is there to analyze."""


class AnalyzesWithStorages(MakesStorages, ImpureAnalysis):
    """Makes a storage to analyze."""


class AnalyzesInThreads(MakesTensorsInThreads, ImpureAnalysis):
    """Makes a tensor in a thread to analyze."""


class AnalyzesWithViews(TakesViews, ImpureAnalysis):
    """Takes a view of a tensor that was there before to analyze."""


class AnalyzesTogether(SendsAWord, ImpureAnalysis):
    """Sends a word to the next rank to analyze."""


class ExpectsWithTensors(Implementation):
    """Makes a tensor to expect statistics."""

    def expected_stats(self, report: TransferReport, process: int) -> TransferStats:
        torch.tensor([process])
        return super().expected_stats(report, process)
