"""Blocks of addresses, and the groups of blocks that lie on the very same addresses.

A space is a shard or the full tensor. Everything that is claimed about a space is a block: what the
space is, what its pieces hold, what is padding, what a plan reads and writes. Cutting blocks into
groups says, for every address, all that is claimed about it; the rules are then read off a group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, ParamAffineMap

__all__ = [
    "Affine",
    "Block",
    "Cut",
    "Group",
    "Held",
    "Whole",
    "cut_by_element",
    "full_blocks",
    "shard_blocks",
    "tagged",
]


@dataclass(frozen=True, slots=True)
class Affine:
    """Addresses that are affine in an index: `offset + sum(index * strides)`."""

    offset: int
    strides: tuple[int, ...]

    def at(self, index: Iterable[int]) -> int:
        """The address at `index`."""
        return self.offset + sum(
            step * stride for step, stride in zip(index, self.strides, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of elements of one space.

    Attributes:
        shape: extents of the block.
        near: address of each element in the space.
        far: addresses of each element elsewhere.
        tag: what is claimed about these elements.
    """

    shape: tuple[int, ...]
    near: Affine
    far: tuple[Affine, ...] = ()
    tag: object = None

    @property
    def num_elements(self) -> int:
        """Number of elements of the block."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Whole:
    """Tag of the block that is the space itself; an address without it is outside."""


@dataclass(frozen=True, slots=True)
class Held:
    """Tag of elements that `piece` puts into the shard of `location`."""

    location: int
    piece: AffinePiece


Group: TypeAlias = tuple[Block, ...]
Cut: TypeAlias = Callable[[Sequence[Block]], Iterator[Group]]
Tag = TypeVar("Tag")


def tagged(group: Group, kind: type[Tag]) -> list[tuple[Tag, Block]]:
    """The blocks of a group whose tag is a `kind`, each with its tag."""
    return [(block.tag, block) for block in group if isinstance(block.tag, kind)]


def cut_by_element(blocks: Sequence[Block]) -> Iterator[Group]:
    """Cut blocks into one group per address, ascending: slow and obvious."""
    found: dict[int, list[Block]] = {}
    for block in blocks:
        for index in itertools.product(*map(range, block.shape)):
            near = Affine(block.near.at(index), ())
            far = tuple(Affine(side.at(index), ()) for side in block.far)
            element = Block(shape=(), near=near, far=far, tag=block.tag)
            found.setdefault(near.offset, []).append(element)
    for address in sorted(found):
        yield tuple(found[address])


def shard_blocks(map_: ParamAffineMap, location: int) -> list[Block]:
    """All that a map says of one shard; the far side of a piece is the full tensor."""
    pieces = [
        Block(
            shape=piece.shape,
            near=Affine(piece.shard_offset, piece.shard_strides),
            far=(Affine(piece.full_offset, piece.full_strides),),
            tag=Held(location, piece),
        )
        for piece in map_.pieces(location)
    ]
    padding = [
        Block(shape=block.shape, near=Affine(block.shard_offset, block.shard_strides), tag=block)
        for block in map_.padding(location)
    ]
    return [_whole(map_.shard_shape(location)), *pieces, *padding]


def full_blocks(map_: ParamAffineMap) -> list[Block]:
    """All that a map says of the full tensor; the far side of a piece is its shard."""
    pieces = [
        Block(
            shape=piece.shape,
            near=Affine(piece.full_offset, piece.full_strides),
            far=(Affine(piece.shard_offset, piece.shard_strides),),
            tag=Held(location, piece),
        )
        for location, pieces in map_.pieces_by_location
        for piece in pieces
    ]
    return [_whole(map_.logical_shape), *pieces]


def _whole(shape: tuple[int, ...]) -> Block:
    return Block(shape=shape, near=Affine(0, row_major_strides(shape)), tag=Whole())
