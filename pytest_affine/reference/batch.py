"""What every stage asks of a batch: its element sizes, its endpoints, its segments' ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias, TypeVar

from pytest_affine.errors import AffineTransferError
from pytest_affine.plans import TransferEndpoints, TransferPlan, TransferSegment
from pytest_affine.values import integer

__all__ = [
    "ElementSize",
    "Side",
    "at_least",
    "bound_processes",
    "check_segments",
    "checked_sizes",
    "per_parameter",
    "segment_end",
    "shard_sizes",
]

Side: TypeAlias = Literal["source", "target"]
ElementSize: TypeAlias = int | Mapping[str, int]
Value = TypeVar("Value")


def per_parameter(
    value: Value | Mapping[str, Value], plans: Collection[str], what: str
) -> dict[str, Value]:
    """Return one value per parameter, in the batch's order; `what` names it in the error."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(plans, value)
    if missing := [name for name in plans if name not in value]:
        raise AffineTransferError(f"{what} lacks parameters {missing}; it has {list(value)}")
    return {name: value[name] for name in plans}


def checked_sizes(element_size: ElementSize) -> int | dict[str, int]:
    """Return bytes per element as they were given; each is an integer of at least 1."""
    if isinstance(element_size, Mapping):
        return {
            name: at_least(1, size, f"element_size[{name!r}]")
            for name, size in element_size.items()
        }
    return at_least(1, element_size, "element_size")


def bound_processes(endpoints: TransferEndpoints) -> tuple[dict[int, int], dict[int, int]]:
    """Return {location: process} of source and target; a process is an integer of at least 0."""
    sources, targets = (
        {
            location: at_least(0, process, f"endpoints.{side}[{location}]")
            for location, process in pairs
        }
        for side, pairs in (("source", endpoints.source), ("target", endpoints.target))
    )
    return sources, targets


def at_least(least: int, value: object, field: str) -> int:
    """Return an integer that is not smaller than `least`; the error names the field."""
    number = integer(value, field)
    if number < least:
        raise AffineTransferError(f"{field} must be {least} or more, got {number}")
    return number


def check_segments(name: str, plan: TransferPlan, side: Side, processes: Mapping[int, int]) -> None:
    """Refuse locations of a plan that have no endpoint, and segments that are no blocks."""
    locations = {location for location, _ in shard_sizes(plan, side) or ()}
    for index, segment in enumerate(plan.segments):
        location, offset, strides = segment_end(segment, side)
        locations.add(location)
        if len(strides) != len(segment.shape) or min((offset, *strides, *segment.shape)) < 0:
            raise AffineTransferError(
                f"segment {index} of parameter {name!r} is no block of a {side} shard, which has "
                f"a stride per axis and nothing negative: shape {segment.shape}, offset {offset}, "
                f"strides {strides}"
            )
    if unbound := sorted(locations - processes.keys()):
        raise AffineTransferError(
            f"parameter {name!r} has {side} locations {unbound} without an endpoint; "
            f"those bound: {sorted(processes)}"
        )


def shard_sizes(plan: TransferPlan, side: Side) -> tuple[tuple[int, int], ...] | None:
    """Return (location, elements) of one side of a plan, or None where the plan lacks them."""
    return plan.source_sizes if side == "source" else plan.target_sizes


def segment_end(segment: TransferSegment, side: Side) -> tuple[int, int, tuple[int, ...]]:
    """Return location, offset and strides of one side of a segment."""
    if side == "source":
        return segment.source_location, segment.source_offset, segment.source_strides
    return segment.target_location, segment.target_offset, segment.target_strides
