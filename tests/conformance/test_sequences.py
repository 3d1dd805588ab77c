"""Faults that depend on the dtype, the memory, the group, the budget, or on earlier calls."""

import pytest
from judging import Judge

from pytest_affine.contract.outcomes import Outcome

TO_OTHER = "rows to columns, one message to each process"
SMALL = "rows to columns in messages of 1 KiB and a row"
DIRECT = "16 KiB to the other process, direct on both sides"
CROWDED = "two locations on each of two processes"

FAULTS = [
    ("executors:LosesSignOfZero", "EXEC-DTYPE", "elements of float32"),
    ("executors:LosesSignOfZero", "EXEC-DTYPE", "elements of complex64"),
    ("executors:QuietsNans", "EXEC-DTYPE", "elements of float16"),
    ("executors:QuietsNans", "EXEC-DTYPE", "elements of bfloat16"),
    ("executors:QuietsNans", "EXEC-DTYPE", "elements of complex64"),
    ("executors:QuietsNans", "EXEC-DTYPE", "elements of every float8 dtype"),
    ("executors:QuietsNans", "EXEC-DTYPE", "elements of int64"),
    ("sequences:WantsWholeStorages", "EXEC-VIEW", f"{CROWDED}, one buffer"),
    ("executors:WritesBehindTargets", "EXEC-VIEW", "parameters of several dtypes, one buffer"),
    ("sequences:LooksAtEveryStride", "EXEC-VIEW", "extents of 1, odd strides"),
    ("sequences:PacksWhatIsNotPacked", "EXEC-VIEW", "a source buffer that is transposed"),
    ("sequences:PacksWhatIsNotPacked", "EXEC-VIEW", "a target buffer that is transposed"),
    ("sequences:PacksWhatIsNotPacked", "EXEC-VIEW", "a target buffer that is one element for all"),
    (
        "sequences:PacksWhatIsNotPacked",
        "EXEC-VIEW",
        "a source buffer that is some columns of a wider one",
    ),
    ("sequences:SortsTheGroup", "EXEC-GROUP", "rows to columns, ranks 3 and 1"),
    ("sequences:SortsTheGroup", "EXEC-GROUP", "three processes, ranks 2, 0 and 3"),
    ("sequences:NeedsAGroup", "EXEC-GROUP", "rows to columns, no group is given"),
    ("sequences:DropsWhatIsLeftOfTheBudget", "EXEC-BUDGET", "even split, same processes"),
    ("sequences:DropsSegmentsThatAreCut", "EXEC-BUDGET", "even split, same processes"),
    ("executors:DeliversOnlyOnce", "EXEC-REPEAT", "there and back"),
    ("executors:KeepsFirstValues", "EXEC-REPEAT", "there and back"),
    ("sequences:KeepsFirstPlans", "EXEC-REPEAT", "other processes"),
    ("sequences:StopsAfterNothing", "EXEC-REPEAT", "other processes"),
    ("sequences:FillsWithLastRun", "EXEC-REPEAT", "there and back"),
    ("sequences:LeavesAMessage", "EXEC-REPEAT", "there and back"),
    ("sequences:WritesIntoEarlierTargets", "EXEC-REPEAT", "another dtype of the same size"),
    ("sequences:CopiesSources", "EXEC-STAGING", DIRECT),
    ("sequences:CopiesTargets", "EXEC-STAGING", SMALL),
    ("sequences:StagesTheWholeBatch", "EXEC-STAGING", SMALL),
    ("sequences:CopiesSources", "ANALYZE-STAGING", DIRECT),
    ("analyses:StagesEveryMessage", "ANALYZE-STAGING", DIRECT),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_executor_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    assert judge.outcome(f"faulty.{name}", requirement, case) is Outcome.VIOLATED
    assert judge.outcome("reference", requirement, case) is Outcome.CONFORMANT


def test_the_budget_that_gives_another_result_is_named(judge: Judge) -> None:
    name = "faulty.sequences:DropsWhatIsLeftOfTheBudget"
    text = judge.violation(name, "EXEC-BUDGET", "even split, same processes")
    assert text.startswith("with a budget of ")


def test_a_message_that_is_left_for_a_later_call_is_named(judge: Judge) -> None:
    text = judge.violation("faulty.sequences:LeavesAMessage", "EXEC-REPEAT", "there and back")
    assert text == "after call 1 of 10: process 0 sent 2 messages to process 1, which received 1"


def test_memory_beyond_the_arenas_is_counted(judge: Judge) -> None:
    text = judge.violation("faulty.sequences:CopiesSources", "EXEC-STAGING", DIRECT)
    assert "process 0 takes 16384 bytes while executing; its arenas have 0, the exchange " in text
