"""Planners that take options with one fault each: limits, and the choice of replicas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import AffineTransferError, InvalidReplicaPolicyError, PlanLimitError
from pytest_affine.mutants.faults.parts import raise_type_error, with_segments
from pytest_affine.plans import PlanBudget, ReplicaRequest, TransferPlan

DEFAULT = PlanBudget()


class FaultySelection(Implementation):
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
        return answer


class IgnoresSelectors(Implementation):
    """Never asks the selector."""

    def plan_transfer(
        self, *maps: Any, replica_selector: Any = None, **options: Any
    ) -> TransferPlan:
        return super().plan_transfer(*maps, **options)


class DropsASegmentWhereItAsks(Implementation):
    """Leaves out the last segment where there is a selector."""

    def plan_transfer(
        self, *maps: Any, replica_selector: Any = None, **options: Any
    ) -> TransferPlan:
        if replica_selector is None:
            return super().plan_transfer(*maps, **options)
        plan = super().plan_transfer(*maps, replica_selector=replica_selector, **options)
        return with_segments(plan, plan.segments[:-1])


class ReadsTheHolderBehind(FaultySelection):
    """Reads the holder that follows the one that was named."""

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return holders[(holders.index(answer) + 1) % len(holders)] if answer in holders else answer


class AsksOnce(FaultySelection):
    """Takes the selector's first answer for all regions that have that holder."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        self._first: Any = None
        return super().plan_transfer(*maps, **options)

    def chosen(self, selector: Any, request: ReplicaRequest) -> Any:
        if self._first not in request.holders:
            self._first = selector(request)
        return self._first


class KeepsTheFirstAnswer(AsksOnce):
    """Asks about every region, and takes the first answer for all that have that holder."""

    def chosen(self, selector: Any, request: ReplicaRequest) -> Any:
        answer = selector(request)
        return super().chosen(lambda _: answer, request)


class AsksWithoutNeed(FaultySelection):
    """Asks again with the holder that was named as the only one."""

    def chosen(self, selector: Any, request: ReplicaRequest) -> Any:
        return selector(replace(request, holders=(selector(request),)))


class TakesAnyAnswer(FaultySelection):
    """Takes an answer that is no holder for the first holder."""

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        known = isinstance(answer, int) and not isinstance(answer, bool) and answer in holders
        return answer if known else holders[0]


class TakesNoAnswer(FaultySelection):
    """Takes None for the first holder."""

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return holders[0] if answer is None else answer


class TakesTrueForOne(FaultySelection):
    """Takes True for location 1."""

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return int(answer) if isinstance(answer, bool) else answer


class TakesFractions(FaultySelection):
    """Takes a float for the location that it is equal to."""

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return int(answer) if isinstance(answer, float) else answer


class TakesWords(FaultySelection):
    """Takes a string for the location that it spells."""

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return int(answer) if isinstance(answer, str) else answer


class CountsFromTheEnd(FaultySelection):
    """Takes a negative answer for a place from the end of the holders."""

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        negative = type(answer) is int and answer < 0
        return holders[answer] if negative else answer


class TakesUnknownLocations(FaultySelection):
    """Takes a location that is too high for the last holder."""

    def understood(self, answer: Any, holders: tuple[int, ...]) -> Any:
        return min(answer, holders[-1]) if type(answer) is int else answer


class RefusesAnswersOtherwise(Implementation):
    """Refuses bad answers with an error of the general kind."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except InvalidReplicaPolicyError as refusal:
            raise AffineTransferError(str(refusal)) from None


class CrashesOnBadAnswers(Implementation):
    """Crashes on bad answers."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except InvalidReplicaPolicyError:
            raise_type_error()


class FaultyLimits(Implementation):
    """Plans within other limits."""

    def plan_transfer(
        self, *maps: Any, limits: PlanBudget = DEFAULT, **options: Any
    ) -> TransferPlan:
        return super().plan_transfer(*maps, limits=self.changed(limits), **options)

    def changed(self, limits: PlanBudget) -> PlanBudget:
        raise NotImplementedError


class IgnoresTheAxesLimit(FaultyLimits):
    """Ignores the limit on axes."""

    def changed(self, limits: PlanBudget) -> PlanBudget:
        return replace(limits, max_ndim=DEFAULT.max_ndim)


class IgnoresThePiecesLimit(FaultyLimits):
    """Ignores the limit on pieces."""

    def changed(self, limits: PlanBudget) -> PlanBudget:
        return replace(limits, max_pieces_per_map=DEFAULT.max_pieces_per_map)


class IgnoresTheSegmentsLimit(FaultyLimits):
    """Ignores the limit on segments."""

    def changed(self, limits: PlanBudget) -> PlanBudget:
        return replace(limits, max_segments=DEFAULT.max_segments)


class AllowsOneSegmentMore(FaultyLimits):
    """Allows one segment more than the limit."""

    def changed(self, limits: PlanBudget) -> PlanBudget:
        return replace(limits, max_segments=limits.max_segments + 1)


class ShortensPlans(Implementation):
    """Cuts a plan off at the limit on segments."""

    def plan_transfer(
        self, *maps: Any, limits: PlanBudget = DEFAULT, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(
            *maps, limits=replace(limits, max_segments=DEFAULT.max_segments), **options
        )
        return with_segments(plan, plan.segments[: limits.max_segments])


class PlansOtherwiseWithinLimits(Implementation):
    """Turns the order of segments where limits are given."""

    def plan_transfer(
        self, *maps: Any, limits: PlanBudget = DEFAULT, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(*maps, limits=limits, **options)
        return plan if limits == DEFAULT else with_segments(plan, plan.segments[::-1])


class CrashesAtLimits(Implementation):
    """Crashes where a limit is exceeded."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except PlanLimitError:
            raise_type_error()
