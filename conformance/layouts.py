"""LAYOUT-* and NAME-ONE: maps that are derived from a layout, and tensors told by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pytest_affine import strategies, truth
from pytest_affine.conformance._judging import assert_refused
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Resident
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.errors import AffineTransferError
from pytest_affine.fixtures.described import DEGREES, DESCRIBED, ORDERS, SEQUENCES, UNDESCRIBED
from pytest_affine.fixtures.named import NAMED, WRONG_NAMES
from pytest_affine.layouts import Inventory, Layout, LocalName, Parameter
from pytest_affine.maps import ParamAffineMap
from pytest_affine.truth.problems import index_at

Described: TypeAlias = tuple[Layout, Parameter]
Outcome: TypeAlias = ParamAffineMap | AffineTransferError


def described_in(entry: Mapping[str, Any]) -> Described:
    """The layout and the parameter of a case, or of one step of it."""
    return Layout.from_dict(entry["layout"]), Parameter.from_dict(entry["parameter"])


@requirement("LAYOUT-DERIVE")
@cases(DESCRIBED, DEGREES, ORDERS)
@drawn(lambda _: strategies.layout_cases())
def test_a_parameter_is_described_by_the_definition_of_its_kind(
    implementation: ImplementationProxy, case: Case
) -> None:
    layout, parameter = described_in(case.detail)
    try:
        wanted = truth.layout_shards(layout, parameter)
    except AffineTransferError as reason:
        assert_not_described(implementation, case, f"{case.name}: {reason}")
    else:
        assert_shards(implementation.describe(layout, parameter), wanted, parameter)


@requirement("LAYOUT-DERIVE")
@cases(UNDESCRIBED)
def test_what_does_not_divide_or_contradicts_itself_is_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_not_described(implementation, case, case.name)


def assert_not_described(implementation: ImplementationProxy, case: Case, what: str) -> None:
    """Fail if a parameter that has no map is described."""
    __tracebackhide__ = True
    assert_refused(
        lambda: implementation.describe(*described_in(case.detail)),
        what,
        kinds=(AffineTransferError,),
    )


def assert_shards(
    map_: ParamAffineMap, wanted: Mapping[int, truth.LayoutShard], parameter: Parameter
) -> None:
    """Fail unless a map says of every rank what the definition says."""
    __tracebackhide__ = True
    assert map_.logical_shape == parameter.shape, (
        f"the map is of {map_.logical_shape}, the parameter of {parameter.shape}"
    )
    assert map_.locations == tuple(wanted), (
        f"the parameter is on ranks {list(wanted)}, the map has locations {list(map_.locations)}"
    )
    for rank, shard in wanted.items():
        shape = map_.shard_shape(rank)
        assert shape == shard.shape, f"rank {rank} has a shard of {shard.shape}, not of {shape}"
    truth.assert_valid(map_)
    for rank, shard in wanted.items():
        assert_elements(truth.element_at(map_, rank), shard, rank, parameter.shape)
    scales = {piece.scale for _, held in map_.pieces_by_location for piece in held}
    assert scales <= {1.0}, f"pieces have the scales {sorted(scales)}, wanted 1.0"


def assert_elements(
    said: Sequence[int | None], shard: truth.LayoutShard, rank: int, shape: tuple[int, ...]
) -> None:
    """Fail at the first element of a shard that is another one, by its index in both tensors."""
    __tracebackhide__ = True
    for address, (got, want) in enumerate(zip(said, shard.elements, strict=True)):
        assert got == want, (
            f"at {index_at(address, shard.shape)} of its shard rank {rank} has "
            f"{_element(want, shape)}, the map says {_element(got, shape)}"
        )


def _element(element: int | None, shape: tuple[int, ...]) -> str:
    return "padding" if element is None else f"element {index_at(element, shape)}"


@requirement("LAYOUT-STATELESS")
@cases(SEQUENCES)
def test_a_map_is_the_same_alone_and_after_others(
    implementation: ImplementationProxy, case: Case
) -> None:
    sequence = [described_in(entry) for entry in case.detail["sequence"]]
    (alone,) = _in_fresh_interpreter(implementation, sequence[-1:])
    if isinstance(alone, AffineTransferError):
        raise alone
    others = {
        "after others": _in_fresh_interpreter(implementation, sequence),
        "after all before it": implementation.run(describe_all, sequence, method="describe"),
    }
    for circumstance, outcomes in others.items():
        assert outcomes[-1] == alone, (
            f"described {circumstance}, it is {_shown(outcomes[-1])}; alone {_shown(alone)}"
        )


def _in_fresh_interpreter(
    implementation: ImplementationProxy, sequence: Sequence[Described]
) -> list[Outcome]:
    outcomes: list[Outcome] = implementation.run_in_fresh_interpreter(
        describe_all, sequence, hash_seed=0, method="describe"
    )
    return outcomes


@requirement("LAYOUT-STATELESS")
@drawn(lambda _: strategies.layout_sequences())
def test_maps_are_the_same_in_any_order(implementation: ImplementationProxy, case: Case) -> None:
    sequence = [described_in(entry) for entry in case.detail["sequence"]]
    forth = implementation.run(describe_all, sequence, method="describe")
    back = implementation.run(describe_all, sequence[::-1], method="describe")[::-1]
    for (_, parameter), one, other in zip(sequence, forth, back, strict=True):
        assert _is_same(one, other), (
            f"{parameter.kind} is {_shown(one)}; in another order {_shown(other)}"
        )


def describe_all(resident: Resident, sequence: Sequence[Described]) -> list[Outcome]:
    """Describe one after the other: by each its map, or how it was refused."""
    return [_outcome(resident, *described) for described in sequence]


def _outcome(resident: Resident, layout: Layout, parameter: Parameter) -> Outcome:
    try:
        map_: ParamAffineMap = resident.describe(layout, parameter)
    except AffineTransferError as refusal:
        return refusal
    return map_


def _is_same(one: Outcome, other: Outcome) -> bool:
    """Whether both are one map, or both refusals, whatever these say."""
    refusals = [isinstance(each, AffineTransferError) for each in (one, other)]
    return one == other or all(refusals)


def _shown(outcome: Outcome) -> str:
    if isinstance(outcome, AffineTransferError):
        return f"refused with {type(outcome).__name__}: {outcome}"
    return f"{outcome.to_dict()}"


def inventories_of(case: Case) -> tuple[Inventory, Inventory]:
    """The names of both sides."""
    source, target = (Inventory.from_dict(case.detail[side]) for side in ("source", "target"))
    return source, target


@requirement("NAME-ONE")
@cases(NAMED)
@drawn(lambda _: strategies.name_cases())
def test_each_tensor_is_matched_with_all_parts_of_the_same_one(
    implementation: ImplementationProxy, case: Case
) -> None:
    matches = implementation.match(*inventories_of(case))
    wanted: dict[LocalName, set[LocalName]] = {
        (at, name): {(other, named) for other, named in parts}
        for held, parts in case.detail["matches"]
        for at, name in held
    }
    assert matches.keys() == wanted.keys(), (
        f"matched are {sorted(matches)}, the target has {sorted(wanted)}"
    )
    for (at, name), others in wanted.items():
        got = set(matches[at, name])
        assert got == others, (
            f"{name!r} of target location {at} is a part of the same tensor as {_listed(others)}, "
            f"it was matched with {_listed(got)}"
        )


def _listed(names: set[LocalName]) -> str:
    return ", ".join(f"{name!r} of {at}" for at, name in sorted(names)) or "nothing"


@requirement("NAME-ONE")
@cases(WRONG_NAMES)
@drawn(lambda _: strategies.wrong_name_cases())
def test_names_that_are_missing_or_too_many_are_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_refused(
        lambda: implementation.match(*inventories_of(case)),
        case.detail["wrong"],
        kinds=(AffineTransferError,),
    )
