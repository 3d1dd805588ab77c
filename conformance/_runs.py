"""What a rank does for the suite: execute, and hand back every byte and all that went by wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_affine.conformance._batches import Batch, one_or_each
from pytest_affine.conformance._buffers import (
    Buffer,
    Key,
    Share,
    Tensors,
    buffers_of,
    given_tensors,
)
from pytest_affine.contract.resident import Resident
from pytest_affine.errors import AffineTransferError, TransferRefusedError
from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferStats
from pytest_affine.ranks import current_rank, wire_faults
from pytest_affine.ranks.trouble import WireFault
from pytest_affine.ranks.wire import WireEvent

if TYPE_CHECKING:
    import torch.distributed as dist

__all__ = [
    "WORLD",
    "Attempt",
    "Group",
    "Landed",
    "Step",
    "attempted",
    "batch_of",
    "cast_bytes",
    "execute_share",
    "executed",
    "in_group",
]

Group: TypeAlias = tuple[int, ...] | str | None
"""What is moved in: a new group of these ranks in this order, "world", or None for the default."""

WORLD = "world"

Contents: TypeAlias = Mapping[Key, bytes]
Events: TypeAlias = tuple[WireEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of `execute_transfers`.

    Attributes:
        sync: which of the syncs at hand.
        run: the values that its buffers hold before.
        budget: bytes per peer; the batch's own if None.
        is_empty: whether it is a batch of no parameters instead, with the same endpoints.
        faults: what happens to messages on the wire.
    """

    sync: int = 0
    run: int = 0
    budget: int | None = None
    is_empty: bool = False
    faults: tuple[WireFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Landed:
    """What a rank has after one step.

    Attributes:
        stats: what was returned.
        contents: by sync, the bytes of its buffers.
        events: what the rank did on the wire.
    """

    stats: TransferStats
    contents: tuple[Contents, ...]
    events: Events


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How a rank refused.

    Attributes:
        error: the error.
        is_refusal: whether it is of the right kind.
        contents: the bytes of its buffers.
        events: what the rank did on the wire.
        exchanges: the same for batches of no parameters: one that may run, one in which ranks
            disagree, one in which some must refuse.
    """

    error: str
    is_refusal: bool
    contents: Contents
    events: Events
    exchanges: tuple[Events, ...]


def executed(
    resident: Resident, shares: Sequence[Sequence[Share]], steps: Sequence[Step], group: Group
) -> list[Landed]:
    """Take steps one after the other, in buffers that stay. Called on every rank.

    Args:
        resident: the implementation.
        shares: by sync, by process.
        steps: what to do.
        group: where; ranks that are not in it return nothing.

    Raises:
        AssertionError: a step was refused after something had been changed.
    """
    with in_group(group) as (made, process):
        if process < 0:
            return []
        own = [by_process[process] for by_process in shares]
        buffers = [buffers_of(share) for share in own]
        for buffer in (buffer for held in buffers for buffer in held):
            buffer.fill(0)
        return [_step(resident, own, buffers, step, made) for step in steps]


@contextmanager
def in_group(wanted: Group) -> Iterator[tuple[dist.ProcessGroup | None, int]]:
    """The group as `execute_transfers` takes it, and this rank's process in it."""
    import torch.distributed as dist

    if wanted is None or wanted == WORLD:
        yield (None if wanted is None else dist.group.WORLD), current_rank()
        return
    in_order: dict[str, Any] = {} if [*wanted] == sorted(wanted) else {"sort_ranks": False}
    made = dist.new_group([*wanted], **in_order)
    process = dist.get_rank(made)
    try:
        yield made, process
    finally:
        if process >= 0:
            dist.destroy_process_group(made)


def _step(
    resident: Resident,
    shares: Sequence[Share],
    buffers: Sequence[Sequence[Buffer]],
    step: Step,
    group: dist.ProcessGroup | None,
) -> Landed:
    from pytest_affine.ranks import tap

    share, own = shares[step.sync], buffers[step.sync]
    if not step.is_empty:
        for buffer in own:
            buffer.fill(step.run)
    mark = tap.mark()
    try:
        with wire_faults(*step.faults):
            stats = execute_share(resident, *_given(share, own, step), group)
    except AffineTransferError as refusal:
        changed = [b.shard.key for b in own if b.contents() != b.shard.before[step.run]]
        if changed and not step.is_empty:
            raise AssertionError(f"refused ({refusal}) after {changed} had been changed") from None
        raise
    events = tuple(tap.events_since(mark))
    return Landed(stats, tuple(map(_contents, buffers)), events)


def _given(share: Share, buffers: Sequence[Buffer], step: Step) -> tuple[Share, Tensors]:
    """What the rank passes in one step, and its source and target buffers."""
    tensors = given_tensors(share, buffers, with_empty=step.run == 0)
    return replace(share, batch=batch_of(step, share.batch)), ({}, {}) if step.is_empty else tensors


def batch_of(step: Step, batch: Batch) -> Batch:
    """What a step makes of the batch of its sync."""
    if step.is_empty:
        batch = replace(batch, plans={})
    return batch if step.budget is None else replace(batch, budget=StagingBudget(step.budget))


def _contents(buffers: Sequence[Buffer]) -> Contents:
    return {buffer.shard.key: buffer.contents() for buffer in buffers}


def execute_share(
    resident: Resident, share: Share, tensors: Tensors, group: dist.ProcessGroup | None = None
) -> TransferStats:
    """Execute what a rank passes, in these source and target buffers."""
    import torch

    dtypes = {
        name: tuple(getattr(torch, dtype) for dtype in dict.fromkeys(both))
        for name, both in share.dtypes.items()
    }
    dtypes = {name: both if len(both) > 1 else both[0] for name, both in dtypes.items()}
    if not share.batch.plans:
        dtypes = dict.fromkeys(dtypes, next(iter(dtypes.values())))
    options = {"budget": share.batch.budget, "group": group}
    casts = {"cast": True} if share.batch.casts else {}
    stats: TransferStats = resident.execute_transfers(
        share.batch.plans,
        *tensors,
        share.batch.endpoints,
        dtype=one_or_each(dtypes),
        **resident.taken("execute_transfers", **options),
        **casts,
    )
    return stats


def cast_bytes(resident: Resident, elements: bytes, source: str, target: str) -> bytes:
    """What torch makes of elements of one dtype in another. Called on one rank."""
    import torch

    bits = torch.tensor(list(elements), dtype=torch.uint8)
    cast = bits.view(getattr(torch, source)).to(getattr(torch, target))
    return bytes(cast.view(torch.uint8).tolist())


def attempted(
    resident: Resident,
    shares: Sequence[Share],
    endpoints: TransferEndpoints,
    refusing: Sequence[int],
) -> Attempt:
    """Execute what must be refused, and say how it was. Called on every rank.

    Args:
        resident: the implementation.
        shares: by rank.
        endpoints: endpoints that nothing is wrong with.
        refusing: the processes that have the fault.

    Raises:
        AssertionError: it was not refused. Raised here and not in the controller, since ranks of
            which some went ahead and some did not must not be used again.
    """
    import torch.distributed as dist

    from pytest_affine.ranks import tap

    share = shares[current_rank()]
    buffers = buffers_of(share)
    for buffer in buffers:
        buffer.fill(0)
    mark = tap.mark()
    try:
        tensors = given_tensors(share, buffers, with_empty=True)
        stats = execute_share(resident, share, tensors, dist.group.WORLD)
    except AffineTransferError as error:
        return Attempt(
            error=f"{type(error).__name__}: {error}",
            is_refusal=isinstance(error, TransferRefusedError),
            events=tuple(tap.events_since(mark)),
            contents=_contents(buffers),
            exchanges=tuple(_exchanges(resident, endpoints, current_rank() in refusing)),
        )
    raise AssertionError(f"must be refused, but execute_transfers returned {stats}")


def _exchanges(
    resident: Resident, endpoints: TransferEndpoints, is_refusing: bool
) -> Iterator[Events]:
    """What goes over the wire for batches of no parameters, which have no payload.

    The second and the third must be refused; a refusal that is missing is judged elsewhere.
    """
    import torch
    import torch.distributed as dist

    from pytest_affine.ranks import tap

    surplus: dict[str, Any] = {"no.such.name": {0: torch.empty(1)}}
    usual, other = StagingBudget(), StagingBudget(64 + current_rank())
    for sources, budget in (
        ({}, usual),
        ({}, other if is_refusing else usual),
        (surplus if is_refusing else {}, usual),
    ):
        mark = tap.mark()
        with suppress(AffineTransferError):
            options = {"budget": budget, "group": dist.group.WORLD}
            taken = resident.taken("execute_transfers", **options)
            resident.execute_transfers({}, sources, {}, endpoints, dtype=torch.float32, **taken)
        yield tuple(tap.events_since(mark))
