from dataclasses import replace

import pytest

from pytest_affine.contract.manifest import Requirement
from pytest_affine.contract.outcomes import Outcome, Record
from pytest_affine.contract.verdict import judge

TILE = Requirement(
    id="PLAN-TILE",
    sentence="Every element once.",
    profile="affine",
    stage="plan",
    must=True,
    ranks=1,
    methods=("plan_transfer",),
    needs=(),
)
LIMIT = replace(TILE, id="PLAN-LIMIT", methods=("plan_transfer[limits]",))
MERGED = replace(TILE, id="PLAN-MERGED", must=False)
EXACT = replace(TILE, id="EXEC-EXACT", stage="execute", methods=("execute_transfers",))
STATS = replace(EXACT, id="STATS-EQUAL", needs=("EXEC-EXACT",))

CLAIMS = {"plan_transfer": ("limits",), "execute_transfers": ()}


def record(row, case, outcome, **changes):
    return Record(requirement=row.id, case=case, outcome=outcome, **changes)


def verdict(rows, planned, records, claims=CLAIMS):
    (found,) = judge(rows, planned, records, claims)
    return found


def test_all_cases_conformant_is_conformant():
    found = verdict([TILE], {"PLAN-TILE": ["a"]}, [record(TILE, "a", Outcome.CONFORMANT)])
    assert (found.profile, found.word, found.reasons) == ("affine", "conformant", ())


def test_no_record_at_all_is_an_error():
    found = verdict([TILE], {"PLAN-TILE": ["a"]}, [])
    assert (found.word, found.reasons) == ("error", ("nothing was judged",))


def test_only_refusals_and_withheld_cases_are_an_error_since_nothing_was_judged():
    records = [record(TILE, "a", Outcome.REFUSED), record(TILE, "b", Outcome.WITHHELD)]
    assert verdict([TILE], {"PLAN-TILE": ["a", "b"]}, records).word == "error"


@pytest.mark.parametrize("outcome", [Outcome.VIOLATED, Outcome.ADAPTER_ERROR])
def test_one_failed_case_of_a_must_is_violated(outcome):
    records = [record(TILE, "a", Outcome.CONFORMANT), record(TILE, "b", outcome)]
    found = verdict([TILE], {"PLAN-TILE": ["a", "b"]}, records)
    assert (found.word, found.reasons) == ("violated", (f"PLAN-TILE is {outcome.value}",))


def test_a_should_never_changes_the_verdict():
    records = [record(TILE, "a", Outcome.CONFORMANT), record(MERGED, "a", Outcome.VIOLATED)]
    planned = {"PLAN-TILE": ["a"], "PLAN-MERGED": ["a"]}
    found = verdict([TILE, MERGED], planned, records)
    assert found.word == "conformant"
    assert found.judgements[1].outcome is Outcome.VIOLATED


def test_a_case_without_a_record_is_not_run_and_the_verdict_partial():
    found = verdict([TILE], {"PLAN-TILE": ["a", "b"]}, [record(TILE, "a", Outcome.CONFORMANT)])
    assert (found.word, found.reasons) == (
        "partial",
        ("PLAN-TILE: 1 of 2 cases were not run",),
    )
    assert found.shares() == {Outcome.CONFORMANT: 1, Outcome.NOT_RUN: 1}


def test_a_must_judged_in_no_case_is_partial():
    records = [record(TILE, "a", Outcome.CONFORMANT), record(LIMIT, "a", Outcome.REFUSED)]
    found = verdict([TILE, LIMIT], {"PLAN-TILE": ["a"], "PLAN-LIMIT": ["a"]}, records)
    assert (found.word, found.reasons) == ("partial", ("PLAN-LIMIT was judged in no case",))


def test_a_wire_that_was_not_observed_leaves_the_verdict_alone_and_is_named():
    records = [record(TILE, "a", Outcome.CONFORMANT), record(LIMIT, "a", Outcome.NOT_OBSERVABLE)]
    found = verdict([TILE, LIMIT], {"PLAN-TILE": ["a"], "PLAN-LIMIT": ["a"]}, records)
    assert (found.word, found.reasons) == ("conformant", ("wire not observed: PLAN-LIMIT",))


def test_a_requirement_without_cases_is_partial():
    records = [record(TILE, "a", Outcome.CONFORMANT)]
    found = verdict([TILE, LIMIT], {"PLAN-TILE": ["a"], "PLAN-LIMIT": []}, records)
    assert found.word == "partial"


def test_what_is_not_claimed_leaves_the_verdict_alone_whatever_its_records_say():
    records = [record(TILE, "a", Outcome.CONFORMANT), record(LIMIT, "a", Outcome.VIOLATED)]
    planned = {"PLAN-TILE": ["a"], "PLAN-LIMIT": ["a"]}
    found = verdict([TILE, LIMIT], planned, records, {"plan_transfer": ()})
    assert found.word == "conformant"
    assert found.judgements[1].shares() == {Outcome.NOT_CLAIMED: 1}
    assert found.judgements[1].records[0].reason == "plan_transfer[limits]"


def test_any_deselection_is_partial_also_of_tests_that_are_not_claimed():
    records = [record(TILE, "a", Outcome.CONFORMANT)]
    (found,) = judge([TILE], {"PLAN-TILE": ["a"]}, records, CLAIMS, num_deselected=3)
    assert (found.word, found.reasons) == ("partial", ("3 tests of the suite were deselected",))


def test_a_refused_case_that_is_not_core_only_shows_in_the_shares():
    records = [record(TILE, "a", Outcome.CONFORMANT), record(TILE, "b", Outcome.REFUSED)]
    found = verdict([TILE], {"PLAN-TILE": ["a", "b"]}, records)
    assert found.word == "conformant"
    assert found.shares() == {Outcome.CONFORMANT: 1, Outcome.REFUSED: 1}


def test_a_refused_core_case_is_partial():
    records = [
        record(TILE, "a", Outcome.CONFORMANT),
        record(TILE, "b", Outcome.REFUSED, core="identity"),
    ]
    found = verdict([TILE], {"PLAN-TILE": ["a", "b"]}, records)
    assert (found.word, found.reasons) == ("partial", ("PLAN-TILE refused core case b",))


def test_a_core_shape_counts_as_withheld_only_if_both_bindings_are():
    both = [
        record(TILE, "same", Outcome.WITHHELD, core="identity"),
        record(TILE, "other", Outcome.WITHHELD, core="identity"),
        record(TILE, "a", Outcome.CONFORMANT),
    ]
    one = [replace(both[0], outcome=Outcome.CONFORMANT), *both[1:]]
    planned = {"PLAN-TILE": ["same", "other", "a"]}
    assert verdict([TILE], planned, one).word == "conformant"
    found = verdict([TILE], planned, both)
    assert (found.word, found.reasons) == (
        "partial",
        ("PLAN-TILE: core case 'identity' was withheld in both bindings",),
    )


def test_what_stands_on_a_violated_requirement_is_blocked():
    records = [record(EXACT, "a", Outcome.VIOLATED), record(STATS, "a", Outcome.CONFORMANT)]
    found = verdict([EXACT, STATS], {"EXEC-EXACT": ["a"], "STATS-EQUAL": ["a"]}, records)
    assert [j.outcome for j in found.judgements] == [Outcome.VIOLATED, Outcome.BLOCKED]
    assert found.reasons == ("EXEC-EXACT is violated", "STATS-EQUAL is blocked")


def test_a_blocked_must_alone_is_violated():
    records = [record(TILE, "a", Outcome.CONFORMANT), record(EXACT, "a", Outcome.BLOCKED)]
    found = verdict([TILE, EXACT], {"PLAN-TILE": ["a"], "EXEC-EXACT": ["a"]}, records)
    assert (found.word, found.reasons) == ("violated", ("EXEC-EXACT is blocked",))


def test_each_profile_has_its_own_verdict():
    other = replace(TILE, id="RESHARD-EXACT", profile="reshard", methods=("execute_transfers",))
    records = [record(TILE, "a", Outcome.VIOLATED), record(other, "a", Outcome.CONFORMANT)]
    planned = {"PLAN-TILE": ["a"], "RESHARD-EXACT": ["a"]}
    words = {found.profile: found.word for found in judge([TILE, other], planned, records, CLAIMS)}
    assert words == {"affine": "violated", "reshard": "conformant"}


OTHER = replace(TILE, id="NAME-ONE", profile="layout", methods=("match",))
BOTH = {"PLAN-TILE": ["a"], "NAME-ONE": ["a"]}


def profiles(records, claims, **changes):
    return [found.profile for found in judge([TILE, OTHER], BOTH, records, claims, **changes)]


def test_a_profile_of_which_nothing_is_claimed_has_no_verdict():
    assert profiles([record(TILE, "a", Outcome.CONFORMANT)], CLAIMS) == ["affine"]
    assert profiles([record(OTHER, "a", Outcome.CONFORMANT)], {"match": ()}) == ["layout"]


def test_where_nothing_is_claimed_the_first_profile_is_an_error():
    found = judge([TILE, OTHER], BOTH, [], {})
    assert [(one.profile, one.word) for one in found] == [("affine", "error")]


def test_a_claimed_profile_that_was_not_run_is_an_error_unless_it_was_deselected():
    claims = {**CLAIMS, "match": ()}
    records = [record(TILE, "a", Outcome.CONFORMANT)]
    assert profiles(records, claims) == ["affine", "layout"]
    assert profiles(records, claims, num_deselected=1) == ["affine"]


def test_a_profile_without_cases_has_no_verdict():
    claims = {**CLAIMS, "match": ()}
    records = [record(TILE, "a", Outcome.CONFORMANT)]
    found = judge([TILE, OTHER], {"PLAN-TILE": ["a"]}, records, claims)
    assert [one.profile for one in found] == ["affine"]


def test_the_worst_of_several_records_of_a_case_counts():
    records = [record(TILE, "a", Outcome.VIOLATED), record(TILE, "a", Outcome.CONFORMANT)]
    assert verdict([TILE], {"PLAN-TILE": ["a"]}, records).word == "violated"


def test_a_record_to_json_and_back_is_the_same():
    one = record(TILE, "a", Outcome.REFUSED, reason="too wide", core="identity", num_refused=2)
    assert Record.from_dict(one.to_dict()) == one
    assert one.to_dict()["outcome"] == "refused"


def test_what_else_is_missing_is_partial_for_every_profile():
    records = [record(TILE, "a", Outcome.CONFORMANT)]
    (found,) = judge([TILE], {"PLAN-TILE": ["a"]}, records, CLAIMS, gaps=["ended early"])
    assert (found.word, found.reasons) == ("partial", ("ended early",))


def test_where_nothing_was_judged_the_reasons_say_what_else_is_missing():
    planned = {"PLAN-TILE": ["a"]}
    (found,) = judge([TILE], planned, [], CLAIMS, num_deselected=1, gaps=["ended early"])
    assert found.reasons == (
        "nothing was judged: 1 tests of the suite were deselected; ended early",
    )


def test_shares_are_in_the_order_of_outcomes():
    outcomes = [Outcome.NOT_RUN, Outcome.REFUSED, Outcome.CONFORMANT]
    records = [record(TILE, name, outcome) for name, outcome in zip("abc", outcomes, strict=True)]
    found = verdict([TILE], {"PLAN-TILE": ["a", "b", "c", "d"]}, records)
    wanted = [(Outcome.CONFORMANT, 1), (Outcome.REFUSED, 1), (Outcome.NOT_RUN, 2)]
    assert [*found.shares().items()] == [*found.judgements[0].shares().items()] == wanted
