"""Faulty digests, and executors that do not compare them, violate what their fault is about."""

import pytest
from judging import Judge

NAMED = "8 names (F38)"
MIXED = "parameters of several dtypes"
LACKING = "process 1 lacks a source buffer"

FAULTS = [
    ("digests:DependsOnHashes", "DIGEST-STABLE", NAMED),
    ("digests:DependsOnTheRank", "DIGEST-STABLE", NAMED),
    ("digests:CountsItsDigests", "DIGEST-STABLE", NAMED),
    ("digests:DependsOnPlacesInMemory", "DIGEST-STABLE", NAMED),
    ("digests:IgnoresTheBudget", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresElementSizes", "DIGEST-SENSITIVE", MIXED),
    ("digests:IgnoresSourceEndpoints", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresTargetEndpoints", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresNames", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresTheOrderOfParameters", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresLogicalShapes", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresSourceSizes", "DIGEST-SENSITIVE", NAMED),
    ("digests:TakesAbsentSizesForNone", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresTheOrderOfSegments", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresSourceOffsets", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresTargetStrides", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresTargetLocations", "DIGEST-SENSITIVE", NAMED),
    ("digests:IgnoresShapes", "DIGEST-SENSITIVE", NAMED),
    ("digests:KeepsTheOrderOfFilling", "DIGEST-CANONICAL", NAMED),
    ("digests:CountsItsDigests", "DIGEST-CANONICAL", NAMED),
    ("refusals:BelievesRankZero", "DIGEST-AGREE", "other offsets"),
    ("refusals:BelievesRankZero", "DIGEST-AGREE", "other offsets on an idle process"),
    ("refusals:BelievesRankZero", "DIGEST-AGREE", "another order of parameters"),
    ("refusals:BelievesRankZero", "DIGEST-AGREE", "another budget"),
    ("refusals:BelievesRankZero", "DIGEST-AGREE", "another budget on an idle process"),
    ("refusals:ComparesBytesOnly", "DIGEST-AGREE", "another dtype of the same size"),
    ("refusals:RefusesOnOneRank", "DIGEST-AGREE", "other offsets"),
    ("refusals:RefusesAsUnsupported", "DIGEST-AGREE", "other offsets"),
    ("refusals:ClearsTargetsThenRefuses", "DIGEST-AGREE", "a parameter less"),
    ("refusals:NamesNobody", "DIGEST-AGREE", "other endpoints"),
    ("refusals:NamesItselfOnly", "DIGEST-AGREE", "other offsets on an idle process"),
    ("refusals:NamesNobody", "DIGEST-REJECT", LACKING),
    ("refusals:NamesItselfOnly", "DIGEST-REJECT", "process 3 lacks a target buffer"),
    ("refusals:NamesItselfOnly", "DIGEST-REJECT", "processes 2 and 3 lack source buffers"),
    ("refusals:KeepsReasonsToItself", "DIGEST-REJECT", LACKING),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_digest_or_exchange_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    judge.assert_notices(name, requirement, case)


def test_a_change_that_goes_unnoticed_is_named(judge: Judge) -> None:
    text = judge.violation("digests:IgnoresTheBudget", "DIGEST-SENSITIVE", NAMED)
    assert text == "these changes have one digest: 'nothing' and 'the budget'"


def test_the_process_that_differs_must_be_named(judge: Judge) -> None:
    text = judge.violation("refusals:NamesNobody", "DIGEST-AGREE", "other offsets")
    assert text == (
        "the error of process 0 does not name ['1']: "
        "TransferRefusedError: some ranks refuse or disagree"
    )


def test_a_reason_must_reach_the_other_ranks(judge: Judge) -> None:
    text = judge.violation("refusals:KeepsReasonsToItself", "DIGEST-REJECT", LACKING)
    assert text.startswith("the error of process 0 does not name ['decoder.weight']: ")


def test_a_rank_that_refuses_without_telling_the_others_is_noticed(judge: Judge) -> None:
    name = "refusals:RefusesBeforeTheExchange"
    text = judge.violation(name, "DIGEST-REJECT", LACKING, deadline=4.0)
    assert "no answer within 4.0 s" in text
