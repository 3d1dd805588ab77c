"""Elements in words: names, coordinates, and what tells two of them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pytest_affine.geometry import row_major_strides, unravel
from pytest_affine.layouts import Expert, Fused, Interleaved, Parameter

__all__ = ["Parts", "difference", "kind_of_names", "parts_of", "place"]

_NUMBER = re.compile(r"\d+")


def place(name: str, shape: Sequence[int], address: int) -> str:
    """An element by the name of its parameter and its index: `layers.0.weight[3, 0]`."""
    return f"{name}{list(unravel(address, shape))}"


def difference(wanted: str, delivered: str) -> str:
    """How two names differ: `expert 1 wanted, expert 0 delivered`, if by one number."""
    word, numbers = _one_number(wanted, delivered)
    if numbers is None:
        return f"{wanted} wanted, {delivered} delivered"
    return f"{word} {numbers[0]} wanted, {word} {numbers[1]} delivered"


def kind_of_names(wanted: str, delivered: str) -> str:
    """What another parameter is: another expert, another layer, or just another parameter."""
    word, _ = _one_number(wanted, delivered)
    return f"another {word}" if word in ("expert", "layer") else "another parameter"


def _one_number(one: str, other: str) -> tuple[str, tuple[str, str] | None]:
    """The word before the one number in which two names differ, and the two numbers."""
    numbers = [*zip(_NUMBER.finditer(one), _NUMBER.finditer(other), strict=False)]
    differing = [pair for pair in numbers if pair[0][0] != pair[1][0]]
    if len(differing) != 1 or _NUMBER.sub("", one) != _NUMBER.sub("", other):
        return "", None
    first, second = differing[0]
    words = re.findall(r"[A-Za-z_]+", one[: first.start()])
    word = words[-1].rstrip("_") if words else "number"
    return _singular(word), (first[0], second[0])


def _singular(word: str) -> str:
    for known in ("expert", "layer"):
        if known in word or (known == "layer" and word in ("h", "blocks", "block")):
            return known
    return word


@dataclass(frozen=True, slots=True)
class Parts:
    """The named parts of a parameter: the blocks of a fused one, or experts.

    Attributes:
        noun: what they are, "block" or "expert".
        names: by number.
        numbers: the number of the part that each index of the axis is in.
        stride: of that axis in the full tensor.
    """

    noun: str
    names: tuple[str, ...]
    numbers: torch.Tensor
    stride: int

    def of(self, addresses: torch.Tensor) -> torch.Tensor:
        """The number of the part in which each row-major address is."""
        return self.numbers[addresses // self.stride % len(self.numbers)]


def parts_of(parameter: Parameter | None) -> Parts | None:
    """The named parts of a parameter, if it has any."""
    if parameter is None or not isinstance(kind := parameter.kind, Expert | Fused | Interleaved):
        return None
    extent, stride = parameter.shape[kind.dim], row_major_strides(parameter.shape)[kind.dim]
    if isinstance(kind, Expert):
        names = tuple(f"expert {number}" for number in range(kind.num_experts))
        sizes = [extent // kind.num_experts] * kind.num_experts
    else:
        names = tuple(block.name for block in kind.blocks)
        sizes = [block.size for block in kind.blocks]
    group = torch.repeat_interleave(torch.tensor(sizes))
    noun = "expert" if isinstance(kind, Expert) else "block"
    return Parts(noun, names, group.repeat(extent // len(group)), stride)
