"""Planners that take what must be refused, or refuse it wrongly, with one fault each."""

# What wraps a method names only the arguments that it looks at.
# mypy: disable-error-code="override, no-any-return"

from __future__ import annotations

from dataclasses import replace
from typing import Any

from faulty.layouts import Misreads
from faulty.maps import AddsUpPieceSizes, CountsInGrains, LooksAtLastElements
from faulty.parts import raise_type_error, unscaled, with_pieces
from faulty.plans import with_segments
from pytest_affine.adapters.reference import Reference
from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferPlan


class ChecksNothing(Misreads):
    def check(self, map_: ParamAffineMap, side: str) -> None:
        pass


class ChecksTargetsOnly(Misreads):
    def check(self, map_: ParamAffineMap, side: str) -> None:
        if side == "target":
            map_.validate()


class ChecksSourcesOnly(Misreads):
    def check(self, map_: ParamAffineMap, side: str) -> None:
        if side == "source":
            map_.validate()


class AddsUpSizes(Misreads):
    """F01."""

    def check(self, map_: ParamAffineMap, side: str) -> None:
        AddsUpPieceSizes().check_map(map_)


class CountsGrains(Misreads):
    """F03."""

    def check(self, map_: ParamAffineMap, side: str) -> None:
        CountsInGrains().check_map(map_)


class LooksAtLastHolders(Misreads):
    """F02."""

    def check(self, map_: ParamAffineMap, side: str) -> None:
        LooksAtLastElements().check_map(map_)


class AllowsAnyScale(Misreads):
    def check(self, map_: ParamAffineMap, side: str) -> None:
        self.read(map_).validate()

    def read(self, map_: ParamAffineMap) -> ParamAffineMap:
        return with_pieces(map_, unscaled)


class ComparesSizes(Misreads):
    """Takes a target of as many elements for one of the source's shape."""

    def source(self, map_: ParamAffineMap) -> ParamAffineMap:
        self._source = map_
        return map_

    def target(self, map_: ParamAffineMap) -> ParamAffineMap:
        fits = self.fits(self._source.num_elements, map_.num_elements)
        return replace(map_, logical_shape=self._source.logical_shape) if fits else map_

    def fits(self, source_size: int, target_size: int) -> bool:
        return source_size == target_size


class TakesLargerSources(ComparesSizes):
    def fits(self, source_size: int, target_size: int) -> bool:
        return source_size > target_size


class TakesBoxesOnly(Misreads):
    """No fault: it refuses scales, and pieces of other axes than the tensor's."""

    def check(self, map_: ParamAffineMap, side: str) -> None:
        for _, held in map_.pieces_by_location:
            for piece in held:
                if piece.scale != 1 or len(piece.shape) != len(map_.logical_shape):
                    raise UnsupportedLayoutError(f"no box: {piece}")
        super().check(map_, side)


class RefusesAsUnsupported(Reference):
    """No fault: any map that it does not plan."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except InvalidMapError as refusal:
            raise UnsupportedLayoutError(str(refusal)) from None


class CrashesOnBadMaps(Reference):
    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except InvalidMapError:
            raise_type_error()


class IgnoresScales(Misreads):
    def read(self, map_: ParamAffineMap) -> ParamAffineMap:
        return with_pieces(map_, unscaled)


class TakesNoScaleForAny(Reference):
    """Compares scales only where both sides have one."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        pieces = [p for map_ in (source, target) for _, ps in map_.pieces_by_location for p in ps]
        planner = IgnoresScales() if any(piece.scale == 1 for piece in pieces) else Reference()
        return planner.plan_transfer(source, target, **options)


class RefusesScalesAsInvalid(Reference):
    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except UnsupportedLayoutError as refusal:
            raise InvalidMapError(str(refusal)) from None


class PlansHalfOfWhatIsScaled(Reference):
    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        plan = super().plan_transfer(source, target, **options)
        scaled = source.pieces(0)[0].scale != 1
        return with_segments(plan, plan.segments[: len(plan.segments) // 2]) if scaled else plan
