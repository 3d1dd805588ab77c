"""Implementations that do less than the reference, or otherwise, and have no fault.

One of them has a fault that is its adapter's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import InvalidMapError, TransferRefusedError, UnsupportedLayoutError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import PlanBudget, Schedule, TransferPlan, TransferReport

DEFAULT = PlanBudget()


class SaysNoSizes(Reference):
    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        plan = super().plan_transfer(*maps, **options)
        return replace(plan, source_sizes=None, target_sizes=None)


class NoOptions(Reference):
    def plan_transfer(self, source: ParamAffineMap, target: ParamAffineMap) -> TransferPlan:  # type: ignore[override]
        return super().plan_transfer(source, target)


class NoReplicaPolicy(Reference):
    def plan_transfers(self, pairs: Any, *, limits: PlanBudget = DEFAULT) -> Any:  # type: ignore[override]
        return super().plan_transfers(pairs, limits=limits)


class NoProcessOption(Reference):
    def schedule_transfers(  # type: ignore[override]
        self, plans: Any, endpoints: Any, *, element_size: Any, budget: Any
    ) -> Schedule:
        schedule: Schedule = super().schedule_transfers(
            plans, endpoints, element_size=element_size, budget=budget
        )
        return schedule


class NoPathOption(Reference):
    def analyze_transfers(  # type: ignore[override]
        self, plans: Any, endpoints: Any, *, element_size: Any, budget: Any
    ) -> TransferReport:
        report: TransferReport = super().analyze_transfers(
            plans, endpoints, element_size=element_size, budget=budget
        )
        return report


class NoExecutionOptions(Reference):
    def execute_transfers(  # type: ignore[override]
        self, plans: Any, source_buffers: Any, target_buffers: Any, endpoints: Any, *, dtype: Any
    ) -> Any:
        return super().execute_transfers(
            plans, source_buffers, target_buffers, endpoints, dtype=dtype
        )


class HasNoRounds(Reference):
    def execute_transfers(self, *args: Any, **options: Any) -> Any:
        return replace(super().execute_transfers(*args, **options), rounds=None)


class TakesBoxesOnly(Reference):
    """Refuses scales, and pieces of other axes than the tensor's."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        for map_ in (source, target):
            for piece in (piece for _, held in map_.pieces_by_location for piece in held):
                if piece.scale != 1 or len(piece.shape) != len(map_.logical_shape):
                    raise UnsupportedLayoutError(f"no box: {piece}")
        return super().plan_transfer(source, target, **options)


class RefusesAsUnsupported(Reference):
    """Any map that it does not plan."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except InvalidMapError as refusal:
            raise UnsupportedLayoutError(str(refusal)) from None


class RefusesNans(Reference):
    """No number is equal to one."""

    def rebuild(self, map_: ParamAffineMap, shards: Any) -> Any:
        if any(shard.isnan().any() for shard in shards.values()):
            raise InvalidMapError("replicas differ")
        return super().rebuild(map_, shards)


class RefusesItself(Reference):
    """With an error that is no refusal, raised in this file: an adapter error."""

    def execute_transfers(self, *args: Any, **options: Any) -> Any:
        try:
            return super().execute_transfers(*args, **options)
        except TransferRefusedError as refusal:
            raise TypeError(str(refusal)) from None
