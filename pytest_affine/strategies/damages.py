"""Every way to break one rule of a valid map, and no other; pure.

A damage is what is done in words, and a function that does it. The maps must have an element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap

__all__ = ["DAMAGES", "Damage"]


class Damage(NamedTuple):
    """What is done to a map, in words, and the function that does it."""

    text: str
    make: Callable[[], ParamAffineMap]


Damages: TypeAlias = Iterator[Damage]


def _pieces(map_: ParamAffineMap) -> Iterator[tuple[int, int, AffinePiece]]:
    """Location, index and piece, of the pieces that have elements."""
    for location, held in map_.pieces_by_location:
        for index, piece in enumerate(held):
            if piece.num_elements:
                yield location, index, piece


def _blocks(map_: ParamAffineMap) -> Iterator[tuple[int, int, Padding]]:
    """Location, index and block, of the padding that has elements."""
    for location, held in map_.padding_by_location:
        for index, block in enumerate(held):
            if block.num_elements:
                yield location, index, block


def _with_shard(
    map_: ParamAffineMap,
    location: int,
    *,
    shape: Sequence[int] | None = None,
    pieces: Sequence[AffinePiece] | None = None,
    padding: Sequence[Padding] | None = None,
) -> ParamAffineMap:
    """The map with another shard at one location, which it need not have had."""
    shapes, held = dict(map_.shard_shapes), dict(map_.pieces_by_location)
    blocks = dict(map_.padding_by_location)
    if shape is not None:
        shapes[location] = tuple(shape)
    if pieces is not None:
        held[location] = tuple(pieces)
    if padding is not None:
        blocks[location] = tuple(padding)
    return ParamAffineMap(map_.logical_shape, shapes, held, blocks)


def _with_piece(map_: ParamAffineMap, location: int, index: int, **fields: Any) -> ParamAffineMap:
    held = list(map_.pieces(location))
    held[index] = replace(held[index], **fields)
    return _with_shard(map_, location, pieces=held)


def _with_logical_shape(map_: ParamAffineMap, shape: Sequence[int]) -> ParamAffineMap:
    return ParamAffineMap(
        shape, map_.shard_shapes, map_.pieces_by_location, map_.padding_by_location
    )


def _changed(values: Sequence[int], axis: int, value: int) -> tuple[int, ...]:
    return (*values[:axis], value, *values[axis + 1 :])


def _resized_full_tensor(map_: ParamAffineMap) -> Damages:
    """Addresses do not depend on the extent of axis 0."""
    extent, *inner = map_.logical_shape or (1,)
    for rows in (extent + 1, extent - 1):
        yield Damage(
            f"the full tensor is {(rows, *inner)}, was {map_.logical_shape}",
            partial(_with_logical_shape, map_, (rows, *inner)),
        )


def _lost(map_: ParamAffineMap) -> Damages:
    for locations in dict.fromkeys(piece.locations for _, _, piece in _pieces(map_)):
        yield Damage(
            f"what exactly the locations {locations} hold has become padding",
            partial(_without, map_, locations),
        )


def _without(map_: ParamAffineMap, locations: tuple[int, ...]) -> ParamAffineMap:
    for location in locations:
        held, padding = map_.pieces(location), list(map_.padding(location))
        padding += [
            Padding(piece.shape, piece.shard_offset, piece.shard_strides)
            for piece in held
            if piece.locations == locations
        ]
        kept = [piece for piece in held if piece.locations != locations]
        map_ = _with_shard(map_, location, pieces=kept, padding=padding)
    return map_


def _resized_shard(map_: ParamAffineMap) -> Damages:
    for location, shape in map_.shard_shapes:
        size = math.prod(shape)
        for resized in (size + 1, size - 1) if size else (1,):
            yield Damage(
                f"the shard of location {location} has {resized} elements, had {size}",
                partial(_with_shard, map_, location, shape=(resized,)),
            )


def _moved_piece(map_: ParamAffineMap) -> Damages:
    for location, index, piece in _pieces(map_):
        for offset in (piece.shard_offset + 1, piece.shard_offset - 1):
            if offset >= 0:
                yield Damage(
                    f"piece {index} of location {location} is at {offset}, "
                    f"was at {piece.shard_offset}",
                    partial(_with_piece, map_, location, index, shard_offset=offset),
                )


def _stretched_piece(map_: ParamAffineMap) -> Damages:
    """The sum of a shard's filled addresses changes, and so its addresses do."""
    for location, index, piece in _pieces(map_):
        for axis, extent in enumerate(piece.shape):
            stride = piece.shard_strides[axis]
            for changed in (stride + 1, stride - 1) if extent > 1 else ():
                strides = _changed(piece.shard_strides, axis, changed)
                yield Damage(
                    f"piece {index} of location {location} has the strides {strides} in its shard, "
                    f"had {piece.shard_strides}",
                    partial(_with_piece, map_, location, index, shard_strides=strides),
                )


def _padding_over_a_piece(map_: ParamAffineMap) -> Damages:
    for location, index, piece in _pieces(map_):
        padding = [*map_.padding(location), Padding((1,), piece.shard_offset, (1,))]
        yield Damage(
            f"the first element of piece {index} of location {location} is padding too",
            partial(_with_shard, map_, location, padding=padding),
        )


def _lost_padding(map_: ParamAffineMap) -> Damages:
    for location, index, _ in _blocks(map_):
        padding = list(map_.padding(location))
        del padding[index]
        yield Damage(
            f"padding {index} of location {location} is gone",
            partial(_with_shard, map_, location, padding=padding),
        )


def _moved_padding(map_: ParamAffineMap) -> Damages:
    for location, index, block in _blocks(map_):
        padding, offset = list(map_.padding(location)), block.shard_offset + 1
        padding[index] = replace(block, shard_offset=offset)
        yield Damage(
            f"padding {index} of location {location} is at {offset}, was at {block.shard_offset}",
            partial(_with_shard, map_, location, padding=padding),
        )


def _misnamed_holders(map_: ParamAffineMap) -> Damages:
    for location, index, piece in _pieces(map_):
        for other in (*map_.locations, max(map_.locations) + 1):
            named = tuple(sorted({*piece.locations} ^ {other}))
            yield Damage(
                f"piece {index} of location {location} names the locations {named}, "
                f"named {piece.locations}",
                partial(_with_piece, map_, location, index, locations=named),
            )


def _held_twice(map_: ParamAffineMap) -> Damages:
    for location, index, piece in _pieces(map_):
        yield Damage(
            f"location {location} holds what is in its piece {index} once more, behind the rest",
            partial(_with_copy, map_, location, piece),
        )


def _unnamed_holder(map_: ParamAffineMap) -> Damages:
    other = max(map_.locations) + 1
    for location, index, piece in _pieces(map_):
        copy = replace(piece, locations=(other,))
        yield Damage(
            f"location {other} holds what is in piece {index} of location {location} too, "
            "which no other piece says",
            partial(_with_copy, map_, other, copy),
        )


def _with_copy(map_: ParamAffineMap, location: int, piece: AffinePiece) -> ParamAffineMap:
    """The map with one piece more behind the rest of a shard, or in a new shard."""
    size = map_.shard_size(location) if location in map_.locations else 0
    strides = row_major_strides(piece.shape)
    copy = replace(piece, shard_offset=size, shard_strides=strides)
    pieces = [*map_.pieces(location), copy]
    return _with_shard(map_, location, shape=(size + piece.num_elements,), pieces=pieces)


def _unequal_scales(map_: ParamAffineMap) -> Damages:
    for location, index, piece in _pieces(map_):
        scale = 2.0 if piece.scale == 1 else 1.0
        if len(piece.locations) > 1:
            yield Damage(
                f"piece {index} of location {location}, which others hold too, has the scale "
                f"{scale}, had {piece.scale}",
                partial(_with_piece, map_, location, index, scale=scale),
            )


def _bad_scale(map_: ParamAffineMap) -> Damages:
    """All holders of an element get it, or else their scales would differ; NaN differs anyway."""
    for locations in dict.fromkeys(piece.locations for _, _, piece in _pieces(map_)):
        alone = (math.nan,) if len(locations) == 1 else ()
        for scale in (0.0, math.inf, -math.inf, *alone):
            yield Damage(
                f"what exactly the locations {locations} hold has the scale {scale}",
                partial(_with_scale, map_, locations, scale),
            )


def _with_scale(map_: ParamAffineMap, locations: tuple[int, ...], scale: float) -> ParamAffineMap:
    for location in locations:
        held = [
            replace(piece, scale=scale) if piece.locations == locations else piece
            for piece in map_.pieces(location)
        ]
        map_ = _with_shard(map_, location, pieces=held)
    return map_


def _negative_in_a_piece(map_: ParamAffineMap) -> Damages:
    for location, index, piece in _pieces(map_):
        changes: list[tuple[str, Any]] = [("full_offset", -1), ("shard_offset", -1)]
        for field in ("shape", "full_strides", "shard_strides"):
            values = getattr(piece, field)
            changes += [
                (field, _changed(values, axis, -1 - value)) for axis, value in enumerate(values)
            ]
        for field, value in changes:
            yield Damage(
                f"{field} of piece {index} of location {location} is {value}, "
                f"was {getattr(piece, field)}",
                partial(_with_piece, map_, location, index, **{field: value}),
            )


def _negative_extent(map_: ParamAffineMap) -> Damages:
    full = map_.logical_shape
    for axis, extent in enumerate(full):
        shape = _changed(full, axis, -extent)
        yield Damage(
            f"the full tensor is {shape}, was {full}", partial(_with_logical_shape, map_, shape)
        )
    for location, own in map_.shard_shapes:
        for axis, extent in enumerate(own):
            shape = _changed(own, axis, -1 - extent)
            yield Damage(
                f"the shard of location {location} is {shape}, was {own}",
                partial(_with_shard, map_, location, shape=shape),
            )


DAMAGES: Mapping[str, Sequence[Callable[[ParamAffineMap], Damages]]] = {
    "MAP-COVER": (_resized_full_tensor, _lost),
    "MAP-TILE": (
        _resized_shard,
        _moved_piece,
        _stretched_piece,
        _padding_over_a_piece,
        _lost_padding,
        _moved_padding,
    ),
    "MAP-HOLD": (_misnamed_holders, _held_twice, _unnamed_holder, _unequal_scales),
    "MAP-SCALE": (_bad_scale, _negative_in_a_piece, _negative_extent),
}
"""By rule, what breaks it: each yields every way in which it can be done to a map."""
