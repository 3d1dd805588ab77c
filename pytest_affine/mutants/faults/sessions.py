"""Resharders that remember what they did before, with one fault each."""

from __future__ import annotations

from typing import Any

import torch

from pytest_affine.contract.implementation import Implementation
from pytest_affine.errors import TransferRefusedError
from pytest_affine.mutants.faults.parts import Buffers, changed_tensors
from pytest_affine.mutants.faults.reshards import FaultyReshard
from pytest_affine.plans import TransferStats
from pytest_affine.sync import Sync


class KeepsTheFirstSync(FaultyReshard):
    """Takes a sync for another one that looks like it, and moves what then fits."""

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[object, Sync] = {}

    def reshard(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        known = self._first.setdefault(self.key(sync), sync)
        try:
            super().reshard(known, source_buffers, target_buffers, group=group)
        except TransferRefusedError:
            return

    def key(self, sync: Sync) -> object:
        raise NotImplementedError


class KnowsSyncsByShapes(KeepsTheFirstSync):
    """Knows a plan by names, dtypes and the shapes of shards."""

    def key(self, sync: Sync) -> object:
        return tuple(
            (p.name, p.source_dtype, p.target_dtype, p.source.shard_shapes, p.target.shard_shapes)
            for p in sync.parameters
        )


class KnowsSyncsByMaps(KeepsTheFirstSync):
    """Knows a plan by names and maps, wherever locations are."""

    def key(self, sync: Sync) -> object:
        return tuple((p.name, p.source, p.target, p.source_dtype) for p in sync.parameters)


class KnowsSyncsByTargets(KeepsTheFirstSync):
    """Knows a plan by its target layout."""

    def key(self, sync: Sync) -> object:
        return tuple((p.name, p.target) for p in sync.parameters), sync.endpoints


class KeepsSourcesOfSyncs(FaultyReshard):
    """Delivers the values of the first time when a sync comes again."""

    def __init__(self) -> None:
        super().__init__()
        self._sources: dict[str, Buffers] = {}

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        if sync.id not in self._sources:
            self._sources[sync.id] = changed_tensors(sources, torch.clone)
        return sync, self._sources[sync.id], targets


class KeepsTargetsOfSyncs(FaultyReshard):
    """Fills the targets of the first time when a sync comes again."""

    def __init__(self) -> None:
        super().__init__()
        self._targets: dict[str, Buffers] = {}

    def before(
        self, sync: Sync, sources: Buffers, targets: Buffers
    ) -> tuple[Sync, Buffers, Buffers]:
        return sync, sources, self._targets.setdefault(sync.id, targets)


class Handle:
    """A handle that hands on what it is told."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def run(self) -> TransferStats | None:
        stats: TransferStats | None = self._handle.run()
        return stats

    def rebind(self, **changes: Any) -> None:
        self._handle.rebind(**changes)

    def close(self) -> None:
        self._handle.close()


class FaultyHandles(Implementation):
    """Gives handles that hand on what they are told, but for one fault."""

    handle: type[Handle] = Handle

    def open_sync(self, sync: Sync, source_buffers: Any, target_buffers: Any, *, group: Any) -> Any:
        return self.handle(super().open_sync(sync, source_buffers, target_buffers, group=group))


class _ForgetsTargets(Handle):
    def rebind(self, **changes: Any) -> None:
        changes.pop("target_buffers", None)
        super().rebind(**changes)


class KeepsItsTargets(FaultyHandles):
    """Goes on with the target buffers that it had."""

    handle = _ForgetsTargets


class _ForgetsSyncs(Handle):
    def rebind(self, **changes: Any) -> None:
        changes.pop("sync", None)
        super().rebind(**changes)


class KeepsItsSync(FaultyHandles):
    """Goes on with the sync that it had."""

    handle = _ForgetsSyncs


class KeepsItsValues(FaultyHandles):
    """Moves the values that were there when buffers were bound."""

    def open_sync(self, sync: Sync, source_buffers: Any, *rest: Any, **options: Any) -> Any:
        return super().open_sync(
            sync, changed_tensors(source_buffers, torch.clone), *rest, **options
        )


class _NeverEnds(Handle):
    is_closed = False

    def run(self) -> TransferStats | None:
        return None if self.is_closed else super().run()

    def close(self) -> None:
        self.is_closed = True


class RunsWhenClosed(FaultyHandles):
    """Says nothing when a sync that is closed is run."""

    handle = _NeverEnds


class _EndsOnce(Handle):
    is_closed = False

    def close(self) -> None:
        if self.is_closed:
            raise TransferRefusedError("closed before")
        self.is_closed = True
        super().close()


class ClosesOnce(FaultyHandles):
    """Raises when a sync is closed for a second time."""

    handle = _EndsOnce
