"""Arithmetic of shapes, strides and boxes; exact integers, no tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from operator import add, mul, sub
from typing import NamedTuple, TypeAlias

__all__ = [
    "MAX_UNROLLED",
    "Axis",
    "PlacedBox",
    "dot",
    "join_axes",
    "overlap",
    "place_piece",
    "reach",
    "row_major_strides",
    "unravel",
]

MAX_UNROLLED = 2**10
"""A piece whose shard side permutes one logical axis is cut into at most this many parts."""


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a packed tensor of this shape.

    An empty tensor's strides are those of the same shape with extents of at least 1.
    """
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def unravel(address: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Index of the element at a row-major `address` of a tensor that is not empty."""
    strides = row_major_strides(shape)
    return tuple(address // stride % extent for stride, extent in zip(strides, shape, strict=True))


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How far behind its first element a block that is not empty has its last one."""
    return sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def dot(index: Sequence[int], strides: Sequence[int]) -> int:
    """How far from a block's first element the one at an index is."""
    distance: int = sum(map(mul, index, strides))
    return distance


class PlacedBox(NamedTuple):
    """An axis-aligned box of a tensor, and where it sits in a shard.

    Attributes:
        origin: index of its first element in the tensor.
        shape: extents; one axis per axis of the tensor.
        offset: address of its first element in the shard.
        strides: strides in the shard, one per axis of the tensor. Where the extent is 1 it says how
            the shard would go on there: as the piece says, or else as the tensor does.
    """

    origin: tuple[int, ...]
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    @property
    def stop(self) -> tuple[int, ...]:
        """On each axis the index behind its last one."""
        return tuple(map(add, self.origin, self.shape))

    @property
    def num_elements(self) -> int:
        """Number of elements of the box."""
        return math.prod(self.shape)

    @property
    def anchor(self) -> int:
        """Address that index 0 of the tensor would have, to add an index times strides to."""
        return self.offset - dot(self.origin, self.strides)

    def cut(self, origin: tuple[int, ...], shape: tuple[int, ...]) -> PlacedBox:
        """The part of this box that begins at `origin` of the tensor."""
        offset = self.anchor + dot(origin, self.strides)
        return PlacedBox(origin, shape, offset, self.strides)


def overlap(first: PlacedBox, second: PlacedBox) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Origin and shape of what two boxes of one tensor share, or None."""
    origin = tuple(map(max, first.origin, second.origin))
    shape = tuple(map(sub, map(min, first.stop, second.stop), origin))
    return (origin, shape) if min(shape, default=1) > 0 else None


Axis: TypeAlias = tuple[int, ...]
"""Extent of an axis, and its stride on each side that is looked at."""


def join_axes(axes: Iterable[Axis]) -> list[Axis]:
    """The axes of more than one element, outermost on the first side first.

    Neighbours of which one runs on into the other on every side are joined.
    """
    joined: list[Axis] = []
    for extent, *strides in sorted(axes, key=lambda axis: axis[1], reverse=True):
        if extent == 1:
            continue
        if joined and joined[-1][1:] == tuple(extent * stride for stride in strides):
            extent *= joined.pop()[0]
        joined.append((extent, *strides))
    return joined


def place_piece(
    shape: Sequence[int],
    full_offset: int,
    full_strides: Sequence[int],
    shard_offset: int,
    shard_strides: Sequence[int],
    logical_shape: Sequence[int],
) -> tuple[PlacedBox, ...] | None:
    """Cut a piece into axis-aligned boxes of the full tensor.

    The piece may have any number of axes, in any order; an axis may run over several logical axes
    (a flat interval of d axes gives at most 2d-1 boxes), and several may form one logical axis.

    Args:
        shape: extents of the piece.
        full_offset: address of its first element in the row-major full tensor.
        full_strides: strides in the full tensor, one per axis of the piece.
        shard_offset: address of its first element in the shard.
        shard_strides: strides in the shard, one per axis of the piece.
        logical_shape: shape of the full tensor.

    Returns:
        Boxes that cover every element of the piece once; none for an empty piece. None when the
        piece leaves the full tensor, is no box or interval of it, or takes more than
        `MAX_UNROLLED` parts.
    """
    if 0 in shape:
        return ()
    if (
        origin := _plain_origin(shape, full_offset, full_strides, shard_strides, logical_shape)
    ) is not None:
        return (PlacedBox(origin, tuple(shape), shard_offset, tuple(shard_strides)),)
    last = full_offset + reach(shape, full_strides)
    if full_offset < 0 or last >= math.prod(logical_shape):
        return None
    axes = list(zip(shape, full_strides, shard_strides, strict=True))
    steps = row_major_strides(logical_shape)
    # With its shard side left out, a box or an interval has one axis per logical axis it spans.
    if any(stride not in steps for _, stride in join_axes(axis[:2] for axis in axes)):
        return None
    regular, unrolled = _split(join_axes(axes), steps)
    if math.prod(axis[0] for axis in unrolled) > MAX_UNROLLED:
        return None
    hints, _ = _split([axis for axis in axes if axis[0] == 1 and axis[2]], steps)
    placed: list[PlacedBox] = []
    for full_step, shard_step in _steps(unrolled):
        origin = unravel(full_offset + full_step, logical_shape)
        start = _spread([*hints, *regular], origin, shard_offset + shard_step, steps)
        boxes = None if start is None else _carried(start, logical_shape)
        if boxes is None:
            return None
        placed += boxes
    return tuple(placed)


def _plain_origin(
    shape: Sequence[int],
    full_offset: int,
    full_strides: Sequence[int],
    shard_strides: Sequence[int],
    logical_shape: Sequence[int],
) -> tuple[int, ...] | None:
    """Origin of a piece that is a box as it stands; None for those that need a closer look."""
    if len(shape) != len(logical_shape) or 0 in shard_strides:
        return None
    origin, rest, step = [], full_offset, 1
    for extent, stride, length in zip(
        reversed(shape), reversed(full_strides), reversed(logical_shape), strict=True
    ):
        rest, start = divmod(rest, length) if length > 1 else (-1, 0)
        if stride != step or rest < 0 or start + extent > length:
            return None
        origin.append(start)
        step *= length
    origin.reverse()
    return None if rest else tuple(origin)


def _split(axes: Sequence[Axis], steps: tuple[int, ...]) -> tuple[list[Axis], list[Axis]]:
    """The axes that step along one logical axis, and the others."""
    regular = [axis for axis in axes if axis[1] in steps]
    return regular, [axis for axis in axes if axis[1] not in steps]


def _steps(axes: Sequence[Axis]) -> Iterator[tuple[int, int]]:
    """Offsets in the full tensor and in the shard, of every index of these axes."""
    for index in product(*(range(extent) for extent, _, _ in axes)):
        steps = list(zip(index, axes, strict=True))
        yield sum(i * axis[1] for i, axis in steps), sum(i * axis[2] for i, axis in steps)


def _spread(
    axes: Sequence[Axis], origin: tuple[int, ...], offset: int, steps: tuple[int, ...]
) -> PlacedBox | None:
    """One box that may still run past the ends of its axes; None if two axes share a stride."""
    shape, strides = [1] * len(origin), list(steps)
    for extent, full_stride, shard_stride in axes:
        axis = steps.index(full_stride)
        if shape[axis] != 1:
            return None
        shape[axis], strides[axis] = extent, shard_stride
    return PlacedBox(origin=origin, shape=tuple(shape), offset=offset, strides=tuple(strides))


def _carried(box: PlacedBox, tensor_shape: Sequence[int]) -> list[PlacedBox] | None:
    """Cut a box that runs past the ends of its axes; None if it covers an element twice."""
    boxes = [box]
    for axis in range(len(tensor_shape) - 1, 0, -1):
        parts = [_carry(part, axis, tensor_shape[axis]) for part in boxes]
        if None in parts:
            return None
        boxes = [box for part in parts if part is not None for box in part]
    return boxes


def _carry(box: PlacedBox, axis: int, length: int) -> list[PlacedBox] | None:
    """Let what runs past the end of one axis go on in the next rows: head, whole rows, tail."""
    row, start = divmod(box.origin[axis], length)
    extent, rows, stride = box.shape[axis], box.shape[axis - 1], box.strides[axis]
    row_stride = box.strides[axis - 1]
    if start + extent <= length:
        head, num_whole, tail = extent, 0, 0
    elif rows > 1 and extent > length:
        return None
    else:
        head = (length - start) % length
        num_whole, tail = divmod(extent - head, length)
        row_stride = row_stride if rows > 1 else length * stride
    behind_head = row + (head > 0)
    parts = (
        (row, 1, start, head, 0),
        (behind_head, num_whole, 0, length, head),
        (behind_head + num_whole, 1, 0, tail, extent - tail),
    )
    return [
        PlacedBox(
            origin=_with(box.origin, axis, box.origin[axis - 1] + first_row, column),
            shape=_with(box.shape, axis, rows * num_rows, width),
            offset=box.offset + before * stride,
            strides=_with(box.strides, axis, row_stride, stride),
        )
        for first_row, num_rows, column, width, before in parts
        if num_rows and width
    ]


def _with(values: tuple[int, ...], axis: int, outer: int, inner: int) -> tuple[int, ...]:
    return (*values[: axis - 1], outer, inner, *values[axis + 1 :])
