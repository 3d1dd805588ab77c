"""A batch as operations between processes, and how those of one pair are packed into messages.

The schedule turns this into its values and the analyzer counts it, so that neither derives anything
that the other does too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferPlan
from pytest_affine.reference.batch import bound_processes, check_segments
from pytest_affine.reference.cuts import Cut, Cuts, Load
from pytest_affine.reference.widths import ElementSizes, Width, checked_widths

__all__ = ["Batch", "Operations", "Packed", "cut_batch", "pack"]

Pair: TypeAlias = tuple[int, int]
"""Sending and receiving process; one process with itself copies locally."""


@dataclass(frozen=True, slots=True)
class Operations:
    """Segments from one process to one, in order; column by column, as there may be very many.

    Attributes:
        parameters: name of each one's parameter.
        segments: its index in that parameter's plan.
        cuts: how it is cut, into one chunk at least.
    """

    parameters: list[str] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch moves.

    Attributes:
        processes: every process that an endpoint names, in order.
        budget_bytes: bytes staged per peer and direction at one time.
        num_by_cut: how many segments of the batch are cut so, those without elements included.
        between: the operations of each pair, in order of pairs.
    """

    processes: tuple[int, ...]
    budget_bytes: int
    num_by_cut: Mapping[Cut, int]
    between: Mapping[Pair, Operations]

    @property
    def num_segments(self) -> int:
        """Segments of the whole batch."""
        return sum(self.num_by_cut.values())

    @property
    def num_chunks(self) -> int:
        """Chunks of the whole batch, local ones included."""
        return sum(cut.num_chunks * number for cut, number in self.num_by_cut.items())


def cut_batch(
    plans: Mapping[str, TransferPlan],
    endpoints: TransferEndpoints,
    *,
    element_size: ElementSizes,
    budget: StagingBudget,
    cast: bool,
    processes: Collection[int] | None = None,
) -> Batch:
    """Check a batch and cut its segments; a plan that parameters share is looked at once.

    With `processes`, operations that none of these takes part in are left out of `between`.

    Raises:
        AffineTransferError: what `schedule_transfers` refuses of a batch.
    """
    widths, budget_bytes = checked_widths(plans, element_size, budget, cast=cast)
    sources, targets = bound_processes(endpoints)
    cuts = {width: Cuts(budget_bytes, width) for width in widths.values()}
    binder = _Binder(sources, targets, cuts, processes)
    num_by_cut: Counter[Cut] = Counter()
    plans = dict(plans)  # which keeps them alive: they are told apart by identity
    bound: dict[tuple[int, Width], _BoundPlan] = {}
    for name, plan in plans.items():
        key = id(plan), widths[name]
        if key not in bound:
            check_segments(name, plan, "source", sources)
            check_segments(name, plan, "target", targets)
            bound[key] = binder.bind(plan, widths[name])
        own = bound[key]
        num_by_cut.update(own.num_by_cut)
        for segment, cut, operations in own.rows:
            operations.parameters.append(name)
            operations.segments.append(segment)
            operations.cuts.append(cut)
    return Batch(
        processes=tuple(sorted({*sources.values(), *targets.values()})),
        budget_bytes=budget_bytes,
        num_by_cut=num_by_cut,
        between=dict(sorted(binder.between.items())),
    )


class _BoundPlan(NamedTuple):
    """A plan's segments by cut; and each that is to be moved, with the operations that it joins."""

    num_by_cut: Mapping[Cut, int]
    rows: list[tuple[int, Cut, Operations]]


class _Binder:
    """Finds each segment's cut and its pair of processes."""

    def __init__(
        self,
        sources: Mapping[int, int],
        targets: Mapping[int, int],
        cuts: Mapping[Width, Cuts],
        processes: Collection[int] | None,
    ) -> None:
        self._sources = sources
        self._targets = targets
        self._cuts = cuts
        self._processes = None if processes is None else frozenset(processes)
        self.between: dict[Pair, Operations] = defaultdict(Operations)

    def bind(self, plan: TransferPlan, width: Width) -> _BoundPlan:
        own = self._cuts[width]
        cuts = [own[part.shape, part.source_strides, part.target_strides] for part in plan.segments]
        pairs = [
            (self._sources[part.source_location], self._targets[part.target_location])
            for part in plan.segments
        ]
        wanted = self._processes
        rows = [
            (segment, cut, self.between[pair])
            for segment, (cut, pair) in enumerate(zip(cuts, pairs, strict=True))
            if cut.num_chunks and (wanted is None or not wanted.isdisjoint(pair))
        ]
        return _BoundPlan(Counter(cuts), rows)


class Packed(NamedTuple):
    """A message, and how the segment goes on whose chunk is its last.

    Attributes:
        num_chunks: chunks of the message.
        load: what it carries.
        goes_on: the cut of a segment with more chunks, each a message of its own, except that the
            segment's last one begins the next `Packed`; None for any other segment.
    """

    num_chunks: int
    load: Load
    goes_on: Cut | None


def pack(cuts: Iterable[Cut], budget_bytes: int) -> Iterator[Packed]:
    """Pack the operations of one pair into messages, which hold what fits and is of one size.

    It takes a step for each segment, however many chunks this has.
    """
    num_chunks, room, element_size, only = 0, 0, 0, Load(0, 0, (False, False))
    for cut in cuts:
        if cut.first.num_bytes > room or cut.element_size != element_size:
            if num_chunks:
                yield _packed(num_chunks, only, budget_bytes - room, element_size, None)
            num_chunks, room = 0, budget_bytes
            element_size, only = cut.element_size, cut.first
        num_chunks += 1
        room -= cut.first.num_bytes
        if cut.num_chunks > 1:
            yield _packed(num_chunks, only, budget_bytes - room, element_size, cut)
            num_chunks, room, only = 1, budget_bytes - cut.last.num_bytes, cut.last
    if num_chunks:
        yield _packed(num_chunks, only, budget_bytes - room, element_size, None)


def _packed(
    num_chunks: int, only: Load, num_bytes: int, element_size: int, goes_on: Cut | None
) -> Packed:
    if num_chunks > 1:
        only = Load(num_bytes // element_size, num_bytes, (False, False))
    return Packed(num_chunks, only, goes_on)
