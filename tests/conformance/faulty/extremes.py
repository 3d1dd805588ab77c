"""Planners that fail where sizes or shapes are unusual, with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from dataclasses import replace

from faulty.parts import raise_type_error
from faulty.plans import FaultyPlanner, with_segments
from pytest_affine.errors import PlanLimitError
from pytest_affine.plans import TransferPlan


def wrapped(number: int) -> int:
    """What 32 bits with a sign make of it."""
    return (number + 2**31) % 2**32 - 2**31


class WrapsSizes(FaultyPlanner):
    """F35: in elements."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, moved_elements=wrapped(plan.moved_elements))


class WrapsBytes(FaultyPlanner):
    """F35: sizes, in bytes of float32."""

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
    """F35."""

    def stored(self, offset: int) -> int:
        return wrapped(offset)


class RoundsOffsets(FaultyOffsets):
    """F35: as 64-bit floats do."""

    def stored(self, offset: int) -> int:
        return int(float(offset))


class KeepsBytesOfOffsets(FaultyOffsets):
    """F35: the lowest one."""

    def stored(self, offset: int) -> int:
        return offset % 2**8


class RefusesManyElements(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        if plan.moved_elements > 2**14:
            raise PlanLimitError("too many elements")
        return plan


class WritesOneFurther(FaultyOffsets):
    def stored(self, offset: int) -> int:
        return offset + 1


class WritesOneEarlier(FaultyOffsets):
    def stored(self, offset: int) -> int:
        return offset - 1


class Crashing(FaultyPlanner):
    """Crashes where something is unusual (F17)."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        return raise_type_error() if self.unusual(plan) else plan

    def unusual(self, plan: TransferPlan) -> bool:
        raise NotImplementedError

    def sizes(self, plan: TransferPlan) -> list[int]:
        return [size for _, size in (*(plan.source_sizes or ()), *(plan.target_sizes or ()))]


class NeedsElements(Crashing):
    def unusual(self, plan: TransferPlan) -> bool:
        return plan.moved_elements == 0


class NeedsAxes(Crashing):
    def unusual(self, plan: TransferPlan) -> bool:
        return plan.logical_shape == ()


class NeedsLongAxes(Crashing):
    def unusual(self, plan: TransferPlan) -> bool:
        return 1 in plan.logical_shape


class NeedsFullShards(Crashing):
    def unusual(self, plan: TransferPlan) -> bool:
        return plan.moved_elements > 0 and 0 in self.sizes(plan)


class NeedsSeveralLocations(Crashing):
    def unusual(self, plan: TransferPlan) -> bool:
        return len(self.sizes(plan)) == 2


class TakesSevenAxes(Crashing):
    def unusual(self, plan: TransferPlan) -> bool:
        return len(plan.logical_shape) > 7


class MarksElements(FaultyPlanner):
    """Has a byte for each of many."""

    def changed(self, plan: TransferPlan) -> TransferPlan:
        bytearray(min(plan.moved_elements, 2**20))
        return plan


class VisitsElements(FaultyPlanner):
    def changed(self, plan: TransferPlan) -> TransferPlan:
        for _ in range(plan.moved_elements):
            pass
        return plan
