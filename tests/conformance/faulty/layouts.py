"""Planners that take a layout for another one, with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any
from unittest.mock import DEFAULT, patch

from faulty.parts import raise_type_error, with_pieces
from faulty.plans import FaultyPlanner, with_segments
from pytest_affine.adapters.reference import Reference
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.plans import TransferPlan, TransferSegment
from pytest_affine.reference import regions


class Misreads(Reference):
    """Checks the maps, and plans them as it reads them."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        self.check(source, "source")
        self.check(target, "target")
        with patch.multiple(regions, check_numbers=DEFAULT, check_addresses=DEFAULT):
            return super().plan_transfer(self.source(source), self.target(target), **options)

    def check(self, map_: ParamAffineMap, side: str) -> None:
        map_.validate()

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
    """F05, F11, F13, F43: shards follow each other in the order of locations."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        return as_intervals(map_, end_to_end(map_))


class TakesTargetsForRows(Misreads):
    """F10, F11."""

    def target(self, map_: ParamAffineMap) -> ParamAffineMap:
        return as_intervals(map_, end_to_end(map_))


class TakesSourcesForGateAndUp(Misreads):
    """F11: every source shard is a part of the first half and one of the second."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        half = map_.num_elements // 2
        pieces = {}
        for at, start in end_to_end(map_).items():
            size = map_.shard_size(at) // 2
            gate = AffinePiece((size,), start // 2, (1,), 0, (1,), (at,))
            up = replace(gate, full_offset=half + start // 2, shard_offset=size)
            pieces[at] = (gate, up)
        return replace(map_, pieces_by_location=tuple(pieces.items()))


class TakesSlotsForNumbers(Misreads):
    """F13: the first expert of every source is expert 0."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        return as_intervals(map_, dict.fromkeys(map_.locations, 0))


class KeepsRowStrides(Misreads):
    """F08: every source shard has the strides of the first."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        strides = map_.pieces(0)[0].shard_strides
        return with_pieces(map_, lambda _, piece: replace(piece, shard_strides=strides))


class ReadsFullSides(Misreads):
    """F46."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        return with_pieces(
            map_,
            lambda _, piece: replace(
                piece, shard_offset=piece.full_offset, shard_strides=piece.full_strides
            ),
        )


class JoinsPieces(Misreads):
    """F43: a shard is its pieces end to end."""

    def read(self, map_: ParamAffineMap) -> ParamAffineMap:
        ends = dict.fromkeys(map_.locations, 0)

        def packed(at: int, piece: AffinePiece) -> AffinePiece:
            start, ends[at] = ends[at], ends[at] + piece.num_elements
            strides = row_major_strides(piece.shape)
            return replace(piece, shard_offset=start, shard_strides=strides)

        return with_pieces(map_, packed)


class TakesFlatPiecesForIntervals(Misreads):
    def read(self, map_: ParamAffineMap) -> ParamAffineMap:
        return with_pieces(map_, self.interval)

    def interval(self, at: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, full_strides=(1,)) if len(piece.shape) == 1 else piece


class TakesShardsForPacked(Misreads):
    """A shard has the axes of the full tensor, in their order."""

    def read(self, map_: ParamAffineMap) -> ParamAffineMap:
        return with_pieces(map_, self.packed)

    def packed(self, at: int, piece: AffinePiece) -> AffinePiece:
        axes = sorted(zip(piece.full_strides, piece.shape, strict=True), reverse=True)
        strides, shape = zip(*axes, strict=True)
        return replace(piece, shape=shape, full_strides=strides)


class NeedsAxesOfTheTensor(Misreads):
    """Crashes where a piece has another number of axes."""

    def read(self, map_: ParamAffineMap) -> ParamAffineMap:
        axes = {len(piece.shape) for _, held in map_.pieces_by_location for piece in held}
        return map_ if axes <= {len(map_.logical_shape)} else raise_type_error()


def flat_segment(
    source: int, source_offset: int, target: int, target_offset: int, size: int
) -> TransferSegment:
    return TransferSegment(
        source_location=source,
        source_offset=source_offset,
        source_strides=(1,),
        target_location=target,
        target_offset=target_offset,
        target_strides=(1,),
        shape=(size,),
    )


class TreatsPaddingAsData(FaultyPlanner):
    """F15: all shards, laid end to end on either side, are the full tensor."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, self.overlaps(plan))

    def overlaps(self, plan: TransferPlan) -> Iterator[TransferSegment]:
        start = 0
        for source, source_size in plan.source_sizes or ():
            first = 0
            for target, size in plan.target_sizes or ():
                low, high = max(start, first), min(start + source_size, first + size)
                if low < high:
                    yield flat_segment(source, low - start, target, low - first, high - low)
                first += size
            start += source_size


class SharesHeadsEvenly(FaultyPlanner):
    """F09: takes every source for some rows of each target, in proportion to the targets' sizes."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, self.shares(plan))

    def shares(self, plan: TransferPlan) -> Iterator[TransferSegment]:
        targets = dict(plan.target_sizes or ())
        ends, total = dict.fromkeys(targets, 0), sum(targets.values())
        for source, source_size in plan.source_sizes or ():
            offset = 0
            for target, size in targets.items():
                if share := source_size * size // total:
                    yield flat_segment(source, offset, target, ends[target], share)
                offset, ends[target] = offset + share, ends[target] + share
