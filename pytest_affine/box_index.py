"""Which boxes of a family meet a given one, without looking at all of them.

The boxes are set apart by their cut points. Along one axis their intervals, sorted by start, fall
into parts that do not meet; a part of several boxes is set apart again along the other axes. What a
grid or any other repeated cutting made comes apart like this to single boxes, and a query bisects
to the first and the last part that it reaches, one axis after the other.

Where no axis sets enough apart (pinwheels, spirals, what overlaps), the boxes are halved down to
single ones by the median of a start or a stop, these taking turns, and each half keeps its bounds
to turn queries away by: a k-d tree of the boxes' coordinates (J. L. Bentley, "Multidimensional
binary search trees used for associative searching", 1975).

Each level halves the boxes or sets a few apart, so that building takes O(d n log(n)^2) time for n
boxes of d axes, and O(d n log n) for those of a grid. In a tensor that was cut up a query bisects
to what it meets and finds nothing else; elsewhere it finds little else.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import add
from typing import NamedTuple, TypeAlias

from pytest_affine.geometry import PlacedBox

__all__ = ["BoxIndex"]

SMALL = 8
"""So few boxes may come apart one at a time."""


class _Parts(NamedTuple):
    """Boxes that come apart along an axis, in its order."""

    axis: int
    starts: list[int]
    stops: list[int]
    parts: list[_Node]
    single: list[int]  # the box of each part, where every part is of one box


class _Halves(NamedTuple):
    """Boxes that do not come apart."""

    bounds: list[tuple[int, int]]  # on each axis, the first start and the last stop
    halves: list[_Halves | list[int]]


_Node: TypeAlias = "_Parts | _Halves | list[int]"


class BoxIndex:
    """An index of boxes of one tensor, none of them empty.

    Attributes:
        boxes: the boxes; they are found by their place in this sequence.
    """

    def __init__(self, boxes: Sequence[PlacedBox]) -> None:
        self.boxes = boxes
        self._is_certain = True
        self._root: _Node = list(range(len(boxes)))
        if len(boxes) > 1:
            origins, shapes, _, _ = zip(*boxes, strict=True)
            self._starts = list(zip(*origins, strict=True))
            extents = zip(self._starts, zip(*shapes, strict=True), strict=True)
            self._stops = [tuple(map(add, *axis)) for axis in extents]
            self._root = self._node(self._root)

    def find(self, origin: Sequence[int], shape: Sequence[int]) -> list[int]:
        """Every box that meets the one at `origin`, and perhaps others."""
        found: list[int] = []
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, _Parts):
                axis, starts, stops, parts, single = node
                start = origin[axis]
                first = bisect_right(stops, start)
                last = bisect_left(starts, start + shape[axis], first)
                if single:
                    found += single[first:last]
                else:
                    waiting += parts[first:last]
            elif isinstance(node, _Halves):
                query = zip(origin, shape, node.bounds, strict=True)
                if all(low < stop and start < low + extent for low, extent, (start, stop) in query):
                    waiting += node.halves
            else:
                found += node
        return found

    def is_disjoint(self) -> bool:
        """Whether no two of the boxes overlap."""
        return self._is_certain or all(
            self._num_met(index) == 1 for index in range(len(self.boxes))
        )

    def _num_met(self, index: int) -> int:
        box = self.boxes[index]
        origin, stop = box.origin, box.stop
        axes = list(zip(origin, stop, self._starts, self._stops, strict=True))
        return sum(
            all(low < stops[other] and starts[other] < high for low, high, starts, stops in axes)
            for other in self.find(origin, box.shape)
        )

    def _node(self, members: list[int], first_axis: int = 0) -> _Node:
        """Set boxes apart, along `first_axis` if it can be."""
        if len(members) < 2:
            return members
        enough = max(len(members) // 2, SMALL)
        num_axes = len(self._starts)
        for axis in (*range(first_axis, num_axes), *range(first_axis)):
            parts, stops = self._apart(members, axis)
            if len(parts) > 1 and max(map(len, parts)) <= enough:
                return self._parts(axis, parts, stops)
        self._is_certain = False
        return self._halves(members, [*self._starts, *self._stops], 0)

    def _apart(self, members: list[int], axis: int) -> tuple[list[list[int]], list[int]]:
        """Members in parts that do not meet along an axis, and where each part stops."""
        starts, stops = self._starts[axis], self._stops[axis]
        parts: list[list[int]] = []
        ends: list[int] = []
        end = -1
        for index in sorted(members, key=starts.__getitem__):
            stop = stops[index]
            if starts[index] >= end:
                parts.append([index])
                ends.append(stop)
                end = stop
            else:
                parts[-1].append(index)
                if stop > end:
                    ends[-1] = end = stop
        return parts, ends

    def _parts(self, axis: int, parts: list[list[int]], stops: list[int]) -> _Parts:
        starts = [self._starts[axis][part[0]] for part in parts]
        if len(parts) == sum(map(len, parts)):
            return _Parts(axis, starts, stops, [], [index for part in parts for index in part])
        # The boxes of one part hang together on this axis: the next comes first.
        return _Parts(axis, starts, stops, [self._node(part, axis + 1) for part in parts], [])

    def _halves(
        self, members: list[int], columns: list[tuple[int, ...]], turn: int
    ) -> _Halves | list[int]:
        """Halve boxes by one column of numbers after the other, down to single ones."""
        if len(members) < 2 or not columns:
            return members
        members.sort(key=columns[turn % len(columns)].__getitem__)
        middle = len(members) // 2
        bounds = [
            (min(map(starts.__getitem__, members)), max(map(stops.__getitem__, members)))
            for starts, stops in zip(self._starts, self._stops, strict=True)
        ]
        halves = members[:middle], members[middle:]
        return _Halves(bounds, [self._halves(half, columns, turn + 1) for half in halves])
