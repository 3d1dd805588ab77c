"""What the faults share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.plans import TransferPlan, TransferSegment, TransferStats

if TYPE_CHECKING:
    import torch

Plans: TypeAlias = Mapping[str, TransferPlan]
Buffers: TypeAlias = "dict[str, dict[int, torch.Tensor]]"

NOTHING = TransferStats(
    segments=0, chunks=0, rounds=0, local_copy_bytes=0, sent_bytes=0, received_bytes=0
)


def raise_type_error() -> NoReturn:
    """Raise from another file, as a resharder behind an adapter does."""
    nothing: Any = None
    raise AssertionError(f"no error from {Fraction(nothing, nothing)}")


def each(buffers: Buffers) -> Iterator[torch.Tensor]:
    """Every tensor of one side."""
    for by_location in buffers.values():
        yield from by_location.values()


def changed_tensors(buffers: Buffers, change: Callable[[torch.Tensor], torch.Tensor]) -> Buffers:
    """The buffers of one side with every tensor changed."""
    return {
        name: {location: change(tensor) for location, tensor in by_location.items()}
        for name, by_location in buffers.items()
    }


def with_pieces(
    map_: ParamAffineMap, change: Callable[[int, AffinePiece], AffinePiece]
) -> ParamAffineMap:
    """The map with every piece changed, given its location."""
    pieces = tuple(
        (location, tuple(change(location, piece) for piece in held))
        for location, held in map_.pieces_by_location
    )
    return replace(map_, pieces_by_location=pieces)


def unscaled(location: int, piece: AffinePiece) -> AffinePiece:
    """The piece with a scale of 1."""
    return replace(piece, scale=1.0)


def with_segments(plan: TransferPlan, segments: Iterable[TransferSegment]) -> TransferPlan:
    """The plan with other segments, which it counts."""
    kept = tuple(segments)
    return replace(plan, segments=kept, moved_elements=sum(s.num_elements for s in kept))


def changed_segments(
    plans: Plans, change: Callable[[TransferSegment], TransferSegment]
) -> dict[str, TransferPlan]:
    """The plans with every segment changed, and nothing else."""
    return {
        name: replace(plan, segments=tuple(map(change, plan.segments)))
        for name, plan in plans.items()
    }
