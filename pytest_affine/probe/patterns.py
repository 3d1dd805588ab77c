"""The guess at what happened to elements that arrived in the wrong place of their parameter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from pytest_affine.geometry import row_major_strides

__all__ = ["Guess", "Places", "guess"]

MAX_STEPS = 16
"""Blocks that moved by more different distances than these are no few blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Elements of one shard, packed, by their row-major addresses in the full tensor.

    Attributes:
        shape: of the shard.
        logical_shape: of the full tensor.
        wanted: what belongs there; -1 for padding.
        found: what is there; -1 for what is no element of the parameter.
        members: the wrong ones that are elements of the parameter.
        others: the other locations whose shards are as large, each with what belongs there.
    """

    shape: tuple[int, ...]
    logical_shape: tuple[int, ...]
    wanted: torch.Tensor
    found: torch.Tensor
    members: torch.Tensor
    others: Iterable[tuple[int, torch.Tensor]]


@dataclass(frozen=True, slots=True)
class Guess:
    """A kind of fault in a word or two, how it is seen, and the location whose shard this is."""

    kind: str
    text: str
    holder: int | None = None


def guess(places: Places) -> Guess:
    """What happened to the members, which are at least one."""
    return next(_guesses(places))


def _guesses(places: Places) -> Iterator[Guess]:
    members = places.members
    wanted, found = places.wanted[members], places.found[members]
    if (holder := _holder(places)) is not None:
        yield Guess("another shard", f"holds the shard of location {holder}", holder)
    if _is_transposed(places):
        yield Guess("transposed", "rows and columns are exchanged")
    steps: torch.Tensor = torch.unique(found - wanted)
    if len(steps) <= MAX_STEPS and torch.equal(wanted.sort()[0], found.sort()[0]):
        yield Guess("swapped blocks", "its elements are all there, in another order")
    lines = _lines(places, places.found)
    right = _lines(places, places.wanted)
    for axis, (line, wanted_line) in enumerate(zip(lines, right, strict=True)):
        if line in (None, wanted_line):
            continue
        if line == 0:
            yield Guess("broadcast", f"one index along axis {axis} is repeated")
        else:
            text = f"neighbours along axis {axis} are {line} elements of the full tensor apart"
            yield Guess("wrong strides", f"{text}, and should be {wanted_line}")
    if len(steps) <= MAX_STEPS:
        distances = ", ".join(_distance(int(step), places.logical_shape) for step in steps)
        yield Guess("shifted", f"taken from {distances}")
    yield Guess("scattered", "elements of the parameter in no order that is known")


def _holder(places: Places) -> int | None:
    """The other location that should hold what is here, from the first element to the last."""
    for location, belongs in places.others:
        if torch.equal(places.found, belongs):
            return location
    return None


def _is_transposed(places: Places) -> bool:
    *_, rows, columns = (1, 1, *places.shape)
    if min(rows, columns) < 2 or math.prod(places.shape) != len(places.wanted):
        return False
    turned = places.wanted.view(-1, rows, columns).transpose(-1, -2).reshape(-1)
    back = places.wanted.view(-1, columns, rows).transpose(-1, -2).reshape(-1)
    return torch.equal(places.found, turned) or torch.equal(places.found, back)


def _lines(places: Places, addresses: torch.Tensor) -> list[int | None]:
    """By axis, how far most neighbours that are both wrong are apart; None if no most are."""
    if math.prod(places.shape) != len(addresses):
        return [None] * len(places.shape)
    grid, wrong = addresses.view(places.shape), places.members.view(places.shape)
    lines: list[int | None] = []
    for axis, extent in enumerate(places.shape):
        both = wrong.narrow(axis, 0, extent - 1) & wrong.narrow(axis, 1, extent - 1)
        lines.append(_most(grid.diff(dim=axis)[both]))
    return lines


def _most(numbers: torch.Tensor) -> int | None:
    """The number that at least half of these are; None if there is none."""
    if not len(numbers):
        return None
    most = numbers.mode()[0]
    return int(most) if 2 * int((numbers == most).sum()) >= len(numbers) else None


def _distance(step: int, shape: tuple[int, ...]) -> str:
    """A step in the full tensor, along one axis if it is: `2 further along axis 0`."""
    strides = row_major_strides(shape)
    axis = next(axis for axis, stride in enumerate(strides) if step % stride == 0)
    count = step // strides[axis]
    return f"{abs(count)} {'further' if count > 0 else 'before'} along axis {axis}"
