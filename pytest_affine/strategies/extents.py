"""Shapes, and ways to share an extent out."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = ["MAX_ELEMENTS", "shapes", "shares"]

MAX_ELEMENTS = 720
MAX_AXES = 5
SHORT, LONG = 6, 60


def shapes(
    *,
    min_axes: int = 0,
    max_axes: int = MAX_AXES,
    max_elements: int = MAX_ELEMENTS,
    empty: bool = True,
) -> SearchStrategy[tuple[int, ...]]:
    """Logical shapes: mostly of extents up to 6, some of up to 60; scalars and empty ones too.

    Args:
        min_axes: number of axes at least; 0 allows for scalars.
        max_axes: number of axes at most.
        max_elements: number of elements at most.
        empty: whether extents may be 0.

    They shrink to fewer axes, and to extents of 0 (or 1, where `empty` is False).

    Raises:
        ValueError: bounds that allow for nothing.
    """
    if not 0 <= min_axes <= max_axes:
        raise ValueError(f"0 <= min_axes <= max_axes must hold, got {min_axes} and {max_axes}")
    if max_elements < 1:
        raise ValueError(f"max_elements must be 1 or more, got {max_elements}")
    return _shapes(min_axes, max_axes, max_elements, 0 if empty else 1)


@st.composite
def _shapes(
    draw: DrawFn, min_axes: int, max_axes: int, max_elements: int, min_extent: int
) -> tuple[int, ...]:
    longest = draw(st.sampled_from((SHORT, LONG)))
    shape, room = [], max_elements
    for _ in range(draw(st.integers(min_axes, max_axes))):
        extent = draw(st.integers(min_extent, min(longest, room)))
        shape.append(extent)
        room //= max(extent, 1)
    return tuple(shape)


@st.composite
def shares(draw: DrawFn, extent: int, num_shares: int) -> list[int]:
    """A way to share an extent out, uneven and empty shares included."""
    cuts = draw(st.lists(st.integers(0, extent), min_size=num_shares - 1, max_size=num_shares - 1))
    bounds = [0, *sorted(cuts), extent]
    return [stop - start for start, stop in pairwise(bounds)]
