"""Builders with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from faulty.parts import raise_type_error, with_pieces
from pytest_affine.adapters.reference import Reference
from pytest_affine.builders import BUILDERS, contiguous_split_map, sub_param_map
from pytest_affine.maps import AffinePiece, ParamAffineMap


class FaultyBuilder(Reference):
    """Builds with one builder in another way."""

    builder: str

    def build_map(self, builder: str, **arguments: Any) -> Any:
        if builder == self.builder:
            return self.built(**arguments)
        return super().build_map(builder, **arguments)

    def built(self, **arguments: Any) -> Any:
        raise NotImplementedError

    def right(self, **arguments: Any) -> Any:
        return BUILDERS[self.builder](**arguments)


class IgnoresScale(FaultyBuilder):
    builder = "replicated_map"

    def built(self, scale: float = 1.0, **arguments: Any) -> Any:
        return self.right(**arguments)


class FindsNoReplicas(FaultyBuilder):
    """Each location names itself only."""

    builder = "replicated_map"

    def built(self, **arguments: Any) -> Any:
        right = self.right(**arguments)
        return with_pieces(right, lambda at, piece: replace(piece, locations=(at,)))


class NeedsAxes(FaultyBuilder):
    """F17."""

    builder = "replicated_map"

    def built(self, shape: Sequence[int], **arguments: Any) -> Any:
        if not shape:
            raise_type_error()
        return self.right(shape=shape, **arguments)


class FlattensShards(FaultyBuilder):
    builder = "contiguous_split_map"

    def built(self, **arguments: Any) -> Any:
        right = self.right(**arguments)
        return replace(right, shard_shapes={at: (right.shard_size(at),) for at in right.locations})


class RoundsWidthsToGrains(FaultyBuilder):
    """F03: of 4."""

    builder = "contiguous_split_map"

    def built(self, shape: Sequence[int], widths: Sequence[int], dim: int) -> Any:
        covered = [*shape[:dim], sum(width // 4 * 4 for width in widths), *shape[dim + 1 :]]
        rounded = contiguous_split_map(covered, [width // 4 * 4 for width in widths], dim)
        return replace(rounded, logical_shape=tuple(shape))


class KeepsRowStrides(FaultyBuilder):
    """F08: every shard has the row stride of the first."""

    builder = "contiguous_split_map"

    def built(self, **arguments: Any) -> Any:
        right = self.right(**arguments)
        strides = right.pieces(0)[0].shard_strides
        return with_pieces(right, lambda _, piece: replace(piece, shard_strides=strides))


class CutsFusedInEqualChunks(FaultyBuilder):
    """F10, F11: as if it were one block."""

    builder = "sub_param_map"

    def built(self, widths_by_block: Sequence[Sequence[int]], dim: int, **arguments: Any) -> Any:
        widths = [sum(held) for held in zip(*widths_by_block, strict=True)]
        return contiguous_split_map(arguments["shape"], widths, dim)


class MergesAcrossHolders(FaultyBuilder):
    """F02: joins flat pieces that go on at the same address; they keep the first one's holders."""

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
        """Where the first block of a location is taken to be."""
        raise NotImplementedError


class TakesSlotsForBlocks(FaultyGathering):
    """F13: a location's first block is block 0."""

    def first(self, map_: ParamAffineMap, location: int) -> int:
        return 0


class CountsBlocksByLocation(FaultyGathering):
    """F13: a location's blocks follow those of the location before."""

    def first(self, map_: ParamAffineMap, location: int) -> int:
        return sum(map_.shard_size(at) for at in map_.locations if at < location)


class SortsBlocks(FaultyBuilder):
    builder = "block_gather_map"

    def built(self, block_ids_by_location: Any, **arguments: Any) -> Any:
        ordered = {location: sorted(ids) for location, ids in block_ids_by_location.items()}
        return self.right(block_ids_by_location=ordered, **arguments)


class AssemblesInRankOrder(FaultyBuilder):
    """F05: intervals keep their lengths, and follow each other in the order of locations."""

    builder = "flat_map"

    def built(self, intervals_by_location: Any, **arguments: Any) -> Any:
        held = sorted(intervals_by_location.items())
        ends = accumulate((stop - start for _, (start, stop) in held), initial=0)
        ordered = {at: interval for (at, _), interval in zip(held, pairwise(ends), strict=True)}
        return self.right(intervals_by_location=ordered, **arguments)


class LeavesOutEmptyParameters(FaultyBuilder):
    """F17."""

    builder = "flat_map"

    def built(self, **arguments: Any) -> Any:
        maps = self.right(**arguments)
        return {name: map_ for name, map_ in maps.items() if map_.num_elements}


class ChunksEvenly(FaultyBuilder):
    """As numpy's array_split does, along one mesh axis."""

    builder = "mesh_map"

    def built(self, shape: Any, mesh_shape: Any, placements: Any) -> Any:
        match mesh_shape, placements:
            case [num_parts], [["shard", dim]]:
                least, more = divmod(shape[dim], num_parts)
                widths = [least + (part < more) for part in range(num_parts)]
                return contiguous_split_map(shape, widths, dim)
        return self.right(shape=shape, mesh_shape=mesh_shape, placements=placements)


class NumbersMeshByColumns(FaultyBuilder):
    builder = "mesh_map"

    def built(self, shape: Any, mesh_shape: Any, placements: Any) -> Any:
        return self.right(shape=shape, mesh_shape=mesh_shape[::-1], placements=placements[::-1])


class CutsOuterBlocksByTheirOwnSizes(FaultyBuilder):
    """F06: of a strided shard along one mesh axis."""

    builder = "mesh_map"

    def built(self, shape: Any, mesh_shape: Any, placements: Any) -> Any:
        match mesh_shape, placements:
            case [num_parts], [["strided_shard", dim, split_factor]]:
                outer = chunks(shape[dim], split_factor)
                widths = [chunks(extent, num_parts) for extent in outer]
                return sub_param_map(shape, outer, widths, dim)
        return self.right(shape=shape, mesh_shape=mesh_shape, placements=placements)


def chunks(extent: int, num_parts: int) -> list[int]:
    """Extents of the parts that `torch.chunk` makes, empty ones included."""
    size = -(-extent // num_parts)
    ends = [min(size * part, extent) for part in range(num_parts + 1)]
    return [stop - start for start, stop in pairwise(ends)]
