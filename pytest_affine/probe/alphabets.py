"""Digits that a dtype carries exactly, and two values of it that are no digits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from pytest_affine.errors import UnsupportedLayoutError

__all__ = ["Alphabet", "alphabet_of", "dtype_named", "name_of"]


@dataclass(frozen=True, slots=True)
class Alphabet:
    """What the elements of one dtype hold during a probe.

    Attributes:
        width: digits are the integers of so many bits.
        poison: what targets hold before each run.
        padding: what padding of sources holds. Neither is a digit, but in bool.
    """

    width: int
    poison: float
    padding: float


# Integers of one bit more than a float's mantissa has are exact. More than 31 are of no use.
_WIDTHS = {
    torch.float64: 31,
    torch.float32: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
    torch.float8_e4m3fn: 4,
    torch.float8_e4m3fnuz: 4,
    torch.float8_e5m2: 3,
    torch.float8_e5m2fnuz: 3,
}
_ALPHABETS = {
    **{dtype: Alphabet(width, -1, math.nan) for dtype, width in _WIDTHS.items()},
    **{dtype: Alphabet(31, -1, -2) for dtype in (torch.int64, torch.int32)},
    torch.int16: Alphabet(15, -1, -2),
    torch.int8: Alphabet(7, -1, -2),
    torch.uint8: Alphabet(7, 255, 254),
    torch.bool: Alphabet(1, 0, 0),
}


def alphabet_of(dtype: torch.dtype) -> Alphabet:
    """The alphabet of a dtype; `UnsupportedLayoutError` for one that has none."""
    if dtype not in _ALPHABETS:
        known = ", ".join(sorted(map(name_of, _ALPHABETS)))
        raise UnsupportedLayoutError(
            f"a probe can't write numbers into elements of {name_of(dtype)}; it can into {known}"
        )
    return _ALPHABETS[dtype]


def dtype_named(dtype: torch.dtype | str) -> torch.dtype:
    """A dtype by its torch attribute name; one that is no name is taken as it is."""
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise UnsupportedLayoutError(f"a dtype must be one of torch's, or its name, got {dtype!r}")
    return found


def name_of(dtype: torch.dtype) -> str:
    """The name of a dtype, such as `bfloat16`."""
    return str(dtype).removeprefix("torch.")
