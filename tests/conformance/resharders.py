"""Resharders of whole syncs that are right, and of which something is out of the ordinary."""

from __future__ import annotations

from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.plans import RankPlan, StagingBudget, TransferSegment, TransferStats
from pytest_affine.reference.executor import execute_transfers
from pytest_affine.reference.planner import plan_transfer
from pytest_affine.reference.resharding import plan_on_rank, reshard
from pytest_affine.sync import Sync


def region(tensor: torch.Tensor, offset: int, segment: TransferSegment, strides: Any) -> Any:
    """The elements of a segment in a shard."""
    return tensor.as_strided(segment.shape, strides, tensor.storage_offset() + offset)


class ThroughTheStore(Implementation):
    """Hands over bytes in the store of the process group, which the tap does not see."""

    _numbers = count()  # of all instances in this rank, which have one store

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        part, process = plan_on_rank(sync, group=group), dist.get_rank(group)
        store, key = _get_default_store(), f"affine test {next(self._numbers)}"
        for number, (name, peer, segment) in enumerate(part.sends):
            source = source_buffers[name][segment.source_location]
            held = region(source, segment.source_offset, segment, segment.source_strides)
            bits = held.reshape(-1).view(torch.uint8).tolist()
            at = sum(other == peer for _, other, _ in part.sends[:number])
            store.set(f"{key} {process} {peer} {at}", bytes(bits).hex())
        for number, (name, peer, segment) in enumerate(part.receives):
            target = target_buffers[name][segment.target_location]
            wanted = region(target, segment.target_offset, segment, segment.target_strides)
            at = sum(other == peer for _, other, _ in part.receives[:number])
            found = bytes.fromhex(store.get(f"{key} {peer} {process} {at}").decode())
            bits = torch.frombuffer(bytearray(found), dtype=torch.uint8)
            wanted.copy_(bits.view(target.dtype).view(segment.shape))


class MovesOneDtype(Implementation):
    """Executes what is not cast."""

    def execute_transfers(  # type: ignore[override]
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: Any,
        *,
        dtype: Any,
        budget: StagingBudget = StagingBudget(),  # noqa: B008 - frozen
        group: Any = None,
    ) -> TransferStats:
        return execute_transfers(
            plans,
            source_buffers,
            target_buffers,
            endpoints,
            dtype=dtype,
            budget=budget,
            group=group,
        )


class CastsNothing(Implementation):
    """Refuses to cast, on every rank."""

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        if any(each.source_dtype != each.target_dtype for each in sync.parameters):
            raise UnsupportedLayoutError("elements are not cast")
        reshard(sync, source_buffers, target_buffers, group=group)


class GivesNoHandle(Implementation):
    """Opens a sync and gives nothing to run it with."""

    def reshard(self, *arguments: Any, group: Any) -> None:
        reshard(*arguments, group=group)

    def open_sync(self, *arguments: Any, group: Any) -> Any:
        return None


class ReadsTheLastHolder(Implementation):
    """Reads each region from its last holder, also where a copy is at hand."""

    def plan_on_rank(self, sync: Sync, *, group: Any) -> RankPlan:
        process, sends, receives = dist.get_rank(group), [], []
        sources, targets = dict(sync.endpoints.source), dict(sync.endpoints.target)
        for each in sync.parameters:
            plan = plan_transfer(
                each.source, each.target, replica_selector=lambda request: request.holders[-1]
            )
            for segment in plan.segments:
                sender = sources[segment.source_location]
                receiver = targets[segment.target_location]
                if sender == process:
                    sends.append((each.name, receiver, segment))
                if receiver == process:
                    receives.append((each.name, sender, segment))
        return RankPlan(sends, receives)
