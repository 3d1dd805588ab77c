"""What every stage after the plan is given: the plans of a sync, and how they are to be moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.plans import (
    Message,
    ProcessSchedule,
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferSegment,
)
from pytest_affine.sync import Sync, SyncParameter

__all__ = [
    "ITEM_BYTES",
    "Batch",
    "Processes",
    "endpoints_of",
    "one_or_each",
    "planned_batch",
    "scheduled",
    "sent_messages",
    "sync_of",
    "wire_bytes",
    "with_budgets",
]

ITEM_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes per element, by the torch attribute that names a dtype; the controller has no torch."""


def wire_bytes(parameter: SyncParameter) -> int:
    """Bytes per element that count: those of the smaller of its two dtypes."""
    return min(ITEM_BYTES[parameter.source_dtype], ITEM_BYTES[parameter.target_dtype])


def sync_of(case: Case) -> Sync:
    """The sync of a case that has one."""
    assert case.sync is not None
    return case.sync


def one_or_each(values: Mapping[str, Any]) -> Any:
    """One value where all parameters have the same, else one per parameter."""
    distinct = set(values.values())
    return distinct.pop() if len(distinct) == 1 else dict(values)


def endpoints_of(entry: Mapping[str, Mapping[str, Any]]) -> TransferEndpoints:
    """Endpoints as a case holds them; unlike `from_dict` this takes any process, to be refused."""
    sides = (entry["source"], entry["target"])
    return TransferEndpoints(*({int(key): process for key, process in s.items()} for s in sides))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The plans of one sync, in its order, and how they are to be moved.

    Attributes:
        plans: by parameter.
        endpoints: location to process.
        sizes: bytes per element, by parameter; the fewer where they are cast.
        budget: staging budget.
        casts: those of source and target, by parameter that is cast.
    """

    plans: Mapping[str, TransferPlan]
    endpoints: TransferEndpoints
    sizes: Mapping[str, int]
    budget: StagingBudget
    casts: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def element_size(self) -> Any:
        """Bytes per element as a stage takes them: one value, or one per parameter."""
        return one_or_each({**self.sizes, **self.casts})

    def is_cast_at(self, parameter: str, side: str) -> bool:
        """Whether a side casts a parameter's elements: who has the wider, else the target."""
        source, target = self.casts.get(parameter, (0, 0))
        caster = "source" if target < source else "target"
        return parameter in self.casts and side == caster

    def given_to(self, stage: Callable[..., Any], **options: Any) -> Any:
        """What a stage (schedule, digest, analysis) says of this batch."""
        if self.casts:
            options["cast"] = True
        return stage(
            self.plans,
            self.endpoints,
            element_size=self.element_size,
            budget=self.budget,
            **options,
        )

    def segments(self) -> Iterator[tuple[str, int, TransferSegment]]:
        """Every segment with its parameter and its index in the plan, in the batch's order."""
        for name, plan in self.plans.items():
            for index, segment in enumerate(plan.segments):
                yield name, index, segment

    def ends(self, segment: TransferSegment) -> tuple[int, int]:
        """The process that a segment leaves and the one that it reaches."""
        sources, targets = dict(self.endpoints.source), dict(self.endpoints.target)
        return sources[segment.source_location], targets[segment.target_location]

    def moved_bytes(self) -> int:
        """Bytes that the segments copy, within processes and between them."""
        return sum(segment.num_elements * self.sizes[name] for name, _, segment in self.segments())


def planned_batch(implementation: ImplementationProxy, sync: Sync) -> Batch:
    """Plan every parameter of a sync, by the implementation's own planner if it has one."""
    return Batch(
        plans={
            parameter.name: implementation.plan_transfer(parameter.source, parameter.target)
            for parameter in sync.parameters
        },
        endpoints=sync.endpoints,
        sizes={parameter.name: wire_bytes(parameter) for parameter in sync.parameters},
        budget=sync.budget,
        casts={
            parameter.name: (ITEM_BYTES[parameter.source_dtype], ITEM_BYTES[parameter.target_dtype])
            for parameter in sync.parameters
            if parameter.source_dtype != parameter.target_dtype
        },
    )


def with_budgets(batch: Batch) -> Iterator[Batch]:
    """The batch under its own budget, under one of a single element, and under one of three."""
    largest = max(batch.sizes.values())
    for budget in dict.fromkeys((batch.budget.bytes_per_peer, largest, 3 * largest)):
        yield replace(batch, budget=StagingBudget(budget))


Processes: TypeAlias = Mapping[int, ProcessSchedule]


def scheduled(implementation: ImplementationProxy, case: Case) -> Iterator[tuple[Batch, Processes]]:
    """The case's batch under several budgets, beside its schedule by process."""
    for batch in with_budgets(planned_batch(implementation, sync_of(case))):
        yield batch, batch.given_to(implementation.schedule_transfers).processes


def sent_messages(
    processes: Processes,
) -> Iterator[tuple[int, int, Message]]:
    """Every message of a schedule as its sender has it: (sender, receiver, message)."""
    for sender, own in processes.items():
        for receiver, queue in own.sends.items():
            yield from ((sender, receiver, message) for message in queue.messages)
