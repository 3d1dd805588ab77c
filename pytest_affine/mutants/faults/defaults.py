"""Planners of batches whose default policy has one fault each."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.mutants.faults.batches import Plans, Policy, Requests
from pytest_affine.plans import ReplicaPart, ReplicaRequest


class FaultyDefault(Implementation):
    """Has a default policy of its own."""

    def plan_transfers(
        self, pairs: Any, *, replica_policy: Policy | None = None, **options: Any
    ) -> Plans:
        return super().plan_transfers(
            pairs, replica_policy=replica_policy or self.policy, **options
        )

    def policy(self, requests: Requests) -> list[Any]:
        sent: defaultdict[int, int] = defaultdict(int)
        return [self.choice(request, sent) for request in requests]

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        processes = request.holder_processes or request.holders
        if request.target_process in processes:
            return request.holders[processes.index(request.target_process)]
        loads = [sent[process] for process in processes]
        at = loads.index(min(loads))
        sent[processes[at]] += request.num_bytes
        return request.holders[at]


class ReadsTheLowest(FaultyDefault):
    """Reads the lowest holder by default."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        return request.holders[0]


class ReadsTheLast(FaultyDefault):
    """Reads the last holder by default."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        return request.holders[-1]


class SendsWhatIsLocal(FaultyDefault):
    """Does not prefer a holder in the target's own process."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        return super().choice(replace(request, target_process=None), sent)


class CountsLocalCopies(FaultyDefault):
    """Counts local copies as sent."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if request.target_process in (request.holder_processes or ()):
            sent[request.target_process or 0] += request.num_bytes
        return super().choice(request, sent)


class CountsChoicesOnly(FaultyDefault):
    """Does not count regions of one holder as sent."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if len(request.holders) == 1:
            return request.holders[0]
        return super().choice(request, sent)


class CountsFixedBytesFirst(FaultyDefault):
    """Counts all regions of one holder first, and not at their turn."""

    def policy(self, requests: Requests) -> list[Any]:
        sent: defaultdict[int, int] = defaultdict(int)
        for request in requests:
            if len(request.holders) == 1:
                self.choice(request, sent)
        return [
            request.holders[0] if len(request.holders) == 1 else self.choice(request, sent)
            for request in requests
        ]


class CountsRegions(FaultyDefault):
    """Counts regions, and not their bytes."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        return super().choice(replace(request, num_bytes=1), sent)


class CountsElements(FaultyDefault):
    """Counts elements, and not their bytes."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        num_elements = request.num_bytes // request.element_size
        return super().choice(replace(request, num_bytes=num_elements), sent)


class CountsByLocation(FaultyDefault):
    """Counts what locations send, and not what their processes do."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if request.target_process not in (request.holder_processes or ()):
            request = replace(request, holder_processes=None)
        return super().choice(request, sent)


class BreaksTiesUpwards(FaultyDefault):
    """Reads the highest of the holders that send the least."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        processes = request.holder_processes and request.holder_processes[::-1]
        return super().choice(
            replace(request, holders=request.holders[::-1], holder_processes=processes), sent
        )


class TakesEqualNumbersForLocal(FaultyDefault):
    """Takes source location 0 to be where target location 0 is, without endpoints."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if request.holder_processes is None and request.target_location in request.holders:
            return request.target_location
        return super().choice(request, sent)


class StartsAnewForEachParameter(FaultyDefault):
    """Counts what is sent for each parameter anew."""

    def policy(self, requests: Requests) -> list[Any]:
        sent: defaultdict[str | None, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        return [self.choice(request, sent[request.parameter]) for request in requests]


class SplitsByDefault(FaultyDefault):
    """Splits regions by default."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if not request.shape or request.shape[0] < 2 or len(request.holders) < 2:
            return super().choice(request, sent)
        (row, *rest), (count, *inner) = request.logical_origin, request.shape
        return [
            ReplicaPart(request.holders[0], (row, *rest), (1, *inner)),
            ReplicaPart(request.holders[1], (row + 1, *rest), (count - 1, *inner)),
        ]
