"""Faulty analyses and statistics violate what their fault is about; the reference nothing."""

import pytest
from judging import Judge

from pytest_affine.contract.outcomes import Outcome

HANDOFF = "an uneven handoff in small messages (F47)"
EVEN = "even split, same processes"
PARTLY = "part of each shard stays (F30)"

FAULTS = [
    ("statistics:CountsLocalBytesAsSent", "STATS-EQUAL", PARTLY),
    ("statistics:LeavesOutReceiversRounds", "STATS-EQUAL", HANDOFF),
    ("statistics:ExpectsNoSegments", "STATS-EQUAL", PARTLY),
    ("analyses:LeavesLocalBytesOutOfPaths", "ANALYZE-SUM", PARTLY),
    ("analyses:CountsMessagesForLocalCopies", "ANALYZE-SUM", PARTLY),
    ("analyses:HoldsPairsOfOne", "ANALYZE-SUM", PARTLY),
    ("analyses:TurnsPairsAround", "ANALYZE-SUM", PARTLY),
    ("analyses:LeavesLocalBytesOutOfVolume", "ANALYZE-SUM", PARTLY),
    ("analyses:ReportsOneByteMoreReceivedByEach", "ANALYZE-SUM", PARTLY),
    ("analyses:ReportsOneMessageMoreSentByEach", "ANALYZE-SUM", PARTLY),
    ("analyses:ReportsOneByteMoreCopiedByEach", "ANALYZE-SUM", PARTLY),
    ("analyses:IgnoresPathOf", "ANALYZE-SUM", PARTLY),
    ("analyses:ReportsOneByteMoreStaged", "ANALYZE-STAGING", PARTLY),
    ("analyses:ReportsOneByteMorePacked", "ANALYZE-STAGING", PARTLY),
    ("analyses:ReportsOneByteMoreUnpacked", "ANALYZE-STAGING", PARTLY),
    ("analyses:StagesEveryMessage", "ANALYZE-STAGING", PARTLY),
    ("analyses:KeysOfIntegers", "ANALYZE-JSON", EVEN),
    ("analyses:PairsOfTuples", "ANALYZE-JSON", EVEN),
    ("analyses:SetsOfLabels", "ANALYZE-JSON", EVEN),
    ("analyses:NoNumberForInfinity", "ANALYZE-JSON", EVEN),
    ("analyses:NoSchema", "ANALYZE-JSON", EVEN),
    ("analyses:NoNumbering", "ANALYZE-JSON", EVEN),
    ("analyses:AnalyzesEmptyBatches", "ANALYZE-REFUSE", "a budget of 0, empty batch (F50)"),
    ("analyses:AnalyzesFractions", "ANALYZE-REFUSE", "a fractional budget"),
    ("statistics:ExpectsNothingOfStrangers", "ANALYZE-REFUSE", "process 7 of 2 (F50)"),
    ("statistics:ExpectsNothingOfStrangers", "ANALYZE-REFUSE", "an idle process"),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_analysis_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    judge.assert_notices(name, requirement, case)


@pytest.mark.parametrize(
    ("name", "requirement"),
    [("allowed:HasNoRounds", "STATS-EQUAL"), ("allowed:NoPathOption", "ANALYZE-SUM")],
)
def test_what_an_implementation_does_not_have_is_not_judged(
    judge: Judge, name: str, requirement: str
) -> None:
    assert judge.outcome(name, requirement, PARTLY) is Outcome.CONFORMANT


def test_a_statistic_that_differs_is_shown_with_both_values(judge: Judge) -> None:
    text = judge.violation("statistics:LeavesOutReceiversRounds", "STATS-EQUAL", HANDOFF)
    assert text.startswith("process 2, budget 12: expected_stats says rounds 0, got ")


def test_a_total_that_differs_is_shown_with_both_values(judge: Judge) -> None:
    text = judge.violation("analyses:LeavesLocalBytesOutOfPaths", "ANALYZE-SUM", PARTLY)
    assert text == "default paths: local: None, should be (12, 0)"
