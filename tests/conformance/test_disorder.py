"""Executors that rely on messages in time, and what is told of a message that never comes."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from judging import DEADLINE, Judge

from pytest_affine.conformance.execution import (
    test_messages_that_leave_late_or_in_another_order_change_nothing as disturbed,
)
from pytest_affine.contract.examination import Examination, Finding, examine
from pytest_affine.contract.outcomes import NotRun, Outcome
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import read_facts
from pytest_affine.contract.suite import suite_tests
from pytest_affine.fixtures.moves import DISTURBED
from pytest_affine.ranks import RankPool

NAMES = [case.name for case in DISTURBED]
SMALL, TO_ONE, EQUAL, TO_ALL, *_ = NAMES


def examined(fault: str, case: str, deadline: float = DEADLINE) -> Finding:
    """What the suite finds of the reference with a fault in a case of disturbed messages."""
    (test,) = (t for t in suite_tests()["execution"] if t.name == disturbed.__name__)
    (fixed,) = (each for each in test.fixed if each.name == case)
    with RankPool(4, deadline=DEADLINE) as pool:
        pool.run(import_module, test.function.__module__)
        pool.deadline = deadline
        implementation = ImplementationProxy(
            pool,
            "reference",
            read_facts("reference", []),
            fault=f"pytest_affine.mutants.faults.disorder:{fault}",
        )
        return examine(test, fixed, implementation, Examination(num_examples=1, seed=0))


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_does_not_rely_on_messages_in_time(judge: Judge, name: str) -> None:
    assert judge.outcome("reference", "EXEC-EXACT", name) is Outcome.CONFORMANT


@pytest.mark.parametrize(
    ("fault", "case"),
    [("TakesMessagesAsTheyCome", EQUAL), ("ForgetsToWaitForProcessZero", TO_ONE)],
)
def test_an_executor_that_relies_on_messages_in_time_is_noticed(fault: str, case: str) -> None:
    finding = examined(fault, case)
    assert finding.record.outcome is Outcome.VIOLATED
    assert "elements are wrong" in finding.record.reason


def test_statistics_must_not_change_with_what_is_late() -> None:
    finding = examined("AddsUpItsStatistics", TO_ALL)
    assert finding.record.outcome is Outcome.VIOLATED
    assert finding.text == (
        "process 2: statistics must be those of messages in time, sent_bytes 96, got 192"
    )


def test_a_message_that_never_comes_is_told_by_the_schedule() -> None:
    text = examined("LosesAMessage", SMALL, deadline=3.0).text
    assert text.startswith("rank 0 of 4: no answer within 3.0 s")
    assert text.partition("\n\nby the schedule:\n")[2].splitlines() == [
        "  rank 0 waits for message 4 of 28 from rank 1 in batch 1 of 2 (4 bytes, round 4: "
        "parameter 'weight', segment 3), which rank 1 never sent",
        "  rank 1 waits for message 3 of 18 from rank 0 in batch 1 of 2 (16 bytes, round 3: "
        "parameter 'weight', segment 0), which rank 0 never sent",
    ]


def test_messages_are_disturbed_on_gloo_only() -> None:
    implementation: Any = SimpleNamespace(pool=SimpleNamespace(backend="nccl"))
    with pytest.raises(NotRun, match="messages are held back on gloo, and the ranks have nccl"):
        disturbed(implementation, DISTURBED[0])
