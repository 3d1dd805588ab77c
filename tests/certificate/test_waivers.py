import re
from dataclasses import replace
from datetime import date, timedelta

import pytest
from handmade_certificates import DAY, PLANNED, a_record, a_run, a_waiver

from pytest_affine.certificate.shape import DocumentError
from pytest_affine.certificate.verdicts import run_verdicts, waiver_troubles
from pytest_affine.certificate.waivers import Waiver, read_waivers, waived_by
from pytest_affine.contract.outcomes import Outcome

ENTRY = """
[[waiver]]
requirement = "MAP-INV"
kind = "known-bug"
link = "https://bugs.test/7"
expires = 2026-06-01
"""


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "affine-waivers.toml"
        path.write_text(text)
        return read_waivers(path)

    return read


def test_entries_are_read(read):
    narrow = 'backend = "nccl"\nranks = 2\ncases = "even*"\n'
    assert read(ENTRY + ENTRY + narrow) == (
        a_waiver("MAP-INV"),
        a_waiver("MAP-INV", backend="nccl", ranks=2, cases="even*"),
    )


def test_a_day_may_be_text(read):
    assert read(ENTRY.replace("2026-06-01", '"2026-06-01"')) == (a_waiver("MAP-INV"),)


def test_a_file_without_entries_waives_nothing(read):
    assert read("# nothing is wrong\n") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.replace("known-bug", "laziness"), "waiver[0].kind must be one of 'unsupported-by"),
        (ENTRY.replace('link = "https://bugs.test/7"', ""), "waiver[0] lacks 'link'"),
        (ENTRY.replace("bugs.test/7", "").replace("https://", ""), "link must not be empty"),
        (ENTRY.replace("expires = 2026-06-01", ""), "waiver[0] lacks 'expires'"),
        (ENTRY.replace("2026-06-01", '"next year"'), "expires must be a day, such as 2026-01-31"),
        (ENTRY.replace("2026-06-01", "2026-06-01T10:00:00"), "expires must be of type string"),
        (ENTRY + "rank = 2", "waiver[0] has the unknown key 'rank'; the known ones: 'requirement'"),
        (ENTRY + "ranks = 0", "waiver[0].ranks must be 1 or more, got 0"),
        (ENTRY.replace("[[waiver]]", "[[waivers]]"), "unknown key 'waivers'; the known ones: 'wai"),
        (ENTRY.replace("MAP-INV", "MAP-IN"), "waiver[0].requirement is 'MAP-IN', which is no requ"),
        (
            ENTRY.replace("MAP-INV", "PLAN-MERGED"),
            "waiver[0].requirement is PLAN-MERGED, a SHOULD, which needs no waiver",
        ),
        ("[[waiver]", "affine-waivers.toml is no TOML"),
    ],
)
def test_what_is_no_waiver_is_refused_by_name(read, text, message):
    with pytest.raises(DocumentError, match=re.escape(message)):
        read(text)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path):
    with pytest.raises(DocumentError, match=r"none\.toml can not be read: No such file"):
        read_waivers(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(DocumentError, match=r"bytes\.toml is no text in UTF-8"):
        read_waivers(tmp_path / "bytes.toml")


@pytest.mark.parametrize(
    ("changes", "where", "wanted"),
    [
        ({}, ("gloo", 4), True),
        ({"backend": "nccl"}, ("gloo", 4), False),
        ({"backend": "gloo", "ranks": 4}, ("gloo", 4), True),
        ({"ranks": 2}, ("gloo", 4), False),
    ],
)
def test_an_entry_is_for_its_backend_and_number_of_ranks(changes, where, wanted):
    assert a_waiver("MAP-INV", **changes).is_in_scope(*where) is wanted


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("*", True),
        ("tiled[even split, same]", True),
        ("tiled[*]", True),
        ("*split*", True),
        ("tiled", False),
        ("tiled[even split, other]", False),
        ("tiled?even split, same?", False),
    ],
)
def test_a_star_stands_for_anything_and_nothing_else_does(pattern, wanted):
    waiver = a_waiver("MAP-INV", cases=pattern)
    assert waiver.covers("MAP-INV", "tiled[even split, same]") is wanted
    assert not waiver.covers("MAP-TILE", "tiled[even split, same]")


def test_an_entry_counts_on_its_last_day_and_not_after_it():
    waiver = a_waiver("MAP-INV", expires=DAY)
    assert waived_by([waiver], DAY)("MAP-INV", "a") == (
        "waived until 2026-03-01 as known-bug, https://bugs.test/7"
    )
    assert waived_by([waiver], DAY)("MAP-TILE", "a") == ""
    assert waived_by([waiver], DAY + timedelta(days=1))("MAP-INV", "a") == ""


def troubles(*records, waivers, **changes):
    return waiver_troubles(a_run(*records, waivers=waivers, **changes), DAY)


NAMED = "waiver of MAP-INV (known-bug, https://bugs.test/7)"


def test_an_expired_entry_is_told_with_what_to_do():
    expired = a_waiver("MAP-INV", expires=date(2026, 2, 1))
    wanted = f"{NAMED} expired on 2026-02-01: remove the entry, or look at the reason again"
    (told,) = troubles(a_record("MAP-INV", Outcome.VIOLATED), waivers=[expired])
    assert told.startswith(wanted)


def test_an_entry_for_what_holds_is_stale():
    wanted = f"{NAMED} is stale, since that holds now: remove the entry"
    assert troubles(waivers=[a_waiver("MAP-INV")]) == (wanted,)


def test_an_entry_for_cases_that_hold_is_stale_though_others_do_not():
    narrow = a_waiver("PLAN-TILE", cases="even*")
    (told,) = troubles(a_record("PLAN-TILE", Outcome.VIOLATED), waivers=[narrow])
    assert told.startswith("waiver of PLAN-TILE in 'even*' (known-bug, https://bugs.test/7) is sta")


@pytest.mark.parametrize(
    "outcome", [Outcome.VIOLATED, Outcome.ADAPTER_ERROR, Outcome.BLOCKED, Outcome.REFUSED]
)
def test_an_entry_for_what_does_not_hold_is_no_trouble(outcome):
    assert troubles(a_record("MAP-INV", outcome), waivers=[a_waiver("MAP-INV")]) == ()


def test_nobody_can_say_that_an_entry_is_stale_whose_cases_did_not_run():
    waivers = [a_waiver("PLAN-TILE")]
    absent = [r for r in a_run().records if r.case != "drawn"]
    assert troubles(waivers=waivers, records=tuple(absent)) == ()
    assert troubles(a_record("PLAN-TILE", Outcome.NOT_RUN), waivers=waivers) == ()
    assert troubles(waivers=waivers, case="0a1b") == ()


def test_an_entry_for_what_is_blocked_by_another_is_not_stale():
    spoiled = a_record("EXEC-EXACT", Outcome.VIOLATED)
    waivers = [a_waiver("EXEC-EXACT"), a_waiver("STATS-EQUAL")]
    assert troubles(spoiled, waivers=waivers) == ()


def test_an_entry_that_matches_no_case_is_told():
    wanted = (
        "waiver of MAP-INV in 'nothing*' (known-bug, https://bugs.test/7) matches no case: "
        "correct its cases, or remove the entry"
    )
    assert troubles(waivers=[a_waiver("MAP-INV", cases="nothing*")]) == (wanted,)


def test_an_entry_for_what_is_not_claimed_is_told():
    wanted = f"{NAMED} matches nothing, since that is not claimed: remove the entry"
    assert troubles(waivers=[a_waiver("MAP-INV")], claims={"plan_transfer": ()}) == (wanted,)


def test_an_entry_is_named_with_its_scope():
    waiver = a_waiver("MAP-INV", backend="nccl", ranks=2, cases="a*")
    assert str(waiver).startswith("waiver of MAP-INV on nccl with 2 ranks in 'a*' (known-bug, ")


def test_an_entry_to_json_and_back_is_the_same():
    for waiver in (a_waiver("MAP-INV"), a_waiver("MAP-INV", backend="nccl", ranks=2, cases="a")):
        assert Waiver.from_dict(waiver.to_dict()) == waiver
    assert a_waiver("MAP-INV").to_dict().keys() == {"requirement", "kind", "link", "expires"}


def word_and_waived(*records, waivers):
    verdict, *_ = run_verdicts(a_run(*records, waivers=waivers))
    return verdict.word, verdict.only_waived


def test_a_violation_outside_of_the_cases_of_an_entry_is_violated():
    waivers = (a_waiver("PLAN-TILE", cases="even*"),)
    inside = a_record("PLAN-TILE", Outcome.VIOLATED, "even split, same")
    outside = a_record("PLAN-TILE", Outcome.VIOLATED, "drawn")
    assert word_and_waived(inside, waivers=waivers) == ("partial", True)
    assert word_and_waived(inside, outside, waivers=waivers) == ("violated", False)


def test_what_stands_on_a_waived_requirement_is_waived_with_it():
    spoiled = a_record("EXEC-EXACT", Outcome.VIOLATED)
    verdict, *_ = run_verdicts(a_run(spoiled, waivers=(a_waiver("EXEC-EXACT"),)))
    assert (verdict.word, verdict.only_waived) == ("partial", True)
    assert "STATS-EQUAL is blocked: waived with EXEC-EXACT" in verdict.reasons
    verdict, *_ = run_verdicts(a_run(spoiled, waivers=(a_waiver("STATS-EQUAL"),)))
    assert verdict.word == "violated"


def test_a_refusal_of_every_case_can_be_waived():
    refused = a_record("PLAN-SYMBOLIC", Outcome.REFUSED)
    waivers = (a_waiver("PLAN-SYMBOLIC", kind="unsupported-by-design"),)
    assert word_and_waived(refused, waivers=waivers) == ("partial", True)
    assert word_and_waived(refused, waivers=()) == ("partial", False)


def test_a_refused_core_case_can_be_waived():
    refused = a_record("PLAN-TILE", Outcome.REFUSED, "even split, same")
    assert word_and_waived(refused, waivers=(a_waiver("PLAN-TILE"),)) == ("partial", True)
    elsewhere = (a_waiver("PLAN-TILE", cases="*other"),)
    assert word_and_waived(refused, waivers=elsewhere) == ("partial", False)


def test_a_core_shape_that_is_withheld_is_waived_only_in_both_bindings():
    withheld = [a_record("PLAN-TILE", Outcome.WITHHELD, case) for case in PLANNED["PLAN-TILE"][1:]]
    assert word_and_waived(*withheld, waivers=(a_waiver("PLAN-TILE"),)) == ("partial", True)
    one = (a_waiver("PLAN-TILE", cases="*same"),)
    assert word_and_waived(*withheld, waivers=one) == ("partial", False)


@pytest.mark.parametrize("pattern", ["drawn", "*same"])
def test_one_bad_case_that_is_not_waived_is_enough(pattern):
    bad = [a_record("PLAN-TILE", Outcome.VIOLATED, case) for case in ("drawn", "even split, same")]
    waivers = (a_waiver("PLAN-TILE", cases=pattern),)
    assert word_and_waived(*bad, waivers=waivers) == ("violated", False)


def test_cases_that_can_not_run_can_be_waived_and_those_that_never_ran_can_not():
    waivers = (a_waiver("PLAN-TILE", kind="environment"),)
    unable = a_record("PLAN-TILE", Outcome.NOT_RUN, "drawn")
    assert word_and_waived(unable, waivers=waivers) == ("partial", True)
    run = a_run(unable, waivers=waivers)
    records = tuple(record for record in run.records if record.case != "even split, same")
    verdict, *_ = run_verdicts(replace(run, records=records))
    assert (verdict.word, verdict.only_waived) == ("partial", False)
