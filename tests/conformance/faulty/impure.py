"""Schedules, analyses and statistics that are computed with tensors, or by several ranks."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.distributed as dist

from pytest_affine.adapters.reference import Reference
from pytest_affine.plans import Schedule, TransferReport, TransferStats


class Impure(Reference):
    """Does something before each of them."""

    def schedule_transfers(self, *args: Any, **options: Any) -> Schedule:
        self.soil()
        return super().schedule_transfers(*args, **options)

    def analyze_transfers(self, *args: Any, **options: Any) -> TransferReport:
        self.soil()
        return super().analyze_transfers(*args, **options)

    def soil(self) -> None:
        raise NotImplementedError


class MakesTensors(Impure):
    def soil(self) -> None:
        torch.tensor([1, 2]).prod()


class MakesMetaTensors(Impure):
    def soil(self) -> None:
        torch.empty(2**40, device="meta")


class MakesTensorsOverBytes(Impure):
    """Which takes no memory, and is no operation."""

    def soil(self) -> None:
        torch.frombuffer(bytearray(8), dtype=torch.int64)


class MakesStorages(Impure):
    def soil(self) -> None:
        torch.UntypedStorage(8)  # type: ignore[no-untyped-call]


class MakesTensorsInThreads(Impure):
    def soil(self) -> None:
        thread = threading.Thread(target=lambda: torch.zeros(3))
        thread.start()
        thread.join()


class TakesViews(Impure):
    """Of a tensor that was there before."""

    kept = torch.zeros(4)

    def soil(self) -> None:
        self.kept[1:]


class SendsWord(Impure):
    """And waits for no answer."""

    word = torch.zeros(1)

    def soil(self) -> None:
        dist.isend(self.word, (dist.get_rank() + 1) % dist.get_world_size())


class ExpectsWithTensors(Reference):
    def expected_stats(self, report: TransferReport, process: int) -> TransferStats:
        torch.tensor([process])
        return super().expected_stats(report, process)
