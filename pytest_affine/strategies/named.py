"""Names of tensors on two sides, and the cases of the suite that they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from pytest_affine.contract.cases import Case
from pytest_affine.layouts import Inventory, Layout, LocalName
from pytest_affine.strategies.sharded import layouts
from pytest_affine.truth.names import (
    SPELLINGS,
    NamedModel,
    NamedSide,
    inventory_of,
    matches_of,
)

__all__ = ["name_cases", "wrong_name_cases"]

MAX_RANKS = 6


@st.composite
def name_cases(draw: DrawFn, *, max_ranks: int = MAX_RANKS) -> Case:
    """The inventories of two sides of one model, and what must be matched with what.

    All tensors have one shape; layers and experts are spread over stages and ranks unevenly.
    """
    model = draw(_models())
    source, target = draw(_sides(model, max_ranks)), draw(_sides(model, max_ranks))
    detail = {
        "source": inventory_of(model, source).to_dict(),
        "target": inventory_of(model, target).to_dict(),
        "matches": _by_tensor(matches_of(model, source, target)),
    }
    return Case(name="drawn", kind="names", detail=detail)


@st.composite
def wrong_name_cases(draw: DrawFn, *, max_ranks: int = MAX_RANKS) -> Case:
    """The same where one location of one side lacks a name, or has one too many."""
    model = draw(_models())
    sides = {
        side: inventory_of(model, draw(_sides(model, max_ranks))) for side in ("source", "target")
    }
    side = draw(st.sampled_from(sorted(sides)))
    entry, wrong = draw(_damages(sides[side]))
    detail: dict[str, Any] = {name: held.to_dict() for name, held in sides.items()}
    return Case(
        name="drawn", kind="names", detail=detail | {side: entry, "wrong": f"{side} {wrong}"}
    )


def _by_tensor(
    matches: Mapping[LocalName, frozenset[LocalName]],
) -> list[list[list[LocalName]]]:
    """For each logical tensor its parts in the target, and those in the source."""
    targets: dict[frozenset[LocalName], list[LocalName]] = {}
    for held, others in sorted(matches.items()):
        targets.setdefault(others, []).append(held)
    return [[held, sorted(others)] for others, held in targets.items()]


@st.composite
def _models(draw: DrawFn) -> NamedModel:
    tied = draw(st.booleans())
    return NamedModel(
        num_layers=draw(st.integers(1, 3)),
        num_experts=draw(st.integers(1, 5)),
        first=("embed.weight",),
        last=("norm.weight", "embed.weight" if tied else "head.weight"),
        dense=draw(st.sampled_from([("router.weight",), ("qkv.weight", "qkv.bias")])),
        modules=draw(st.sampled_from([("w1",), ("w1", "w2"), ()])),
    )


@st.composite
def _sides(draw: DrawFn, model: NamedModel, max_ranks: int) -> NamedSide:
    layout = draw(layouts(max_ranks=max_ranks).filter(_has_one_stage_per_rank))
    stages = st.lists(
        st.integers(0, layout.pp - 1), min_size=model.num_layers, max_size=model.num_layers
    )
    ranks = st.lists(
        st.integers(0, layout.ep - 1), min_size=model.num_experts, max_size=model.num_experts
    )
    return NamedSide(
        layout=layout,
        stage_of_layer=tuple(sorted(draw(stages))),
        rank_of_expert=tuple(draw(ranks)),
        spelling=draw(st.sampled_from(sorted(SPELLINGS))),
        dtype=draw(st.sampled_from(["float32", "bfloat16"])),
    )


def _has_one_stage_per_rank(layout: Layout) -> bool:
    return layout.order.startswith("pp") or layout.order.endswith("pp")


@st.composite
def _damages(draw: DrawFn, inventory: Inventory) -> tuple[dict[str, Any], str]:
    entry = inventory.to_dict()
    at = draw(st.sampled_from(sorted(entry["tensors"])))
    held = entry["tensors"][at]
    # A tied one may be on one of its stages alone.
    lost = [tensor for tensor in held if tensor[0] != "embed.weight"]
    loses = draw(st.booleans())
    if lost and loses:
        held.remove(tensor := draw(st.sampled_from(lost)))
        return entry, f"location {at} lacks {tensor[0]}"
    held.append(["extra.weight", [2], "float32"])
    return entry, f"location {at} has extra.weight too many"
