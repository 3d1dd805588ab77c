"""Valid answers to the requests that a policy gets."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pytest_affine.plans import ReplicaPart, ReplicaRequest
from pytest_affine.strategies.extents import shares

__all__ = ["answers", "least_rows", "most_parts", "rows_of"]

MAX_PARTS = 4


def rows_of(request: ReplicaRequest, first: int, num_rows: int, location: int) -> ReplicaPart:
    """Some rows of a region, counted from its own first one; they may be outside."""
    row, *rest = request.logical_origin
    return ReplicaPart(location, (row + first, *rest), (num_rows, *request.shape[1:]))


def least_rows(request: ReplicaRequest, min_split_bytes: int) -> int:
    """Rows that a part of a split has at least."""
    row_bytes = math.prod(request.shape[1:]) * request.element_size
    return max(1, -(-min_split_bytes // row_bytes))


def most_parts(request: ReplicaRequest, min_split_bytes: int) -> int:
    """In how many parts a region may be split at most."""
    if not request.shape:
        return 1
    return max(1, request.shape[0] // least_rows(request, min_split_bytes))


def answers(
    requests: Sequence[ReplicaRequest], *, min_split_bytes: int = 0
) -> SearchStrategy[tuple[int | tuple[ReplicaPart, ...], ...]]:
    """Valid answers of a policy, one for each request.

    Each is the location of a holder, or parts along axis 0: one to four, of any heights, each from
    any holder, in any order. They shrink to the first holder of every region.

    Args:
        requests: what the policy is asked.
        min_split_bytes: that given to `plan_transfers`; no part of a split has fewer.
    """
    return st.tuples(*(_answer(request, min_split_bytes) for request in requests))


def _answer(
    request: ReplicaRequest, min_split_bytes: int
) -> SearchStrategy[int | tuple[ReplicaPart, ...]]:
    return st.sampled_from(request.holders) | _parts(request, min_split_bytes)


@st.composite
def _parts(draw: DrawFn, request: ReplicaRequest, min_split_bytes: int) -> tuple[ReplicaPart, ...]:
    holders = st.sampled_from(request.holders)
    most = min(MAX_PARTS, most_parts(request, min_split_bytes))
    num_parts = draw(st.integers(1, most))
    if num_parts == 1:
        return (ReplicaPart(draw(holders), request.logical_origin, request.shape),)
    least = least_rows(request, min_split_bytes)
    spare = draw(shares(request.shape[0] - num_parts * least, num_parts))
    first, parts = 0, []
    for extra in spare:
        parts.append(rows_of(request, first, least + extra, draw(holders)))
        first += least + extra
    return tuple(draw(st.permutations(parts)))
