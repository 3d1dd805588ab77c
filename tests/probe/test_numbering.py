"""Numbers as digits, and back."""

import pytest
import torch

from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.probe.alphabets import alphabet_of, dtype_named
from pytest_affine.probe.numbering import Numbering, Run, carry, read_back

FLOATS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_every_digit_is_exact_and_neither_poison_nor_padding(dtype):
    alphabet = alphabet_of(dtype)
    top = 1 << alphabet.width
    digits = torch.tensor([*range(min(top, 64)), top // 2, top - 1])
    carried = digits.to(dtype)
    assert carried.to(torch.int64).tolist() == digits.tolist()
    if dtype != torch.bool:
        others = torch.tensor([alphabet.poison, alphabet.padding], dtype=torch.float64).to(dtype)
        assert not set(others.to(torch.float64).tolist()) & set(digits.tolist())
        assert len(set(others.to(torch.float64).tolist())) == 2


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_a_wider_digit_would_not_be_exact(dtype):
    digits = torch.arange(2 << alphabet_of(dtype).width)
    assert digits.to(dtype).to(torch.int64).tolist() != digits.tolist()


def test_the_issued_bases():
    widths = {torch.bfloat16: 8, torch.float8_e4m3fn: 4, torch.float8_e5m2: 3, torch.bool: 1}
    assert {dtype: alphabet_of(dtype).width for dtype in widths} == widths


def test_a_dtype_that_carries_no_numbers_is_refused():
    with pytest.raises(UnsupportedLayoutError, match="elements of complex64; it can into bfloat16"):
        alphabet_of(torch.complex64)


@pytest.mark.parametrize("dtype", ["bfloat17", 7])
def test_what_is_no_dtype_is_refused(dtype):
    with pytest.raises(UnsupportedLayoutError, match=f"or its name, got {dtype!r}"):
        dtype_named(dtype)


def test_numbers_go_on_from_parameter_to_parameter_those_of_small_digits_first():
    numbering = Numbering({"a": 6, "mask": 3, "b": 2}, {"a": 8, "mask": 1, "b": 8})
    starts = {parameter.name: parameter.start for parameter in numbering.parameters}
    assert starts == {"mask": 0, "a": 3, "b": 9}
    assert [numbering.owner(number).name for number in (0, 2, 3, 8, 9, 10)] == [
        "mask", "mask", "a", "a", "b", "b",
    ]  # fmt: skip
    assert numbering.owners(torch.tensor([2, 3, 10])).tolist() == [0, 1, 2]


def test_an_empty_parameter_owns_no_number():
    numbering = Numbering({"a": 2, "b": 0, "c": 1}, {"a": 8, "b": 8, "c": 8})
    assert [numbering.owner(number).name for number in range(3)] == ["a", "a", "c"]
    assert numbering.owners(torch.arange(3)).tolist() == [0, 0, 2]


@pytest.mark.parametrize(
    ("size", "width", "digits"),
    [
        (1, 8, [0, 0]),
        (256, 8, [0, 0]),
        (257, 8, [0, 0, 1]),
        (10**8, 8, [0, 0, 1, 2, 3]),
        (17, 4, [0, 0, 1]),
        (4, 1, [0, 0, 1, 1]),
    ],
)
def test_the_first_digit_is_carried_twice_and_those_of_a_bool_all(size, width, digits):
    runs = Numbering({"a": size}, {"a": width}).runs
    assert [run.digit for run in runs] == digits
    assert [run.inverted for run in runs] == [number % 2 == 1 for number in range(len(digits))]


def test_no_element_holds_the_same_in_the_first_two_runs():
    numbers = torch.arange(300)
    first, second, _ = Numbering({"a": 300}, {"a": 8}).runs
    assert (carry(numbers.clone(), 8, first) != carry(numbers.clone(), 8, second)).all()


def test_digits_by_hand():
    numbers = torch.tensor([0, 5, 0x1234], dtype=torch.int32)
    assert carry(numbers.clone(), 8, Run(0, 0, False)).tolist() == [0, 5, 0x34]
    assert carry(numbers.clone(), 8, Run(1, 0, True)).tolist() == [255, 250, 0xCB]
    assert carry(numbers.clone(), 8, Run(2, 1, False)).tolist() == [0, 0, 0x12]
    assert carry(numbers.clone(), 8, Run(20, 20, False)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("width", "total"), [(8, 70_000), (4, 70_000), (1, 500), (31, 2**40)])
def test_what_was_carried_is_read_back(width, total):
    numbering = Numbering({"a": total}, {"a": width})
    numbers = torch.tensor([0, 1, 77, total // 2, total - 1])
    values = [carry(numbers.clone(), width, run).to(torch.float64) for run in numbering.runs]
    assert read_back(values, width, numbering.runs, total).tolist() == numbers.tolist()


@pytest.mark.parametrize(
    "values",
    [
        [3, 3, 0],  # the second run must have the complement
        [3.5, 251.5, 0],
        [-1, 256, 0],
        [256, -1, 0],
        [float("nan"), 252, 0],
        [3, 252, 9],  # 9 * 256 + 3 is beyond the last number
    ],
)
def test_what_carries_no_number_is_none(values):
    numbering = Numbering({"a": 300}, {"a": 8})
    tensors = [torch.tensor([value], dtype=torch.float64) for value in values]
    assert read_back(tensors, 8, numbering.runs, 300).tolist() == [-1]
