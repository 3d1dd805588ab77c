"""DeepSpeed's affine maps and its transfer planner, as an implementation of the contract.

Values are translated one to one, and errors by kind. DeepSpeed says rank for location; a piece's
`source` is its full side there and its `dest` the shard side. What it lacks is not claimed:
endpoints, envelopes, and everything behind the plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple
from importlib import metadata
from math import prod
from typing import Any

from deepspeed.checkpoint import affine, affine_transfer  # type: ignore[import-not-found, import-untyped, unused-ignore]

from pytest_affine import errors
from pytest_affine.contract.implementation import Implementation
from pytest_affine.maps import AffinePiece, ParamAffineMap, maps_from_dict
from pytest_affine.plans import (
    PlanBudget,
    PlanStatistics,
    ReplicaRequest,
    ReplicaSelector,
    TransferPlan,
    TransferSegment,
)
from pytest_affine.sync import Sync
from pytest_affine.values import integers, json_field

__all__ = ["MAX_WALKED", "DeepSpeed", "read_checkpoint_maps"]

MAX_WALKED = 2**20
"""Above so many elements `validate_coverage`, which visits each of them, is not asked."""

ARGUMENTS = {
    "replicated_map": {"num_locations": "tp_degree"},
    "contiguous_split_map": {"widths": "per_rank_sizes", "dim": "partition_dim"},
    "sub_param_map": {
        "block_sizes": "sub_dim_sizes",
        "widths_by_block": "shard_widths",
        "dim": "partition_dim",
    },
    "segmented_map": {
        "dim": "partition_dim",
        "num_locations": "tp_degree",
        "widths_by_split_block": "split_widths",
    },
    "block_gather_map": {"block_ids_by_location": "block_ids_by_rank", "dim": "partition_dim"},
}
"""DeepSpeed's builders, and its names of the arguments that are called otherwise there."""

NO_PADDING = "DeepSpeed's maps have no padding"


class DeepSpeed(Implementation):
    """DeepSpeed's own maps, builders and planner; nothing is checked or repaired for it."""

    version = metadata.version("deepspeed")
    distribution = "deepspeed"

    def supports(self, sync: Sync) -> str | None:
        """Withhold syncs with padding, which its maps can't express."""
        maps = (map_ for p in sync.parameters for map_ in (p.source, p.target))
        return NO_PADDING if any(map_.padding_by_location for map_ in maps) else None

    def build_map(self, builder: str, **arguments: Any) -> ParamAffineMap:
        """Build with its builder of that name; a `ValueError` is its refusal."""
        if builder not in ARGUMENTS:
            known = ", ".join(ARGUMENTS)
            raise errors.UnsupportedLayoutError(f"DeepSpeed has no {builder}; it has {known}")
        renamed = {ARGUMENTS[builder].get(key, key): value for key, value in arguments.items()}
        with refusals(ValueError):
            return from_deepspeed(getattr(affine, builder)(**renamed))

    def check_map(self, map_: ParamAffineMap) -> None:
        """Ask `validate_coverage`, which it documents as the full check, up to `MAX_WALKED`."""
        held = sum(piece.num_elements for _, pieces in map_.pieces_by_location for piece in pieces)
        if (num_elements := max(held, map_.num_elements)) > MAX_WALKED:
            raise errors.UnsupportedLayoutError(
                f"DeepSpeed's validate_coverage visits every element; of {num_elements} it is not "
                f"asked, of up to {MAX_WALKED} it is"
            )
        with refusals(ValueError, AssertionError):
            to_deepspeed(map_).validate_coverage()

    def extract(self, map_: ParamAffineMap, full: Any, location: int) -> Any:
        """Extract a shard."""
        return to_deepspeed(map_).extract(full, location)

    def rebuild(self, map_: ParamAffineMap, shards: Any) -> Any:
        """Rebuild the full tensor; a `ValueError` is its refusal of the map or the shards."""
        with refusals(ValueError):
            return to_deepspeed(map_).rebuild(shards)

    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        """Write a map, which has integers as keys of its ranks."""
        entry: dict[str, Any] = to_deepspeed(map_).to_dict()
        return entry

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        """Read a map; a `ValueError` is its refusal."""
        with refusals(ValueError):
            return from_deepspeed(affine.ParamAffineMap.from_dict(entry))

    def plan_transfer(  # type: ignore[override]  # it has no endpoints
        self,
        source: ParamAffineMap,
        target: ParamAffineMap,
        *,
        limits: PlanBudget = PlanBudget(),  # noqa: B008 - frozen
        replica_selector: ReplicaSelector | None = None,
    ) -> TransferPlan:
        """Plan one parameter; its plans say nothing of shard sizes."""
        ask = None if replica_selector is None else _asking(replica_selector)
        with refusals():
            plan = affine_transfer.plan_transfer(
                to_deepspeed(target),
                to_deepspeed(source),
                affine_transfer.PlanBudget(**asdict(limits)),
                replica_selector=ask,
            )
        segments = tuple(map(_our_segment, plan.segments))
        statistics = PlanStatistics(**asdict(plan.statistics))
        return TransferPlan(
            segments, plan.logical_shape, None, None, plan.moved_elements, statistics
        )

    def plan_to_dict(self, plan: TransferPlan) -> dict[str, Any]:
        """Write a plan."""
        # Both list a segment's fields in the same order.
        segments = tuple(affine_transfer.TransferSegment(*astuple(s)) for s in plan.segments)
        theirs = affine_transfer.TransferPlan(
            segments, plan.logical_shape, plan.moved_elements, plan.statistics
        )
        entry: dict[str, Any] = theirs.to_dict()
        return entry

    def plan_from_dict(self, entry: Any) -> TransferPlan:
        """Read a plan: DeepSpeed reads its segments, and has no reader of what is around them."""
        read = affine_transfer.TransferSegment.from_dict
        entries = json_field(entry, "segments", list, "plan")
        segments = tuple(_our_segment(read(segment)) for segment in entries)
        shape = integers(json_field(entry, "logical_shape", list, "plan"), "plan.logical_shape")
        return TransferPlan(segments, shape, None, None, sum(s.num_elements for s in segments))


@contextmanager
def refusals(*kinds: type[Exception]) -> Iterator[None]:
    """Raise what DeepSpeed refuses with as the contract's error of the same name.

    `kinds` are what else a call refuses with; those become `InvalidMapError`.
    """
    try:
        yield
    except (affine_transfer.AffineTransferError, *kinds) as refusal:
        kind = getattr(errors, type(refusal).__name__, errors.InvalidMapError)
        raise kind(str(refusal)) from refusal


def to_deepspeed(map_: ParamAffineMap) -> Any:
    """The map as DeepSpeed's `ParamAffineMap`; `UnsupportedLayoutError` where it has padding."""
    if map_.padding_by_location:
        raise errors.UnsupportedLayoutError(NO_PADDING)
    # Both list a piece's fields in the same order.
    with refusals(ValueError):
        pieces = {
            location: [affine.AffinePiece(*astuple(piece)) for piece in held]
            for location, held in map_.pieces_by_location
        }
    return affine.ParamAffineMap(map_.logical_shape, dict(map_.shard_shapes), pieces)


def from_deepspeed(map_: Any) -> ParamAffineMap:
    """DeepSpeed's `ParamAffineMap` as a map."""
    pieces = {
        rank: [
            AffinePiece(
                piece.shape,
                piece.source_offset,
                piece.source_strides,
                piece.dest_offset,
                piece.dest_strides,
                tuple(piece.locations),
                piece.scale,
            )
            for piece in held
        ]
        for rank, held in map_.pieces_by_rank.items()
    }
    return ParamAffineMap(map_.logical_shape, map_.shard_shapes, pieces)


def _our_segment(segment: Any) -> TransferSegment:
    return TransferSegment(
        source_location=segment.source_rank,
        source_offset=segment.source_offset,
        source_strides=segment.source_strides,
        target_location=segment.target_rank,
        target_offset=segment.target_offset,
        target_strides=segment.target_strides,
        shape=segment.shape,
    )


def _asking(selector: ReplicaSelector) -> Callable[[Any], int]:
    """A selector of DeepSpeed's that asks one of ours, and hands its answer on as it is."""

    def ask(request: Any) -> int:
        return selector(
            ReplicaRequest(
                parameter=None,
                target_location=request.target_rank,
                logical_origin=request.logical_origin,
                shape=request.shape,
                holders=tuple(candidate.source_rank for candidate in request.candidates),
                element_size=1,
                num_bytes=prod(request.shape),
            )
        )

    return ask


def read_checkpoint_maps(path: str | os.PathLike[str]) -> dict[str, ParamAffineMap]:
    """The maps in a file that DeepSpeed's engine saved, by regular expressions for their names.

    Args:
        path: a `mp_rank_XX_model_states.pt`. It is read without running code that it may hold,
            and its tensors are left on disk.

    Raises:
        InvalidMapError: no `universal_checkpoint_info` or no `affine_map` in it, an unknown
            version, or a bad map; the message names the key.
        pickle.UnpicklingError: the file holds more than tensors and plain values, as DeepSpeed's
            optimizer states do.
    """
    import torch

    state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    info: Any = json_field(state, "universal_checkpoint_info", dict, "the checkpoint")
    return maps_from_dict(
        json_field(info, "affine_map", dict, "the checkpoint's universal_checkpoint_info")
    )
