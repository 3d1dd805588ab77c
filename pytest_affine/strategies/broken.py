"""Maps that break one rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pytest_affine.maps import ParamAffineMap
from pytest_affine.strategies.damages import DAMAGES
from pytest_affine.strategies.extents import MAX_ELEMENTS
from pytest_affine.strategies.valid import (
    MAP_KINDS,
    MAX_LOCATIONS,
    check_map_options,
    maps,
    shapes_for,
)

__all__ = ["MAP_RULES", "InvalidMap", "invalid_maps"]

MAP_RULES = tuple(DAMAGES)
"""The rules that a map can break."""


@dataclass(frozen=True, slots=True)
class InvalidMap:
    """A map that breaks one rule and keeps all others.

    Attributes:
        map_: the map.
        rule: the rule that it breaks, one of `MAP_RULES`.
        change: what was done to a valid map, in words.
    """

    map_: ParamAffineMap
    rule: str
    change: str


def invalid_maps(
    *,
    rules: Sequence[str] = MAP_RULES,
    logical_shape: Sequence[int] | None = None,
    kinds: Sequence[str] = MAP_KINDS,
    max_locations: int = MAX_LOCATIONS,
    max_elements: int = MAX_ELEMENTS,
    padding: bool = True,
) -> SearchStrategy[InvalidMap]:
    """Maps of which one thing was changed so that exactly one rule is broken, and which.

    - MAP-COVER: the full tensor has a row more or less, or what some locations hold is padding.
    - MAP-TILE: a shard has an element more or less; a piece or padding is moved by one, or has
      another stride; padding is gone, or lies over a piece.
    - MAP-HOLD: a piece names a location too many or too few; a location holds something twice; one
      that no piece names holds it too; holders of one element have two scales.
    - MAP-SCALE: a scale is 0, infinite or no number; an offset, a stride or an extent is negative.

    Constructors of maps check types only, so fractions and booleans are no part of this.

    They shrink to the first rule that does, the simplest change, and a simple map. A location that
    was added may have the number `max_locations`.

    Args:
        rules: which of `MAP_RULES` may be broken.
        logical_shape: of the full tensor, which must have an element; drawn where it is None.
        kinds: as in `maps`, for the map that is broken.
        max_locations: as in `maps`.
        max_elements: as in `maps`.
        padding: as in `maps`.

    Raises:
        ValueError: an unknown rule, a shape without elements, or what `maps` refuses.
    """
    unknown = [rule for rule in rules if rule not in MAP_RULES]
    if unknown or not rules:
        raise ValueError(f"rules must be some of {', '.join(MAP_RULES)}, got {rules!r}")
    check_map_options(kinds, max_locations)
    if logical_shape is not None and math.prod(logical_shape) < 1:
        raise ValueError(f"logical_shape must have an element, got {tuple(logical_shape)}")
    drawn = shapes_for(logical_shape, kinds, max_elements, empty=False)
    valid = drawn.flatmap(
        lambda shape: maps(
            logical_shape=shape, kinds=kinds, max_locations=max_locations, padding=padding
        )
    )
    return _damaged(valid, tuple(rules))


@st.composite
def _damaged(
    draw: DrawFn, valid: SearchStrategy[ParamAffineMap], rules: Sequence[str]
) -> InvalidMap:
    rule, map_ = draw(st.sampled_from(rules)), draw(valid)
    ways = [damages for way in DAMAGES[rule] if (damages := list(way(map_)))]
    damage = draw(st.sampled_from(draw(st.sampled_from(ways))))
    return InvalidMap(damage.make(), rule, damage.text)
