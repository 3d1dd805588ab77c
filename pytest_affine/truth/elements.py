"""What small maps hold, element by element: for golden answers, and to fill buffers."""

from __future__ import annotations

from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.truth.blocks import (
    Held,
    Whole,
    cut_by_element,
    full_blocks,
    shard_blocks,
    tagged,
)

__all__ = ["element_at", "holders"]


def element_at(map_: ParamAffineMap, location: int) -> tuple[int | None, ...]:
    """The logical element (row-major) at every address of a shard; None where there is padding.

    Raises:
        InvalidMapError: an address that is outside the shard or not filled exactly once, or no
            such location.
    """
    elements: list[int | None] = []
    for group in cut_by_element(shard_blocks(map_, location)):
        if len(group) != 2 or not tagged(group, Whole):
            address = group[0].near.offset
            raise InvalidMapError(f"address {address} of location {location} is not filled once")
        elements.append(next((piece.far[0].offset for _, piece in tagged(group, Held)), None))
    return tuple(elements)


def holders(map_: ParamAffineMap) -> tuple[tuple[tuple[int, int, float], ...], ...]:
    """For every logical element (row-major) who holds it: (location, shard address, scale).

    Raises:
        InvalidMapError: an element that nobody holds, or one outside the full tensor.
    """
    elements = []
    for group in cut_by_element(full_blocks(map_)):
        pieces = tagged(group, Held)
        if not pieces or not tagged(group, Whole):
            address = group[0].near.offset
            raise InvalidMapError(f"logical element {address} is not held, or outside the tensor")
        elements.append(tuple((at.location, to.far[0].offset, at.piece.scale) for at, to in pieces))
    return tuple(elements)
