"""From a source map and a target map to the copies between their shards.

A holder is chosen for every region that a target needs; what is read from it becomes copies, and
copies that continue each other are merged. Nothing here looks at single elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_affine.errors import AffineTransferError, InvalidReplicaPolicyError
from pytest_affine.geometry import PlacedBox, overlap
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import (
    PlanBudget,
    PlanStatistics,
    ReplicaPart,
    ReplicaRequest,
    ReplicaSelector,
    TransferEndpoints,
    TransferPlan,
)
from pytest_affine.reference.batch import bound_processes
from pytest_affine.reference.limits import check_limit
from pytest_affine.reference.merging import Copy, copy_box, merge_copies
from pytest_affine.reference.regions import PlanDraft, Region, draft_plan
from pytest_affine.sync import canonical_json

__all__ = ["finish_plan", "plan_transfer", "region_request"]


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
    draft = draft_plan(source, target, limits)
    choices = []
    for region in draft.regions:
        holder = region.holders[0]
        if replica_selector is not None and len(region.holders) > 1:
            holder = _selected(region_request(region, endpoints), replica_selector)
        choices.append((ReplicaPart(holder, region.target.origin, region.target.shape),))
    return finish_plan(draft, choices)


def region_request(
    region: Region,
    endpoints: TransferEndpoints | None,
    *,
    parameter: str | None = None,
    element_size: int = 1,
) -> ReplicaRequest:
    """What a selector or policy is asked about one region.

    Raises:
        AffineTransferError: `endpoints` names no process for one of the region's locations.
    """
    target_process, holder_processes = None, None
    if endpoints is not None:
        sources, targets = bound_processes(endpoints)
        (target_process,) = _processes("target", targets, (region.target_location,))
        holder_processes = _processes("source", sources, region.holders)
    return ReplicaRequest(
        parameter=parameter,
        target_location=region.target_location,
        logical_origin=region.target.origin,
        shape=region.target.shape,
        holders=region.holders,
        element_size=element_size,
        num_bytes=math.prod(region.target.shape) * element_size,
        target_process=target_process,
        holder_processes=holder_processes,
    )


def _processes(
    side: str, processes: Mapping[int, int], locations: Sequence[int]
) -> tuple[int, ...]:
    if unbound := [location for location in locations if location not in processes]:
        raise AffineTransferError(
            f"endpoints.{side} names no process for locations {unbound}; "
            f"those bound: {sorted(processes)}"
        )
    return tuple(processes[location] for location in locations)


def _selected(request: ReplicaRequest, selector: ReplicaSelector) -> int:
    answer: object = selector(request)
    if isinstance(answer, int) and not isinstance(answer, bool) and answer in request.holders:
        return answer
    raise InvalidReplicaPolicyError(
        f"the selector answered {answer!r} for the region at {request.logical_origin} of shape "
        f"{request.shape} that target location {request.target_location} needs; "
        f"it must be one of its holders, {request.holders}"
    )


def finish_plan(draft: PlanDraft, parts: Iterable[Sequence[ReplicaPart]]) -> TransferPlan:
    """Turn the choice of holders into a plan.

    Args:
        draft: what `draft_plan` found.
        parts: for every region of the draft, the parts that tile it, each read from a holder.

    Raises:
        PlanLimitError: planning takes more than the draft's limits allow.
    """
    limits = draft.limits
    copies, pair_checks = _copies(draft, parts)
    merged = merge_copies(copies, limits)
    check_limit(limits, "max_segments", len(merged))
    plan = TransferPlan(
        segments=tuple(copy.to_segment() for copy in merged),
        logical_shape=draft.source.logical_shape,
        source_sizes=_sizes(draft.source),
        target_sizes=_sizes(draft.target),
        moved_elements=sum(math.prod(region.target.shape) for region in draft.regions),
    )
    statistics = PlanStatistics(
        source_pieces=_num_pieces(draft.source),
        target_pieces=_num_pieces(draft.target),
        pair_checks=pair_checks,
        segments_before_merge=len(copies),
        segments=len(merged),
        plan_bytes=_json_bytes(plan, limits),
    )
    return replace(plan, statistics=statistics)


def _copies(draft: PlanDraft, parts: Iterable[Sequence[ReplicaPart]]) -> tuple[list[Copy], int]:
    copies: list[Copy] = []
    pair_checks = draft.pair_checks
    for region, region_parts in zip(draft.regions, parts, strict=True):
        for part in region_parts:
            location = part.source_location
            # Replicas may be cut elsewhere than the holder whose box the region is from.
            first = location == region.holders[0]
            boxes = (region.source,) if first else draft.source_boxes[location]
            pair_checks += len(boxes)
            check_limit(draft.limits, "max_pair_checks", pair_checks)
            copies += _part_copies(region, part, boxes)
    return copies, pair_checks


def _part_copies(region: Region, part: ReplicaPart, boxes: Iterable[PlacedBox]) -> Iterator[Copy]:
    wanted = region.target.cut(tuple(part.logical_origin), tuple(part.shape))
    for box in boxes:
        if shared := overlap(wanted, box):
            yield copy_box(
                part.source_location,
                box.cut(*shared),
                region.target_location,
                wanted.cut(*shared),
            )


def _sizes(map_: ParamAffineMap) -> tuple[tuple[int, int], ...]:
    return tuple((location, math.prod(shape)) for location, shape in map_.shard_shapes)


def _num_pieces(map_: ParamAffineMap) -> int:
    return sum(len(pieces) for _, pieces in map_.pieces_by_location)


def _json_bytes(plan: TransferPlan, limits: PlanBudget) -> int:
    """Length of the plan's canonical JSON, written one segment at a time."""
    num_bytes = len(canonical_json(replace(plan, segments=()).to_dict()))
    for index, segment in enumerate(plan.segments):
        num_bytes += len(canonical_json(segment.to_dict())) + (index > 0)
        check_limit(limits, "max_plan_bytes", num_bytes)
    return num_bytes
