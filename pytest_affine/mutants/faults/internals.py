"""The reference with one of its internals replaced, in the ranks in which it has started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest.mock import patch

import torch.distributed as dist

from pytest_affine.adapters.reference import Reference
from pytest_affine.geometry import row_major_strides
from pytest_affine.plans import ProcessReport, ProcessSchedule
from pytest_affine.reference import analyzer, cuts, rounds, schedule
from pytest_affine.reference.widths import Width

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Patch: TypeAlias = tuple[ModuleType | type, str, Any]
"""A module or class, a name in it, and what is to be there."""


class Patched(Reference):
    """The reference with some of its internals replaced."""

    def start(self, group: ProcessGroup) -> None:
        super().start(group)
        self._patches = ExitStack()
        for module, name, value in self.patches():
            self._patches.enter_context(patch.object(module, name, value))

    def stop(self) -> None:
        self._patches.close()
        super().stop()

    def patches(self) -> Iterator[Patch]:
        raise NotImplementedError


class StagesEveryRound(Patched):
    """Takes no region for packed, so that every message is staged."""

    def patches(self) -> Iterator[Patch]:
        yield cuts, "_is_packed", lambda shape, strides: False


class ComparesStridesOfExtentsOfOne(Patched):
    """Takes a region for packed only if the strides of extents of 1 are right too."""

    def patches(self) -> Iterator[Patch]:
        yield cuts, "_is_packed", lambda shape, strides: strides == row_major_strides(shape)


class SchedulesRoundsOfSenders(Patched):
    """Schedules as many rounds as a process has messages to send to one peer."""

    def patches(self) -> Iterator[Patch]:
        original = schedule._process_schedule

        def without_receives(sends: Any, receives: Any, local_copies: Any) -> ProcessSchedule:
            num_rounds = original(sends, {}, local_copies).num_rounds
            return replace(original(sends, receives, local_copies), num_rounds=num_rounds)

        yield schedule, "_process_schedule", without_receives


class ReportsRoundsOfSenders(Patched):
    """Reports as many rounds as a process has messages to send to one peer."""

    def patches(self) -> Iterator[Patch]:
        original = analyzer._process_report

        def without_receives(sends: Any, receives: Any, local: Any) -> ProcessReport:
            num_rounds = original(sends, {}, ()).num_rounds
            return replace(original(sends, receives, local), num_rounds=num_rounds)

        yield analyzer, "_process_report", without_receives


class ReportsNoLocalPaths(Patched):
    """Leaves local bytes out of the paths."""

    def patches(self) -> Iterator[Patch]:
        original = analyzer._paths
        yield analyzer, "_paths", lambda _, pairs, path_of: original({}, pairs, path_of)


class TakesProcessesForGlobalRanks(Patched):
    """Sends to and receives from the global ranks that have the numbers of processes."""

    def patches(self) -> Iterator[Patch]:
        mixed = {**vars(dist), "get_global_rank": lambda _, process: process}
        yield rounds, "dist", SimpleNamespace(**mixed)


class CastsOnTheOtherSide(Patched):
    """Casts where the smaller elements are."""

    def patches(self) -> Iterator[Patch]:
        right: Any = Width.casts
        yield Width, "casts", property(lambda width: right.fget(width)[::-1])


class CountsTheLargerElements(Patched):
    """Counts the bytes of the larger of two elements."""

    def patches(self) -> Iterator[Patch]:
        yield Width, "num_bytes", property(lambda width: max(width.source, width.target))
