"""What targets held after each run: of shards that are right nothing, of others a part."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from pytest_affine.geometry import reach
from pytest_affine.maps import ParamAffineMap
from pytest_affine.probe.chunks import Scratch, chunks_of, spread
from pytest_affine.probe.numbering import Numbering, Run, carry
from pytest_affine.probe.sides import Shard

__all__ = ["MAX_KEPT", "MAX_KEPT_BYTES", "Reading", "Readings"]

MAX_KEPT = 2**22
"""Elements that are looked at closely in a shard that is wrong, from the first wrong one on."""

MAX_KEPT_BYTES = 2**28
"""Bytes that are kept for this of all shards together; the rest are only counted."""


@dataclass(slots=True)
class Reading:
    """What one shard that is not right held.

    Attributes:
        wrong: which addresses were wrong in some run.
        window: the addresses that are looked at closely; empty if there was no room.
        kept: by number of a run, their elements after it. Of runs that are not there they held
            what they had to.
    """

    wrong: torch.Tensor
    window: range
    kept: dict[int, torch.Tensor] = field(default_factory=dict)


class Readings:
    """The readings of all shards of a process."""

    def __init__(self) -> None:
        self.by_shard: dict[Shard, Reading] = {}
        self._room = MAX_KEPT_BYTES

    def add(self, shard: Shard, tensor: torch.Tensor, wrong: torch.Tensor | None, run: Run) -> None:
        """Note what a shard holds after a run, and which of it is wrong (None: nothing)."""
        reading = self.by_shard.get(shard)
        if reading is None:
            if wrong is None:
                return
            reading = self.by_shard[shard] = Reading(wrong, self._window(tensor, wrong))
        elif wrong is not None:
            reading.wrong |= wrong
        part, size = reading.window, len(reading.window) * tensor.element_size()
        if size <= self._room:
            self._room -= size
            elements = tensor.contiguous().view(-1)[part.start : part.stop]
            reading.kept[run.number] = elements.cpu().clone()
        else:
            reading.window = range(0)

    def _window(self, tensor: torch.Tensor, wrong: torch.Tensor) -> range:
        first = int(wrong.to(torch.uint8).argmax())
        start = 0 if tensor.numel() <= MAX_KEPT else first - first % 64
        return range(start, min(tensor.numel(), start + MAX_KEPT))


def wanted_numbers(map_: ParamAffineMap, location: int, start: int, window: range) -> torch.Tensor:
    """The number that belongs at every address of a window; -1 where there is padding."""
    scratch = Scratch(torch.device("cpu"), torch.int64)
    wanted = torch.full((len(window),), -1, dtype=torch.int64)
    for chunk in chunks_of(map_, location):
        last = chunk.offset + reach(chunk.shape, chunk.strides)
        if last < window.start or chunk.offset >= window.stop:
            continue
        at = spread(chunk.shape, chunk.strides, torch.int64, wanted.device) + chunk.offset
        inside = (at >= window.start) & (at < window.stop)
        wanted[at[inside] - window.start] = scratch.numbers(chunk, start)[inside]
    return wanted


def values_in(
    reading: Reading, wanted: torch.Tensor, dtype: torch.dtype, width: int, numbering: Numbering
) -> list[torch.Tensor]:
    """By run, the elements of a reading's window, of which some are wrong."""
    found = []
    for run in numbering.runs:
        if run.number in reading.kept:
            found.append(reading.kept[run.number])
        else:
            found.append(carry(wanted.clamp(min=0), width, run).to(dtype))
    return found
