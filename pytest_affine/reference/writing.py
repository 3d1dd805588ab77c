"""Writing a plan down: its segments, and how long its JSON will be.

Values are made column by column, and lengths added up, since a plan may have very many segments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import TypeVar

from pytest_affine.plans import PlanBudget, Sizes, TransferSegment
from pytest_affine.reference.limits import check_limit
from pytest_affine.reference.merging import Copy, Form

__all__ = ["json_bytes", "to_segments", "unchecked", "unchecked_values"]

Value = TypeVar("Value")

BLOCK = 2**10
"""So many segments are counted between two looks at the limit on a plan's bytes."""


def unchecked(kind: type[Value], *fields: object) -> Value:
    """Make a frozen value with slots of its fields in order, without its constructor.

    It would convert and check once more what is right by construction.
    """
    value = object.__new__(kind)
    for name, field in zip(kind.__slots__, fields, strict=True):  # type: ignore[attr-defined]
        object.__setattr__(value, name, field)
    return value


def unchecked_values(kind: type[Value], *columns: Sequence[object]) -> list[Value]:
    """Make many such values, field by field: a sequence for each field, all of one length."""
    values = [object.__new__(kind) for _ in columns[0]]
    for name, column in zip(kind.__slots__, columns, strict=True):  # type: ignore[attr-defined]
        deque(map(getattr(kind, name).__set__, values, column), 0)
    return values


def to_segments(copies: Sequence[Copy]) -> tuple[TransferSegment, ...]:
    """The copies as segments of a plan."""
    if not copies:
        return ()
    target_locations, target_offsets, source_locations, source_offsets, forms = zip(
        *copies, strict=True
    )
    segments = unchecked_values(
        TransferSegment,
        source_locations,
        source_offsets,
        [form.source_strides for form in forms],
        target_locations,
        target_offsets,
        [form.target_strides for form in forms],
        [form.shape for form in forms],
    )
    return tuple(segments)


def json_bytes(
    copies: Sequence[Copy],
    logical_shape: tuple[int, ...],
    sizes: Sequence[Sizes],
    limits: PlanBudget,
) -> int:
    """Length of the canonical JSON of a plan with these copies as its segments.

    Raises:
        PlanLimitError: it is longer than `limits` allows; found out before any of it is written.
    """
    pairs = list(chain(*sizes))
    num_bytes = len('{"logical_shape":[],"segments":[],"source_sizes":{},"target_sizes":{}}')
    num_bytes += _num_digits([*logical_shape, *chain(*pairs)]) + len('"":') * len(pairs)
    num_bytes += sum(map(_num_commas, (logical_shape, copies, *sizes)))
    check_limit(limits, "max_plan_bytes", num_bytes)
    lengths = _Lengths()
    for start in range(0, len(copies), BLOCK):
        *ends, forms = zip(*copies[start : start + BLOCK], strict=True)
        num_bytes += sum(map(lengths.__getitem__, forms)) + _num_digits(list(chain(*ends)))
        check_limit(limits, "max_plan_bytes", num_bytes)
    return num_bytes


class _Lengths(dict[Form, int]):
    """Length of a segment's canonical JSON by its form, locations and offsets left out."""

    def __missing__(self, form: Form) -> int:
        arrays = form.shape, form.source_strides, form.target_strides
        num_bytes = len('{"shape":[],"source":[,,[]],"target":[,,[]]}')
        num_bytes += _num_digits(list(chain(*arrays))) + sum(map(_num_commas, arrays))
        self[form] = num_bytes
        return num_bytes


def _num_commas(items: Sequence[object]) -> int:
    return len(items) - 1 if items else 0


def _num_digits(numbers: list[int]) -> int:
    """How many characters the numbers have in decimal, in all."""
    return len(str(numbers)) - len(", ") * len(numbers) if numbers else 0
