import json
import re
from copy import deepcopy
from datetime import date

import jsonschema
import pytest
from handmade_certificates import (
    PLANNED,
    SUITE,
    a_certificate,
    a_gate,
    a_record,
    a_run,
    a_waiver,
    edited,
    text_of,
)

from pytest_affine.certificate.document import check_trust, read_certificate, schema, to_document
from pytest_affine.certificate.shape import DocumentError, check_shape
from pytest_affine.certificate.verdicts import WORDS
from pytest_affine.certificate.verify import read_trusted
from pytest_affine.certificate.waivers import KINDS
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.mutants.gate import Bucket

FULL = a_certificate(
    a_run(
        a_record("PLAN-TILE", Outcome.CONFORMANT, reason="", num_examples=25, num_refused=3),
        a_record("PLAN-EDGE", Outcome.REFUSED, reason="PlanLimitError: too many"),
        a_record("MAP-COVER", Outcome.VIOLATED),
        waivers=(
            a_waiver("MAP-COVER", backend="gloo", ranks=4, cases="case*"),
            a_waiver("PLAN-EDGE", kind="unsupported-by-design"),
        ),
        gate=a_gate("EXEC-EXACT"),
    ),
    a_run(num_ranks=2, num_deselected=3, incomplete=("the session ended early",), case="0a1b"),
)


def trusted(text):
    return read_trusted(text, "c.json", SUITE)


@pytest.mark.parametrize("certificate", [a_certificate(), FULL], ids=["plain", "full"])
def test_a_certificate_to_text_and_back_is_the_same(certificate):
    text = text_of(certificate)
    assert text_of(trusted(text)) == text
    assert trusted(text).runs[0].records[0] in certificate.runs[0].records
    assert {*trusted(text).runs[0].records} == {*certificate.runs[0].records}


def test_the_text_has_sorted_keys_only_ascii_and_a_newline_at_its_end():
    text = text_of(a_certificate(a_run(devices=("Größe",))))
    assert text.isascii()
    assert text.endswith("}\n")
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n"


def test_a_plain_record_is_one_word_and_a_case_that_never_ran_null():
    records = a_run().records[1:]
    document = to_document(a_certificate(a_run(records=records)))
    requirements = document["runs"][0]["requirements"]
    assert requirements["MAP-COVER"] == {"case of MAP-COVER": None}
    assert requirements["MAP-TILE"] == {"case of MAP-TILE": "conformant"}
    assert requirements["PLAN-TILE"]["even split, same"] == {
        "outcome": "conformant",
        "core": "even split",
    }


def test_of_several_records_of_a_case_the_worst_is_kept():
    bad = a_record("MAP-COVER", Outcome.VIOLATED)
    run = a_run()
    for records in ((bad, *run.records), (*run.records, bad)):
        document = to_document(a_certificate(a_run(records=records)))
        kept = document["runs"][0]["requirements"]["MAP-COVER"]["case of MAP-COVER"]
        assert kept == {"outcome": "violated", "reason": "why"}


def test_the_published_schema_is_one_of_json_schema_2020_12():
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("certificate", [a_certificate(), FULL], ids=["plain", "full"])
def test_what_is_written_is_valid_by_the_published_schema(certificate):
    jsonschema.validate(to_document(certificate), schema())


def test_the_schema_has_the_words_that_the_code_has():
    defs = schema()["$defs"]
    assert defs["word"]["enum"] == [*WORDS]
    assert defs["outcome"]["enum"] == [outcome.value for outcome in Outcome]
    assert defs["waiver"]["properties"]["kind"]["enum"] == [*KINDS]
    buckets = defs["gate"]["properties"]["mutants"]["items"]["properties"]["bucket"]["enum"]
    assert buckets == [bucket.value for bucket in Bucket]


def damages(value, path=()):
    """Yield (what, path) of everything that can be done to a document at one place."""
    if path:
        yield from ((what, path) for what in ("gone", "object", "array", "text", "minus", "null"))
    if isinstance(value, dict):
        yield "more", path
        # Of keys that are names, one stands for all.
        keys = [*value][:1] if {*value} <= {*PLANNED} else [*value]
        for key in keys:
            yield from damages(value[key], (*path, key))
    elif isinstance(value, list) and value:
        yield from damages(value[0], (*path, 0))


def small(document):
    """The document with one mutant, and with those of its requirements that differ in form."""
    for run in document["runs"]:
        kept = ("PLAN-TILE", "MAP-COVER", "MAP-INV")
        run["requirements"] = {id_: run["requirements"][id_] for id_ in kept}
        run["gate"] = run["gate"] and {**run["gate"], "mutants": run["gate"]["mutants"][:1]}
    return document


INSTEAD = {"object": {"?": 1}, "array": [[]], "text": "?!", "minus": -1, "null": None}


def damaged(document, what, path):
    found = deepcopy(document)
    *above, last = path or ("",)
    holder = found
    for key in above:
        holder = holder[key]
    if what == "gone":
        del holder[last]
    elif what == "more":
        (holder[last] if path else holder)["new key"] = 1
    else:
        holder[last] = INSTEAD[what]
    return found


def is_refused(document):
    try:
        check_shape(document, schema(), "c")
    except DocumentError:
        return True
    return False


def test_the_strict_reader_refuses_what_the_published_schema_refuses():
    document = small(json.loads(text_of(FULL)))
    validator = jsonschema.Draft202012Validator(schema())
    tried = refused = 0
    for what, path in damages(document):
        changed = damaged(document, what, path)
        wanted = not validator.is_valid(changed)
        assert is_refused(changed) == wanted, (what, path)
        tried, refused = tried + 1, refused + wanted
    assert tried > 500
    assert refused > 400


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda d: d.update(schema=2),
            "c.json is of schema 2; this version of pytest-affine reads",
        ),
        (
            lambda d: d.update(extra=1),
            "c.json has the unknown key 'extra'; the known ones: 'schema'",
        ),
        (lambda d: d.pop("suite"), "c.json lacks 'suite'"),
        (lambda d: d.update(runs=[]), "c.json.runs must have 1 items or more"),
        (lambda d: d.update(suite="sha256:0"), "c.json.suite must match ^sha256:"),
        (lambda d: d.update(pytest_affine=""), "c.json.pytest_affine must not be empty"),
        (
            lambda d: d["runs"][0].update(ranks="4"),
            "c.json.runs[0].ranks must be of type integer, got '4'",
        ),
        (lambda d: d["runs"][0].update(ranks=0), "c.json.runs[0].ranks must be 1 or more, got 0"),
        (lambda d: d["runs"][0].update(ranks=True), "ranks must be of type integer, got True"),
        (
            lambda d: d["runs"][0].update(date="2026-02-30"),
            "c.json.runs[0].date must be a day, such as 2026-01-31, got '2026-02-30'",
        ),
        (
            lambda d: d["runs"][0]["requirements"].update({"plan-tile": {}}),
            "a key of c.json.runs[0].requirements must match ^[A-Z]+-[A-Z]+$, got 'plan-tile'",
        ),
        (
            lambda d: d["runs"][0]["requirements"]["MAP-INV"].update(a={"outcome": "fine"}),
            "requirements.MAP-INV.a.outcome must be one of 'conformant', 'violated'",
        ),
    ],
)
def test_what_the_schema_does_not_know_is_refused_by_name(edit, message):
    with pytest.raises(DocumentError, match=re.escape(message)):
        trusted(edited(text_of(a_certificate()), edit))


def test_a_certificate_that_was_cut_short_is_refused_wherever_it_was_cut():
    text = text_of(a_certificate())
    for length in (0, 1, len(text) // 2, len(text) - 3):
        with pytest.raises(DocumentError, match=r"c\.json is no whole JSON document"):
            trusted(text[:length])


def test_a_number_that_is_none_and_a_key_that_stands_twice_are_refused():
    text = text_of(a_certificate())
    with pytest.raises(DocumentError, match=r"c\.json has NaN, which is no number of JSON"):
        trusted(text.replace('"ranks": 4', '"ranks": NaN'))
    twice = text.replace('"ranks": 4', '"ranks": 4, "ranks": 5')
    with pytest.raises(DocumentError, match=r"c\.json has the key 'ranks' twice in one object"):
        trusted(twice)


def test_an_edit_by_hand_is_told_as_such():
    def repair(document):
        document["runs"][0]["requirements"]["MAP-COVER"]["case of MAP-COVER"] = "conformant"

    bad = text_of(a_certificate(a_run(a_record("MAP-COVER", Outcome.VIOLATED))))
    with pytest.raises(DocumentError, match=r"c\.json was edited: its content has the digest sha"):
        trusted(edited(bad, repair, with_digest=False))


def test_a_stated_verdict_is_never_believed_whatever_the_digest():
    def claim(document):
        document["runs"][0]["verdicts"]["affine"] = {"word": "conformant", "reasons": []}
        document["verdict"] = "conformant"

    bad = text_of(a_certificate(a_run(a_record("MAP-COVER", Outcome.VIOLATED))))
    message = "c.json.verdict is 'conformant', and its records give 'violated'; certify again"
    with pytest.raises(DocumentError, match=message):
        trusted(edited(bad, claim))


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (lambda run: run["verdicts"]["affine"]["reasons"].append("fine"), "verdicts"),
        (lambda run: run["not_covered"].clear(), "not_covered"),
    ],
)
def test_whatever_follows_from_the_records_must_follow_from_them(edit, place):
    text = edited(text_of(a_certificate()), lambda document: edit(document["runs"][0]))
    with pytest.raises(DocumentError, match=rf"c\.json\.runs\[0\]\.{place} is .* and its records"):
        trusted(text)


def test_a_certificate_of_another_suite_is_refused_and_names_what_it_was_made_with():
    certificate = a_certificate(suite="sha256:" + "6" * 64, pytest_affine="0.0.9")
    message = r"c\.json is of another suite than the one that is installed \(sha256:66.*0\.0\.9"
    with pytest.raises(DocumentError, match=message):
        trusted(text_of(certificate))


def test_a_certificate_without_a_case_that_the_suite_plans_is_refused():
    planned = {**PLANNED, "PLAN-TILE": ("drawn",)}
    records = tuple(r for r in a_run().records if r.case in planned[r.requirement])
    text = text_of(a_certificate(a_run(planned=planned, records=records)))
    message = r"requirements\.PLAN-TILE lacks or adds 2 of the suite's 3 cases, such as 'even"
    with pytest.raises(DocumentError, match=message):
        trusted(text)


def test_a_certificate_without_a_requirement_that_the_suite_has_is_refused():
    planned = {id_: cases for id_, cases in PLANNED.items() if id_ != "MAP-INV"}
    records = tuple(r for r in a_run().records if r.requirement in planned)
    certificate = a_certificate(a_run(planned=planned, records=records))
    with pytest.raises(DocumentError, match=r"runs\[0\]\.requirements lacks or adds MAP-INV"):
        check_trust(
            certificate, text_of(certificate), "c.json", suite=SUITE.digest, planned=PLANNED
        )


def test_the_day_of_a_run_survives():
    run = a_run(date=date(2027, 12, 31))
    assert read_certificate(text_of(a_certificate(run)), "c").runs[0].date == run.date
