"""What planning a model came to: a row per kind of parameter, and totals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferPlan

__all__ = ["PlannedModel", "Row", "planned_model", "render"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Parameters whose names differ in numbers only, and that are cut alike.

    Attributes:
        parameter: their name, with `*` for numbers that differ.
        count: how many they are.
        shape: the full tensor's.
        source_shards: how many source shards each has.
        source_shape: the largest of these.
        target_shards: the same of the target.
        target_shape: the same of the target.
        segments: of all their plans together.
        moved_bytes: what their segments copy, within a process or between two.
        local_bytes: what of this stays within its process.
    """

    parameter: str
    count: int
    shape: tuple[int, ...]
    source_shards: int
    source_shape: tuple[int, ...]
    target_shards: int
    target_shape: tuple[int, ...]
    segments: int
    moved_bytes: int
    local_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """The table and its totals; times are seconds."""

    model: str
    source: str
    target: str
    rows: tuple[Row, ...]
    parameters: int
    elements: int
    segments: int
    moved_bytes: int
    local_bytes: int
    describe_seconds: float
    plan_seconds: float


Maps: TypeAlias = Mapping[str, ParamAffineMap]
Shape: TypeAlias = tuple[int, ...]
Shards: TypeAlias = tuple[int, Shape]


def planned_model(
    *,
    model: str,
    degrees: tuple[str, str],
    maps: tuple[Maps, Maps],
    plans: Mapping[str, TransferPlan],
    element_size: Mapping[str, int],
    seconds: tuple[float, float],
) -> PlannedModel:
    """Sum up the plans of a model whose rank r is process r on both sides.

    Args:
        model: its name.
        degrees: of the source and of the target.
        maps: by parameter, of the source and of the target.
        plans: by parameter.
        element_size: bytes per element by parameter.
        seconds: what the maps and what the plans took.
    """
    groups: dict[tuple[str, Shape, Shards, Shards], list[str]] = {}
    for name, plan in plans.items():
        pattern = re.sub(r"(?<=\.)\d+(?=\.)", "*", name)
        source, target = (_shards(side[name]) for side in maps)
        groups.setdefault((pattern, plan.logical_shape, source, target), []).append(name)
    rows = []
    for (pattern, shape, source, target), names in groups.items():
        moved = [_moved_bytes(plans[name], element_size[name]) for name in names]
        rows.append(
            Row(
                parameter=pattern,
                count=len(names),
                shape=shape,
                source_shards=source[0],
                source_shape=source[1],
                target_shards=target[0],
                target_shape=target[1],
                segments=sum(len(plans[name].segments) for name in names),
                moved_bytes=sum(all_bytes for all_bytes, _ in moved),
                local_bytes=sum(local_bytes for _, local_bytes in moved),
            )
        )
    return PlannedModel(
        model=model,
        source=degrees[0],
        target=degrees[1],
        rows=tuple(rows),
        parameters=len(plans),
        elements=sum(prod(plan.logical_shape) for plan in plans.values()),
        segments=sum(row.segments for row in rows),
        moved_bytes=sum(row.moved_bytes for row in rows),
        local_bytes=sum(row.local_bytes for row in rows),
        describe_seconds=seconds[0],
        plan_seconds=seconds[1],
    )


def _shards(map_: ParamAffineMap) -> Shards:
    """How many shards a map has, and the largest one's shape."""
    return len(map_.shard_shapes), max((shape for _, shape in map_.shard_shapes), key=prod)


def _moved_bytes(plan: TransferPlan, element_size: int) -> tuple[int, int]:
    """What a plan's segments copy, and what of it stays in its process."""
    local = sum(
        segment.num_elements
        for segment in plan.segments
        if segment.source_location == segment.target_location
    )
    return plan.moved_elements * element_size, local * element_size


def render(planned: PlannedModel) -> str:
    """The table as text, and the totals below it."""
    heads = ("parameter", "", "shape", "source shards", "target shards", "segments", "moved")
    lines = [heads, *(_cells(row) for row in planned.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = []
    for name, *numbers in lines:
        aligned = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
        table.append("  ".join([name.ljust(widths[0]), *aligned]))
    return "\n".join([*table, "", *_totals(planned)])


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.parameter,
        f"x{row.count}",
        _shape(row.shape),
        f"{row.source_shards} of {_shape(row.source_shape)}",
        f"{row.target_shards} of {_shape(row.target_shape)}",
        f"{row.segments:,}",
        _bytes(row.moved_bytes),
    )


def _totals(planned: PlannedModel) -> list[str]:
    return [
        f"{planned.model}, {planned.source} to {planned.target}: "
        f"{planned.parameters:,} parameters, {planned.elements:,} elements",
        f"{planned.segments:,} segments move {_bytes(planned.moved_bytes)} "
        f"({planned.moved_bytes:,} bytes), {_bytes(planned.local_bytes)} of it within a process, "
        f"rank r being process r on both sides",
        f"maps took {planned.describe_seconds:.1f} s, plans {planned.plan_seconds:.1f} s",
    ]


def _shape(shape: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _bytes(number: int) -> str:
    """A number of bytes with three digits or four, and a decimal unit."""
    size, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
