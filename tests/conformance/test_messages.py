"""Schedulers that stage, time and select with a fault violate what it is about."""

import pytest
from judging import Judge

from pytest_affine.contract.outcomes import Outcome

HANDOFF = "an uneven handoff in small messages (F47)"
PARTLY = "part of each shard stays (F30)"
EVEN = "even split, same processes"
ELSEWHERE = "even split, other processes"
ONE_ROW = "one row of a wide shard (F49)"
MIXED = "parameters of several dtypes"

FAULTS = [
    ("messages:StagesEverything", "SCHED-DIRECT", PARTLY),
    ("messages:StagesEverything", "SCHED-DIRECT", "packed, from an offset"),
    ("messages:LooksAtStridesOfExtentsOfOne", "SCHED-DIRECT", ONE_ROW),
    (
        "messages:LooksAtStridesOfExtentsOfOne",
        "SCHED-DIRECT",
        "one column of a tall shard (F49)",
    ),
    ("messages:SendsSingleChunksDirectly", "SCHED-DIRECT", "the middle columns leave (F28)"),
    ("messages:SendsSingleChunksDirectly", "SCHED-DIRECT", "every second element"),
    (
        "messages:SendsSingleChunksDirectly",
        "SCHED-DIRECT",
        "packed but for the order of its axes",
    ),
    ("messages:AsksTheSourceOnly", "SCHED-DIRECT", "two rows of a wide shard"),
    ("messages:ArenasForAll", "SCHED-ARENA", PARTLY),
    ("messages:ArenasOfTheFirst", "SCHED-ARENA", MIXED),
    ("messages:RoundsOfSends", "SCHED-ROUNDS", HANDOFF),
    ("messages:RoundsOfTheBatch", "SCHED-ROUNDS", "only one of two replicas is read (F26)"),
    ("schedules:ExpectsOneMessageLess", "SCHED-ROUNDS", HANDOFF),
    ("messages:WaitsForNobody", "SCHED-ROUNDS", ELSEWHERE),
    ("messages:SchedulesAllForOne", "SCHED-ONE", PARTLY),
    ("messages:SchedulesOneWithoutReceives", "SCHED-ONE", PARTLY),
    ("messages:MovesSharedPlansOnce", "SCHED-SHARED", EVEN),
    ("messages:CountsSharedPlansOnce", "SCHED-SHARED", EVEN),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_scheduler_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    judge.assert_notices(name, requirement, case)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("WithTensors", "torch's tensor"),
        ("WithMetaTensors", "torch's empty"),
        ("WithTensorsOverBytes", "torch's frombuffer"),
        ("WithStorages", "[memory]"),
        ("InThreads", "torch's zeros"),
        ("WithViews", "aten::slice"),
        ("Together", "send of 4 bytes of float32 to rank 1"),
    ],
)
@pytest.mark.parametrize(
    ("call", "requirement"), [("Schedules", "SCHED-PURE"), ("Analyzes", "ANALYZE-PURE")]
)
def test_what_a_pure_call_must_not_do_is_named(
    judge: Judge, name: str, seen: str, call: str, requirement: str
) -> None:
    text = judge.violation(f"impure:{call}{name}", requirement, EVEN)
    assert f"is not pure; seen were {seen}" in text


def test_expected_statistics_must_be_pure_too(judge: Judge) -> None:
    text = judge.violation("impure:ExpectsWithTensors", "ANALYZE-PURE", EVEN)
    assert text.startswith("expected_stats is not pure; seen were torch's tensor")


@pytest.mark.parametrize("requirement", ["SCHED-PURE", "ANALYZE-PURE"])
def test_the_reference_is_pure(judge: Judge, requirement: str) -> None:
    assert judge.outcome("reference", requirement, MIXED) is Outcome.CONFORMANT


def test_a_message_that_is_staged_without_need_is_named(judge: Judge) -> None:
    text = judge.violation("messages:StagesEverything", "SCHED-DIRECT", ONE_ROW)
    assert text == (
        "message 0 of process 0 to process 1 is staged; its chunks are one, of ((1, 4), (99, 1))"
    )


def test_an_arena_of_another_size_is_named(judge: Judge) -> None:
    text = judge.violation("messages:ArenasForAll", "SCHED-ARENA", PARTLY)
    assert text.startswith("process 0 receives staged messages of [] bytes for process 1 and has ")


def test_a_process_that_would_wait_forever_is_named(judge: Judge) -> None:
    text = judge.violation("messages:WaitsForNobody", "SCHED-ROUNDS", ELSEWHERE)
    assert text.startswith("process 0 waits in round 0 of 1 forever; the others are in {0: 0")
