"""What a batch will cost, read off its schedule before anything runs; integers, no tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pytest_affine.errors import AffineTransferError
from pytest_affine.plans import (
    Message,
    ProcessReport,
    ProcessSchedule,
    Queue,
    Schedule,
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferReport,
    TransferStats,
    Volume,
)
from pytest_affine.reference.batch import ElementSize, checked_bytes
from pytest_affine.reference.schedule import num_chunks, schedule_transfers
from pytest_affine.values import integer

__all__ = [
    "REPORT_SCHEMA",
    "analyze_transfers",
    "default_path_of",
    "expected_stats",
    "node_path_of",
    "report_to_dict",
]

REPORT_SCHEMA = 1

PathOf = Callable[[int, int], str]


def default_path_of(sender: int, receiver: int) -> str:
    """Return "local" within one process, "remote" between two."""
    return "local" if sender == receiver else "remote"


def node_path_of(nodes: Mapping[int, object] | Sequence[object]) -> PathOf:
    """Return a `path_of` that tells apart processes on one node and on two.

    Args:
        nodes: by process, anything that is equal for processes on one node.

    Returns:
        A function of two processes: "local", "intra_node" or "inter_node". It raises
        `AffineTransferError` for a process that `nodes` does not have.
    """
    by_process = dict(nodes) if isinstance(nodes, Mapping) else dict(enumerate(nodes))

    def path_of(sender: int, receiver: int) -> str:
        if unknown := {sender, receiver} - by_process.keys():
            raise AffineTransferError(
                f"no node is given for process {min(unknown)}; those given: {sorted(by_process)}"
            )
        if sender == receiver:
            return "local"
        return "intra_node" if by_process[sender] == by_process[receiver] else "inter_node"

    return path_of


def analyze_transfers(
    plans: Mapping[str, TransferPlan],
    endpoints: TransferEndpoints,
    *,
    element_size: ElementSize,
    budget: StagingBudget,
    path_of: PathOf = default_path_of,
) -> TransferReport:
    """Return what `execute_transfers` will move, by process, pair and path.

    Pure: creates no tensor and communicates nothing, so any one process may call it.

    Args:
        plans: by parameter, in the batch's order.
        endpoints: which process holds which location.
        element_size: bytes per element, one for all parameters or one per parameter.
        budget: bytes staged per peer and direction at one time.
        path_of: label of what goes from one process to another, or stays (`path_of(p, p)`).

    Raises:
        AffineTransferError: what `schedule_transfers` refuses.
    """
    schedule = schedule_transfers(plans, endpoints, element_size=element_size, budget=budget)
    sizes, _ = checked_bytes(plans, element_size, budget)
    processes = {p: _process_report(own, sizes) for p, own in schedule.processes.items()}
    pairs = {
        (sender, receiver): (_num_bytes(queue.messages), len(queue.messages))
        for sender, own in schedule.processes.items()
        for receiver, queue in own.sends.items()
    }
    return TransferReport(
        num_segments=sum(len(plan.segments) for plan in plans.values()),
        num_chunks=num_chunks(plans, element_size=element_size, budget=budget),
        volume=_volume(schedule, processes),
        segment_sizes=_counts(
            segment.num_elements * sizes[name]
            for name, plan in plans.items()
            for segment in plan.segments
        ),
        message_sizes=_counts(
            message.num_bytes
            for own in schedule.processes.values()
            for message in _messages(own.sends)
        ),
        num_rounds=max((report.num_rounds for report in processes.values()), default=0),
        processes=processes,
        pairs=pairs,
        paths=_paths(processes, pairs, path_of),
    )


def expected_stats(report: TransferReport, process: int) -> TransferStats:
    """Return what `execute_transfers` will return on a process that an endpoint names.

    Raises:
        AffineTransferError: a process that the report does not have.
    """
    if integer(process, "process") not in report.processes:
        raise AffineTransferError(
            f"process {process} is not in the report; those in it: {sorted(report.processes)}"
        )
    own = report.processes[process]
    return TransferStats(
        segments=report.num_segments,
        chunks=report.num_chunks,
        rounds=own.num_rounds,
        local_copy_bytes=own.local_copy_bytes,
        sent_bytes=own.sent_bytes,
        received_bytes=own.received_bytes,
    )


def report_to_dict(report: TransferReport) -> dict[str, Any]:
    """Return the report as JSON-ready values; every key is a string, a pair's is "p->q"."""
    volume = report.volume
    return {
        "schema": REPORT_SCHEMA,
        "process_numbering": report.process_numbering,
        "num_segments": report.num_segments,
        "num_chunks": report.num_chunks,
        "num_rounds": report.num_rounds,
        "volume": {"elements": volume.elements, "bytes": volume.num_bytes, **asdict(volume)},
        "segment_sizes": {str(size): count for size, count in report.segment_sizes.items()},
        "message_sizes": {str(size): count for size, count in report.message_sizes.items()},
        "processes": {str(process): asdict(own) for process, own in report.processes.items()},
        "pairs": {f"{p}->{q}": _traffic(*value) for (p, q), value in report.pairs.items()},
        "paths": {label: _traffic(*value) for label, value in report.paths.items()},
    }


def _traffic(num_bytes: int, num_messages: int) -> dict[str, int]:
    return {"bytes": num_bytes, "messages": num_messages}


def _process_report(own: ProcessSchedule, sizes: Mapping[str, int]) -> ProcessReport:
    sent, received = _messages(own.sends), _messages(own.receives)
    return ProcessReport(
        sent_bytes=_num_bytes(sent),
        received_bytes=_num_bytes(received),
        local_copy_bytes=sum(c.num_elements * sizes[c.parameter] for c in own.local_copies),
        num_peers=len({*own.sends, *own.receives}),
        num_sent_messages=len(sent),
        num_received_messages=len(received),
        pack_bytes=_num_bytes(message for message in sent if not message.direct),
        unpack_bytes=_num_bytes(message for message in received if not message.direct),
        staging_bytes=sum(q.arena_bytes for q in (*own.sends.values(), *own.receives.values())),
        num_rounds=own.num_rounds,
    )


def _messages(queues: Mapping[int, Queue]) -> list[Message]:
    return [message for queue in queues.values() for message in queue.messages]


def _num_bytes(messages: Iterable[Message]) -> int:
    return sum(message.num_bytes for message in messages)


def _volume(schedule: Schedule, processes: Mapping[int, ProcessReport]) -> Volume:
    own = schedule.processes.values()
    return Volume(
        local_elements=sum(chunk.num_elements for entry in own for chunk in entry.local_copies),
        remote_elements=sum(m.num_elements for entry in own for m in _messages(entry.sends)),
        local_bytes=sum(report.local_copy_bytes for report in processes.values()),
        remote_bytes=sum(report.sent_bytes for report in processes.values()),
    )


def _paths(
    processes: Mapping[int, ProcessReport],
    pairs: Mapping[tuple[int, int], tuple[int, int]],
    path_of: PathOf,
) -> dict[str, tuple[int, int]]:
    paths: dict[str, tuple[int, int]] = {}
    local = {(p, p): (own.local_copy_bytes, 0) for p, own in processes.items()}
    for pair, (num_bytes, num_messages) in sorted({**local, **pairs}.items()):
        if num_bytes:
            label = path_of(*pair)
            if not isinstance(label, str):
                raise AffineTransferError(f"path_of{pair} must be a string, got {label!r}")
            bytes_so_far, messages_so_far = paths.get(label, (0, 0))
            paths[label] = bytes_so_far + num_bytes, messages_so_far + num_messages
    return paths


def _counts(sizes: Iterable[int]) -> dict[int, int]:
    return dict(sorted(Counter(sizes).items()))
