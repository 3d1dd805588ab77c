"""Whether a plan is exact, decided by addresses.

Reads are cut with what the source shards hold, and so become writes that know what they bring;
writes are cut with what the target shards want, and the rules are read off each group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pytest_affine.maps import Padding, ParamAffineMap
from pytest_affine.plans import TransferPlan, TransferSegment
from pytest_affine.truth.blocks import Affine, Block, Cut, Group, Held, Whole, shard_blocks, tagged
from pytest_affine.truth.cutting import MAX_ENUMERATED, choose_cut
from pytest_affine.truth.problems import Finding, Problem, index_at, located

__all__ = ["PLAN_RULES", "plan_problems"]

PLAN_RULES = (
    "PLAN-BOUNDS",
    "PLAN-ONCE",
    "PLAN-REFUSE",
    "PLAN-SCALE",
    "PLAN-SOURCE",
    "PLAN-TILE",
)
"""What is judged here. Of PLAN-REFUSE only that the logical shapes are equal."""


@dataclass(frozen=True, slots=True)
class Breach:
    """What is wrong at the elements of one group, and an element that shows it (or the first)."""

    rule: str
    kind: str
    what: str
    index: tuple[int, ...] = ()


OUTSIDE = Breach("PLAN-BOUNDS", "outside the source", "outside the shard")
UNKNOWN = Breach("PLAN-BOUNDS", "unknown source", "an unknown location")
PADDING = Breach("PLAN-SOURCE", "padding read", "padding")
NOTHING = Breach("PLAN-SOURCE", "nothing read", "what no piece fills")


@dataclass(frozen=True, slots=True)
class Read:
    """Tag of what a segment reads; the far side is the target shard."""

    segment: int
    target_location: int


@dataclass(frozen=True, slots=True)
class Write:
    """Tag of what a segment writes, and what it brings: a piece's elements, or a breach.

    The far sides are the source shard and, of a piece's elements, the full tensor.
    """

    segment: int
    source_location: int
    brings: Held | Breach


def plan_problems(
    plan: TransferPlan,
    source: ParamAffineMap,
    target: ParamAffineMap,
    *,
    max_enumerated: int = MAX_ENUMERATED,
) -> tuple[Problem, ...]:
    """Every way in which a plan is not exact; none means that it is.

    The maps are taken to be valid; `map_problems` says whether they are.

    Args:
        plan: the plan; nothing in it is trusted.
        source: map of the shards that are read.
        target: map of the shards that are written.
        max_enumerated: up to how many elements, all shards, pieces and segments together, every
            single one is looked at. Above, what holds for many elements is looked at once; there
            a box of wrong elements may hold some that are right by chance.

    Raises:
        UnsupportedLayoutError: too large to enumerate, and not made of boxes.
    """
    problems = [*_wrong_totals(plan, source, target), *_unusable_segments(plan, target)]
    reads = _reads(plan, target)
    sources = {location: shard_blocks(source, location) for location in source.locations}
    targets = {location: shard_blocks(target, location) for location in target.locations}
    cut = choose_cut([*reads.values(), *sources.values(), *targets.values()], max_enumerated)
    for location, blocks in reads.items():
        for target_location, write in _writes(location, blocks, source, cut):
            targets[target_location].append(write)
    for location, shape in target.shard_shapes:
        groups = cut(targets[location])
        findings = (found for group in groups for found in _judge(group, shape, target))
        problems += located(findings, location, shape)
    return tuple(problems)


def _wrong_totals(
    plan: TransferPlan, source: ParamAffineMap, target: ParamAffineMap
) -> Iterator[Problem]:
    totals: list[tuple[str, str, object, object]] = [
        ("PLAN-REFUSE", "logical shapes differ", source.logical_shape, target.logical_shape),
        ("PLAN-BOUNDS", "wrong logical_shape", plan.logical_shape, target.logical_shape),
    ]
    for side, sizes, map_ in (
        ("source", plan.source_sizes, source),
        ("target", plan.target_sizes, target),
    ):
        if sizes is not None:
            known = tuple((location, map_.shard_size(location)) for location in map_.locations)
            totals.append(("PLAN-BOUNDS", f"wrong {side}_sizes", sizes, known))
    moved = sum(math.prod(segment.shape) for segment in plan.segments if not _malformed(segment))
    totals.append(("PLAN-ONCE", "wrong moved_elements", plan.moved_elements, moved))
    for rule, kind, given, right in totals:
        if given != right:
            yield Problem(rule=rule, kind=kind, example=f"{given} instead of {right}")


def _malformed(segment: TransferSegment) -> bool:
    strides = (segment.source_strides, segment.target_strides)
    numbers = (segment.source_offset, segment.target_offset, *segment.shape)
    numbers += (segment.source_location, segment.target_location, *strides[0], *strides[1])
    return (
        any(type(number) is not int for number in numbers)
        or any(len(values) != len(segment.shape) for values in strides)
        or any(number < 0 for values in (*strides, segment.shape) for number in values)
    )


def _unusable_segments(plan: TransferPlan, target: ParamAffineMap) -> Iterator[Problem]:
    for number, segment in enumerate(plan.segments):
        name, location = f"segment {number}", segment.target_location
        if _malformed(segment):
            yield Problem(
                rule="PLAN-BOUNDS",
                kind="malformed segment",
                example=f"{name} needs whole numbers, and extents and strides of at least 0, one "
                f"stride per axis on either side; it is {segment.to_dict()}",
            )
            continue
        if location not in target.locations:
            known = f"the target map has {list(target.locations)}"
            example = f"{name} writes target location {location}; {known}"
            yield Problem(rule="PLAN-BOUNDS", kind="unknown target", example=example)
        if 0 in segment.shape:
            example = f"{name} has the shape {segment.shape}"
            yield Problem(rule="PLAN-ONCE", kind="empty segment", example=example)


def _reads(plan: TransferPlan, target: ParamAffineMap) -> dict[int, list[Block]]:
    """What the segments that can be judged read, by source location."""
    known = set(target.locations)
    reads: dict[int, list[Block]] = {}
    for number, segment in enumerate(plan.segments):
        if _malformed(segment) or segment.target_location not in known:
            continue
        block = Block(
            shape=tuple(segment.shape),
            near=Affine(segment.source_offset, tuple(segment.source_strides)),
            far=(Affine(segment.target_offset, tuple(segment.target_strides)),),
            tag=Read(number, segment.target_location),
        )
        reads.setdefault(segment.source_location, []).append(block)
    return reads


def _writes(
    location: int, reads: list[Block], source: ParamAffineMap, cut: Cut
) -> Iterator[tuple[int, Block]]:
    """What becomes of the reads from one source location: (target location, write)."""
    known = location in source.locations
    groups: Iterable[Group] = ((read,) for read in reads)
    if known:
        groups = cut([*shard_blocks(source, location), *reads])
    for group in groups:
        brings, full = _brings(group) if known else (UNKNOWN, ())
        for read, block in tagged(group, Read):
            write = Block(
                shape=block.shape,
                near=block.far[0],
                far=(block.near, *full),
                tag=Write(read.segment, location, brings),
            )
            yield read.target_location, write


def _brings(group: Group) -> tuple[Held | Breach, tuple[Affine, ...]]:
    """What is read at the addresses of one group of a source shard, and where that sits."""
    if not tagged(group, Whole):
        return OUTSIDE, ()
    for held, block in tagged(group, Held):
        return held, block.far
    return (PADDING if tagged(group, Padding) else NOTHING), ()


def _judge(group: Group, shape: tuple[int, ...], target: ParamAffineMap) -> Iterator[Finding]:
    """Breaches at the addresses of one group of a target shard, each kind once."""
    kinds: set[str] = set()
    for breach in (*_tiling(group), *_sourcing(group, target.logical_shape)):
        if breach.kind not in kinds:
            kinds.add(breach.kind)
            address = group[0].near.at(breach.index or _start(group[0]))
            yield Finding(
                rule=breach.rule,
                kind=breach.kind,
                block=group[0],
                example=f"{index_at(address, shape)} at address {address}: {breach.what}",
            )


def _start(block: Block) -> tuple[int, ...]:
    return (0,) * len(block.shape)


def _tiling(group: Group) -> Iterator[Breach]:
    """Breaches of PLAN-TILE, and of PLAN-BOUNDS in the target."""
    writers = sorted(write.segment for write, _ in tagged(group, Write))
    what = f"written by {', '.join(f'segment {number}' for number in writers) or 'no segment'}"
    if not tagged(group, Whole):
        if writers:
            yield Breach("PLAN-BOUNDS", "outside the target", what)
    elif tagged(group, Padding):
        if writers:
            yield Breach("PLAN-TILE", "padding written", what)
    elif len(writers) != 1:
        yield Breach("PLAN-TILE", "written twice" if writers else "never written", what)


def _sourcing(group: Group, logical_shape: tuple[int, ...]) -> Iterator[Breach]:
    """Breaches of PLAN-SOURCE and PLAN-SCALE, and of PLAN-BOUNDS in the source."""
    for write, block in sorted(tagged(group, Write), key=lambda pair: pair[0].segment):
        if isinstance(write.brings, Breach):
            breach: Breach | None = write.brings
        else:
            breach = _compared(write.brings, block, tagged(group, Held), logical_shape)
        if breach:
            address = block.far[0].at(breach.index or _start(block))
            where = f"address {address} of source location {write.source_location}"
            yield replace(breach, what=f"segment {write.segment} reads {breach.what}, {where}")


def _compared(
    brought: Held, block: Block, wanted: list[tuple[Held, Block]], logical_shape: tuple[int, ...]
) -> Breach | None:
    for held, piece in wanted:
        got, right = block.far[1], piece.far[0]
        if got != right:
            index = _first_difference(got, right)
            elements = (index_at(side.at(index), logical_shape) for side in (got, right))
            what = "logical {} instead of {}".format(*elements)
            return Breach("PLAN-SOURCE", "wrong element", what, index)
        if held.piece.scale != brought.piece.scale:
            what = f"scale {brought.piece.scale} instead of {held.piece.scale}"
            return Breach("PLAN-SCALE", "scales differ", what)
    return None


def _first_difference(one: Affine, other: Affine) -> tuple[int, ...]:
    """Where two different affine addresses of one block differ: at its start or next to it."""
    zero = (0,) * len(one.strides)
    if one.offset != other.offset:
        return zero
    axis = next(axis for axis, stride in enumerate(one.strides) if stride != other.strides[axis])
    return (*zero[:axis], 1, *zero[axis + 1 :])
