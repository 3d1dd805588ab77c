"""Runs: what a location holds of one axis. A box map is, per location, a product of runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, ParamAffineMap

__all__ = ["Run", "box_map", "chunk", "map_along", "merged", "starts"]


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive indices of one axis of the full tensor, and every location that holds them."""

    start: int
    length: int
    locations: frozenset[int]


def starts(lengths: Iterable[int]) -> list[int]:
    """Where each of these lengths starts when they are laid end to end."""
    return list(itertools.accumulate(lengths, initial=0))[:-1]


def merged(runs: Iterable[Run]) -> list[Run]:
    """Join runs that continue each other and have the same holders."""
    joined: list[Run] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last and last.start + last.length == run.start and last.locations == run.locations:
            joined[-1] = replace(last, length=last.length + run.length)
        else:
            joined.append(run)
    return joined


def chunk(runs: Sequence[Run], num_parts: int, index: int, split_factor: int) -> list[Run]:
    """Part `index` of the runs laid end to end, cut in `num_parts` inside each outer block.

    There are `split_factor` outer blocks, as `torch.chunk` cuts them. The first, which is the
    largest, decides for all where the parts are, so that equal offsets belong to one part. (Torch
    up to 2.13 cuts each outer block by its own size: PyTorch issue 168134.)
    """
    extent = sum(run.length for run in runs)
    outer = max(1, -(-extent // split_factor))
    inner = -(-outer // num_parts)
    held: list[Run] = []
    for start in range(0, extent, outer):
        stop = min(start + outer, start + (index + 1) * inner, extent)
        held.extend(_cut(runs, start + index * inner, stop))
    return merged(held)


def _cut(runs: Sequence[Run], low: int, high: int) -> Iterator[Run]:
    """What lies in [low, high) of the runs laid end to end."""
    for run, position in _placed(runs):
        first, last = max(low, position), min(high, position + run.length)
        if first < last:
            yield replace(run, start=run.start + first - position, length=last - first)


def map_along(
    shape: Sequence[int], axis: int, runs_by_location: Mapping[int, Sequence[Run]]
) -> ParamAffineMap:
    """The map whose locations hold these runs of one axis, and all of every other axis."""
    everyone = frozenset(runs_by_location)
    whole = [[Run(0, extent, everyone)] for extent in shape]
    axes_by_location = {
        location: [*whole[:axis], runs, *whole[axis + 1 :]]
        for location, runs in runs_by_location.items()
    }
    return box_map(shape, axes_by_location)


def box_map(
    shape: Sequence[int],
    axes_by_location: Mapping[int, Sequence[Sequence[Run]]],
    scale: float = 1.0,
) -> ParamAffineMap:
    """The map whose shards are the products of these runs, one sequence of runs per axis.

    A box of the product is held by the locations that hold its run on every axis.
    """
    full_strides, everyone = row_major_strides(shape), frozenset(axes_by_location)
    shard_shapes, pieces = {}, {}
    for location, axes in axes_by_location.items():
        shard_shapes[location] = tuple(sum(run.length for run in runs) for runs in axes)
        shard_strides = row_major_strides(shard_shapes[location])
        pieces[location] = [
            AffinePiece(
                shape=tuple(run.length for run, _ in box),
                full_offset=sum(
                    run.start * step for (run, _), step in zip(box, full_strides, strict=True)
                ),
                full_strides=full_strides,
                shard_offset=sum(
                    place * step for (_, place), step in zip(box, shard_strides, strict=True)
                ),
                shard_strides=shard_strides,
                locations=tuple(everyone.intersection(*(run.locations for run, _ in box))),
                scale=scale,
            )
            for box in itertools.product(*map(_placed, axes))
        ]
    return ParamAffineMap(shape, shard_shapes, pieces)


def _placed(runs: Sequence[Run]) -> list[tuple[Run, int]]:
    """The runs that have elements, each with its position in the shard."""
    return [
        (run, position)
        for run, position in zip(runs, starts(run.length for run in runs), strict=True)
        if run.length
    ]
