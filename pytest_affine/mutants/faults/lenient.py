"""Planners that take what must be refused, or refuse it wrongly, with one fault each."""

from __future__ import annotations

from typing import Any

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import (
    AffineTransferError,
    InvalidMapError,
    PlanLimitError,
    UnsupportedLayoutError,
)
from pytest_affine.maps import ParamAffineMap
from pytest_affine.mutants.faults.maps import (
    AddsUpPieceSizes,
    CountsInGrains,
    LooksAtTheLastElement,
)
from pytest_affine.mutants.faults.parts import (
    raise_type_error,
    unscaled,
    with_pieces,
    with_segments,
)
from pytest_affine.plans import TransferPlan
from pytest_affine.truth import map_problems


class Accepting(Implementation):
    """Plans nothing at all where it takes what the implementation refuses."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        try:
            return super().plan_transfer(source, target, **options)
        except AffineTransferError:
            if not self.accepts(source, target):
                raise
            return TransferPlan((), target.logical_shape, None, None, 0)

    def accepts(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        raise NotImplementedError


def broken_rules(*maps: ParamAffineMap) -> set[str]:
    """The rules that these maps break."""
    return {problem.rule for map_ in maps for problem in map_problems(map_)}


class AcceptsBreaches(Accepting):
    """Takes maps that break one rule only."""

    rule: str

    def accepts(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return broken_rules(source, target) == {self.rule}


class PlansWhatIsUncovered(AcceptsBreaches):
    """Plans maps that leave elements uncovered."""

    rule = "MAP-COVER"


class PlansWhatIsNotTiled(AcceptsBreaches):
    """Plans maps that do not fill their shards exactly once."""

    rule = "MAP-TILE"


class PlansWhatIsMisheld(AcceptsBreaches):
    """Plans maps whose pieces do not name their holders."""

    rule = "MAP-HOLD"


class PlansWhatIsMisscaled(AcceptsBreaches):
    """Plans maps with scales and offsets that mean nothing."""

    rule = "MAP-SCALE"


class ChecksTargetsOnly(Accepting):
    """Plans bad source maps."""

    def accepts(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return bool(broken_rules(source)) and not broken_rules(target)


class ChecksSourcesOnly(Accepting):
    """Plans bad target maps."""

    def accepts(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return bool(broken_rules(target)) and not broken_rules(source)


class ComparesSizes(Accepting):
    """Takes maps of equal sizes for such of equal logical shapes."""

    def accepts(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        same_size = source.num_elements == target.num_elements
        return same_size and source.logical_shape != target.logical_shape


class TakesLargerSources(Accepting):
    """Takes a source of more elements than the target."""

    def accepts(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        return source.num_elements > target.num_elements and not broken_rules(source, target)


class Validating(Implementation):
    """Checks maps, as what a faulty check is laid over."""

    def check_map(self, map_: ParamAffineMap) -> None:
        map_.validate()


class AcceptsAs(Accepting):
    """Takes what a faulty check lets pass."""

    checker: type[Implementation]

    def accepts(self, source: ParamAffineMap, target: ParamAffineMap) -> bool:
        try:
            for map_ in (source, target):
                self.checker().check_map(map_)
        except AffineTransferError:
            return False
        return source.logical_shape == target.logical_shape


class SumChecker(AddsUpPieceSizes, Validating):
    """Checks by sizes only."""


class GrainChecker(CountsInGrains, Validating):
    """Checks in grains only."""


class LastElementChecker(LooksAtTheLastElement, Validating):
    """Checks the holders of last elements only."""


class PlansWhatAddsUp(AcceptsAs):
    """Plans maps whose piece sizes add up to those of their shards, whatever the addresses."""

    checker = SumChecker


class PlansWholeGrains(AcceptsAs):
    """Plans maps that cover as many whole grains of 4 as the tensor has."""

    checker = GrainChecker


class PlansByTheLastElement(AcceptsAs):
    """Plans maps whose pieces name the holders of their last element."""

    checker = LastElementChecker


class CrashesOnBadMapsToPlan(Implementation):
    """Crashes on bad maps."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except InvalidMapError:
            raise_type_error()


class RefusesToPlanAsALimit(Implementation):
    """Refuses bad maps as if a limit were exceeded."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except InvalidMapError as refusal:
            raise PlanLimitError(str(refusal)) from None


class IgnoresScalesOfMaps(Implementation):
    """Plans without looking at scales."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        return super().plan_transfer(
            with_pieces(source, unscaled), with_pieces(target, unscaled), **options
        )


class TakesNoScaleForAny(Implementation):
    """Compares scales only where both sides have one."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        pieces = [p for map_ in (source, target) for _, ps in map_.pieces_by_location for p in ps]
        if any(piece.scale == 1 for piece in pieces):
            source, target = with_pieces(source, unscaled), with_pieces(target, unscaled)
        return super().plan_transfer(source, target, **options)


class RefusesScalesAsInvalid(Implementation):
    """Refuses unequal scales as if a map were bad."""

    def plan_transfer(self, *maps: Any, **options: Any) -> TransferPlan:
        try:
            return super().plan_transfer(*maps, **options)
        except UnsupportedLayoutError as refusal:
            raise InvalidMapError(str(refusal)) from None


class PlansHalfOfWhatIsScaled(Implementation):
    """Leaves out half of the segments where maps are scaled alike."""

    def plan_transfer(
        self, source: ParamAffineMap, target: ParamAffineMap, **options: Any
    ) -> TransferPlan:
        scales = [{p.scale for _, ps in m.pieces_by_location for p in ps} for m in (source, target)]
        if not scales[0] == scales[1] != {1.0}:
            return super().plan_transfer(source, target, **options)
        unscaled_maps = with_pieces(source, unscaled), with_pieces(target, unscaled)
        plan = super().plan_transfer(*unscaled_maps, **options)
        return with_segments(plan, plan.segments[: len(plan.segments) // 2])
