"""Planners that take a layout for another one, with one fault each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import AffineTransferError
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.mutants.faults.parts import raise_type_error, with_pieces, with_segments
from pytest_affine.mutants.faults.plans import FaultyPlanner
from pytest_affine.plans import TransferPlan, TransferSegment


class Misreads(Implementation):
    """Plans maps as it reads them, where that makes valid maps."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        try:
            return super().plan_transfer(self.source(source), self.target(target), **options)
        except AffineTransferError:
            return super().plan_transfer(source, target, **options)

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        return self.read(map_)

    def target(self, map_: ParamAffineMap) -> ParamAffineMap:
        return self.read(map_)

    def read(self, map_: ParamAffineMap) -> ParamAffineMap:
        return map_


def as_intervals(map_: ParamAffineMap, starts: Mapping[int, int]) -> ParamAffineMap:
    """As if each shard were an interval of the full tensor, which begins there."""
    pieces = tuple(
        (at, (AffinePiece((map_.shard_size(at),), start, (1,), 0, (1,), (at,)),))
        for at, start in starts.items()
    )
    return replace(map_, pieces_by_location=pieces)


def end_to_end(map_: ParamAffineMap) -> dict[int, int]:
    """Where each shard begins if all are laid end to end in the order of locations."""
    sizes = map(map_.shard_size, map_.locations)
    return dict(zip(map_.locations, accumulate(sizes, initial=0), strict=False))


class TakesSourcesForRows(Misreads):
    """Takes source shards to follow each other in the order of locations."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        return as_intervals(map_, end_to_end(map_))


class TakesTargetsForRows(Misreads):
    """Takes target shards to follow each other in the order of locations."""

    def target(self, map_: ParamAffineMap) -> ParamAffineMap:
        return as_intervals(map_, end_to_end(map_))


class TakesSourcesForGateAndUp(Misreads):
    """Takes every source shard for a part of the first half and one of the second."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        half = map_.num_elements // 2
        pieces = {}
        for at, start in end_to_end(map_).items():
            size = map_.shard_size(at) // 2
            gate = AffinePiece((size,), start // 2, (1,), 0, (1,), (at,))
            up = replace(gate, full_offset=half + start // 2, shard_offset=size)
            pieces[at] = (gate, up)
        return replace(map_, pieces_by_location=tuple(pieces.items()))


class JoinsPieces(Misreads):
    """Takes a shard to be its pieces end to end."""

    def read(self, map_: ParamAffineMap) -> ParamAffineMap:
        ends = dict.fromkeys(map_.locations, 0)

        def packed(at: int, piece: AffinePiece) -> AffinePiece:
            start, ends[at] = ends[at], ends[at] + piece.num_elements
            strides = row_major_strides(piece.shape)
            return replace(piece, shard_offset=start, shard_strides=strides)

        return with_pieces(map_, packed)


class NeedsAxesOfTheTensor(Misreads):
    """Crashes where a piece has another number of axes than its tensor."""

    def read(self, map_: ParamAffineMap) -> ParamAffineMap:
        axes = {len(piece.shape) for _, held in map_.pieces_by_location for piece in held}
        return map_ if axes <= {len(map_.logical_shape)} else raise_type_error()


def flat_segment(
    source: int, source_offset: int, target: int, target_offset: int, size: int
) -> TransferSegment:
    """A segment of one axis, without gaps on either side."""
    return TransferSegment(
        source_location=source,
        source_offset=source_offset,
        source_strides=(1,),
        target_location=target,
        target_offset=target_offset,
        target_strides=(1,),
        shape=(size,),
    )


class FaultyShares(FaultyPlanner):
    """Makes segments from the sizes of shards."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(source, target, **options)
        sizes = ({at: map_.shard_size(at) for at in map_.locations} for map_ in (source, target))
        return with_segments(plan, self.shares(*sizes))

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return plan

    def shares(
        self, sources: Mapping[int, int], targets: Mapping[int, int]
    ) -> Iterator[TransferSegment]:
        raise NotImplementedError


class TreatsPaddingAsData(FaultyShares):
    """Takes all shards, laid end to end on either side, for the full tensor, padding too."""

    def shares(
        self, sources: Mapping[int, int], targets: Mapping[int, int]
    ) -> Iterator[TransferSegment]:
        start = 0
        for source, source_size in sources.items():
            first = 0
            for target, size in targets.items():
                low, high = max(start, first), min(start + source_size, first + size)
                if low < high:
                    yield flat_segment(source, low - start, target, low - first, high - low)
                first += size
            start += source_size


class SharesHeadsEvenly(FaultyShares):
    """Takes every source for rows of each target, in proportion to the sizes of targets."""

    def shares(
        self, sources: Mapping[int, int], targets: Mapping[int, int]
    ) -> Iterator[TransferSegment]:
        ends, total = dict.fromkeys(targets, 0), sum(targets.values())
        for source, source_size in sources.items():
            offset = 0
            for target, size in targets.items():
                if share := source_size * size // max(total, 1):
                    yield flat_segment(source, offset, target, ends[target], share)
                offset, ends[target] = offset + share, ends[target] + share
