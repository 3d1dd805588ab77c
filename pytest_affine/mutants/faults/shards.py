"""Shards cut out and put together with one fault each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

import torch

from pytest_affine.contract.implementation import Implementation
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import ParamAffineMap
from pytest_affine.mutants.faults.parts import raise_type_error, unscaled, with_pieces
from pytest_affine.truth import holders

Shards: TypeAlias = Mapping[int, torch.Tensor]


class FaultyCutting(Implementation):
    """Cuts shards out of another tensor."""

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        return super().extract(map_, self.changed(full), location)

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class CutsFromTheStoragesStart(FaultyCutting):
    """Cuts from the first element of the storage, and not of the full tensor."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, tensor.stride(), 0)


class CutsAsIfPacked(FaultyCutting):
    """Takes the elements of the full tensor to follow each other in memory."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, row_major_strides(tensor.shape))


class CutsThroughFloats(FaultyCutting):
    """Cuts integers by way of float32."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float().long() if tensor.dtype == torch.int64 else tensor


class CutsThroughHalves(FaultyCutting):
    """Cuts bfloat16 by way of float16."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.half().bfloat16() if tensor.dtype == torch.bfloat16 else tensor


class TakesBooleansForTrue(FaultyCutting):
    """Takes every boolean for True."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(tensor) if tensor.dtype == torch.bool else tensor


class LosesSignsOfZeros(FaultyCutting):
    """Cuts -0.0 as 0.0."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.where(tensor == 0, torch.zeros_like(tensor), tensor)


class QuietsNansOfShards(FaultyCutting):
    """Cuts any NaN as the usual one."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.nan_to_num(torch.nan) if tensor.is_floating_point() else tensor


class LosesImaginaryParts(FaultyCutting):
    """Cuts the real parts of complex numbers only."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.real.to(tensor.dtype)


class FaultyRebuilding(Implementation):
    """Puts other shards together."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        return super().rebuild(map_, {at: self.changed(shard) for at, shard in shards.items()})

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class RebuildsFromTheStoragesStart(FaultyRebuilding):
    """Reads shards from the first element of their storage."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, tensor.stride(), 0)


class RebuildsAsIfPacked(FaultyRebuilding):
    """Takes the elements of a shard to follow each other in memory."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, row_major_strides(tensor.shape))


class JoinsPiecesOfShards(Implementation):
    """Takes a shard to be its pieces end to end."""

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        packed = full.contiguous()
        views = [
            packed.as_strided(p.shape, p.full_strides, packed.storage_offset() + p.full_offset)
            for p in map_.pieces(location)
        ]
        joined = torch.cat([packed.new_empty(0), *(view.reshape(-1) for view in views)])
        return joined.view(map_.shard_shape(location))


class JoinsShards(Implementation):
    """Takes the full tensor to be its shards end to end."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        joined = torch.cat([shard.reshape(-1) for _, shard in sorted(shards.items())])
        return joined[: map_.num_elements].view(map_.logical_shape)


class TurnsShards(Implementation):
    """Cuts shards from their last element to the first, and turns them back to rebuild."""

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        return reversed_elements(super().extract(map_, full, location))

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        return super().rebuild(map_, {at: reversed_elements(s) for at, s in shards.items()})


def reversed_elements(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its elements in reverse order."""
    return tensor.reshape(-1).flip(0).reshape(tensor.shape)


class TellsBitsOnly(Implementation):
    """Cuts float32 as int32 of the same bits, and takes them back to rebuild."""

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        shard = super().extract(map_, full, location)
        return shard.view(torch.int32) if shard.dtype == torch.float32 else shard

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        typed = {
            at: shard.view(torch.float32) if shard.dtype == torch.int32 else shard
            for at, shard in shards.items()
        }
        return super().rebuild(map_, typed)


class CutsFlat(Implementation):
    """Cuts shards of one axis."""

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        return super().extract(map_, full, location).reshape(-1)

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        shaped = {at: shard.reshape(map_.shard_shape(at)) for at, shard in shards.items()}
        return super().rebuild(map_, shaped)


class RebuildsFlat(Implementation):
    """Rebuilds a full tensor of one axis."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        return super().rebuild(map_, shards).reshape(-1)


class RebuildsScaled(Implementation):
    """Leaves the scale in what it rebuilds."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        return super().rebuild(with_pieces(map_, unscaled), shards)


class IgnoresScalesOfShards(RebuildsScaled):
    """Ignores scales on both sides, so that what is rebuilt is right."""

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        return super().extract(with_pieces(map_, unscaled), full, location)


class FaultyComparison(Implementation):
    """Takes some replicas that differ for equal; then the last one wins."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        equal = {location: shard.clone().view(-1) for location, shard in shards.items()}
        for *others, (last, end, _) in holders(map_):
            for location, address, _ in others:
                if self.equal(equal[location][address], equal[last][end]):
                    equal[location][address] = equal[last][end]
        shaped = {at: shard.view(map_.shard_shape(at)) for at, shard in equal.items()}
        return super().rebuild(map_, shaped)

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        raise NotImplementedError


class LastReplicaWins(FaultyComparison):
    """Takes the last replica where they differ."""

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return True


class ComparesValues(FaultyComparison):
    """Takes 0.0 and -0.0 for equal replicas."""

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(one == other)


class ComparesRoughly(FaultyComparison):
    """Takes replicas for equal that are almost so."""

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(one) and torch.allclose(one, other)


class ComparesFloats(FaultyComparison):
    """Compares integers as floats."""

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return one.dtype == torch.int64 and float(one) == float(other)


class ComparesNoPayloads(FaultyComparison):
    """Takes any two NaNs for equal replicas."""

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(one.isnan() and other.isnan())


class ComparesNoBooleans(FaultyComparison):
    """Takes any two booleans for equal replicas."""

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return one.dtype == torch.bool


class ComparesTwoReplicas(Implementation):
    """Compares the first and the last replica, and not those between."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        for (first, start, _), *others in holders(map_):
            for location, address, _ in others[:-1]:
                shards[location].view(-1)[address] = shards[first].view(-1)[start]
        return super().rebuild(map_, shards)


class LetsNansPass(FaultyComparison):
    """Takes the last replica where it is a NaN."""

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(other.isnan())


class ComparesLikePieces(FaultyComparison):
    """Compares replicas that are cut in the same places; of others it takes the last."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        pieces = [piece for _, held in map_.pieces_by_location for piece in held]
        blocks = Counter((p.full_offset, p.shape, p.locations) for p in pieces)
        self._alike = all(count == len(locations) for (*_, locations), count in blocks.items())
        return super().rebuild(map_, shards)

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return not self._alike


class CrashesOnNans(Implementation):
    """Crashes on equal replicas of which no element is a number."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        full = super().rebuild(map_, shards)
        if full.numel() and bool(full.isnan().all()):
            raise_type_error()
        return full
