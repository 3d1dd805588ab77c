"""What the targets need, cut into regions that the same source locations hold throughout.

Pieces are placed as boxes of the full tensor, and target boxes are cut with source boxes. Nothing
here looks at single elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_affine.errors import AffineTransferError, InvalidMapError, UnsupportedLayoutError
from pytest_affine.geometry import MAX_UNROLLED, PlacedBox, overlap, place_piece
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.plans import PlanBudget
from pytest_affine.reference.limits import check_limit

__all__ = ["PlanDraft", "Region", "draft_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One target piece cut with one source block whose holders are the same throughout.

    Attributes:
        target_location: who needs it.
        holders: source locations that hold all of it, sorted.
        target: where it is in the full tensor, and in the target's shard.
        source: the same box, in the shard of the first holder.
    """

    target_location: int
    holders: tuple[int, ...]
    target: PlacedBox
    source: PlacedBox


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDraft:
    """All of a plan but the choice of holders.

    Attributes:
        source: map of the shards that are read.
        target: map of the shards that are written.
        limits: what planning may take.
        source_boxes: by source location, every box that it holds.
        regions: what the targets need, sorted by target location and logical origin.
        pair_checks: pairs of boxes compared so far.
    """

    source: ParamAffineMap
    target: ParamAffineMap
    limits: PlanBudget
    source_boxes: Mapping[int, tuple[PlacedBox, ...]]
    regions: tuple[Region, ...]
    pair_checks: int


def draft_plan(source: ParamAffineMap, target: ParamAffineMap, limits: PlanBudget) -> PlanDraft:
    """Validate both maps and find the regions; raises as `plan_transfer` does."""
    for side, map_ in (("source", source), ("target", target)):
        _check_map(side, map_, limits)
    if source.logical_shape != target.logical_shape:
        raise InvalidMapError(
            f"source and target must be of one tensor, but the source map's logical shape is "
            f"{source.logical_shape} and the target map's is {target.logical_shape}"
        )
    placed = {
        location: _placed(f"source map: location {location}", pieces, source.logical_shape, limits)
        for location, pieces in source.pieces_by_location
    }
    regions, pair_checks = _find_regions(placed, target, limits)
    return PlanDraft(
        source=source,
        target=target,
        limits=limits,
        source_boxes={
            location: tuple(box for box, _ in boxes) for location, boxes in placed.items()
        },
        regions=regions,
        pair_checks=pair_checks,
    )


def _check_map(side: str, map_: ParamAffineMap, limits: PlanBudget) -> None:
    pieces = [piece for _, held in map_.pieces_by_location for piece in held]
    num_axes = [len(map_.logical_shape), *(len(piece.shape) for piece in pieces)]
    check_limit(limits, "max_ndim", max(num_axes))
    check_limit(limits, "max_pieces_per_map", len(pieces))
    try:
        map_.validate()
    except AffineTransferError as error:
        raise type(error)(f"{side} map: {error}") from None


_Placed = tuple[tuple[PlacedBox, AffinePiece], ...]


def _placed(
    where: str, pieces: Iterable[AffinePiece], logical_shape: tuple[int, ...], limits: PlanBudget
) -> _Placed:
    """The boxes of the full tensor that one location holds, each with its piece."""
    placed: list[tuple[PlacedBox, AffinePiece]] = []
    for index, piece in enumerate(pieces):
        boxes = place_piece(
            piece.shape,
            piece.full_offset,
            piece.full_strides,
            piece.shard_offset,
            piece.shard_strides,
            logical_shape,
        )
        if boxes is None:
            raise UnsupportedLayoutError(
                f"{where}, piece {index} of shape {piece.shape} with full strides "
                f"{piece.full_strides} at {piece.full_offset} is no axis-aligned box and no flat "
                f"interval of the logical shape {logical_shape}, or its strides "
                f"{piece.shard_strides} in the shard cut it into more than {MAX_UNROLLED} boxes"
            )
        placed += [(box, piece) for box in boxes]
        # Each box will be in at least one pair.
        check_limit(limits, "max_pair_checks", len(placed))
    return tuple(placed)


def _find_regions(
    placed_sources: Mapping[int, _Placed], target: ParamAffineMap, limits: PlanBudget
) -> tuple[tuple[Region, ...], int]:
    """Cut every target box with the source boxes, each taken at the first of its holders."""
    sources = [
        (box, piece)
        for location, placed in placed_sources.items()
        for box, piece in placed
        if piece.locations[0] == location
    ]
    regions: list[Region] = []
    pair_checks = 0
    for location, pieces in target.pieces_by_location:
        where = f"target map: location {location}"
        placed = _placed(where, pieces, target.logical_shape, limits)
        pair_checks += len(placed) * len(sources)
        check_limit(limits, "max_pair_checks", pair_checks)
        found = (_region(location, box, piece, *held) for box, piece in placed for held in sources)
        regions += sorted(
            (region for region in found if region), key=lambda region: region.target.origin
        )
    return tuple(regions), pair_checks


def _region(
    location: int, target: PlacedBox, wanted: AffinePiece, source: PlacedBox, held: AffinePiece
) -> Region | None:
    shared = overlap(target, source)
    if shared is None:
        return None
    if wanted.scale != held.scale:
        raise UnsupportedLayoutError(
            f"target location {location} needs scale {wanted.scale} of a box at {shared[0]} of "
            f"shape {shared[1]} that source locations {held.locations} hold with scale "
            f"{held.scale}; only equal scales are planned"
        )
    return Region(
        target_location=location,
        holders=held.locations,
        target=target.cut(*shared),
        source=source.cut(*shared),
    )
