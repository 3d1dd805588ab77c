"""Elements of another dtype, cast with one fault each."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.mutants.faults.parts import Buffers, changed_tensors
from pytest_affine.mutants.faults.reshards import FaultyReshard
from pytest_affine.plans import TransferStats
from pytest_affine.sync import Sync


def truncated(tensor: torch.Tensor) -> torch.Tensor:
    """A float32 without the bits that a bfloat16 has no room for."""
    if tensor.dtype != torch.float32:
        return tensor
    return (tensor.view(torch.int32) & -0x10000).view(torch.float32)


def cast_parameters(sync: Sync) -> set[str]:
    """Names of the parameters whose dtypes differ."""
    return {each.name for each in sync.parameters if each.source_dtype != each.target_dtype}


class ChangesWhatIsCast(FaultyReshard):
    """Changes source elements before they are cast."""

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        names = cast_parameters(sync)
        cast = {name: held for name, held in sources.items() if name in names}
        return sync, {**sources, **changed_tensors(cast, self.changed)}, targets

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class TruncatesSyncs(ChangesWhatIsCast):
    """Cuts bits off where elements of a sync must be rounded."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return truncated(tensor)


class CastsThroughHalves(ChangesWhatIsCast):
    """Casts to float16 first."""

    def changed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.half().to(tensor.dtype)


class ReinterpretsBits(FaultyReshard):
    """Puts the bytes of sources into targets of another dtype, as far as they go."""

    def after(self, sync: Sync, sources: Buffers, targets: Buffers) -> None:
        for name in cast_parameters(sync).intersection(sources, targets):
            for source, target in zip(sources[name].values(), targets[name].values(), strict=False):
                bits, room = (tensor.view(-1).view(torch.uint8) for tensor in (source, target))
                num_bytes = min(bits.numel(), room.numel())
                room[:num_bytes] = bits[:num_bytes]


class RefusesCastsOnOneRank(FaultyReshard):
    """Refuses to cast on the first rank alone, when the others have what they waited for."""

    def after(self, sync: Sync, sources: Buffers, targets: Buffers) -> None:
        if cast_parameters(sync) and not dist.get_rank():
            raise UnsupportedLayoutError("elements are not cast")


class TruncatesOnTheWay(Implementation):
    """Cuts bits off float32 elements that are cast."""

    def execute_transfers(
        self, plans: Any, source_buffers: Any, *rest: Any, **options: Any
    ) -> TransferStats:
        if options.get("cast"):
            source_buffers = changed_tensors(source_buffers, truncated)
        return super().execute_transfers(plans, source_buffers, *rest, **options)
