"""What each kind means: the map over the cells of the mesh axes that the kind is cut over.

Cells are numbered row-major over the kind's axes, in their order. Ranks that differ on other axes
only are replicas, and no concern of this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, product
from typing import Any

from pytest_affine.builders import (
    contiguous_split_map,
    flat_map,
    mesh_map,
    replicated_map,
)
from pytest_affine.builders.arguments import axis_of
from pytest_affine.builders.runs import Run, box_map, map_along, merged
from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.geometry import row_major_strides
from pytest_affine.layouts.kinds import (
    Block,
    Expert,
    Flat,
    Fused,
    Interleaved,
    Kind,
    Split,
    Vocab,
    Whole,
)
from pytest_affine.maps import Padding, ParamAffineMap

__all__ = ["cell_map"]

Shape = tuple[int, ...]
Degrees = Mapping[str, int]


def cell_map(kind: Kind, shape: Shape, degrees: Degrees) -> ParamAffineMap:
    """The map of a parameter of this kind over the cells of `kind.axes`.

    Args:
        kind: how the parameter is cut.
        shape: of the full tensor.
        degrees: how many ranks each mesh axis has; axes that the kind does not name may be absent.

    Raises:
        InvalidMapError: the kind contradicts the shape or the degrees.
        UnsupportedLayoutError: something must divide and does not.
    """
    match kind:
        case Whole():
            return replicated_map(shape, 1)
        case Split():
            return _split_map(kind, shape, degrees)
        case Fused():
            return _grouped_map(
                Interleaved(groups=1, blocks=kind.blocks, dim=kind.dim), shape, degrees
            )
        case Interleaved():
            return _grouped_map(kind, shape, degrees)
        case Expert():
            return _expert_map(kind, shape, degrees)
        case Vocab():
            return _vocab_map(kind, shape, degrees["tp"])
        case Flat():
            return _flat_map(kind, shape, degrees["dp"])


def _share(extent: int, degree: int, what: str, axis: str) -> int:
    """What each of `degree` ranks holds of `extent` when all hold equally much."""
    if extent % degree:
        raise UnsupportedLayoutError(
            f"{what} is {extent}, which {degree} {axis} ranks can not share equally; "
            f"{axis} must divide it"
        )
    return extent // degree


def _split_map(kind: Split, shape: Shape, degrees: Degrees) -> ParamAffineMap:
    placements: list[list[Any]] = []
    mesh = [degrees[cut.axis] for cut in kind.cuts]
    dims = [axis_of(cut.dim, shape, f"cuts[{at}].dim") for at, cut in enumerate(kind.cuts)]
    for at, (cut, dim) in enumerate(zip(kind.cuts, dims, strict=True)):
        later = math.prod(mesh[i] for i in range(at + 1, len(mesh)) if dims[i] == dim)
        placements.append(["strided_shard", dim, later] if cut.strided else ["shard", dim])
    for dim in set(dims) if not kind.uneven else ():
        names = [cut.axis for cut, cut_dim in zip(kind.cuts, dims, strict=True) if cut_dim == dim]
        together = math.prod(degrees[name] for name in names)
        _share(shape[dim], together, f"extent of dim {dim}", " x ".join(names))
    return mesh_map(shape, mesh, placements)


def _grouped_map(kind: Interleaved, shape: Shape, degrees: Degrees) -> ParamAffineMap:
    num_ranks, dim = degrees["tp"], axis_of(kind.dim, shape, "dim")
    group = sum(block.size for block in kind.blocks)
    if kind.groups * group != shape[dim]:
        raise InvalidMapError(
            f"the blocks must fill dim {dim}, which has {shape[dim]} indices; {kind.groups} groups "
            f"of {group} have {kind.groups * group}"
        )
    return map_along(shape, dim, {r: _held(kind, r, num_ranks) for r in range(num_ranks)})


def _held(kind: Interleaved, rank: int, num_ranks: int) -> list[Run]:
    """What a tensor-parallel rank holds of the groups, in its shard's order."""
    group = sum(block.size for block in kind.blocks)
    starts = accumulate((block.size for block in kind.blocks), initial=0)
    parts: list[list[Run]] = [[] for _ in range(kind.shard_groups or 1)]
    for block, start in zip(kind.blocks, starts, strict=False):
        by_rank = [_heads(block, kind.groups, other, num_ranks) for other in range(num_ranks)]
        holders = frozenset(r for r, heads in enumerate(by_rank) if heads == by_rank[rank])
        for part, heads in zip(parts, _shared(by_rank[rank], len(parts), block.name), strict=True):
            part += (
                Run(at * group + start + first, length, holders)
                for at, first, length in _in_groups(block, heads)
            )
    runs = [run for part in parts for run in part]
    if kind.shard_groups is None:
        runs.sort(key=lambda run: run.start)
    return merged(runs)


def _shared(heads: range, num_parts: int, name: str) -> list[range]:
    """The heads in equal parts, one per group of the shard."""
    if len(heads) % num_parts:
        raise UnsupportedLayoutError(
            f"a rank holds {len(heads)} heads of block {name!r}, which {num_parts} shard_groups "
            f"can not share equally; shard_groups must divide them"
        )
    width = len(heads) // num_parts
    return [heads[index * width : (index + 1) * width] for index in range(num_parts)]


def _heads(block: Block, groups: int, rank: int, num_ranks: int) -> range:
    """Which heads of a block, counted through all groups, a tensor-parallel rank holds."""
    num_heads = groups * block.num_heads
    if block.rule == "whole":
        return range(num_heads)
    if block.rule == "kv" and num_ranks > num_heads:
        head = rank * num_heads // num_ranks
        return range(head, head + 1)
    width = _share(num_heads, num_ranks, f"number of heads of block {block.name!r}", "tp")
    return range(rank * width, (rank + 1) * width)


def _in_groups(block: Block, heads: range) -> Iterator[tuple[int, int, int]]:
    """Heads counted through all groups, as (group, first index in the block, length) per group."""
    head = heads.start
    while head < heads.stop:
        group, first = divmod(head, block.num_heads)
        stop = min(heads.stop, (group + 1) * block.num_heads)
        yield group, first * block.head_dim, (stop - head) * block.head_dim
        head = stop


def _expert_map(kind: Expert, shape: Shape, degrees: Degrees) -> ParamAffineMap:
    dim, ep, etp = axis_of(kind.dim, shape, "dim"), degrees["ep"], degrees["etp"]
    cut_dim = None if kind.etp_dim is None else axis_of(kind.etp_dim, shape, "etp_dim")
    size, rest = divmod(shape[dim], kind.num_experts)
    if rest:
        raise InvalidMapError(
            f"num_experts must divide extent {shape[dim]} of dim {dim}, got {kind.num_experts}"
        )
    # What an expert-tensor-parallel rank holds of one expert, along each axis.
    widths = [size if axis == dim else extent for axis, extent in enumerate(shape)]
    if cut_dim is not None:
        widths[cut_dim] = _share(widths[cut_dim], etp, f"what etp cuts of dim {cut_dim}", "etp")
    table, cells = _expert_table(kind, ep), list(product(range(ep), range(etp)))
    axes_by_cell = {}
    for number, (rank, part) in enumerate(cells):
        axes = []
        for axis, width in enumerate(widths):
            cut = axis == cut_dim
            holders = _cells_where(cells, 1, part) if cut else frozenset(range(len(cells)))
            axes.append([Run(part * width if cut else 0, width, holders)])
        (first,), same_rank = axes[dim], _cells_where(cells, 0, rank)
        axes[dim] = merged(
            Run(expert * size + first.start, first.length, first.locations & same_rank)
            for expert, owner in enumerate(table)
            if owner == rank
        )
        axes_by_cell[number] = axes
    return box_map(shape, axes_by_cell)


def _cells_where(cells: Sequence[tuple[int, int]], axis: int, index: int) -> frozenset[int]:
    return frozenset(number for number, cell in enumerate(cells) if cell[axis] == index)


def _expert_table(kind: Expert, ep: int) -> Sequence[int]:
    """For each expert its expert-parallel rank."""
    if kind.table is None:
        width = _share(kind.num_experts, ep, "num_experts", "ep")
        return [expert // width for expert in range(kind.num_experts)]
    if unknown := [rank for rank in kind.table if not 0 <= rank < ep]:
        raise InvalidMapError(
            f"table must hold expert-parallel ranks, one of {list(range(ep))}, got {unknown}"
        )
    return kind.table


def _vocab_map(kind: Vocab, shape: Shape, num_ranks: int) -> ParamAffineMap:
    axis_of(0, shape, "the axis of a vocabulary's rows")
    num_rows, rest = shape[0], shape[1:]
    padded = -(-num_rows // kind.multiple) * kind.multiple
    width = _share(padded, num_ranks, "number of padded rows", "tp")
    held = [min(max(num_rows - rank * width, 0), width) for rank in range(num_ranks)]
    map_ = contiguous_split_map(shape, held, 0)
    strides = row_major_strides((width, *rest))
    return ParamAffineMap(
        shape,
        dict.fromkeys(range(num_ranks), (width, *rest)),
        map_.pieces_by_location,
        {
            rank: [Padding((width - rows, *rest), rows * strides[0], strides)]
            for rank, rows in enumerate(held)
            if rows < width
        },
    )


def _flat_map(kind: Flat, shape: Shape, num_ranks: int) -> ParamAffineMap:
    size = math.prod(shape)
    if kind.offset + size > kind.padded_total:
        raise InvalidMapError(
            f"offset {kind.offset} and {size} elements of shape {list(shape)} must stay within "
            f"padded_total {kind.padded_total}"
        )
    width = _share(kind.padded_total, num_ranks, "padded_total", "dp")
    bounds = [min(max(rank * width - kind.offset, 0), size) for rank in range(num_ranks + 1)]
    return flat_map({"": shape}, dict(enumerate(pairwise(bounds))))[""]
