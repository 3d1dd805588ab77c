"""Schedule, digest and analysis of a whole model, by the number of processes.

    python benchmarks/analyzer.py [PROCESSES ...]

Llama 3 405B goes from ranks that train it to as many others that serve it; no process is on both
sides. The budget is 8 MiB per peer and direction. Each stage runs once, as users call it, in a
process of its own that is forked when the plans are there. Seconds are this process's on a CPU: no
stage uses more than one. Memory is what the process has at most, and how much more than before the
stage.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

from pytest_affine.commands.model_batch import plan_batch
from pytest_affine.models import load_model
from pytest_affine.plans import PlanBudget, StagingBudget
from pytest_affine.reference.analyzer import analyze_transfers, report_to_dict
from pytest_affine.reference.digest import plan_digest
from pytest_affine.reference.schedule import schedule_transfers

MODEL = "llama-3-405b"
SHARDINGS = {
    64: ("tp8,fsdp4", "tp16,pp2"),
    256: ("tp8,fsdp16", "tp16,pp8"),
    1024: ("tp8,fsdp64", "tp16,pp32"),
    4096: ("tp8,fsdp256", "tp16,pp64,dp2"),
}
STAGES: dict[str, Callable[..., object]] = {
    "schedule": schedule_transfers,
    "digest": plan_digest,
    "analysis": analyze_transfers,
}
OF_ONE: Callable[..., object] = partial(schedule_transfers, process=0)


def measured(stage: Callable[..., object]) -> tuple[float, int, int]:
    """CPU seconds of a stage, bytes that it added to its process, and bytes of this in all."""
    before = peak_bytes()
    start = time.process_time()
    stage(batch.plans, batch.endpoints, **options)
    seconds = time.process_time() - start
    return seconds, peak_bytes() - before, peak_bytes()


def peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def show(num_processes: int) -> None:
    report = analyze_transfers(batch.plans, batch.endpoints, **options)
    print(
        f"\n{num_processes:,} processes, {' to '.join(batch.degrees)}: {report.num_segments:,} "
        f"segments in {report.num_chunks:,} chunks, planned in {batch.plan_seconds:.1f} s\n"
        f"{'':20} {'s':>8} {'us/segment':>11} {'MB more':>8} {'MB in all':>10}",
        flush=True,
    )
    num_segments = report.num_segments
    total = sum(show_stage(name, stage, num_segments) for name, stage in STAGES.items())
    print(f"{'together':20} {total:8.2f} {total / num_segments * 1e6:11.2f}")
    show_stage("schedule of one", OF_ONE, num_segments)
    text = json.dumps(report_to_dict(report), separators=(",", ":"))
    print(f"report of {len(report.pairs):,} pairs: {len(text) / 1e6:.2f} MB of JSON", flush=True)


def show_stage(name: str, stage: Callable[..., object], num_segments: int) -> float:
    """Print a line; seconds."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as forked:
        seconds, added, peak = forked.submit(measured, stage).result()
    print(
        f"{name:20} {seconds:8.2f} {seconds / num_segments * 1e6:11.2f} {added / 1e6:8.0f} "
        f"{peak / 1e6:10.0f}",
        flush=True,
    )
    return seconds


if __name__ == "__main__":
    for given in map(int, sys.argv[1:] or SHARDINGS):
        degrees = SHARDINGS[given]
        batch = plan_batch(load_model(MODEL), *degrees, apart=True, limits=PlanBudget())
        options: dict[str, Any] = {"element_size": batch.element_size, "budget": StagingBudget()}
        show(given)
