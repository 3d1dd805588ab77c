"""MAP-INV and MAP-REPLICA: shards cut out of a full tensor and put together again.

What runs in rank 0 sees tensors and comes back as text: nothing, or what was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_affine import strategies, truth
from pytest_affine.conformance._judging import distinct_maps
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.errors import AffineTransferError
from pytest_affine.fixtures.syncs import EVERYDAY, HOLDERS
from pytest_affine.maps import ParamAffineMap

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "int64", "bool", "complex64")


def round_trip_problems(
    resident: Resident, map_: ParamAffineMap, dtype: str, scale: float
) -> list[str]:
    """What is wrong with the shards that are extracted, and with what is rebuilt from them."""
    full = _values(map_.num_elements, dtype).view(map_.logical_shape)
    problems, shards = [], {}
    for location in map_.locations:
        shards[location] = resident.extract(map_, full, location)
        elements = truth.element_at(map_, location)
        if not _same_bits(_held(shards[location], elements), _wanted(full, elements, scale)):
            problems.append(f"the shard of location {location} in {dtype} holds other elements")
    rebuilt = resident.rebuild(map_, shards)
    if not _same_bits(rebuilt.reshape(-1), full.reshape(-1)):
        problems.append(f"rebuilding from extracted shards in {dtype} gives {rebuilt}, not {full}")
    return problems


def _values(num_elements: int, dtype: str) -> torch.Tensor:
    """Values that survive a scaling by powers of two, distinct where the dtype has as many."""
    import torch

    values = torch.arange(1, num_elements + 1)
    return (values % 2 if dtype == "bool" else values % 251).to(getattr(torch, dtype))


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


@requirement("MAP-INV")
@cases(EVERYDAY)
@drawn(strategies.sync_cases)
def test_rebuilding_what_was_extracted_gives_back_the_full_tensor(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in distinct_maps(case):
        for dtype in DTYPES:
            problems = implementation.run(round_trip_problems, map_, dtype, 1.0, method="rebuild")
            assert not problems, "; ".join(problems)


@requirement("MAP-INV")
@cases(HOLDERS)
def test_scaling_by_powers_of_two_is_undone_exactly(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in map(_quartered, distinct_maps(case)):
        for dtype in ("float32", "bfloat16"):
            problems = implementation.run(round_trip_problems, map_, dtype, 0.25, method="rebuild")
            assert not problems, "; ".join(problems)


def _quartered(map_: ParamAffineMap) -> ParamAffineMap:
    pieces = {
        location: [replace(piece, scale=0.25) for piece in held]
        for location, held in map_.pieces_by_location
    }
    return ParamAffineMap(map_.logical_shape, map_.shard_shapes, pieces)


DIFFERENCES: Mapping[str, tuple[float, float]] = {
    "values": (1.0, 2.0),
    "a zero and a negative zero": (0.0, -0.0),
    "a value and a NaN": (1.0, float("nan")),
}


def rebuilt_from_differing(
    resident: Resident, map_: ParamAffineMap, element: int, values: tuple[float, float]
) -> str:
    """Rebuild from replicas of which the last holder of `element` has the second value there."""
    import torch

    shards = {
        location: torch.full(map_.shard_shape(location), values[0]) for location in map_.locations
    }
    location, address, _ = truth.holders(map_)[element][-1]
    shards[location].view(-1)[address] = values[1]
    try:
        return f"was accepted, giving {resident.rebuild(map_, shards)}"
    except AffineTransferError:
        return "was refused"


@requirement("MAP-REPLICA")
@cases(HOLDERS)
def test_replicas_that_differ_in_one_element_are_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in distinct_maps(case):
        for element, holders in enumerate(truth.holders(map_)):
            for name, values in DIFFERENCES.items() if len(holders) > 1 else ():
                what = implementation.run(
                    rebuilt_from_differing, map_, element, values, method="rebuild"
                )
                assert what == "was refused", (
                    f"rebuilding from replicas that hold {name} as element {element} {what}"
                )


@requirement("MAP-REPLICA")
@cases(HOLDERS)
def test_replicas_that_are_equal_are_accepted_also_where_they_are_no_numbers(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in distinct_maps(case):
        both = (float("nan"), float("nan"))
        what = implementation.run(rebuilt_from_differing, map_, 0, both, method="rebuild")
        assert what.startswith("was accepted"), f"rebuilding from equal replicas {what}"
