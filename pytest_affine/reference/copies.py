"""From regions, and the holders chosen for them, to copies between shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TypeAlias

from pytest_affine.geometry import PlacedBox, overlap
from pytest_affine.plans import ReplicaPart
from pytest_affine.reference.limits import check_limit
from pytest_affine.reference.merging import Copy, Form, box_form
from pytest_affine.reference.regions import PlanDraft, Region

__all__ = ["copies_of_first", "copies_of_parts"]

Counted: TypeAlias = tuple[list[Copy], int]
"""Copies, and the pairs of boxes compared for the plan so far."""


class _Forms(dict[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], Form]):
    """The form of each shape with its target and source strides, made once."""

    def __missing__(self, key: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]) -> Form:
        self[key] = form = box_form(*key)
        return form


def copies_of_first(draft: PlanDraft) -> Counted:
    """Read every region from its first holder."""
    pair_checks = draft.pair_checks + len(draft.rows)
    check_limit(draft.limits, "max_pair_checks", pair_checks)
    if not draft.rows:
        return [], pair_checks
    locations, _, shapes, holders, offsets, strides, source_offsets, source_strides = zip(
        *draft.rows, strict=True
    )
    forms = map(_Forms().__getitem__, zip(shapes, strides, source_strides, strict=True))
    first = map(itemgetter(0), holders)
    columns = zip(locations, offsets, first, source_offsets, forms, strict=True)
    return list(map(partial(tuple.__new__, Copy), columns)), pair_checks


def copies_of_parts(draft: PlanDraft, parts: Iterable[Sequence[ReplicaPart]]) -> Counted:
    """Read the parts of every region from the holders that they name."""
    forms = _Forms()
    copies: list[Copy] = []
    pair_checks = draft.pair_checks
    for region, region_parts in zip(draft.regions, parts, strict=True):
        for part in region_parts:
            wanted = region.target.cut(tuple(part.logical_origin), tuple(part.shape))
            boxes = _boxes(draft, region, part.source_location, wanted)
            pair_checks += len(boxes)
            check_limit(draft.limits, "max_pair_checks", pair_checks)
            for read, written in _pairs(wanted, boxes):
                copies.append(
                    Copy(
                        region.target_location,
                        written.offset,
                        part.source_location,
                        read.offset,
                        forms[written.shape, written.strides, read.strides],
                    )
                )
    return copies, pair_checks


def _boxes(
    draft: PlanDraft, region: Region, location: int, wanted: PlacedBox
) -> Sequence[PlacedBox]:
    """Boxes of one holder that may meet what is wanted of a region."""
    # Replicas may be cut elsewhere than the holder whose box the region is from.
    if location == region.holders[0]:
        return (region.source,)
    index = draft.source.placed.index_at(location)
    return [index.boxes[found] for found in sorted(index.find(wanted.origin, wanted.shape))]


def _pairs(wanted: PlacedBox, boxes: Iterable[PlacedBox]) -> Iterator[tuple[PlacedBox, PlacedBox]]:
    """What each box shares with the one wanted, on the source's side and on the target's."""
    for box in boxes:
        if shared := overlap(wanted, box):
            yield box.cut(*shared), wanted.cut(*shared)
