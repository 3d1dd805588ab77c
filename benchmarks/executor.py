"""Moving 64 MiB between ranks: the executor beside raw messages and DTensor, in one run.

    python benchmarks/executor.py [RANKS ...]

On gloo, every rank a process with one thread, float32, the default budget. Raw messages are the
schedule's: as many, as long, between the same ranks, in the same rounds of `batch_isend_irecv`, out
of and into packed memory that was there before; nothing is copied, also what stays on its rank.

Repetitions of all take turns; each begins when every rank is there and takes as long as the slowest
rank. The median counts. `exchange` is what a batch without parameters takes, in which ranks only
agree that they move the same; it is no part of `ours`. Ratios are the peer's time by ours, larger
is faster. A peer is raw messages, and for rows to columns `DTensor.redistribute` too.

Then a sync of many small parameters, rows to columns: `reshard`, which plans it, beside `run` of
`open_sync`, which has planned it before. Both begin with the exchange, which is in their times.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TypeAlias

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.multiprocessing.spawn import spawn

from pytest_affine.builders import contiguous_split_map, sub_param_map
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import Message, StagingBudget, TransferEndpoints
from pytest_affine.reference.executor import execute_transfers
from pytest_affine.reference.planner import plan_transfer
from pytest_affine.reference.resharding import open_sync, reshard
from pytest_affine.reference.schedule import schedule_transfers
from pytest_affine.sync import Sync, SyncParameter

SIDE = 4096
"""Rows and columns of the full tensor, whose elements take 4 bytes."""

NUM_REPETITIONS = 15

NUM_SMALL = 300
"""Parameters of the sync of small ones, about as many as a model of 32 layers has."""

SMALL = 32
"""Rows and columns of a small parameter."""

Pair: TypeAlias = tuple[ParamAffineMap, ParamAffineMap]


@dataclass(frozen=True, slots=True)
class Move:
    """What is moved: two maps of the full tensor, and by how many processes a target is moved on.

    A target location's process has the number of the location, and that many more.
    """

    maps: Pair
    shift: int


def rows(num_ranks: int) -> ParamAffineMap:
    return contiguous_split_map((SIDE, SIDE), [SIDE // num_ranks] * num_ranks, 0)


def columns(num_ranks: int) -> ParamAffineMap:
    return contiguous_split_map((SIDE, SIDE), [SIDE // num_ranks] * num_ranks, 1)


def fused_columns(num_ranks: int) -> ParamAffineMap:
    """Two fused parameters, each split in columns, such as a gate and what goes up."""
    half = SIDE // 2
    widths = [[half // num_ranks] * num_ranks] * 2
    return sub_param_map((SIDE, SIDE), [half, half], widths, 1)


def moves(num_ranks: int) -> dict[str, Move]:
    return {
        "direct": Move((rows(num_ranks), rows(num_ranks)), 1),
        "one side strided": Move((rows(num_ranks), columns(num_ranks)), 0),
        "both sides strided": Move((fused_columns(num_ranks), columns(num_ranks)), 0),
    }


def executed(move: Move, num_ranks: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """What moves it by the executor, and by raw messages."""
    rank = dist.get_rank()
    shifted = {at: (at + move.shift) % num_ranks for at in range(num_ranks)}
    endpoints = TransferEndpoints({at: at for at in range(num_ranks)}, shifted)
    plans = {"w": plan_transfer(*move.maps)}
    here = next(at for at, process in shifted.items() if process == rank)
    source = torch.randn(dict(move.maps[0].shard_shapes)[rank])
    target = torch.zeros(dict(move.maps[1].shard_shapes)[here])
    ours = partial(
        execute_transfers,
        plans,
        {"w": {rank: source}},
        {"w": {here: target}},
        endpoints,
        dtype=torch.float32,
    )
    schedule = schedule_transfers(plans, endpoints, element_size=4, budget=StagingBudget())
    own = schedule.processes[rank]
    operations = [
        *(queued(dist.irecv, peer, queue.messages) for peer, queue in own.receives.items()),
        *(queued(dist.isend, peer, queue.messages) for peer, queue in own.sends.items()),
    ]
    rounds = [[op for op in found if op] for found in zip_longest(*operations)]
    return ours, partial(transmit, rounds)


def queued(
    operation: Callable[..., dist.Work | None], peer: int, messages: Sequence[Message]
) -> list[dist.P2POp]:
    lengths = [message.num_bytes for message in messages]
    memory = torch.zeros(sum(lengths), dtype=torch.uint8)
    return [dist.P2POp(operation, part, peer) for part in torch.split(memory, lengths)]


def transmit(rounds: Sequence[list[dist.P2POp]]) -> None:
    for operations in rounds:
        for work in dist.batch_isend_irecv(operations):
            work.wait()


def redistributed(num_ranks: int) -> Callable[[], object]:
    mesh = init_device_mesh("cpu", (num_ranks,))
    local = torch.randn(SIDE // num_ranks, SIDE)
    return partial(DTensor.from_local(local, mesh, [Shard(0)]).redistribute, mesh, [Shard(1)])


def held_and_not(num_ranks: int) -> dict[str, Callable[[], object]]:
    """What moves many small parameters: in one call that plans them, and planned before."""
    rank, group = dist.get_rank(), dist.group.WORLD
    widths = [SMALL // num_ranks] * num_ranks
    maps = [contiguous_split_map((SMALL, SMALL), widths, axis) for axis in (0, 1)]
    processes = {at: at for at in range(num_ranks)}
    sync = Sync(
        parameters=tuple(
            SyncParameter(name=f"layers.{number}", source=maps[0], target=maps[1])
            for number in range(NUM_SMALL)
        ),
        endpoints=TransferEndpoints(processes, processes),
        num_processes=num_ranks,
    )
    sources, targets = (
        {
            parameter.name: {rank: torch.randn(dict(map_.shard_shapes)[rank])}
            for parameter in sync.parameters
        }
        for map_ in maps
    )
    return {
        "one call": partial(reshard, sync, sources, targets, group=group),
        "held": open_sync(sync, sources, targets, group=group).run,
    }


def seconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median time of each, of the slowest rank; they take turns, and warm up once."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(NUM_REPETITIONS + 1):
        for name, call in calls.items():
            dist.barrier()
            start = time.perf_counter()
            call()
            taken = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
            dist.all_reduce(taken, dist.ReduceOp.MAX)
            times[name].append(taken.item())
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def main(rank: int, num_ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    address = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=num_ranks)
    processes = {at: at for at in range(num_ranks)}
    nothing = partial(
        execute_transfers, {}, {}, {}, TransferEndpoints(processes, processes), dtype=torch.float32
    )
    for name, move in moves(num_ranks).items():
        ours, raw = executed(move, num_ranks)
        calls: dict[str, Callable[[], object]] = {"exchange": nothing, "ours": ours, "raw": raw}
        if name == "one side strided":
            calls["DTensor"] = redistributed(num_ranks)
        found = seconds(calls)
        if rank == 0:
            show(num_ranks, name, found)
    found = seconds(held_and_not(num_ranks))
    if rank == 0:
        times = ", ".join(f"{name} {1e3 * value:.1f} ms" for name, value in found.items())
        ratio = found["one call"] / found["held"]
        print(f"{num_ranks} ranks, {NUM_SMALL} small parameters: {times}, ratio {ratio:.1f}")
    dist.destroy_process_group()


def show(num_ranks: int, name: str, found: dict[str, float]) -> None:
    exchange = found.pop("exchange")
    found["ours"] -= exchange
    ratios = {peer: found[peer] / found["ours"] for peer in found if peer != "ours"}
    parts = [f"{key} {1e3 * value:.1f} ms" for key, value in found.items()]
    parts += [f"exchange {1e3 * exchange:.2f} ms"]
    parts += [f"ratio to {peer} {ratio:.2f}" for peer, ratio in ratios.items()]
    print(f"{num_ranks} ranks, {name}: {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    for number in map(int, sys.argv[1:] or ("2", "4")):
        with tempfile.TemporaryDirectory() as folder:
            spawn(main, (number, folder), nprocs=number)  # type: ignore[no-untyped-call]
