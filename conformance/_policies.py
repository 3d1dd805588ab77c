"""Replica policies as a rank runs them: what they answer, and what they remember of the call."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from pytest_affine.contract.resident import Resident
from pytest_affine.errors import AffineTransferError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import ReplicaPart, ReplicaRequest, TransferPlan

__all__ = [
    "Answer",
    "Asked",
    "Long",
    "Pairs",
    "Refused",
    "any_valid",
    "halves",
    "highest",
    "in_one_part",
    "lowest",
    "planned",
    "refused",
    "rows_in_turn",
]

Pairs: TypeAlias = Mapping[str, tuple[ParamAffineMap, ParamAffineMap]]
Answer: TypeAlias = int | list[ReplicaPart]
Policy: TypeAlias = Callable[[Sequence[ReplicaRequest]], Sequence[Answer]]


@dataclass(frozen=True, slots=True)
class Asked:
    """Every call that a policy got, its answers to the last one, and the plans that came of it."""

    calls: tuple[tuple[ReplicaRequest, ...], ...]
    answers: tuple[Answer, ...]
    plans: Mapping[str, TransferPlan]

    @property
    def requests(self) -> tuple[ReplicaRequest, ...]:
        """What the policy was asked; fails unless that was once."""
        if len(self.calls) != 1:
            raise AssertionError(f"the policy was called {len(self.calls)} times, not once")
        return self.calls[0]


def planned(resident: Resident, pairs: Pairs, policy: Policy, options: Mapping[str, Any]) -> Asked:
    """Plan a batch with a policy, and say what it was asked and what it answered."""
    calls: list[tuple[ReplicaRequest, ...]] = []
    answers: list[Answer] = []

    def remembering(requests: Sequence[ReplicaRequest]) -> Sequence[Answer]:
        calls.append(tuple(requests))
        answers[:] = policy(requests)
        return tuple(answers)

    plans = resident.plan_transfers(pairs, replica_policy=remembering, **options)
    return Asked(tuple(calls), tuple(answers), plans)


@dataclass(frozen=True, slots=True)
class Refused:
    """How planning ended: the error's contract kind and text ("" if there was none), and calls."""

    kinds: tuple[str, ...]
    text: str
    num_calls: int


def refused(
    resident: Resident,
    pairs: Pairs,
    policy: Callable[[Sequence[ReplicaRequest]], Any],
    options: Mapping[str, Any],
) -> Refused:
    """Plan what must be refused."""
    num_calls = 0

    def counting(requests: Sequence[ReplicaRequest]) -> Any:
        nonlocal num_calls
        num_calls += 1
        return policy(requests)

    try:
        resident.plan_transfers(pairs, replica_policy=counting, **options)
    except AffineTransferError as error:
        kinds = tuple(kind.__name__ for kind in type(error).__mro__)
        return Refused(kinds, f"{type(error).__name__}: {error}", num_calls)
    return Refused((), "", num_calls)


def lowest(requests: Sequence[ReplicaRequest]) -> list[Answer]:
    """The lowest holder of each region."""
    return [request.holders[0] for request in requests]


def highest(requests: Sequence[ReplicaRequest]) -> list[Answer]:
    """The highest holder of each region."""
    return [request.holders[-1] for request in requests]


def rows_in_turn(requests: Sequence[ReplicaRequest]) -> list[Answer]:
    """Every row of every region for itself, from its holders in turn."""
    return [
        _parts(request, range(request.shape[0] + 1), request.holders)
        if request.shape
        else [ReplicaPart(request.holders[-1], (), ())]
        for request in requests
    ]


def halves(requests: Sequence[ReplicaRequest]) -> list[Answer]:
    """Two halves of every region that has two rows, the first from the highest holder."""
    return [
        _parts(request, (0, request.shape[0] // 2, request.shape[0]), request.holders[::-1])
        if request.shape and request.shape[0] > 1
        else request.holders[-1]
        for request in requests
    ]


def any_valid(requests: Sequence[ReplicaRequest], seed: int) -> list[Answer]:
    """A holder or a split for each region, at random."""
    source = random.Random(seed)
    return [_any_answer(request, source) for request in requests]


def in_one_part(requests: Sequence[ReplicaRequest]) -> list[Answer]:
    """Each region as one part, from its highest holder."""
    return [
        [ReplicaPart(request.holders[-1], request.logical_origin, request.shape)]
        for request in requests
    ]


class Long(Sequence[ReplicaPart]):
    """An answer that says how many parts it has, and counts how many of them are read."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.num_read = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        self.num_read += 1
        # No more than one is read by who is right, and not all by who is wrong.
        if self.num_read > 100:
            raise IndexError(index)
        return ReplicaPart(0, (index, 0), (1, 2))


def _any_answer(request: ReplicaRequest, source: random.Random) -> Answer:
    num_rows = request.shape[0] if request.shape else 1
    num_cuts = source.randrange(min(num_rows, 4))
    if not num_cuts:
        return source.choice(request.holders)
    cuts = sorted(source.sample(range(1, num_rows), num_cuts))
    return _parts(
        request, (0, *cuts, num_rows), [source.choice(request.holders) for _ in range(num_cuts + 1)]
    )


def _parts(
    request: ReplicaRequest, cuts: Sequence[int], holders: Sequence[int]
) -> list[ReplicaPart]:
    """Parts between cuts along axis 0, from these holders in turn."""
    row, *rest = request.logical_origin
    return [
        ReplicaPart(
            holders[index % len(holders)],
            (row + start, *rest),
            (stop - start, *request.shape[1:]),
        )
        for index, (start, stop) in enumerate(pairwise(cuts))
    ]
