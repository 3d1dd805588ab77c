"""The builders' arguments, checked: plain JSON values in, plain values out.

Every error is an `InvalidMapError` that names the argument, the rule and what was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pytest_affine.errors import InvalidMapError
from pytest_affine.values import integer, integers, location_key, pairs_by_location

__all__ = [
    "IntegersByLocation",
    "axis_of",
    "by_location",
    "check_sum",
    "count",
    "interval",
    "items",
    "named",
    "sizes",
]

IntegersByLocation: TypeAlias = (
    Mapping[int, Sequence[int]] | Mapping[str, Sequence[int]] | Mapping[int | str, Sequence[int]]
)


def count(value: object, field: str) -> int:
    """An integer of 1 or more."""
    if (number := integer(value, field)) < 1:
        raise InvalidMapError(f"{field} must be 1 or more, got {number}")
    return number


def sizes(values: object, field: str) -> tuple[int, ...]:
    """A sequence of integers of 0 or more."""
    numbers = integers(values, field)
    if any(number < 0 for number in numbers):
        raise InvalidMapError(f"{field} must hold integers of 0 or more, got {list(numbers)}")
    return numbers


def items(values: object, field: str, num_items: int | None = None, each: str = "") -> list[Any]:
    """A list that is not empty; of `num_items` entries, one per `each`, where that is given."""
    if not isinstance(values, (list, tuple)):
        raise InvalidMapError(f"{field} must be a list, got {values!r}")
    if num_items is not None and len(values) != num_items:
        raise InvalidMapError(
            f"{field} must have {num_items} entries, one per {each}, got {len(values)}"
        )
    if num_items is None and not values:
        raise InvalidMapError(f"{field} must not be empty")
    return list(values)


def axis_of(dim: object, shape: Sequence[int], field: str) -> int:
    """The axis that `dim` names; a negative one counts from the end."""
    axis, num_axes = integer(dim, field), len(shape)
    if not -num_axes <= axis < num_axes:
        raise InvalidMapError(
            f"{field} must be one of {list(range(-num_axes, num_axes))}, "
            f"the axes of shape {list(shape)}, got {axis}"
        )
    return axis % num_axes


def check_sum(numbers: Sequence[int], total: int, field: str) -> None:
    """Refuse numbers that do not add up to `total`."""
    if sum(numbers) != total:
        raise InvalidMapError(
            f"{field} must sum to {total}, got {list(numbers)}, which sum to {sum(numbers)}"
        )


def by_location(values: object, field: str) -> dict[int, Any]:
    """A mapping by location, not empty, with str or int keys; sorted by location."""
    if not isinstance(values, Mapping):
        raise InvalidMapError(f"{field} must be a mapping by location, got {values!r}")
    if not values:
        raise InvalidMapError(f"{field} must name at least one location")
    pairs = [(location_key(key, field), value) for key, value in values.items()]
    return dict(pairs_by_location(pairs, field))


def interval(value: object, total: int, field: str) -> tuple[int, int]:
    """A pair [start, stop) within [0, total)."""
    bounds = integers(value, field)
    if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1] <= total:
        raise InvalidMapError(
            f"{field} must be [start, stop] with 0 <= start <= stop <= {total}, got {list(bounds)}"
        )
    return bounds[0], bounds[1]


def named(values: object, field: str) -> dict[str, Any]:
    """A mapping by name, or a list of (name, value) pairs; in their order."""
    pairs = list(values.items()) if isinstance(values, Mapping) else values
    by_name: dict[str, Any] = {}
    for pair in items(pairs, field):
        match pair:
            case [str() as name, value] if name not in by_name:
                by_name[name] = value
            case [str() as name, _]:
                raise InvalidMapError(f"{field} names {name!r} twice")
            case _:
                raise InvalidMapError(f"{field} must hold a name and a value each, got {pair!r}")
    return by_name
