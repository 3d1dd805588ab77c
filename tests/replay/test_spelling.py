"""Expressions make the values that they stand for."""

import enum
import math
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch

from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import AffinePiece
from pytest_affine.plans import StagingBudget
from pytest_affine.replay.spelling import NotSpelledError, Speller


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.Enum):
    RED = "r"


@dataclass(frozen=True)
class Held:
    values: list
    by: dict


def made(value):
    """What the expression for a value gives, with the modules and tensors that it asks for."""
    speller = Speller()
    expression = speller.spell(value)
    space = {}
    for module in ("torch", *speller.modules):
        exec(f"import {module}", space)
    for name, tensor in speller.tensors.items():
        space[name] = eval(tensor, space)
    return eval(expression, space)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        1.5,
        math.inf,
        2j,
        "a 'b' \"c\"\n",
        b"\0",
        ...,
        (),
        (1,),
        [1, (2, 3)],
        {"a": [1], 2: None},
        {1, 2},
        set(),
        frozenset({1}),
        Point(1, 2),
        Colour.RED,
        Held([1], {"k": Point(3, 4)}),
        torch.float8_e4m3fn,
        torch.device("cpu"),
        int,
        Held,
        InvalidMapError,
        StagingBudget(5),
        AffinePiece((2,), 0, (1,), 0, (1,), (0,)),
    ],
    ids=repr,
)
def test_an_expression_makes_an_equal_value(value):
    assert made(value) == value
    assert type(made(value)) is type(value)


def test_a_size_is_spelled_as_a_tuple():
    assert made(torch.Size([2, 3])) == (2, 3)


def test_what_is_no_number_is_spelled():
    assert math.isnan(made(math.nan))


TENSORS = {
    "integers": torch.arange(6, dtype=torch.int16).reshape(2, 3),
    "numbers": torch.tensor([1.5, -0.0, 3e38]),
    "payloads": torch.tensor([0x7FC01234, -1], dtype=torch.int32).view(torch.float32),
    "eight bits": torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn),
    "sixteen bits": torch.tensor([0.1, -7.0], dtype=torch.bfloat16),
    "complex": torch.tensor([1 + 2j, complex(math.nan, -0.0)], dtype=torch.complex64),
    "flags": torch.tensor([True, False]),
    "a scalar": torch.tensor(5.0),
    "nothing": torch.zeros(0, 3),
    "a scalar of bits": torch.tensor(0x7FC01234, dtype=torch.int32).view(torch.float32),
}


@pytest.mark.parametrize("value", TENSORS.values(), ids=TENSORS)
def test_a_tensor_is_made_bit_by_bit(value):
    found = made(value)
    assert (found.dtype, found.shape) == (value.dtype, value.shape)
    assert bits(found) == bits(value)


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def test_a_strided_tensor_keeps_its_strides():
    value = torch.arange(12.0).reshape(3, 4)[:, 1:3]
    found = made(value)
    assert torch.equal(found, value)
    assert found.stride() == (4, 1)


def test_what_was_named_is_spelled_by_its_name():
    speller = Speller()
    held = Held([1], {})
    speller.name(held, "value_1")
    assert speller.spell([held, Held([1], {})]).startswith("[value_1, ")
    speller.name(7, "value_2")
    assert speller.spell(7) == "7"


def test_one_tensor_that_is_given_twice_is_made_once():
    speller = Speller()
    tensor = torch.zeros(2)
    assert speller.spell([tensor, tensor]) == "[tensor_1, tensor_1]"
    assert speller.tensors == {"tensor_1": "torch.tensor([0.0, 0.0], dtype=torch.float32)"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), "an object of builtins.object"),
        ([lambda: 1], "'<lambda>' of test_spelling, which has no global name"),
        (torch.zeros(5000), "a tensor of shape (5000,) on cpu"),
        (torch.zeros(2, device="meta"), "a tensor of shape (2,) on meta"),
    ],
)
def test_what_no_expression_makes_is_named(value, text):
    with pytest.raises(NotSpelledError) as caught:
        Speller().spell(value)
    assert str(caught.value) == text
