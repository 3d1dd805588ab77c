"""Shards cut out and put together with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import torch

from faulty.parts import unscaled, with_pieces
from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import InvalidMapError
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import ParamAffineMap
from pytest_affine.truth import holders

Shards = Mapping[int, torch.Tensor]


class FaultyCutting(Reference):
    """Cuts shards out of another tensor."""

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        return super().extract(map_, self.changed(full), location)

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class CutsFromStorageStart(FaultyCutting):
    """F44."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, tensor.stride(), 0)


class CutsAsIfPacked(FaultyCutting):
    """F28."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, row_major_strides(tensor.shape))


class CutsThroughFloats(FaultyCutting):
    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float().long() if tensor.dtype == torch.int64 else tensor


class LosesSignsOfZeros(FaultyCutting):
    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.where(tensor == 0, torch.zeros_like(tensor), tensor)


class QuietsNans(FaultyCutting):
    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.nan_to_num(torch.nan) if tensor.is_floating_point() else tensor


class LosesImaginaryParts(FaultyCutting):
    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.real.to(tensor.dtype)


class FaultyRebuilding(Reference):
    """Puts other shards together."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        return super().rebuild(map_, {at: self.changed(shard) for at, shard in shards.items()})

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class RebuildsFromStorageStart(FaultyRebuilding):
    """F44."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, tensor.stride(), 0)


class RebuildsAsIfPacked(FaultyRebuilding):
    """F28."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(tensor.shape, row_major_strides(tensor.shape))


class JoinsPieces(Reference):
    """F43: a shard is its pieces end to end."""

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        packed = full.contiguous()
        views = [
            packed.as_strided(p.shape, p.full_strides, packed.storage_offset() + p.full_offset)
            for p in map_.pieces(location)
        ]
        joined = torch.cat([packed.new_empty(0), *(view.reshape(-1) for view in views)])
        return joined.view(map_.shard_shape(location))


class JoinsShards(Reference):
    """F43: the full tensor is its shards end to end."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        joined = torch.cat([shard.reshape(-1) for _, shard in sorted(shards.items())])
        return joined[: map_.num_elements].view(map_.logical_shape)


class CutsFlat(Reference):
    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        return super().extract(map_, full, location).view(-1)


class RebuildsFlat(Reference):
    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        return super().rebuild(map_, shards).view(-1)


class RebuildsScaled(Reference):
    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        return super().rebuild(with_pieces(map_, unscaled), shards)


class IgnoresScales(RebuildsScaled):
    """On both sides, so that what is rebuilt is right."""

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        return super().extract(with_pieces(map_, unscaled), full, location)


class FaultyComparison(Reference):
    """Takes some replicas that differ for equal; then the last one wins."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        equal = {location: shard.clone().view(-1) for location, shard in shards.items()}
        for *others, (last, end, _) in holders(map_):
            for location, address, _ in others:
                if self.equal(equal[location][address], equal[last][end]):
                    equal[location][address] = equal[last][end]
        return super().rebuild(map_, equal)

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        raise NotImplementedError


class LastReplicaWins(FaultyComparison):
    """F21."""

    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return True


class ComparesValues(FaultyComparison):
    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(one == other)


class ComparesRoughly(FaultyComparison):
    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(one) and torch.allclose(one, other)


class ComparesFloats(FaultyComparison):
    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return one.dtype == torch.int64 and float(one) == float(other)


class ComparesNoPayloads(FaultyComparison):
    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(one.isnan() and other.isnan())


class ComparesNoBooleans(FaultyComparison):
    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return one.dtype == torch.bool


class ComparesTwoReplicas(Reference):
    """The first and the last; those between are made equal to the first."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        for (first, start, _), *others in holders(map_):
            for location, address, _ in others[:-1]:
                shards[location].view(-1)[address] = shards[first].view(-1)[start]
        return super().rebuild(map_, shards)


class LetsNansPass(FaultyComparison):
    def equal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(other.isnan())


class ComparesLikePieces(LastReplicaWins):
    """Compares replicas that are cut in the same places; of others the last one wins."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        pieces = [piece for _, held in map_.pieces_by_location for piece in held]
        blocks = Counter((p.full_offset, p.shape, p.locations) for p in pieces)
        alike = all(count == len(locations) for (*_, locations), count in blocks.items())
        return Reference.rebuild(self, map_, shards) if alike else super().rebuild(map_, shards)


class RefusesNans(Reference):
    """No number is equal to one."""

    def rebuild(self, map_: ParamAffineMap, shards: Shards) -> torch.Tensor:
        if any(shard.isnan().any() for shard in shards.values()):
            raise InvalidMapError("replicas differ")
        return super().rebuild(map_, shards)
