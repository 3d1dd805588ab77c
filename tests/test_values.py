import enum
import re
from fractions import Fraction
from typing import Any

import pytest
import torch

from pytest_affine.errors import InvalidMapError
from pytest_affine.values import (
    integer,
    integers,
    json_field,
    location_key,
    number,
    pairs_by_location,
)


class Level(enum.IntEnum):
    HIGH = 3


def refuses(message: str) -> Any:
    return pytest.raises(InvalidMapError, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize("value", [3, Level.HIGH, torch.tensor(3)])
def test_an_integer_of_any_kind_becomes_a_plain_int(value: Any) -> None:
    result = integer(value, "size")
    assert result == 3
    assert type(result) is int


@pytest.mark.parametrize("value", [True, 2.0, "2", None, Fraction(2), int, torch.tensor(2.5)])
def test_what_is_no_integer_is_refused(value: Any) -> None:
    with refuses(f"size must be an integer, got {value!r}"):
        integer(value, "size")


@pytest.mark.parametrize("value", [2, 2.0, float("inf")])
def test_a_number_becomes_a_float(value: Any) -> None:
    result = number(value, "scale")
    assert result == value
    assert type(result) is float


@pytest.mark.parametrize("value", [True, "1", None, 1j, 10**400])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with refuses(f"scale must be a number, got {value!r}"):
        number(value, "scale")


@pytest.mark.parametrize("values", [[1, 2], (1, 2), range(1, 3), torch.Size([1, 2])])
def test_a_sequence_of_integers_becomes_a_tuple(values: Any) -> None:
    assert integers(values, "shape") == (1, 2)
    assert type(integers(values, "shape")) is tuple


@pytest.mark.parametrize("values", ["12", b"12", 12, None, {1: 2}])
def test_what_is_no_sequence_of_integers_is_refused(values: Any) -> None:
    with refuses(f"shape must be a sequence of integers, got {values!r}"):
        integers(values, "shape")


def test_a_wrong_entry_of_a_sequence_is_named() -> None:
    with refuses("shape[1] must be an integer, got 2.5"):
        integers([1, 2.5], "shape")


@pytest.mark.parametrize("values", [{2: "b", 0: "a"}, [(2, "b"), (0, "a")], ((0, "a"), (2, "b"))])
def test_mappings_and_pairs_become_pairs_sorted_by_location(values: Any) -> None:
    assert pairs_by_location(values, "shapes") == ((0, "a"), (2, "b"))


def test_a_location_that_is_named_twice_is_refused() -> None:
    with refuses("shapes names location 1 twice"):
        pairs_by_location([(1, "a"), (1, "b")], "shapes")


def test_a_location_that_is_no_integer_is_refused() -> None:
    with refuses("a location of shapes must be an integer, got '0'"):
        pairs_by_location({"0": "a"}, "shapes")  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [None, 3, [1, 2], [(1, 2, 3)]])
def test_what_is_neither_mapping_nor_pairs_is_refused(values: Any) -> None:
    with refuses(
        f"shapes must be a mapping by location or (location, value) pairs, got {values!r}"
    ):
        pairs_by_location(values, "shapes")


@pytest.mark.parametrize(("key", "location"), [("0", 0), ("12", 12), (12, 12)])
def test_location_keys_may_be_strings_or_integers(key: Any, location: int) -> None:
    assert location_key(key, "ranks") == location


@pytest.mark.parametrize("key", ["-1", "1.0", "", " 1", "one", "\N{ARABIC-INDIC DIGIT ONE}", -1])
def test_a_key_that_names_no_location_is_refused(key: Any) -> None:
    with refuses(f"ranks must have locations (0, 1, ...) as keys, got {key!r}"):
        location_key(key, "ranks")


@pytest.mark.parametrize("key", [1.0, True, None])
def test_a_key_of_another_type_is_refused(key: Any) -> None:
    with refuses(f"a key of ranks must be an integer, got {key!r}"):
        location_key(key, "ranks")


@pytest.mark.parametrize(
    ("kind", "value"), [(dict, {}), (list, [1]), (int, 0), (str, "")], ids=lambda value: str(value)
)
def test_a_json_field_of_the_right_type_is_returned(kind: Any, value: Any) -> None:
    assert json_field({"key": value}, "key", kind, "map") == value


@pytest.mark.parametrize(
    ("kind", "value", "name"),
    [
        (dict, [], "a JSON object"),
        (list, (1,), "a JSON array"),
        (int, 1.0, "an integer"),
        (int, True, "an integer"),
        (str, 1, "a string"),
    ],
)
def test_a_json_field_of_the_wrong_type_is_named(kind: Any, value: Any, name: str) -> None:
    with refuses(f"map.key must be {name}, got {value!r}"):
        json_field({"key": value}, "key", kind, "map")


def test_a_missing_json_field_is_named_beside_those_that_are_there() -> None:
    with refuses("map lacks the key 'key'; it has ['1', 'other']"):
        json_field({"other": 0, 1: 0}, "key", int, "map")


def test_a_json_value_that_is_no_object_is_refused() -> None:
    with refuses("map must be a JSON object, got [1]"):
        json_field([1], "key", int, "map")
