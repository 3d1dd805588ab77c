"""Maps and plans written as JSON, and read, with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from faulty.parts import raise_type_error
from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import AffineTransferError, InvalidMapError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferPlan

NO_MAP = ParamAffineMap((), {}, {})


def without(document: Any, *keys: str) -> Any:
    """A document without these keys, at any depth."""
    if isinstance(document, dict):
        return {key: without(value, *keys) for key, value in document.items() if key not in keys}
    return [without(value, *keys) for value in document] if isinstance(document, list) else document


def with_leaves(document: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(document, dict):
        return {key: with_leaves(value, change) for key, value in document.items()}
    if isinstance(document, list):
        return [with_leaves(value, change) for value in document]
    return change(document)


class DropsPadding(Reference):
    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        return without(super().map_to_dict(map_), "padding")


class DropsScales(Reference):
    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        return without(super().map_to_dict(map_), "scale")


class DropsEmptyLocations(Reference):
    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        document = super().map_to_dict(map_)
        ranks = document["ranks"].items()
        return {**document, "ranks": {at: rank for at, rank in ranks if rank["pieces"]}}


class SortsPieces(Reference):
    """By where they sit in the full tensor."""

    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        pieces = tuple(
            (location, tuple(sorted(held, key=lambda piece: piece.full_offset)))
            for location, held in map_.pieces_by_location
        )
        return super().map_to_dict(replace(map_, pieces_by_location=pieces))


class RoundsLargeNumbers(Reference):
    """F35: as 64-bit floats do."""

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        return super().map_from_dict(with_leaves(entry, rounded))

    def plan_from_dict(self, entry: Any) -> TransferPlan:
        return super().plan_from_dict(with_leaves(entry, rounded))


def rounded(value: Any) -> Any:
    return int(float(value)) if isinstance(value, int) else value


class WritesNoJson(Reference):
    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        return {"map": map_}

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        return entry["map"]


class TruncatesFractions(Reference):
    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        return super().map_from_dict(with_leaves(entry, self.whole))

    def whole(self, value: Any) -> Any:
        return int(value) if isinstance(value, float) else value


class TakesBooleansForNumbers(Reference):
    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        return super().map_from_dict(with_leaves(entry, self.number))

    def number(self, value: Any) -> Any:
        return int(value) if isinstance(value, bool) else value


class ReadsAnything(Reference):
    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        try:
            return super().map_from_dict(entry)
        except AffineTransferError:
            return NO_MAP

    def maps_from_dict(self, envelope: Any) -> dict[str, ParamAffineMap]:
        try:
            return super().maps_from_dict(envelope)
        except AffineTransferError:
            return {}


class NamesNoField(Reference):
    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        try:
            return super().map_from_dict(entry)
        except AffineTransferError:
            raise InvalidMapError("this is not a map") from None

    def maps_from_dict(self, envelope: Any) -> dict[str, ParamAffineMap]:
        try:
            return super().maps_from_dict(envelope)
        except AffineTransferError:
            raise InvalidMapError("these are not maps") from None


class RaisesTypeErrors(Reference):
    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        try:
            return super().map_from_dict(entry)
        except AffineTransferError:
            raise_type_error()


class ReadsAnyVersion(Reference):
    def maps_from_dict(self, envelope: Any) -> dict[str, ParamAffineMap]:
        return super().maps_from_dict({**envelope, "version": 1})


class SortsNames(Reference):
    def maps_to_dict(self, maps: Any) -> dict[str, Any]:
        return super().maps_to_dict(dict(sorted(maps.items())))


class DropsPaddingInEnvelopes(Reference):
    def maps_to_dict(self, maps: Any) -> dict[str, Any]:
        return without(super().maps_to_dict(maps), "padding")


class DropsShardSizes(Reference):
    def plan_to_dict(self, plan: TransferPlan) -> dict[str, Any]:
        return without(super().plan_to_dict(plan), "source_sizes", "target_sizes")


class SortsSegments(Reference):
    """By what they read."""

    def plan_from_dict(self, entry: Any) -> TransferPlan:
        plan = super().plan_from_dict(entry)
        by_source = sorted(plan.segments, key=lambda each: (each.source_location, each.shape))
        return replace(plan, segments=tuple(by_source))


class ForgetsMovedElements(Reference):
    def plan_from_dict(self, entry: Any) -> TransferPlan:
        return replace(super().plan_from_dict(entry), moved_elements=0)
