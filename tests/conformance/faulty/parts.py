"""What the faulty implementations share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.plans import (
    TransferPlan,
    TransferStats,
)

if TYPE_CHECKING:
    import torch

Plans = Mapping[str, TransferPlan]
Buffers: TypeAlias = "dict[str, dict[int, torch.Tensor]]"

NOTHING = TransferStats(
    segments=0, chunks=0, rounds=0, local_copy_bytes=0, sent_bytes=0, received_bytes=0
)


def raise_type_error() -> NoReturn:
    """Raise from another file, as a resharder behind an adapter does."""
    nothing: Any = None
    raise AssertionError(f"no error from {Fraction(nothing, nothing)}")


def each(buffers: Buffers) -> Iterator[torch.Tensor]:
    for by_location in buffers.values():
        yield from by_location.values()


def changed_tensors(buffers: Buffers, change: Callable[[torch.Tensor], torch.Tensor]) -> Buffers:
    return {
        name: {location: change(tensor) for location, tensor in by_location.items()}
        for name, by_location in buffers.items()
    }


def with_pieces(
    map_: ParamAffineMap, change: Callable[[int, AffinePiece], AffinePiece]
) -> ParamAffineMap:
    """The map with every piece changed, given its location."""
    pieces = {
        location: [change(location, piece) for piece in held]
        for location, held in map_.pieces_by_location
    }
    return replace(map_, pieces_by_location=pieces)  # type: ignore[arg-type]  # takes a mapping too


def unscaled(location: int, piece: AffinePiece) -> AffinePiece:
    return replace(piece, scale=1.0)
