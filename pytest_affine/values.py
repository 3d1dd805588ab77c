"""Checked conversions that the value classes share; every error names the field."""

import contextlib
import operator
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex, TypeVar

from pytest_affine.errors import InvalidMapError

__all__ = ["integer", "integers", "json_field", "location_key", "number", "pairs_by_location"]

Value = TypeVar("Value")


def integer(value: object, field: str) -> int:
    """Return `value` as a plain int; refuse booleans, fractions and everything else."""
    if type(value) is int:
        return value  # almost always, and far quicker than what follows
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        with contextlib.suppress(TypeError):  # as float tensors raise, though they have __index__
            return operator.index(value)
    raise InvalidMapError(f"{field} must be an integer, got {value!r}")


def number(value: object, field: str) -> float:
    """Return a number as a float, which may be infinite or no number; refuse booleans."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # an integer beyond what a float can hold
            return float(value)
    raise InvalidMapError(f"{field} must be a number, got {value!r}")


def integers(values: object, field: str) -> tuple[int, ...]:
    """Return a sequence of integers as a tuple of plain ints."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidMapError(f"{field} must be a sequence of integers, got {values!r}")
    found = tuple(values)
    if all(type(value) is int for value in found):
        return found
    return tuple(integer(value, f"{field}[{axis}]") for axis, value in enumerate(found))


def pairs_by_location(
    values: Mapping[int, Value] | Iterable[tuple[int, Value]], field: str
) -> tuple[tuple[int, Value], ...]:
    """Return a mapping, or its pairs, as pairs sorted by location."""
    by_location: dict[int, Value] = {}
    try:
        pairs = list(values.items() if isinstance(values, Mapping) else values)
        by_index = [(location, value) for location, value in pairs]
    except (TypeError, ValueError):
        raise InvalidMapError(
            f"{field} must be a mapping by location or (location, value) pairs, got {values!r}"
        ) from None
    for location, value in by_index:
        key = integer(location, f"a location of {field}")
        if key in by_location:
            raise InvalidMapError(f"{field} names location {key} twice")
        by_location[key] = value
    return tuple(sorted(by_location.items(), key=lambda pair: pair[0]))


def location_key(key: object, field: str) -> int:
    """Return a key of a JSON object by location, which may be str or int, as a location."""
    if isinstance(key, str) and key.isascii() and key.isdecimal():
        return int(key)
    if isinstance(key, str) or integer(key, f"a key of {field}") < 0:
        raise InvalidMapError(f"{field} must have locations (0, 1, ...) as keys, got {key!r}")
    return integer(key, f"a key of {field}")


def json_field(entry: object, key: str, kind: type[Value], where: str) -> Value:
    """Return `entry[key]`, which must be there and of the JSON type `kind`."""
    if not isinstance(entry, Mapping):
        raise InvalidMapError(f"{where} must be a JSON object, got {entry!r}")
    if key not in entry:
        raise InvalidMapError(f"{where} lacks the key {key!r}; it has {sorted(map(str, entry))}")
    value: Any = entry[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidMapError(f"{where}.{key} must be {JSON_NAMES[kind]}, got {value!r}")
    return value


JSON_NAMES: dict[type, str] = {
    dict: "a JSON object",
    int: "an integer",
    list: "a JSON array",
    str: "a string",
}
