"""MAP-*: maps of one parameter, their JSON, and the builders."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_affine import strategies, truth
from pytest_affine.conformance._judging import (
    assert_refused,
    distinct_maps,
    parameters_of,
    through_json,
)
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import cases, drawn, requirement
from pytest_affine.errors import AffineTransferError
from pytest_affine.fixtures.built import BUILT
from pytest_affine.fixtures.invalid import BAD_DOCUMENTS, BAD_ENVELOPES, BAD_NUMBERS, breaking
from pytest_affine.fixtures.syncs import EVERYDAY, HUGE, ODD, PADDED, SCALED
from pytest_affine.maps import ParamAffineMap


def assert_map_is_refused(implementation: ImplementationProxy, case: Case) -> None:
    """Fail if the side of the case that breaks a rule is accepted."""
    __tracebackhide__ = True
    (parameter,) = parameters_of(case)
    map_ = getattr(parameter, case.detail["side"])
    assert_refused(lambda: implementation.check_map(map_), case.name)


@requirement("MAP-COVER")
@cases(breaking("MAP-COVER"))
def test_a_map_that_leaves_an_element_uncovered_is_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_map_is_refused(implementation, case)


@requirement("MAP-COVER")
@cases(EVERYDAY, HUGE)
@drawn(strategies.sync_cases)
def test_a_valid_map_is_accepted(implementation: ImplementationProxy, case: Case) -> None:
    for map_ in distinct_maps(case):
        implementation.check_map(map_)


@requirement("MAP-TILE")
@cases(breaking("MAP-TILE"))
def test_a_map_that_does_not_fill_a_shard_exactly_once_is_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_map_is_refused(implementation, case)


@requirement("MAP-TILE")
@cases(ODD, PADDED)
def test_a_shard_filled_in_strides_or_with_padding_is_accepted(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in distinct_maps(case):
        implementation.check_map(map_)


@requirement("MAP-HOLD")
@cases(breaking("MAP-HOLD"))
def test_a_map_whose_locations_are_not_the_holders_is_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_map_is_refused(implementation, case)


@requirement("MAP-SCALE")
@cases(breaking("MAP-SCALE"))
def test_scales_and_offsets_that_mean_nothing_are_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_map_is_refused(implementation, case)


def assert_document_is_refused(
    implementation: ImplementationProxy, case: Case, *, naming: str = ""
) -> None:
    """Fail if a document is read, as a map or an envelope, that is none."""
    __tracebackhide__ = True
    read: Callable[[Any], Any] = getattr(implementation, case.detail["method"])
    kinds = (AffineTransferError,)
    assert_refused(lambda: read(case.detail["document"]), case.name, kinds=kinds, naming=naming)


@requirement("MAP-SCALE")
@cases(BAD_NUMBERS)
def test_fractions_and_booleans_where_numbers_belong_are_refused(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_document_is_refused(implementation, case)


@requirement("MAP-TRIP")
@cases(BAD_DOCUMENTS)
def test_a_document_that_is_no_map_is_refused_by_its_field(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_document_is_refused(implementation, case, naming=case.detail["field"])


@requirement("MAP-TRIP", "maps_from_dict")
@cases(BAD_ENVELOPES)
def test_a_document_that_is_no_envelope_is_refused_by_its_field(
    implementation: ImplementationProxy, case: Case
) -> None:
    assert_document_is_refused(implementation, case, naming=case.detail["field"])


@requirement("MAP-TRIP")
@cases(EVERYDAY, ODD, SCALED, HUGE)
@drawn(strategies.sync_cases)
def test_a_map_to_json_and_back_is_the_same(
    implementation: ImplementationProxy, case: Case
) -> None:
    for map_ in distinct_maps(case):
        document = through_json(implementation.map_to_dict(map_))
        back = implementation.map_from_dict(document)
        assert back == map_, f"{map_} comes back as {back}"


@requirement("MAP-TRIP", "maps_to_dict", "maps_from_dict")
@cases(EVERYDAY)
def test_an_envelope_to_json_and_back_is_the_same(
    implementation: ImplementationProxy, case: Case
) -> None:
    maps = {parameter.name: parameter.source for parameter in parameters_of(case)}
    document = through_json(implementation.maps_to_dict(maps))
    back = implementation.maps_from_dict(document)
    assert list(back.items()) == list(maps.items()), f"{maps} comes back as {back}"


@requirement("MAP-BUILD")
@cases(BUILT)
def test_a_builder_places_every_element_by_its_definition(
    implementation: ImplementationProxy, case: Case
) -> None:
    built = implementation.build_map(case.detail["builder"], **case.detail["arguments"])
    maps = {"weight": built} if isinstance(built, ParamAffineMap) else built
    wanted = case.detail["elements"]
    assert set(maps) == set(wanted), f"built {sorted(maps)}, wanted {sorted(wanted)}"
    for name, map_ in maps.items():
        truth.assert_valid(map_)
        assert_elements(map_, wanted[name])
        scales = {piece.scale for _, held in map_.pieces_by_location for piece in held}
        scale = case.detail["arguments"].get("scale", 1.0)
        assert scales <= {scale}, f"pieces have the scales {sorted(scales)}, wanted {scale}"


def assert_elements(map_: ParamAffineMap, wanted: Mapping[str, Any]) -> None:
    """Fail unless every shard has these logical elements, in lists nested like its axes."""
    got = {
        str(location): _nested(truth.element_at(map_, location), map_.shard_shape(location))
        for location in map_.locations
    }
    assert got == wanted, f"by location the shards hold {got}, wanted {wanted}"


def _nested(elements: Sequence[int | None], shape: Sequence[int]) -> Any:
    if not shape:
        return elements[0]
    size = math.prod(shape[1:])
    rows = (elements[row * size : (row + 1) * size] for row in range(shape[0]))
    return [_nested(row, shape[1:]) for row in rows]
