"""What one process will do in one batch: made before the exchange, so that nothing fails after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist

from pytest_affine.errors import TransferRefusedError
from pytest_affine.plans import (
    ProcessSchedule,
    Queue,
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferStats,
)
from pytest_affine.reference.batch import Side, per_parameter
from pytest_affine.reference.buffers import Buffers, FlatShards, bind_buffers
from pytest_affine.reference.digest import plan_digest
from pytest_affine.reference.dtypes import Dtype, Dtypes, dtypes_of
from pytest_affine.reference.operations import cut_batch
from pytest_affine.reference.schedule import schedule_batch

__all__ = ["Program", "programmed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A batch and what this process does of it, whatever the buffers.

    Attributes:
        plans: by parameter.
        endpoints: location to process.
        dtypes: by parameter.
        process: this one.
        schedule: what it does.
        stats: what it will have done.
        agreement: what must be the same on every rank.
    """

    plans: Mapping[str, TransferPlan]
    endpoints: TransferEndpoints
    dtypes: Mapping[str, Dtypes]
    process: int
    schedule: ProcessSchedule
    stats: TransferStats
    agreement: str

    def bind(self, buffers: Mapping[Side, Buffers], device: torch.device) -> FlatShards:
        """Return the shards of this process.

        Raises:
            TransferRefusedError: buffers do not fit.
        """
        return bind_buffers(
            self.plans,
            buffers,
            self.endpoints,
            dtypes=self.dtypes,
            device=device,
            process=self.process,
        )


def programmed(
    plans: Mapping[str, TransferPlan],
    endpoints: TransferEndpoints,
    *,
    dtype: Dtype | Mapping[str, Dtype],
    budget: StagingBudget,
    group: dist.ProcessGroup,
    cast: bool,
) -> Program:
    """Return what this rank of a group does of a batch.

    Raises:
        AffineTransferError: a batch, dtypes or endpoints that must be refused.
    """
    process = dist.get_rank(group)
    given = dtypes_of(dtype, cast=cast)
    dtypes = per_parameter(given, plans, "dtype")
    sizes = (
        {name: each.element_size for name, each in given.items()}
        if isinstance(given, dict)
        else given.element_size
    )
    batch = cut_batch(
        plans, endpoints, element_size=sizes, budget=budget, cast=cast, processes={process}
    )
    own = schedule_batch(batch, {process}).processes[process]
    if outside := [p for p in endpoints.processes if p >= group.size()]:
        raise TransferRefusedError(
            f"endpoints name processes {outside}, but the group has {group.size()} ranks"
        )
    digest = plan_digest(plans, endpoints, element_size=sizes, budget=budget, cast=cast)
    return Program(
        plans=plans,
        endpoints=endpoints,
        dtypes=dtypes,
        process=process,
        schedule=own,
        stats=TransferStats(
            segments=batch.num_segments,
            chunks=batch.num_chunks,
            rounds=own.num_rounds,
            local_copy_bytes=sum(
                chunk.num_elements * dtypes[chunk.parameter].wire.itemsize
                for chunk in own.local_copies
            ),
            sent_bytes=_num_bytes(own.sends),
            received_bytes=_num_bytes(own.receives),
        ),
        agreement=f"plan digest {digest} and dtype {_dtype_text(given, dtypes)}",
    )


def _num_bytes(queues: Mapping[int, Queue]) -> int:
    return sum(message.num_bytes for queue in queues.values() for message in queue.messages)


def _dtype_text(given: object, dtypes: Mapping[str, Dtypes]) -> str:
    """One spelling for one dtype and for the same dtype given for every parameter."""
    distinct = set(dtypes.values())
    if len(distinct) > 1:
        return str({name: str(each) for name, each in dtypes.items()})
    return str(distinct.pop() if distinct else given)
