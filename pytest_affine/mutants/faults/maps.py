"""Maps that are checked with one fault each."""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import InvalidMapError, PlanLimitError
from pytest_affine.geometry import reach
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.mutants.faults.parts import raise_type_error, with_pieces
from pytest_affine.truth import holders, map_problems


class OverlooksProblems(Implementation):
    """Refuses a map for problems of other kinds only."""

    overlooked: frozenset[str]

    def check_map(self, map_: ParamAffineMap) -> None:
        if {problem.kind for problem in map_problems(map_)} - self.overlooked:
            super().check_map(map_)


class SeesNoGapsInTheTensor(OverlooksProblems):
    """Accepts a map that leaves elements uncovered."""

    overlooked = frozenset({"not covered"})


class SeesNoEndOfTheTensor(OverlooksProblems):
    """Accepts a map with pieces outside the full tensor."""

    overlooked = frozenset({"outside the full tensor"})


class SeesNoGapsInShards(OverlooksProblems):
    """Accepts a map with gaps in its shards."""

    overlooked = frozenset({"gap"})


class SeesNoEndOfShards(OverlooksProblems):
    """Accepts a map with pieces outside its shards."""

    overlooked = frozenset({"gap", "outside the shard"})


class SeesNoOverlap(OverlooksProblems):
    """Accepts a map with pieces over each other in its shards."""

    overlooked = frozenset({"overlap"})


class LetsALocationHoldTwice(OverlooksProblems):
    """Accepts a map in which a location holds an element twice."""

    overlooked = frozenset({"held twice"})


class ComparesNoScales(OverlooksProblems):
    """Accepts a map in which holders of one element differ in scale."""

    overlooked = frozenset({"scales differ"})


class AddsUpPieceSizes(Implementation):
    """Compares the number of elements of a shard only, and no addresses."""

    def check_map(self, map_: ParamAffineMap) -> None:
        counted = all(self.size(map_, at) == map_.shard_size(at) for at in map_.locations)
        if not counted or any(problem.rule != "MAP-TILE" for problem in map_problems(map_)):
            super().check_map(map_)

    def size(self, map_: ParamAffineMap, location: int) -> int:
        held = sum(piece.num_elements for piece in map_.pieces(location))
        return held + sum(block.num_elements for block in map_.padding(location))


class LooksAtOneAxis(Implementation):
    """Takes tensors of more axes than one on trust."""

    def check_map(self, map_: ParamAffineMap) -> None:
        if len(map_.logical_shape) == 1:
            super().check_map(map_)


class CountsInGrains(Implementation):
    """Takes a tensor for covered if as many whole grains of 4 are."""

    def check_map(self, map_: ParamAffineMap) -> None:
        held = sum(piece.num_elements for _, pieces in map_.pieces_by_location for piece in pieces)
        only_gaps = {problem.kind for problem in map_problems(map_)} == {"not covered"}
        if not only_gaps or held // 4 != map_.num_elements // 4:
            super().check_map(map_)


class FaultyHolders(Implementation):
    """Compares the named locations with the holders in another way, and nothing else of them."""

    def check_map(self, map_: ParamAffineMap) -> None:
        others = [problem for problem in map_problems(map_) if problem.kind != "wrong holders"]
        if others or not all(
            self.agree(map_, piece) for _, pieces in map_.pieces_by_location for piece in pieces
        ):
            super().check_map(map_)

    def agree(self, map_: ParamAffineMap, piece: AffinePiece) -> bool:
        raise NotImplementedError


def held_by(map_: ParamAffineMap, element: int) -> set[int]:
    """The locations that hold an element."""
    return {location for location, _, _ in holders(map_)[element]}


class LooksAtTheLastElement(FaultyHolders):
    """Compares a piece's locations with the holders of its last element only."""

    def agree(self, map_: ParamAffineMap, piece: AffinePiece) -> bool:
        last = piece.full_offset + reach(piece.shape, piece.full_strides)
        return set(piece.locations) == held_by(map_, last)


class LetsIdleLocationsBeNamed(FaultyHolders):
    """Accepts locations that hold nothing of a piece among its locations."""

    def agree(self, map_: ParamAffineMap, piece: AffinePiece) -> bool:
        return set(piece.locations) >= held_by(map_, piece.full_offset)


class LetsHoldersGoUnnamed(FaultyHolders):
    """Accepts a piece that does not name all its holders."""

    def agree(self, map_: ParamAffineMap, piece: AffinePiece) -> bool:
        return set(piece.locations) <= held_by(map_, piece.full_offset)


class FaultyNumbers(Implementation):
    """Checks another map."""

    def check_map(self, map_: ParamAffineMap) -> None:
        super().check_map(with_pieces(map_, self.changed))

    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        raise NotImplementedError


class AllowsScalesOfZero(FaultyNumbers):
    """Accepts a scale of zero."""

    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, scale=piece.scale or 1.0)


class AllowsInfiniteScales(FaultyNumbers):
    """Accepts an infinite scale."""

    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, scale=1.0) if math.isinf(piece.scale) else piece


class AllowsScalesThatAreNoNumbers(FaultyNumbers):
    """Accepts a scale that is no number."""

    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, scale=1.0) if math.isnan(piece.scale) else piece


class ClipsShardOffsets(FaultyNumbers):
    """Takes a negative offset in a shard for zero."""

    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, shard_offset=max(piece.shard_offset, 0))


class ClipsFullOffsets(FaultyNumbers):
    """Takes a negative offset in the full tensor for zero."""

    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, full_offset=max(piece.full_offset, 0))


class CrashesFrom31Bits(Implementation):
    """Crashes where a tensor has 2^31 elements or more."""

    def check_map(self, map_: ParamAffineMap) -> None:
        if map_.num_elements >= 2**31:
            raise_type_error()
        super().check_map(map_)


class CrashesOnEmptyShards(Implementation):
    """Crashes where a shard has no elements."""

    def check_map(self, map_: ParamAffineMap) -> None:
        if 0 in map(map_.shard_size, map_.locations):
            raise_type_error()
        super().check_map(map_)


class CrashesOnPadding(Implementation):
    """Crashes where a valid map has padding."""

    def check_map(self, map_: ParamAffineMap) -> None:
        super().check_map(map_)
        if any(blocks for _, blocks in map_.padding_by_location):
            raise_type_error()


class RefusesWithAnotherError(Implementation):
    """Refuses a bad map as if a limit were exceeded."""

    def check_map(self, map_: ParamAffineMap) -> None:
        try:
            super().check_map(map_)
        except InvalidMapError as refusal:
            raise PlanLimitError(str(refusal)) from None
