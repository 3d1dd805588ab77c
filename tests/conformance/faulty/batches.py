"""Planners of whole batches with one fault each, and their default policies."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from faulty.parts import raise_type_error
from faulty.plans import with_segments
from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import (
    AffineTransferError,
    InvalidReplicaPolicyError,
    PlanLimitError,
)
from pytest_affine.plans import PlanBudget, ReplicaPart, ReplicaRequest
from pytest_affine.reference.policies import first_holder, local_first_least_loaded

Requests = tuple[ReplicaRequest, ...]
DEFAULT = PlanBudget()


class NoReplicaPolicy(Reference):
    """No fault: it does not claim the option."""

    def plan_transfers(self, pairs: Any, *, limits: PlanBudget = DEFAULT) -> Any:
        return super().plan_transfers(pairs, limits=limits)


class FaultyBatches(Reference):
    """Asks the policy in its own way, or understands the answers so."""

    def plan_transfers(
        self, pairs: Any, *, replica_policy: Any = local_first_least_loaded, **options: Any
    ) -> Any:
        return super().plan_transfers(
            pairs,
            replica_policy=lambda requests: self.answered(replica_policy, requests),
            **options,
        )

    def answered(self, policy: Any, requests: Requests) -> Any:
        answers = zip(policy(requests), requests, strict=True)
        return [self.understood(answer, request) for answer, request in answers]

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        raise NotImplementedError


class AsksForEachParameter(Reference):
    def plan_transfers(self, pairs: Any, *, element_size: Any = 1, **options: Any) -> Any:
        plans: dict[str, Any] = {}
        for name, pair in pairs.items():
            size = element_size[name] if isinstance(element_size, dict) else element_size
            plans |= super().plan_transfers({name: pair}, element_size=size, **options)
        return plans


class AsksTwice(FaultyBatches):
    def answered(self, policy: Any, requests: Requests) -> Any:
        policy(requests)
        return policy(requests)


class AsksAboutChoicesOnly(FaultyBatches):
    def answered(self, policy: Any, requests: Requests) -> Any:
        choices = tuple(request for request in requests if len(request.holders) > 1)
        answers = dict(zip(choices, policy(choices), strict=True))
        return [answers.get(request, request.holders[0]) for request in requests]


class AsksBackwards(FaultyBatches):
    def answered(self, policy: Any, requests: Requests) -> Any:
        return policy(requests[::-1])[::-1]


class AsksByName(FaultyBatches):
    """In the order of names, and not in the batch's."""

    def answered(self, policy: Any, requests: Requests) -> Any:
        order = sorted(range(len(requests)), key=lambda index: str(requests[index].parameter))
        answers = policy(tuple(requests[index] for index in order))
        return [answers[order.index(index)] for index in range(len(requests))]


class AsksInOtherWords(FaultyBatches):
    """Changes each request."""

    def answered(self, policy: Any, requests: Requests) -> Any:
        return policy(tuple(self.changed(request) for request in requests))

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        raise NotImplementedError


class NamesTwoHoldersAtMost(AsksInOtherWords):
    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        processes = request.holder_processes and request.holder_processes[:2]
        return replace(request, holders=request.holders[:2], holder_processes=processes)


class CountsElementsForBytes(AsksInOtherWords):
    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        return replace(request, num_bytes=request.num_bytes // request.element_size)


class CountsBytesIn32Bits(AsksInOtherWords):
    """F35"""

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        return replace(request, num_bytes=request.num_bytes % 2**31)


class KeepsProcessesToItself(AsksInOtherWords):
    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        return replace(request, target_process=None, holder_processes=None)


class TakesLocationsForProcesses(AsksInOtherWords):
    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        if request.holder_processes is None:
            return request
        return replace(request, holder_processes=request.holders)


class MissesTheLastRow(AsksInOtherWords):
    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        if not request.shape or request.shape[0] < 2:
            return request
        rows = request.shape[0] - 1
        num_bytes = request.num_bytes // request.shape[0] * rows
        return replace(request, shape=(rows, *request.shape[1:]), num_bytes=num_bytes)


class TakesShardsForCopies(AsksInOtherWords):
    """F19: what has one name is held by every location that has it."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Any:
        self._locations = {name: source.locations for name, (source, _) in pairs.items()}
        return super().plan_transfers(pairs, **options)

    def answered(self, policy: Any, requests: Requests) -> Any:
        answers = super().answered(policy, requests)
        return [
            request.holders[0] if isinstance(answer, int) else answer
            for answer, request in zip(answers, requests, strict=True)
        ]

    def changed(self, request: ReplicaRequest) -> ReplicaRequest:
        if request.holder_processes is not None:
            return request
        return replace(request, holders=self._locations[str(request.parameter)])


class ReadsTheLastReplica(FaultyBatches):
    """F21"""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return request.holders[-1] if isinstance(answer, int) else answer


class RemembersBlocksInBatches(Reference):
    """F04: a map of three blocks leaves its mark on the next plan."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Any:
        plans = super().plan_transfers(pairs, **options)
        num_blocks = 0
        for name, (source, _) in pairs.items():
            if num_blocks == 3:
                plans[name] = with_segments(plans[name], plans[name].segments[::-1])
            num_blocks = len(source.pieces(0))
        return plans


class IgnoresPolicies(Reference):
    def plan_transfers(self, pairs: Any, *, replica_policy: Any = None, **options: Any) -> Any:
        return super().plan_transfers(pairs, replica_policy=first_holder, **options)


class ReadsAllFromTheFirstPart(FaultyBatches):
    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if isinstance(answer, int):
            return answer
        return [ReplicaPart(answer[0].source_location, request.logical_origin, request.shape)]


class ReadsPartsInReverse(FaultyBatches):
    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if isinstance(answer, int):
            return answer
        holders = [part.source_location for part in answer][::-1]
        return [replace(part, source_location=h) for part, h in zip(answer, holders, strict=True)]


class DropsTheLastPart(Reference):
    def plan_transfers(self, pairs: Any, *, replica_policy: Any = first_holder, **o: Any) -> Any:
        answers: list[Any] = []

        def policy(requests: Requests) -> Any:
            answers[:] = replica_policy(requests)
            return answers

        plans = super().plan_transfers(pairs, replica_policy=policy, **o)
        if all(isinstance(answer, int) or len(answer) < 2 for answer in answers):
            return plans
        return {name: with_segments(plan, plan.segments[:-1]) for name, plan in plans.items()}


class OrdersPlansByName(Reference):
    def plan_transfers(self, pairs: Any, **options: Any) -> Any:
        return dict(sorted(super().plan_transfers(pairs, **options).items(), reverse=True))


class CopiesBackwardsInBatches(Reference):
    """Its plans are exact, and not those of `plan_transfer`."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Any:
        plans = super().plan_transfers(pairs, **options)
        return {name: with_segments(plan, plan.segments[::-1]) for name, plan in plans.items()}


class PlansEachSizeOnce(Reference):
    """F23: takes equal shapes for equal maps."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Any:
        first: dict[Any, Any] = {}
        alike = {
            name: first.setdefault(source.logical_shape, (source, target))
            for name, (source, target) in pairs.items()
        }
        return super().plan_transfers(alike, **options)


class TakesAnyAnswers(FaultyBatches):
    """What it does not understand means the lowest holder."""

    def answered(self, policy: Any, requests: Requests) -> Any:
        answers = policy(requests)
        known = list(answers) if isinstance(answers, (list, tuple)) else []
        known += first_holder(requests[len(known) :])
        return super().answered(lambda _: known, requests)

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        known = type(answer) is int and answer in request.holders
        return answer if known else request.holders[0]


class TakesTheFirstOfTooMany(FaultyBatches):
    def answered(self, policy: Any, requests: Requests) -> Any:
        return list(policy(requests))[: len(requests)]


class FillsUpAnswers(FaultyBatches):
    def answered(self, policy: Any, requests: Requests) -> Any:
        answers = list(policy(requests))
        return answers + list(first_holder(requests[len(answers) :]))


class TakesTrueForOneInBatches(FaultyBatches):
    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return int(answer) if isinstance(answer, bool) else answer


class TakesFractionsInBatches(FaultyBatches):
    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return int(answer) if isinstance(answer, float) else answer


class TakesWordsInBatches(FaultyBatches):
    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return int(answer) if isinstance(answer, str) else answer


class TakesNoneInBatches(FaultyBatches):
    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return request.holders[0] if answer is None else answer


class TakesLocationsOfTheMap(FaultyBatches):
    """Asks whether there is such a location, not whether it holds the region."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return request.holders[0] if answer == 2 else answer


class TakesGenerators(FaultyBatches):
    def answered(self, policy: Any, requests: Requests) -> Any:
        return [answer if isinstance(answer, int) else list(answer) for answer in policy(requests)]


class DropsEmptyParts(FaultyBatches):
    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if not isinstance(answer, list):
            return answer
        return [part for part in answer if not isinstance(part, ReplicaPart) or part.shape[0] > 0]


class ClipsParts(FaultyBatches):
    """Cuts off what is outside the region."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if not isinstance(answer, list):
            return answer
        return [self.clipped(part, request) for part in answer]

    def clipped(self, part: Any, request: ReplicaRequest) -> Any:
        try:
            (row, *rest), (count, *inner) = part.logical_origin, part.shape
            first, end = (
                request.logical_origin[0],
                sum((request.logical_origin[0], request.shape[0])),
            )
            start, stop = max(row, first), min(row + count, end)
        except (TypeError, ValueError, AttributeError):
            return part
        return replace(part, logical_origin=(start, *rest), shape=(stop - start, *inner))


class CrashesOnBadParts(Reference):
    """F51"""

    def plan_transfers(self, *args: Any, **options: Any) -> Any:
        try:
            return super().plan_transfers(*args, **options)
        except InvalidReplicaPolicyError:
            raise_type_error()


class RefusesAnswersInItsOwnWay(Reference):
    def plan_transfers(self, *args: Any, **options: Any) -> Any:
        try:
            return super().plan_transfers(*args, **options)
        except InvalidReplicaPolicyError as refusal:
            raise AffineTransferError(str(refusal)) from None


class SplitsIntoAnySize(Reference):
    def plan_transfers(self, pairs: Any, *, min_split_bytes: int = 0, **options: Any) -> Any:
        return super().plan_transfers(pairs, **options)


class MeasuresWholeRegions(Reference):
    """Takes one part for a split, too."""

    def plan_transfers(self, pairs: Any, *, min_split_bytes: int = 0, **options: Any) -> Any:
        plans = super().plan_transfers(pairs, min_split_bytes=min_split_bytes, **options)
        if any(4 * plan.moved_elements < min_split_bytes for plan in plans.values()):
            raise InvalidReplicaPolicyError("too small")
        return plans


class ReadsBeforeItCounts(FaultyBatches):
    """F51"""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if not isinstance(answer, int) and len(answer):
            answer[0]
        return answer


class UnpacksParts(FaultyBatches):
    """F51"""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        for part in answer if isinstance(answer, list) else ():
            if None in (part.logical_origin, part.shape):
                raise_type_error()
        return answer


class ExpandsAnswers(FaultyBatches):
    """F51"""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return answer if isinstance(answer, int) else list(answer)


class AllowsAnyNumberOfParts(FaultyBatches):
    """F51"""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if not isinstance(answer, Sequence) or len(answer) < 10**5:
            return answer
        return request.holders[0]


class CountsEachAnswerAlone(Reference):
    def plan_transfers(self, pairs: Any, *, limits: PlanBudget = DEFAULT, **o: Any) -> Any:
        more = replace(limits, max_pair_checks=4 * limits.max_pair_checks)
        return super().plan_transfers(pairs, limits=more, **o)


class CountsTheWholeBatch(Reference):
    def plan_transfers(self, pairs: Any, *, limits: PlanBudget = DEFAULT, **o: Any) -> Any:
        left = replace(limits, max_pair_checks=limits.max_pair_checks // max(len(pairs), 1))
        return super().plan_transfers(pairs, limits=left, **o)


class CallsItALimit(Reference):
    def plan_transfers(self, *args: Any, **options: Any) -> Any:
        try:
            return super().plan_transfers(*args, **options)
        except InvalidReplicaPolicyError as refusal:
            raise PlanLimitError(str(refusal)) from None


class FaultyDefault(Reference):
    """Has a default policy of its own."""

    def plan_transfers(self, pairs: Any, *, replica_policy: Any = None, **options: Any) -> Any:
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
    def policy(self, requests: Requests) -> list[Any]:
        return list(first_holder(requests))


class SendsWhatIsLocal(FaultyDefault):
    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        return super().choice(replace(request, target_process=None), sent)


class CountsLocalCopies(FaultyDefault):
    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if request.target_process in (request.holder_processes or ()):
            sent[request.target_process or 0] += request.num_bytes
        return super().choice(request, sent)


class CountsChoicesOnly(FaultyDefault):
    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if len(request.holders) == 1:
            return request.holders[0]
        return super().choice(request, sent)


class CountsFixedBytesFirst(FaultyDefault):
    """Of the whole batch, and not at their turn."""

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
    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        return super().choice(replace(request, num_bytes=1), sent)


class CountsElements(FaultyDefault):
    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        num_elements = request.num_bytes // request.element_size
        return super().choice(replace(request, num_bytes=num_elements), sent)


class CountsByLocation(FaultyDefault):
    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if request.target_process not in (request.holder_processes or ()):
            request = replace(request, holder_processes=None)
        return super().choice(request, sent)


class BreaksTiesUpwards(FaultyDefault):
    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        processes = request.holder_processes and request.holder_processes[::-1]
        return super().choice(
            replace(request, holders=request.holders[::-1], holder_processes=processes), sent
        )


class TakesEqualNumbersForLocal(FaultyDefault):
    """Without endpoints, source location 0 is where target location 0 is."""

    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if request.holder_processes is None and request.target_location in request.holders:
            return request.target_location
        return super().choice(request, sent)


class StartsAnewForEachParameter(FaultyDefault):
    def policy(self, requests: Requests) -> list[Any]:
        sent: defaultdict[str | None, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        return [self.choice(request, sent[request.parameter]) for request in requests]


class SplitsByDefault(FaultyDefault):
    def choice(self, request: ReplicaRequest, sent: defaultdict[int, int]) -> Any:
        if not request.shape or request.shape[0] < 2 or len(request.holders) < 2:
            return super().choice(request, sent)
        (row, *rest), (count, *inner) = request.logical_origin, request.shape
        return [
            ReplicaPart(request.holders[0], (row, *rest), (1, *inner)),
            ReplicaPart(request.holders[1], (row + 1, *rest), (count - 1, *inner)),
        ]
