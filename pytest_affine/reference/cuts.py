"""How segments of one form are cut into chunks; by arithmetic, as there may be very many."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final, NamedTuple

from pytest_affine.reference.widths import Width

__all__ = ["SOURCE", "TARGET", "Box", "Cut", "Cuts", "Load"]

Ints = tuple[int, ...]
Box = tuple[Ints, Ints]
"""Origin and shape of a chunk in its segment's own axes."""


SOURCE: Final = 0
TARGET: Final = 1


class Load(NamedTuple):
    """What a chunk or a message carries.

    Attributes:
        num_elements: elements of all its chunks.
        num_bytes: their bytes.
        direct: at SOURCE and at TARGET, whether it is one chunk whose region there is packed and
            has the dtype that is sent.
    """

    num_elements: int
    num_bytes: int
    direct: tuple[bool, bool]


@dataclass(frozen=True, eq=False, kw_only=True)
class Cut:
    """How every segment of one form is cut: in rows of equal chunks, the last of which may be less.

    No two neighbours fit into one message, as the first and a part of the second would have been
    one chunk. So whatever comes before or after, all chunks but the first and the last are messages
    of their own.

    Attributes:
        shape: extents of the segment.
        steps: extents of a chunk, unless it is the last of its row.
        num_chunks: none if the segment has no elements.
        row_length: chunks of a row.
        element_size: bytes per element on the wire.
        first: load of every chunk that is not the last of its row.
        last: load of the last chunk of a row.
    """

    shape: Ints
    steps: Ints
    num_chunks: int
    row_length: int
    element_size: int
    first: Load
    last: Load

    @property
    def num_elements(self) -> int:
        """Elements of a segment."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes of a segment."""
        return self.num_elements * self.element_size

    @property
    def inner_loads(self) -> Counter[Load]:
        """How many of the chunks but the first and the last carry what; found without a loop."""
        num_rows = self.num_chunks // self.row_length
        inner = Counter({self.first: self.num_chunks - num_rows - 1})
        inner[self.last] += num_rows - 1
        return +inner

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """The load of every chunk, in row-major order."""
        row = (*[self.first] * (self.row_length - 1), self.last)
        return row * (self.num_chunks // self.row_length)

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """Every chunk, in row-major order; as many objects as there are chunks."""
        starts = map(range, [0] * len(self.shape), self.shape, self.steps)
        return tuple((origin, self._extents(origin)) for origin in product(*starts))

    def _extents(self, origin: Ints) -> Ints:
        sides = zip(self.steps, self.shape, origin, strict=True)
        return tuple(min(step, extent - start) for step, extent, start in sides)


class Cuts(dict[tuple[Ints, Ints, Ints], Cut]):
    """The cut of each form (shape, source strides, target strides) of one width, made once."""

    def __init__(self, budget_bytes: int, width: Width) -> None:
        super().__init__()
        self._budget_bytes = budget_bytes
        self._width = width

    def __missing__(self, form: tuple[Ints, Ints, Ints]) -> Cut:
        """Cut a form that is new."""
        shape, *sides = form
        element_size = self._width.num_bytes
        steps = _steps(shape, self._budget_bytes // element_size)
        counts = [-(-extent // step) for extent, step in zip(shape, steps, strict=True)]
        axes = zip(shape, steps, counts, strict=True)
        last = tuple(extent - (count - 1) * step for extent, step, count in axes)

        def load(chunk: Ints) -> Load:
            num_elements = math.prod(chunk)
            source, target = (
                _is_packed(chunk, strides) and not casts
                for strides, casts in zip(sides, self._width.casts, strict=True)
            )
            return Load(num_elements, num_elements * element_size, (source, target))

        self[form] = cut = Cut(
            shape=shape,
            steps=steps,
            num_chunks=math.prod(counts),
            row_length=next((count for count in reversed(counts) if count > 1), 1),
            element_size=element_size,
            first=load(steps),
            last=load(last),
        )
        return cut


def _steps(shape: Ints, limit: int) -> Ints:
    """Extents of a full chunk: inner axes whole, then as much of one axis as fits, then ones."""
    steps = [1] * len(shape)
    for axis in reversed(range(len(shape))):
        steps[axis] = max(1, min(shape[axis], limit))
        limit //= steps[axis]  # 1 once an axis is cut
    return tuple(steps)


def _is_packed(shape: Ints, strides: Ints) -> bool:
    """Whether a region is row-major contiguous; along an extent of 1 any stride is right."""
    packed_stride = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != packed_stride:
            return False
        packed_stride *= extent
    return True
