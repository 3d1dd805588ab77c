"""A whole sync: in one call, as one rank's part of its plan, or planned once and run often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.distributed as dist

from pytest_affine.errors import TransferRefusedError
from pytest_affine.plans import RankPlan, TransferPlan, TransferStats
from pytest_affine.reference.batch import Side, bound_processes
from pytest_affine.reference.buffers import Buffers
from pytest_affine.reference.dtypes import Dtypes
from pytest_affine.reference.executor import Transport
from pytest_affine.reference.program import Program, programmed
from pytest_affine.reference.replicas import plan_transfers
from pytest_affine.reference.rounds import Rounds
from pytest_affine.sync import Sync

__all__ = ["SyncSession", "open_sync", "plan_on_rank", "reshard"]

Memory: TypeAlias = tuple[object, ...]
"""Where and how a tensor lies, which may change while it stays the same object."""


def reshard(
    sync: Sync, source_buffers: Buffers, target_buffers: Buffers, *, group: dist.ProcessGroup | None
) -> None:
    """Plan a sync and move it; where dtypes differ each element becomes what `Tensor.to` makes it.

    Collective: every rank of `group` calls it.

    Args:
        sync: the same on every rank; its processes are ranks of `group`.
        source_buffers: by parameter and location, the packed source shards of this process, each of
            the shape that its map says; an empty shard may be left out.
        target_buffers: the same for target shards, which are written in place.
        group: transport group; the default group when None.

    Raises:
        TransferRefusedError: on every rank, before anything moved, if one rank must refuse or if
            ranks disagree; the message says which and why. The group stays usable.
    """
    transport = Transport(group)
    binding = transport.agreed(
        lambda: _bound(sync, source_buffers, target_buffers, transport),
        lambda binding: binding.program.agreement,
    )
    transport.move(binding.rounds)


def open_sync(
    sync: Sync, source_buffers: Buffers, target_buffers: Buffers, *, group: dist.ProcessGroup | None
) -> SyncSession:
    """Plan a sync once, to run it often. Collective; arguments and errors as in `reshard`."""
    return SyncSession(sync, source_buffers, target_buffers, group)


def plan_on_rank(sync: Sync, *, group: dist.ProcessGroup | None) -> RankPlan:
    """What this rank of `group` sends and receives of a sync. Communicates nothing.

    Raises:
        AffineTransferError: a sync that can't be planned, or a location without an endpoint.
    """
    process = dist.get_rank(group)
    sources, targets = bound_processes(sync.endpoints)
    ends = [
        (name, sources[segment.source_location], targets[segment.target_location], segment)
        for name, plan in _plans(sync).items()
        for segment in plan.segments
    ]
    return RankPlan(
        sends=((name, to, segment) for name, from_, to, segment in ends if from_ == process),
        receives=((name, from_, segment) for name, from_, to, segment in ends if to == process),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Binding:
    """A sync, this process's program for it, and the buffers that it runs in.

    Attributes:
        sync: the sync.
        program: what this process does.
        source_buffers: as they were given.
        target_buffers: the same.
        memory: where they lay when they were bound.
        rounds: what moves them.
    """

    sync: Sync
    program: Program
    source_buffers: Buffers
    target_buffers: Buffers
    memory: tuple[Memory, ...]
    rounds: Rounds


class SyncSession:
    """A sync that is planned once and run often; plan, schedule and arenas live between runs.

    Every method is called on every rank of the group. Each begins with an exchange, in which all
    ranks agree on what they are about to do, and of which batch; if one can't, or if they disagree,
    every rank raises `TransferRefusedError` and the session is as it was before.
    """

    def __init__(
        self,
        sync: Sync,
        source_buffers: Buffers,
        target_buffers: Buffers,
        group: dist.ProcessGroup | None,
    ) -> None:
        self._transport = Transport(group)
        self._binding: _Binding | None = self._agreed(
            "open", lambda: _bound(sync, source_buffers, target_buffers, self._transport)
        )

    def run(self) -> TransferStats:
        """Move what the source buffers hold now.

        What lies elsewhere in memory since the last run, or is another tensor in the mappings that
        were given, is bound anew.

        Raises:
            TransferRefusedError: buffers that fit no longer, or the session is closed.
        """
        self._binding = binding = self._agreed("run", self._current)
        self._transport.move(binding.rounds)
        return binding.program.stats

    def rebind(
        self,
        *,
        sync: Sync | None = None,
        source_buffers: Buffers | None = None,
        target_buffers: Buffers | None = None,
    ) -> None:
        """Replace what is given, here or on other ranks; a sync is given on all or on none.

        Raises:
            TransferRefusedError: what `reshard` refuses, or the session is closed.
        """
        self._binding = self._agreed(
            "rebind", lambda: self._replaced(sync, source_buffers, target_buffers)
        )

    def close(self) -> None:
        """Let go of plans, buffers and arenas; `run` and `rebind` raise from now on."""
        self._binding = None

    def _agreed(self, what: str, prepare: Callable[[], _Binding]) -> _Binding:
        return self._transport.agreed(
            prepare, lambda binding: f"{what} of {binding.program.agreement}"
        )

    def _open(self) -> _Binding:
        if self._binding is None:
            raise TransferRefusedError("the sync is closed")
        return self._binding

    def _current(self) -> _Binding:
        old = self._open()
        if old.memory == tuple(_memory(old.source_buffers, old.target_buffers)):
            return old
        return self._replaced(None, None, None)

    def _replaced(
        self, sync: Sync | None, source_buffers: Buffers | None, target_buffers: Buffers | None
    ) -> _Binding:
        old = self._open()
        return _bound(
            old.sync if sync is None else sync,
            old.source_buffers if source_buffers is None else source_buffers,
            old.target_buffers if target_buffers is None else target_buffers,
            self._transport,
            old.program if sync is None else None,
        )


def _bound(
    sync: Sync,
    source_buffers: Buffers,
    target_buffers: Buffers,
    transport: Transport,
    program: Program | None = None,
) -> _Binding:
    """Make the program, unless it is there already, and bind it to buffers."""
    if program is None:
        program = _programmed(sync, transport.group)
    buffers: dict[Side, Buffers] = {"source": source_buffers, "target": target_buffers}
    shards = program.bind(buffers, transport.device)
    if problems := [problem for side in buffers for problem in _misshapen(sync, side, buffers)]:
        raise TransferRefusedError("; ".join(problems))
    return _Binding(
        sync=sync,
        program=program,
        source_buffers=source_buffers,
        target_buffers=target_buffers,
        memory=tuple(_memory(source_buffers, target_buffers)),
        rounds=Rounds(program, shards, transport.device),
    )


def _programmed(sync: Sync, group: dist.ProcessGroup) -> Program:
    return programmed(
        _plans(sync),
        sync.endpoints,
        dtype=_dtypes(sync),
        budget=sync.budget,
        group=group,
        cast=True,
    )


def _plans(sync: Sync) -> dict[str, TransferPlan]:
    return plan_transfers(
        {each.name: (each.source, each.target) for each in sync.parameters},
        endpoints=sync.endpoints,
        element_size={name: each.wire.itemsize for name, each in _dtypes(sync).items()},
    )


def _dtypes(sync: Sync) -> dict[str, Dtypes]:
    return {
        each.name: Dtypes(_dtype(each.source_dtype), _dtype(each.target_dtype))
        for each in sync.parameters
    }


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise TransferRefusedError(f"torch has no dtype called {name!r}")
    return dtype


def _misshapen(sync: Sync, side: Side, buffers: Mapping[Side, Buffers]) -> Iterator[str]:
    """Buffers of the right size and another shape, which would be filled in another order."""
    for parameter in sync.parameters:
        map_ = parameter.source if side == "source" else parameter.target
        for location, tensor in buffers[side].get(parameter.name, {}).items():
            if tuple(tensor.shape) != (declared := map_.shard_shape(location)):
                yield (
                    f"{side} buffer {parameter.name!r}[{location}] has shape "
                    f"{tuple(tensor.shape)}, its map says {declared}"
                )


def _memory(*sides: Buffers) -> Iterator[Memory]:
    """What is under which key of either side, and where; another of these is bound anew."""
    for side, buffers in enumerate(sides):
        for name, by_location in buffers.items():
            for location, tensor in by_location.items():
                yield (
                    *(side, name, location, tensor.data_ptr(), tensor.shape, tensor.stride()),
                    *(tensor.dtype, tensor.device, tensor.is_conj(), tensor.is_neg()),
                    tensor.untyped_storage().nbytes(),
                )
