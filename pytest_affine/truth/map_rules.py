"""Whether a map is valid, decided by addresses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.truth.blocks import Group, Held, Whole, full_blocks, shard_blocks, tagged
from pytest_affine.truth.cutting import MAX_ENUMERATED, choose_cut
from pytest_affine.truth.problems import Finding, Problem, index_at, located

__all__ = ["map_problems"]


def map_problems(
    map_: ParamAffineMap, *, max_enumerated: int = MAX_ENUMERATED
) -> tuple[Problem, ...]:
    """Every breach of MAP-SCALE, MAP-TILE, MAP-COVER and MAP-HOLD; none means a valid map.

    While a size, offset, stride or location is negative addresses mean nothing, and only MAP-SCALE
    is judged.

    Args:
        map_: the map.
        max_enumerated: up to how many elements, all shards and blocks together, every single one
            is looked at. Above, what holds for many elements is looked at once.

    Raises:
        UnsupportedLayoutError: too large to enumerate, and not made of boxes.
    """
    numbers = (*_negative_numbers(map_), *_bad_scales(map_))
    if any(problem.kind == "negative number" for problem in numbers):
        return numbers
    shards = [(*shard, shard_blocks(map_, shard[0])) for shard in map_.shard_shapes]
    full, shape = full_blocks(map_), map_.logical_shape
    cut = choose_cut([full, *(blocks for _, _, blocks in shards)], max_enumerated)
    problems = list(numbers)
    for location, shard_shape, blocks in shards:
        for_shard = (found for group in cut(blocks) for found in _untiled(group))
        problems += located(for_shard, location, shard_shape)
    for_full = (found for group in cut(full) for found in _misheld(group, shape))
    return (*problems, *located(for_full, None, shape))


def _bad_scales(map_: ParamAffineMap) -> Iterator[Problem]:
    for location, pieces in map_.pieces_by_location:
        for number, piece in enumerate(pieces):
            if piece.scale == 0 or not math.isfinite(piece.scale):
                yield Problem(
                    rule="MAP-SCALE",
                    kind="bad scale",
                    location=location,
                    example=f"scale of piece {number} of location {location} is {piece.scale}",
                )


def _negative_numbers(map_: ParamAffineMap) -> Iterator[Problem]:
    for location, owner, name, value in _numbers(map_):
        if min(value, default=0) < 0:
            yield Problem(
                rule="MAP-SCALE",
                kind="negative number",
                location=location,
                example=f"{name} of {owner} is {', '.join(map(str, value))}",
            )


def _numbers(map_: ParamAffineMap) -> Iterator[tuple[int | None, str, str, tuple[int, ...]]]:
    """All numbers of a map that may not be negative: (location, owner, name, values)."""
    yield None, "the map", "logical_shape", map_.logical_shape
    for location, shape in map_.shard_shapes:
        yield location, "a shard", "location", (location,)
        yield location, f"location {location}", "shard_shape", shape
        blocks: list[tuple[str, AffinePiece | Padding]] = []
        blocks += ((f"piece {i}", piece) for i, piece in enumerate(map_.pieces(location)))
        blocks += ((f"padding block {i}", block) for i, block in enumerate(map_.padding(location)))
        for name, block in blocks:
            for field in dataclasses.fields(block):
                value = getattr(block, field.name)
                if field.name != "scale":
                    values = value if isinstance(value, tuple) else (value,)
                    yield location, f"{name} of location {location}", field.name, values


def _untiled(group: Group) -> Iterator[Finding]:
    """Breaches of MAP-TILE at the addresses of one group of a shard's blocks."""
    where, claims = group[0], [block for block in group if not isinstance(block.tag, Whole)]
    address = where.near.offset
    if len(claims) == len(group):
        kind, example = "outside the shard", f"address {address} is outside"
    elif not claims:
        kind, example = "gap", f"address {address} is filled by nothing"
    elif len(claims) > 1:
        kind, example = "overlap", f"address {address} is filled {len(claims)} times"
    else:
        return
    yield Finding(rule="MAP-TILE", kind=kind, block=where, example=example)


def _misheld(group: Group, shape: tuple[int, ...]) -> Iterator[Finding]:
    """Breaches of MAP-COVER and MAP-HOLD at the addresses of one group of the full tensor."""
    element = f"logical {index_at(group[0].near.offset, shape)}"
    pieces = [held for held, _ in tagged(group, Held)]
    breaches = list(_holding_breaches(pieces))
    if not tagged(group, Whole):
        breaches = [("MAP-COVER", "outside the full tensor", "does not exist")]
    elif not pieces:
        breaches = [("MAP-COVER", "not covered", "is in no piece")]
    for rule, kind, what in breaches:
        yield Finding(rule=rule, kind=kind, block=group[0], example=f"{element} {what}")


def _holding_breaches(pieces: list[Held]) -> Iterator[tuple[str, str, str]]:
    """Breaches of MAP-HOLD by pieces that all hold the same elements: (rule, kind, what)."""
    locations = [held.location for held in pieces]
    holders = tuple(sorted(set(locations)))
    if twice := [location for location in holders if locations.count(location) > 1]:
        yield "MAP-HOLD", "held twice", f"is held more than once by locations {twice}"
    wrong = next((held for held in pieces if held.piece.locations != holders), None)
    if wrong:
        named = f"a piece at location {wrong.location} names {list(wrong.piece.locations)}"
        yield "MAP-HOLD", "wrong holders", f"is held by locations {list(holders)}; {named}"
    scales = sorted({held.piece.scale for held in pieces})
    if len(scales) > 1:
        yield "MAP-HOLD", "scales differ", f"is held with scales {scales}"
