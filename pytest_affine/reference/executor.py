"""Move the bytes: one exchange in which all ranks agree to start, then rounds of messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist

from pytest_affine.errors import AffineTransferError, TransferRefusedError
from pytest_affine.plans import (
    Chunk,
    Message,
    ProcessSchedule,
    Queue,
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferStats,
)
from pytest_affine.reference.batch import ElementSize, Side, per_parameter, segment_end
from pytest_affine.reference.buffers import Buffers, FlatShards, bind_buffers
from pytest_affine.reference.digest import plan_digest
from pytest_affine.reference.operations import cut_batch
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
    outcome: _Job | Exception
    with torch.inference_mode():
        try:
            outcome = _prepare(plans, buffers, endpoints, dtype, budget, group, device)
        except Exception as error:  # whatever it is, the other ranks must hear of it
            outcome = error
        job = _agree(outcome, group, device)
        _run(job, group)
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

    plans: Mapping[str, TransferPlan]
    shards: FlatShards
    schedule: ProcessSchedule
    arenas: Mapping[tuple[Side, int], torch.Tensor]
    stats: TransferStats
    agreement: str

    def region(self, chunk: Chunk, side: Side) -> torch.Tensor:
        """The chunk's elements in the shard of one side, as a view."""
        shard, first, strides = self._place(chunk, side)
        return shard.as_strided(chunk.shape, strides, shard.storage_offset() + first)

    def payload(self, message: Message, side: Side, peer: int) -> torch.Tensor:
        """The bytes to send or receive: of the shard itself, or of the arena.

        Bytes, because a backend may not know the dtype, or may not keep every bit of it.
        """
        if not message.direct:
            return self.arenas[side, peer][: message.num_bytes]
        shard, first, _ = self._place(message.chunks[0], side)
        return shard[first : first + message.num_elements].view(torch.uint8)

    def staged(
        self, message: Message, side: Side, peer: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every chunk of a staged message: its region of the shard, and its part of the arena."""
        end = 0
        for chunk in () if message.direct else message.chunks:
            region = self.region(chunk, side)
            start, end = end, end + region.numel() * region.element_size()
            part = self.arenas[side, peer][start:end]
            yield region, part.view(region.dtype).view(region.shape)

    def _place(self, chunk: Chunk, side: Side) -> tuple[torch.Tensor, int, tuple[int, ...]]:
        """The flat shard, the chunk's first element in it, and its strides."""
        segment = self.plans[chunk.parameter].segments[chunk.segment]
        location, offset, strides = segment_end(segment, side)
        steps = (start * stride for start, stride in zip(chunk.origin, strides, strict=True))
        return self.shards[side][chunk.parameter, location], offset + sum(steps), strides


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
    digest = plan_digest(plans, endpoints, element_size=sizes, budget=budget)
    return _Job(
        plans=plans,
        shards=bind_buffers(
            plans, buffers, endpoints, dtypes=dtypes, device=device, process=process
        ),
        schedule=own,
        arenas=_arenas(own, device),
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


def _arenas(own: ProcessSchedule, device: torch.device) -> dict[tuple[Side, int], torch.Tensor]:
    queues: dict[Side, Mapping[int, Queue]] = {"source": own.sends, "target": own.receives}
    return {
        (side, peer): torch.empty(queue.arena_bytes, dtype=torch.uint8, device=device)
        for side in queues
        for peer, queue in queues[side].items()
    }


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


def _agree(outcome: _Job | Exception, group: dist.ProcessGroup, device: torch.device) -> _Job:
    """Return the job once every rank has the same one; else raise what every rank raises.

    The first gather has a fixed size; texts are only gathered when something is wrong.
    """
    job = outcome if isinstance(outcome, _Job) else None
    text = job.agreement if job else _reason(outcome)
    encoded = text.encode(errors="backslashreplace")
    head = bytes([job is None]) + len(encoded).to_bytes(8, "little")
    records = _gather(head + hashlib.sha256(encoded).digest(), group, device)
    if job and len(set(records)) == 1:
        return job
    lengths = [int.from_bytes(record[1:9], "little") for record in records]
    padded = _gather(encoded.ljust(max(lengths)), group, device)
    texts = [text[:length].decode() for text, length in zip(padded, lengths, strict=True)]
    refusals = {p: texts[p] for p, record in enumerate(records) if record[0]}
    agreements = {p: text for p, text in enumerate(texts) if p not in refusals}
    refusal = TransferRefusedError(_refusal(refusals, agreements))
    raise refusal from (outcome if isinstance(outcome, Exception) else None)


def _reason(error: object) -> str:
    kind = "" if isinstance(error, AffineTransferError) else f"{type(error).__name__}: "
    return f"{kind}{error}"


def _gather(payload: bytes, group: dist.ProcessGroup, device: torch.device) -> list[bytes]:
    """Every rank's payload, all of one length, in the order of the group's ranks."""
    own = torch.tensor(list(payload), dtype=torch.uint8, device=device)
    gathered = [torch.empty_like(own) for _ in range(group.size())]
    dist.all_gather(gathered, own, group=group)
    return [bytes(record.tolist()) for record in gathered]


def _refusal(refusals: Mapping[int, str], agreements: Mapping[int, str]) -> str:
    parts = [f"process {process} refuses: {reason}" for process, reason in refusals.items()]
    processes: dict[str, list[int]] = {}
    for process, text in agreements.items():
        processes.setdefault(text, []).append(process)
    if len(processes) > 1:
        sides = (f"processes {numbers} have {text}" for text, numbers in processes.items())
        parts.append("processes disagree: " + ", ".join(sides))
    return "nothing was moved: " + "; ".join(parts)


def _run(job: _Job, group: dist.ProcessGroup) -> None:
    for chunk in job.schedule.local_copies:
        job.region(chunk, "target").copy_(job.region(chunk, "source"))
    for index in range(job.schedule.num_rounds):
        sends = _messages(job.schedule.sends, index)
        receives = _messages(job.schedule.receives, index)
        for peer, message in sends.items():
            for region, part in job.staged(message, "source", peer):
                part.copy_(region)
        _transmit(job, sends, receives, group)
        for peer, message in receives.items():
            for region, part in job.staged(message, "target", peer):
                region.copy_(part)


def _messages(queues: Mapping[int, Queue], index: int) -> dict[int, Message]:
    return {
        peer: queue.messages[index] for peer, queue in queues.items() if index < len(queue.messages)
    }


def _transmit(
    job: _Job,
    sends: Mapping[int, Message],
    receives: Mapping[int, Message],
    group: dist.ProcessGroup,
) -> None:
    """Post one round as one batch, and wait for it. torch wants peers by global rank."""
    operations = [
        *(_operation(dist.irecv, job, "target", *to, group) for to in receives.items()),
        *(_operation(dist.isend, job, "source", *to, group) for to in sends.items()),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def _operation(
    operation: Callable[..., dist.Work | None],
    job: _Job,
    side: Side,
    peer: int,
    message: Message,
    group: dist.ProcessGroup,
) -> dist.P2POp:
    payload = job.payload(message, side, peer)
    return dist.P2POp(operation, payload, dist.get_global_rank(group, peer), group)
