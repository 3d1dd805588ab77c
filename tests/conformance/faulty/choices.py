"""Planners that take options with one fault each: limits, and the choice of replicas."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from dataclasses import replace
from typing import Any

from faulty.parts import raise_type_error
from faulty.plans import with_segments
from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import AffineTransferError, InvalidReplicaPolicyError, PlanLimitError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import PlanBudget, ReplicaRequest, TransferPlan

DEFAULT = PlanBudget()


class NoOptions(Reference):
    """No fault: it claims none."""

    def plan_transfer(self, source: ParamAffineMap, target: ParamAffineMap) -> TransferPlan:
        return super().plan_transfer(source, target)


class FaultySelection(Reference):
    """Understands a selector's answers in its own way."""

    def plan_transfer(
        self, *maps: Any, replica_selector: Any = None, **options: Any
    ) -> TransferPlan:
        if replica_selector is None:
            return super().plan_transfer(*maps, **options)
        return super().plan_transfer(
            *maps,
            replica_selector=lambda request: self.chosen(replica_selector, request),
            **options,
        )

    def chosen(self, selector: Any, request: ReplicaRequest) -> Any:
        return self.understood(selector(request), request.holders)

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        raise NotImplementedError


class IgnoresSelector(Reference):
    def plan_transfer(
        self, *maps: Any, replica_selector: Any = None, **options: Any
    ) -> TransferPlan:
        return super().plan_transfer(*maps, **options)


class ReadsTheHolderBehind(FaultySelection):
    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return holders[(holders.index(answer) + 1) % len(holders)] if answer in holders else answer


class AsksOnce(FaultySelection):
    """Takes the first answer for all regions that have that holder."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        self._first: Any = None
        return super().plan_transfer(*maps, **options)

    def chosen(self, selector: Any, request: ReplicaRequest) -> Any:
        if self._first not in request.holders:
            self._first = selector(request)
        return self._first


class KeepsFirstAnswer(AsksOnce):
    """Asks for every region."""

    def chosen(self, selector: Any, request: ReplicaRequest) -> Any:
        answer = selector(request)
        return super().chosen(lambda _: answer, request)


class AsksWithoutNeed(FaultySelection):
    """Asks again with the holder that was named as the only one."""

    def chosen(self, selector: Any, request: ReplicaRequest) -> Any:
        return selector(replace(request, holders=(selector(request),)))


class TakesAnyAnswer(FaultySelection):
    """What is no holder means the first."""

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        known = isinstance(answer, int) and not isinstance(answer, bool) and answer in holders
        return answer if known else holders[0]


class TakesNoAnswer(FaultySelection):
    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return holders[0] if answer is None else answer


class TakesTrueForOne(FaultySelection):
    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return int(answer) if isinstance(answer, bool) else answer


class TakesFractions(FaultySelection):
    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return int(answer) if isinstance(answer, float) else answer


class TakesWords(FaultySelection):
    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return int(answer) if isinstance(answer, str) else answer


class CountsFromTheEnd(FaultySelection):
    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        negative = type(answer) is int and answer < 0
        return holders[answer] if negative else answer


class TakesUnknownLocations(FaultySelection):
    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return min(answer, holders[-1]) if type(answer) is int else answer


class RefusesAnswersOtherwise(Reference):
    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except InvalidReplicaPolicyError as refusal:
            raise AffineTransferError(str(refusal)) from None


class CrashesOnBadAnswers(Reference):
    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except InvalidReplicaPolicyError:
            raise_type_error()


class FaultyLimits(Reference):
    """Plans within other limits."""

    def plan_transfer(
        self, *maps: Any, limits: PlanBudget = DEFAULT, **options: Any
    ) -> TransferPlan:
        return super().plan_transfer(*maps, limits=self.changed(limits), **options)

    def changed(self, limits: PlanBudget) -> PlanBudget:
        raise NotImplementedError


class IgnoresAxesLimit(FaultyLimits):
    def changed(self, limits: PlanBudget) -> PlanBudget:
        return replace(limits, max_ndim=DEFAULT.max_ndim)


class IgnoresPiecesLimit(FaultyLimits):
    def changed(self, limits: PlanBudget) -> PlanBudget:
        return replace(limits, max_pieces_per_map=DEFAULT.max_pieces_per_map)


class IgnoresSegmentsLimit(FaultyLimits):
    def changed(self, limits: PlanBudget) -> PlanBudget:
        return replace(limits, max_segments=DEFAULT.max_segments)


class AllowsOneSegmentMore(FaultyLimits):
    def changed(self, limits: PlanBudget) -> PlanBudget:
        return replace(limits, max_segments=limits.max_segments + 1)


class ShortensPlans(Reference):
    def plan_transfer(
        self, *maps: Any, limits: PlanBudget = DEFAULT, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(
            *maps, limits=replace(limits, max_segments=DEFAULT.max_segments), **options
        )
        return with_segments(plan, plan.segments[: limits.max_segments])


class PlansOtherwiseWithinLimits(Reference):
    def plan_transfer(
        self, *maps: Any, limits: PlanBudget = DEFAULT, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(*maps, limits=limits, **options)
        return plan if limits == DEFAULT else with_segments(plan, plan.segments[::-1])


class CrashesAtLimits(Reference):
    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except PlanLimitError:
            raise_type_error()
