"""What a rank does for the suite: make buffers, execute, and hand back every byte.

The controller says what to put in and judges what comes out; torch is imported only in ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_affine.conformance._batches import Batch, one_or_each
from pytest_affine.conformance._contents import GUARD, Shard
from pytest_affine.contract.resident import Resident
from pytest_affine.errors import AffineTransferError, TransferRefusedError
from pytest_affine.plans import TransferStats
from pytest_affine.ranks import current_rank, device

if TYPE_CHECKING:
    import torch

__all__ = ["Attempt", "Landed", "Share", "attempted", "executed"]

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one rank passes to `execute_transfers`.

    Attributes:
        batch: the batch.
        dtypes: torch attribute names, by parameter.
        shards: the shards of this rank.
        fault: what is wrong with one of its tensors, if anything; see `_faulty`.
        faulty: whose tensor it is.
        host: in whose memory that tensor lies, where it is not its own.
    """

    batch: Batch
    dtypes: Mapping[str, str]
    shards: tuple[Shard, ...]
    fault: str | None = None
    faulty: Key | None = None
    host: Key | None = None


@dataclass(frozen=True, slots=True)
class Landed:
    """What a rank has after one run: the statistics returned, and the bytes of its buffers."""

    stats: TransferStats
    contents: Mapping[Key, bytes]


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a rank refused: the error, whether it is of the right kind, its buffers' bytes."""

    error: str
    is_refusal: bool
    contents: Mapping[Key, bytes]


class Buffer:
    """The memory of one shard on this rank: a window of a larger tensor, between two guards."""

    def __init__(self, shard: Shard) -> None:
        import torch

        self.shard = shard
        self.dtype: torch.dtype = getattr(torch, shard.dtype)
        self.storage = torch.empty(len(shard.before[0]), dtype=torch.uint8, device=device())

    @property
    def flat(self) -> torch.Tensor:
        """The elements from the shard's first one to the end of the memory."""
        return self.storage.view(self.dtype)[GUARD:]

    @property
    def tensor(self) -> torch.Tensor:
        """The shard."""
        return self.flat[: len(self.shard.elements)].view(self.shard.shape)

    def fill(self, run: int) -> None:
        """Put in what the shard holds before a run."""
        import torch

        self.storage.copy_(torch.frombuffer(bytearray(self.shard.before[run]), dtype=torch.uint8))

    def contents(self) -> bytes:
        """Every byte, guards included."""
        return bytes(self.storage.tolist())


def executed(resident: Resident, shares: Sequence[Share], num_runs: int) -> list[Landed]:
    """Execute a batch so many times, each time with other values. Called on every rank.

    Raises:
        AssertionError: it was refused after something had been changed.
    """
    share = shares[current_rank()]
    buffers = [Buffer(shard) for shard in share.shards]
    return [
        Landed(_execute_or_refuse(resident, share, buffers, run), _contents(buffers))
        for run in range(num_runs)
    ]


def _execute_or_refuse(
    resident: Resident, share: Share, buffers: Sequence[Buffer], run: int
) -> TransferStats:
    try:
        return _execute(resident, share, buffers, run)
    except AffineTransferError as refusal:
        changed = [b.shard.key for b in buffers if b.contents() != b.shard.before[run]]
        if changed:
            raise AssertionError(f"refused ({refusal}) after {changed} had been changed") from None
        raise


def attempted(resident: Resident, shares: Sequence[Share]) -> Attempt:
    """Execute what must be refused, and say how it was. Called on every rank.

    Raises:
        AssertionError: it was not refused. Raised here and not in the controller, since ranks of
            which some went ahead and some did not must not be used again.
    """
    share = shares[current_rank()]
    buffers = [Buffer(shard) for shard in share.shards]
    try:
        stats = _execute(resident, share, buffers, run=0)
    except AffineTransferError as error:
        is_refusal = isinstance(error, TransferRefusedError)
        return Attempt(f"{type(error).__name__}: {error}", is_refusal, _contents(buffers))
    raise AssertionError(f"must be refused, but execute_transfers returned {stats}")


def _contents(buffers: Sequence[Buffer]) -> dict[Key, bytes]:
    return {buffer.shard.key: buffer.contents() for buffer in buffers}


def _execute(
    resident: Resident, share: Share, buffers: Sequence[Buffer], run: int
) -> TransferStats:
    import torch
    import torch.distributed as dist

    tensors = {
        buffer.shard.key: buffer.tensor
        for buffer in buffers
        if buffer.shard.elements or run == 0  # later the empty ones are left out, as they may be
    }
    if share.faulty is not None:
        tensors[share.faulty] = _faulty(share, {buffer.shard.key: buffer for buffer in buffers})
    for buffer in buffers:
        buffer.fill(run)
    stats: TransferStats = resident.execute_transfers(
        share.batch.plans,
        _by_parameter(tensors, "source"),
        _by_parameter(tensors, "target"),
        share.batch.endpoints,
        dtype=one_or_each({name: getattr(torch, dtype) for name, dtype in share.dtypes.items()}),
        budget=share.batch.budget,
        group=dist.group.WORLD,
    )
    return stats


def _by_parameter(
    tensors: Mapping[Key, torch.Tensor], wanted: str
) -> dict[str, dict[int, torch.Tensor]]:
    """The tensors of one side as `execute_transfers` takes them."""
    named: dict[str, dict[int, torch.Tensor]] = {}
    for (side, parameter, location), tensor in tensors.items():
        if side == wanted:
            named.setdefault(parameter, {})[location] = tensor
    return named


def _faulty(share: Share, buffers: Mapping[Key, Buffer]) -> torch.Tensor:
    """The tensor with a fault; all but that on another device are windows of guarded memory."""
    import torch

    assert share.faulty is not None
    size = len(buffers[share.faulty].shard.elements)
    flat = buffers[share.host or share.faulty].flat
    tensors = {
        "dtype": flat.view(torch.bfloat16)[:size],
        "device": flat[:size].to("meta"),
        "half": flat[: size // 2],
        "longer": flat[: size + 1],
        "strided": flat[::2][:size],
        "overlap": flat[1 : 1 + size],
    }
    return tensors[share.fault or ""]
