"""Maps that no builder makes: any cuts, any holders, and shards packed in any way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap

__all__ = ["tiled_maps"]

Shape: TypeAlias = tuple[int, ...]

MAX_DEPTH = 3
MAX_LANES = 3
MAX_FREE = 2
MAX_PIECE_AXES = 8


class _Block(NamedTuple):
    """A block of the full tensor."""

    shape: Shape
    offset: int
    strides: Shape


class _Part(NamedTuple):
    """A block, who holds it, and its scale."""

    block: _Block
    holders: Shape
    scale: float


class _Slot(NamedTuple):
    """A box of a shard: a part with its axes in some order, and free room behind one of them.

    Attributes:
        part: None where all is free.
        shape: extents of the box.
        axis: which of its axes has free room.
        num_free: how much of that axis is free.
        full_strides: strides of its axes in the full tensor.
    """

    part: _Part | None
    shape: Shape
    axis: int
    num_free: int
    full_strides: Shape


class _Shard(NamedTuple):
    shape: Shape
    pieces: list[AffinePiece]
    padding: list[Padding]


@st.composite
def tiled_maps(
    draw: DrawFn,
    logical_shape: Shape,
    num_locations: int,
    *,
    flat: bool,
    scales: Sequence[float],
    padding: bool,
) -> ParamAffineMap:
    """Blocks that come of cutting the tensor again and again, each with holders of its own.

    Every holder may cut a block once more, and packs its shard in its own way.

    Args:
        logical_shape: shape of the full tensor.
        num_locations: locations are 0, 1, ...
        flat: whether blocks are boxes of the tensor with axes joined, which makes them intervals.
        scales: what a block's scale is drawn from.
        padding: whether shards may have any.
    """
    shape = _joined(draw, logical_shape) if flat else logical_shape
    held: dict[int, list[_Part]] = {location: [] for location in range(num_locations)}
    blocks = _cut(draw, _Block(shape, 0, row_major_strides(shape)), MAX_DEPTH)
    if draw(st.sampled_from((False, False, False, True))):
        blocks.append(_Block((0,), 0, (1,)))
    for block in blocks:
        holders = tuple(sorted(draw(st.sets(st.sampled_from(range(num_locations)), min_size=1))))
        scale = draw(st.sampled_from(scales))
        for location in holders:
            parts = _cut(draw, block, 1)
            held[location] += [_Part(part, holders, scale) for part in parts]
    shards = {location: _packed(draw, parts, padding) for location, parts in held.items()}
    return ParamAffineMap(
        logical_shape,
        {location: shard.shape for location, shard in shards.items()},
        {location: shard.pieces for location, shard in shards.items()},
        {location: shard.padding for location, shard in shards.items()},
    )


def _joined(draw: DrawFn, shape: Shape) -> Shape:
    """The shape with two or more neighbouring axes in one, or all of them."""
    while len(shape) > 1:
        axis = draw(st.integers(0, len(shape) - 2))
        shape = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        if draw(st.booleans()):
            break
    return shape


def _cut(draw: DrawFn, block: _Block, depth: int) -> list[_Block]:
    """Parts that tile a block: itself, or those of two halves of any size."""
    shape, offset, strides = block
    wide = [axis for axis, extent in enumerate(shape) if extent > 1]
    if not depth or not wide or not draw(st.booleans()):
        return [block]
    axis = draw(st.sampled_from(wide))
    at = draw(st.integers(1, shape[axis] - 1))
    parts = []
    for start, extent in ((0, at), (at, shape[axis] - at)):
        half = _Block(_with(shape, axis, extent), offset + start * strides[axis], strides)
        parts += _cut(draw, half, depth - 1)
    return parts


def _packed(draw: DrawFn, parts: Sequence[_Part], padding: bool) -> _Shard:
    """Parts one behind the other, in lanes that take turns in the shard's addresses.

    With two lanes one has the even addresses and one the odd ones. What stays free is padding.
    """
    num_lanes = draw(st.integers(1, MAX_LANES)) if padding else 1
    free: list[_Part | None] = [None] * (draw(st.integers(0, MAX_FREE)) if padding else 0)
    ends, pieces, blanks = [0] * num_lanes, list[AffinePiece](), list[Padding]()
    for part in draw(st.permutations([*parts, *free])):
        lane = draw(st.integers(0, num_lanes - 1))
        slot = _slot(draw, part, padding)
        start, step = lane + num_lanes * ends[lane], num_lanes
        pieces += _filled(slot, start, step)
        blanks += _free(slot, start, step)
        ends[lane] += math.prod(slot.shape)
    end = max(ends)
    for lane, lane_end in enumerate(ends):
        if lane_end < end:
            blanks.append(Padding((end - lane_end,), lane + num_lanes * lane_end, (num_lanes,)))
    return _Shard(draw(st.sampled_from(_shapes_of(num_lanes * end))), pieces, blanks)


def _slot(draw: DrawFn, part: _Part | None, padding: bool) -> _Slot:
    """A part with its axes in any order, one of them in two perhaps, and free room perhaps."""
    if part is None:
        return _Slot(None, (1,), 0, 1, ())
    axes = list(zip(part.block.shape, part.block.strides, strict=True))
    if len(axes) < MAX_PIECE_AXES and draw(st.booleans()):
        axes.append((1, draw(st.integers(0, 7))))
    halved = [index for index, (extent, _) in enumerate(axes) if extent > 2 and extent % 2 == 0]
    if halved and len(axes) < MAX_PIECE_AXES and draw(st.booleans()):
        index = draw(st.sampled_from(halved))
        extent, stride = axes[index]
        axes[index : index + 1] = [(2, stride * (extent // 2)), (extent // 2, stride)]
    axes = draw(st.permutations(axes))
    num_free = draw(st.integers(0, MAX_FREE)) if padding and axes else 0
    axis = draw(st.integers(0, len(axes) - 1)) if num_free else 0
    shape = tuple(extent + num_free * (axis == index) for index, (extent, _) in enumerate(axes))
    return _Slot(part, shape, axis, num_free, tuple(stride for _, stride in axes))


def _filled(slot: _Slot, start: int, step: int) -> Iterator[AffinePiece]:
    """The piece of a slot, if it has one; the slot begins at `start`, and its elements `step`."""
    if slot.part is not None:
        block, holders, scale = slot.part
        shape = slot.shape
        if slot.num_free:
            shape = _with(shape, slot.axis, shape[slot.axis] - slot.num_free)
        strides = _strides(slot.shape, step)
        yield AffinePiece(shape, block.offset, slot.full_strides, start, strides, holders, scale)


def _free(slot: _Slot, start: int, step: int) -> Iterator[Padding]:
    """The padding of a slot, if it has any."""
    if slot.num_free:
        strides, first = _strides(slot.shape, step), slot.shape[slot.axis] - slot.num_free
        shape = _with(slot.shape, slot.axis, slot.num_free)
        yield Padding(shape, start + first * strides[slot.axis], strides)


def _strides(shape: Shape, step: int) -> Shape:
    return tuple(step * stride for stride in row_major_strides(shape))


def _with(values: Shape, axis: int, value: int) -> Shape:
    return (*values[:axis], value, *values[axis + 1 :])


def _shapes_of(size: int) -> list[Shape]:
    """Shapes that a shard of so many elements may have."""
    if size == 0:
        return [(0,), (0, 2), (2, 0)]
    if size == 1:
        return [(1,), ()]
    return [(size,), *((size // n, n) for n in range(2, size + 1) if size % n == 0)]
