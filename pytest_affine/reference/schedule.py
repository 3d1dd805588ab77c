"""From plans to messages: chunks that fit the budget, packed per peer; integers, no tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, islice
from typing import Literal, TypeAlias

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
)
from pytest_affine.reference.collector import collector_paused
from pytest_affine.reference.cuts import SOURCE, TARGET, Load
from pytest_affine.reference.operations import Batch, Operations, cut_batch, pack
from pytest_affine.reference.widths import ElementSizes
from pytest_affine.reference.writing import unchecked_values
from pytest_affine.values import integer

__all__ = ["schedule_batch", "schedule_transfers"]


@collector_paused()
def schedule_transfers(
    plans: Mapping[str, TransferPlan],
    endpoints: TransferEndpoints,
    *,
    element_size: ElementSizes,
    budget: StagingBudget,
    process: int | None = None,
    cast: bool = False,
) -> Schedule:
    """Return what `execute_transfers` runs, for every process that an endpoint names.

    Pure: creates no tensor and communicates nothing, so any one process may call it. For one
    process it takes what that process's segments take, and one look at every other.

    Args:
        plans: by parameter, in the batch's order.
        endpoints: which process holds which location.
        element_size: bytes per element, one for all parameters or one per parameter; with `cast`
            also a pair, of source and target, where their dtypes differ.
        budget: bytes staged per peer and direction at one time.
        process: leave out all other processes' entries.
        cast: whether there may be pairs. Elements are cast by their sender if they are smaller in
            the target, else by their receiver, whose messages are not direct; every byte is one of
            the smaller elements.

    Raises:
        AffineTransferError: an unusable budget or element size, a location without an endpoint,
            an endpoint that is no process, or a `process` that no endpoint names.
    """
    if process is not None:
        process = integer(process, "process")
    batch = cut_batch(
        plans,
        endpoints,
        element_size=element_size,
        budget=budget,
        cast=cast,
        processes=None if process is None else {process},
    )
    if process is None:
        return schedule_batch(batch, batch.processes)
    if process not in batch.processes:
        raise AffineTransferError(
            f"process {process} is named by no endpoint; those named: {list(batch.processes)}"
        )
    return schedule_batch(batch, {process})


def schedule_batch(batch: Batch, processes: Collection[int]) -> Schedule:
    """Return the schedule of a batch for some processes, of which each operation has one."""
    sends: dict[int, dict[int, Queue]] = {process: {} for process in processes}
    receives: dict[int, dict[int, Queue]] = {process: {} for process in processes}
    local: dict[int, tuple[Chunk, ...]] = dict.fromkeys(processes, ())
    for (sender, receiver), own in batch.between.items():
        if sender == receiver:
            local[sender] = tuple(_chunks(own))
            continue
        sent, received = _queues(_messages(own, batch.budget_bytes))
        if sender in sends:
            sends[sender][receiver] = sent
        if receiver in receives:
            receives[receiver][sender] = received
    return Schedule({p: _process_schedule(sends[p], receives[p], local[p]) for p in sorted(local)})


def _chunks(operations: Operations) -> Sequence[Chunk]:
    boxes = [cut.boxes for cut in operations.cuts]
    columns = operations.parameters, operations.segments
    repeated = (
        [value for value, own in zip(column, boxes, strict=True) for _ in own] for column in columns
    )
    origins, shapes = zip(*chain.from_iterable(boxes), strict=True)
    return unchecked_values(Chunk, *repeated, origins, shapes)


Loaded: TypeAlias = tuple[tuple[Chunk, ...], Load]


def _messages(operations: Operations, budget_bytes: int) -> list[Loaded]:
    chunks = iter(_chunks(operations))
    messages = []
    for num_chunks, load, goes_on in pack(operations.cuts, budget_bytes):
        messages.append((tuple(islice(chunks, num_chunks)), load))
        if goes_on is not None:
            inner = goes_on.loads[1:-1]
            alone = ((chunk,) for chunk in islice(chunks, len(inner)))
            messages += zip(alone, inner, strict=True)
    return messages


def _queues(messages: Sequence[Loaded]) -> tuple[Queue, Queue]:
    """The queue of the sender and that of the receiver, which are one where they are equal."""
    sent = _queue(messages, SOURCE)
    equal = all(load.direct[SOURCE] == load.direct[TARGET] for _, load in messages)
    return sent, sent if equal else _queue(messages, TARGET)


def _queue(messages: Sequence[Loaded], side: Literal[0, 1]) -> Queue:
    staged = (load.num_bytes for _, load in messages if not load.direct[side])
    queue = [
        Message(
            chunks=chunks,
            num_elements=load.num_elements,
            num_bytes=load.num_bytes,
            direct=load.direct[side],
        )
        for chunks, load in messages
    ]
    return Queue(tuple(queue), max(staged, default=0))


def _process_schedule(
    sends: Mapping[int, Queue], receives: Mapping[int, Queue], local_copies: tuple[Chunk, ...]
) -> ProcessSchedule:
    queues = (*sends.values(), *receives.values())
    return ProcessSchedule(
        sends=sends,
        receives=receives,
        local_copies=local_copies,
        num_rounds=max((len(queue.messages) for queue in queues), default=0),
    )
