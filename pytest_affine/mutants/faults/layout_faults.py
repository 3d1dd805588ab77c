"""Describers with one fault each: of a layout and a parameter they make another map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pytest_affine.builders import block_gather_map, contiguous_split_map
from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import AffineTransferError
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
)
from pytest_affine.layouts.layout import DEFAULT_ORDER
from pytest_affine.maps import ParamAffineMap
from pytest_affine.mutants.faults.parts import with_pieces


class TakesForAnotherKind(Implementation):
    """Describes some parameters as if they were of another kind."""

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        kind = self.taken_for(parameter.kind, layout)
        return super().describe(layout, replace(parameter, kind=kind))

    def taken_for(self, kind: Kind, layout: Layout) -> Kind:
        raise NotImplementedError


class CutsFusedInEqualChunks(TakesForAnotherKind):
    """Cuts fused queries, keys and values into equal chunks."""

    def taken_for(self, kind: Kind, layout: Layout) -> Kind:
        if isinstance(kind, Fused) and len(kind.blocks) == 3:
            return Split((Cut("tp", kind.dim),), uneven=True)
        return kind


class ForgetsGateAndUp(TakesForAnotherKind):
    """Cuts gate and up together as if they were one block of rows."""

    def taken_for(self, kind: Kind, layout: Layout) -> Kind:
        if isinstance(kind, Fused) and len(kind.blocks) == 2:
            return Split((Cut("tp", kind.dim),), uneven=True)
        return kind


class FindsGateAndUpInRows(Implementation):
    """Cuts plain rows as if they were gate and up."""

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        kind, size = parameter.kind, parameter.shape[:1]
        if kind == Split((Cut("tp", 0),)) and size[0] % (2 * layout.tp) == 0:
            halves = [Block(name=name, size=size[0] // 2) for name in ("gate", "up")]
            parameter = replace(parameter, kind=Fused(tuple(halves)))
        return super().describe(layout, parameter)


class CutsThroughHeads(TakesForAnotherKind):
    """Cuts a raw interval of rows where there are fewer KV heads than ranks."""

    def taken_for(self, kind: Kind, layout: Layout) -> Kind:
        if isinstance(kind, (Fused, Interleaved)):
            groups = kind.groups if isinstance(kind, Interleaved) else 1
            heads = [groups * block.num_heads for block in kind.blocks if block.rule == "kv"]
            if any(number < layout.tp for number in heads):
                return Split((Cut("tp", kind.dim),), uneven=True)
        return kind


class IgnoresExpertTables(TakesForAnotherKind):
    """Takes experts to be contiguous, whatever the table says."""

    def taken_for(self, kind: Kind, layout: Layout) -> Kind:
        return replace(kind, table=None) if isinstance(kind, Expert) else kind


class DeclaresReplicas(TakesForAnotherKind):
    """Declares what data-parallel ranks share to be whole on each."""

    def taken_for(self, kind: Kind, layout: Layout) -> Kind:
        return Whole() if isinstance(kind, Split) and kind.axes == ("dp",) else kind


class CutsWhatDoesNotDivide(TakesForAnotherKind):
    """Cuts unevenly where parts must be equal and can't be."""

    def taken_for(self, kind: Kind, layout: Layout) -> Kind:
        return replace(kind, uneven=True) if isinstance(kind, Split) else kind


class KeepsGroups(TakesForAnotherKind):
    """Keeps the order of groups where a shard has its blocks end to end."""

    def taken_for(self, kind: Kind, layout: Layout) -> Kind:
        return replace(kind, shard_groups=None) if isinstance(kind, Interleaved) else kind


class StartsFlatGroupsAnew(TakesForAnotherKind):
    """Cuts a flat parameter as if its group began with it."""

    def taken_for(self, kind: Kind, layout: Layout) -> Kind:
        return replace(kind, offset=0) if isinstance(kind, Flat) else kind


class TakesForAnotherLayout(Implementation):
    """Describes parameters over another layout of as many ranks."""

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        return super().describe(self.taken_for(layout, parameter), parameter)

    def taken_for(self, layout: Layout, parameter: Parameter) -> Layout:
        raise NotImplementedError


class IgnoresTheOrder(TakesForAnotherLayout):
    """Numbers ranks in the usual order of axes, whatever the layout's."""

    def taken_for(self, layout: Layout, parameter: Parameter) -> Layout:
        return replace(layout, order=DEFAULT_ORDER)


class TakesTensorRanksForExperts(TakesForAnotherLayout):
    """Cuts experts over the tensor-parallel ranks of the other parameters."""

    def taken_for(self, layout: Layout, parameter: Parameter) -> Layout:
        num_ranks = layout.tp * layout.cp * layout.dp
        return layout if num_ranks % (layout.tp * layout.ep) else replace(layout, etp=layout.tp)


class AssemblesInRankOrder(TakesForAnotherLayout):
    """Lays the intervals of a flat group end to end in the order of ranks."""

    def taken_for(self, layout: Layout, parameter: Parameter) -> Layout:
        first = ["dp", *(axis for axis in layout.order.split("-") if axis != "dp")]
        flat = isinstance(parameter.kind, Flat)
        return replace(layout, order="-".join(first)) if flat else layout


class ForgetsTheSecondStage(Implementation):
    """Describes tied parameters on their first stage only."""

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        return super().describe(layout, replace(parameter, stages=parameter.stages[:1]))


class ChangesMaps(Implementation):
    """Describes, and gets something wrong in the map."""

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        right = super().describe(layout, parameter)
        return self.changed(right, layout, parameter)

    def changed(
        self, right: ParamAffineMap, layout: Layout, parameter: Parameter
    ) -> ParamAffineMap:
        raise NotImplementedError


class KeepsRowStrides(ChangesMaps):
    """Gives shards of columns the strides of the full tensor."""

    def changed(
        self, right: ParamAffineMap, layout: Layout, parameter: Parameter
    ) -> ParamAffineMap:
        return with_pieces(right, lambda _, piece: replace(piece, shard_strides=piece.full_strides))


class FindsNoReplicas(ChangesMaps):
    """Has each rank name itself only as a holder."""

    def changed(
        self, right: ParamAffineMap, layout: Layout, parameter: Parameter
    ) -> ParamAffineMap:
        return with_pieces(right, lambda at, piece: replace(piece, locations=(at,)))


class ScalesReplicas(ChangesMaps):
    """Takes what several ranks hold to be parts of a sum."""

    def changed(
        self, right: ParamAffineMap, layout: Layout, parameter: Parameter
    ) -> ParamAffineMap:
        return with_pieces(right, lambda _, piece: replace(piece, scale=1 / len(piece.locations)))


class TakesSlotsForExperts(ChangesMaps):
    """Takes the number of an expert on its rank for its number in the model."""

    def changed(
        self, right: ParamAffineMap, layout: Layout, parameter: Parameter
    ) -> ParamAffineMap:
        if not isinstance(parameter.kind, Expert) or parameter.kind.etp_dim is not None:
            return right
        return with_pieces(right, lambda _, piece: replace(piece, full_offset=piece.shard_offset))


class TakesPaddingForRows(Implementation):
    """Describes a vocabulary that has its padding for rows."""

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        kind, shape = parameter.kind, parameter.shape
        if isinstance(kind, Vocab) and shape:
            rows = -(-shape[0] // kind.multiple) * kind.multiple
            parameter = replace(parameter, shape=(rows, *shape[1:]))
        return super().describe(layout, parameter)


class Gathers(Implementation):
    """Lists the rows that each rank holds, of parameters of one kind, and lists others."""

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        right = super().describe(layout, parameter)
        rows = self.rows(layout, parameter)
        if rows is None:
            return right
        dim, rows_of = rows
        held = {rank: rows_of(rank) for rank in right.locations}
        return block_gather_map(parameter.shape, held, 1, dim)

    def rows(
        self, layout: Layout, parameter: Parameter
    ) -> tuple[int, Callable[[int], Sequence[int]]] | None:
        """The dim and by rank the rows, or None for what is described right."""
        raise NotImplementedError


class GivesHeadsInTurn(Gathers):
    """Gives KV heads to ranks in turn where there are fewer heads than ranks."""

    def rows(self, layout: Layout, parameter: Parameter) -> Any:
        kind = parameter.kind
        if not isinstance(kind, Fused) or len(kind.blocks) != 3:
            return None
        q, k, _ = kind.blocks
        if k.num_heads >= layout.tp:
            return None
        width = q.size // layout.tp

        def rows_of(rank: int) -> list[int]:
            tp = layout.coordinates(rank, "dense")["tp"]
            first = tp % k.num_heads * k.head_dim
            keys = [q.size + first + row for row in range(k.head_dim)]
            own = range(tp * width, (tp + 1) * width)
            return [*own, *keys, *(k.size + row for row in keys)]

        return kind.dim, rows_of


class CutsOuterBlocksByTheirOwnSizes(Gathers):
    """Cuts a strided shard out of each outer block by that block's own size."""

    def rows(self, layout: Layout, parameter: Parameter) -> Any:
        kind = parameter.kind
        if not isinstance(kind, Split) or [cut.strided for cut in kind.cuts] != [True, False]:
            return None
        outer, inner = (getattr(layout, axis) for axis in kind.axes)
        dim = kind.cuts[0].dim

        def rows_of(rank: int) -> list[int]:
            place = layout.coordinates(rank, "dense")
            blocks = _chunks(range(parameter.shape[dim]), inner)
            parts = [_chunks(block, outer)[place[kind.axes[0]]] for block in blocks]
            return [*_chunks([row for part in parts for row in part], inner)[place[kind.axes[1]]]]

        return dim, rows_of


def _chunks(rows: Sequence[int], num_parts: int) -> list[Sequence[int]]:
    size = -(-len(rows) // num_parts)
    return [rows[part * size : (part + 1) * size] for part in range(num_parts)]


class RoundsSharesToGrains(Implementation):
    """Rounds uneven shares down to a grain of 4."""

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        right = super().describe(layout, parameter)
        kind, shape = parameter.kind, parameter.shape
        if not isinstance(kind, Split) or not kind.uneven or layout.num_ranks != layout.tp:
            return right
        dim = kind.cuts[0].dim
        widths = [right.shard_shape(rank)[dim] // 4 * 4 for rank in right.locations]
        covered = [*shape]
        covered[dim] = sum(widths)
        return replace(contiguous_split_map(covered, widths, dim), logical_shape=shape)


class ForgetsPaddingOfRows(ChangesMaps):
    """Leaves the padding of a vocabulary out of its shards."""

    def changed(
        self, right: ParamAffineMap, layout: Layout, parameter: Parameter
    ) -> ParamAffineMap:
        if not isinstance(parameter.kind, Vocab):
            return right
        held = dict(right.pieces_by_location)
        rows = {at: sum(piece.shape[0] for piece in held.get(at, ())) for at in right.locations}
        shapes = {at: (rows[at], *right.shard_shape(at)[1:]) for at in right.locations}
        return ParamAffineMap(right.logical_shape, shapes, held)


class RemembersByName(Implementation):
    """Remembers the map of each name and shape, for one layout alone."""

    def __init__(self) -> None:
        self.known: dict[Any, ParamAffineMap] = {}

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        key = self.key(layout, parameter)
        if key not in self.known:
            self.known[key] = super().describe(layout, parameter)
        return self.known[key]

    def key(self, layout: Layout, parameter: Parameter) -> Any:
        return layout, parameter.name, parameter.shape


class ForgetsTheShape(RemembersByName):
    """Remembers the map of each layout, name and kind, whatever the shape."""

    def key(self, layout: Layout, parameter: Parameter) -> Any:
        return layout, parameter.name, parameter.kind


class ForgetsTheOrder(RemembersByName):
    """Remembers the map of each parameter and degrees, whatever the order of ranks."""

    def key(self, layout: Layout, parameter: Parameter) -> Any:
        return replace(layout, order=DEFAULT_ORDER), parameter


class ForgetsStages(RemembersByName):
    """Remembers the map of each layout and parameter, whatever its stages."""

    def key(self, layout: Layout, parameter: Parameter) -> Any:
        return layout, replace(parameter, stages=(0,))


class RemembersBlocks(Implementation):
    """Cuts rows into the blocks of what was described before."""

    num_blocks = 1

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        kind, rows = parameter.kind, parameter.shape[:1]
        if isinstance(kind, Fused):
            self.num_blocks = len(kind.blocks)
        elif kind == Split((Cut("tp", 0),)) and rows[0] % (self.num_blocks * layout.tp) == 0:
            size = rows[0] // self.num_blocks
            blocks = tuple(Block(name=f"{at}", size=size) for at in range(self.num_blocks))
            parameter = replace(parameter, kind=Fused(blocks))
        return super().describe(layout, parameter)


class RemembersTheLastOrder(Implementation):
    """Numbers ranks in the order of the layout before."""

    order = DEFAULT_ORDER

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        before, self.order = self.order, layout.order
        return super().describe(replace(layout, order=before), parameter)


class RefusesSecondStages(Implementation):
    """Refuses what is on another stage than the parameter before."""

    stages: tuple[int, ...] = ()

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        if self.stages not in ((), parameter.stages):
            raise AffineTransferError(f"stages must be {self.stages}, got {parameter.stages}")
        self.stages = parameter.stages
        return super().describe(layout, parameter)
