"""A shard in chunks: which addresses of it hold which elements, a little at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from pytest_affine.geometry import Axis, dot, join_axes
from pytest_affine.maps import AffinePiece, ParamAffineMap

__all__ = ["MAX_CHUNK", "Chunk", "Scratch", "chunks_of", "spread"]

MAX_CHUNK = 2**17
"""Elements of a chunk: so few that what is computed of them stays in a core's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A block of a shard's elements.

    Attributes:
        shape: extents.
        offset: address of its first element in the shard.
        strides: one per axis in the shard.
        first: row-major address of its first element in the full tensor.
        steps: strides in the full tensor.
    """

    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    first: int
    steps: tuple[int, ...]

    def within(self, flat: torch.Tensor) -> torch.Tensor:
        """Its elements, as a view of the shard's packed elements."""
        return flat.as_strided(self.shape, self.strides, flat.storage_offset() + self.offset)


def chunks_of(map_: ParamAffineMap, location: int) -> Iterator[Chunk]:
    """All elements of a shard but its padding, in chunks."""
    for piece in map_.pieces(location):
        if piece.num_elements:
            yield from _cut(piece)


def _cut(piece: AffinePiece) -> Iterator[Chunk]:
    axes = join_axes(zip(piece.shape, piece.shard_strides, piece.full_strides, strict=True))
    steps = _steps(axes)
    strides, full_strides = (tuple(axis[side] for axis in axes) for side in (1, 2))
    starts = (range(0, axis[0], step) for axis, step in zip(axes, steps, strict=True))
    for origin in itertools.product(*starts):
        shape = (
            min(step, axis[0] - start)
            for start, step, axis in zip(origin, steps, axes, strict=True)
        )
        yield Chunk(
            shape=tuple(shape),
            offset=piece.shard_offset + dot(origin, strides),
            strides=strides,
            first=piece.full_offset + dot(origin, full_strides),
            steps=full_strides,
        )


def _steps(axes: list[Axis]) -> list[int]:
    """How far a chunk goes along each axis: all of the inner ones, as far as it fits."""
    left, steps = MAX_CHUNK, []
    for extent, *_ in reversed(axes):
        steps.append(min(extent, max(left, 1)))
        left //= extent
    return steps[::-1]


class Scratch:
    """Memory in which what is known of a chunk is computed; what it gives is good until asked anew.

    Args:
        device: where the shard is.
        integers: a dtype that holds every number.
    """

    def __init__(self, device: torch.device, integers: torch.dtype) -> None:
        self._device = device
        self._integers = integers
        self._known: tuple[object, torch.Tensor, torch.Tensor] | None = None

    def numbers(self, chunk: Chunk, start: int) -> torch.Tensor:
        """`start` plus the address in the full tensor, of every element of the chunk."""
        key = chunk.shape, chunk.steps
        if self._known is None or self._known[0] != key:
            grid = spread(chunk.shape, chunk.steps, self._integers, self._device)
            self._known = key, grid, torch.empty_like(grid)
        _, grid, numbers = self._known
        return torch.add(grid, start + chunk.first, out=numbers)


def spread(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """A packed tensor of the addresses at every index, from 0 on."""
    grid = torch.zeros((), dtype=dtype, device=device)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        line = torch.arange(extent, dtype=dtype, device=device) * stride
        grid = grid.unsqueeze(-1) + line if axis else line
    return grid.contiguous()
