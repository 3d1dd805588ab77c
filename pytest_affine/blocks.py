"""Blocks of addresses, and the grids on which they are boxes.

Blocks whose addresses meet are laid on one grid, whose axes step by the blocks' own strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_affine.geometry import PlacedBox, join_axes, place_piece, reach

__all__ = ["Block", "components", "grid_boxes", "grid_shape"]


@dataclass(frozen=True, slots=True)
class Block:
    """The addresses that one piece or padding block fills on one side."""

    name: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def end(self) -> int:
        """The address behind its last one; a block without elements ends at 0."""
        return 0 if 0 in self.shape else self.offset + reach(self.shape, self.strides) + 1


def components(blocks: Sequence[Block], usable: Sequence[int]) -> list[list[int]]:
    """Group the blocks whose ranges of addresses meet, directly or through others."""
    groups: list[list[int]] = []
    end = 0
    for index in sorted(usable, key=lambda index: blocks[index].offset):
        if blocks[index].offset < end:
            groups[-1].append(index)
        else:
            groups.append([index])
        end = max(end, blocks[index].end)
    return groups


def grid_shape(blocks: Sequence[Block], num_addresses: int) -> tuple[int, ...] | None:
    """Extents of a grid whose axes step by the blocks' strides, if each divides the next."""
    steps = {1}
    for block in blocks:
        axes = join_axes(zip(block.shape, block.strides, strict=True))
        steps.update(stride for _, stride in axes)
    ordered = sorted(steps, reverse=True)
    if 0 in steps or any(outer % inner for outer, inner in pairwise(ordered)):
        return None
    outermost = -(-num_addresses // ordered[0])
    return (outermost, *(outer // inner for outer, inner in pairwise(ordered)))


def grid_boxes(
    blocks: Sequence[Block], start: int, shape: tuple[int, ...]
) -> list[tuple[PlacedBox, int]] | None:
    """The boxes of a grid at `start` that the blocks fill, each with its block's index.

    None where a block is no box of the grid.
    """
    boxes: list[tuple[PlacedBox, int]] = []
    for owner, block in enumerate(blocks):
        nowhere = (0,) * len(block.shape)
        placed = place_piece(block.shape, block.offset - start, block.strides, 0, nowhere, shape)
        if placed is None:
            return None
        boxes += [(box, owner) for box in placed]
    return boxes
