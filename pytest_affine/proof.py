"""A quick proof that a map keeps MAP-COVER, MAP-HOLD and MAP-TILE.

Disjoint boxes inside a tensor fill it if their sizes add up to its size. So the boxes at the first
of their holders must be disjoint and add up, and every other holder must hold the same region: the
same boxes or, cut elsewhere, disjoint ones that lie in boxes of the same holders and add up to the
same size. A shard is filled by runs that follow each other, or by boxes of a grid
that are disjoint and add up. The cost is that of sorting the pieces, and of finding what they meet.

What is not proven here is looked at in `validation`, which finds out what is wrong, and where.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pytest_affine.blocks import Block, components, grid_boxes, grid_shape
from pytest_affine.box_index import BoxIndex
from pytest_affine.geometry import PlacedBox, overlap, place_piece
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap

__all__ = ["Held", "PlacedMap", "Unplaced", "is_proven", "place_map"]

Held: TypeAlias = tuple[PlacedBox, AffinePiece]
"""A box that a location holds, and the piece that it is from."""


class Unplaced(NamedTuple):
    """A piece that is no box or interval of the full tensor."""

    location: int
    number: int
    piece: AffinePiece


@dataclass(frozen=True, slots=True)
class PlacedMap:
    """The pieces of a map as boxes of the full tensor.

    Attributes:
        held: by location, every box that it holds.
        first: all boxes that are at the first of their holders.
        index: finds boxes of `first`.
    """

    held: Mapping[int, Sequence[Held]]
    first: Sequence[Held]
    index: BoxIndex
    _indices: dict[int, BoxIndex] = field(default_factory=dict, repr=False, compare=False)

    def index_at(self, location: int) -> BoxIndex:
        """Finds boxes of `held[location]`; made when it is first asked for."""
        if location not in self._indices:
            self._indices[location] = BoxIndex([box for box, _ in self.held[location]])
        return self._indices[location]


def place_map(
    map_: ParamAffineMap, check: Callable[[int], None] | None = None
) -> PlacedMap | Unplaced:
    """Place the pieces of a map that has no negative numbers.

    Args:
        map_: the map.
        check: is told how many boxes there are after each piece that is several; may raise.
    """
    held: dict[int, list[Held]] = {}
    first: list[Held] = []
    num_boxes = 0
    for location, pieces in map_.pieces_by_location:
        held[location] = here = []
        for index, piece in enumerate(pieces):
            boxes = place_piece(
                piece.shape,
                piece.full_offset,
                piece.full_strides,
                piece.shard_offset,
                piece.shard_strides,
                map_.logical_shape,
            )
            if boxes is None:
                return Unplaced(location, index, piece)
            found = [(box, piece) for box in boxes]
            here += found
            if piece.locations and piece.locations[0] == location:
                first += found
            num_boxes += len(boxes)
            if check is not None and len(boxes) > 1:
                check(num_boxes)
    return PlacedMap(held, first, BoxIndex([box for box, _ in first]))


def is_proven(map_: ParamAffineMap, placed: PlacedMap) -> bool:
    """Whether the map is seen to keep its rules; if not, it may keep them all the same."""
    if not _is_held_once(map_.num_elements, placed):
        return False
    padding = dict(map_.padding_by_location)
    for (location, shape), (_, pieces) in zip(
        map_.shard_shapes, map_.pieces_by_location, strict=True
    ):
        blocks: Sequence[AffinePiece | Padding] = pieces
        if location in padding:
            blocks = [*pieces, *padding[location]]
        if not _is_filled(math.prod(shape), blocks):
            return False
    return True


def _is_held_once(num_elements: int, placed: PlacedMap) -> bool:
    """Whether each element is at exactly the locations that its pieces name."""
    if _num_elements(placed.first) != num_elements or not placed.index.is_disjoint():
        return False
    shared = _shared(placed)
    num_right = 0
    for (location, holders), boxes in shared.items():
        if holders[:1] != (location,):
            continue
        replicas = [shared.get((other, holders)) for other in holders[1:]]
        if not all(replica and _same_region(boxes, replica, placed) for replica in replicas):
            return False
        num_right += len(holders)
    return num_right == len(shared)


def _shared(placed: PlacedMap) -> dict[tuple[int, tuple[int, ...]], list[Held]]:
    """By location and holders, what is not at this location alone."""
    shared: dict[tuple[int, tuple[int, ...]], list[Held]] = {}
    for location, held in placed.held.items():
        alone = (location,)
        for box, piece in held:
            if piece.locations != alone:
                shared.setdefault((location, piece.locations), []).append((box, piece))
    return shared


def _same_region(boxes: Sequence[Held], replica: Sequence[Held], placed: PlacedMap) -> bool:
    """Whether a replica holds the elements of disjoint `boxes`, once each and with their scale."""
    alike = {(box.origin, box.shape, piece.scale) for box, piece in boxes}
    if len(replica) == len(boxes) and alike == {(b.origin, b.shape, p.scale) for b, p in replica}:
        return True
    return (
        _num_elements(replica) == _num_elements(boxes)
        and BoxIndex([box for box, _ in replica]).is_disjoint()
        and all(_is_inside(box, piece, placed) for box, piece in replica)
    )


def _is_inside(box: PlacedBox, piece: AffinePiece, placed: PlacedMap) -> bool:
    """Whether the first of the same holders hold all of a box, with the same scale."""
    found = [placed.first[index] for index in placed.index.find(box.origin, box.shape)]
    shared = [
        math.prod(both[1])
        for other, held in found
        if (held.locations, held.scale) == (piece.locations, piece.scale)
        and (both := overlap(box, other))
    ]
    return sum(shared) == box.num_elements


def _num_elements(held: Iterable[Held]) -> int:
    return sum([math.prod(box.shape) for box, _ in held])


def _is_filled(size: int, blocks: Sequence[AffinePiece | Padding]) -> bool:
    """Whether blocks fill all addresses below `size`, each once."""
    runs = [(block.shard_offset, _length(block.shape, block.shard_strides)) for block in blocks]
    runs.sort()
    position = 0
    for start, length in runs:
        if length < 0 or (length and start != position):
            return _is_filled_on_grids(size, blocks)
        position += length
    return position == size


def _length(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Number of elements of a block that is one run, or is empty; -1 of any other."""
    length = 1
    for axis in range(len(shape) - 1, -1, -1):
        extent = shape[axis]
        if extent != 1 and strides[axis] != length:
            return 0 if 0 in shape else -1
        length *= extent
    return length


def _is_filled_on_grids(size: int, blocks: Sequence[AffinePiece | Padding]) -> bool:
    there = [
        Block("", block.shard_offset, block.shape, block.shard_strides)
        for block in blocks
        if 0 not in block.shape
    ]
    ends = [block.end for block in there]
    if sum(math.prod(block.shape) for block in there) != size or max(ends, default=0) > size:
        return False
    groups = ([there[index] for index in group] for group in components(there, range(len(there))))
    return all(map(_are_apart, groups))


def _are_apart(blocks: Sequence[Block]) -> bool:
    """Whether blocks are boxes of one grid and do not overlap."""
    start = blocks[0].offset
    shape = grid_shape(blocks, max(block.end for block in blocks) - start)
    boxes = None if shape is None else grid_boxes(blocks, start, shape)
    return boxes is not None and BoxIndex([box for box, _ in boxes]).is_disjoint()
