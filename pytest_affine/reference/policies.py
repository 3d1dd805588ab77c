"""Policies: which holder is read for every region of a batch, decided with all of them in view.

A policy is a function of the batch's requests that answers each of them, in their order; the same
requests must give the same answers on every rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pytest_affine.plans import ReplicaPart, ReplicaRequest, ReplicaSelector

__all__ = [
    "ReplicaAnswer",
    "ReplicaPolicy",
    "first_holder",
    "local_first_least_loaded",
    "local_holder",
    "per_request",
    "sending_processes",
]

ReplicaAnswer: TypeAlias = int | Sequence[ReplicaPart]
"""A holder's location, or parts that cut the region along axis 0."""

ReplicaPolicy: TypeAlias = Callable[[tuple[ReplicaRequest, ...]], Sequence[ReplicaAnswer]]


def first_holder(requests: Sequence[ReplicaRequest]) -> tuple[int, ...]:
    """Answer every request with its lowest location, as `plan_transfer` does without a selector."""
    return tuple(request.holders[0] for request in requests)


def per_request(selector: ReplicaSelector) -> ReplicaPolicy:
    """Return the policy that asks a selector as `plan_transfer` does, region by region.

    Args:
        selector: asked where there is more than one holder; returns the location of one.
    """

    def policy(requests: Sequence[ReplicaRequest]) -> tuple[int, ...]:
        return tuple(
            selector(request) if len(request.holders) > 1 else request.holders[0]
            for request in requests
        )

    return policy


def local_first_least_loaded(requests: Sequence[ReplicaRequest]) -> tuple[int, ...]:
    """Answer in order with a local holder, or else with the one whose process sends least so far.

    A holder in the target's own process comes first (the lowest location, if several), and adds
    nothing to what its process sends. Otherwise it is the holder whose process has the fewest
    bytes assigned so far, ties to the lowest location; regions with one holder count at their
    turn. Without endpoints no copy is taken for local, and each location is its own process.
    Regions are never split. Takes time in proportion to the holders of all requests.
    """
    sent_bytes: defaultdict[int, int] = defaultdict(int)
    return tuple(_local_or_least_loaded(request, sent_bytes) for request in requests)


def _local_or_least_loaded(request: ReplicaRequest, sent_bytes: defaultdict[int, int]) -> int:
    if (local := local_holder(request)) is not None:
        return local
    processes = sending_processes(request)
    loads = [sent_bytes[process] for process in processes]
    chosen = loads.index(min(loads))
    sent_bytes[processes[chosen]] += request.num_bytes
    return request.holders[chosen]


def local_holder(request: ReplicaRequest) -> int | None:
    """The lowest holder in the target's own process; None if there is none, or no endpoints."""
    processes = request.holder_processes
    if processes is None or request.target_process not in processes:
        return None
    return request.holders[processes.index(request.target_process)]


def sending_processes(request: ReplicaRequest) -> tuple[int, ...]:
    """The process of each holder; without endpoints each location is its own process."""
    return request.holders if request.holder_processes is None else request.holder_processes
