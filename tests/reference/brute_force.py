"""What maps and plans mean, element by element, and planning by comparing all pairs of boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from pytest_affine.geometry import PlacedBox, overlap, place_piece
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.plans import PlanBudget, TransferPlan, TransferSegment
from pytest_affine.reference.merging import Copy, box_form, merge_copies


def addresses(shape: Sequence[int], offset: int, strides: Sequence[int]) -> Iterator[int]:
    """Addresses of a block, its last axis fastest."""
    for index in product(*map(range, shape)):
        yield offset + sum(i * stride for i, stride in zip(index, strides, strict=True))


def shard_contents(map_: ParamAffineMap, location: int) -> dict[int, int]:
    """{shard address: address in the full tensor} of one location."""
    contents: dict[int, int] = {}
    for piece in map_.pieces(location):
        full = addresses(piece.shape, piece.full_offset, piece.full_strides)
        shard = addresses(piece.shape, piece.shard_offset, piece.shard_strides)
        contents.update(zip(shard, full, strict=True))
    return contents


def holders(map_: ParamAffineMap) -> dict[int, list[int]]:
    """{address in the full tensor: locations that hold it}, one entry for each time."""
    held: dict[int, list[int]] = {}
    for location in map_.locations:
        for piece in map_.pieces(location):
            for address in addresses(piece.shape, piece.full_offset, piece.full_strides):
                held.setdefault(address, []).append(location)
    return held


def keeps_its_rules(map_: ParamAffineMap) -> bool:
    """Whether a map of scale 1 keeps MAP-COVER, MAP-HOLD and MAP-TILE."""
    held = holders(map_)
    if sorted(held) != list(range(map_.num_elements)):
        return False
    for location in map_.locations:
        filled: list[int] = []
        for piece in map_.pieces(location):
            for address in addresses(piece.shape, piece.full_offset, piece.full_strides):
                if list(piece.locations) != held[address]:
                    return False
        laid: list[AffinePiece | Padding] = [*map_.pieces(location), *map_.padding(location)]
        for block in laid:
            filled += addresses(block.shape, block.shard_offset, block.shard_strides)
        if sorted(filled) != list(range(map_.shard_size(location))):
            return False
    return True


def assert_exact(plan: TransferPlan, source: ParamAffineMap, target: ParamAffineMap) -> None:
    """PLAN-TILE, PLAN-SOURCE, PLAN-BOUNDS and PLAN-ONCE, one element at a time."""
    sources = {location: shard_contents(source, location) for location in source.locations}
    targets = {location: shard_contents(target, location) for location in target.locations}
    written: dict[tuple[int, int], int] = {}
    for segment in plan.segments:
        read = addresses(segment.shape, segment.source_offset, segment.source_strides)
        wrote = addresses(segment.shape, segment.target_offset, segment.target_strides)
        for from_address, to_address in zip(read, wrote, strict=True):
            place = (segment.target_location, to_address)
            assert place not in written, f"{place} is written twice"
            written[place] = sources[segment.source_location][from_address]
    wanted = {
        (at, address): full for at, shard in targets.items() for address, full in shard.items()
    }
    assert written == wanted
    assert plan.moved_elements == len(written)
    assert all(segment.num_elements for segment in plan.segments)


def locations_read(plan: TransferPlan, target: ParamAffineMap) -> dict[tuple[int, int], int]:
    """{(target location, address in the full tensor): source location that it is read from}."""
    targets = {location: shard_contents(target, location) for location in target.locations}
    return {
        (segment.target_location, targets[segment.target_location][address]): (
            segment.source_location
        )
        for segment in plan.segments
        for address in addresses(segment.shape, segment.target_offset, segment.target_strides)
    }


def assert_merged(plan: TransferPlan) -> None:
    """PLAN-MERGED: no two segments continue each other on both sides along one axis."""
    for first, second in product(plan.segments, repeat=2):
        if first.source_location != second.source_location:
            continue
        if first.target_location != second.target_location:
            continue
        read = second.source_offset - first.source_offset
        wrote = second.target_offset - first.target_offset
        axes = list(zip(first.shape, first.target_strides, first.source_strides, strict=True))
        for axis, (extent, to_stride, from_stride) in enumerate(axes):
            rest = axes[:axis] + axes[axis + 1 :]
            others = zip(second.shape, second.target_strides, second.source_strides, strict=True)
            other_axes = [other for other in others if other[1:] != (to_stride, from_stride)]
            if rest == other_axes:
                assert (wrote, read) != (extent * to_stride, extent * from_stride), (first, second)


def all_pairs_plan(
    source: ParamAffineMap,
    target: ParamAffineMap,
    choose: Callable[[tuple[int, ...]], int] = min,
) -> TransferPlan:
    """The plan of two valid maps, every box of the one compared with every box of the other.

    `choose` gets the holders of each region that has several, in order, and returns one of them.
    """
    copies = []
    for location in target.locations:
        regions = [
            (*shared, wanted, held.locations)
            for wanted, _ in boxes(target, location)
            for at in source.locations
            for box, held in boxes(source, at)
            if held.locations[0] == at and (shared := overlap(wanted, box))
        ]
        for origin, shape, wanted, held_at in sorted(regions, key=lambda region: region[0]):
            holder = choose(held_at) if len(held_at) > 1 else held_at[0]
            region = wanted.cut(origin, shape)
            for box, _ in boxes(source, holder):
                if shared := overlap(region, box):
                    copies.append(copy(location, region.cut(*shared), holder, box.cut(*shared)))
    segments = tuple(map(segment, merge_copies(copies, PlanBudget())))
    sizes = [
        {location: map_.shard_size(location) for location in map_.locations}
        for map_ in (source, target)
    ]
    moved = sum(segment.num_elements for segment in segments)
    return TransferPlan(segments, target.logical_shape, *sizes, moved)


def boxes(map_: ParamAffineMap, location: int) -> list[tuple[PlacedBox, AffinePiece]]:
    """The boxes of the full tensor that one location holds, each with its piece."""
    return [
        (box, piece)
        for piece in map_.pieces(location)
        for box in place_piece(
            piece.shape,
            piece.full_offset,
            piece.full_strides,
            piece.shard_offset,
            piece.shard_strides,
            map_.logical_shape,
        )
    ]


def copy(location: int, target: PlacedBox, holder: int, source: PlacedBox) -> Copy:
    """The copy of one box of the full tensor, given where it sits in either shard."""
    form = box_form(target.shape, target.strides, source.strides)
    return Copy(location, target.offset, holder, source.offset, form)


def segment(copy: Copy) -> TransferSegment:
    """A copy as a segment of a plan."""
    return TransferSegment(
        source_location=copy.source_location,
        source_offset=copy.source_offset,
        source_strides=tuple(source for _, _, source in copy.form.axes),
        target_location=copy.target_location,
        target_offset=copy.target_offset,
        target_strides=tuple(target for _, target, _ in copy.form.axes),
        shape=tuple(extent for extent, _, _ in copy.form.axes),
    )
