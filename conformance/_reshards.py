"""Having the implementation move whole syncs, in all ranks, and judging what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from pytest_affine.conformance._contents import Shard, shards_of
from pytest_affine.conformance._moves import cast_by
from pytest_affine.conformance._runs import WORLD, Group
from pytest_affine.conformance._turns import After, Told, Turn, resharded, run_open
from pytest_affine.contract.outcomes import NotRun
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.sync import Sync

__all__ = ["landed", "reshard_landed", "take_turns", "told_of", "went_on"]

Afters: TypeAlias = Sequence[Sequence[After]]
"""By process and turn."""


def told_of(
    implementation: ImplementationProxy, sync: Sync, num_runs: int = 1, group: Group = WORLD
) -> list[Told]:
    """By process of the group, what it is told of a sync and holds; idle ones take part too.

    Raises:
        NotRun: the sync needs more ranks than there are.
    """
    num_processes = len(group) if isinstance(group, tuple) else implementation.num_ranks
    if sync.num_processes > num_processes:
        raise NotRun(f"needs {sync.num_processes} ranks, there are {num_processes}")
    shards = tuple(shards_of(sync, num_runs, cast_by(implementation, "reshard")))
    return [
        Told(sync=sync, shards=tuple(shard for shard in shards if shard.process == process))
        for process in range(num_processes)
    ]


CALLS: dict[str, Callable[..., list[After]]] = {"reshard": resharded, "open_sync": run_open}


def take_turns(
    implementation: ImplementationProxy,
    told: Sequence[Sequence[Told]],
    turns: Sequence[Turn],
    *,
    group: Group = WORLD,
    method: str = "reshard",
) -> list[list[After]]:
    """By process and turn, what became of the buffers; `told` is by sync and process.

    Raises:
        AffineTransferError: every rank refused the first turn, and need not.
        AssertionError: some ranks refused a turn, and others went on.
    """
    by_rank: list[list[After]] = implementation.run_on_every_rank(
        CALLS[method], told, turns, group, method=method
    )
    after = [by_rank[rank] for rank in group] if isinstance(group, tuple) else by_rank
    for index, own in enumerate(zip(*after, strict=False)):
        _assert_of_one_mind(f"turn {index + 1} of {len(turns)}: ", own)
    first = after[0][0].refusal
    if first is not None and not turns[0].is_refused:
        raise first
    return after


def _assert_of_one_mind(what: str, after: Sequence[After]) -> None:
    """Fail if some refused and others did not."""
    __tracebackhide__ = True
    refused = {process: own.refusal for process, own in enumerate(after) if own.refusal is not None}
    others = [process for process in range(len(after)) if process not in refused]
    if refused and others:
        process, refusal = next(iter(refused.items()))
        raise AssertionError(
            f"{what}process {process} refused ({type(refusal).__name__}: {refusal}), and processes "
            f"{others} went on"
        )


def went_on(turns: Sequence[Turn], after: Afters) -> Iterator[tuple[int, Turn, list[After]]]:
    """The turns that no rank refused: index, turn, and what each process has after it."""
    for index, (turn, own) in enumerate(zip(turns, zip(*after, strict=True), strict=False)):
        if own[0].refusal is None:
            yield index, turn, [*own]


def landed(
    told: Sequence[Sequence[Told]], turns: Sequence[Turn], after: Afters
) -> Iterator[tuple[Shard, int, bytes]]:
    """Every shard after every turn that moved it: (shard, run, bytes)."""
    for _, turn, own in went_on(turns, after):
        for share, held in zip(told[turn.sync], own, strict=True):
            yield from ((shard, turn.run, held.contents[shard.key]) for shard in share.shards)


def reshard_landed(
    implementation: ImplementationProxy, sync: Sync, num_runs: int = 2, group: Group = WORLD
) -> list[tuple[Shard, int, bytes]]:
    """Every shard after every run of a sync, values changed between runs: (shard, run, bytes)."""
    told = [told_of(implementation, sync, num_runs, group)]
    turns = [Turn(run=run) for run in range(num_runs)]
    return [*landed(told, turns, take_turns(implementation, told, turns, group=group))]
