"""Moving a sync by the implementation's executor, in all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from pytest_affine.conformance._batches import Batch, planned_batch
from pytest_affine.conformance._buffers import Share
from pytest_affine.conformance._contents import Cast, Shard, shards_of, wrong_elements
from pytest_affine.conformance._runs import (
    WORLD,
    Group,
    Landed,
    Step,
    batch_of,
    cast_bytes,
    executed,
)
from pytest_affine.contract.outcomes import Death, NotRun
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.errors import AffineTransferError
from pytest_affine.missing import missing_messages
from pytest_affine.reference.schedule import schedule_transfers
from pytest_affine.sync import Sync

__all__ = ["assert_landed", "cast_by", "execute", "landed_shards", "moved", "shares_of"]


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
    batch = planned_batch(implementation, sync)
    if batch.casts and "cast" not in implementation.claims.get("execute_transfers", ()):
        raise NotRun("source and target dtype differ, and execute_transfers takes one")
    dtypes = {each.name: (each.source_dtype, each.target_dtype) for each in sync.parameters}
    shards = tuple(shards_of(sync, num_runs, cast_by(implementation, "execute_transfers")))
    return [
        Share(batch=batch, dtypes=dtypes, shards=tuple(s for s in shards if s.process == process))
        for process in range(num_processes)
    ]


def cast_by(implementation: ImplementationProxy, method: str) -> Cast:
    """What elements of one dtype are in another, as torch has it in rank 0."""

    def cast(elements: bytes, source: str, target: str) -> bytes:
        converted: bytes = implementation.run(cast_bytes, elements, source, target, method=method)
        return converted

    return cast


def execute(
    implementation: ImplementationProxy,
    shares: Sequence[Sequence[Share]],
    steps: Sequence[Step],
    group: Group = WORLD,
) -> list[list[Landed]]:
    """By process and step, what became of the buffers; `shares` are by sync and process.

    Raises:
        Death: a rank died or ran past its deadline. Messages that ranks wait for are told by the
            schedule of the reference, if its messages are those that the ranks have.
    """
    try:
        by_rank: list[list[Landed]] = implementation.run_on_every_rank(
            executed, shares, steps, group, method="execute_transfers"
        )
    except Death as death:
        batches = [batch_of(step, shares[step.sync][0].batch) for step in steps]
        raise Death(str(death) + _told_by_schedules(death, batches), death.missing) from None
    return [by_rank[rank] for rank in group] if isinstance(group, tuple) else by_rank


def _told_by_schedules(death: Death, batches: Sequence[Batch]) -> str:
    with suppress(AffineTransferError):
        schedules = [batch.given_to(schedule_transfers) for batch in batches]
        if lines := missing_messages(death.missing, schedules):
            return "\n  ".join(["\n\nby the schedule:", *lines])
    return ""


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
