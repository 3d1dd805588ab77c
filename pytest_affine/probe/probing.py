"""The probe: sources numbered, targets poisoned, the refit run, targets read; run after run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from pytest_affine.errors import AffineTransferError, InvalidMapError
from pytest_affine.probe.alphabets import alphabet_of
from pytest_affine.probe.judging import Judge
from pytest_affine.probe.memory import Memory, overlapping
from pytest_affine.probe.numbering import Numbering, Run
from pytest_affine.probe.readings import Reading, Readings
from pytest_affine.probe.report import Fault, ProbeReport, Sighting
from pytest_affine.probe.sides import Shard, Side
from pytest_affine.probe.wire import Watch, needed_bytes

__all__ = ["Probe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Certifies a refit, whatever moves its data: every element tells where it came from.

    Every rank makes one and calls `run`; a process without ranks has all locations itself.

    Attributes:
        source: the tensors that the refit reads.
        target: the tensors that it writes.
        restore: put back what all tensors held before; it takes as much memory as they do.
            Otherwise they are left as the last run left them.
        barrier: called when this process has written all that a run begins with, and when it has
            read what came of it: for a refit that reads the memory of other ranks or leaves to
            others when it ends, `torch.distributed.barrier`.
    """

    source: Side
    target: Side
    restore: bool = False
    barrier: Callable[[], object] | None = None

    def run(self, refit: Callable[[], object]) -> ProbeReport:
        """Run the refit as often as it takes, and tell what it delivered to this process.

        Args:
            refit: moves the weights, as in production. What it raises is a refusal, and it is
                called in the next run again.

        Raises:
            AffineTransferError: the sides do not fit each other or their tensors; before the
                refit is called.
        """
        return _Session(self).run(refit)


class _Session:
    """One call of `Probe.run`."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.source, self.target = Memory(probe.source, "source"), Memory(probe.target, "target")
        _check_names(probe.source, probe.target)
        for memory in (self.source, self.target):
            memory.dtypes = _dtypes(memory)
        self.numbering = _numbering(self.source, self.target)
        self.readings = Readings()
        self.changed: dict[Shard, Reading] = {}
        self.troubles: dict[Shard, str] = {}
        self.refusals: list[tuple[int, str]] = []
        self.seen_bytes: int | None = None

    def run(self, refit: Callable[[], object]) -> ProbeReport:
        """All runs, and the report."""
        memories = (self.target, self.source)
        kept = [memory.copies() for memory in memories] if self._probe.restore else []
        try:
            for run in self.numbering.runs:
                self._prepare(run)
                self._meet()
                if self._call(refit, run):
                    self._read(run)
                self._meet()
        finally:
            for memory, copies in zip(memories, kept, strict=False):
                memory.restore(copies)
        return ProbeReport.merge([self._report()])

    def _meet(self) -> None:
        if self._probe.barrier is not None:
            self._probe.barrier()

    def _prepare(self, run: Run) -> None:
        """Poison targets before sources are written, for they may be the same memory."""
        self.target.poison(self._tensors(self.target, run))
        self.source.fill(sources := self._tensors(self.source, run), self.numbering, run)
        if run.number == 0:
            self._check_filled(sources, run)

    def _tensors(self, memory: Memory, run: Run) -> Mapping[Shard, torch.Tensor]:
        """The tensors to be written; before the first run all must be as declared."""
        return self._lent(memory) if run.number else memory.borrow()

    def _lent(self, memory: Memory) -> Mapping[Shard, torch.Tensor]:
        """The tensors that still are as declared; of the others it is noted."""
        lent = memory.lend()
        for shard, trouble in lent.troubles.items():
            self.troubles[shard] = f"after the refit the {memory.role}: {trouble}"
        return lent.tensors

    def _check_filled(self, tensors: Mapping[Shard, torch.Tensor], run: Run) -> None:
        for one, other in overlapping(tensors):
            raise AffineTransferError(
                f"source tensors {one.name!r} and {other.name!r} at location {one.location} "
                f"share memory, so they are one parameter; give it both as local names"
            )
        for shard, tensor in self.source.borrow().items():
            if self.source.differing(shard, tensor, self.numbering, run) is not None:
                raise AffineTransferError(
                    f"source tensor {shard.name!r} at location {shard.location} does not keep "
                    f"what is written to it; where tensors are copies, give Accessors"
                )

    def _call(self, refit: Callable[[], object], run: Run) -> bool:
        """Run the refit; whether it did not raise."""
        watch = Watch() if run.number == 0 else None
        try:
            refit()
        except Exception as error:
            text = f"run {run.number}: {type(error).__name__}: {error}"
            if not self.refusals:
                self.refusals.append((_rank(), text))
            return False
        if watch:
            self.seen_bytes = watch.seen_bytes()
        return True

    def _read(self, run: Run) -> None:
        targets = self._lent(self.target)
        for shard, tensor in targets.items():
            wrong = self.target.differing(shard, tensor, self.numbering, run)
            self.readings.add(shard, tensor, wrong, run)
        for shard, tensor in self._lent(self.source).items() if run.number == 0 else ():
            wrong = self.source.differing(shard, tensor, self.numbering, run)
            if wrong is not None:
                self.changed[shard] = Reading(wrong, range(0))

    def _report(self) -> ProbeReport:
        refused = bool(self.refusals)
        return ProbeReport(
            num_runs=len(self.numbering.runs),
            shards=tuple(_shards_of(self._probe.target)),
            judged=() if refused else tuple(sorted({*map(_key, self.target.shards)})),
            faults=() if refused else tuple(self._faults()),
            refusals=tuple(self.refusals),
            sightings=() if refused else (self._sighting(),),
        )

    def _faults(self) -> Iterator[Fault]:
        parameters = {**self._probe.source.parameters, **self._probe.target.parameters}
        judge = Judge(
            sources=self._probe.source.maps,
            source_dtypes=self.source.dtypes,
            parameters=parameters,
            numbering=self.numbering,
        )
        for shard, trouble in self.troubles.items():
            yield Fault(
                parameter=shard.parameter,
                location=shard.location,
                name=shard.name,
                kind="wrong tensor",
                text=trouble,
            )
        for shard, reading in self.readings.by_shard.items():
            yield from judge.faults(shard, reading)
        for shard, reading in self.changed.items():
            yield from judge.changed(shard, reading)

    def _sighting(self) -> Sighting:
        item_bytes = {
            name: min(self.source.dtypes[name].itemsize, dtype.itemsize)
            for name, dtype in self.target.dtypes.items()
        }
        needed = needed_bytes(self.source.shards, self.target.shards, item_bytes)
        return Sighting(_rank(), needed, self.seen_bytes)


def _rank() -> int:
    is_known = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if is_known else 0


def _key(shard: Shard) -> tuple[str, int]:
    return shard.parameter, shard.location


def _shards_of(target: Side) -> Iterator[tuple[str, int]]:
    """Every target shard with elements, on whatever process."""
    for name in sorted(target.maps):
        for location in target.maps[name].locations:
            if target.maps[name].shard_size(location):
                yield name, location


def _check_names(source: Side, target: Side) -> None:
    if unknown := sorted({*target.maps} - {*source.maps}):
        raise InvalidMapError(
            f"the target has parameters that the source lacks: {unknown}; the source has "
            f"{sorted(source.maps)}"
        )
    for name, map_ in target.maps.items():
        shapes = source.maps[name].logical_shape, map_.logical_shape
        if shapes[0] != shapes[1]:
            raise InvalidMapError(
                f"parameter {name!r}: source and target must have one logical shape, "
                f"got {shapes[0]} and {shapes[1]}"
            )


def _dtypes(memory: Memory) -> dict[str, torch.dtype]:
    """The dtype of every parameter of a side."""
    here = memory.found_dtypes()
    filled = [name for name, map_ in memory.side.maps.items() if map_.num_elements]
    dtypes = {name: memory.side.dtype_of(name, here) for name in filled}
    if unknown := sorted(name for name, dtype in dtypes.items() if dtype is None):
        raise AffineTransferError(
            f"the {memory.role} has no tensor of {unknown} in this process, so their dtypes are "
            f"not known here; give dtypes"
        )
    return {name: dtype for name, dtype in dtypes.items() if dtype is not None}


def _numbering(source: Memory, target: Memory) -> Numbering:
    """Numbers for every source element, in digits that are exact on both sides."""
    widths = {}
    for name, dtype in source.dtypes.items():
        both = [dtype, *([target.dtypes[name]] if name in target.dtypes else [])]
        widths[name] = min(alphabet_of(each).width for each in both)
    sizes = {name: source.side.maps[name].num_elements for name in widths}
    return Numbering(sizes, widths)
