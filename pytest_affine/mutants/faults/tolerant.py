"""Executors that make do with what they must refuse, with one fault each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from pytest_affine.contract.implementation import Implementation
from pytest_affine.mutants.faults.executors import FaultyExecutor
from pytest_affine.mutants.faults.parts import Buffers, Plans, changed_tensors, each
from pytest_affine.plans import Sizes, TransferEndpoints, TransferStats


class FaultyBuffers(Implementation):
    """Moves in other buffers than it was given."""

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: TransferEndpoints,
        *,
        dtype: Any,
        **options: Any,
    ) -> TransferStats:
        self._dtype = dtype
        return super().execute_transfers(
            plans,
            self.buffers(source_buffers, plans, endpoints, "source"),
            self.buffers(target_buffers, plans, endpoints, "target"),
            endpoints,
            dtype=dtype,
            **options,
        )

    def dtype(self, name: str) -> Any:
        return self._dtype[name] if isinstance(self._dtype, Mapping) else self._dtype

    def buffers(
        self, given: Buffers, plans: Plans, endpoints: TransferEndpoints, side: str
    ) -> Buffers:
        return {
            name: {at: self.buffer(tensor, name, at, plans, side) for at, tensor in held.items()}
            for name, held in given.items()
        }

    def buffer(
        self, tensor: torch.Tensor, name: str, location: int, plans: Plans, side: str
    ) -> torch.Tensor:
        return tensor


def sizes_of(plans: Plans, name: str, side: str) -> dict[int, int]:
    """Elements of each shard of one side: as the plan says, or as far as its segments reach."""
    plan = plans.get(name)
    sizes = plan and (plan.source_sizes if side == "source" else plan.target_sizes)
    if sizes is not None or plan is None:
        return dict(sizes or ())
    ends: dict[int, int] = {}
    for segment in plan.segments:
        at = segment.source_location if side == "source" else segment.target_location
        offset = segment.source_offset if side == "source" else segment.target_offset
        strides = segment.source_strides if side == "source" else segment.target_strides
        steps = ((e - 1) * s for e, s in zip(segment.shape, strides, strict=True))
        ends[at] = max(ends.get(at, 0), offset + sum(steps) + 1)
    return ends


class TakesSizesOnTrust(FaultyBuffers):
    """Takes a source of any size for one of the right size, and reads what follows in memory."""

    side = "source"

    def buffer(
        self, tensor: torch.Tensor, name: str, location: int, plans: Plans, side: str
    ) -> torch.Tensor:
        size = sizes_of(plans, name, side).get(location, tensor.numel())
        if side != self.side or tensor.numel() == size or tensor.is_meta:
            return tensor
        return tensor.as_strided((size,), (1,), tensor.storage_offset())


class TakesTargetSizesOnTrust(TakesSizesOnTrust):
    """Takes a target of any size for one of the right size, and writes what follows in memory."""

    side = "target"


class CutsLongBuffers(FaultyBuffers):
    """Takes the first elements of a buffer that is too long."""

    def buffer(
        self, tensor: torch.Tensor, name: str, location: int, plans: Plans, side: str
    ) -> torch.Tensor:
        size = sizes_of(plans, name, side).get(location, tensor.numel())
        return tensor[:size] if tensor.numel() > size else tensor


class ReinterpretsDtypes(FaultyBuffers):
    """Takes any source for one of the dtype that was said."""

    side = "source"

    def buffer(
        self, tensor: torch.Tensor, name: str, location: int, plans: Plans, side: str
    ) -> torch.Tensor:
        dtype = self.dtype(name)
        if side != self.side or tensor.dtype == dtype or tensor.is_meta:
            return tensor
        return torch.zeros(tensor.shape, dtype=dtype)


class ReinterpretsTargets(ReinterpretsDtypes):
    """Takes any target for one of the dtype that was said."""

    side = "target"


class TakesAnyDevice(FaultyBuffers):
    """Moves in new buffers in place of those on another device."""

    def buffer(
        self, tensor: torch.Tensor, name: str, location: int, plans: Plans, side: str
    ) -> torch.Tensor:
        return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor


class MakesMissingBuffers(FaultyBuffers):
    """Moves in new buffers in place of those that are missing."""

    def buffers(
        self, given: Buffers, plans: Plans, endpoints: TransferEndpoints, side: str
    ) -> Buffers:
        bound = endpoints.source if side == "source" else endpoints.target
        own = [at for at, process in bound if process == dist.get_rank()]
        made = {name: dict(given.get(name, {})) for name in (*plans, *given)}
        for name in plans:
            for at, size in sizes_of(plans, name, side).items():
                if at in own and at not in made[name]:
                    made[name][at] = torch.zeros(size, dtype=self.dtype(name))
        return made


class DropsBuffersOfStrangers(FaultyBuffers):
    """Leaves out buffers of locations of other processes."""

    def buffers(
        self, given: Buffers, plans: Plans, endpoints: TransferEndpoints, side: str
    ) -> Buffers:
        bound = dict(endpoints.source if side == "source" else endpoints.target)
        return {
            name: {at: t for at, t in held.items() if bound.get(at, own_rank()) == own_rank()}
            for name, held in given.items()
        }


def own_rank() -> int:
    """This rank, which is its process in the whole world."""
    return dist.get_rank()


class DropsUnknownParameters(FaultyBuffers):
    """Leaves out buffers of parameters that no plan has."""

    def buffers(
        self, given: Buffers, plans: Plans, endpoints: TransferEndpoints, side: str
    ) -> Buffers:
        return {name: held for name, held in given.items() if name in plans}


class DropsUnknownLocations(FaultyBuffers):
    """Leaves out buffers of locations that no endpoint has."""

    def buffers(
        self, given: Buffers, plans: Plans, endpoints: TransferEndpoints, side: str
    ) -> Buffers:
        bound = dict(endpoints.source if side == "source" else endpoints.target)
        return {
            name: {at: tensor for at, tensor in held.items() if at in bound}
            for name, held in given.items()
        }


class CopiesTargetsThatOverlap(FaultyBuffers):
    """Moves into copies of targets, so that none overlaps another buffer."""

    def execute_transfers(
        self, plans: Any, source_buffers: Any, target_buffers: Any, *args: Any, **options: Any
    ) -> TransferStats:
        copies = changed_tensors(target_buffers, self.copied)
        stats = super().execute_transfers(plans, source_buffers, copies, *args, **options)
        for tensor, copy in zip(each(target_buffers), each(copies), strict=True):
            tensor.copy_(copy)
        return stats

    def copied(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone() if tensor.is_contiguous() else tensor


class PacksWhatIsNotPacked(FaultyExecutor):
    """Packs any buffer first, and loses what it writes into one that was not packed."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, targets, endpoints = arguments
        packed = (changed_tensors(side, torch.Tensor.contiguous) for side in (sources, targets))
        return plans, *packed, endpoints


class LeavesOutUnboundSegments(FaultyExecutor):
    """Leaves out segments of locations that have no endpoint."""

    def before(self, *arguments: Any) -> tuple[Any, ...]:
        plans, sources, targets, endpoints = arguments
        held, reached = dict(endpoints.source), dict(endpoints.target)
        bound = {
            name: replace(
                plan,
                segments=tuple(
                    segment
                    for segment in plan.segments
                    if segment.source_location in held and segment.target_location in reached
                ),
                source_sizes=bound_sizes(plan.source_sizes, held),
                target_sizes=bound_sizes(plan.target_sizes, reached),
            )
            for name, plan in plans.items()
        }
        return bound, sources, targets, endpoints


def bound_sizes(sizes: Sizes | None, processes: Mapping[int, int]) -> Sizes | None:
    """The sizes of shards whose location has a process."""
    return sizes and tuple((at, size) for at, size in sizes if at in processes)


class WrapsProcesses(MakesMissingBuffers):
    """Takes a process outside the group for one in it, counting around, with new buffers.

    It has no fault where all processes are in the group.
    """

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: TransferEndpoints,
        **options: Any,
    ) -> TransferStats:
        num_ranks = dist.get_world_size()
        given = plans, source_buffers, target_buffers
        if max(endpoints.processes, default=0) < num_ranks:
            return super(FaultyBuffers, self).execute_transfers(*given, endpoints, **options)
        sides = (
            {at: process % num_ranks for at, process in side}
            for side in (endpoints.source, endpoints.target)
        )
        return super().execute_transfers(*given, TransferEndpoints(*sides), **options)
