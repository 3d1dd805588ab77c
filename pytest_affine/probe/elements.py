"""What the elements of a wrong shard say of themselves, from what they held after each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from pytest_affine.probe.alphabets import alphabet_of, name_of
from pytest_affine.probe.numbering import Numbering, carry, read_back

__all__ = ["Elements", "Group", "groups_of"]

_NARROWER = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2, torch.bool)
"""What a cast may have gone through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """The elements of a window of a target shard.

    Attributes:
        wrong: which of them are wrong.
        wanted: the number that belongs there; -1 for padding.
        values: by run, what they held, in the target's dtype.
        source_dtype: the dtype in which sources have the parameter.
        reads_padding: whether sources of the parameter have padding.
        numbering: the numbers and the runs.
        width: bits of the parameter's digits.
    """

    wrong: torch.Tensor
    wanted: torch.Tensor
    values: Sequence[torch.Tensor]
    source_dtype: torch.dtype
    reads_padding: bool
    numbering: Numbering
    width: int

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which targets have the parameter."""
        return self.values[0].dtype

    def found(self) -> torch.Tensor:
        """The number of the source element that was delivered; -1 where there is none."""
        found = torch.where(self.wrong, -1, self.wanted)
        others = [width for width in self.numbering.widths if width != self.width]
        for width in (self.width, *others):
            numbers = self._read(self.values, width)
            found = torch.where(self.wrong & (found < 0), numbers, found)
        return found

    def _read(self, values: Sequence[torch.Tensor], width: int) -> torch.Tensor:
        runs, total = self.numbering.runs, self.numbering.total
        return read_back([value.to(torch.float64) for value in values], width, runs, total)

    def held(self, value: float) -> torch.Tensor:
        """Which elements held this value after every run."""
        wanted = torch.tensor(value, dtype=torch.float64)
        return _in_every_run(_same(each.to(torch.float64), wanted) for each in self.values)

    def reinterpreted(self) -> torch.Tensor:
        """Which elements are bits of source elements in the other dtype."""
        sizes = self.source_dtype.itemsize, self.dtype.itemsize
        per_source, per_target = max(1, sizes[0] // sizes[1]), max(1, sizes[1] // sizes[0])
        reads = torch.zeros_like(self.wrong)
        if self.source_dtype != self.dtype:
            whole = len(reads) - len(reads) % per_source
            bits = [value[:whole].view(self.source_dtype) for value in self.values]
            sound = self._read(bits, self.width) >= 0
            by_target = sound.repeat_interleave(per_source).view(-1, per_target).all(1)
            reads[:whole] = by_target
        return reads

    def carried(self) -> list[torch.Tensor]:
        """By run, what the elements had to hold, as float64."""
        wanted = self.wanted.clamp(min=0)
        return [
            carry(wanted.clone(), self.width, run).to(torch.float64) for run in self.numbering.runs
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """Elements of one kind of fault: a mask of the window, and what happened in words."""

    kind: str
    members: torch.Tensor
    text: str


def groups_of(elements: Elements, found: torch.Tensor) -> Iterator[Group]:
    """The wrong elements that are no source elements, by what they are instead.

    Each is in one group; `found` is what `Elements.found` gives, in which the elements that were
    bits of another dtype become -1.
    """
    left = elements.wrong.clone()
    for kind, text, find in _TESTS:
        members = left & find(elements, found)
        if members.any():
            left &= ~members
            if kind == "reinterpreted bits":
                found[members] = -1
            yield Group(kind, members, text(elements, members))


def _unwritten(elements: Elements, found: torch.Tensor) -> torch.Tensor:
    return elements.held(alphabet_of(elements.dtype).poison)


def _padding(elements: Elements, found: torch.Tensor) -> torch.Tensor:
    if not elements.reads_padding:
        return torch.zeros_like(elements.wrong)
    return elements.held(alphabet_of(elements.source_dtype).padding)


def _stale(elements: Elements, found: torch.Tensor) -> torch.Tensor:
    values = [value.to(torch.float64) for value in elements.values]
    wanted = elements.carried()
    first = _in_every_run(_same(value, wanted[0]) for value in values[1:])
    last = _in_every_run(map(_same, values[1:], wanted))
    # Of elements that never change, a few may happen to be what the first run had to deliver.
    constant = elements.wrong & _constant(elements, found)
    is_chance = 2 * (first & elements.wrong).sum() <= constant.sum()
    return last & ~constant if is_chance else first | last


def _constant(elements: Elements, found: torch.Tensor) -> torch.Tensor:
    values = [value.to(torch.float64) for value in elements.values]
    return _in_every_run(_same(value, values[0]) for value in values)


def _cast(elements: Elements, found: torch.Tensor) -> torch.Tensor:
    is_cast = torch.zeros_like(elements.wrong)
    for dtype in _NARROWER:
        is_cast |= _rounded(elements, dtype)
    return is_cast | _scaled(elements, (found < 0) & ~is_cast)[1]


def _rounded(elements: Elements, dtype: torch.dtype) -> torch.Tensor:
    """Which elements are as a cast through a dtype would have them."""
    return _in_every_run(
        _same(value.to(torch.float64), wanted.to(dtype).to(elements.dtype).to(torch.float64))
        for value, wanted in zip(elements.values, elements.carried(), strict=True)
    )


def _scaled(elements: Elements, among: torch.Tensor) -> tuple[float, torch.Tensor]:
    """A factor, and which elements are their right values times it."""
    for value, wanted in zip(elements.values, elements.carried(), strict=True):
        at = (elements.wrong & among & (wanted > 0)).nonzero()
        if len(at):
            factor = float(value[at[0, 0]].to(torch.float64) / wanted[at[0, 0]])
            return factor, _in_every_run(
                _same(each.to(torch.float64), (right * factor).to(elements.dtype).to(torch.float64))
                for each, right in zip(elements.values, elements.carried(), strict=True)
            )
    return 1.0, torch.zeros_like(among)


def _unknown(elements: Elements, found: torch.Tensor) -> torch.Tensor:
    return found < 0


def _cast_text(elements: Elements, members: torch.Tensor) -> str:
    for dtype in _NARROWER:
        if bool(_rounded(elements, dtype)[members].all()):
            return f"the values are rounded to {name_of(dtype)}"
    return f"the values are multiplied by {_scaled(elements, members)[0]:g}"


def _constant_text(elements: Elements, members: torch.Tensor) -> str:
    value = elements.values[0][members][0].item()
    return f"holds {value} after every run, whatever the sources hold"


def _values_text(elements: Elements, members: torch.Tensor) -> str:
    held = [value[members][0].item() for value in elements.values]
    wanted = [value[members][0].item() for value in elements.carried()]
    return f"held {held} after the runs and had to hold {wanted}"


def _same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _in_every_run(tests: Iterator[torch.Tensor] | map[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(tests)).all(0)


Find = Callable[[Elements, torch.Tensor], torch.Tensor]
Text = Callable[[Elements, torch.Tensor], str]

_TESTS: tuple[tuple[str, Text, Find], ...] = (
    ("not written", lambda elements, members: "nothing was written", _unwritten),
    ("padding", lambda elements, members: "padding of a source was delivered", _padding),
    (
        "reinterpreted bits",
        lambda elements, members: (
            f"bits of {name_of(elements.source_dtype)} were taken for {name_of(elements.dtype)}"
        ),
        lambda elements, found: elements.reinterpreted(),
    ),
    (
        "stale",
        lambda elements, members: "holds the values of an earlier run",
        lambda elements, found: (found < 0) & _stale(elements, found),
    ),
    (
        "constant",
        _constant_text,
        lambda elements, found: (found < 0) & _constant(elements, found),
    ),
    ("wrong cast", _cast_text, lambda elements, found: (found < 0) & _cast(elements, found)),
    ("unknown values", _values_text, _unknown),
)
