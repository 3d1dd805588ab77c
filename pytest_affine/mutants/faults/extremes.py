"""Planners that fail where sizes or shapes are unusual, with one fault each."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from pytest_affine.errors import PlanLimitError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.mutants.faults.parts import raise_type_error, with_segments
from pytest_affine.mutants.faults.plans import FaultyPlanner
from pytest_affine.plans import TransferPlan


def wrapped(number: int) -> int:
    """What 32 bits with a sign make of it."""
    return (number + 2**31) % 2**32 - 2**31


class WrapsSizes(FaultyPlanner):
    """Counts the moved elements in 32 bits."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, moved_elements=wrapped(plan.moved_elements))


class WrapsBytes(FaultyPlanner):
    """Counts the moved elements by their bytes of float32, in 32 bits."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, moved_elements=wrapped(4 * plan.moved_elements) // 4)


class FaultyOffsets(FaultyPlanner):
    """Writes somewhere else."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return with_segments(
            plan, (replace(s, target_offset=self.stored(s.target_offset)) for s in plan.segments)
        )

    def stored(self, offset: int) -> int:
        raise NotImplementedError


class WrapsOffsets(FaultyOffsets):
    """Keeps target offsets in 32 bits."""

    def stored(self, offset: int) -> int:
        return wrapped(offset)


class RoundsOffsets(FaultyOffsets):
    """Rounds target offsets as 64-bit floats do."""

    def stored(self, offset: int) -> int:
        return int(float(offset))


class KeepsOneByteOfOffsets(FaultyOffsets):
    """Keeps the lowest byte of target offsets."""

    def stored(self, offset: int) -> int:
        return offset % 2**8


class RefusesManyElements(FaultyPlanner):
    """Refuses to move more than 2^14 elements."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        if plan.moved_elements > 2**14:
            raise PlanLimitError("too many elements")
        return plan


class WritesOneFurther(FaultyOffsets):
    """Writes every segment one element further on."""

    def stored(self, offset: int) -> int:
        return offset + 1


class WritesOneEarlier(FaultyOffsets):
    """Writes every segment one element earlier."""

    def stored(self, offset: int) -> int:
        return offset - 1


class Crashing(FaultyPlanner):
    """Crashes where something is unusual."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        if self.is_unusual(source, target):
            raise_type_error()
        return super().plan_transfer(source, target, **options)

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return plan

    def is_unusual(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        raise NotImplementedError

    def sizes(self, source: ParamAffineMap, target: ParamAffineMap) -> list[int]:
        return [map_.shard_size(at) for map_ in (source, target) for at in map_.locations]


class NeedsElements(Crashing):
    """Crashes where a parameter has no elements."""

    def is_unusual(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return source.num_elements == 0


class NeedsAxes(Crashing):
    """Crashes where a parameter has no axes."""

    def is_unusual(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return source.logical_shape == ()


class NeedsLongAxes(Crashing):
    """Crashes where an axis has an extent of 1."""

    def is_unusual(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return 1 in source.logical_shape


class NeedsFullShards(Crashing):
    """Crashes where a shard is empty and its parameter is not."""

    def is_unusual(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return source.num_elements > 0 and 0 in self.sizes(source, target)


class NeedsSeveralLocations(Crashing):
    """Crashes where either side has one location."""

    def is_unusual(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return len(self.sizes(source, target)) == 2


class TakesSevenAxes(Crashing):
    """Crashes where a parameter has more than 7 axes."""

    def is_unusual(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return len(source.logical_shape) > 7


class DiesOnScalars(Crashing):
    """Ends its process where a parameter has no axes."""

    def is_unusual(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        if source.logical_shape == ():
            os._exit(3)
        return False


class MarksElements(FaultyPlanner):
    """Takes a byte for each of many elements."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        bytearray(min(plan.moved_elements, 2**20))
        return plan


class VisitsElements(FaultyPlanner):
    """Visits every element."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        for _ in range(plan.moved_elements):
            pass
        return plan
