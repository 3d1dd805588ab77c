"""MAP-INV and MAP-REPLICA: shards cut out of a full tensor and put together again.

What runs in rank 0 sees tensors and comes back as text: nothing, or what was wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_affine import strategies, truth
from pytest_affine.conformance._contents import element_bytes
from pytest_affine.conformance._judging import assert_refused, distinct_maps
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.errors import AffineTransferError
from pytest_affine.fixtures.syncs import CORE, EVERYDAY, HOLDERS, STRIDED
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import ParamAffineMap

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "int64", "bool", "complex64")


def round_trip_problems(
    resident: Resident, map_: ParamAffineMap, dtype: str, scale: float, place: str
) -> list[str]:
    """What is wrong with the shards that are extracted, and with what is rebuilt from them.

    `place` says where the tensors lie that the implementation is given, by a key of `PLACES`.
    """
    full = _values(map_.num_elements, dtype, scale).view(map_.logical_shape)
    problems, shards = [], {}
    for location in map_.locations:
        shard = resident.extract(map_, _placed(full, place), location)
        shape, elements = map_.shard_shape(location), truth.element_at(map_, location)
        if shard.shape != shape:
            problems.append(f"the shard of location {location} has the shape {tuple(shard.shape)}")
        if not _same_bits(_held(shard, elements), _wanted(full, elements, scale)):
            problems.append(f"the shard of location {location} in {dtype} holds other elements")
        shards[location] = _placed(shard, place)
    rebuilt = resident.rebuild(map_, shards)
    if rebuilt.shape != full.shape or not _same_bits(rebuilt.reshape(-1), full.reshape(-1)):
        problems.append(f"rebuilding from extracted shards in {dtype} gives {rebuilt}, not {full}")
    return problems


PLACES = {
    "packed": "tensors of their own",
    "window": "windows that begin inside a larger tensor (F44)",
    "spread": "tensors whose elements are apart in memory",
}
"""Where tensors can lie."""


def _placed(tensor: torch.Tensor, place: str) -> torch.Tensor:
    """A tensor with the same elements, placed so."""
    if place == "packed":
        return tensor
    # Code that copies what begins inside its storage still meets the other kind as it is.
    step, start = (1, 3) if place == "window" else (2, 0)
    larger = tensor.new_ones(start + tensor.numel() * step)
    strides = tuple(stride * step for stride in row_major_strides(tensor.shape))
    placed = larger.as_strided(tensor.shape, strides, start)
    return placed.copy_(tensor)


def _values(num_elements: int, dtype: str, scale: float) -> torch.Tensor:
    """Bits of every kind, or, where they are scaled, values that survive powers of two."""
    import torch

    counts, kind = range(1, num_elements + 1), getattr(torch, dtype)
    if scale != 1:
        return torch.tensor([count % 251 for count in counts], dtype=kind)
    # With an element too many, for torch reads no empty buffer.
    contents = b"".join(element_bytes(dtype, count, 1) for count in (*counts, 0))
    return torch.frombuffer(bytearray(contents), dtype=kind)[:-1]


def _held(shard: torch.Tensor, elements: Sequence[int | None]) -> torch.Tensor:
    """A shard without its padding."""
    kept = [address for address, element in enumerate(elements) if element is not None]
    return shard.reshape(-1)[kept]


def _wanted(full: torch.Tensor, elements: Sequence[int | None], scale: float) -> torch.Tensor:
    held = full.reshape(-1)[[element for element in elements if element is not None]]
    return held if scale == 1 else held * scale


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch

    same_kind = one.dtype == other.dtype and one.shape == other.shape
    return same_kind and torch.equal(_bits(one), _bits(other))


def _bits(values: torch.Tensor) -> torch.Tensor:
    """Values as bytes: equal NaNs are equal, and 0.0 and -0.0 are not."""
    import torch

    return values.contiguous().view(torch.uint8)


def assert_round_trip(
    implementation: ImplementationProxy,
    map_: ParamAffineMap,
    dtype: str,
    *,
    scale: float = 1.0,
    place: str = "packed",
) -> None:
    """Fail if a shard is wrong, or what is rebuilt from all of them."""
    __tracebackhide__ = True
    problems = implementation.run(round_trip_problems, map_, dtype, scale, place, method="rebuild")
    if problems:
        raise AssertionError(f"{PLACES[place]}: {'; '.join(problems)}")


@requirement("MAP-INV")
@cases(EVERYDAY)
@drawn(strategies.sync_cases)
def test_rebuilding_what_was_extracted_gives_back_the_full_tensor(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in distinct_maps(case):
        for dtype in DTYPES:
            assert_round_trip(implementation, map_, dtype)


@requirement("MAP-INV")
@cases(CORE, STRIDED)
def test_where_tensors_lie_in_memory_does_not_matter(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in distinct_maps(case):
        for place in PLACES:
            assert_round_trip(implementation, map_, "float32", place=place)


@requirement("MAP-INV")
@cases(HOLDERS)
def test_scaling_by_powers_of_two_is_undone_exactly(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in map(_quartered, distinct_maps(case)):
        for dtype in ("float32", "bfloat16"):
            assert_round_trip(implementation, map_, dtype, scale=0.25)


def _quartered(map_: ParamAffineMap) -> ParamAffineMap:
    pieces = {
        location: [replace(piece, scale=0.25) for piece in held]
        for location, held in map_.pieces_by_location
    }
    return ParamAffineMap(map_.logical_shape, map_.shard_shapes, pieces)


def rebuilt_from(
    resident: Resident,
    map_: ParamAffineMap,
    element: int,
    values: tuple[float, float],
    dtype: str = "float32",
    holder: int = 0,
) -> str:
    """Rebuild from shards full of one value, but for `element` at its holder of that number.

    Values of an integer dtype are bits, so that differing NaNs can be told apart.
    """
    import torch

    kind = getattr(torch, dtype)
    shards = {
        location: torch.full(map_.shard_shape(location), values[0], dtype=kind)
        for location in map_.locations
    }
    location, address, _ = truth.holders(map_)[element][holder]
    shards[location].view(-1)[address] = values[1]
    if dtype == "int32":
        shards = {location: shard.view(torch.float32) for location, shard in shards.items()}
    return repr(resident.rebuild(map_, shards))


DIFFERENCES: Mapping[str, tuple[str, tuple[float, float]]] = {
    "other values": ("float32", (1.0, 2.0)),
    "neighbouring values": ("float32", (1.0, 1.0 + 2**-23)),
    "0.0 and -0.0": ("float32", (0.0, -0.0)),
    "1.0 and a NaN": ("float32", (1.0, math.nan)),
    "NaNs of two payloads": ("int32", (0x7FC00000, 0x7FC00001)),
    "neighbouring integers beyond 2^53": ("int64", (2**53, 2**53 + 1)),
    "True and False": ("bool", (True, False)),
}
"""Dtype and both values; of "int32" the bits of float32."""

DIFFERING = [
    replace(case, name=f"{case.name}, {difference}", detail={"difference": difference})
    for case in HOLDERS
    for difference in DIFFERENCES
]


@requirement("MAP-REPLICA")
@cases(DIFFERING)
def test_replicas_that_differ_in_one_element_are_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    dtype, values = DIFFERENCES[case.detail["difference"]]
    for map_ in distinct_maps(case):
        for element, holders in enumerate(truth.holders(map_)):
            for holder in range(len(holders)) if len(holders) > 1 else ():
                assert_refused(
                    lambda m=map_, e=element, h=holder: implementation.run(  # type: ignore[misc]
                        rebuilt_from, m, e, values, dtype, h, method="rebuild"
                    ),
                    f"element {element} of replicas holds {case.detail['difference']}",
                    kinds=(AffineTransferError,),
                )


@requirement("MAP-REPLICA")
@cases(HOLDERS)
def test_replicas_that_are_equal_are_accepted_also_where_they_are_no_numbers(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in distinct_maps(case):
        both = (math.nan, math.nan)
        implementation.run(rebuilt_from, map_, 0, both, method="rebuild")
