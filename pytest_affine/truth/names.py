"""The names that logical tensors have on every rank: the definition of local names.

It goes from what a rank holds to the names it has there, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pytest_affine.layouts import Inventory, Layout, LocalName
from pytest_affine.truth.layouts import dense_place, expert_place

__all__ = ["SPELLINGS", "NamedModel", "NamedSide", "inventory_of", "matches_of"]

SPELLINGS: Mapping[str, str] = {
    "experts": "experts.{expert}.{module}.weight",
    "local_experts": "experts.local_experts.{expert}.{module}.weight",
    "grouped": "experts.{module}.weight{expert}",
}
"""How the tensors of an expert are called in a layer, with its local number."""

Logical: TypeAlias = tuple[str, int | None, int | None]
"""Which tensor, of which layer, of which expert: what is the same on both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """A model as far as names go; every tensor has the same shape on every rank.

    Attributes:
        num_layers: how many layers, each with the same tensors.
        num_experts: how many experts each layer has.
        first: names of tensors of the first stage.
        last: names of tensors of the last stage; one of both is tied.
        dense: names of tensors in each layer.
        modules: of each expert.
    """

    num_layers: int
    num_experts: int
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    dense: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSide:
    """How one side spreads a model's layers and experts, and what it calls experts.

    Attributes:
        layout: its ranks.
        stage_of_layer: by layer, its pipeline stage; never decreasing.
        rank_of_expert: by expert, its expert-parallel rank.
        spelling: one of `SPELLINGS`.
        dtype: of every tensor.
    """

    layout: Layout
    stage_of_layer: tuple[int, ...]
    rank_of_expert: tuple[int, ...]
    spelling: str = "experts"
    dtype: str = "float32"


def inventory_of(model: NamedModel, side: NamedSide) -> Inventory:
    """What every rank of a side has; the table is left out where experts are contiguous."""
    tensors = {
        rank: [(name, (2,), side.dtype) for name in _held(model, side, rank)]
        for rank in range(side.layout.num_ranks)
    }
    table = side.rank_of_expert
    return Inventory(side.layout, tensors, None if list(table) == sorted(table) else table)


def matches_of(
    model: NamedModel, source: NamedSide, target: NamedSide
) -> dict[LocalName, frozenset[LocalName]]:
    """By (location, local name) of the target, all those of the source for the same tensor."""
    sources, targets = (
        [
            (rank, name, logical)
            for rank in range(side.layout.num_ranks)
            for name, logical in _held(model, side, rank).items()
        ]
        for side in (source, target)
    )
    return {
        (rank, name): frozenset((at, other) for at, other, held in sources if held == logical)
        for rank, name, logical in targets
    }


def _held(model: NamedModel, side: NamedSide, rank: int) -> dict[str, Logical]:
    """By local name, the logical tensors that a rank has a part of."""
    stage = dense_place(side.layout, rank)["pp"]
    ep = expert_place(side.layout, rank)["ep"]
    held: dict[str, Logical] = {}
    for name in model.first * (stage == 0) + model.last * (stage == side.layout.pp - 1):
        held[name] = name, None, None
    layers = [at for at in range(model.num_layers) if side.stage_of_layer[at] == stage]
    experts = [at for at in range(model.num_experts) if side.rank_of_expert[at] == ep]
    for local_layer, layer in enumerate(layers):
        for name in model.dense:
            held[f"layers.{local_layer}.{name}"] = name, layer, None
        for local_expert, expert in enumerate(experts):
            for module in model.modules:
                spelt = SPELLINGS[side.spelling].format(expert=local_expert, module=module)
                held[f"layers.{local_layer}.mlp.{spelt}"] = module, layer, expert
    return held
