"""What touches tensors: fetching those of a side, writing digits, poisoning, comparing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from pytest_affine.errors import AffineTransferError
from pytest_affine.probe.alphabets import alphabet_of, name_of
from pytest_affine.probe.chunks import Scratch, chunks_of
from pytest_affine.probe.numbering import Numbering, Run, carry
from pytest_affine.probe.sides import Accessors, Shard, Side, tensors_of
from pytest_affine.shards import WORDS

__all__ = ["Memory", "bits_of", "overlapping"]


@dataclass(frozen=True, slots=True)
class Lent:
    """The tensors of a side's shards, and what is wrong with those that are not as declared."""

    tensors: dict[Shard, torch.Tensor]
    troubles: dict[Shard, str]


class Memory:
    """The tensors of one side that are here.

    Args:
        side: which tensors.
        role: "source" or "target".
    """

    def __init__(self, side: Side, role: str) -> None:
        self.side = side
        self.role = role
        self.shards = list(side.shards())
        self.dtypes: Mapping[str, torch.dtype] = {}
        self._scratch: dict[torch.device, Scratch] = {}

    def found_dtypes(self) -> dict[str, torch.dtype]:
        """By parameter, the dtype of the first tensor that is here."""
        found: dict[str, torch.dtype] = {}
        for shard, tensor in self._look().items():
            if tensor is not None:
                found.setdefault(shard.parameter, tensor.dtype)
        return found

    def lend(self) -> Lent:
        """The tensors as they are now."""
        lent = Lent({}, {})
        for shard, tensor in self._look().items():
            if trouble := self._trouble(shard, tensor):
                lent.troubles[shard] = trouble
            elif tensor is not None:
                lent.tensors[shard] = tensor.detach()
        return lent

    def borrow(self) -> dict[Shard, torch.Tensor]:
        """The tensors; `AffineTransferError` if one is not what the side says."""
        lent = self.lend()
        for shard, trouble in lent.troubles.items():
            raise AffineTransferError(
                f"{self.role} tensor {shard.name!r} of parameter {shard.parameter!r} at location "
                f"{shard.location}: {trouble}"
            )
        return lent.tensors

    def put(self, tensors: Mapping[Shard, torch.Tensor]) -> None:
        """Give back tensors that were written, where writing in place does not reach."""
        for location, holder in self.side.by_location.items():
            if isinstance(holder, Accessors):
                holder.put({at.name: t for at, t in tensors.items() if at.location == location})
        for device in {tensor.device for tensor in tensors.values()}:
            if device.type not in ("cpu", "meta"):
                torch.accelerator.synchronize(device)

    def copies(self) -> dict[Shard, torch.Tensor]:
        """What the tensors hold now, elsewhere."""
        return {shard: tensor.clone() for shard, tensor in self.borrow().items()}

    def restore(self, copies: Mapping[Shard, torch.Tensor]) -> None:
        """Have tensors hold these; one that has another shape or dtype by now is left."""
        tensors = {at: tensor for at, tensor in self.lend().tensors.items() if at in copies}
        for shard, tensor in tensors.items():
            tensor.copy_(copies[shard])
        self.put(tensors)

    def fill(self, tensors: Mapping[Shard, torch.Tensor], numbering: Numbering, run: Run) -> None:
        """Have every element hold its digit of a run."""
        for shard, tensor in tensors.items():
            packed = tensor if tensor.is_contiguous() else tensor.contiguous()
            flat = packed.view(-1)
            if shard.map_.padding(shard.location):
                flat.fill_(alphabet_of(tensor.dtype).padding)
            of, scratch = numbering.of(shard.parameter), self._scratch_for(tensor, numbering)
            for chunk in chunks_of(shard.map_, shard.location):
                numbers = scratch.numbers(chunk, of.start)
                chunk.within(flat).copy_(carry(numbers, of.width, run))
            if packed is not tensor:
                tensor.copy_(packed)
        self.put(tensors)

    def poison(self, tensors: Mapping[Shard, torch.Tensor]) -> None:
        """Have every element hold what no source element holds."""
        for tensor in tensors.values():
            tensor.fill_(alphabet_of(tensor.dtype).poison)
        self.put(tensors)

    def differing(
        self, shard: Shard, tensor: torch.Tensor, numbering: Numbering, run: Run
    ) -> torch.Tensor | None:
        """Which addresses of a shard do not hold the digits of their elements; None: all do."""
        flat, of = bits_of(tensor), numbering.of(shard.parameter)
        scratch = self._scratch_for(tensor, numbering)
        wrong = None
        for chunk in chunks_of(shard.map_, shard.location):
            numbers = scratch.numbers(chunk, of.start)
            wanted = bits_of(carry(numbers, of.width, run).to(tensor.dtype)).view(chunk.shape)
            # Comparing costs several times as much as these two.
            differing = chunk.within(flat) ^ wanted
            low, high = differing.aminmax()
            if low or high:
                if wrong is None:
                    wrong = torch.zeros(flat.numel(), dtype=torch.bool, device=flat.device)
                chunk.within(wrong).copy_(differing != 0)
        return wrong

    def _look(self) -> dict[Shard, torch.Tensor | None]:
        named = {location: tensors_of(holder) for location, holder in self.side.by_location.items()}
        return {shard: named[shard.location].get(shard.name) for shard in self.shards}

    def _trouble(self, shard: Shard, tensor: torch.Tensor | None) -> str:
        if tensor is None:
            named = tensors_of(self.side.by_location[shard.location])
            return f"there is none; there are {sorted(named)}"
        wanted = shard.map_.shard_shape(shard.location)
        if tuple(tensor.shape) != wanted:
            return f"its shape must be {wanted}, got {tuple(tensor.shape)}"
        dtype = self.dtypes[shard.parameter]
        return (
            ""
            if tensor.dtype == dtype
            else f"its dtype must be {name_of(dtype)}, got {name_of(tensor.dtype)}"
        )

    def _scratch_for(self, tensor: torch.Tensor, numbering: Numbering) -> Scratch:
        if tensor.device not in self._scratch:
            self._scratch[tensor.device] = Scratch(tensor.device, numbering.integers)
        return self._scratch[tensor.device]


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """The packed elements of a tensor as integers of their bits, in one axis."""
    return tensor.detach().contiguous().view(-1).view(WORDS[tensor.element_size()])


def overlapping(tensors: Mapping[Shard, torch.Tensor]) -> Iterator[tuple[Shard, Shard]]:
    """Pairs of packed tensors of different parameters that share memory."""
    spans = sorted(
        (
            (t.data_ptr(), t.data_ptr() + t.nbytes, shard)
            for shard, t in tensors.items()
            if t.is_contiguous()
        ),
        key=lambda span: span[:2],
    )
    last = None
    for start, stop, shard in spans:
        if last and start < last[0] and shard.parameter != last[1].parameter:
            yield last[1], shard
        if last is None or stop > last[0]:
            last = stop, shard
