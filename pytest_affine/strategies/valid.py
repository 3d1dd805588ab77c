"""Valid maps of every kind, and pairs of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pytest_affine.builders.numbering import renumbered_map
from pytest_affine.maps import ParamAffineMap
from pytest_affine.strategies.built import BUILT, NEED_AN_AXIS, padded
from pytest_affine.strategies.extents import MAX_ELEMENTS, shapes
from pytest_affine.strategies.tiled import tiled_maps

__all__ = [
    "MAP_KINDS",
    "MAX_LOCATIONS",
    "POWERS_OF_TWO",
    "check_map_options",
    "map_pairs",
    "maps",
    "shapes_for",
]

Shape: TypeAlias = tuple[int, ...]

MAX_LOCATIONS = 10

MAP_KINDS = (*BUILT, "tiled_boxes", "tiled_intervals")
"""The builders, by name, and the maps that no builder makes."""

POWERS_OF_TWO = (1.0, 2.0, 0.5, -1.0, 0.25)
"""Scales that change no bit of a mantissa."""


def maps(
    *,
    logical_shape: Sequence[int] | None = None,
    kinds: Sequence[str] = MAP_KINDS,
    max_locations: int = MAX_LOCATIONS,
    max_elements: int = MAX_ELEMENTS,
    scales: Sequence[float] = (1.0,),
    padding: bool = True,
) -> SearchStrategy[ParamAffineMap]:
    """Valid maps: those of every builder, and such as no builder makes.

    The builders' maps have any widths, zero ones included, any blocks, segments and holders, meshes
    with strided shards, and flat intervals in any order. `tiled_boxes` come of cutting the tensor
    again and again: each block has holders of its own, each holder may cut it once more, and its
    shard has the parts in any order, with their axes in any order, axes of extent 1 added and
    others split, at every address or at every second or third one, padding before, between and
    behind them, and now and then a piece without elements. `tiled_intervals` are the same of a
    tensor with neighbouring axes joined, so that cuts go through the middle of rows.

    There are 1 to `max_locations` locations, numbered below `max_locations` in any order, with gaps
    or without. Some have empty shards.

    They shrink to fewer locations, whole tensors first, in order, without padding.

    Args:
        logical_shape: of the full tensor; drawn by `shapes` where it is None.
        kinds: which of `MAP_KINDS`; earlier ones count as simpler.
        max_locations: 1 or more.
        max_elements: of the full tensor, where its shape is drawn. Shards have more in all, up to
            that for each location, padding apart.
        scales: what scales are drawn from: one for a builder's map, one per block of other maps.
        padding: whether shards may have padding.

    Raises:
        ValueError: an unknown kind, no kind that can be drawn, bounds below 1, or a bad scale.
    """
    check_map_options(kinds, max_locations, scales)
    drawn = shapes_for(logical_shape, kinds, max_elements)
    return drawn.flatmap(
        lambda shape: _maps(shape, tuple(kinds), max_locations, tuple(scales), padding)
    )


def map_pairs(
    *,
    logical_shape: Sequence[int] | None = None,
    kinds: Sequence[str] = MAP_KINDS,
    max_locations: int = MAX_LOCATIONS,
    max_elements: int = MAX_ELEMENTS,
    scales: Sequence[float] = (1.0,),
    padding: bool = True,
) -> SearchStrategy[tuple[ParamAffineMap, ParamAffineMap]]:
    """Source and target maps of one full tensor, both of them as `maps` draws them.

    The options are those of `maps`. Every piece of both maps has one scale, since a transfer
    changes no values. They shrink as the maps do, together.
    """
    check_map_options(kinds, max_locations, scales)
    drawn = shapes_for(logical_shape, kinds, max_elements)

    def pairs(shape: Shape, scale: float) -> SearchStrategy[tuple[ParamAffineMap, ParamAffineMap]]:
        side = _maps(shape, tuple(kinds), max_locations, (scale,), padding)
        return st.tuples(side, side)

    return st.tuples(drawn, st.sampled_from(scales)).flatmap(lambda both: pairs(*both))


def check_map_options(
    kinds: Sequence[str], max_locations: int, scales: Sequence[float] = (1.0,)
) -> None:
    """Refuse what `maps` says it refuses, but shapes."""
    unknown = [kind for kind in kinds if kind not in MAP_KINDS]
    if unknown or not kinds:
        raise ValueError(f"kinds must be some of {', '.join(MAP_KINDS)}, got {kinds!r}")
    if max_locations < 1:
        raise ValueError(f"max_locations must be 1 or more, got {max_locations}")
    if not scales or any(scale == 0 or not math.isfinite(scale) for scale in scales):
        raise ValueError(f"scales must be finite numbers other than 0, got {scales!r}")


def shapes_for(
    logical_shape: Sequence[int] | None,
    kinds: Sequence[str],
    max_elements: int,
    *,
    empty: bool = True,
) -> SearchStrategy[Shape]:
    """The shape that is given, or else shapes of which there are maps of one of these kinds."""
    num_axes = 1 if set(kinds) <= set(NEED_AN_AXIS) else 0
    if logical_shape is None:
        return shapes(min_axes=num_axes, max_elements=max_elements, empty=empty)
    if len(logical_shape) < num_axes:
        raise ValueError(f"of a scalar there are no maps of these kinds: {', '.join(kinds)}")
    return st.just(tuple(logical_shape))


@st.composite
def _maps(
    draw: DrawFn,
    shape: Shape,
    kinds: Sequence[str],
    max_locations: int,
    scales: Sequence[float],
    padding: bool,
) -> ParamAffineMap:
    num_locations = draw(st.integers(1, max_locations))
    kind = draw(st.sampled_from([kind for kind in kinds if shape or kind not in NEED_AN_AXIS]))
    if kind in BUILT:
        map_ = _scaled(draw(BUILT[kind](shape, num_locations)), draw(st.sampled_from(scales)))
        if padding and draw(st.booleans()):
            map_ = draw(padded(map_))
    else:
        flat = kind == "tiled_intervals"
        map_ = draw(tiled_maps(shape, num_locations, flat=flat, scales=scales, padding=padding))
    numbers = draw(st.permutations(range(max_locations)))
    return renumbered_map(map_, numbers[:num_locations])


def _scaled(map_: ParamAffineMap, scale: float) -> ParamAffineMap:
    pieces = {
        location: [replace(piece, scale=scale) for piece in held]
        for location, held in map_.pieces_by_location
    }
    return ParamAffineMap(map_.logical_shape, map_.shard_shapes, pieces, map_.padding_by_location)
