"""One number for every source element, and the digit of it that each run of the refit carries.

The parameters are numbered one after the other, so that a number tells parameter and element. Those
of the dtypes with the smallest digits come first, and have small numbers, which take few runs.

The first digit is carried twice, the second time inverted: a refit that delivers what it had
delivered in another run is noticed at every element. A bool carries no value that is no digit, so
each of its digits is carried twice: poison can't be both.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

__all__ = ["Numbered", "Numbering", "Run", "carry", "read_back"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the refit.

    Attributes:
        number: counts from 0.
        digit: which digit of their numbers the sources hold; 0 is the lowest.
        inverted: whether they hold its complement.
    """

    number: int
    digit: int
    inverted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """The numbers of one parameter: `start` plus an element's row-major address.

    Attributes:
        name: of the parameter.
        start: number of its first element.
        num_elements: how many it has.
        width: bits of a digit.
    """

    name: str
    start: int
    num_elements: int
    width: int


class Numbering:
    """The numbers of all parameters, and the runs that carry them.

    Attributes:
        parameters: in the order of their numbers.
        runs: what each run carries.
        total: how many numbers there are.
    """

    def __init__(self, sizes: Mapping[str, int], widths: Mapping[str, int]) -> None:
        """Number parameters of these sizes in elements; widths are bits of a digit."""
        self.parameters: list[Numbered] = []
        self.total = 0
        for name in sorted(sizes, key=lambda name: (widths[name], name)):
            self.parameters.append(
                Numbered(
                    name=name,
                    start=self.total,
                    num_elements=sizes[name],
                    width=widths[name],
                )
            )
            self.total += sizes[name]
        self._by_name = {parameter.name: parameter for parameter in self.parameters}
        self._stops = [parameter.start + parameter.num_elements for parameter in self.parameters]
        most = max(map(_num_digits, self.parameters), default=1)
        always = any(parameter.width == 1 for parameter in self.parameters)
        digits = [digit for digit in range(most) for _ in range(1 + (always or digit == 0))]
        self.runs = [Run(number, digit, number % 2 == 1) for number, digit in enumerate(digits)]

    @property
    def widths(self) -> list[int]:
        """The widths that occur, ascending."""
        return sorted({parameter.width for parameter in self.parameters})

    @property
    def integers(self) -> torch.dtype:
        """The smaller dtype that holds every number."""
        return torch.int32 if self.total < 2**31 else torch.int64

    def of(self, name: str) -> Numbered:
        """The numbers of a parameter."""
        return self._by_name[name]

    def owner(self, number: int) -> Numbered:
        """Whose number this is."""
        return self.parameters[bisect.bisect_right(self._stops, number)]

    def owners(self, numbers: torch.Tensor) -> torch.Tensor:
        """Whose each of these numbers is, as an index of `parameters`."""
        stops = torch.tensor(self._stops, device=numbers.device)
        return torch.searchsorted(stops, numbers, right=True)


def _num_digits(parameter: Numbered) -> int:
    last = max(parameter.start + parameter.num_elements - 1, 1)
    return -(-last.bit_length() // parameter.width)


def carry(numbers: torch.Tensor, width: int, run: Run) -> torch.Tensor:
    """Replace numbers, in place, by what elements of such digits hold in a run."""
    numbers >>= min(width * run.digit, 8 * numbers.element_size() - 1)
    numbers &= (mask := (1 << width) - 1)
    if run.inverted:
        numbers ^= mask
    return numbers


def read_back(
    values: Sequence[torch.Tensor], width: int, runs: Sequence[Run], total: int
) -> torch.Tensor:
    """The numbers that these values, one tensor per run, carry; -1 where they carry none.

    Args:
        values: float64, of one shape.
        width: bits of a digit.
        runs: what the values should carry, one run each.
        total: how many numbers there are.
    """
    mask, bits = (1 << width) - 1, total.bit_length()
    numbers = torch.zeros_like(values[0], dtype=torch.int64)
    sound = torch.ones_like(numbers, dtype=torch.bool)
    seen: dict[int, torch.Tensor] = {}
    for value, run in zip(values, runs, strict=True):
        sound &= (value >= 0) & (value <= mask) & (value == value.floor())
        digit = torch.where(sound, value, 0).to(torch.int64) ^ (mask if run.inverted else 0)
        if run.digit in seen:
            sound &= digit == seen[run.digit]
        elif width * run.digit < bits:
            numbers += digit << width * run.digit
        else:
            sound &= digit == 0
        seen[run.digit] = digit
    return torch.where(sound & (numbers < total), numbers, -1)
