"""What the targets need, cut into regions that the same source locations hold throughout.

Every target box is cut with the source boxes that meet it, each taken at the first of its holders;
an index finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import add, sub
from typing import Literal, NamedTuple, TypeAlias

from pytest_affine.errors import (
    AffineTransferError,
    InvalidMapError,
    PlanLimitError,
    UnsupportedLayoutError,
)
from pytest_affine.geometry import MAX_UNROLLED, PlacedBox
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.plans import PlanBudget
from pytest_affine.proof import Held, PlacedMap, Unplaced, place_map
from pytest_affine.reference.limits import check_limit
from pytest_affine.validation import check_addresses, check_numbers

__all__ = ["PlanDraft", "PreparedMap", "Region", "draft_plan", "prepare_map"]


class Region(NamedTuple):
    """One target piece cut with one source block whose holders are the same throughout.

    Attributes:
        target_location: who needs it.
        origin: index of its first element in the full tensor.
        shape: its extents.
        holders: source locations that hold all of it, sorted.
        target_offset: address of its first element in the target's shard.
        target_strides: strides there.
        source_offset: address of its first element in the shard of the first holder.
        source_strides: strides there.
    """

    target_location: int
    origin: tuple[int, ...]
    shape: tuple[int, ...]
    holders: tuple[int, ...]
    target_offset: int
    target_strides: tuple[int, ...]
    source_offset: int
    source_strides: tuple[int, ...]

    @property
    def target(self) -> PlacedBox:
        """Where it is in the full tensor, and in the target's shard."""
        return PlacedBox(self.origin, self.shape, self.target_offset, self.target_strides)

    @property
    def source(self) -> PlacedBox:
        """The same box, in the shard of the first holder."""
        return PlacedBox(self.origin, self.shape, self.source_offset, self.source_strides)


_Index: TypeAlias = tuple[int, ...]
_Row: TypeAlias = tuple[int, _Index, _Index, _Index, int, _Index, int, _Index]


@dataclass(frozen=True, slots=True)
class PreparedMap:
    """A map that keeps its rules, its pieces placed; it knows nothing of the other map.

    Attributes:
        map_: the map.
        placed: the boxes that its locations hold.
    """

    map_: ParamAffineMap
    placed: PlacedMap


@dataclass(frozen=True, kw_only=True)
class PlanDraft:
    """All of a plan but the choice of holders.

    Attributes:
        source: the shards that are read.
        target: the shards that are written.
        limits: what planning may take.
        rows: the fields of `regions`.
        pair_checks: pairs of boxes compared so far.
    """

    source: PreparedMap
    target: PreparedMap
    limits: PlanBudget
    rows: list[_Row]
    pair_checks: int

    @cached_property
    def regions(self) -> list[Region]:
        """What the targets need, sorted by target location and logical origin."""
        return list(map(Region._make, self.rows))


def prepare_map(
    side: Literal["source", "target"], map_: ParamAffineMap, limits: PlanBudget
) -> PreparedMap:
    """Validate a map and place its pieces; raises as `plan_transfer` does, naming the side."""
    pieces = [piece for _, held in map_.pieces_by_location for piece in held]
    shapes = [map_.logical_shape, *[piece.shape for piece in pieces]]
    check_limit(limits, "max_ndim", max(map(len, shapes)))
    check_limit(limits, "max_pieces_per_map", len(pieces))
    try:
        check_numbers(map_)
        # Each box will be in at least one pair.
        placed = place_map(map_, partial(check_limit, limits, "max_pair_checks"))
        check_addresses(map_, placed)
    except PlanLimitError:
        raise
    except AffineTransferError as error:
        raise type(error)(f"{side} map: {error}") from None
    if isinstance(placed, Unplaced):
        raise UnsupportedLayoutError(_unplaced(side, placed, map_.logical_shape))
    return PreparedMap(map_, placed)


def _unplaced(side: str, unplaced: Unplaced, logical_shape: tuple[int, ...]) -> str:
    location, number, piece = unplaced
    return (
        f"{side} map: location {location}, piece {number} of shape {piece.shape} with full strides "
        f"{piece.full_strides} at {piece.full_offset} is no axis-aligned box and no flat "
        f"interval of the logical shape {logical_shape}, or its strides "
        f"{piece.shard_strides} in the shard cut it into more than {MAX_UNROLLED} boxes"
    )


def draft_plan(source: PreparedMap, target: PreparedMap, limits: PlanBudget) -> PlanDraft:
    """Find the regions of two prepared maps; raises as `plan_transfer` does."""
    if source.map_.logical_shape != target.map_.logical_shape:
        raise InvalidMapError(
            f"source and target must be of one tensor, but the source map's logical shape is "
            f"{source.map_.logical_shape} and the target map's is {target.map_.logical_shape}"
        )
    wanted, held = _find_pairs(source.placed, target.placed, limits)
    rows = _cut(wanted, held)
    rows.sort()  # by target location and origin, which no two share
    return PlanDraft(
        source=source, target=target, limits=limits, rows=rows, pair_checks=len(wanted)
    )


Wanted: TypeAlias = tuple[PlacedBox, AffinePiece, int]
"""A box that a target location needs, the piece that it is from, and the location."""


def _find_pairs(
    source: PlacedMap, target: PlacedMap, limits: PlanBudget
) -> tuple[list[Wanted], list[Held]]:
    """Target boxes, each beside a source box that it may meet."""
    first, find = source.first, source.index.find
    pairs: tuple[list[Wanted], list[Held]] = [], []
    for location, boxes in target.held.items():
        for box, piece in boxes:
            found = find(box.origin, box.shape)
            check_limit(limits, "max_pair_checks", len(pairs[0]) + len(found))
            pairs[0].extend([(box, piece, location)] * len(found))
            pairs[1].extend([first[index] for index in found])
    return pairs


def _cut(wanted: Sequence[Wanted], held: Sequence[Held]) -> list[_Row]:
    """What each target box shares with the source box beside it, if anything."""
    if not wanted:
        return []
    targets, target_pieces, locations = zip(*wanted, strict=True)
    sources, source_pieces = zip(*held, strict=True)
    origins, shapes, target_offsets, source_offsets = _shared(targets, sources)
    nowhere = [()] * len(wanted)  # of scalars, which have no axes
    rows = list(
        zip(
            locations,
            zip(*origins, strict=True) if origins else nowhere,
            zip(*shapes, strict=True) if shapes else nowhere,
            [piece.locations for piece in source_pieces],
            target_offsets,
            [box.strides for box in targets],
            source_offsets,
            [box.strides for box in sources],
            strict=True,
        )
    )
    _check_scales(rows, target_pieces, source_pieces)
    if min(map(min, shapes), default=1) <= 0:
        return [row for row in rows if min(row[2]) > 0]
    return rows


_Column: TypeAlias = Sequence[int]
"""One number of every pair."""


def _shared(
    targets: Sequence[PlacedBox], sources: Sequence[PlacedBox]
) -> tuple[list[_Column], list[_Column], _Column, _Column]:
    """By axis where what each pair shares begins, and its extents; its offsets in both shards.

    A pair that shares nothing has an extent of 0 or less. Numbers are worked out column by column:
    a step for all pairs costs less than all steps for each pair.
    """
    offsets: _Column
    offsets_: _Column
    starts, extents, offsets, strides = zip(*targets, strict=True)
    starts_, extents_, offsets_, strides_ = zip(*sources, strict=True)
    origins: list[_Column] = []
    shapes: list[_Column] = []
    by_axis = (
        zip(*rows, strict=True) for rows in (starts, extents, strides, starts_, extents_, strides_)
    )
    for start, extent, stride, start_, extent_, stride_ in zip(*by_axis, strict=True):
        origin = [a if a > b else b for a, b in zip(start, start_, strict=True)]
        stops = zip(map(add, start, extent), map(add, start_, extent_), origin, strict=True)
        shapes.append([(a if a < b else b) - first for a, b, first in stops])
        origins.append(origin)
        steps = zip(offsets, map(sub, origin, start), stride, strict=True)
        offsets = [offset + index * step for offset, index, step in steps]
        steps = zip(offsets_, map(sub, origin, start_), stride_, strict=True)
        offsets_ = [offset + index * step for offset, index, step in steps]
    return origins, shapes, offsets, offsets_


def _check_scales(
    rows: Sequence[_Row], wanted: Sequence[AffinePiece], held: Sequence[AffinePiece]
) -> None:
    if [piece.scale for piece in wanted] == [piece.scale for piece in held]:
        return
    for row, target, source in zip(rows, wanted, held, strict=True):
        region = Region._make(row)
        if target.scale != source.scale and min(region.shape, default=1) > 0:
            raise UnsupportedLayoutError(
                f"target location {region.target_location} needs scale {target.scale} of a box at "
                f"{region.origin} of shape {region.shape} that source locations {region.holders} "
                f"hold with scale {source.scale}; only equal scales are planned"
            )
