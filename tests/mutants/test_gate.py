"""The gate's verdict on lists of results made by hand."""

import json

import pytest

from pytest_affine.contract.outcomes import Outcome
from pytest_affine.mutants import Mutant
from pytest_affine.mutants.gate import (
    Bucket,
    GateResult,
    MutantResult,
    judge_gate,
    judge_results,
    settled,
)


def mutant(id_, requirement="PLAN-TILE", **more):
    return Mutant(id=id_, requirement=requirement, sentence="It drops one.", fault="m:F", **more)


def result(bucket, id_="one", requirement="PLAN-TILE", killed_by="", **more):
    if bucket is Bucket.KILLED:
        killed_by = killed_by or requirement
    return MutantResult(
        id=id_,
        requirement=requirement,
        origin="F22",
        sentence="It drops one.",
        bucket=bucket,
        killed_by=killed_by,
        **more,
    )


def judged(*results, claimed=("PLAN-TILE",), needs_all=True):
    return judge_results(results, claimed, needs_all=needs_all)


def test_the_gate_is_passed_when_each_claimed_requirement_has_killed_a_mutant():
    gate = judged(
        result(Bucket.KILLED),
        result(Bucket.KILLED, "two", "PLAN-ONCE"),
        result(Bucket.EQUIVALENT, "three"),
        claimed=("PLAN-TILE", "PLAN-ONCE"),
    )
    assert (gate.verdict, gate.problems) == ("passed", ())
    assert gate.counts == {Bucket.KILLED: 2, Bucket.EQUIVALENT: 1}


@pytest.mark.parametrize(
    "bucket",
    [
        Bucket.BY_ANOTHER,
        Bucket.SURVIVED,
        Bucket.NOT_EQUIVALENT,
        Bucket.BROKEN,
        Bucket.TIMED_OUT,
    ],
)
def test_one_mutant_in_a_wrong_bucket_fails_the_gate(bucket):
    gate = judged(result(Bucket.KILLED), result(bucket, "two", reason="so it is"))
    assert gate.verdict == "failed"
    assert gate.problems == (f"two: {bucket.value}: so it is",)


@pytest.mark.parametrize(
    ("bucket", "line"),
    [
        (Bucket.NOT_RUN, "1 of 2 mutants were not run"),
        (Bucket.NOT_JUDGED, "1 of 2 mutants were not judged"),
    ],
)
def test_a_mutant_whose_end_is_open_leaves_the_gate_partial(bucket, line):
    gate = judged(result(Bucket.KILLED), result(bucket, "two"))
    assert (gate.verdict, gate.problems) == ("partial", (line,))


@pytest.mark.parametrize("results", [[], [Bucket.NOT_RUN, Bucket.NOT_APPLICABLE]])
def test_a_run_without_mutants_fails(results):
    gate = judged(*map(result, results), claimed=())
    assert gate.verdict == "failed"
    assert gate.problems[0] == "no mutant was run"


def test_a_requirement_whose_mutants_are_all_equivalent_has_killed_none():
    gate = judged(result(Bucket.EQUIVALENT))
    assert (gate.verdict, gate.problems) == ("failed", ("PLAN-TILE: no mutant was killed",))


def test_a_requirement_of_which_a_mutant_is_open_may_yet_kill_it():
    gate = judged(
        result(Bucket.NOT_JUDGED, killed_by="PLAN-TILE"),
        result(Bucket.KILLED, "two", "PLAN-ONCE"),
    )
    assert gate.verdict == "partial"
    assert gate.problems[-1] == "no mutant was judged to the end for PLAN-TILE"


def test_what_another_requirement_killed_is_no_kill_of_its_own():
    gate = judged(result(Bucket.KILLED, killed_by="PLAN-ONCE"))
    assert (gate.verdict, gate.problems) == ("failed", ("PLAN-TILE: no mutant was killed",))


@pytest.mark.parametrize("others", [(), (Bucket.NOT_APPLICABLE,)])
def test_a_requirement_without_a_mutant_that_fits_fails_only_where_all_are_needed(others):
    results = [result(Bucket.KILLED, "two", "PLAN-ONCE"), *map(result, others)]
    strict = judged(*results)
    assert (strict.verdict, strict.problems) == ("failed", ("no mutant is for PLAN-TILE",))
    lenient = judged(*results, needs_all=False)
    assert (lenient.verdict, lenient.problems) == ("passed", ())
    assert strict.requirements_without_mutant == lenient.requirements_without_mutant
    assert lenient.requirements_without_mutant == ("PLAN-TILE",)


def test_a_requirement_that_only_shows_a_number_needs_no_mutant():
    assert judged(result(Bucket.KILLED), claimed=("PLAN-TILE", "LOAD-BALANCE")).verdict == "passed"


def test_what_is_not_claimed_needs_no_mutant():
    assert judged(result(Bucket.KILLED, "two", "PLAN-ONCE"), claimed=()).verdict == "passed"


def test_results_stand_in_the_order_of_the_mutants_and_none_is_left_out():
    mutants = [mutant("one"), mutant("two"), mutant("three")]
    found = [result(Bucket.SURVIVED, "three"), result(Bucket.SURVIVED, "one")]
    buckets = [(each.id, each.bucket) for each in settled(found, mutants, {})]
    assert buckets == [
        ("one", Bucket.SURVIVED),
        ("two", Bucket.NOT_RUN),
        ("three", Bucket.SURVIVED),
    ]


@pytest.mark.parametrize(
    ("control", "bucket", "reason"),
    [
        ({("PLAN-TILE", "t[a]"): Outcome.CONFORMANT}, Bucket.KILLED, "two writes"),
        ({("PLAN-TILE", "t[b]"): Outcome.CONFORMANT}, Bucket.NOT_JUDGED, "this case was not run*"),
        ({("PLAN-ONCE", "t[a]"): Outcome.CONFORMANT}, Bucket.NOT_JUDGED, "this case was not run*"),
        ({("PLAN-TILE", "t[a]"): Outcome.VIOLATED}, Bucket.NOT_JUDGED, "violated without the mut*"),
    ],
)
def test_a_kill_counts_only_where_the_case_is_right_without_the_mutant(control, bucket, reason):
    found = result(Bucket.KILLED, case="t[a]", reason="two writes")
    (after,) = settled([found], [mutant("one")], control)
    assert after.bucket is bucket
    assert after.reason.startswith(reason.rstrip("*"))


def test_the_control_of_a_kill_is_the_requirement_that_noticed_it():
    found = result(Bucket.KILLED, killed_by="PLAN-ONCE", case="t[a]")
    control = {("PLAN-ONCE", "t[a]"): Outcome.CONFORMANT}
    assert settled([found], [mutant("one")], control) == (found,)


def test_judging_settles_first():
    found = [result(Bucket.KILLED, case="t[a]")]
    arguments = (found, [mutant("one")], ["PLAN-TILE"])
    control = {("PLAN-TILE", "t[a]"): Outcome.CONFORMANT}
    assert judge_gate(*arguments, control, needs_all=True).verdict == "passed"
    assert judge_gate(*arguments, {}, needs_all=True).verdict == "partial"


def test_the_result_of_a_gate_goes_through_json():
    gate = judged(
        result(Bucket.KILLED, case="t[a]", reason="two writes"),
        claimed=("PLAN-TILE", "PLAN-ONCE"),
    )
    entry = json.loads(json.dumps(gate.to_dict()))
    assert entry == {
        "mutants": [
            {
                "id": "one",
                "requirement": "PLAN-TILE",
                "origin": "F22",
                "sentence": "It drops one.",
                "bucket": "killed as intended",
                "killed_by": "PLAN-TILE",
                "case": "t[a]",
                "reason": "two writes",
            }
        ],
        "requirements_without_mutant": ["PLAN-ONCE"],
        "verdict": "failed",
        "problems": ["no mutant is for PLAN-ONCE"],
    }
    assert GateResult.from_dict(entry) == gate
