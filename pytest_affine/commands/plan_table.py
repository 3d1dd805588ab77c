"""What planning a model came to: a row per kind of parameter, and totals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import itemgetter
from typing import TypeAlias

from pytest_affine.commands.model_batch import ModelBatch
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferPlan, TransferReport

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
    """The table and its totals; times are seconds.

    `busiest` has, by direction, the process that moves most and its bytes; `paths` have bytes and
    messages.
    """

    model: str
    source: str
    target: str
    rows: tuple[Row, ...]
    parameters: int
    elements: int
    segments: int
    moved_bytes: int
    local_bytes: int
    processes: int
    first_target_process: int
    rounds: int
    messages: int
    busiest: dict[str, tuple[int, int]]
    paths: dict[str, tuple[int, int]]
    describe_seconds: float
    plan_seconds: float
    analyze_seconds: float


Shape: TypeAlias = tuple[int, ...]
Shards: TypeAlias = tuple[int, Shape]


def planned_model(
    batch: ModelBatch, report: TransferReport, analyze_seconds: float
) -> PlannedModel:
    """Sum up a batch and its analysis, which took so many seconds."""
    plans, own = batch.plans, report.processes
    return PlannedModel(
        model=batch.model,
        source=batch.degrees[0],
        target=batch.degrees[1],
        rows=_rows(batch),
        parameters=len(plans),
        elements=sum(prod(plan.logical_shape) for plan in plans.values()),
        segments=report.num_segments,
        moved_bytes=report.volume.num_bytes,
        local_bytes=report.volume.local_bytes,
        processes=len(own),
        first_target_process=batch.endpoints.target[0][1],
        rounds=report.num_rounds,
        messages=sum(process.num_sent_messages for process in own.values()),
        busiest={
            "sends": _largest({p: own[p].sent_bytes for p in own}),
            "receives": _largest({p: own[p].received_bytes for p in own}),
        },
        paths=dict(report.paths),
        describe_seconds=batch.describe_seconds,
        plan_seconds=batch.plan_seconds,
        analyze_seconds=analyze_seconds,
    )


def _largest(num_bytes: Mapping[int, int]) -> tuple[int, int]:
    return max(num_bytes.items(), key=itemgetter(1))


def _rows(batch: ModelBatch) -> tuple[Row, ...]:
    plans, element_size = batch.plans, batch.element_size
    bound = dict(batch.endpoints.source), dict(batch.endpoints.target)
    groups: dict[tuple[str, Shape, Shards, Shards], list[str]] = {}
    for name, plan in plans.items():
        pattern = re.sub(r"(?<=\.)\d+(?=\.)", "*", name)
        source, target = map(_shards, batch.pairs[name])
        groups.setdefault((pattern, plan.logical_shape, source, target), []).append(name)
    rows = []
    for (pattern, shape, source, target), names in groups.items():
        moved = [_moved_bytes(plans[name], *bound, element_size[name]) for name in names]
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
    return tuple(rows)


def _shards(map_: ParamAffineMap) -> Shards:
    """How many shards a map has, and the largest one's shape."""
    return len(map_.shard_shapes), max((shape for _, shape in map_.shard_shapes), key=prod)


def _moved_bytes(
    plan: TransferPlan, sources: Mapping[int, int], targets: Mapping[int, int], element_size: int
) -> tuple[int, int]:
    """What a plan's segments copy, and what of it stays in its process."""
    local = sum(
        segment.num_elements
        for segment in plan.segments
        if sources[segment.source_location] == targets[segment.target_location]
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
    first = planned.first_target_process
    numbering = (
        f"target rank r is process {first} + r" if first else "rank r is process r on both sides"
    )
    return [
        f"{planned.model}, {planned.source} to {planned.target}: "
        f"{planned.parameters:,} parameters, {planned.elements:,} elements",
        f"{planned.segments:,} segments move {_bytes(planned.moved_bytes)} "
        f"({planned.moved_bytes:,} bytes), {_bytes(planned.local_bytes)} of it within a process",
        f"{planned.processes:,} processes, where {numbering}, exchange {planned.messages:,} "
        f"messages in {planned.rounds:,} rounds",
        *(
            f"process {process:,} {direction} most, {_bytes(num_bytes)}"
            for direction, (process, num_bytes) in planned.busiest.items()
        ),
        *(
            f"path {label}: {_bytes(num_bytes)} in {num_messages:,} messages"
            for label, (num_bytes, num_messages) in planned.paths.items()
        ),
        f"maps took {planned.describe_seconds:.1f} s, plans {planned.plan_seconds:.1f} s, "
        f"analysis {planned.analyze_seconds:.1f} s",
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
