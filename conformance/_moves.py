"""Moving a sync by the implementation's executor, in all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from pytest_affine.conformance._batches import planned_batch
from pytest_affine.conformance._buffers import Share
from pytest_affine.conformance._contents import Shard, shards_of, wrong_elements
from pytest_affine.conformance._runs import WORLD, Group, Landed, Step, executed
from pytest_affine.contract.outcomes import NotRun
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.sync import Sync

__all__ = ["assert_landed", "execute", "landed_shards", "moved", "shares_of"]


def shares_of(
    implementation: ImplementationProxy,
    sync: Sync,
    num_runs: int = 1,
    *,
    num_processes: int | None = None,
) -> list[Share]:
    """By process, what it passes to `execute_transfers`; those that hold nothing take part too.

    `num_processes` is the size of the group, if that does not have every rank.

    Raises:
        NotRun: the sync needs more ranks than there are, or casts.
    """
    if num_processes is None:
        num_processes = implementation.num_ranks
    if sync.num_processes > num_processes:
        raise NotRun(f"needs {sync.num_processes} ranks, there are {num_processes}")
    if any(parameter.source_dtype != parameter.target_dtype for parameter in sync.parameters):
        raise NotRun("source and target dtype differ, and execute_transfers takes one")
    batch = planned_batch(implementation, sync)
    dtypes = {parameter.name: parameter.source_dtype for parameter in sync.parameters}
    shards = tuple(shards_of(sync, num_runs))
    return [
        Share(batch=batch, dtypes=dtypes, shards=tuple(s for s in shards if s.process == process))
        for process in range(num_processes)
    ]


def execute(
    implementation: ImplementationProxy,
    shares: Sequence[Sequence[Share]],
    steps: Sequence[Step],
    group: Group = WORLD,
) -> list[list[Landed]]:
    """By process and step, what became of the buffers; `shares` are by sync and process."""
    by_rank: list[list[Landed]] = implementation.run_on_every_rank(
        executed, shares, steps, group, method="execute_transfers"
    )
    return [by_rank[rank] for rank in group] if isinstance(group, tuple) else by_rank


def moved(
    implementation: ImplementationProxy,
    sync: Sync,
    num_runs: int = 2,
    *,
    form: str = "apart",
    group: Group = WORLD,
) -> Iterator[tuple[Shard, int, bytes]]:
    """Every shard after every run of a sync, values changed between runs: (shard, run, bytes).

    `form` is how shards lie in memory, as a `Share` has it.
    """
    num_processes = len(group) if isinstance(group, tuple) else None
    shares = shares_of(implementation, sync, num_runs, num_processes=num_processes)
    shares = [replace(share, form=form) for share in shares]
    steps = [Step(run=run) for run in range(num_runs)]
    yield from landed_shards(shares, steps, execute(implementation, [shares], steps, group))


def landed_shards(
    shares: Sequence[Share], steps: Sequence[Step], landed: Sequence[Sequence[Landed]]
) -> Iterator[tuple[Shard, int, bytes]]:
    """Every shard of one sync after every step that moved it: (shard, run, bytes)."""
    for share, own in zip(shares, landed, strict=True):
        for step, after in zip(steps, own, strict=True):
            if not step.is_empty:
                held = after.contents[step.sync]
                yield from ((shard, step.run, held[shard.key]) for shard in share.shards)


def assert_landed(
    landed: Iterable[tuple[Shard, int, bytes]],
    judge: Callable[[Shard, int, bytes], str] = wrong_elements,
) -> None:
    """Fail with what `judge` finds wrong with the shards, the first few of them."""
    __tracebackhide__ = True
    problems = [problem for each in landed if (problem := judge(*each))]
    if problems:
        more = len(problems) - MAX_PROBLEMS
        shown = problems[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
        raise AssertionError("\n".join(shown))


MAX_PROBLEMS = 4
