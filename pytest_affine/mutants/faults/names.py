"""Matchers of names with one fault each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeAlias

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import AffineTransferError
from pytest_affine.layouts import Inventory, LocalName, LocalTensor
from pytest_affine.layouts.layout import DEFAULT_ORDER

Matches: TypeAlias = Mapping[LocalName, AbstractSet[LocalName]]
Tensors: TypeAlias = "dict[LocalName, LocalTensor]"


def tensors_of(inventory: Inventory) -> Tensors:
    """By location and name, the tensors of one side."""
    return {(at, tensor[0]): tensor for at, held in inventory.tensors for tensor in held}


class FaultyMatcher(Implementation):
    """Matches, and gets something wrong; what is to be refused is refused."""

    def match(self, source: Inventory, target: Inventory) -> Matches:
        right = super().match(source, target)
        return self.changed(right, tensors_of(source), tensors_of(target))

    def changed(self, right: Matches, source: Tensors, target: Tensors) -> Matches:
        raise NotImplementedError


class TakesLocalNamesForGlobal(FaultyMatcher):
    """Matches what has the same local name."""

    def changed(self, right: Matches, source: Tensors, target: Tensors) -> Matches:
        return {held: {other for other in source if other[1] == held[1]} for held in target}


class TakesLocalExpertsForGlobal(TakesLocalNamesForGlobal):
    """Matches experts of the same local number."""

    pattern = re.compile(r"experts\.\d+")

    def changed(self, right: Matches, source: Tensors, target: Tensors) -> Matches:
        wrong = super().changed(right, source, target)
        return {at: (wrong if self.pattern.search(at[1]) else right)[at] for at in right}


class TakesLocalLayersForGlobal(TakesLocalExpertsForGlobal):
    """Matches layers of the same local number."""

    pattern = re.compile(r"layers\.\d+")


class MatchesByShape(FaultyMatcher):
    """Matches what has the same shape."""

    def changed(self, right: Matches, source: Tensors, target: Tensors) -> Matches:
        return {
            held: {other for other, theirs in source.items() if theirs[1] == tensor[1]}
            for held, tensor in target.items()
        }


class FindsOneHolder(FaultyMatcher):
    """Finds the first of the ranks that hold parts of a tensor."""

    def changed(self, right: Matches, source: Tensors, target: Tensors) -> Matches:
        return {held: {min(others)} for held, others in right.items()}


class LooksAtItsOwnNumber(FaultyMatcher):
    """Looks for a tensor on the source rank of the same number, where that has it."""

    def changed(self, right: Matches, source: Tensors, target: Tensors) -> Matches:
        own = {
            held: {other for other in others if other[0] == held[0]}
            for held, others in right.items()
        }
        return {held: own[held] or others for held, others in right.items()}


class ConfusesBiases(FaultyMatcher):
    """Takes biases for their weights."""

    def changed(self, right: Matches, source: Tensors, target: Tensors) -> Matches:
        weights = {(at, name): (at, name.replace("bias", "weight")) for at, name in right}
        return {held: right.get(weights[held], others) for held, others in right.items()}


class IgnoresExpertTables(Implementation):
    """Takes experts to be contiguous, whatever the table says."""

    def match(self, source: Inventory, target: Inventory) -> Matches:
        right = super().match(source, target)
        without = (replace(side, expert_table=None) for side in (source, target))
        return super().match(*without) if right else right


class IgnoresTheOrderOfRanks(Implementation):
    """Numbers the ranks of both sides in the usual order of axes, whatever the layout's."""

    def match(self, source: Inventory, target: Inventory) -> Matches:
        sides = (
            replace(side, layout=replace(side.layout, order=DEFAULT_ORDER))
            for side in (source, target)
        )
        return super().match(*sides)


class LeavesOutWhatIsMissing(Implementation):
    """Matches what has the same name where names are missing or too many."""

    def match(self, source: Inventory, target: Inventory) -> Matches:
        try:
            return super().match(source, target)
        except AffineTransferError:
            sources = tensors_of(source)
            return {
                held: {other for other in sources if other[1] == held[1]}
                for held in tensors_of(target)
            }


class IgnoresSurplus(Implementation):
    """Lets be what the source has and the target lacks."""

    def match(self, source: Inventory, target: Inventory) -> Matches:
        try:
            return super().match(source, target)
        except AffineTransferError:
            wanted = {name for _, name in tensors_of(target)}
            kept = {at: [t for t in held if t[0] in wanted] for at, held in source.tensors}
            return super().match(Inventory(source.layout, kept, source.expert_table), target)


class CountsLayersAsStrings(FaultyMatcher):
    """Counts 12 layers of the source in the order of their numbers as strings."""

    def changed(self, right: Matches, source: Tensors, target: Tensors) -> Matches:
        if not any("layers.11." in name for _, name in source):
            return right
        return {
            held: {(at, in_order_of_strings(name)) for at, name in others}
            for held, others in right.items()
        }


STRINGS = sorted(map(str, range(12)))


def in_order_of_strings(name: str) -> str:
    """The name with another layer: the one that strings have in the place of this one."""
    return re.sub(r"layers\.(\d+)", lambda found: f"layers.{STRINGS[int(found[1])]}", name)
