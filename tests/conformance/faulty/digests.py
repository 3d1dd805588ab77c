"""Digests with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import torch.distributed as dist

from faulty.parts import Plans
from pytest_affine import plans as values
from pytest_affine.adapters.reference import Reference
from pytest_affine.plans import (
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferSegment,
)


class FaultyDigest(Reference):
    """Computes the digest of another batch."""

    def plan_digest(
        self, plans: Plans, endpoints: TransferEndpoints, *, element_size: Any, budget: Any
    ) -> str:
        sizes = element_size
        if not isinstance(element_size, Mapping):
            sizes = dict.fromkeys(plans, element_size)
        batch = {"plans": plans, "endpoints": endpoints, "element_size": sizes, "budget": budget}
        batch.update(self.changed(**batch))
        return super().plan_digest(**batch)

    def changed(self, **batch: Any) -> dict[str, Any]:
        raise NotImplementedError


class IgnoresBudget(FaultyDigest):
    def changed(self, **batch: Any) -> dict[str, Any]:
        return {"budget": StagingBudget()}


class IgnoresElementSize(FaultyDigest):
    def changed(self, *, element_size: Any, **batch: Any) -> dict[str, Any]:
        return {"element_size": dict.fromkeys(element_size, 1)}


class IgnoresSourceEndpoints(FaultyDigest):
    def changed(self, *, endpoints: TransferEndpoints, **batch: Any) -> dict[str, Any]:
        return {"endpoints": TransferEndpoints({}, endpoints.target)}


class IgnoresTargetEndpoints(FaultyDigest):
    def changed(self, *, endpoints: TransferEndpoints, **batch: Any) -> dict[str, Any]:
        return {"endpoints": TransferEndpoints(endpoints.source, {})}


class IgnoresNames(FaultyDigest):
    def changed(self, *, plans: Plans, element_size: Any, **batch: Any) -> dict[str, Any]:
        return {
            "plans": {str(number): plan for number, plan in enumerate(plans.values())},
            "element_size": {str(at): element_size[name] for at, name in enumerate(plans)},
        }


class IgnoresOrder(FaultyDigest):
    def changed(self, *, plans: Plans, **batch: Any) -> dict[str, Any]:
        return {"plans": dict(sorted(plans.items()))}


class FaultyPlanDigest(FaultyDigest):
    """Computes the digest of other plans."""

    def changed(self, *, plans: Plans, **batch: Any) -> dict[str, Any]:
        return {"plans": {name: self.changed_plan(plan) for name, plan in plans.items()}}

    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        raise NotImplementedError


class IgnoresLogicalShape(FaultyPlanDigest):
    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, logical_shape=())


class IgnoresSourceSizes(FaultyPlanDigest):
    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, source_sizes=None)


class TakesAbsentSizesForNone(FaultyPlanDigest):
    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, target_sizes=plan.target_sizes or ())


class IgnoresSegmentOrder(FaultyPlanDigest):
    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, segments=tuple(sorted(plan.segments, key=repr)))


class FaultySegmentDigest(FaultyPlanDigest):
    """Computes the digest of plans that lack one field of their segments."""

    field: str

    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, segments=tuple(map(self.changed_segment, plan.segments)))

    def changed_segment(self, segment: TransferSegment) -> TransferSegment:
        value = getattr(segment, self.field)
        nothing: Any = 0 if isinstance(value, int) else ()
        return replace(segment, **{self.field: nothing})


class IgnoresSourceOffsets(FaultySegmentDigest):
    field = "source_offset"


class IgnoresTargetStrides(FaultySegmentDigest):
    field = "target_strides"


class IgnoresTargetLocations(FaultySegmentDigest):
    field = "target_location"


class IgnoresShapes(FaultySegmentDigest):
    field = "shape"


class HashedDigest(Reference):
    """F38: depends on the string-hash seed, which forked ranks share."""

    def plan_digest(self, *args: Any, **options: Any) -> str:
        return str(hash(super().plan_digest(*args, **options)))


class RankedDigest(Reference):
    def plan_digest(self, *args: Any, **options: Any) -> str:
        return f"{super().plan_digest(*args, **options)}-{dist.get_rank()}"


class CountingDigest(Reference):
    def __init__(self) -> None:
        self._calls = count()

    def plan_digest(self, *args: Any, **options: Any) -> str:
        return f"{super().plan_digest(*args, **options)}-{next(self._calls)}"


class DigestOfObjects(Reference):
    """Of where the plans happen to be in memory."""

    def plan_digest(self, plans: Plans, *args: Any, **options: Any) -> str:
        places = str([id(plan) for plan in plans.values()])
        return hashlib.sha256(places.encode()).hexdigest()


class KeepsTheOrderOfFilling(Reference):
    """Its endpoints keep the order in which they were filled, and its digest shows it."""

    def start(self, group: Any) -> None:
        self._sorting = vars(values)["pairs_by_location"]
        vars(values)["pairs_by_location"] = lambda pairs, _: tuple(
            pairs.items() if isinstance(pairs, Mapping) else pairs
        )

    def stop(self) -> None:
        vars(values)["pairs_by_location"] = self._sorting

    def plan_digest(self, plans: Plans, endpoints: TransferEndpoints, **options: Any) -> str:
        digest = super().plan_digest(plans, endpoints, **options)
        return hashlib.sha256(f"{digest} {endpoints}".encode()).hexdigest()
