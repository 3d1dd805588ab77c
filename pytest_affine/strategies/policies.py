"""Replica policies: picklable, so that they reach ranks, and the same on each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pytest_affine.plans import ReplicaRequest
from pytest_affine.reference.balancing import balanced_split
from pytest_affine.reference.policies import (
    ReplicaAnswer,
    ReplicaPolicy,
    first_holder,
    local_first_least_loaded,
)
from pytest_affine.strategies.answering import most_parts, rows_of

__all__ = ["TablePolicy", "replica_policies"]

MAX_ENTRIES = 4
MAX_PARTS = 4


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """A policy that reads its answers off a table, over and over.

    Attributes:
        holders: for each request in turn, which of its holders it reads; counted round and round.
            The parts of a split read that one and those after it.
        num_parts: for each request in turn, in how many parts of nearly equal height to split it;
            fewer where it has not the rows.
        min_split_bytes: bytes that each part of a split has at least.
    """

    holders: tuple[int, ...] = (0,)
    num_parts: tuple[int, ...] = (1,)
    min_split_bytes: int = 0

    def __call__(self, requests: Sequence[ReplicaRequest]) -> tuple[ReplicaAnswer, ...]:
        """Answer every request; a region that is not split with a location."""
        return tuple(self._answer(index, request) for index, request in enumerate(requests))

    def _answer(self, index: int, request: ReplicaRequest) -> ReplicaAnswer:
        first = self.holders[index % len(self.holders)]
        wanted = self.num_parts[index % len(self.num_parts)]
        num_parts = min(wanted, most_parts(request, self.min_split_bytes))
        read = [request.holders[(first + part) % len(request.holders)] for part in range(num_parts)]
        if num_parts == 1:
            return read[0]
        num_rows = request.shape[0]
        cuts = [num_rows * part // num_parts for part in range(num_parts + 1)]
        return tuple(
            rows_of(request, start, stop - start, holder)
            for start, stop, holder in zip(cuts, cuts[1:], read, strict=False)
        )


def replica_policies(*, min_split_bytes: int = 0) -> SearchStrategy[ReplicaPolicy]:
    """Policies whose every answer is valid: the reference's own, and tables.

    They can be pickled and sent to ranks, depend on nothing but the requests, and print as what
    makes them. They shrink to `first_holder`, and among tables to `TablePolicy((0,), (1,))`.

    Args:
        min_split_bytes: that given to `plan_transfers`; no part of a split has fewer.
    """
    tables = st.builds(
        TablePolicy,
        holders=_entries(0, 9),
        num_parts=_entries(1, MAX_PARTS),
        min_split_bytes=st.just(min_split_bytes),
    )
    known: list[ReplicaPolicy] = [first_holder, local_first_least_loaded]
    if min_split_bytes < 2:
        known.append(balanced_split)  # which splits as it likes
    return st.sampled_from(known) | tables


def _entries(least: int, most: int) -> SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(least, most), min_size=1, max_size=MAX_ENTRIES).map(tuple)
