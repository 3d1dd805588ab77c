"""Batches of one segment of any shape and strides, fixed and drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pytest_affine.conformance._batches import Batch
from pytest_affine.contract.cases import Case
from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferPlan, TransferSegment

__all__ = ["batch_of_segment", "segment_cases"]


def batch_of_segment(detail: Mapping[str, Any]) -> Batch:
    """One segment from process 0 to process 1, as a case of kind "segment" has it."""
    shape = tuple(detail["shape"])
    source, target = (
        (offset, tuple(strides)) for offset, strides in (detail["source"], detail["target"])
    )
    segment = TransferSegment(
        source_location=0,
        source_offset=source[0],
        source_strides=source[1],
        target_location=0,
        target_offset=target[0],
        target_strides=target[1],
        shape=shape,
    )
    num_elements = math.prod(shape)
    sizes = [{0: offset + reach(shape, strides)} for offset, strides in (source, target)]
    plan = TransferPlan((segment,), (num_elements,), sizes[0], sizes[1], num_elements)  # type: ignore[arg-type]
    return Batch(
        plans={"weight": plan},
        endpoints=TransferEndpoints({0: 0}, {0: 1}),
        sizes={"weight": 4},
        budget=StagingBudget(),
    )


def reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The elements from the first to the last of a region."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


@st.composite
def _segments(draw: DrawFn) -> Case:
    shape = draw(st.lists(st.integers(1, 3), max_size=5))
    sides = {
        side: [draw(st.integers(0, 3)), draw(_strides(shape))] for side in ("source", "target")
    }
    return Case(name="drawn", kind="segment", detail={"shape": shape, **sides})


def _strides(shape: list[int]) -> SearchStrategy[list[int]]:
    """Strides that give each element an address: axes in any order, with gaps or without."""
    order = st.permutations(range(len(shape)))
    gaps = st.lists(st.integers(0, 2), min_size=len(shape), max_size=len(shape))
    idle = st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape))
    packed = st.tuples(st.just([*range(len(shape))]), st.just([0] * len(shape)), idle)
    return (packed | st.tuples(order, gaps, idle)).map(lambda drawn: _spread(shape, *drawn))


def _spread(shape: list[int], order: list[int], gaps: list[int], idle: list[int]) -> list[int]:
    """`order` lists axes slowest first; an axis of extent 1 has a stride that means nothing."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        step += gaps[axis]
        strides[axis] = idle[axis] if shape[axis] == 1 else step
        step *= shape[axis]
    return strides


def segment_cases(num_processes: int) -> SearchStrategy[Case]:
    """Drawn segments, as cases of the suite; they go between two processes of any number."""
    return _segments()
