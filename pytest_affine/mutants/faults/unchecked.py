"""The reference's planner where it reads maps as such that are not valid, one fault each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import DEFAULT, patch

from pytest_affine.adapters.reference import Reference
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.mutants.faults.layouts import as_intervals
from pytest_affine.mutants.faults.parts import with_pieces
from pytest_affine.plans import TransferPlan
from pytest_affine.reference import regions


class MisreadsUnchecked(Reference):
    """Checks the maps, and plans them as it reads them."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        source.validate()
        target.validate()
        with patch.multiple(regions, check_numbers=DEFAULT, check_addresses=DEFAULT):
            return super().plan_transfer(self.source(source), self.target(target), **options)

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        return with_pieces(map_, self.piece)

    def target(self, map_: ParamAffineMap) -> ParamAffineMap:
        return with_pieces(map_, self.piece)

    def piece(self, at: int, piece: AffinePiece) -> AffinePiece:
        return piece


class TakesSlotsForNumbers(MisreadsUnchecked):
    """Takes the first expert of every source for expert 0."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        return as_intervals(map_, dict.fromkeys(map_.locations, 0))


class KeepsRowStrides(MisreadsUnchecked):
    """Reads every source shard with the strides of the first."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        strides = map_.pieces(0)[0].shard_strides
        return with_pieces(map_, lambda _, piece: replace(piece, shard_strides=strides))


class ReadsFullSides(MisreadsUnchecked):
    """Reads a source piece where it is in the full tensor, and not where it is in its shard."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        return with_pieces(
            map_,
            lambda _, piece: replace(
                piece, shard_offset=piece.full_offset, shard_strides=piece.full_strides
            ),
        )


class TakesFlatPiecesForIntervals(MisreadsUnchecked):
    """Takes every piece of one axis for an interval of the full tensor."""

    def piece(self, at: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, full_strides=(1,)) if len(piece.shape) == 1 else piece


class TakesShardsForPacked(MisreadsUnchecked):
    """Takes a shard to have the axes of the full tensor, in their order."""

    def piece(self, at: int, piece: AffinePiece) -> AffinePiece:
        axes = sorted(zip(piece.full_strides, piece.shape, strict=True), reverse=True)
        strides, shape = zip(*axes, strict=True)
        return replace(piece, shape=shape, full_strides=strides)
