"""EXEC-STAGING and ANALYZE-STAGING: memory that is taken, beside the schedule and the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_affine.conformance._batches import Batch, planned_batch, sync_of, with_budgets
from pytest_affine.conformance._memory import Taken, taken_bytes
from pytest_affine.conformance._moves import shares_of
from pytest_affine.contract.cases import Case
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import cases, requirement
from pytest_affine.fixtures.batches import BINDINGS, MIXED
from pytest_affine.fixtures.staged import STAGED
from pytest_affine.fixtures.syncs import PLACED, STRIDED
from pytest_affine.plans import Message, ProcessSchedule, Queue

SLACK = 1024
"""Bytes beyond arenas and exchange that are granted, for tensors that hold no payload: a count, an
index, a flag. Each arena of a case that this is judged in is larger."""


def measured(implementation: ImplementationProxy, case: Case) -> tuple[Batch, list[Taken]]:
    """The case's batch, and by process what moving it takes."""
    shares = shares_of(implementation, sync_of(case))
    taken: list[Taken] = implementation.run_on_every_rank(
        taken_bytes, shares, method="execute_transfers"
    )
    return shares[0].batch, taken


@requirement("EXEC-STAGING")
@cases(STAGED)
def test_executing_takes_no_more_memory_than_the_arenas(
    implementation: ImplementationProxy, case: Case
) -> None:
    """Judged on what torch allocates in the thread that calls: by its memory events on a CPU, by
    the allocator's statistics elsewhere. What is taken outside torch, or by other threads on a CPU,
    is not seen. The exchange is what a batch of no parameters takes.
    """
    batch, taken = measured(implementation, case)
    processes = batch.given_to(implementation.schedule_transfers).processes
    for process, own in enumerate(taken):
        arenas = arenas_of(processes[process]) if process in processes else []
        granted = sum(arenas) + own.exchange + SLACK + own.grain * len(arenas)
        if own.batch > granted:
            raise AssertionError(
                f"process {process} takes {own.batch} bytes while executing; its arenas have "
                f"{sum(arenas)}, the exchange takes {own.exchange}, and {SLACK} are granted beyond"
            )


def arenas_of(own: ProcessSchedule) -> list[int]:
    """The bytes of each arena of a process."""
    queues = (*own.sends.values(), *own.receives.values())
    return [queue.arena_bytes for queue in queues if queue.arena_bytes]


@requirement("ANALYZE-STAGING", "schedule_transfers")
@cases(BINDINGS, MIXED, PLACED, STRIDED)
def test_staging_bytes_are_the_arenas_and_staged_messages_are_packed_and_unpacked(
    implementation: ImplementationProxy, case: Case
) -> None:
    for batch in with_budgets(planned_batch(implementation, sync_of(case))):
        schedule = batch.given_to(implementation.schedule_transfers)
        report = batch.given_to(implementation.analyze_transfers)
        for process, own in schedule.processes.items():
            wanted = {
                "staging_bytes": sum(arenas_of(own)),
                "pack_bytes": sum(message.num_bytes for message in staged(own.sends)),
                "unpack_bytes": sum(message.num_bytes for message in staged(own.receives)),
            }
            said = {name: getattr(report.processes[process], name) for name in wanted}
            if said != wanted:
                raise AssertionError(
                    f"process {process}, budget {batch.budget.bytes_per_peer}: the report says "
                    f"{said}, the schedule {wanted}"
                )


def staged(queues: Mapping[int, Queue]) -> Iterator[Message]:
    """The messages of one direction that are not direct."""
    for queue in queues.values():
        yield from (message for message in queue.messages if not message.direct)


@requirement("ANALYZE-STAGING", "execute_transfers")
@cases(STAGED)
def test_staging_bytes_are_what_the_executor_allocates(
    implementation: ImplementationProxy, case: Case
) -> None:
    """Arenas and exchange may be there at the same time or not, so both are granted."""
    batch, taken = measured(implementation, case)
    report = batch.given_to(implementation.analyze_transfers)
    for process, own in report.processes.items():
        least, seen = own.staging_bytes, taken[process]
        most = least + seen.exchange + SLACK + seen.grain * 2 * own.num_peers
        if not least <= seen.batch <= most:
            raise AssertionError(
                f"process {process} has staging_bytes {least} in the report, and the executor "
                f"takes {seen.batch} bytes; the exchange takes {seen.exchange}"
            )
