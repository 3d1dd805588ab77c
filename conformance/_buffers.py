"""The memory of one rank's shards: windows of larger tensors, with guards around them.

The controller says what to put in and judges what comes out; torch is imported only in ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_affine.conformance._batches import Batch
from pytest_affine.conformance._contents import GUARD, Shard
from pytest_affine.ranks import device

if TYPE_CHECKING:
    import torch

__all__ = ["Buffer", "Held", "Key", "Share", "Tensors", "buffers_of", "given_tensors"]

Key: TypeAlias = tuple[str, str, int]
ByLocation: TypeAlias = "dict[str, dict[int, torch.Tensor]]"
Tensors: TypeAlias = tuple[ByLocation, ByLocation]

ALIGNMENT = 16
"""Bytes at whose multiples the shards of one buffer begin, so that any dtype can."""

ODD_STRIDE = 99
"""A stride that an axis of extent 1 may have, and that means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The shards of one rank, and what its tensors are like.

    Attributes:
        shards: the shards of this rank.
        form: how they lie in memory: "apart", "one buffer", or with "odd strides" where an axis
            has one element.
        fault: what is wrong with one of its tensors, if anything; see `_faulty`.
        faulty: whose tensor it is.
        host: in whose memory that tensor lies, where it is not its own.
    """

    shards: tuple[Shard, ...]
    form: str = "apart"
    fault: str | None = None
    faulty: Key | None = None
    host: Key | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Held):
    """What one rank passes to `execute_transfers`.

    Attributes:
        batch: the batch.
        dtypes: torch attribute names of source and target, by parameter.
    """

    batch: Batch
    dtypes: Mapping[str, tuple[str, str]]


class Buffer:
    """The memory of one shard on this rank: a window of a larger tensor, between two guards."""

    def __init__(self, shard: Shard, memory: torch.Tensor, form: str) -> None:
        import torch

        self.shard = shard
        self.dtype: torch.dtype = getattr(torch, shard.dtype)
        self._memory = memory
        self._form = form

    @property
    def flat(self) -> torch.Tensor:
        """The elements from the shard's first one to the end of the memory."""
        return self._memory.view(self.dtype)[GUARD:]

    @property
    def tensor(self) -> torch.Tensor:
        """The shard."""
        packed = self.flat[: len(self.shard.elements)].view(self.shard.shape)
        if self._form != "odd strides":
            return packed
        steps = zip(packed.shape, packed.stride(), strict=True)
        strides = [ODD_STRIDE if extent == 1 else stride for extent, stride in steps]
        return packed.as_strided(packed.shape, strides)

    def fill(self, run: int) -> None:
        """Put in what the shard holds before a run."""
        import torch

        self._memory.copy_(torch.frombuffer(bytearray(self.shard.before[run]), dtype=torch.uint8))

    def contents(self) -> bytes:
        """Every byte, guards included."""
        return bytes(self._memory.tolist())


def buffers_of(share: Held) -> list[Buffer]:
    """The buffers of this rank's shards, each a tensor of its own or all in one."""
    import torch

    sizes = [len(shard.before[0]) for shard in share.shards]
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
    if share.form == "one buffer":
        whole = torch.empty(starts[-1], dtype=torch.uint8, device=device())
        memories = [whole[at : at + size] for at, size in zip(starts, sizes, strict=False)]
    else:
        memories = [torch.empty(size, dtype=torch.uint8, device=device()) for size in sizes]
    return [Buffer(*each, share.form) for each in zip(share.shards, memories, strict=True)]


def given_tensors(share: Held, buffers: Sequence[Buffer], *, with_empty: bool) -> Tensors:
    """The source and the target buffers as `execute_transfers` takes them.

    Those of empty shards may be left out.
    """
    tensors = {
        buffer.shard.key: buffer.tensor for buffer in buffers if buffer.shard.elements or with_empty
    }
    if share.faulty is not None:
        tensors[share.faulty] = _faulty(share, {buffer.shard.key: buffer for buffer in buffers})
    return _by_parameter(tensors, "source"), _by_parameter(tensors, "target")


def _by_parameter(tensors: Mapping[Key, torch.Tensor], wanted: str) -> ByLocation:
    named: ByLocation = {}
    for (side, parameter, location), tensor in tensors.items():
        if side == wanted:
            named.setdefault(parameter, {})[location] = tensor
    return named


def _faulty(share: Held, buffers: Mapping[Key, Buffer]) -> torch.Tensor:
    """The tensor with a fault; all but that on another device are windows of guarded memory."""
    import torch

    assert share.faulty is not None
    shape = buffers[share.faulty].shard.shape
    size = len(buffers[share.faulty].shard.elements)
    flat = buffers[share.host or share.faulty].flat
    tensors = {
        "dtype": lambda: flat.view(torch.bfloat16)[:size],
        "device": lambda: flat[:size].to("meta"),
        "half": lambda: flat[: size // 2],
        "longer": lambda: flat[: size + 1],
        "strided": lambda: flat[::2][:size],
        "overlap": lambda: flat[1 : 1 + size],
        "transposed": lambda: flat[:size].view(shape[::-1]).t(),
        "window of columns": lambda: flat.as_strided(shape, (shape[1] + 1, 1)),
        "one element for all": lambda: flat[:1].expand(shape),
        "turned": lambda: flat[:size].view(shape[::-1]),
        "without axes": lambda: flat[:size],
        "one row": lambda: flat[: size // shape[0]].view(1, *shape[1:]),
        "a row too many": lambda: flat[: size + size // shape[0]].view(-1, *shape[1:]),
    }
    return tensors[share.fault or ""]()
