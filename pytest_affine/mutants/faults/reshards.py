"""Resharders of whole syncs in one call, with one fault each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import torch
import torch.distributed as dist

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import AffineTransferError, TransferRefusedError
from pytest_affine.mutants.faults.parts import Buffers, changed_tensors, each, raise_type_error
from pytest_affine.sync import Sync, SyncParameter


class FaultyReshard(Implementation):
    """Does something before and something after a sync is moved."""

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        arguments = self.before(sync, source_buffers, target_buffers)
        super().reshard(*arguments, group=group)
        self.after(sync, source_buffers, target_buffers)

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        return sync, sources, targets

    def after(self, sync: Sync, sources: Buffers, targets: Buffers) -> None:
        pass


class ExchangesTwins(FaultyReshard):
    """Takes one of two parameters of one layout for the other."""

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        exchanged: dict[str, str] = {}
        for one, other in combinations(self.candidates(sync), 2):
            if one.source == other.source and not exchanged:
                exchanged = {one.name: other.name, other.name: one.name}
        found = {exchanged.get(name, name): held for name, held in sources.items()}
        return sync, found, targets

    def candidates(self, sync: Sync) -> list[SyncParameter]:
        return [*sync.parameters]


class ExchangesTwinsThatStay(ExchangesTwins):
    """Exchanges two parameters of one layout whose layout does not change."""

    def candidates(self, sync: Sync) -> list[SyncParameter]:
        return [each for each in sync.parameters if each.source == each.target]


class SortsNames(FaultyReshard):
    """Takes source tensors in their order for those of the names in alphabetical order."""

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        return sync, dict(zip(sorted(sources), sources.values(), strict=True)), targets


class ReadsSourcesFromTheStoragesStart(FaultyReshard):
    """Takes the beginning of the storage for the first element of a source shard."""

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        at_start = changed_tensors(sources, lambda t: t.as_strided(t.shape, t.stride(), 0))
        return sync, at_start, targets


class QuietsNansOfSyncs(FaultyReshard):
    """Casts elements on their way to float64 and back."""

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        return sync, changed_tensors(sources, lambda t: t.double().to(t.dtype)), targets


class MovesInTheWholeWorld(FaultyReshard):
    """Takes ranks of the group for global ones."""

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        super().reshard(sync, source_buffers, target_buffers, group=dist.group.WORLD)


class MovesASyncOnce(FaultyReshard):
    """Moves nothing when a sync comes again."""

    def __init__(self) -> None:
        super().__init__()
        self._moved: set[str] = set()

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        if sync.id not in self._moved:
            super().reshard(sync, source_buffers, target_buffers, group=group)
        self._moved.add(sync.id)


class MovesNothing(Implementation):
    """Returns at once."""

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        pass


class WritesBehindTargetsOfSyncs(FaultyReshard):
    """Clears the element behind each target shard."""

    def after(self, sync: Sync, sources: Buffers, targets: Buffers) -> None:
        for tensor in each(targets):
            tensor.as_strided((1,), (1,), tensor.storage_offset() + tensor.numel()).zero_()


class ClearsSourcesOfSyncs(FaultyReshard):
    """Clears source shards when they were moved."""

    def after(self, sync: Sync, sources: Buffers, targets: Buffers) -> None:
        for tensor in each(sources):
            tensor.zero_()


class ClearsTargetsOfSyncs(FaultyReshard):
    """Clears target shards before they are filled, with their padding."""

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        for tensor in each(targets):
            tensor.zero_()
        return sync, sources, targets


def lacking(sync: Sync, sources: Buffers, targets: Buffers) -> Iterator[str]:
    """What a rank lacks, or has in another dtype, of its own shards; and what nobody asked for."""
    process = dist.get_rank()
    for side, buffers in (("source", sources), ("target", targets)):
        known = {parameter.name for parameter in sync.parameters}
        yield from (name for name in buffers if name not in known)
        bound = getattr(sync.endpoints, side)
        for parameter in sync.parameters:
            map_, dtype = getattr(parameter, side), getattr(parameter, f"{side}_dtype")
            own = [at for at, p in bound if p == process and at in map_.locations]
            for location in (at for at in own if map_.shard_size(at)):
                tensor = buffers.get(parameter.name, {}).get(location)
                if tensor is None or tensor.dtype != getattr(torch, dtype):
                    yield parameter.name


class RefusesForItself(FaultyReshard):
    """Raises where a shard is missing or of another dtype, and lets the other ranks wait."""

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        if names := [*lacking(sync, sources, targets)]:
            raise TransferRefusedError(f"no shards of {names}")
        return sync, sources, targets


class LeavesOutWhatOneRankLacks(FaultyReshard):
    """Moves nothing, and says nothing, where a rank can't go on."""

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        try:
            super().reshard(sync, source_buffers, target_buffers, group=group)
        except TransferRefusedError:
            return


class RefusesWithAnotherError(FaultyReshard):
    """Raises what is no `AffineTransferError` where it must refuse."""

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        try:
            super().reshard(sync, source_buffers, target_buffers, group=group)
        except TransferRefusedError:
            raise_type_error()


class RefusesEverAfter(FaultyReshard):
    """Refuses all syncs once it has refused one."""

    refused = False

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        if self.refused:
            raise TransferRefusedError("refused before")
        try:
            super().reshard(sync, source_buffers, target_buffers, group=group)
        except AffineTransferError:
            self.refused = True
            raise


class TurnsWhatStays(FaultyReshard):
    """Turns the first axis of each target shard around where nothing has to change."""

    def after(self, sync: Sync, sources: Buffers, targets: Buffers) -> None:
        for parameter in sync.parameters:
            if parameter.source == parameter.target:
                for tensor in targets.get(parameter.name, {}).values():
                    if tensor.ndim > 1:
                        tensor.copy_(tensor.flip(0))


class FaultyShapes(FaultyReshard):
    """Makes shards of other shapes than declared fit."""

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        return sync, self.fitting(sync, sources, "source"), self.fitting(sync, targets, "target")

    def fitting(self, sync: Sync, buffers: Buffers, side: str) -> Buffers:
        maps = {parameter.name: getattr(parameter, side) for parameter in sync.parameters}
        return {
            name: {
                location: self.fitted(tensor, maps[name].shard_shape(location))
                for location, tensor in held.items()
            }
            for name, held in buffers.items()
        }

    def fitted(self, tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        raise NotImplementedError


class TakesOtherShapes(FaultyShapes):
    """Takes shards of the right size for those of the declared shape."""

    def fitted(self, tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return tensor.view(shape) if tensor.numel() == torch.Size(shape).numel() else tensor


class BroadcastsShards(FaultyShapes):
    """Repeats the rows that a shard has."""

    def fitted(self, tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        if tensor.ndim == len(shape) and tensor.shape[:1] == (1,):
            return tensor.expand(shape).contiguous()
        return tensor


class CutsShards(FaultyShapes):
    """Leaves out the rows that a shard has too many."""

    def fitted(self, tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return tensor[: shape[0]] if tensor.ndim == len(shape) and shape else tensor


class FillsShards(FaultyShapes):
    """Fills up what a shard has too few with zeros."""

    def fitted(self, tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        missing = torch.Size(shape).numel() - tensor.numel()
        if missing <= 0:
            return tensor
        return torch.cat([tensor.reshape(-1), tensor.new_zeros(missing)]).view(shape)
