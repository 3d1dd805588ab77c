"""Faults that depend on the dtype, the memory, the group, the budget, or on earlier calls."""

import pytest
from judging import Judge

TO_OTHER = "rows to columns, one message to each process"
SMALL = "rows to columns in messages of 1 KiB and a row"
DIRECT = "16 KiB to the other process, direct on both sides"
CROWDED = "two locations on each of two processes"

FAULTS = [
    ("executors:LosesTheSignOfZero", "EXEC-DTYPE", "elements of float32"),
    ("executors:LosesTheSignOfZero", "EXEC-DTYPE", "elements of complex64"),
    ("executors:CastsOnTheWay", "EXEC-DTYPE", "elements of float16"),
    ("executors:CastsOnTheWay", "EXEC-DTYPE", "elements of bfloat16"),
    ("executors:CastsOnTheWay", "EXEC-DTYPE", "elements of complex64"),
    ("executors:CastsOnTheWay", "EXEC-DTYPE", "elements of every float8 dtype"),
    ("executors:CastsOnTheWay", "EXEC-DTYPE", "elements of int64"),
    ("sequences:WantsWholeStorages", "EXEC-VIEW", f"{CROWDED}, one buffer"),
    ("executors:WritesBehindTargets", "EXEC-VIEW", "parameters of several dtypes, one buffer"),
    ("sequences:LooksAtEveryStride", "EXEC-VIEW", "extents of 1, odd strides"),
    ("tolerant:PacksWhatIsNotPacked", "EXEC-VIEW", "a source buffer that is transposed"),
    ("tolerant:PacksWhatIsNotPacked", "EXEC-VIEW", "a target buffer that is transposed"),
    ("tolerant:PacksWhatIsNotPacked", "EXEC-VIEW", "a target buffer that is one element for all"),
    (
        "tolerant:PacksWhatIsNotPacked",
        "EXEC-VIEW",
        "a source buffer that is some columns of a wider one",
    ),
    ("sequences:SortsTheGroup", "EXEC-GROUP", "rows to columns, ranks 3 and 1"),
    ("sequences:SortsTheGroup", "EXEC-GROUP", "three processes, ranks 2, 0 and 3"),
    ("sequences:NeedsAGroup", "EXEC-GROUP", "rows to columns, no group is given"),
    ("sequences:DropsASegmentUnderOddBudgets", "EXEC-BUDGET", "even split, same processes"),
    ("sequences:DropsSegmentsThatAreCut", "EXEC-BUDGET", "even split, same processes"),
    ("executors:DeliversOnlyOnce", "EXEC-REPEAT", "there and back"),
    ("executors:KeepsTheFirstValues", "EXEC-REPEAT", "there and back"),
    ("sequences:KeepsTheFirstPlans", "EXEC-REPEAT", "other processes"),
    ("sequences:StopsAfterNothing", "EXEC-REPEAT", "other processes"),
    ("sequences:FillsWithTheLastRun", "EXEC-REPEAT", "there and back"),
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
    judge.assert_notices(name, requirement, case)


def test_the_budget_that_gives_another_result_is_named(judge: Judge) -> None:
    name = "sequences:DropsASegmentUnderOddBudgets"
    text = judge.violation(name, "EXEC-BUDGET", "even split, same processes")
    assert text.startswith("with a budget of ")


def test_a_message_that_is_left_for_a_later_call_is_named(judge: Judge) -> None:
    text = judge.violation("sequences:LeavesAMessage", "EXEC-REPEAT", "there and back")
    assert text == "after call 1 of 10: process 0 sent 2 messages to process 1, which received 1"


def test_memory_beyond_the_arenas_is_counted(judge: Judge) -> None:
    text = judge.violation("sequences:CopiesSources", "EXEC-STAGING", DIRECT)
    assert "process 0 takes 16384 bytes while executing; its arenas have 0, the exchange " in text
