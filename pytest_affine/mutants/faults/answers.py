"""Planners of batches that take what is no valid answer, with one fault each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import AffineTransferError, InvalidReplicaPolicyError, PlanLimitError
from pytest_affine.mutants.faults.batches import (
    FaultyBatches,
    Plans,
    Policy,
    Requests,
)
from pytest_affine.mutants.faults.parts import raise_type_error, with_segments
from pytest_affine.plans import PlanBudget, ReplicaPart, ReplicaRequest
from pytest_affine.reference.policies import first_holder

DEFAULT = PlanBudget()


class TakesAnyAnswers(FaultyBatches):
    """Takes what it does not understand for the lowest holder."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        answers = policy(requests)
        known = list(answers) if isinstance(answers, (list, tuple)) else []
        known += first_holder(requests[len(known) :])
        return super().answered(lambda _: known, requests)

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        known = type(answer) is int and answer in request.holders
        return answer if known else request.holders[0]


class TakesTheFirstOfTooMany(FaultyBatches):
    """Takes the first answers where there are too many."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        return list(policy(requests))[: len(requests)]


class FillsUpAnswers(FaultyBatches):
    """Takes an answer that is missing for the lowest holder."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        answers = list(policy(requests))
        return answers + list(first_holder(requests[len(answers) :]))


class TakesTrueForOneInBatches(FaultyBatches):
    """Takes True for location 1."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return int(answer) if isinstance(answer, bool) else answer


class TakesFractionsInBatches(FaultyBatches):
    """Takes a float for the location that it is equal to."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return int(answer) if isinstance(answer, float) else answer


class TakesWordsInBatches(FaultyBatches):
    """Takes a string for the location that it spells."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return int(answer) if isinstance(answer, str) else answer


class TakesNoneInBatches(FaultyBatches):
    """Takes None for the lowest holder."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return request.holders[0] if answer is None else answer


class TakesLocationsOfTheMap(FaultyBatches):
    """Takes a location that the map has, and that holds nothing, for the lowest holder."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return request.holders[0] if answer == 2 else answer


class TakesGenerators(FaultyBatches):
    """Takes answers and parts from generators."""

    def answered(self, policy: Policy, requests: Requests) -> Any:
        answers = policy(requests)
        if not isinstance(answers, Iterable):
            return answers
        return [list(each) if isinstance(each, Iterator) else each for each in answers]


class DropsEmptyParts(FaultyBatches):
    """Leaves out parts that are empty."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if not isinstance(answer, list):
            return answer
        return [part for part in answer if not isinstance(part, ReplicaPart) or part.shape[0] > 0]


class FillsGaps(FaultyBatches):
    """Takes parts that do not fill their region for its lowest holder."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        try:
            rows = sum(part.shape[0] for part in answer)
        except (AttributeError, IndexError, TypeError):
            return answer
        return request.holders[0] if 0 < rows < request.shape[0] else answer


class TakesTheFirstOfParts(FaultyBatches):
    """Takes parts that overlap for the first of them, of all rows."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        try:
            rows = sum(part.shape[0] for part in answer)
        except (AttributeError, IndexError, TypeError):
            return answer
        return answer[0].source_location if rows > request.shape[0] else answer


class ClipsParts(FaultyBatches):
    """Cuts off what a part has outside its region."""

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


class CrashesOnBadParts(Implementation):
    """Crashes on bad answers."""

    def plan_transfers(self, *args: Any, **options: Any) -> Plans:
        try:
            return super().plan_transfers(*args, **options)
        except InvalidReplicaPolicyError:
            raise_type_error()


class RefusesAnswersInItsOwnWay(Implementation):
    """Refuses bad answers with an error of the general kind."""

    def plan_transfers(self, *args: Any, **options: Any) -> Plans:
        try:
            return super().plan_transfers(*args, **options)
        except InvalidReplicaPolicyError as refusal:
            raise AffineTransferError(str(refusal)) from None


class SplitsIntoAnySize(Implementation):
    """Ignores how large parts must be."""

    def plan_transfers(self, pairs: Any, *, min_split_bytes: int = 0, **options: Any) -> Plans:
        return super().plan_transfers(pairs, **options)


class MeasuresWholeRegions(Implementation):
    """Takes one part for a split, which must be as large as parts must be."""

    def plan_transfers(self, pairs: Any, *, min_split_bytes: int = 0, **options: Any) -> Plans:
        plans = super().plan_transfers(pairs, min_split_bytes=min_split_bytes, **options)
        if any(4 * plan.moved_elements < min_split_bytes for plan in plans.values()):
            raise InvalidReplicaPolicyError("too small")
        return plans


class DropsSegmentsOfParts(Implementation):
    """Leaves out the last segment of each plan where parts must have a least size below 2^20."""

    def plan_transfers(self, pairs: Any, **options: Any) -> Plans:
        plans = super().plan_transfers(pairs, **options)
        if not self.is_faulty(options.get("min_split_bytes", 0)):
            return plans
        return {name: with_segments(plan, plan.segments[:-1]) for name, plan in plans.items()}

    def is_faulty(self, min_split_bytes: int) -> bool:
        return 0 < min_split_bytes < 2**20


class DropsSegmentsOfLargeParts(DropsSegmentsOfParts):
    """Leaves out the last segment of each plan where parts must have 2^20 bytes or more."""

    def is_faulty(self, min_split_bytes: int) -> bool:
        return min_split_bytes >= 2**20


class ReadsBeforeItCounts(FaultyBatches):
    """Reads one part of an answer before it looks at how many there are."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if not isinstance(answer, int) and len(answer):
            answer[0]
        return answer


class UnpacksParts(FaultyBatches):
    """Crashes on parts whose fields are None."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        for part in answer if isinstance(answer, list) else ():
            if None in (getattr(part, "logical_origin", 0), getattr(part, "shape", 0)):
                raise_type_error()
        return answer


class ExpandsAnswers(FaultyBatches):
    """Makes a list of an answer before it looks at how many parts there are."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        return answer if isinstance(answer, int) else list(answer)


class AllowsAnyNumberOfParts(FaultyBatches):
    """Takes an answer of 10^5 parts or more for the lowest holder."""

    def understood(self, answer: Any, request: ReplicaRequest) -> Any:
        if not isinstance(answer, Sequence) or len(answer) < 10**5:
            return answer
        return request.holders[0]


class CountsEachAnswerAlone(Implementation):
    """Counts the parts of each region by themselves, within other limits than the usual ones."""

    def plan_transfers(self, pairs: Any, *, limits: PlanBudget = DEFAULT, **options: Any) -> Plans:
        more = replace(limits, max_pair_checks=4 * limits.max_pair_checks)
        more = limits if limits == DEFAULT else more
        return super().plan_transfers(pairs, limits=more, **options)


class CountsTheWholeBatch(Implementation):
    """Counts the parts of all parameters together."""

    def plan_transfers(self, pairs: Any, *, limits: PlanBudget = DEFAULT, **options: Any) -> Plans:
        left = replace(limits, max_pair_checks=limits.max_pair_checks // max(len(pairs), 1))
        return super().plan_transfers(pairs, limits=left, **options)


class DropsSegmentsWithinLimits(Implementation):
    """Leaves out the last segment of each plan where limits are given."""

    def plan_transfers(self, pairs: Any, *, limits: PlanBudget = DEFAULT, **options: Any) -> Plans:
        plans = super().plan_transfers(pairs, limits=limits, **options)
        if limits == DEFAULT:
            return plans
        return {name: with_segments(plan, plan.segments[:-1]) for name, plan in plans.items()}


class CallsItALimit(Implementation):
    """Refuses bad answers as if a limit were exceeded."""

    def plan_transfers(self, *args: Any, **options: Any) -> Plans:
        try:
            return super().plan_transfers(*args, **options)
        except InvalidReplicaPolicyError as refusal:
            raise PlanLimitError(str(refusal)) from None
