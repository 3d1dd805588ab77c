"""Planning one parameter: this project's `plan_transfer` beside DeepSpeed's, in one run.

    pip install deepspeed && python benchmarks/planner.py

Both plan the same maps, which are made anew for every repetition: nothing can be remembered. What
is timed is the whole public call, validation included; making the maps, and translating them, is
not. Times are of the processor, of which both use one, so that other programs matter less. The
limits are raised and the garbage collector is off for both. The best of several repetitions counts;
a case that takes DeepSpeed more than 10 seconds is run once. Ratios are DeepSpeed's time by this
project's, larger is faster.

Then this project alone, from 256 to 16,384 locations: time and peak memory (in a pass of its own)
for each segment of the plan. Below, what every plan costs outweighs its segments.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, fields
from math import isqrt, prod
from typing import Any, TypeAlias

from pytest_affine.builders import (
    contiguous_split_map,
    flat_map,
    mesh_map,
    replicated_map,
    sub_param_map,
)
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import PlanBudget
from pytest_affine.reference.planner import plan_transfer

Maps: TypeAlias = tuple[ParamAffineMap, ParamAffineMap]

LIMITS = PlanBudget(**{field.name: 2**40 for field in fields(PlanBudget)})
SECONDS_PER_CASE = 0.5
ONCE_ABOVE_SECONDS = 10.0


def split_rows(num_locations: int) -> ParamAffineMap:
    return contiguous_split_map((2**14, 64), [2**14 // num_locations] * num_locations, 0)


def split_columns(num_locations: int) -> ParamAffineMap:
    return contiguous_split_map((512, 512), [512 // num_locations] * num_locations, 1)


def split_fused(num_locations: int) -> ParamAffineMap:
    widths = [[256 // num_locations] * num_locations] * 3
    return sub_param_map((768, 64), [256] * 3, widths, 0)


def split_flat(num_locations: int) -> ParamAffineMap:
    """A parameter of one axis, in intervals."""
    return flat_split({"w": (3 * 2**16,)}, num_locations)


def split_flat_matrix(num_locations: int) -> ParamAffineMap:
    """A parameter of two axes, in intervals that begin anywhere in its rows."""
    return flat_split({"bias": (7,), "w": (3 * 2**14 - 1, 32), "norm": (25,)}, num_locations)


def flat_split(shapes: dict[str, tuple[int, ...]], num_locations: int) -> ParamAffineMap:
    size = sum(map(prod, shapes.values())) // num_locations
    intervals = {at: (at * size, (at + 1) * size) for at in range(num_locations)}
    return flat_map(shapes, intervals)["w"]


def blocks(num_rows: int, num_columns: int) -> ParamAffineMap:
    mesh = (num_rows, num_columns)
    return mesh_map((512, 512), mesh, [["shard", 0], ["shard", 1]])


def rows_to_columns(num_locations: int) -> Maps:
    rows = contiguous_split_map((512, 512), [512 // num_locations] * num_locations, 0)
    return rows, split_columns(num_locations)


def doubled_rows(num_locations: int) -> Maps:
    return split_rows(num_locations), split_rows(2 * num_locations)


COMPARED: dict[str, Callable[[], Maps]] = {
    "1 to 1": lambda: (split_rows(1), split_rows(1)),
    "a scalar": lambda: (replicated_map((), 1), replicated_map((), 1)),
    "rows, 2 to 4": lambda: doubled_rows(2),
    "rows, 4 to 2": lambda: (split_rows(4), split_rows(2)),
    "whole to rows, 8": lambda: (split_rows(1), split_rows(8)),
    "rows to whole, 8": lambda: (split_rows(8), split_rows(1)),
    "rows to columns, 4 x 4": lambda: rows_to_columns(4),
    "replicas, 4 to 4": lambda: (replicated_map((64, 64), 4), replicated_map((64, 64), 4)),
    "fused, 4 to 8": lambda: (split_fused(4), split_fused(8)),
    "blocks, 4 x 4 to 2 x 8": lambda: (blocks(4, 4), blocks(2, 8)),
    "flat, 64 to 48": lambda: (split_flat(64), split_flat(48)),
    "flat, 256 to 192": lambda: (split_flat(256), split_flat(192)),
    "rows to columns, 64 x 64": lambda: rows_to_columns(64),
    "rows, 64 to 128": lambda: doubled_rows(64),
    "rows, 128 to 256": lambda: doubled_rows(128),
    "rows, 256 to 512": lambda: doubled_rows(256),
    "rows, 512 to 1024": lambda: doubled_rows(512),
}


def own(num_locations: int) -> dict[str, Callable[[], Maps]]:
    """What is planned without DeepSpeed, from and to about as many locations."""
    n, side = num_locations, isqrt(num_locations)
    return {
        f"rows, {n // 2} to {n}": lambda: doubled_rows(n // 2),
        f"rows to columns, {side} x {side}": lambda: rows_to_columns(side),
        f"blocks, {side} x {side} to {side // 2} x {2 * side}": lambda: (
            blocks(side, side),
            blocks(side // 2, 2 * side),
        ),
        f"flat matrix, {n} to {3 * n // 4}": lambda: (
            split_flat_matrix(n),
            split_flat_matrix(3 * n // 4),
        ),
    }


OWN = [own(num_locations) for num_locations in (256, 1024, 4096, 16384)]


def theirs() -> tuple[Callable[[Maps], Any], Callable[[Any], object]]:
    """Translate maps for DeepSpeed, and plan them."""
    from deepspeed.checkpoint import affine_transfer

    from pytest_affine.adapters.deepspeed import to_deepspeed

    limits = affine_transfer.PlanBudget(**asdict(LIMITS))
    return (
        lambda maps: [to_deepspeed(map_) for map_ in reversed(maps)],
        lambda maps: affine_transfer.plan_transfer(*maps, limits),
    )


def ours(maps: Maps) -> Any:
    return plan_transfer(*maps, limits=LIMITS)


def seconds(make: Callable[[], Any], plan: Callable[[Any], object]) -> float:
    """The best time of planning; repetitions, each with new maps, take half a second in all."""
    best, begin, num_runs = float("inf"), time.perf_counter(), 0
    while best < ONCE_ABOVE_SECONDS or not num_runs:
        maps = make()
        started = time.process_time()
        plan(maps)
        best, num_runs = min(best, time.process_time() - started), num_runs + 1
        if num_runs >= 3 and time.perf_counter() - begin > SECONDS_PER_CASE:
            break
    return best


def peak_bytes(maps: Maps) -> int:
    tracemalloc.start()
    ours(maps)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def compare() -> None:
    translate, plan = theirs()
    print(f"{'one parameter':28} {'segments':>8} {'ms':>9} {'DeepSpeed ms':>13} {'ratio':>7}")
    for name, make in COMPARED.items():
        their_seconds = seconds(lambda make=make: translate(make()), plan)  # type: ignore[misc]
        our_seconds = seconds(make, ours)
        print(
            f"{name:28} {len(ours(make()).segments):8} {our_seconds * 1e3:9.3f} "
            f"{their_seconds * 1e3:13.3f} {their_seconds / our_seconds:7.1f}",
            flush=True,
        )


def show_own() -> None:
    print(
        f"\n{'this project':32} {'segments':>8} {'ms':>9} {'us/segment':>11} {'bytes/segment':>14}"
    )
    for kind in zip(*(cases.items() for cases in OWN), strict=True):
        by_size = [measure_own(name, make) for name, make in kind]
        print(f"{'':32} the most by the least time per segment: {max(by_size) / min(by_size):.2f}")


def measure_own(name: str, make: Callable[[], Maps]) -> float:
    """Print a line; seconds per segment."""
    num_segments = len(ours(make()).segments)
    each = seconds(make, ours) / num_segments
    print(
        f"{name:32} {num_segments:8} {each * num_segments * 1e3:9.3f} {each * 1e6:11.2f} "
        f"{peak_bytes(make()) / num_segments:14.0f}",
        flush=True,
    )
    return each


if __name__ == "__main__":
    gc.disable()
    compare()
    show_own()
