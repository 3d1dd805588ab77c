"""Move the bytes: one exchange in which all ranks agree to start, then rounds of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist

from pytest_affine.errors import TransferRefusedError
from pytest_affine.plans import (
    Queue,
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferStats,
)
from pytest_affine.reference.agreement import agree, refuse
from pytest_affine.reference.batch import ElementSize, Side, per_parameter
from pytest_affine.reference.buffers import Buffers, bind_buffers
from pytest_affine.reference.digest import plan_digest
from pytest_affine.reference.operations import cut_batch
from pytest_affine.reference.rounds import Rounds
from pytest_affine.reference.schedule import schedule_batch

__all__ = ["execute_transfers"]

DEFAULT_BUDGET = StagingBudget()


def execute_transfers(
    plans: Mapping[str, TransferPlan],
    source_buffers: Buffers,
    target_buffers: Buffers,
    endpoints: TransferEndpoints,
    *,
    dtype: torch.dtype | Mapping[str, torch.dtype],
    budget: StagingBudget = DEFAULT_BUDGET,
    group: dist.ProcessGroup | None = None,
) -> TransferStats:
    """Fill the target shards of this process from source shards anywhere in the group.

    Collective: every rank of `group` calls it, also one that no endpoint names. Returns when all
    that this process sends and receives has landed. Memory beyond the schedule's arenas is only
    taken by one small exchange before anything moves.

    Args:
        plans: by parameter, in the batch's order; the same on every rank.
        source_buffers: by parameter and location, the packed source shards of this process, on
            the device that the group moves; an empty shard may be left out.
        target_buffers: the same for target shards, which are written in place.
        endpoints: which process (rank of `group`) holds which location.
        dtype: of the elements, one for all parameters or one per parameter.
        budget: bytes staged per peer and direction at one time.
        group: transport group; the default group when None.

    Raises:
        TransferRefusedError: on every rank, before anything moved, if one rank must refuse or if
            ranks disagree; the message says which and why. The group stays usable.
    """
    group = dist.group.WORLD if group is None else group
    if group is None or dist.get_rank(group) < 0:
        raise TransferRefusedError("this process is no rank of the group, so it takes no part")
    buffers: dict[Side, Buffers] = {"source": source_buffers, "target": target_buffers}
    device = _device(group)
    with torch.inference_mode():
        try:
            job = _prepare(plans, buffers, endpoints, dtype, budget, group, device)
        except Exception as error:  # whatever it is, the other ranks must hear of it
            refuse(error, group, device)
        agree(job.agreement, group, device)
        job.rounds.run(group)
    if device.type != "cpu":
        torch.accelerator.current_stream(device).synchronize()
    return job.stats


def _device(group: dist.ProcessGroup) -> torch.device:
    """Where the group moves data: the accelerator, unless it has none or gloo is its backend."""
    backends = dict(entry.split(":") for entry in dist.get_backend_config(group).split(","))
    available = torch.accelerator.is_available()
    accelerator = torch.accelerator.current_accelerator() if available else None
    if accelerator is None or backends.get(accelerator.type, "gloo") == "gloo":
        return torch.device("cpu")
    return torch.empty(0, device=accelerator.type).device


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """All that one process needs to run; made before the exchange, so that nothing fails after.

    `agreement` is what must be the same on every rank.
    """

    rounds: Rounds
    stats: TransferStats
    agreement: str


def _prepare(
    plans: Mapping[str, TransferPlan],
    buffers: Mapping[Side, Buffers],
    endpoints: TransferEndpoints,
    dtype: torch.dtype | Mapping[str, torch.dtype],
    budget: StagingBudget,
    group: dist.ProcessGroup,
    device: torch.device,
) -> _Job:
    process = dist.get_rank(group)
    sizes = _element_size(dtype)
    dtypes = per_parameter(dtype, plans, "dtype")
    batch = cut_batch(plans, endpoints, element_size=sizes, budget=budget, processes={process})
    own = schedule_batch(batch, {process}).processes[process]
    if outside := [p for p in endpoints.processes if p >= group.size()]:
        raise TransferRefusedError(
            f"endpoints name processes {outside}, but the group has {group.size()} ranks"
        )
    shards = bind_buffers(plans, buffers, endpoints, dtypes=dtypes, device=device, process=process)
    digest = plan_digest(plans, endpoints, element_size=sizes, budget=budget)
    return _Job(
        rounds=Rounds(own, plans, shards, device),
        stats=TransferStats(
            segments=batch.num_segments,
            chunks=batch.num_chunks,
            rounds=own.num_rounds,
            local_copy_bytes=sum(
                chunk.num_elements * dtypes[chunk.parameter].itemsize for chunk in own.local_copies
            ),
            sent_bytes=_num_bytes(own.sends),
            received_bytes=_num_bytes(own.receives),
        ),
        agreement=f"plan digest {digest} and dtype {_dtype_text(dtype, dtypes)}",
    )


def _num_bytes(queues: Mapping[int, Queue]) -> int:
    return sum(message.num_bytes for queue in queues.values() for message in queue.messages)


def _element_size(dtype: torch.dtype | Mapping[str, torch.dtype]) -> ElementSize:
    if isinstance(dtype, Mapping):
        return {name: _item_size(value) for name, value in dtype.items()}
    return _item_size(dtype)


def _item_size(dtype: object) -> int:
    if not isinstance(dtype, torch.dtype):
        raise TransferRefusedError(f"dtype must be a torch.dtype, got {dtype!r}")
    return dtype.itemsize


def _dtype_text(dtype: object, dtypes: Mapping[str, torch.dtype]) -> str:
    """One spelling for one dtype and for the same dtype given for every parameter."""
    distinct = set(dtypes.values())
    if len(distinct) > 1:
        return str(dtypes)
    return str(distinct.pop() if distinct else dtype)
