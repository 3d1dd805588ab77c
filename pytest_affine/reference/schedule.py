"""From plans to messages: chunks that fit the budget, packed per peer; integers, no tensors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pytest_affine.errors import AffineTransferError
from pytest_affine.plans import (
    Chunk,
    Message,
    ProcessSchedule,
    Queue,
    Schedule,
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferSegment,
)
from pytest_affine.reference.batch import (
    ElementSize,
    Side,
    bound_processes,
    check_segments,
    checked_bytes,
    segment_end,
)
from pytest_affine.values import integer

__all__ = ["num_chunks", "schedule_processes", "schedule_transfers"]


def schedule_transfers(
    plans: Mapping[str, TransferPlan],
    endpoints: TransferEndpoints,
    *,
    element_size: ElementSize,
    budget: StagingBudget,
    process: int | None = None,
) -> Schedule:
    """Return what `execute_transfers` runs, for every process that an endpoint names.

    Pure: creates no tensor and communicates nothing, so any one process may call it.

    Args:
        plans: by parameter, in the batch's order.
        endpoints: which process holds which location.
        element_size: bytes per element, one for all parameters or one per parameter.
        budget: bytes staged per peer and direction at one time.
        process: leave out all other processes' entries.

    Raises:
        AffineTransferError: an unusable budget or element size, a location without an endpoint,
            an endpoint that is no process, or a `process` that no endpoint names.
    """
    sources, targets = bound_processes(endpoints)
    processes = {*sources.values(), *targets.values()}
    if process is not None:
        process = integer(process, "process")
        if process not in processes:
            raise AffineTransferError(
                f"process {process} is named by no endpoint; those named: {sorted(processes)}"
            )
        processes = {process}
    return schedule_processes(
        plans, endpoints, element_size=element_size, budget=budget, processes=processes
    )


def schedule_processes(
    plans: Mapping[str, TransferPlan],
    endpoints: TransferEndpoints,
    *,
    element_size: ElementSize,
    budget: StagingBudget,
    processes: Collection[int],
) -> Schedule:
    """`schedule_transfers` for some processes; with none of them it only checks the batch."""
    sizes, budget_bytes = checked_bytes(plans, element_size, budget)
    sources, targets = bound_processes(endpoints)
    local: dict[int, list[Chunk]] = {process: [] for process in processes}
    remote: dict[tuple[int, int], list[_Operation]] = {}
    for name, plan in plans.items():
        check_segments(name, plan, "source", sources)
        check_segments(name, plan, "target", targets)
        for index, segment in enumerate(plan.segments):
            ends = sources[segment.source_location], targets[segment.target_location]
            if 0 in segment.shape or local.keys().isdisjoint(ends):
                continue
            chunks = _cut(name, index, segment.shape, budget_bytes // sizes[name])
            if ends[0] == ends[1]:
                local[ends[0]].extend(chunks)
            else:
                operations = (_Operation(chunk, segment, sizes[name]) for chunk in chunks)
                remote.setdefault(ends, []).extend(operations)
    return _schedule(local, remote, budget_bytes)


def num_chunks(
    plans: Mapping[str, TransferPlan], *, element_size: ElementSize, budget: StagingBudget
) -> int:
    """Return the number of chunks of a whole batch, local ones included."""
    sizes, budget_bytes = checked_bytes(plans, element_size, budget)
    return sum(
        _num_chunks(segment.shape, budget_bytes // sizes[name])
        for name, plan in plans.items()
        for segment in plan.segments
    )


def _num_chunks(shape: tuple[int, ...], limit: int) -> int:
    if 0 in shape:
        return 0
    steps = _chunk_shape(shape, limit)
    return math.prod(-(-extent // step) for extent, step in zip(shape, steps, strict=True))


def _chunk_shape(shape: tuple[int, ...], limit: int) -> tuple[int, ...]:
    """Extents of a full chunk: inner axes whole, then as much of one axis as fits, then ones."""
    steps = [1] * len(shape)
    for axis in reversed(range(len(shape))):
        steps[axis] = min(shape[axis], limit)
        if steps[axis] < shape[axis]:
            break
        limit //= shape[axis]
    return tuple(steps)


def _cut(name: str, index: int, shape: tuple[int, ...], limit: int) -> Iterator[Chunk]:
    """Yield the chunks of a segment in row-major order."""
    steps = _chunk_shape(shape, limit)
    starts = (range(0, extent, step) for extent, step in zip(shape, steps, strict=True))
    for origin in itertools.product(*starts):
        extents = (min(s, e - o) for s, e, o in zip(steps, shape, origin, strict=True))
        yield Chunk(parameter=name, segment=index, origin=origin, shape=tuple(extents))


@dataclass(frozen=True, slots=True)
class _Operation:
    """A chunk on its way between two processes."""

    chunk: Chunk
    segment: TransferSegment
    element_size: int

    @property
    def num_bytes(self) -> int:
        return self.chunk.num_elements * self.element_size

    def is_packed(self, side: Side) -> bool:
        """Whether the chunk's region in the shard of this side is row-major contiguous."""
        packed_stride = 1
        strides = segment_end(self.segment, side)[2]
        for extent, stride in reversed(list(zip(self.chunk.shape, strides, strict=True))):
            if extent != 1 and stride != packed_stride:
                return False
            packed_stride *= extent
        return True


def _schedule(
    local: Mapping[int, list[Chunk]],
    remote: Mapping[tuple[int, int], list[_Operation]],
    budget_bytes: int,
) -> Schedule:
    sends: dict[int, dict[int, Queue]] = {process: {} for process in local}
    receives: dict[int, dict[int, Queue]] = {process: {} for process in local}
    for sender, receiver in sorted(remote):
        messages = _packed(remote[sender, receiver], budget_bytes)
        if sender in local:
            sends[sender][receiver] = _queue(messages, "source")
        if receiver in local:
            receives[receiver][sender] = _queue(messages, "target")
    return Schedule({p: _process_schedule(sends[p], receives[p], local[p]) for p in sorted(local)})


def _packed(operations: Iterable[_Operation], budget_bytes: int) -> list[list[_Operation]]:
    messages: list[list[_Operation]] = []
    room, element_size = 0, 0
    for operation in operations:
        if operation.num_bytes > room or operation.element_size != element_size:
            messages.append([])
            room, element_size = budget_bytes, operation.element_size
        messages[-1].append(operation)
        room -= operation.num_bytes
    return messages


def _queue(messages: Iterable[list[_Operation]], side: Side) -> Queue:
    queue = tuple(_message(operations, side) for operations in messages)
    staged = (message.num_bytes for message in queue if not message.direct)
    return Queue(queue, max(staged, default=0))


def _message(operations: list[_Operation], side: Side) -> Message:
    return Message(
        chunks=tuple(operation.chunk for operation in operations),
        num_elements=sum(operation.chunk.num_elements for operation in operations),
        num_bytes=sum(operation.num_bytes for operation in operations),
        direct=len(operations) == 1 and operations[0].is_packed(side),
    )


def _process_schedule(
    sends: Mapping[int, Queue], receives: Mapping[int, Queue], local_copies: Iterable[Chunk]
) -> ProcessSchedule:
    queues = (*sends.values(), *receives.values())
    return ProcessSchedule(
        sends=sends,
        receives=receives,
        local_copies=tuple(local_copies),
        num_rounds=max((len(queue.messages) for queue in queues), default=0),
    )
