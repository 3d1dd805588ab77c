"""Moving a sync by the implementation's executor, in all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_affine.conformance._batches import planned_batch
from pytest_affine.conformance._buffers import Landed, Share, executed
from pytest_affine.conformance._contents import Shard, shards_of, wrong_elements
from pytest_affine.contract.outcomes import NotRun
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.sync import Sync

__all__ = ["assert_landed", "execute", "moved", "shares_of"]


def shares_of(implementation: ImplementationProxy, sync: Sync, num_runs: int = 1) -> list[Share]:
    """By rank, what it passes to `execute_transfers`; ranks that hold nothing take part too.

    Raises:
        NotRun: the sync needs more ranks than there are, or casts.
    """
    if sync.num_processes > implementation.num_ranks:
        raise NotRun(f"needs {sync.num_processes} ranks, there are {implementation.num_ranks}")
    if any(parameter.source_dtype != parameter.target_dtype for parameter in sync.parameters):
        raise NotRun("source and target dtype differ, and execute_transfers takes one")
    batch = planned_batch(implementation, sync)
    dtypes = {parameter.name: parameter.source_dtype for parameter in sync.parameters}
    shards = tuple(shards_of(sync, num_runs))
    return [
        Share(batch=batch, dtypes=dtypes, shards=tuple(s for s in shards if s.process == rank))
        for rank in range(implementation.num_ranks)
    ]


def execute(
    implementation: ImplementationProxy, shares: Sequence[Share], num_runs: int = 1
) -> list[list[Landed]]:
    """By rank and run, what became of the buffers."""
    return implementation.run_on_every_rank(executed, shares, num_runs, method="execute_transfers")


def moved(
    implementation: ImplementationProxy, sync: Sync, num_runs: int = 2
) -> Iterator[tuple[Shard, int, bytes]]:
    """Every shard after every run of a sync, values changed between runs: (shard, run, bytes)."""
    shares = shares_of(implementation, sync, num_runs)
    for share, landed in zip(shares, execute(implementation, shares, num_runs), strict=True):
        for run, after in enumerate(landed):
            yield from ((shard, run, after.contents[shard.key]) for shard in share.shards)


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
