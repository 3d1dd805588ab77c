"""Faulty schedulers violate the requirement that their fault is about; the reference none."""

import pytest
from judging import Judge

from pytest_affine.contract.outcomes import Outcome

HANDOFF = "an uneven handoff in small messages (F47)"
PARTLY = "part of each shard stays (F30)"

FAULTS = [
    ("schedules:ReceivesInAnotherOrder", "SCHED-AGREE", HANDOFF),
    ("schedules:ExpectsOneMessageLess", "SCHED-AGREE", HANDOFF),
    ("schedules:SchedulesNoReceives", "SCHED-AGREE", PARTLY),
    ("schedules:DoublesTheBudget", "SCHED-BUDGET", HANDOFF),
    ("schedules:SaysFewerBytes", "SCHED-BUDGET", HANDOFF),
    ("schedules:SchedulesNoReceives", "SCHED-VOLUME", PARTLY),
    ("schedules:SchedulesNoLocalCopies", "SCHED-VOLUME", PARTLY),
    ("schedules:ForgetsLastMessages", "SCHED-VOLUME", HANDOFF),
    ("schedules:MovesOneChunkTwice", "SCHED-VOLUME", "all on one process"),
    ("schedules:SchedulesEmptyBatches", "SCHED-REFUSE", "a budget of 0, empty batch (F50)"),
    ("schedules:SchedulesUnknownProcesses", "SCHED-REFUSE", "process 7 of 2 (F50)"),
    ("schedules:SchedulesUnknownProcesses", "SCHED-REFUSE", "process 7 of 2 (F50), empty batch"),
    ("schedules:SchedulesUnknownProcesses", "SCHED-REFUSE", "an idle process"),
    ("schedules:TakesAnyBudget", "SCHED-REFUSE", "a budget smaller than an element"),
    ("schedules:TakesAnyBudget", "SCHED-REFUSE", "a fractional budget"),
    ("schedules:LeavesOutUnboundLocations", "SCHED-REFUSE", "a source location without endpoint"),
    ("schedules:LeavesOutUnboundLocations", "SCHED-REFUSE", "a target location without endpoint"),
    ("schedules:CrashesInSchedules", "SCHED-REFUSE", "a negative budget"),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_scheduler_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    judge.assert_notices(name, requirement, case)


def test_a_chunk_that_goes_twice_is_named(judge: Judge) -> None:
    text = judge.violation("schedules:MovesOneChunkTwice", "SCHED-VOLUME", "all on one process")
    assert text.startswith("element (0,) of segment 0 of 'weight' goes ")


def test_messages_that_do_not_agree_are_shown_from_both_ends(judge: Judge) -> None:
    text = judge.violation("schedules:SchedulesNoReceives", "SCHED-AGREE", PARTLY)
    assert text.startswith("process 1 sends to process 0 the messages (elements, bytes, chunks) [(")
    assert text.endswith(", which expects None")


def test_a_process_is_asked_for_only_where_the_option_is_claimed(judge: Judge) -> None:
    outcome = judge.outcome("allowed:NoProcessOption", "SCHED-REFUSE", "an idle process")
    assert outcome is Outcome.NOT_CLAIMED
