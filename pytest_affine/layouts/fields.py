"""Reading values from JSON objects and writing them back; every error names the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from inspect import signature
from typing import Any, TypeVar

from pytest_affine.errors import InvalidMapError
from pytest_affine.values import integer

__all__ = ["flag", "one_of", "positive", "read_entry", "records", "text", "write_entry"]

Value = TypeVar("Value")


def text(value: object, field: str) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidMapError(f"{field} must be a string that is not empty, got {value!r}")
    return value


def flag(value: object, field: str) -> bool:
    """True or False, and nothing that merely counts as one of them."""
    if not isinstance(value, bool):
        raise InvalidMapError(f"{field} must be true or false, got {value!r}")
    return value


def positive(value: object, field: str) -> int:
    """An integer of 1 or more."""
    if (number := integer(value, field)) < 1:
        raise InvalidMapError(f"{field} must be 1 or more, got {number}")
    return number


def one_of(value: object, choices: Sequence[str], field: str) -> str:
    """One of the `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidMapError(f"{field} must be one of {list(choices)}, got {value!r}")
    return value


def records(values: object, kind: type[Value], field: str) -> tuple[Value, ...]:
    """A sequence of `kind` that is not empty; JSON objects in it are read."""
    if not isinstance(values, (list, tuple)) or not values:
        raise InvalidMapError(f"{field} must be a list that is not empty, got {values!r}")
    read = []
    for index, value in enumerate(values):
        where = f"{field}[{index}]"
        read.append(value if isinstance(value, kind) else read_entry(kind, value, where))
    return tuple(read)


def read_entry(kind: type[Value], entry: object, where: str) -> Value:
    """The `kind`, a dataclass that checks its own fields, that a JSON object at `where` says.

    Raises:
        InvalidMapError: no object, a key that is missing or unknown, or a field's own error.
    """
    if not isinstance(entry, Mapping):
        raise InvalidMapError(f"{where} must be a JSON object, got {entry!r}")
    known = signature(kind).parameters
    if unknown := [key for key in entry if key not in known]:
        raise InvalidMapError(
            f"{where} has unknown keys {unknown}; the known ones are {list(known)}"
        )
    for name, argument in known.items():
        if argument.default is argument.empty and name not in entry:
            raise InvalidMapError(f"{where} lacks the key {name!r}; it has {sorted(entry)}")
    try:
        return kind(**entry)
    except InvalidMapError as error:
        raise InvalidMapError(f"{where}: {error}") from None


def write_entry(value: object) -> Any:
    """A value as JSON: dataclasses as objects, without the fields that are at their defaults."""
    if isinstance(value, tuple):
        return [write_entry(item) for item in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    held = {field: getattr(value, field.name) for field in fields(value)}  # type: ignore[arg-type]
    return {field.name: write_entry(item) for field, item in held.items() if item != field.default}
