"""Planners whose plans depend on more than the maps."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from typing import Any

from faulty.parts import with_pieces
from faulty.plans import FaultyPlanner, with_segments
from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import PlanLimitError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferPlan


class OrdersByHash(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(plan, sorted(plan.segments, key=lambda segment: hash(repr(segment))))


class TurnsWhereHashesAreFixed(FaultyPlanner):
    """As they are with PYTHONHASHSEED=0."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        step = 1 if sys.flags.hash_randomization else -1
        return with_segments(plan, plan.segments[::step])


class OrdersByProcess(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        order = random.Random(os.getpid())
        return with_segments(plan, order.sample(plan.segments, len(plan.segments)))


class TurnsEverySecondPlan(FaultyPlanner):
    def __init__(self) -> None:
        self._step = 1

    def changed(self, plan: TransferPlan) -> TransferPlan:
        self._step = -self._step
        return with_segments(plan, plan.segments[:: self._step])


class TurnsKnownPlans(Reference):
    """When maps are planned again."""

    def __init__(self) -> None:
        self._known: set[Any] = set()

    def plan_transfer(self, *maps: ParamAffineMap, **options: Any) -> TransferPlan:
        plan = super().plan_transfer(*maps, **options)
        if maps in self._known:
            return with_segments(plan, plan.segments[::-1])
        self._known.add(maps)
        return plan


class RefusesKnownPlans(TurnsKnownPlans):
    def plan_transfer(self, *maps: ParamAffineMap, **options: Any) -> TransferPlan:
        if maps in self._known:
            raise PlanLimitError("planned before")
        return super().plan_transfer(*maps, **options)


class RemembersBlocks(Reference):
    """F04: a map of three blocks leaves its mark on the next plan."""

    def __init__(self) -> None:
        self._num_blocks = 0

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(source, target, **options)
        if self._num_blocks == 3:
            plan = with_segments(plan, plan.segments[::-1])
        self._num_blocks = len(source.pieces(0))
        return plan


class CachesWithoutLocations(Reference):
    """F23: one plan for all maps that differ in their locations only."""

    def __init__(self) -> None:
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
