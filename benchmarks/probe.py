"""What a probe costs beside the refit that it probes: seconds and memory, in one run.

    python benchmarks/probe.py [ELEMENTS]

10^8 elements of bfloat16 by default, in 16 parameters, on 4 ranks of gloo with one thread each:
rows to columns, moved by `torch.distributed.all_to_all_single` between packing and unpacking.

The refit alone runs as often as within the probe, and takes turns with it. `ratio` is the probe's
time, without the refits in it, by that of the refits alone. Memory is what a rank's peak grows by,
first with the refit, then with the probe; `tensors` is what its sources and targets take.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from pytest_affine.builders import contiguous_split_map
from pytest_affine.probe import Probe, ProbeReport, Side

NUM_RANKS = 4
NUM_PARAMETERS = 16
NUM_REPETITIONS = 3
MEGABYTE = 2**20

Tensors = dict[str, torch.Tensor]


def sides(side: int) -> tuple[Tensors, Tensors, Probe]:
    """Square parameters, rows in the source and columns in the target, and their probe."""
    rank, widths = dist.get_rank(), [side // NUM_RANKS] * NUM_RANKS
    names = [f"layers.{number}.weight" for number in range(NUM_PARAMETERS)]
    maps = [contiguous_split_map((side, side), widths, dim) for dim in (0, 1)]
    tensors = [
        {name: torch.zeros(map_.shard_shape(rank), dtype=torch.bfloat16) for name in names}
        for map_ in maps
    ]
    source, target = (
        Side(maps=dict.fromkeys(names, map_), tensors={rank: own}, dtypes="bfloat16")
        for map_, own in zip(maps, tensors, strict=True)
    )
    return tensors[0], tensors[1], Probe(source=source, target=target)


def refit(source: Tensors, target: Tensors) -> None:
    for name, rows in source.items():
        blocks = torch.stack(rows.chunk(NUM_RANKS, dim=1))
        received = torch.empty_like(blocks)
        dist.all_to_all_single(received, blocks)
        target[name].view(received.shape).copy_(received)  # blocks of rows, one from each rank


def cost(call: Callable[[], object]) -> torch.Tensor:
    """Seconds of the slowest rank, from when all are there, and seconds of all cores together."""
    dist.barrier()
    start, used = time.perf_counter(), time.process_time()
    call()
    seconds = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    cores = torch.tensor([time.process_time() - used], dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    dist.all_reduce(cores)
    return torch.cat([seconds, cores])


def judged(report: ProbeReport) -> None:
    assert report.faults == ()
    assert len(report.judged) == NUM_PARAMETERS


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(rank: int, num_elements: int, folder: str) -> None:
    torch.set_num_threads(1)
    address = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=NUM_RANKS)
    side = round((num_elements / NUM_PARAMETERS) ** 0.5) // NUM_RANKS * NUM_RANKS
    source, target, probe = sides(side)
    start = peak_bytes()
    cost(lambda: refit(source, target))
    after_refit = peak_bytes()
    inside: list[torch.Tensor] = []
    alone, own = [], []
    for _ in range(NUM_REPETITIONS):
        inside.clear()
        whole = cost(
            lambda: judged(probe.run(lambda: inside.append(cost(lambda: refit(source, target)))))
        )
        own.append(whole - torch.stack(inside).sum(0))
        alone.append(torch.stack([cost(lambda: refit(source, target)) for _ in inside]).sum(0))
    if rank == 0:
        print(f"{NUM_PARAMETERS * side * side:,} elements, {len(inside)} runs of the refit")
        for name, number in (("seconds", 0), ("seconds of all cores", 1)):
            refits, more = (
                statistics.median(float(each[number]) for each in costs) for costs in (alone, own)
            )
            print(f"{name}: refits {refits:.2f}, probe {more:.2f}, ratio {more / refits:.2f}")
        tensors = sum(each.nbytes for each in [*source.values(), *target.values()])
        shown = (tensors, after_refit - start, peak_bytes() - after_refit)
        print(
            "MiB of a rank: tensors {:.0f}, refit {:.0f}, probe {:.0f} more".format(
                *(size / MEGABYTE for size in shown)
            )
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8
        spawn(main, (count, folder), nprocs=NUM_RANKS)  # type: ignore[no-untyped-call]
