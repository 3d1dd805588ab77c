"""Contract adapters over the example's own refit, as it is and with each of its faults.

`Refit` takes its indices for `describe` and its move for `reshard`; it knows one model, one trainer
and one rollout engine, and all else is refused or withheld. `Check` takes its check of indices for
one rule of `check_map`. With a fault they are called `Refit_F05`.
"""

from __future__ import annotations

import math
from typing import Any

import torch.distributed as dist
from refit_faults import FAULTS, load

from pytest_affine.builders.runs import Run, map_along, merged
from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.layouts import Layout, Parameter
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.sync import Sync

TRAINER = Layout(tp=2, dp=2, ep=2)
ROLLOUT = Layout(tp=4)
LAYOUTS = (TRAINER, ROLLOUT)


class Faulty(Implementation):
    """Has the example as a module of its own, with a fault."""

    fault = "none"

    def __init__(self) -> None:
        self._example = load()
        FAULTS[self.fault](self._example)


class Refit(Faulty):
    """What the refit believes of shards, and what it does."""

    def __init__(self) -> None:
        super().__init__()
        # What both sides are, said once more for the probe, is not of the refit and has no fault.
        self._known = {
            layout: {each.name: each for each in load().parameters(on_trainer=on_trainer)}
            for layout, on_trainer in zip(LAYOUTS, (True, False), strict=True)
        }

    def supports(self, sync: Sync) -> str | None:
        """Take the whole model on 4 processes, where the trainer's ranks are the processes."""
        if (sync.source_layout, sync.target_layout, sync.num_processes) != (*LAYOUTS, 4):
            return "the refit goes from tp 2, dp 2, ep 2 to tp 4, on 4 processes"
        if {each.name: each.source_parameter for each in sync.parameters} != self._known[TRAINER]:
            return "the refit's trainer has another model"
        if {each.name: each.target_parameter for each in sync.parameters} != self._known[ROLLOUT]:
            return "the refit's rollout engine has another model"
        if any(each.source_names is None for each in sync.parameters):
            return "the refit's trainer is asked for its tensors by their local names"
        if [*sync.endpoints.source] != [(rank, rank) for rank in range(4)]:
            return "the ranks of the refit's trainer are its processes"
        if sorted(process for _, process in sync.endpoints.target) != [0, 1, 2, 3]:
            return "each process has one rank of the refit's rollout engine"
        return None

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        """The map that follows from the indices that the refit takes each rank to hold."""
        if self._known.get(layout, {}).get(parameter.name) != parameter:
            raise UnsupportedLayoutError(f"the refit has no {parameter.name!r} like this")
        weight = self._example.weights()[parameter.name]
        if weight.cut == "vocab":
            raise UnsupportedLayoutError("the refit's indices of a vocabulary leave out padding")
        side = self._example.TRAINER if layout == TRAINER else self._example.ROLLOUT
        held = {rank: self._example.held(weight, side, rank) for rank in range(4)}
        holders = {
            index: frozenset(rank for rank in range(4) if index in held[rank])
            for index in {each for indices in held.values() for each in indices}
        }
        runs = {
            rank: merged(Run(index, 1, holders[index]) for index in indices)
            for rank, indices in held.items()
        }
        return map_along(weight.shape, weight.dim, runs)

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        """Refit the buffers, under the local names that the sync has for them."""
        rank = dist.get_rank(group)
        trainer = {
            dict(each.source_names or ())[rank]: source_buffers[each.name][rank]
            for each in sync.parameters
            if source_buffers[each.name][rank].numel()
        }
        (target_rank,) = (at for at, process in sync.endpoints.target if process == rank)
        rollout = {each.name: target_buffers[each.name][target_rank] for each in sync.parameters}
        self._example.refit(trainer, rollout, target_rank)


class Check(Faulty):
    """How the refit checks indices, taken for the addresses that the pieces of a shard fill."""

    def check_map(self, map_: ParamAffineMap) -> None:
        """Refuse a shard of which an address is filled twice, or one that there is not."""
        for location, pieces in map_.pieces_by_location:
            addresses = [address for piece in pieces for address in _addresses(piece)]
            weight = self._example.Weight((math.prod(map_.shard_shape(location)),), "even")
            try:
                self._example.check(addresses, weight)
            except ValueError as error:
                raise InvalidMapError(f"location {location}: {error}") from error


def _addresses(piece: AffinePiece) -> list[int]:
    addresses = [piece.shard_offset]
    for extent, stride in zip(piece.shape, piece.shard_strides, strict=True):
        addresses = [at + step * stride for at in addresses for step in range(extent)]
    return addresses


globals().update(
    {
        f"{kind.__name__}_{fault}": type(f"{kind.__name__}_{fault}", (kind,), {"fault": fault})
        for kind in (Refit, Check)
        for fault in FAULTS
    }
)
