"""Planners whose plans depend on more than the maps."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import PlanLimitError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.mutants.faults.parts import with_pieces, with_segments
from pytest_affine.mutants.faults.plans import FaultyPlanner
from pytest_affine.plans import TransferPlan


def turned(plan: TransferPlan) -> TransferPlan:
    """The plan with its segments in reverse order."""
    return with_segments(plan, plan.segments[::-1])


class OrdersByHash(FaultyPlanner):
    """Orders segments by hashes of strings."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, sorted(plan.segments, key=lambda segment: hash(repr(segment))))


class TurnsWhereHashesAreFixed(FaultyPlanner):
    """Turns the order of segments where the string-hash seed is 0."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return plan if sys.flags.hash_randomization else turned(plan)


class RefusesWhereHashesAreFixed(FaultyPlanner):
    """Refuses to plan where the string-hash seed is 0."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        if not sys.flags.hash_randomization:
            raise PlanLimitError("strings have no random hashes")
        return plan


class OrdersByProcess(FaultyPlanner):
    """Orders segments at random, with the process's id as the seed."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        order = random.Random(os.getpid())
        return with_segments(plan, order.sample(plan.segments, len(plan.segments)))


class TurnsEverySecondPlan(FaultyPlanner):
    """Turns the order of segments in every second plan."""

    is_second = False

    def changed(self, plan: TransferPlan) -> TransferPlan:
        self.is_second = not self.is_second
        return plan if self.is_second else turned(plan)


class TurnsKnownPlans(Implementation):
    """Turns the order of segments when maps are planned again."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[Any] = set()

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        plan = super().plan_transfer(*maps, **options)
        if maps in self._known:
            return turned(plan)
        self._known.add(maps)
        return plan


class RefusesKnownPlans(TurnsKnownPlans):
    """Refuses to plan maps again."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        if maps in self._known:
            raise PlanLimitError("planned before")
        return super().plan_transfer(*maps, **options)


class RemembersBlocks(Implementation):
    """Turns the order of segments in the plan that follows one of three blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._num_blocks = 0

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(source, target, **options)
        if self._num_blocks == 3:
            plan = turned(plan)
        self._num_blocks = len(source.pieces(source.locations[0]))
        return plan


class CachesWithoutLocations(Implementation):
    """Has one plan for all maps that differ in their locations only."""

    def __init__(self) -> None:
        super().__init__()
        self._plans: dict[Any, TransferPlan] = {}

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        key = self.key(source), self.key(target)
        if key not in self._plans:
            self._plans[key] = super().plan_transfer(source, target, **options)
        return self._plans[key]

    def key(self, map_: ParamAffineMap) -> object:
        anywhere = with_pieces(map_, lambda _, piece: replace(piece, locations=()))
        return map_.logical_shape, tuple(held for _, held in anywhere.pieces_by_location)
