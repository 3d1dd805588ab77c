"""What a batch will cost, read off its schedule before anything runs; integers, no tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple, TypeAlias

from pytest_affine.errors import AffineTransferError
from pytest_affine.plans import (
    ProcessReport,
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferReport,
    TransferStats,
    Volume,
)
from pytest_affine.reference.collector import collector_paused
from pytest_affine.reference.cuts import SOURCE, TARGET, Cut, Load
from pytest_affine.reference.operations import cut_batch, pack
from pytest_affine.reference.widths import ElementSizes
from pytest_affine.values import integer

__all__ = [
    "REPORT_SCHEMA",
    "PathOf",
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


@collector_paused()
def analyze_transfers(
    plans: Mapping[str, TransferPlan],
    endpoints: TransferEndpoints,
    *,
    element_size: ElementSizes,
    budget: StagingBudget,
    path_of: PathOf = default_path_of,
    cast: bool = False,
) -> TransferReport:
    """Return what `execute_transfers` will move, by process, pair and path.

    Pure: creates no tensor and communicates nothing, so any one process may call it.

    Args:
        plans: by parameter, in the batch's order.
        endpoints: which process holds which location.
        element_size: bytes per element, as in `schedule_transfers`.
        budget: bytes staged per peer and direction at one time.
        path_of: label of what goes from one process to another, or stays (`path_of(p, p)`).
        cast: as in `schedule_transfers`.

    Raises:
        AffineTransferError: what `schedule_transfers` refuses.
    """
    batch = cut_batch(plans, endpoints, element_size=element_size, budget=budget, cast=cast)
    loads = {
        pair: _loads(own.cuts, batch.budget_bytes)
        for pair, own in batch.between.items()
        if pair[0] != pair[1]
    }
    local = {p: own.cuts for (p, receiver), own in batch.between.items() if p == receiver}
    sends, receives = _queues(batch.processes, loads)
    processes = {
        p: _process_report(sends[p], receives[p], local.get(p, ())) for p in batch.processes
    }
    pairs = {
        (sender, receiver): (queue.num_bytes, queue.num_messages)
        for sender, queues in sends.items()
        for receiver, queue in queues.items()
    }
    return TransferReport(
        num_segments=batch.num_segments,
        num_chunks=batch.num_chunks,
        volume=Volume(
            local_elements=sum(cut.num_elements for cuts in local.values() for cut in cuts),
            remote_elements=sum(
                load.num_elements * number for own in loads.values() for load, number in own.items()
            ),
            local_bytes=sum(report.local_copy_bytes for report in processes.values()),
            remote_bytes=sum(report.sent_bytes for report in processes.values()),
        ),
        segment_sizes=_counts((cut.num_bytes, n) for cut, n in batch.num_by_cut.items()),
        message_sizes=_counts(
            (load.num_bytes, n) for own in loads.values() for load, n in own.items()
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
    """Return the report as JSON-ready values, keys strings; `pairs` by sender, then by receiver."""
    volume = report.volume
    pairs: dict[str, dict[str, list[int]]] = {}
    for (sender, receiver), traffic in report.pairs.items():
        pairs.setdefault(str(sender), {})[str(receiver)] = list(traffic)
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
        "pairs": pairs,
        "paths": {label: list(traffic) for label, traffic in report.paths.items()},
    }


def _loads(cuts: Iterable[Cut], budget_bytes: int) -> Counter[Load]:
    """How many messages of one pair carry what."""
    loads: Counter[Load] = Counter()
    for _, load, goes_on in pack(cuts, budget_bytes):
        loads[load] += 1
        if goes_on is not None:
            loads.update(goes_on.inner_loads)
    return loads


class _Queue(NamedTuple):
    """Totals of what one side does for one pair; staged is what is packed or unpacked."""

    num_messages: int
    num_bytes: int
    staged_bytes: int
    arena_bytes: int


Queues: TypeAlias = dict[int, dict[int, _Queue]]


def _queues(
    processes: Iterable[int], loads: Mapping[tuple[int, int], Counter[Load]]
) -> tuple[Queues, Queues]:
    """By process and peer, what is sent and what is received."""
    sends: Queues = {process: {} for process in processes}
    receives: Queues = {process: {} for process in processes}
    for (sender, receiver), own in loads.items():
        sends[sender][receiver] = _queue(own, SOURCE)
        receives[receiver][sender] = _queue(own, TARGET)
    return sends, receives


def _queue(loads: Counter[Load], side: Literal[0, 1]) -> _Queue:
    staged = [(load.num_bytes, number) for load, number in loads.items() if not load.direct[side]]
    return _Queue(
        num_messages=sum(loads.values()),
        num_bytes=sum([load.num_bytes * number for load, number in loads.items()]),
        staged_bytes=sum([num_bytes * number for num_bytes, number in staged]),
        arena_bytes=max(staged, default=(0, 0))[0],
    )


def _process_report(
    sends: Mapping[int, _Queue], receives: Mapping[int, _Queue], local: Iterable[Cut]
) -> ProcessReport:
    sent, received = sends.values(), receives.values()
    return ProcessReport(
        sent_bytes=sum(queue.num_bytes for queue in sent),
        received_bytes=sum(queue.num_bytes for queue in received),
        local_copy_bytes=sum(cut.num_bytes for cut in local),
        num_peers=len({*sends, *receives}),
        num_sent_messages=sum(queue.num_messages for queue in sent),
        num_received_messages=sum(queue.num_messages for queue in received),
        pack_bytes=sum(queue.staged_bytes for queue in sent),
        unpack_bytes=sum(queue.staged_bytes for queue in received),
        staging_bytes=sum(queue.arena_bytes for queue in (*sent, *received)),
        num_rounds=max((queue.num_messages for queue in (*sent, *received)), default=0),
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


def _counts(sizes: Iterable[tuple[int, int]]) -> dict[int, int]:
    counts: Counter[int] = Counter()
    for size, number in sizes:
        counts[size] += number
    return dict(sorted(counts.items()))
