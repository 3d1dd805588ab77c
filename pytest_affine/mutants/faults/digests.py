"""Digests with one fault each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch.distributed as dist

from pytest_affine import plans as values
from pytest_affine.contract.implementation import Implementation
from pytest_affine.mutants.faults.parts import Plans
from pytest_affine.plans import (
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferSegment,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class FaultyDigest(Implementation):
    """Computes the digest of another batch, where nothing is cast."""

    def plan_digest(
        self,
        plans: Plans,
        endpoints: TransferEndpoints,
        *,
        element_size: Any,
        budget: StagingBudget,
        **options: Any,
    ) -> str:
        sizes = element_size
        if not isinstance(element_size, Mapping):
            sizes = dict.fromkeys(plans, element_size)
        batch: dict[str, Any] = {
            "plans": plans,
            "endpoints": endpoints,
            "element_size": sizes,
            "budget": budget,
        }
        if not options.get("cast"):
            batch.update(self.changed(**batch))
        return super().plan_digest(
            batch["plans"],
            batch["endpoints"],
            element_size=batch["element_size"],
            budget=batch["budget"],
            **options,
        )

    def changed(self, *_: Any, **batch: Any) -> dict[str, Any]:
        raise NotImplementedError


class IgnoresTheBudget(FaultyDigest):
    """Leaves the budget out of the digest."""

    def changed(self, **batch: Any) -> dict[str, Any]:
        return {"budget": StagingBudget()}


class IgnoresElementSizes(FaultyDigest):
    """Leaves element sizes out of the digest."""

    def changed(self, *, element_size: Any, **batch: Any) -> dict[str, Any]:
        return {"element_size": dict.fromkeys(element_size, 1)}


class IgnoresElementSizesButTheFirst(FaultyDigest):
    """Takes the element size of the first parameter for that of all in the digest."""

    def changed(self, *, element_size: Any, **batch: Any) -> dict[str, Any]:
        first = next(iter(element_size.values()), 1)
        return {"element_size": dict.fromkeys(element_size, first)}


class IgnoresSourceEndpoints(FaultyDigest):
    """Leaves the endpoints of sources out of the digest."""

    def changed(self, *, endpoints: TransferEndpoints, **batch: Any) -> dict[str, Any]:
        return {"endpoints": TransferEndpoints({}, endpoints.target)}


class IgnoresTargetEndpoints(FaultyDigest):
    """Leaves the endpoints of targets out of the digest."""

    def changed(self, *, endpoints: TransferEndpoints, **batch: Any) -> dict[str, Any]:
        return {"endpoints": TransferEndpoints(endpoints.source, {})}


class IgnoresNames(FaultyDigest):
    """Leaves the names of parameters out of the digest."""

    def changed(self, *, plans: Plans, element_size: Any, **batch: Any) -> dict[str, Any]:
        return {
            "plans": {str(number): plan for number, plan in enumerate(plans.values())},
            "element_size": {str(at): element_size[name] for at, name in enumerate(plans)},
        }


class IgnoresTheOrderOfParameters(FaultyDigest):
    """Leaves the order of parameters out of the digest."""

    def changed(self, *, plans: Plans, **batch: Any) -> dict[str, Any]:
        return {"plans": dict(sorted(plans.items()))}


class IgnoresWhoseSegmentsAre(FaultyDigest):
    """Leaves out of the digest where the segments of one parameter end and of the next begin."""

    def changed(self, *, plans: Plans, **batch: Any) -> dict[str, Any]:
        together = tuple(segment for plan in plans.values() for segment in plan.segments)
        names = [*plans]
        return {
            "plans": {
                name: replace(plan, segments=together if name == names[0] else (), moved_elements=0)
                for name, plan in plans.items()
            }
        }


class FaultyPlanDigest(FaultyDigest):
    """Computes the digest of other plans."""

    def changed(self, *, plans: Plans, **batch: Any) -> dict[str, Any]:
        return {"plans": {name: self.changed_plan(plan) for name, plan in plans.items()}}

    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        raise NotImplementedError


class IgnoresLogicalShapes(FaultyPlanDigest):
    """Leaves logical shapes out of the digest."""

    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, logical_shape=())


class IgnoresSourceSizes(FaultyPlanDigest):
    """Leaves the sizes of source shards out of the digest."""

    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, source_sizes=None)


class IgnoresTargetSizes(FaultyPlanDigest):
    """Leaves the sizes of target shards out of the digest."""

    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, target_sizes=None)


class TakesAbsentSizesForNone(FaultyPlanDigest):
    """Has one digest for absent sizes and for no sizes."""

    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, target_sizes=plan.target_sizes or ())


class IgnoresTheOrderOfSegments(FaultyPlanDigest):
    """Leaves the order of segments out of the digest."""

    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, segments=tuple(sorted(plan.segments, key=repr)))


class FaultySegmentDigest(FaultyPlanDigest):
    """Computes the digest of plans that lack one field of their segments."""

    field: str

    def changed_plan(self, plan: TransferPlan) -> TransferPlan:
        return replace(plan, segments=tuple(map(self.changed_segment, plan.segments)))

    def changed_segment(self, segment: TransferSegment) -> TransferSegment:
        value = getattr(segment, self.field)
        nothing: Any = 0 if isinstance(value, int) else (1,) * len(value)
        return replace(segment, **{self.field: nothing})


class IgnoresSourceLocations(FaultySegmentDigest):
    """Leaves the source locations of segments out of the digest."""

    field = "source_location"


class IgnoresSourceOffsets(FaultySegmentDigest):
    """Leaves the source offsets of segments out of the digest."""

    field = "source_offset"


class IgnoresSourceStrides(FaultySegmentDigest):
    """Leaves the source strides of segments out of the digest."""

    field = "source_strides"


class IgnoresTargetLocations(FaultySegmentDigest):
    """Leaves the target locations of segments out of the digest."""

    field = "target_location"


class IgnoresTargetOffsets(FaultySegmentDigest):
    """Leaves the target offsets of segments out of the digest."""

    field = "target_offset"


class IgnoresTargetStrides(FaultySegmentDigest):
    """Leaves the target strides of segments out of the digest."""

    field = "target_strides"


class IgnoresShapes(FaultySegmentDigest):
    """Leaves the shapes of segments out of the digest."""

    field = "shape"


class DependsOnHashes(Implementation):
    """Has a digest that depends on the string-hash seed, which forked ranks share."""

    def plan_digest(self, *args: Any, **options: Any) -> str:
        return str(hash(super().plan_digest(*args, **options)))


class DependsOnTheRank(Implementation):
    """Has a digest of its own on every rank."""

    def plan_digest(self, *args: Any, **options: Any) -> str:
        rank = dist.get_rank() if dist.is_initialized() else 0
        return f"{super().plan_digest(*args, **options)}-{rank}"


class CountsItsDigests(Implementation):
    """Has another digest every time."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = count()

    def plan_digest(self, *args: Any, **options: Any) -> str:
        return f"{super().plan_digest(*args, **options)}-{next(self._calls)}"


class DependsOnPlacesInMemory(Implementation):
    """Has a digest of where the plans happen to be in memory."""

    def plan_digest(self, plans: Plans, *args: Any, **options: Any) -> str:
        places = str([id(plan) for plan in plans.values()])
        return hashlib.sha256(places.encode()).hexdigest()


class KeepsTheOrderOfFilling(Implementation):
    """Has endpoints that keep the order in which they were filled, and a digest that shows it."""

    def start(self, group: ProcessGroup) -> None:
        super().start(group)
        self._patch = patch.object(values, "pairs_by_location", in_order_of_filling)
        self._patch.start()

    def stop(self) -> None:
        self._patch.stop()
        super().stop()

    def plan_digest(self, plans: Plans, endpoints: TransferEndpoints, **options: Any) -> str:
        digest = super().plan_digest(plans, endpoints, **options)
        return hashlib.sha256(f"{digest} {endpoints}".encode()).hexdigest()


def in_order_of_filling(pairs: Any, what: str) -> tuple[tuple[int, Any], ...]:
    """Pairs by location as they come."""
    return tuple(pairs.items() if isinstance(pairs, Mapping) else pairs)
