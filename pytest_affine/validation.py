"""Whether a map keeps its rules, judged by address and without looking at single elements.

Both the full tensor and every shard are ranges of addresses that blocks fill. Blocks whose
addresses meet are laid on one grid, whose axes step by the blocks' own strides; there they are
boxes, and cells of the grid show which blocks fill what.

Most valid maps are proven so without this; what is looked at here is invalid, or odd.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, product
from typing import NamedTuple

from pytest_affine.blocks import Block, components, grid_boxes, grid_shape
from pytest_affine.cells import cells
from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.geometry import PlacedBox, row_major_strides, unravel
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.proof import PlacedMap, Unplaced, is_proven, place_map

__all__ = ["MAX_ENUMERATED", "check_addresses", "check_numbers", "validate_map"]

MAX_ENUMERATED = 2**16
"""Blocks that fit no grid are judged element by element up to this many elements."""

MAX_PROBLEMS = 20


def validate_map(map_: ParamAffineMap) -> None:
    """Check MAP-SCALE, MAP-COVER, MAP-HOLD and MAP-TILE.

    Raises:
        InvalidMapError: the message lists the problems, each with its rule, place and values.
        UnsupportedLayoutError: blocks that fit no grid, with too many elements to enumerate.
    """
    check_numbers(map_)
    check_addresses(map_, place_map(map_))


def check_numbers(map_: ParamAffineMap) -> None:
    """Check MAP-SCALE, before anything else is asked of a map."""
    if not _is_plain(map_):
        _refuse(_number_problems(map_))


def check_addresses(map_: ParamAffineMap, placed: PlacedMap | Unplaced) -> None:
    """Check MAP-COVER, MAP-HOLD and MAP-TILE of a map that passed `check_numbers`.

    Args:
        map_: the map.
        placed: the same map, placed.
    """
    if isinstance(placed, Unplaced) or not is_proven(map_, placed):
        _refuse(chain(_full_problems(map_), _shard_problems(map_)))


def _refuse(found: Iterator[str]) -> None:
    if problems := list(islice(found, MAX_PROBLEMS)):
        more = ["and perhaps more"] if len(problems) == MAX_PROBLEMS else []
        raise InvalidMapError("the map breaks its rules:\n- " + "\n- ".join([*problems, *more]))


def _is_plain(map_: ParamAffineMap) -> bool:
    """Whether no number of a map breaks a rule, in one look at those of each block."""
    for location, shape in map_.shard_shapes:
        if min(0, location, *shape) < 0:
            return False
    for _, pieces in map_.pieces_by_location:
        for piece in pieces:
            sides = (*piece.full_strides, *piece.shard_strides, *piece.locations)
            least = min(0, piece.full_offset, piece.shard_offset, *piece.shape, *sides)
            if least < 0 or not 0 < abs(piece.scale) < math.inf:
                return False
    for _, blocks in map_.padding_by_location:
        for block in blocks:
            if min(0, block.shard_offset, *block.shape, *block.shard_strides) < 0:
                return False
    return min(map_.logical_shape, default=0) >= 0


def _number_problems(map_: ParamAffineMap) -> Iterator[str]:
    yield from _negatives("the map", logical_shape=map_.logical_shape, locations=map_.locations)
    for location, shape in map_.shard_shapes:
        yield from _negatives(f"location {location}", shard_shape=shape)
    for location, pieces in map_.pieces_by_location:
        for index, piece in enumerate(pieces):
            yield from _piece_number_problems(f"location {location}, piece {index}", piece)
    for location, blocks in map_.padding_by_location:
        for index, block in enumerate(blocks):
            yield from _negatives(
                f"location {location}, padding {index}",
                shape=block.shape,
                shard_offset=(block.shard_offset,),
                shard_strides=block.shard_strides,
            )


def _piece_number_problems(where: str, piece: AffinePiece) -> Iterator[str]:
    yield from _negatives(
        where,
        shape=piece.shape,
        full_offset=(piece.full_offset,),
        full_strides=piece.full_strides,
        shard_offset=(piece.shard_offset,),
        shard_strides=piece.shard_strides,
        locations=piece.locations,
    )
    if piece.scale == 0 or not math.isfinite(piece.scale):
        yield f"MAP-SCALE: {where}: the scale is {piece.scale}, it must be finite and not zero"


def _negatives(where: str, **fields: tuple[int, ...]) -> Iterator[str]:
    for field, values in fields.items():
        if any(value < 0 for value in values):
            shown = values[0] if field.endswith("offset") else values
            yield f"MAP-SCALE: {where}: {field} is {shown}, negative numbers are refused"


class _Filled(NamedTuple):
    """Addresses that the same blocks (by index) fill; `address` is the first of `num_elements`."""

    address: int
    num_elements: int
    blocks: tuple[int, ...]


def _full_problems(map_: ParamAffineMap) -> Iterator[str]:
    """MAP-COVER and MAP-HOLD: which locations hold each element of the full tensor."""
    held = [(location, piece) for location, ps in map_.pieces_by_location for piece in ps]
    blocks = [
        Block(f"location {location}, piece {index}", p.full_offset, p.shape, p.full_strides)
        for location, pieces in map_.pieces_by_location
        for index, p in enumerate(pieces)
    ]
    size = map_.num_elements
    yield from _outside("MAP-COVER", blocks, size, "full")
    for address, num_elements, by in _filled(blocks, size, "MAP-COVER: the full tensor"):
        element = unravel(address, map_.logical_shape)
        if by:
            yield from _hold_problems(element, [(blocks[i].name, *held[i]) for i in by])
        else:
            yield (
                f"MAP-COVER: no location holds element {element}, "
                f"the first of {num_elements} that are missing there"
            )


def _hold_problems(
    element: tuple[int, ...], held: Sequence[tuple[str, int, AffinePiece]]
) -> Iterator[str]:
    """MAP-HOLD for one element, given (name, location, piece) of all that hold it, in order."""
    found = [location for _, location, _ in held]
    holders = tuple(dict.fromkeys(found))
    if len(holders) != len(found):
        twice = [location for location in holders if found.count(location) > 1]
        yield f"MAP-HOLD: locations {twice} hold element {element} more than once"
    for name, _, piece in held:
        if piece.locations != holders:
            yield (
                f"MAP-HOLD: {name} names locations {piece.locations}, "
                f"but element {element} is held by {holders}"
            )
    if len(scales := sorted({piece.scale for _, _, piece in held})) > 1:
        yield f"MAP-HOLD: element {element} is held with different scales {scales}"


def _shard_problems(map_: ParamAffineMap) -> Iterator[str]:
    """MAP-TILE: pieces and padding fill every shard exactly once."""
    pieces, padding = dict(map_.pieces_by_location), dict(map_.padding_by_location)
    for location, shape in map_.shard_shapes:
        rule, size = f"MAP-TILE: location {location}", math.prod(shape)
        blocks = [
            *_shard_blocks("piece", pieces[location]),
            *_shard_blocks("padding", padding.get(location, ())),
        ]
        yield from _outside(rule, blocks, size, "shard")
        for address, num_elements, by in _filled(blocks, size, f"{rule}: the shard"):
            if len(by) != 1:
                names = ", ".join(blocks[index].name for index in by[:2]) or "nothing"
                more = f" and {len(by) - 2} more" if len(by) > 2 else ""
                yield (
                    f"{rule}: shard address {address}, the first of {num_elements}, "
                    f"is filled by {names}{more}"
                )


def _shard_blocks(kind: str, blocks: Iterable[AffinePiece | Padding]) -> Iterator[Block]:
    for index, block in enumerate(blocks):
        yield Block(f"{kind} {index}", block.shard_offset, block.shape, block.shard_strides)


def _outside(rule: str, blocks: Sequence[Block], size: int, side: str) -> Iterator[str]:
    for block in blocks:
        if block.end > size:
            yield (
                f"{rule}: {block.name} reaches {side} address {block.end - 1}; "
                f"there are {size} elements"
            )


def _filled(blocks: Sequence[Block], size: int, where: str) -> Iterator[_Filled]:
    """What of the addresses below `size` is filled by which blocks, blocks outside left out."""
    usable = [index for index, block in enumerate(blocks) if 0 < block.end <= size]
    position = 0
    for met in components(blocks, usable):
        start, end = blocks[met[0]].offset, max(blocks[index].end for index in met)
        if position < start:
            yield _Filled(position, start - position, ())
        for filled in _filled_range([blocks[index] for index in met], start, end, where):
            yield filled._replace(blocks=tuple(sorted(met[index] for index in filled.blocks)))
        position = end
    if position < size:
        yield _Filled(position, size - position, ())


def _filled_range(blocks: Sequence[Block], start: int, end: int, where: str) -> Iterator[_Filled]:
    on_grid = _on_grid(blocks, start, end)
    if on_grid is not None:
        return on_grid
    num_elements = sum(math.prod(block.shape) for block in blocks)
    if num_elements > MAX_ENUMERATED:
        raise UnsupportedLayoutError(
            f"{where} has blocks that fit no common grid, at addresses {start} to {end - 1}, "
            f"with strides {sorted({stride for block in blocks for stride in block.strides})}; "
            f"up to {MAX_ENUMERATED} such elements are checked one by one, these are "
            f"{num_elements}: cut the blocks into boxes or flat intervals"
        )
    return _enumerated(blocks, start)


def _on_grid(blocks: Sequence[Block], start: int, end: int) -> Iterator[_Filled] | None:
    """What is filled from `start` to `end`; None if the blocks are no boxes of one grid."""
    shape = grid_shape(blocks, end - start)
    if shape is None:
        return None
    # Where the grid is longer than the range a filler stands in, so that it shows no gap.
    filler = Block("", end, (start + math.prod(shape) - end,), (1,))
    owned = grid_boxes([*blocks, filler], start, shape)
    if owned is None:
        return None
    boxes, owners = [box for box, _ in owned], [owner for _, owner in owned]
    return _cells_between(boxes, owners, shape, start, len(blocks))


def _cells_between(
    boxes: Sequence[PlacedBox],
    owners: Sequence[int],
    shape: tuple[int, ...],
    start: int,
    filler: int,
) -> Iterator[_Filled]:
    strides = row_major_strides(shape)
    for cell in cells(boxes, shape):
        by = tuple(owners[box] for box in cell.covered_by)
        if filler not in by:
            steps = zip(cell.origin, strides, strict=True)
            address = start + sum(index * stride for index, stride in steps)
            yield _Filled(address, math.prod(cell.shape), by)


def _enumerated(blocks: Sequence[Block], start: int) -> Iterator[_Filled]:
    by_address: dict[int, list[int]] = {}
    for owner, block in enumerate(blocks):
        for index in product(*(range(extent) for extent in block.shape)):
            step = sum(i * stride for i, stride in zip(index, block.strides, strict=True))
            by_address.setdefault(block.offset + step, []).append(owner)
    position = start
    for address, owners in sorted(by_address.items()):
        if position < address:
            yield _Filled(position, address - position, ())
        yield _Filled(address, 1, tuple(owners))
        position = address + 1
