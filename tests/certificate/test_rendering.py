import hashlib
import json

from handmade_certificates import (
    AFFINE,
    DAY,
    a_certificate,
    a_gate,
    a_record,
    a_run,
    text_of,
)

from pytest_affine.certificate.document import schema, to_document
from pytest_affine.certificate.policy import Policy
from pytest_affine.certificate.render import FORMATS, PREDICATE_TYPE
from pytest_affine.certificate.verify import verify
from pytest_affine.contract.outcomes import Outcome

NUM_CASES = len(AFFINE) + 2


def rendered(name, *runs, **more):
    return FORMATS[name](verify(a_certificate(*runs), day=DAY, **more))


def badge(*runs):
    return json.loads(rendered("shields", *runs))


def test_a_badge_has_the_fields_of_a_shields_endpoint():
    assert badge(a_run()) == {
        "schemaVersion": 1,
        "label": "pytest-affine",
        "message": f"conformant, {NUM_CASES} of {NUM_CASES} cases",
        "color": "brightgreen",
        "isError": False,
    }


def test_a_badge_tells_each_verdict_by_a_colour():
    bad = a_run(a_record("MAP-INV", Outcome.VIOLATED))
    partial = badge(a_run(num_deselected=1))
    violated = badge(bad, a_run(num_ranks=2))
    error = badge(a_run(records=()))
    assert (partial["color"], partial["isError"]) == ("yellow", False)
    message = f"violated, {2 * NUM_CASES - 1} of {2 * NUM_CASES} cases"
    assert (violated["color"], violated["message"]) == ("red", message)
    assert (error["color"], error["isError"]) == ("lightgrey", True)
    assert error["message"] == f"error, 0 of {NUM_CASES} cases"


def test_a_statement_has_the_fields_of_in_toto_and_the_file_as_its_subject():
    run = a_run(gate=a_gate())
    statement = json.loads(rendered("in-toto", run))
    assert statement.keys() == {"_type", "subject", "predicateType", "predicate"}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    content = text_of(a_certificate(run)).encode()
    assert statement["subject"] == [
        {
            "name": "certificate of pytest-affine",
            "digest": {"sha256": hashlib.sha256(content).hexdigest()},
        }
    ]
    assert statement["predicateType"] == PREDICATE_TYPE == schema()["$id"]


def test_a_statement_says_what_was_judged_and_how_each_run_ended():
    document = to_document(a_certificate(a_run(gate=a_gate())))
    predicate = json.loads(rendered("in-toto", a_run(gate=a_gate())))["predicate"]
    assert predicate == {
        "contentDigest": document["digest"],
        "implementation": document["implementation"],
        "pytestAffine": "0.1.0",
        "suite": document["suite"],
        "verdict": "conformant",
        "runs": [
            {
                "backend": "gloo",
                "ranks": 4,
                "devices": ["cpu"],
                "date": "2026-03-01",
                "gate": "passed",
                "verdicts": {"affine": "conformant"},
            }
        ],
    }


def test_a_summary_has_a_table_of_runs_the_reasons_and_the_gate():
    run = a_run(
        a_record("MAP-INV", Outcome.VIOLATED),
        a_record("PLAN-TILE", Outcome.REFUSED, "drawn", reason="PlanLimitError: 9 > 8"),
        gate=a_gate("EXEC-EXACT"),
    )
    lines = rendered("markdown", run, policy=Policy(min_examples=30)).splitlines()
    assert lines[0] == "## my\\_adapter:Mine 1.0: violated"
    assert lines[2:4] == ["| run | profile | verdict | cases |", "| --- | --- | --- | --- |"]
    assert lines[4].startswith(
        f"| gloo, 4 ranks | affine | violated | of {NUM_CASES} cases: 97.0% "
    )
    assert lines[6:9] == ["### gloo, 4 ranks: why", "", "- MAP-INV is violated"]
    counted = f"{len(AFFINE) - 1} killed as intended, 1 survived"
    assert f"Mutation gate, gloo, 4 ranks: failed ({counted})" in lines
    start = lines.index("### Policy")
    assert lines[start + 2] == "- gloo, 4 ranks: 25 examples were drawn; 30 are wanted"
    assert "<details><summary>gloo, 4 ranks: all requirements</summary>" in lines
    assert "| PLAN-TILE | conformant | 3 | 3 | 2 conformant, 1 refused |" in lines
    assert "| PLAN-MERGED (should) | conformant | 1 | 1 | 1 conformant |" in lines
    assert "- refused by the implementation: PLAN-TILE, 1 of 3 cases: PlanLimitError" in lines


def test_a_summary_says_what_a_baseline_shows():
    old = a_certificate(a_run(a_record("MAP-INV", Outcome.REFUSED)))
    lines = rendered("markdown", a_run(seed=1, num_examples=20), baseline=old).splitlines()
    worse, better = (lines.index(f"### {word} than the baseline") for word in ("Worse", "Better"))
    assert lines[worse + 2] == "- gloo, 4 ranks: 25 examples were drawn, now 20"
    assert "- gloo, 4 ranks: MAP-INV: the outcome was refused, and is conformant" in lines[better:]


def test_text_that_markdown_would_take_for_something_else_is_plain():
    run = a_run(a_record("MAP-INV", Outcome.WITHHELD, reason="a|b\n<c> `d` [e] & \\ # _f_ *g*"))
    wanted = r"a\|b &lt;c&gt; \`d\` \[e\] &amp; \\ \# \_f\_ \*g\*"
    assert f"1 of 1 cases: {wanted}" in rendered("markdown", run)
