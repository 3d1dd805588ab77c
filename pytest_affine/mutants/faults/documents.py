"""Maps and plans written as JSON, and read, with one fault each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import AffineTransferError, InvalidMapError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.mutants.faults.parts import raise_type_error
from pytest_affine.plans import TransferPlan

NO_MAP = ParamAffineMap((), {}, {})


def without(document: Any, *keys: str) -> Any:
    """A document without these keys, at any depth."""
    if isinstance(document, dict):
        return {key: without(value, *keys) for key, value in document.items() if key not in keys}
    return [without(value, *keys) for value in document] if isinstance(document, list) else document


def with_leaves(document: Any, change: Callable[[Any], Any]) -> Any:
    """A document with every value in it changed that holds no others."""
    if isinstance(document, dict):
        return {key: with_leaves(value, change) for key, value in document.items()}
    if isinstance(document, list):
        return [with_leaves(value, change) for value in document]
    return change(document)


class DropsPadding(Implementation):
    """Writes a map without its padding."""

    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        return dict(without(super().map_to_dict(map_), "padding"))


class DropsScales(Implementation):
    """Writes a map without its scales."""

    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        return dict(without(super().map_to_dict(map_), "scale"))


class DropsEmptyLocations(Implementation):
    """Writes a map without the locations that have no pieces."""

    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        document = super().map_to_dict(map_)
        ranks = document["ranks"].items()
        return {**document, "ranks": {at: rank for at, rank in ranks if rank["pieces"]}}


class SortsPieces(Implementation):
    """Writes pieces in the order of where they sit in the full tensor."""

    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        pieces = tuple(
            (location, tuple(sorted(held, key=lambda piece: piece.full_offset)))
            for location, held in map_.pieces_by_location
        )
        return super().map_to_dict(replace(map_, pieces_by_location=pieces))


def rounded(value: Any) -> Any:
    """What 64-bit floats make of an integer."""
    return int(float(value)) if isinstance(value, int) else value


class RoundsNumbersOfMaps(Implementation):
    """Reads the integers of a map as 64-bit floats."""

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        return super().map_from_dict(with_leaves(entry, rounded))


class RoundsNumbersOfPlans(Implementation):
    """Reads the integers of a plan as 64-bit floats."""

    def plan_from_dict(self, entry: Any) -> TransferPlan:
        return super().plan_from_dict(with_leaves(entry, rounded))


class WritesMapsAsObjects(Implementation):
    """Writes a map as an object that is not ready for JSON."""

    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        return {"map": map_}

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        if isinstance(entry.get("map"), ParamAffineMap):
            return super().map_from_dict(super().map_to_dict(entry["map"]))
        return super().map_from_dict(entry)


class WritesPlansAsObjects(Implementation):
    """Writes a plan as an object that is not ready for JSON."""

    def plan_to_dict(self, plan: TransferPlan) -> dict[str, Any]:
        return {"plan": plan}

    def plan_from_dict(self, entry: Any) -> TransferPlan:
        plan: TransferPlan = entry["plan"]
        return plan


class TruncatesFractions(Implementation):
    """Reads the fractions of a map as the integers below."""

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        return super().map_from_dict(
            with_leaves(entry, lambda value: int(value) if isinstance(value, float) else value)
        )


class TakesBooleansForNumbers(Implementation):
    """Reads the booleans of a map as numbers."""

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        return super().map_from_dict(
            with_leaves(entry, lambda value: int(value) if isinstance(value, bool) else value)
        )


class ReadsAnyDocument(Implementation):
    """Reads what is no map as one without elements."""

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        try:
            return super().map_from_dict(entry)
        except AffineTransferError:
            return NO_MAP


class ReadsAnyEnvelope(Implementation):
    """Reads what is no envelope as one without maps."""

    def maps_from_dict(self, envelope: Any) -> dict[str, ParamAffineMap]:
        try:
            return super().maps_from_dict(envelope)
        except AffineTransferError:
            return {}


class NamesNoFieldOfMaps(Implementation):
    """Refuses what is no map without saying why."""

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        try:
            return super().map_from_dict(entry)
        except AffineTransferError:
            raise InvalidMapError("this can't be read") from None


class NamesNoFieldOfEnvelopes(Implementation):
    """Refuses what is no envelope without saying why."""

    def maps_from_dict(self, envelope: Any) -> dict[str, ParamAffineMap]:
        try:
            return super().maps_from_dict(envelope)
        except AffineTransferError:
            raise InvalidMapError("this can't be read") from None


class CrashesOnBadDocuments(Implementation):
    """Crashes on what is no map."""

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        try:
            return super().map_from_dict(entry)
        except AffineTransferError:
            raise_type_error()


class ReadsAnyVersion(Implementation):
    """Reads envelopes of any version."""

    def maps_from_dict(self, envelope: Any) -> dict[str, ParamAffineMap]:
        return super().maps_from_dict({**envelope, "version": 1})


class SortsNames(Implementation):
    """Writes the maps of an envelope in the order of their names."""

    def maps_to_dict(self, maps: Mapping[str, ParamAffineMap]) -> dict[str, Any]:
        return super().maps_to_dict(dict(sorted(maps.items())))


class DropsPaddingInEnvelopes(Implementation):
    """Writes the maps of an envelope without their padding."""

    def maps_to_dict(self, maps: Mapping[str, ParamAffineMap]) -> dict[str, Any]:
        return dict(without(super().maps_to_dict(maps), "padding"))


class DropsShardSizes(Implementation):
    """Writes a plan without its sizes."""

    def plan_to_dict(self, plan: TransferPlan) -> dict[str, Any]:
        return dict(without(super().plan_to_dict(plan), "source_sizes", "target_sizes"))


class SortsSegments(Implementation):
    """Reads segments in the order of what they read."""

    def plan_from_dict(self, entry: Any) -> TransferPlan:
        plan = super().plan_from_dict(entry)
        by_source = sorted(plan.segments, key=lambda each: (each.source_location, each.shape))
        return replace(plan, segments=tuple(by_source))


class ForgetsMovedElements(Implementation):
    """Reads a plan as one that moves nothing."""

    def plan_from_dict(self, entry: Any) -> TransferPlan:
        return replace(super().plan_from_dict(entry), moved_elements=0)
