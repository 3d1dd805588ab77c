"""What the faulty implementations share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NoReturn

import torch

from pytest_affine.plans import (
    TransferPlan,
    TransferStats,
)

Plans = Mapping[str, TransferPlan]
Buffers = dict[str, dict[int, torch.Tensor]]

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
