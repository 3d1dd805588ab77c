"""The policy that splits regions across their holders, to even out what processes send."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from pytest_affine.plans import ReplicaPart, ReplicaRequest
from pytest_affine.reference.policies import (
    ReplicaAnswer,
    local_first_least_loaded,
    local_holder,
    sending_processes,
)

__all__ = ["balanced_split"]

MAX_PASSES = 8

Answers: TypeAlias = tuple[ReplicaAnswer, ...]
Processes: TypeAlias = tuple[int, ...]


def balanced_split(requests: Sequence[ReplicaRequest], *, min_part_bytes: int = 0) -> Answers:
    """Answer so that the busiest process sends little, splitting regions along axis 0 if need be.

    Never worse than `local_first_least_loaded` in the busiest sender's bytes, whose answers it
    gives where it is no better. A region with a holder in the target's own process is read there,
    and not split.

    The other regions are grouped by the set of processes that hold them, and each group's bytes
    are poured over its processes like water over ground of uneven height: the lowest are filled
    up to one level. Since groups share processes, each is poured again on top of what the others
    have left there, up to 8 times round or until nothing changes; this converges to the least
    possible maximum, were bytes divisible at will. Then each group's regions are dealt out in
    order: a process takes regions until it has its share, and the region in which the share ends
    is split there, at a whole row of axis 0 with both sides large enough, or is not split.

    With r requests of h holders each in g groups of p processes, this takes time in proportion to
    r * h and 8 * g * p log p, and makes at most p - 1 splits per group.

    Args:
        requests: of the whole batch.
        min_part_bytes: bytes that each part of a split has; what is given to `plan_transfers` as
            `min_split_bytes` belongs here too, by `functools.partial`, since a policy is told of
            requests only.
    """
    usual = local_first_least_loaded(requests)
    groups = _groups(requests)
    evened: list[ReplicaAnswer] = list(usual)
    for processes, shares in _shares(requests, groups).items():
        own = [requests[index] for index in groups[processes]]
        dealt = _dealt(own, processes, shares, min_part_bytes)
        for index, answer in zip(groups[processes], dealt, strict=True):
            evened[index] = answer
    best = min(usual, evened, key=lambda answers: _busiest_bytes(requests, answers))
    return tuple(best)


def _groups(requests: Sequence[ReplicaRequest]) -> dict[Processes, list[int]]:
    """By the processes that can send it, the index of every region that is not read locally."""
    groups: dict[Processes, list[int]] = {}
    for index, request in enumerate(requests):
        if local_holder(request) is None:
            processes = tuple(sorted(set(sending_processes(request))))
            groups.setdefault(processes, []).append(index)
    return groups


def _shares(
    requests: Sequence[ReplicaRequest], groups: Mapping[Processes, Sequence[int]]
) -> dict[Processes, list[int]]:
    """By group, the bytes that each of its processes is to send for it."""
    amounts = {
        processes: sum(requests[index].num_bytes for index in members)
        for processes, members in groups.items()
    }
    shares = {processes: [0] * len(processes) for processes in groups}
    sent_bytes: defaultdict[int, int] = defaultdict(int)
    for _ in range(MAX_PASSES):
        before = dict(shares)
        for processes, amount in amounts.items():
            own = zip(processes, shares[processes], strict=True)
            levels = [sent_bytes[process] - share for process, share in own]
            shares[processes] = _poured(amount, levels)
            for process, level, share in zip(processes, levels, shares[processes], strict=True):
                sent_bytes[process] = level + share
        if shares == before:
            break
    return shares


def _poured(amount: int, levels: Sequence[int]) -> list[int]:
    """How much of an amount comes to rest on each level, the lowest filled up to one surface."""
    lowest_first = sorted(range(len(levels)), key=levels.__getitem__)
    total = amount
    for count, index in enumerate(lowest_first, 1):
        total += levels[index]
        if count == len(levels) or total <= count * levels[lowest_first[count]]:
            break
    surface, rest = divmod(total, count)
    poured = [0] * len(levels)
    for rank, index in enumerate(lowest_first[:count]):
        poured[index] = surface + (rank < rest) - levels[index]
    return poured


def _dealt(
    requests: Iterable[ReplicaRequest],
    processes: Processes,
    shares: Sequence[int],
    min_part_bytes: int,
) -> Iterator[ReplicaAnswer]:
    """Answer the regions of one group; what rounding gives one process is taken from the next."""
    at, room = 0, shares[0]
    for request in requests:
        num_rows = request.shape[0] if request.shape else 1
        row_bytes = request.num_bytes // num_rows
        least = max(1, -(-min_part_bytes // row_bytes))
        counts: dict[int, int] = {}
        left = num_rows
        while left:
            is_last = at == len(processes) - 1
            taken = left if is_last else _nearest_cut(room, row_bytes, left, least)
            if taken:
                counts[processes[at]] = taken
                room -= taken * row_bytes
                left -= taken
            if left:
                at += 1
                room += shares[at]
        yield _answer(request, counts)


def _nearest_cut(room: int, row_bytes: int, left: int, least: int) -> int:
    """How many of the rows left come nearest to the room: all, none, or enough on both sides."""
    cuts = [left, 0]
    if left >= 2 * least:
        cuts.append(min(max((room + row_bytes // 2) // row_bytes, least), left - least))
    return min(cuts, key=lambda rows: abs(rows * row_bytes - room))


def _answer(request: ReplicaRequest, counts: Mapping[int, int]) -> ReplicaAnswer:
    """The answer by which each process sends so many rows, in this order."""
    senders = sending_processes(request)
    holders = [request.holders[senders.index(process)] for process in counts]
    if len(holders) == 1:
        return holders[0]
    parts = []
    row, *rest = request.logical_origin
    for holder, num_rows in zip(holders, counts.values(), strict=True):
        parts.append(ReplicaPart(holder, (row, *rest), (num_rows, *request.shape[1:])))
        row += num_rows
    return tuple(parts)


def _busiest_bytes(requests: Sequence[ReplicaRequest], answers: Sequence[ReplicaAnswer]) -> int:
    """The most bytes that any process sends to others."""
    sent_bytes: defaultdict[int, int] = defaultdict(int)
    for request, answer in zip(requests, answers, strict=True):
        if local_holder(request) is not None:
            continue  # every answer looked at here reads it there
        senders = sending_processes(request)
        for holder, num_bytes in _read_bytes(request, answer):
            sent_bytes[senders[request.holders.index(holder)]] += num_bytes
    return max(sent_bytes.values(), default=0)


def _read_bytes(request: ReplicaRequest, answer: ReplicaAnswer) -> Iterator[tuple[int, int]]:
    """What is read from which holder."""
    if isinstance(answer, int):
        yield answer, request.num_bytes
        return
    for part in answer:
        yield part.source_location, math.prod(part.shape) * request.element_size
