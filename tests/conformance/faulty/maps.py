"""Maps checked, written and read with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

import math
from dataclasses import replace

from faulty.parts import raise_type_error, with_pieces
from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import InvalidMapError, PlanLimitError
from pytest_affine.geometry import reach
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.truth import holders, map_problems


class OverlooksProblems(Reference):
    """Refuses a map for problems of other kinds only."""

    overlooked: frozenset[str]

    def check_map(self, map_: ParamAffineMap) -> None:
        if {problem.kind for problem in map_problems(map_)} - self.overlooked:
            super().check_map(map_)


class SeesNoGapsInTheTensor(OverlooksProblems):
    overlooked = frozenset({"not covered"})


class SeesNoEndOfTheTensor(OverlooksProblems):
    overlooked = frozenset({"outside the full tensor"})


class SeesNoGapsInShards(OverlooksProblems):
    overlooked = frozenset({"gap"})


class SeesNoEndOfShards(OverlooksProblems):
    overlooked = frozenset({"gap", "outside the shard"})


class SeesNoOverlap(OverlooksProblems):
    overlooked = frozenset({"overlap"})


class LetsALocationHoldTwice(OverlooksProblems):
    overlooked = frozenset({"held twice"})


class ComparesNoScales(OverlooksProblems):
    overlooked = frozenset({"scales differ"})


class AddsUpPieceSizes(Reference):
    """F01: of a shard it compares the number of elements only."""

    def check_map(self, map_: ParamAffineMap) -> None:
        counted = all(self.size(map_, at) == map_.shard_size(at) for at in map_.locations)
        if not counted or any(problem.rule != "MAP-TILE" for problem in map_problems(map_)):
            super().check_map(map_)

    def size(self, map_: ParamAffineMap, location: int) -> int:
        held = sum(piece.num_elements for piece in map_.pieces(location))
        return held + sum(block.num_elements for block in map_.padding(location))


class LooksAtOneAxis(Reference):
    """Takes tensors of more axes on trust."""

    def check_map(self, map_: ParamAffineMap) -> None:
        if len(map_.logical_shape) == 1:
            super().check_map(map_)


class CountsInGrains(Reference):
    """F03: takes a tensor for covered if as many whole grains of 4 are."""

    def check_map(self, map_: ParamAffineMap) -> None:
        held = sum(piece.num_elements for _, pieces in map_.pieces_by_location for piece in pieces)
        only_gaps = {problem.kind for problem in map_problems(map_)} == {"not covered"}
        if not only_gaps or held // 4 != map_.num_elements // 4:
            super().check_map(map_)


class FaultyHolders(Reference):
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
    return {location for location, _, _ in holders(map_)[element]}


class LooksAtLastElements(FaultyHolders):
    """F02."""

    def agree(self, map_: ParamAffineMap, piece: AffinePiece) -> bool:
        last = piece.full_offset + reach(piece.shape, piece.full_strides)
        return set(piece.locations) == held_by(map_, last)


class LetsIdleLocationsBeNamed(FaultyHolders):
    def agree(self, map_: ParamAffineMap, piece: AffinePiece) -> bool:
        return set(piece.locations) >= held_by(map_, piece.full_offset)


class LetsHoldersGoUnnamed(FaultyHolders):
    def agree(self, map_: ParamAffineMap, piece: AffinePiece) -> bool:
        return set(piece.locations) <= held_by(map_, piece.full_offset)


class FaultyNumbers(Reference):
    """Checks another map."""

    def check_map(self, map_: ParamAffineMap) -> None:
        super().check_map(with_pieces(map_, self.changed))

    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        raise NotImplementedError


class AllowsScalesOfZero(FaultyNumbers):
    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, scale=piece.scale or 1.0)


class AllowsInfiniteScales(FaultyNumbers):
    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, scale=1.0) if math.isinf(piece.scale) else piece


class AllowsScalesThatAreNoNumbers(FaultyNumbers):
    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, scale=1.0) if math.isnan(piece.scale) else piece


class ClipsShardOffsets(FaultyNumbers):
    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, shard_offset=max(piece.shard_offset, 0))


class ClipsFullOffsets(FaultyNumbers):
    def changed(self, location: int, piece: AffinePiece) -> AffinePiece:
        return replace(piece, full_offset=max(piece.full_offset, 0))


class CountsEveryElement(Reference):
    """F35: and has 32 bits to do so."""

    def check_map(self, map_: ParamAffineMap) -> None:
        if map_.num_elements >= 2**31:
            raise_type_error()
        super().check_map(map_)


class NeedsElements(Reference):
    """F17: every shard has a first one."""

    def check_map(self, map_: ParamAffineMap) -> None:
        if 0 in map(map_.shard_size, map_.locations):
            raise_type_error()
        super().check_map(map_)


class NeedsNoPadding(Reference):
    def check_map(self, map_: ParamAffineMap) -> None:
        if map_.padding_by_location:
            raise_type_error()
        super().check_map(map_)


class RefusesWithAnotherError(Reference):
    """With one of a kind that means something else."""

    def check_map(self, map_: ParamAffineMap) -> None:
        try:
            super().check_map(map_)
        except InvalidMapError as refusal:
            raise PlanLimitError(str(refusal)) from None
