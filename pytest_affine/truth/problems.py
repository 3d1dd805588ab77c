"""What is wrong with a map or a plan, and where: boxes of a shard rather than single elements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.geometry import row_major_strides
from pytest_affine.truth.blocks import Block
from pytest_affine.truth.digits import Chart, charts_of

__all__ = ["Box", "Finding", "Problem", "boxes_of", "index_at", "located"]

MAX_BOXES = 64
"""A region that takes more boxes of a shard is given by the box around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One breach of one rule.

    Attributes:
        rule: id of the rule in the specification.
        kind: what happened, in a word or two.
        location: whose shard is affected (of a plan: whose target shard); None for the full tensor,
            or for what is about no shard.
        origin: index, in the shard's own axes, of the first affected element. What lies outside a
            shard goes on along its first axis.
        shape: extents of the affected box in the same axes.
        num_elements: how many elements are affected. Less than the box holds where the elements
            form no few boxes and this is the box around them; 0 where no element is.
        example: one affected element, or the number that is wrong, in words.
    """

    rule: str
    kind: str
    location: int | None = None
    origin: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    num_elements: int = 0
    example: str

    @property
    def is_exact(self) -> bool:
        """Whether every element of the box is affected."""
        return self.num_elements == math.prod(self.shape)

    def __str__(self) -> str:
        """One line: rule, kind, where, how many, and the example."""
        if not self.num_elements:
            return f"{self.rule} {self.kind}: {self.example}"
        space = "full tensor" if self.location is None else f"location {self.location}"
        ends = (
            f"{low}:{low + extent}" for low, extent in zip(self.origin, self.shape, strict=True)
        )
        some = "" if self.is_exact else "some "
        noun = "element" if self.num_elements == 1 else "elements"
        return (
            f"{self.rule} {self.kind}: {space} [{', '.join(ends)}], "
            f"{some}{self.num_elements} {noun}; {self.example}"
        )


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a shard, and how many of its elements are meant."""

    origin: tuple[int, ...]
    shape: tuple[int, ...]
    num_elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A breach found at the elements of one block."""

    rule: str
    kind: str
    block: Block
    example: str


def index_at(address: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major index of an address; one outside goes on along the first axis."""
    index = []
    for stride in row_major_strides(shape):
        step, address = divmod(address, stride)
        index.append(step)
    return tuple(index)


def located(
    findings: Iterable[Finding], location: int | None, shape: tuple[int, ...]
) -> list[Problem]:
    """Problems from the findings in one space, by rule, kind and origin; boxes that touch joined.

    Args:
        findings: of one space, no element twice for one rule and kind.
        location: whose shard the space is; None for the full tensor.
        shape: the shape of the space.
    """
    boxes: dict[tuple[str, str], list[Problem]] = {}
    for finding in findings:
        found = boxes.setdefault((finding.rule, finding.kind), [])
        for box in boxes_of(finding.block, shape):
            problem = Problem(
                rule=finding.rule,
                kind=finding.kind,
                location=location,
                origin=box.origin,
                shape=box.shape,
                num_elements=box.num_elements,
                example=finding.example,
            )
            found.append(problem)
    return [problem for key in sorted(boxes) for problem in _joined(boxes[key], len(shape))]


def boxes_of(block: Block, shape: tuple[int, ...]) -> list[Box]:
    """The addresses of a block as boxes of a shard; the one box around them if it takes many."""
    if not shape:
        return [Box((), (), block.num_elements)]
    strides = row_major_strides(shape)
    axes = [axis for axis, extent in enumerate(shape) if axis == 0 or extent > 1]
    grid = tuple(strides[axis] for axis in reversed(axes))
    try:
        charts = charts_of(replace(block, far=()), grid, MAX_BOXES)
    except UnsupportedLayoutError:
        return [_box_around(block, shape)]
    return [_box(chart, axes, len(shape)) for chart in charts]


def _box(chart: Chart, axes: list[int], num_axes: int) -> Box:
    origin, shape = [0] * num_axes, [1] * num_axes
    for axis, lower, upper in zip(reversed(axes), chart.lower, chart.upper, strict=True):
        origin[axis], shape[axis] = lower, upper - lower
    return Box(tuple(origin), tuple(shape), math.prod(shape))


def _box_around(block: Block, shape: tuple[int, ...]) -> Box:
    first = index_at(block.near.offset, shape)
    last = index_at(block.near.at(extent - 1 for extent in block.shape), shape)
    axis = next(axis for axis, start in enumerate(first) if start != last[axis])
    inner = shape[axis + 1 :]
    origin = (*first[: axis + 1], *(0 for _ in inner))
    extents = (*(1 for _ in first[:axis]), last[axis] - first[axis] + 1, *inner)
    return Box(origin, extents, block.num_elements)


def _joined(problems: list[Problem], num_axes: int) -> list[Problem]:
    for axis in reversed(range(num_axes)):
        problems = _joined_along(problems, axis)
    return sorted(problems, key=lambda problem: (problem.origin, problem.shape))


def _joined_along(problems: list[Problem], axis: int) -> list[Problem]:
    def others(problem: Problem) -> tuple[object, ...]:
        inner, shape = slice(axis + 1, None), problem.shape
        return problem.origin[:axis], problem.origin[inner], shape[:axis], shape[inner]

    joined: list[Problem] = []
    for problem in sorted(problems, key=lambda problem: (others(problem), problem.origin[axis])):
        last = joined[-1] if joined else problem
        touch = last.origin[axis] + last.shape[axis] == problem.origin[axis]
        if touch and last.is_exact and problem.is_exact and others(last) == others(problem):
            extents = (*last.shape[:axis], last.shape[axis] + problem.shape[axis])
            joined[-1] = replace(
                last,
                shape=(*extents, *last.shape[axis + 1 :]),
                num_elements=last.num_elements + problem.num_elements,
            )
        else:
            joined.append(problem)
    return joined
