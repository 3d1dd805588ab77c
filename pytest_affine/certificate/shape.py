"""Strict reading of a document by its schema, with the keywords of JSON Schema that ours use."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any, NoReturn

__all__ = ["DocumentError", "Schema", "check_shape", "read_json", "shown"]

Schema = Mapping[str, Any]


class DocumentError(ValueError):
    """A file that can't be read or must not be trusted; names the place, the rule, the choices."""


def read_json(text: str, name: str) -> Any:
    """The value of a JSON document; refuses a key that stands twice, and numbers that are none.

    Raises:
        DocumentError: no JSON, which is what a file that was cut short is.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise DocumentError(f"{name} has the key {twice!r} twice in one object")
        return found

    def no_number(word: str) -> NoReturn:
        raise DocumentError(f"{name} has {word}, which is no number of JSON")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=no_number)
    except DocumentError:
        raise
    except (ValueError, RecursionError) as error:  # too many digits or levels are no document
        raise DocumentError(f"{name} is no whole JSON document: {error}") from None


def check_shape(value: object, schema: Schema, where: str) -> None:
    """Check a value against a schema, as deep as it goes.

    Raises:
        DocumentError: names the first place that is not as the schema says, and what it says.
    """
    _check(value, schema, where, schema.get("$defs", {}))


def _check(value: object, schema: Schema, where: str, defs: Schema) -> None:
    if "$ref" in schema:
        schema = defs[schema["$ref"].removeprefix("#/$defs/")]
    _check_type(value, schema, where)
    if "enum" in schema and value not in schema["enum"]:
        choices = ", ".join(map(repr, schema["enum"]))
        raise DocumentError(f"{where} must be one of {choices}, got {shown(value)}")
    if isinstance(value, dict):
        _check_object(value, schema, where, defs)
    elif isinstance(value, list):
        _check_array(value, schema, where, defs)
    elif isinstance(value, str):
        _check_string(value, schema, where)
    elif isinstance(value, (int, float)):
        _check_number(value, schema, where)


TYPES: dict[str, type] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": float,
    "object": dict,
    "string": str,
}


def _check_type(value: object, schema: Schema, where: str) -> None:
    if "type" not in schema:
        return
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if type(value) not in [TYPES[name] for name in names]:
        raise DocumentError(f"{where} must be of type {' or '.join(names)}, got {shown(value)}")


def _check_object(value: dict[str, Any], schema: Schema, where: str, defs: Schema) -> None:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if missing := [key for key in schema.get("required", ()) if key not in value]:
        raise DocumentError(f"{where} lacks {', '.join(map(repr, missing))}")
    for key, held in value.items():
        if key not in known and others is False:
            choices = ", ".join(map(repr, known))
            raise DocumentError(f"{where} has the unknown key {key!r}; the known ones: {choices}")
        if "propertyNames" in schema:
            _check(key, schema["propertyNames"], f"a key of {where}", defs)
        inner = known.get(key, others)
        if isinstance(inner, Mapping):
            _check(held, inner, f"{where}.{key}", defs)


def _check_array(value: list[Any], schema: Schema, where: str, defs: Schema) -> None:
    if len(value) < schema.get("minItems", 0):
        raise DocumentError(f"{where} must have {schema['minItems']} items or more")
    for index, item in enumerate(value):
        _check(item, schema.get("items", {}), f"{where}[{index}]", defs)


def _check_string(value: str, schema: Schema, where: str) -> None:
    if not value.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise DocumentError(f"{where} holds half a character, which no encoding can write")
    if len(value) < schema.get("minLength", 0):
        raise DocumentError(f"{where} must not be empty")
    if not re.search(schema.get("pattern", ""), value):
        raise DocumentError(f"{where} must match {schema['pattern']}, got {shown(value)}")
    if schema.get("format") == "date" and not _is_day(value):
        raise DocumentError(f"{where} must be a day, such as 2026-01-31, got {shown(value)}")


def _check_number(value: float, schema: Schema, where: str) -> None:
    # What is no number is neither more nor less.
    if not value >= schema.get("minimum", -math.inf):
        raise DocumentError(f"{where} must be {schema['minimum']} or more, got {value}")
    if not value <= schema.get("maximum", math.inf):
        raise DocumentError(f"{where} must be {schema['maximum']} or less, got {value}")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def shown(value: object) -> str:
    """A value as a message shows it: its beginning, if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
