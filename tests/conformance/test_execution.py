"""Faulty executors violate the requirement that their fault is about; the reference none."""

from dataclasses import replace
from typing import Any

import pytest
from judging import Judge

from pytest_affine.contract.outcomes import Outcome
from pytest_affine.fixtures.batches import MIXED
from pytest_affine.maps import ParamAffineMap
from pytest_affine.sync import SyncParameter

EVEN = "even split, same processes"
PARTLY = "part of each shard stays (F30)"

FAULTS = [
    ("executors:SkipsLocalCopies", "EXEC-EXACT", PARTLY),
    ("executors:SwapsTwoOffsets", "EXEC-EXACT", EVEN),
    ("executors:ReadsStridedAsPacked", "EXEC-EXACT", "the middle columns leave (F28)"),
    ("executors:ReadsFromTheStoragesStart", "EXEC-EXACT", "one location"),
    ("executors:WritesAtTheStoragesStart", "EXEC-EXACT", "one location"),
    ("executors:LosesTheSignOfZero", "EXEC-EXACT", EVEN),
    ("executors:CastsOnTheWay", "EXEC-EXACT", EVEN),
    ("executors:DeliversOnlyOnce", "EXEC-EXACT", EVEN),
    ("executors:KeepsTheFirstValues", "EXEC-EXACT", EVEN),
    ("executors:NeedsEmptyBuffers", "EXEC-EXACT", "the only row moves (F32)"),
    ("executors:FillsOneLocationPerProcess", "EXEC-EXACT", "all on one process"),
    ("executors:WritesBehindTargets", "EXEC-GUARD", EVEN),
    ("executors:WritesBeforeTargets", "EXEC-GUARD", EVEN),
    ("executors:WritesAtTheStoragesStart", "EXEC-GUARD", EVEN),
    ("executors:ClearsTargets", "EXEC-GUARD", "a vocabulary of 5 rows, padded to 6 and to 8 (F15)"),
    ("executors:ClearsTargets", "EXEC-GUARD", "padding between two pieces"),
    ("executors:ClearsSources", "EXEC-GUARD", EVEN),
    (
        "executors:FillsOneLocationPerProcess",
        "EXEC-ENDPOINTS",
        "two locations on each of two processes",
    ),
    ("executors:SkipsLocalCopies", "EXEC-ENDPOINTS", "all on the last process"),
    ("executors:DeliversOnlyOnce", "EXEC-ENDPOINTS", "disjoint processes"),
    ("refusals:RefusesNothing", "EXEC-REFUSE", "a missing source buffer"),
    ("refusals:RefusesOnOneRank", "EXEC-REFUSE", "a missing source buffer"),
    ("refusals:RefusesAsUnsupported", "EXEC-REFUSE", "a missing target buffer"),
    ("refusals:CrashesWhereItMustRefuse", "EXEC-REFUSE", "an unbound source location"),
    ("refusals:ClearsTargetsThenRefuses", "EXEC-REFUSE", "a source buffer that is too large"),
    ("refusals:BreaksAfterRefusing", "EXEC-REFUSE", "a target endpoint outside the group"),
    ("tolerant:TakesSizesOnTrust", "EXEC-REFUSE", "shards declared as replicas (F14)"),
    ("tolerant:TakesSizesOnTrust", "EXEC-REFUSE", "a source buffer that is too large"),
    ("tolerant:ReinterpretsDtypes", "EXEC-REFUSE", "a source buffer in bfloat16 (F31)"),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_executor_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    judge.assert_notices(name, requirement, case)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("executors:SkipsIdleRanks", "only one of two replicas is read (F26)"),
        ("executors:SkipsRanksWithoutElements", "the only row moves (F32)"),
    ],
)
def test_a_rank_that_others_wait_for_is_noticed(judge: Judge, name: str, case: str) -> None:
    text = judge.violation(name, "EXEC-EXACT", case, deadline=4.0)
    assert "no answer within 4.0 s" in text


def test_wrong_elements_are_shown_with_the_bits_and_in_a_drawing(judge: Judge) -> None:
    text = judge.violation("executors:SkipsLocalCopies", "EXEC-EXACT", PARTLY)
    first, *drawing = text.splitlines()
    assert first.startswith(
        "target shard 0 of 'weight' on process 0, run 0: 2 of 3 elements are wrong; "
        "the first, at [0], has the bits "
    )
    assert first.endswith("those of [0] of the full tensor")
    assert drawing[:3] == ["location 0, shape (3,)", "  0", "0 ??."]


def test_a_guard_that_changed_is_named(judge: Judge) -> None:
    text = judge.violation("executors:WritesBehindTargets", "EXEC-GUARD", PARTLY)
    assert text.startswith(
        "target shard 0 of 'weight' on process 0, run 0: 1 elements changed that must not; "
        "the first, 1 behind the shard, has the bits 00000000 and should have a5a5a5a5"
    )


def test_what_was_returned_in_place_of_a_refusal_is_shown(judge: Judge) -> None:
    text = judge.violation("refusals:RefusesNothing", "EXEC-REFUSE", "a missing source buffer")
    assert "must be refused, but execute_transfers returned TransferStats(" in text


def test_an_error_of_another_kind_is_shown(judge: Judge) -> None:
    text = judge.violation(
        "refusals:RefusesAsUnsupported", "EXEC-REFUSE", "a missing source buffer"
    )
    assert text.startswith(
        "process 0 must raise TransferRefusedError, got UnsupportedLayoutError: "
    )


@pytest.mark.parametrize(
    ("name", "requirement", "case", "seen"),
    [
        ("SendsBeforeRefusing", "EXEC-REFUSE", "a missing target buffer", "1 send to 1"),
        ("SendsBeforeRefusing", "EXEC-VIEW", "a target buffer that is transposed", "1 send to 1"),
        ("BroadcastsBeforeRefusing", "EXEC-REFUSE", "a missing source buffer", "1 broadcast to 0"),
        ("SendsBeforeRefusing", "DIGEST-AGREE", "another budget", "2 send to 1"),
        ("BroadcastsBeforeRefusing", "DIGEST-AGREE", "other endpoints", "1 broadcast to 0"),
        ("SendsBeforeRefusing", "DIGEST-REJECT", "process 3 lacks a target buffer", "2 send to 1"),
        ("SendsBeforeRefusing", "BATCH-AGREE", "every rank reads another replica", "1 send to 1"),
    ],
)
def test_payload_that_moves_before_a_refusal_is_seen_on_the_wire(
    judge: Judge, name: str, requirement: str, case: str, seen: str
) -> None:
    text = judge.violation(f"refusals:{name}", requirement, case)
    assert text == (f"process 0 refused, but beyond the exchange these went over the wire: {seen}")


EMPTY = ParamAffineMap((0,), {0: (0,)}, {})
CAST = SyncParameter(name="p", source=EMPTY, target=EMPTY, target_dtype="int8")


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("reference", {"num_processes": 5}, "needs 5 ranks, there are 4"),
        (
            "resharders:MovesOneDtype",
            {"parameters": (CAST,)},
            "source and target dtype differ, and execute_transfers takes one",
        ),
    ],
)
def test_what_cannot_be_executed_here_is_not_run(
    judge: Judge, name: str, changes: dict[str, Any], reason: str
) -> None:
    (case,) = MIXED[:1]
    assert case.sync is not None
    other = replace(case, sync=replace(case.sync, **changes))
    (finding,) = judge.findings(name, "EXEC-EXACT", other)
    assert (finding.record.outcome, finding.record.reason) == (Outcome.NOT_RUN, reason)


@pytest.mark.parametrize("requirement", ["EXEC-EXACT", "EXEC-STATS", "DIGEST-REJECT"])
def test_options_that_an_executor_does_not_have_are_not_given(
    judge: Judge, requirement: str
) -> None:
    assert judge.outcome("allowed:NoExecutionOptions", requirement) is Outcome.CONFORMANT


@pytest.mark.parametrize("requirement", ["STATS-EQUAL", "ANALYZE-WIRE", "EXEC-BUDGET"])
def test_an_executor_without_budget_is_not_held_to_one(judge: Judge, requirement: str) -> None:
    assert judge.outcome("allowed:NoExecutionOptions", requirement) is Outcome.NOT_CLAIMED


def test_an_error_that_the_adapter_raises_itself_is_its_own(judge: Judge) -> None:
    case = "a missing source buffer"
    assert judge.outcome("allowed:RefusesItself", "EXEC-REFUSE", case) is Outcome.ADAPTER_ERROR
