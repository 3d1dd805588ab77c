from dataclasses import replace
from datetime import date, timedelta

import pytest
from handmade_certificates import (
    AFFINE,
    DAY,
    RECORDS,
    SUITE,
    a_certificate,
    a_gate,
    a_record,
    a_run,
    a_waiver,
    edited,
    text_of,
)

from pytest_affine.certificate.policy import Policy
from pytest_affine.certificate.shape import DocumentError
from pytest_affine.certificate.verify import read_trusted, report_lines, verify
from pytest_affine.contract.outcomes import Outcome

LENIENT = Policy(accept_waived=True)
LATER = DAY + timedelta(days=1)


def verified(certificate, *, day=LATER, **more):
    """Written, read and verified, as the command does it."""
    return verify(read_trusted(text_of(certificate), "c.json", SUITE), day=day, **more)


@pytest.mark.parametrize("gate", [None, a_gate()], ids=["no gate", "gate"])
def test_what_is_conformant_throughout_verifies(gate):
    found = verified(a_certificate(a_run(gate=gate)))
    assert (found.word, found.is_good) == ("conformant", True)


EXPIRED = a_waiver("MAP-INV", expires=DAY - timedelta(days=1))
BROKEN = a_record("MAP-INV", Outcome.VIOLATED)

NEVER = {
    "a MUST violated": (a_run(BROKEN), "violated", "MAP-INV is violated"),
    "an adapter error": (
        a_run(a_record("MAP-INV", Outcome.ADAPTER_ERROR)),
        "violated",
        "MAP-INV is adapter error",
    ),
    "tests deselected": (a_run(num_deselected=2), "partial", "2 tests of the suite were"),
    "a session that was interrupted": (
        a_run(incomplete=("the session was interrupted: KeyboardInterrupt",)),
        "partial",
        "the session was interrupted: KeyboardInterrupt",
    ),
    "a case that never ran": (a_run(records=RECORDS[1:]), "partial", "MAP-COVER: 1 of 1 cases"),
    "one case that was chosen": (a_run(case="0a1b"), "partial", "one case was judged, 0a1b"),
    "no record at all": (a_run(records=()), "error", "nothing was judged"),
    "a mutant that survived": (
        a_run(gate=a_gate("EXEC-EXACT")),
        "partial",
        "gate: mutant-of-exec-exact: survived: no test noticed it",
    ),
    "a mutant that survived, of a gate that says it passed": (
        a_run(gate={**a_gate("EXEC-EXACT"), "verdict": "passed", "problems": []}),
        "partial",
        "gate: mutant-of-exec-exact: survived: no test noticed it",
    ),
    "a gate that failed for a reason of its own": (
        a_run(gate={**a_gate(), "verdict": "failed", "problems": ["MAP-INV: no mutant is for it"]}),
        "partial",
        "gate: MAP-INV: no mutant is for it",
    ),
    "a gate that failed and does not say why": (
        a_run(gate={**a_gate(), "verdict": "failed"}),
        "partial",
        "gate: failed",
    ),
    "a gate without mutants": (
        a_run(gate={**a_gate(), "mutants": []}),
        "partial",
        "gate: no mutant was run",
    ),
    "a kill by a case that fails without the mutant too": (
        a_run(a_record("PLAN-MERGED", Outcome.VIOLATED), gate=a_gate()),
        "partial",
        "gate: mutant-of-plan-merged: PLAN-MERGED in 'case of PLAN-MERGED' is not conformant",
    ),
    "a waiver that had expired": (a_run(waivers=(EXPIRED,)), "partial", "expired on 2026-02-28"),
    "a violation whose waiver had expired": (
        a_run(BROKEN, waivers=(EXPIRED,)),
        "violated",
        "MAP-INV is violated",
    ),
    "a violation that is waived": (
        a_run(BROKEN, waivers=(a_waiver("MAP-INV"),)),
        "partial",
        "MAP-INV is violated: waived until 2026-06-01 as known-bug, https://bugs.test/7",
    ),
    "a waiver of what holds": (a_run(waivers=(a_waiver("MAP-INV"),)), "partial", "is stale"),
}


@pytest.mark.parametrize("what", NEVER)
def test_what_is_not_wholly_right_never_verifies(what):
    run, word, reason = NEVER[what]
    found = verified(a_certificate(run))
    assert (found.word, found.is_good) == (word, False)
    assert any(reason in line for line in found.verdicts[0][1][0].reasons)
    assert any(reason in line for line in report_lines(found))


def test_one_bad_run_among_good_ones_is_enough():
    found = verified(a_certificate(a_run(), a_run(BROKEN, num_ranks=2)))
    assert (found.word, found.is_good) == ("violated", False)


def test_a_should_is_shown_and_changes_nothing():
    found = verified(a_certificate(a_run(a_record("PLAN-MERGED", Outcome.VIOLATED))))
    assert (found.word, found.is_good) == ("conformant", True)


def test_only_a_policy_that_says_so_accepts_what_is_waived():
    certificate = a_certificate(a_run(BROKEN, waivers=(a_waiver("MAP-INV"),)))
    assert not verified(certificate, policy=Policy()).is_good
    found = verified(certificate, policy=LENIENT)
    assert (found.word, found.is_good) == ("partial", True)
    assert [*report_lines(found)][-1] == (
        "PARTIAL (accepted: only what is waived keeps it from being conformant)"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"num_deselected": 1},
        {"incomplete": ("the session ended early",)},
        {"gate": a_gate("EXEC-EXACT")},
        {"records": a_run(BROKEN).records[1:]},
        {"case": "0a1b"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_waiver_makes_up_for_nothing_else(changes):
    run = a_run(BROKEN, waivers=(a_waiver("MAP-INV"),))
    found = verified(a_certificate(replace(run, **changes)), policy=LENIENT)
    assert (found.word, found.is_good) == ("partial", False)


def test_a_waiver_that_has_expired_since_the_session_counts_no_more():
    certificate = a_certificate(a_run(BROKEN, waivers=(a_waiver("MAP-INV", expires=LATER),)))
    assert verified(certificate, day=LATER, policy=LENIENT).is_good
    found = verified(certificate, day=LATER + timedelta(days=1), policy=LENIENT)
    assert (found.word, found.is_good) == ("violated", False)


def test_an_edited_certificate_and_one_that_was_cut_short_are_not_read():
    text = text_of(a_certificate(a_run(BROKEN)))
    with pytest.raises(DocumentError, match="was edited"):
        read_trusted(text.replace('"violated"', '"conformant"'), "c.json", SUITE)
    with pytest.raises(DocumentError, match="no whole JSON"):
        read_trusted(text[:-10], "c.json", SUITE)
    emptied = edited(text, lambda document: document["runs"][0].update(requirements={}))
    with pytest.raises(DocumentError, match="lacks or adds ANALYZE-JSON"):
        read_trusted(emptied, "c.json", SUITE)


def test_a_run_of_a_day_to_come_is_refused():
    with pytest.raises(DocumentError, match="a run is of 2026-03-01, which is after today, 2026-0"):
        verified(a_certificate(), day=date(2026, 2, 28))


def test_a_baseline_of_another_implementation_is_refused():
    certificate = a_certificate()
    other = replace(certificate, subject=replace(certificate.subject, name="their:Other"))
    message = "the baseline is of 'their:Other', and the certificate of 'my_adapter:Mine'"
    with pytest.raises(DocumentError, match=message):
        verified(certificate, baseline=other)


def test_what_is_worse_than_the_baseline_is_not_good_and_is_told():
    refused = a_record("PLAN-TILE", Outcome.REFUSED, "drawn")
    found = verified(a_certificate(a_run(refused)), baseline=a_certificate())
    assert (found.word, found.is_good) == ("conformant", False)
    line = "baseline: worse: gloo, 4 ranks: PLAN-TILE: 0 cases were refused, now 1"
    assert line in report_lines(found)
    back = verified(a_certificate(), baseline=a_certificate(a_run(refused)))
    assert back.is_good
    line = "baseline: better: gloo, 4 ranks: PLAN-TILE: 1 cases were refused, now 0"
    assert line in report_lines(back)


def test_what_a_policy_demands_beside_the_verdict_is_told():
    found = verified(a_certificate(), policy=Policy(gate=True))
    assert (found.word, found.is_good) == ("conformant", False)
    assert "policy: no run has passed the mutation gate (--affine-mutants)" in report_lines(found)


def share(num_cases):
    """Of all cases, of which PLAN-TILE has two more than the others; less than 0: but so many."""
    total = len(AFFINE) + 2
    return f"{num_cases % total / total:.1%}"


def test_the_report_says_what_was_judged_and_what_was_not_covered():
    run = a_run(
        a_record("PLAN-TILE", Outcome.WITHHELD, "drawn", reason="no padding"),
        a_record("PLAN-TILE", Outcome.REFUSED, "even split, same", reason="PlanLimitError: 9 > 8"),
        a_record("EXEC-STATS", Outcome.NOT_OBSERVABLE, reason="one-sided"),
        a_record("BATCH-AGREE", Outcome.NOT_RUN, reason="needs 2 ranks, there is 1"),
        claims={key: value for key, value in a_run().claims.items() if key != "plan_digest"},
        num_ranks=1,
    )
    lines = [*report_lines(verified(a_certificate(run)))]
    assert lines[0] == "my_adapter:Mine 1.0, mine 2.1, judged by pytest-affine 0.1.0"
    assert lines[2:8] == [
        "gloo, 1 rank (cpu), torch 2.13.0+cpu, 2026-03-01, 25 examples, seed 0",
        "  profile affine: PARTIAL",
        f"    of {len(AFFINE) + 2} cases: {share(-7)} conformant ({len(AFFINE) - 5}), "
        f"{share(1)} refused (1), {share(1)} withheld (1), {share(3)} not claimed (3), "
        f"{share(1)} not observable (1), {share(1)} not run (1)",
        "    PLAN-TILE refused core case even split, same",
        "    BATCH-AGREE: 1 of 1 cases were not run",
        "    wire not observed: EXEC-STATS",
    ]
    start = lines.index("  not covered:")
    unclaimed = "    not claimed: plan_digest (DIGEST-STABLE, DIGEST-SENSITIVE, DIGEST-CANONICAL)"
    assert lines[start + 1] == unclaimed
    rest = [line for line in lines[start + 1 :] if not line.startswith("    not claimed: ")]
    assert rest[:5] == [
        "    refused by the implementation: PLAN-TILE, 1 of 3 cases: PlanLimitError",
        "    withheld by the adapter: PLAN-TILE, 1 of 3 cases: no padding",
        "    not run: BATCH-AGREE, 1 of 1 cases: needs 2 ranks, there is 1",
        "    not observable: EXEC-STATS, 1 of 1 cases: one-sided",
        "    whether the suite would notice a fault: no mutants were run",
    ]
    assert any(line.startswith("no test yet: profile ") for line in lines)
    assert lines[-1] == "PARTIAL"
