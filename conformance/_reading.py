"""Which elements a region has, and which holder each element of a plan is read from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from pytest_affine import truth
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferPlan

__all__ = ["assert_read_from", "elements_of_box"]


def elements_of_box(
    origin: Sequence[int], shape: Sequence[int], logical_shape: Sequence[int]
) -> Iterator[int]:
    """The logical elements (row-major) of a box of the full tensor."""
    strides = row_major_strides(logical_shape)
    return _addresses(_dot(origin, strides), strides, shape)


def assert_read_from(
    plan: TransferPlan,
    source: ParamAffineMap,
    named: Mapping[tuple[int, int], int],
    chooser: str,
) -> None:
    """Fail if an element of several holders is read from another than the one named for it.

    Args:
        plan: an exact plan.
        source: the map of the shards that it reads.
        named: by target location and logical element, a holder.
        chooser: who named it.
    """
    holders = truth.holders(source)
    for segment in plan.segments:
        location, held = segment.source_location, truth.element_at(source, segment.source_location)
        for at in _addresses(segment.source_offset, segment.source_strides, segment.shape):
            element = held[at]
            assert element is not None
            right = named.get((segment.target_location, element))
            assert len(holders[element]) == 1 or location == right, (
                f"element {element} of target location {segment.target_location} is read from "
                f"location {location}, the {chooser} named {right}"
            )


def _addresses(offset: int, strides: Sequence[int], shape: Sequence[int]) -> Iterator[int]:
    """The address of every element of a block."""
    return (offset + _dot(index, strides) for index in itertools.product(*map(range, shape)))


def _dot(index: Sequence[int], strides: Sequence[int]) -> int:
    # Not strict: a request that has not the tensor's axes names other elements, and shows by that.
    return sum(position * stride for position, stride in zip(index, strides, strict=False))
