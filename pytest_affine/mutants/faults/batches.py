"""Planners of whole batches that ask the policy, or use what it answers, with one fault each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import (
    AffineTransferError,
    InvalidMapError,
    PlanLimitError,
    UnsupportedLayoutError,
)
from pytest_affine.mutants.faults.parts import with_segments
from pytest_affine.plans import ReplicaPart, ReplicaRequest, TransferPlan
from pytest_affine.reference.policies import first_holder

Requests: TypeAlias = tuple[ReplicaRequest, ...]
Plans: TypeAlias = dict[str, TransferPlan]
Policy: TypeAlias = Callable[[Requests], Any]


class FaultyBatches(Implementation):
    """Asks the policy in its own way, or understands the answers so."""

    def plan_transfers(
        self, pairs: Any, *, replica_policy: Policy | None = None, **options: Any
    ) -> Plans:
        if replica_policy is None:
            return super().plan_transfers(pairs, **options)
        return super().plan_transfers(
            pairs,
            replica_policy=lambda requests: self.answered(replica_policy, requests),
            **options,
        )

    def answered(self, policy: Policy, requests: Requests) -> Any:
        answers = zip(policy(requests), requests, strict=True)
        return [self.understood(answer, request) for answer, request in answers]

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return answer


class AsksForEachParameter(Implementation):
    """Plans one parameter after the other, and asks for each."""

    def plan_transfers(self, pairs: Any, *, element_size: Any = None, **options: Any) -> Plans:
        plans: Plans = {}
        for name, pair in pairs.items():
            if element_size is not None:
                is_each = isinstance(element_size, Mapping)
                options["element_size"] = element_size[name] if is_each else element_size
            plans |= super().plan_transfers({name: pair}, **options)
        return plans


class AsksTwice(FaultyBatches):
    """Asks twice, and takes the second answers."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        policy(requests)
        return policy(requests)


class AsksAboutChoicesOnly(FaultyBatches):
    """Asks about no region that has one holder."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        choices = tuple(request for request in requests if len(request.holders) > 1)
        answers = dict(zip(choices, policy(choices), strict=True))
        return [answers.get(request, request.holders[0]) for request in requests]


class AsksBackwards(FaultyBatches):
    """Asks about the last region first."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        return policy(requests[::-1])[::-1]


class AsksByName(FaultyBatches):
    """Asks in the order of names, and not in the batch's."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        order = sorted(range(len(requests)), key=lambda index: str(requests[index].parameter))
        answers = policy(tuple(requests[index] for index in order))
        return [answers[order.index(index)] for index in range(len(requests))]


class AsksInOtherWords(FaultyBatches):
    """Changes each request."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        return policy(tuple(self.changed(request) for request in requests))

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        raise NotImplementedError


class NamesNoParameter(AsksInOtherWords):
    """Leaves the parameter out of requests."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        return replace(request, parameter=None)


class NamesHoldersBackwards(AsksInOtherWords):
    """Names the highest holder first."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        processes = request.holder_processes and request.holder_processes[::-1]
        return replace(request, holders=request.holders[::-1], holder_processes=processes)


class NamesTwoHoldersAtMost(AsksInOtherWords):
    """Names two holders of a region at most."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        processes = request.holder_processes and request.holder_processes[:2]
        return replace(request, holders=request.holders[:2], holder_processes=processes)


class CountsElementsForBytes(AsksInOtherWords):
    """Says how many elements a region has for how many bytes."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        return replace(request, num_bytes=request.num_bytes // request.element_size)


class SaysElementsOfOneByte(AsksInOtherWords):
    """Says that every element has one byte."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        return replace(request, element_size=1)


class CountsBytesIn31Bits(AsksInOtherWords):
    """Counts the bytes of a region in 31 bits."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        return replace(request, num_bytes=request.num_bytes % 2**31)


class KeepsTheTargetsProcess(AsksInOtherWords):
    """Does not tell the process of the target."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        return replace(request, target_process=None)


class KeepsTheHoldersProcesses(AsksInOtherWords):
    """Does not tell the processes of the holders."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        return replace(request, holder_processes=None)


class TakesLocationsForProcesses(AsksInOtherWords):
    """Tells the locations of the holders for their processes."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        if request.holder_processes is None:
            return request
        return replace(request, holder_processes=request.holders)


class MissesTheLastRow(AsksInOtherWords):
    """Leaves the last row of a region out of its request."""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        if not request.shape or request.shape[0] < 2:
            return request
        rows = request.shape[0] - 1
        num_bytes = request.num_bytes // request.shape[0] * rows
        return replace(request, shape=(rows, *request.shape[1:]), num_bytes=num_bytes)


class TakesShardsForCopies(AsksInOtherWords):
    """Takes every location of a parameter for a holder of all of it."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Plans:
        self._locations = {name: source.locations for name, (source, _) in pairs.items()}
        return super().plan_transfers(pairs, **options)

    def answered(self, policy: Policy, requests: Requests) -> Any:
        answers = super().answered(policy, requests)
        return [
            request.holders[0] if isinstance(answer, int) else answer
            for answer, request in zip(answers, requests, strict=True)
        ]

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        if request.holder_processes is not None:
            return request
        return replace(request, holders=self._locations[str(request.parameter)])


class RemembersBlocksInBatches(Implementation):
    """Turns the order of segments of the parameter that follows one of three blocks."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Plans:
        plans = super().plan_transfers(pairs, **options)
        num_blocks = 0
        for name, (source, _) in pairs.items():
            if num_blocks == 3:
                plans[name] = with_segments(plans[name], plans[name].segments[::-1])
            num_blocks = len(source.pieces(source.locations[0]))
        return plans


class IgnoresPolicies(Implementation):
    """Reads the first holder, and asks nobody."""

    def plan_transfers(
        self, pairs: Any, *, replica_policy: Policy | None = None, **options: Any
    ) -> Plans:
        return super().plan_transfers(pairs, replica_policy=first_holder, **options)


class TakesTheLastHolderForTheFirst(FaultyBatches):
    """Reads the last holder where the policy is `first_holder`."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        if policy is first_holder:
            return [request.holders[-1] for request in requests]
        return super().answered(policy, requests)


class ReadsAllFromTheFirstPart(FaultyBatches):
    """Reads a region that is split from the holder of its first part."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if isinstance(answer, int):
            return answer
        return [ReplicaPart(answer[0].source_location, request.logical_origin, request.shape)]


class ReadsLargeRegionsFromTheFirstPart(ReadsAllFromTheFirstPart):
    """Reads a region of 2^29 elements or more from the holder of its first part."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        large = request.num_bytes // request.element_size >= 2**29
        return super().understood(answer, request) if large else answer


class ReadsPartsInReverse(FaultyBatches):
    """Reads the parts of a region from their holders in reverse order."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if isinstance(answer, int):
            return answer
        holders = [part.source_location for part in answer][::-1]
        return [replace(part, source_location=h) for part, h in zip(answer, holders, strict=True)]


class FaultyBatchPlans(Implementation):
    """Changes the plans of a batch."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Plans:
        plans = super().plan_transfers(pairs, **options)
        return {name: self.changed(plan) for name, plan in plans.items()}

    def changed(self, plan: TransferPlan) -> TransferPlan:
        raise NotImplementedError


class DropsTheLastSegmentInBatches(FaultyBatchPlans):
    """Leaves out the last segment of each plan of a batch."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, plan.segments[:-1])


class DropsTheLastSegmentOfLargePlans(FaultyBatchPlans):
    """Leaves out the last segment of each plan of 2^29 elements or more."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        is_large = plan.moved_elements >= 2**29
        return with_segments(plan, plan.segments[:-1]) if is_large else plan


class TurnsPlansOfBatches(FaultyBatchPlans):
    """Turns the order of segments, so that plans are exact and not those of `plan_transfer`."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, plan.segments[::-1])


class OrdersPlansByName(Implementation):
    """Returns the plans in the reverse order of their names."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Plans:
        return dict(sorted(super().plan_transfers(pairs, **options).items(), reverse=True))


class PlansEachShapeOnce(Implementation):
    """Takes equal shapes for equal maps."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Plans:
        first: dict[Any, Any] = {}
        alike = {
            name: first.setdefault(source.logical_shape, (source, target))
            for name, (source, target) in pairs.items()
        }
        return super().plan_transfers(alike, **options)


class PlansWhatIsGood(Implementation):
    """Leaves out parameters that can't be planned, and plans the others."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Plans:
        try:
            return super().plan_transfers(pairs, **options)
        except AffineTransferError:
            return {}


class RefusesMapsAsLimits(Implementation):
    """Refuses bad maps as if a limit were exceeded."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Plans:
        try:
            return super().plan_transfers(pairs, **options)
        except (InvalidMapError, UnsupportedLayoutError) as refusal:
            raise PlanLimitError(str(refusal)) from None
