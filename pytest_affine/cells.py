"""A tensor cut up by any boxes, overlapping or not, into cells that the same boxes cover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from pytest_affine.geometry import PlacedBox

__all__ = ["Cell", "cells"]


class Cell(NamedTuple):
    """A box of a tensor throughout which the same boxes overlap."""

    origin: tuple[int, ...]
    shape: tuple[int, ...]
    covered_by: tuple[int, ...]


def cells(boxes: Sequence[PlacedBox], shape: Sequence[int]) -> Iterator[Cell]:
    """Cut a tensor so that each cell is covered by the same boxes throughout.

    Args:
        boxes: any boxes inside the tensor, overlapping or not.
        shape: extents of the tensor.

    Yields:
        Cells that tile the tensor; `covered_by` holds indices of `boxes`.
    """
    yield from _sweep(boxes, tuple(range(len(boxes))), shape, Cell((), (), ()))


def _sweep(
    boxes: Sequence[PlacedBox], present: Sequence[int], shape: Sequence[int], slab: Cell
) -> Iterator[Cell]:
    axis = len(slab.origin)
    if axis == len(shape):
        yield slab._replace(covered_by=tuple(sorted(present)))
        return
    starts = {index: boxes[index].origin[axis] for index in present}
    ends = {index: start + boxes[index].shape[axis] for index, start in starts.items()}
    waiting = sorted(present, key=starts.__getitem__, reverse=True)
    active: list[int] = []
    for low, high in pairwise(sorted({0, shape[axis], *starts.values(), *ends.values()})):
        active = [index for index in active if ends[index] > low]
        while waiting and starts[waiting[-1]] == low:
            active.append(waiting.pop())
        inner = Cell((*slab.origin, low), (*slab.shape, high - low), ())
        yield from _sweep(boxes, active, shape, inner)
