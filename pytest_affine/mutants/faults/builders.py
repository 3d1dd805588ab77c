"""Builders with one fault each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.mutants.faults.parts import raise_type_error, with_pieces


class FaultyBuilder(Implementation):
    """Builds with one builder in another way."""

    builder: str

    def build_map(self, builder: str, **arguments: Any) -> Any:
        if builder == self.builder:
            return self.built(**arguments)
        return super().build_map(builder, **arguments)

    def built(self, *_: Any, **arguments: Any) -> Any:
        raise NotImplementedError

    def right(self, **arguments: Any) -> Any:
        return super().build_map(self.builder, **arguments)

    def by_another(self, builder: str, **arguments: Any) -> Any:
        return super().build_map(builder, **arguments)


class IgnoresScale(FaultyBuilder):
    """Builds replicas without their scale."""

    builder = "replicated_map"

    def built(self, scale: float = 1.0, **arguments: Any) -> Any:
        return self.right(**arguments)


class FindsNoReplicas(FaultyBuilder):
    """Has each location name itself only as a holder of replicas."""

    builder = "replicated_map"

    def built(self, **arguments: Any) -> Any:
        right = self.right(**arguments)
        return with_pieces(right, lambda at, piece: replace(piece, locations=(at,)))


class NeedsAxesOfReplicas(FaultyBuilder):
    """Crashes on replicas of a scalar."""

    builder = "replicated_map"

    def built(self, shape: Sequence[int], **arguments: Any) -> Any:
        if not shape:
            raise_type_error()
        return self.right(shape=shape, **arguments)


class FlattensShards(FaultyBuilder):
    """Builds split shards of one axis."""

    builder = "contiguous_split_map"

    def built(self, **arguments: Any) -> Any:
        right = self.right(**arguments)
        return replace(right, shard_shapes={at: (right.shard_size(at),) for at in right.locations})


class RoundsWidthsToGrains(FaultyBuilder):
    """Rounds the widths of a split down to a grain of 4."""

    builder = "contiguous_split_map"

    def built(self, shape: Sequence[int], widths: Sequence[int], dim: int) -> Any:
        rounded = [width // 4 * 4 for width in widths]
        covered = [*shape[:dim], sum(rounded), *shape[dim + 1 :]]
        right = self.right(shape=covered, widths=rounded, dim=dim)
        return replace(right, logical_shape=tuple(shape))


class KeepsRowStridesOfSplits(FaultyBuilder):
    """Gives every shard of a split the strides of the first."""

    builder = "contiguous_split_map"

    def built(self, **arguments: Any) -> Any:
        right = self.right(**arguments)
        strides = right.pieces(0)[0].shard_strides
        return with_pieces(right, lambda _, piece: replace(piece, shard_strides=strides))


class CutsFusedInEqualChunks(FaultyBuilder):
    """Splits fused blocks as if they were one."""

    builder = "sub_param_map"

    def built(self, widths_by_block: Sequence[Sequence[int]], dim: int, **arguments: Any) -> Any:
        widths = [sum(held) for held in zip(*widths_by_block, strict=True)]
        shape = arguments["shape"]
        return self.by_another("contiguous_split_map", shape=shape, widths=widths, dim=dim)


class MergesAcrossHolders(FaultyBuilder):
    """Joins flat pieces that go on at the same address, and keeps the holders of the first."""

    builder = "segmented_map"

    def built(self, **arguments: Any) -> Any:
        right = self.right(**arguments)
        pieces = {location: self.joined(held) for location, held in right.pieces_by_location}
        return replace(right, pieces_by_location=pieces)

    def joined(self, pieces: Sequence[AffinePiece]) -> list[AffinePiece]:
        first, *others = pieces
        for piece in others:
            if first.full_offset + first.num_elements != piece.full_offset:
                return list(pieces)
            first = replace(first, shape=(first.num_elements + piece.num_elements,))
        return [first]


class FaultyGathering(FaultyBuilder):
    """Gathers other blocks."""

    builder = "block_gather_map"

    def built(self, block_ids_by_location: Any, **arguments: Any) -> Any:
        right = self.right(block_ids_by_location=block_ids_by_location, **arguments)
        return with_pieces(
            right,
            lambda at, piece: replace(
                piece, full_offset=self.first(right, at) + piece.shard_offset
            ),
        )

    def first(self, map_: ParamAffineMap, location: int) -> int:
        raise NotImplementedError


class TakesSlotsForBlocks(FaultyGathering):
    """Gathers blocks from block 0 on at every location."""

    def first(self, map_: ParamAffineMap, location: int) -> int:
        return 0


class CountsBlocksByLocation(FaultyGathering):
    """Gathers the blocks that follow those of the location before."""

    def first(self, map_: ParamAffineMap, location: int) -> int:
        return sum(map_.shard_size(at) for at in map_.locations if at < location)


class SortsBlocks(FaultyBuilder):
    """Gathers blocks in their own order, and not in the one that is given."""

    builder = "block_gather_map"

    def built(self, block_ids_by_location: Any, **arguments: Any) -> Any:
        ordered = {location: sorted(ids) for location, ids in block_ids_by_location.items()}
        return self.right(block_ids_by_location=ordered, **arguments)


class AssemblesInRankOrder(FaultyBuilder):
    """Lays flat intervals end to end in the order of locations."""

    builder = "flat_map"

    def built(self, intervals_by_location: Any, **arguments: Any) -> Any:
        held = sorted(intervals_by_location.items())
        ends = accumulate((stop - start for _, (start, stop) in held), initial=0)
        ordered = {at: interval for (at, _), interval in zip(held, pairwise(ends), strict=True)}
        return self.right(intervals_by_location=ordered, **arguments)


class LeavesOutEmptyParameters(FaultyBuilder):
    """Builds no map of a flat parameter without elements."""

    builder = "flat_map"

    def built(self, **arguments: Any) -> Any:
        maps = self.right(**arguments)
        return {name: map_ for name, map_ in maps.items() if map_.num_elements}


class ChunksEvenly(FaultyBuilder):
    """Splits along a mesh as evenly as it can, and not as torch does."""

    builder = "mesh_map"

    def built(self, shape: Any, mesh_shape: Any, placements: Any) -> Any:
        match mesh_shape, placements:
            case [num_parts], [["shard", dim]]:
                least, more = divmod(shape[dim], num_parts)
                widths = [least + (part < more) for part in range(num_parts)]
                return self.by_another("contiguous_split_map", shape=shape, widths=widths, dim=dim)
        return self.right(shape=shape, mesh_shape=mesh_shape, placements=placements)


class NumbersMeshesByColumns(FaultyBuilder):
    """Numbers the locations of a mesh by its columns."""

    builder = "mesh_map"

    def built(self, shape: Any, mesh_shape: Any, placements: Any) -> Any:
        return self.right(shape=shape, mesh_shape=mesh_shape[::-1], placements=placements[::-1])


class CutsOuterBlocksByTheirOwnSizes(FaultyBuilder):
    """Cuts a strided shard out of each outer block by that block's own size."""

    builder = "mesh_map"

    def built(self, shape: Any, mesh_shape: Any, placements: Any) -> Any:
        match mesh_shape, placements:
            case [num_parts], [["strided_shard", dim, split_factor]]:
                outer = chunks(shape[dim], split_factor)
                return self.by_another(
                    "sub_param_map",
                    shape=shape,
                    block_sizes=outer,
                    widths_by_block=[chunks(extent, num_parts) for extent in outer],
                    dim=dim,
                )
        return self.right(shape=shape, mesh_shape=mesh_shape, placements=placements)


def chunks(extent: int, num_parts: int) -> list[int]:
    """Extents of the parts that `torch.chunk` makes, empty ones included."""
    size = -(-extent // num_parts)
    ends = [min(size * part, extent) for part in range(num_parts + 1)]
    return [stop - start for start, stop in pairwise(ends)]
