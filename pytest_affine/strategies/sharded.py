"""Layouts, parameters of every kind for them, and the cases of the suite that they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pytest_affine.contract.cases import Case
from pytest_affine.layouts import (
    Block,
    Cut,
    Expert,
    Flat,
    Fused,
    Interleaved,
    Kind,
    Layout,
    Parameter,
    Split,
    Vocab,
    Whole,
    attention_blocks,
)

__all__ = ["LAYOUT_KINDS", "layout_cases", "layout_sequences", "layouts", "parameters"]

MAX_DEGREE = 4


def layouts(*, max_ranks: int = 16) -> SearchStrategy[Layout]:
    """Layouts of up to `max_ranks` ranks: any degrees up to 4, any `etp` and `ep`, any order.

    Most have pp first or last, since elsewhere the two meshes may disagree on a rank's stage. They
    shrink to one rank.

    Raises:
        ValueError: `max_ranks` below 1.
    """
    if max_ranks < 1:
        raise ValueError(f"max_ranks must be 1 or more, got {max_ranks}")
    degrees = product(range(1, MAX_DEGREE + 1), repeat=4)
    return _layouts(sorted((d for d in degrees if math.prod(d) <= max_ranks), key=math.prod))


@st.composite
def _layouts(draw: DrawFn, degrees: Sequence[tuple[int, ...]]) -> Layout:
    tp, cp, dp, pp = draw(st.sampled_from(degrees))
    etp = draw(st.sampled_from(_divisors(tp * cp * dp, MAX_DEGREE)))
    ep = draw(st.sampled_from(_divisors(tp * cp * dp // etp, 16)))
    order = list(draw(st.permutations(["tp", "cp", "ep", "dp"])))
    order.insert(draw(st.sampled_from([4, 0, 4, 0, 4, 1, 2, 3])), "pp")
    return Layout(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=etp, order="-".join(order))


def _divisors(number: int, most: int) -> list[int]:
    return [d for d in range(1, min(number, most) + 1) if number % d == 0]


def parameters(
    layout: Layout, *, kinds: Sequence[str] = (), name: str = "weight"
) -> SearchStrategy[Parameter]:
    """Parameters that fit a layout, on any of its stages; some do not divide over its ranks.

    Args:
        layout: the layout.
        kinds: those of `LAYOUT_KINDS` to draw from; all if empty.
        name: of the parameter.

    Raises:
        ValueError: a kind that is none of them.
    """
    if unknown := [kind for kind in kinds if kind not in LAYOUT_KINDS]:
        raise ValueError(f"kinds must be among {LAYOUT_KINDS}, got {unknown}")
    strategies = [_KINDS[kind](layout) for kind in kinds or LAYOUT_KINDS]
    stages = st.sets(st.integers(0, layout.pp - 1), min_size=1)
    return st.builds(
        lambda drawn, stages: Parameter(
            name=name,
            shape=tuple(drawn[1]),
            dtype="float32",
            kind=drawn[0],
            stages=tuple(sorted(stages)),
        ),
        st.one_of(strategies),
        stages,
    )


def layout_cases(*, max_ranks: int = 16, kinds: Sequence[str] = ()) -> SearchStrategy[Case]:
    """A drawn layout and parameter, as a case of the suite."""
    return _described(max_ranks, kinds).map(
        lambda entry: Case(name="drawn", kind="layout", detail=entry)
    )


def layout_sequences(*, max_ranks: int = 16, kinds: Sequence[str] = ()) -> SearchStrategy[Case]:
    """Two or three parameters of one name, each with its layout, as one case of the suite."""
    return st.lists(_described(max_ranks, kinds), min_size=2, max_size=3).map(
        lambda entries: Case(name="drawn", kind="layout", detail={"sequence": entries})
    )


def _described(max_ranks: int, kinds: Sequence[str]) -> SearchStrategy[dict[str, Any]]:
    return layouts(max_ranks=max_ranks).flatmap(
        lambda layout: parameters(layout, kinds=kinds).map(
            lambda parameter: {"layout": layout.to_dict(), "parameter": parameter.to_dict()}
        )
    )


Drawn = tuple[Kind, Sequence[int]]
"""A kind, and the shape of its full tensor."""

small = st.integers(1, 4)


def _wholes(layout: Layout) -> SearchStrategy[Drawn]:
    return st.tuples(st.just(Whole()), st.lists(st.integers(0, 3), max_size=3))


@st.composite
def _splits(draw: DrawFn, layout: Layout) -> Drawn:
    shape = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    axes = draw(st.lists(st.sampled_from(["tp", "cp", "dp"]), min_size=1, unique=True))
    dims = st.integers(-len(shape), len(shape) - 1)
    cuts = tuple(Cut(axis, draw(dims), draw(st.booleans())) for axis in axes)
    if draw(st.booleans()):
        return Split(cuts, uneven=True), shape
    for cut in cuts:
        shape[cut.dim] *= getattr(layout, cut.axis)
    return Split(cuts), [min(extent, 64) for extent in shape]


@st.composite
def _block_lists(draw: DrawFn, num_ranks: int) -> tuple[Block, ...]:
    rules = draw(st.lists(st.sampled_from(["split", "whole", "kv"]), min_size=1, max_size=3))
    blocks = []
    for rule in rules:
        head_dim = draw(st.integers(1, 2))
        heads = draw(small) * (num_ranks if rule == "split" and draw(st.booleans()) else 1)
        blocks.append(Block(name=rule, size=heads * head_dim, rule=rule, head_dim=head_dim))
    return tuple(blocks)


def _beside(draw: DrawFn, dim: int, extent: int) -> list[int]:
    """A shape with this extent at `dim`, and up to two other axes."""
    shape = draw(st.lists(st.integers(1, 2), min_size=dim, max_size=2))
    return [*shape[:dim], extent, *shape[dim:]]


@st.composite
def _fused(draw: DrawFn, layout: Layout) -> Drawn:
    blocks, dim = draw(_block_lists(layout.tp)), draw(st.integers(0, 1))
    return Fused(blocks, dim), _beside(draw, dim, sum(block.size for block in blocks))


@st.composite
def _interleaved(draw: DrawFn, layout: Layout) -> Drawn:
    groups, dim = draw(small), draw(st.integers(0, 1))
    if draw(st.booleans()):
        blocks = draw(_block_lists(layout.tp))
    else:
        blocks = attention_blocks(heads=draw(small) * layout.tp, kv_heads=1, head_dim=1)
    kind = Interleaved(
        groups=groups,
        blocks=blocks,
        dim=dim,
        shard_groups=draw(st.sampled_from([None, 1, groups])),
    )
    return kind, _beside(draw, dim, groups * sum(block.size for block in blocks))


@st.composite
def _experts(draw: DrawFn, layout: Layout) -> Drawn:
    num_experts = draw(small) * draw(st.sampled_from([1, layout.ep]))
    dim, ranks = draw(st.integers(0, 1)), st.integers(0, layout.ep - 1)
    shape = _beside(draw, dim, num_experts * draw(st.integers(1, 2)) * layout.etp)
    etp_dim = draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    if etp_dim is not None and etp_dim % len(shape) != dim and draw(st.booleans()):
        shape[etp_dim] *= layout.etp
    table = draw(st.none() | st.lists(ranks, min_size=num_experts, max_size=num_experts))
    kind = Expert(
        num_experts=num_experts,
        dim=dim,
        table=None if table is None else tuple(table),
        etp_dim=etp_dim,
    )
    return kind, shape


@st.composite
def _vocabularies(draw: DrawFn, layout: Layout) -> Drawn:
    multiple = draw(small) * draw(st.sampled_from([1, layout.tp]))
    return Vocab(multiple), _beside(draw, 0, draw(st.integers(0, 12)))


@st.composite
def _flat(draw: DrawFn, layout: Layout) -> Drawn:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    offset = draw(st.integers(0, 9))
    total = offset + math.prod(shape) + draw(st.integers(0, 9))
    if draw(st.booleans()):
        total += -total % layout.dp
    return Flat(offset, total), shape


_KINDS: dict[str, Callable[[Layout], SearchStrategy[Drawn]]] = {
    "whole": _wholes,
    "split": _splits,
    "fused": _fused,
    "interleaved": _interleaved,
    "expert": _experts,
    "vocab": _vocabularies,
    "flat": _flat,
}

LAYOUT_KINDS = tuple(_KINDS)
"""The kinds of parameters, by the names that their JSON has."""
