"""What a rank of a layout holds of a parameter, element by element: the definition of every kind.

It is slow and obvious. For each axis of the shard it lists the indices of the full tensor that the
rank has, in the shard's order, None being padding; the shard is the product of these lists. It
shares no arithmetic with `pytest_affine.layouts`, which is judged by it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.layouts import (
    Block,
    Expert,
    Flat,
    Fused,
    Interleaved,
    Layout,
    Parameter,
    Split,
    Vocab,
)

__all__ = ["LayoutShard", "dense_place", "expert_place", "layout_shards"]

Item = TypeVar("Item")
Axis: TypeAlias = "list[int | None]"
Place: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LayoutShard:
    """A shape, and the logical element (row-major) at every address, None where it is padding."""

    shape: tuple[int, ...]
    elements: tuple[int | None, ...]


def layout_shards(layout: Layout, parameter: Parameter) -> dict[int, LayoutShard]:
    """What each rank on a stage of the parameter holds, by rank.

    Raises:
        UnsupportedLayoutError: something must divide and does not.
        InvalidMapError: the layout puts a rank on different stages of the two meshes; other
            contradictions are the caller's to avoid.
    """
    shards = {}
    for rank in range(layout.num_ranks):
        place = dense_place(layout, rank)
        if isinstance(parameter.kind, Expert) and expert_place(layout, rank)["pp"] != place["pp"]:
            raise InvalidMapError(f"rank {rank} is on two stages")
        if place["pp"] in parameter.stages:
            shards[rank] = _shard(layout, parameter, rank)
    return shards


def _shard(layout: Layout, parameter: Parameter, rank: int) -> LayoutShard:
    shape = parameter.shape
    if isinstance(parameter.kind, Flat):
        shape = (math.prod(shape),)
    axes = _axes(layout, parameter, rank)
    elements = tuple(_address(index, shape) for index in itertools.product(*axes))
    return LayoutShard(tuple(map(len, axes)), elements)


def _address(index: Sequence[int | None], shape: Sequence[int]) -> int | None:
    """Row-major address; None if any index is."""
    address = 0
    for at, extent in zip(index, shape, strict=True):
        if at is None:
            return None
        address = address * extent + at
    return address


# Ranks. The order lists axes fastest first; a rank is a number whose digits are its indices.


def dense_place(layout: Layout, rank: int) -> dict[str, int]:
    """A rank's index on each axis that cuts what is no expert: tp, cp, dp, pp."""
    degrees = {"tp": layout.tp, "cp": layout.cp, "ep": 1, "dp": layout.dp, "pp": layout.pp}
    return _place(layout, rank, degrees)


def expert_place(layout: Layout, rank: int) -> dict[str, int]:
    """A rank's index on each axis that cuts experts: etp, ep, edp, pp.

    It has the names of the order: "tp" is the index among the etp ranks, "dp" among the edp ones.
    """
    edp = layout.tp * layout.cp * layout.dp // (layout.etp * layout.ep)
    degrees = {"tp": layout.etp, "cp": 1, "ep": layout.ep, "dp": edp, "pp": layout.pp}
    return _place(layout, rank, degrees)


def _place(layout: Layout, rank: int, degrees: Mapping[str, int]) -> dict[str, int]:
    place = {}
    for axis in layout.order.split("-"):
        place[axis] = rank % degrees[axis]
        rank //= degrees[axis]
    return place


# Lists. Every kind is made of these two.


def _part(items: Sequence[Item], number: int, index: int) -> list[Item]:
    """Part `index` of `number` equal parts."""
    if len(items) % number:
        raise UnsupportedLayoutError(f"{len(items)} are not {number} equal parts")
    size = len(items) // number
    return list(items[index * size : (index + 1) * size])


def _chunk(items: Sequence[Item], number: int, index: int) -> list[Item]:
    """Part `index` of `number` as torch.chunk cuts; the last ones may be short or empty."""
    size = math.ceil(len(items) / number)
    return list(items[index * size : (index + 1) * size])


# Kinds.


def _axes(layout: Layout, parameter: Parameter, rank: int) -> list[Axis]:
    """For each axis of a rank's shard, the indices of the full tensor that it has."""
    kind, shape = parameter.kind, parameter.shape
    axes: list[Axis] = [list(range(extent)) for extent in shape]
    place = dense_place(layout, rank)
    match kind:
        case Split():
            _split(axes, kind, layout, place)
        case Fused() | Interleaved():
            axes[kind.dim] = _grouped(kind, shape[kind.dim], place["tp"], layout.tp)
        case Expert():
            _experts(axes, kind, layout, expert_place(layout, rank))
        case Vocab():
            padding: Axis = [None] * (-shape[0] % kind.multiple)
            axes[0] = _part(axes[0] + padding, layout.tp, place["tp"])
        case Flat():
            return [_flat(kind, math.prod(shape), place["dp"], layout.dp)]
    return axes


def _split(axes: list[Axis], kind: Split, layout: Layout, place: Place) -> None:
    """Cut by cut, each of what the former left."""
    degree = {"tp": layout.tp, "cp": layout.cp, "dp": layout.dp}
    for number, cut in enumerate(kind.cuts):
        dim = cut.dim % len(axes)
        later = [c for c in kind.cuts[number + 1 :] if c.dim % len(axes) == dim]
        num_blocks = math.prod(degree[c.axis] for c in later) if cut.strided else 1
        num_parts = degree[cut.axis]
        if not kind.uneven:
            _part(axes[dim], num_blocks * num_parts, 0)  # refuses what is not equal
        blocks = [_chunk(axes[dim], num_blocks, index) for index in range(num_blocks)]
        # All blocks are cut at the widths of the first.
        width = math.ceil(len(blocks[0]) / num_parts)
        start = place[cut.axis] * width
        axes[dim] = [index for block in blocks for index in block[start : start + width]]


def _grouped(kind: Fused | Interleaved, extent: int, rank: int, num_ranks: int) -> Axis:
    """The rows of groups of blocks that a rank has: those of its heads of each block."""
    groups, shard_groups = 1, None
    if isinstance(kind, Interleaved):
        groups, shard_groups = kind.groups, kind.shard_groups
    group = [(b, row) for b, block in enumerate(kind.blocks) for row in range(block.size)]
    kept: list[tuple[int, int, int]] = []  # block, head and row
    for row in range(extent):
        b, within = group[row % len(group)]
        block = kind.blocks[b]
        per_group = block.size // block.head_dim
        head = row // len(group) * per_group + within // block.head_dim
        if _has_head(block, groups * per_group, head, rank, num_ranks):
            kept.append((b, head, row))
    if shard_groups is None:
        return [row for _, _, row in kept]
    rows: Axis = []
    for index in range(shard_groups):
        for b in range(len(kind.blocks)):
            heads = sorted({head for at, head, _ in kept if at == b})
            mine = _part(heads, shard_groups, index)
            rows += [row for at, head, row in kept if at == b and head in mine]
    return rows


def _has_head(block: Block, num_heads: int, head: int, rank: int, num_ranks: int) -> bool:
    if block.rule == "whole":
        return True
    if block.rule == "kv" and num_ranks > num_heads:
        return head == rank * num_heads // num_ranks
    return head in _part(range(num_heads), num_ranks, rank)


def _experts(axes: list[Axis], kind: Expert, layout: Layout, place: Place) -> None:
    """The rank's experts, by ascending number, and its part of each."""
    dim = kind.dim % len(axes)
    experts = [_part(axes[dim], kind.num_experts, e) for e in range(kind.num_experts)]
    cut_dim = None if kind.etp_dim is None else kind.etp_dim % len(axes)
    if cut_dim == dim:
        experts = [_part(rows, layout.etp, place["tp"]) for rows in experts]
    elif cut_dim is not None:
        axes[cut_dim] = _part(axes[cut_dim], layout.etp, place["tp"])
    if kind.table is None:
        mine = _part(range(kind.num_experts), layout.ep, place["ep"])
    else:
        mine = [e for e in range(kind.num_experts) if kind.table[e] == place["ep"]]
    axes[dim] = [row for e in mine for row in experts[e]]


def _flat(kind: Flat, size: int, rank: int, num_ranks: int) -> Axis:
    """The rank's part of the group, and of that what is of this parameter."""
    group: Axis = [None] * kind.padded_total
    group[kind.offset : kind.offset + size] = range(size)
    return [element for element in _part(group, num_ranks, rank) if element is not None]
