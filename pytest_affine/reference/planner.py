"""From a source map and a target map to the copies between their shards.

1. Each map is validated on its own, and its pieces become boxes of the full tensor (`proof`).
2. Each target box is cut with the source boxes that an index finds (`box_index`); the parts are the
   regions (`regions`), and a holder is chosen for every one of them.
3. What is read from it becomes copies between shards (`copies`).
4. Copies that continue each other on both sides are joined (`merging`), and the rest is written
   down as segments (`writing`).

Every step takes time in proportion to what goes in and comes out, the sorting in 1 and 2 aside: for
n pieces and regions O(n log n), where comparing all pairs takes O(n^2). Nothing looks at single
elements: numbers are exact integers, and how large they are makes no difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pytest_affine.errors import InvalidReplicaPolicyError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import (
    PlanBudget,
    PlanStatistics,
    ReplicaPart,
    ReplicaRequest,
    ReplicaSelector,
    Sizes,
    TransferEndpoints,
    TransferPlan,
)
from pytest_affine.reference.copies import copies_of_first, copies_of_parts
from pytest_affine.reference.limits import check_limit
from pytest_affine.reference.merging import merge_copies
from pytest_affine.reference.regions import PlanDraft, draft_plan, prepare_map
from pytest_affine.reference.requests import Processes, region_request
from pytest_affine.reference.writing import json_bytes, to_segments, unchecked

__all__ = ["finish_plan", "plan_transfer"]


def plan_transfer(
    source: ParamAffineMap,
    target: ParamAffineMap,
    *,
    endpoints: TransferEndpoints | None = None,
    limits: PlanBudget = PlanBudget(),  # noqa: B008 (frozen)
    replica_selector: ReplicaSelector | None = None,
) -> TransferPlan:
    """Plan the copies that turn source shards into target shards; pure, the same on every rank.

    Args:
        source: how the shards that are read lie in the full tensor.
        target: how the shards that are written lie in it.
        endpoints: processes to tell the selector; no part of the plan.
        limits: what planning may take.
        replica_selector: names the holder of every region that has more than one, given a request
            in elements (`element_size` 1); without one the lowest location is read.

    Raises:
        InvalidMapError: a map breaks its rules, or the logical shapes differ.
        UnsupportedLayoutError: a piece is no box or interval of the full tensor, or source and
            target scale differ.
        InvalidReplicaPolicyError: the selector's answer is no holder of the region.
        PlanLimitError: planning takes more than `limits` allows.
        AffineTransferError: `endpoints` lacks a location that a request names.
    """
    draft = draft_plan(
        prepare_map("source", source, limits), prepare_map("target", target, limits), limits
    )
    if replica_selector is None:
        return finish_plan(draft, None)
    processes = Processes(endpoints)
    choices = []
    for region in draft.regions:
        holder = region.holders[0]
        if len(region.holders) > 1:
            request = region_request(processes.bind(region))
            holder = _selected(request, replica_selector)
        choices.append((ReplicaPart(holder, region.origin, region.shape),))
    return finish_plan(draft, choices)


def _selected(request: ReplicaRequest, selector: ReplicaSelector) -> int:
    answer: object = selector(request)
    if isinstance(answer, int) and not isinstance(answer, bool) and answer in request.holders:
        return answer
    raise InvalidReplicaPolicyError(
        f"the selector answered {answer!r} for the region at {request.logical_origin} of shape "
        f"{request.shape} that target location {request.target_location} needs; "
        f"it must be one of its holders, {request.holders}"
    )


def finish_plan(draft: PlanDraft, parts: Iterable[Sequence[ReplicaPart]] | None) -> TransferPlan:
    """Turn the choice of holders into a plan.

    Args:
        draft: what `draft_plan` found.
        parts: for every region of the draft, the parts that tile it, each read from a holder; None
            to read every region from its first holder.

    Raises:
        PlanLimitError: planning takes more than the draft's limits allow.
    """
    if parts is None:
        copies, pair_checks = copies_of_first(draft)
    else:
        copies, pair_checks = copies_of_parts(draft, parts)
    merged = merge_copies(copies, draft.limits)
    check_limit(draft.limits, "max_segments", len(merged))
    source, target = draft.source.map_, draft.target.map_
    sizes = _sizes(source), _sizes(target)
    statistics = PlanStatistics(
        source_pieces=_num_pieces(source),
        target_pieces=_num_pieces(target),
        pair_checks=pair_checks,
        segments_before_merge=len(copies),
        segments=len(merged),
        plan_bytes=json_bytes(merged, source.logical_shape, sizes, draft.limits),
    )
    fields = to_segments(merged), source.logical_shape, *sizes, _num_needed(target), statistics
    return unchecked(TransferPlan, *fields)


def _sizes(map_: ParamAffineMap) -> Sizes:
    return tuple((location, math.prod(shape)) for location, shape in map_.shard_shapes)


def _num_needed(target: ParamAffineMap) -> int:
    """Elements of all target shards that are not padding, each of which is written once."""
    padding = [block.num_elements for _, blocks in target.padding_by_location for block in blocks]
    return sum(math.prod(shape) for _, shape in target.shard_shapes) - sum(padding)


def _num_pieces(map_: ParamAffineMap) -> int:
    return sum(len(pieces) for _, pieces in map_.pieces_by_location)
