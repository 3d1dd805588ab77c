"""Planners of each rank's part, with one fault each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch.distributed as dist

from pytest_affine.contract.implementation import Implementation
from pytest_affine.plans import RankPlan, RankTransfer
from pytest_affine.sync import Sync


class FaultyParts(Implementation):
    """Changes a rank's part."""

    def plan_on_rank(self, sync: Sync, *, group: Any) -> RankPlan:
        part = super().plan_on_rank(sync, group=group)
        return self.changed(part, sync, dist.get_rank(group))

    def changed(self, part: RankPlan, sync: Sync, process: int) -> RankPlan:
        raise NotImplementedError


class ForgetsALastReceive(FaultyParts):
    """Leaves out the last segment that a rank receives."""

    def changed(self, part: RankPlan, sync: Sync, process: int) -> RankPlan:
        return replace(part, receives=part.receives[:-1])


class ReceivesBackwards(FaultyParts):
    """Receives in the reverse order."""

    def changed(self, part: RankPlan, sync: Sync, process: int) -> RankPlan:
        return replace(part, receives=part.receives[::-1])


class SendsNoLocalCopies(FaultyParts):
    """Leaves local copies out of what is sent."""

    def changed(self, part: RankPlan, sync: Sync, process: int) -> RankPlan:
        return RankPlan([send for send in part.sends if send[1] != process], part.receives)


class NamesLocationsForPeers(FaultyParts):
    """Takes the number of a location for that of its process."""

    def changed(self, part: RankPlan, sync: Sync, process: int) -> RankPlan:
        return RankPlan(
            sends=[(name, segment.target_location, segment) for name, _, segment in part.sends],
            receives=[
                (name, segment.source_location, segment) for name, _, segment in part.receives
            ],
        )


class FaultyTransfers(FaultyParts):
    """Changes what is sent and what is received alike."""

    def changed(self, part: RankPlan, sync: Sync, process: int) -> RankPlan:
        return RankPlan(self.other(part.sends), self.other(part.receives))

    def other(self, transfers: tuple[RankTransfer, ...]) -> Iterable[RankTransfer]:
        raise NotImplementedError


class MovesTwice(FaultyTransfers):
    """Plans every segment twice."""

    def other(self, transfers: tuple[RankTransfer, ...]) -> Iterable[RankTransfer]:
        return transfers + transfers


class LeavesOutLastRows(FaultyTransfers):
    """Moves one element less along the first axis of each segment."""

    def other(self, transfers: tuple[RankTransfer, ...]) -> Iterable[RankTransfer]:
        for name, peer, segment in transfers:
            if segment.shape and segment.shape[0] > 1:
                segment = replace(segment, shape=(segment.shape[0] - 1, *segment.shape[1:]))
            yield name, peer, segment


class ReadsFirstElements(FaultyTransfers):
    """Reads each segment from the beginning of its source shard."""

    def other(self, transfers: tuple[RankTransfer, ...]) -> Iterable[RankTransfer]:
        return [
            (name, peer, replace(segment, source_offset=0)) for name, peer, segment in transfers
        ]
