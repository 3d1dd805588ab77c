import re
from dataclasses import replace
from datetime import timedelta

import pytest
from handmade_certificates import DAY, SUBJECT, a_certificate, a_gate, a_record, a_run

from pytest_affine.certificate.policy import Policy, read_policy, shortfalls
from pytest_affine.certificate.shape import DocumentError
from pytest_affine.contract.outcomes import Outcome

FULL = """
accept_waived = true
requirements = ["EXEC-*", "PLAN-TILE"]
gate = true
min_examples = 50
max_refused = 0.25
max_withheld = 0
max_age_days = 30

[[runs]]
backend = "gloo"
ranks = 4

[[runs]]
backend = "nccl"
ranks = 2

[versions]
torch = ">=2.6"
"""


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return read_policy(path)

    return read


def test_a_policy_is_read(read):
    policy = read(FULL)
    assert policy.accept_waived
    assert policy.runs == (("gloo", 4), ("nccl", 2))
    assert policy.requirements[:2] == ("EXEC-EXACT", "EXEC-GUARD")
    assert policy.requirements[-1] == "PLAN-TILE"
    assert (policy.gate, policy.min_examples, policy.max_age_days) == (True, 50, 30)
    assert (policy.max_refused, policy.max_withheld) == (0.25, 0)
    assert str(policy.versions["torch"]) == ">=2.6"


def test_an_empty_policy_demands_nothing_but_a_conformant_verdict(read):
    assert read("") == Policy()
    assert [*shortfalls(a_certificate(), Policy(), DAY)] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "gates = true",
            "policy.toml has the unknown key 'gates'; the known ones: 'accept_waived'",
        ),
        ("gate = 1", "policy.toml.gate must be of type boolean, got 1"),
        ("max_refused = 1.5", "policy.toml.max_refused must be 1 or less, got 1.5"),
        ("max_refused = -1", "policy.toml.max_refused must be 0 or more, got -1"),
        ("min_examples = 0", "policy.toml.min_examples must be 1 or more, got 0"),
        ("runs = []", "policy.toml.runs must have 1 items or more"),
        ('runs = [{backend = "gloo"}]', "policy.toml.runs[0] lacks 'ranks'"),
        ('requirements = ["EXEC-"]', "policy.toml.requirements[0] is 'EXEC-', which is no requi"),
        ('versions = {numpy = "2"}', "policy.toml.versions has the unknown key 'numpy'; the know"),
        ('versions = {torch = "2.6"}', "policy.toml.versions.torch must be a version specifier, s"),
        ("gate = maybe", "policy.toml is no TOML"),
    ],
)
def test_what_is_no_policy_is_refused_by_name(read, text, message):
    with pytest.raises(DocumentError, match=re.escape(message)):
        read(text)


def lacks(certificate, **policy):
    return [*shortfalls(certificate, Policy(**policy), DAY)]


def test_a_run_that_is_demanded_must_be_there():
    certificate = a_certificate(a_run(), a_run(num_ranks=2))
    assert lacks(certificate, runs=(("gloo", 2), ("gloo", 4))) == []
    assert lacks(certificate, runs=(("nccl", 4), ("gloo", 8))) == [
        "there is no run on nccl with 4 ranks",
        "there is no run on gloo with 8 ranks",
    ]


def test_a_requirement_that_is_demanded_must_be_conformant_in_every_run():
    unclaimed = {key: value for key, value in a_run().claims.items() if key != "plan_digest"}
    certificate = a_certificate(a_run(), a_run(num_ranks=2, claims=unclaimed))
    assert lacks(certificate, requirements=("DIGEST-STABLE", "MAP-INV")) == [
        "gloo, 2 ranks: DIGEST-STABLE must be conformant, and is not claimed"
    ]


def test_one_run_that_has_passed_the_gate_is_enough():
    wanted = "no run has passed the mutation gate (--affine-mutants)"
    assert lacks(a_certificate(), gate=True) == [wanted]
    assert lacks(a_certificate(a_run(gate=a_gate("MAP-INV"))), gate=True) == [wanted]
    assert lacks(a_certificate(a_run(), a_run(num_ranks=2, gate=a_gate())), gate=True) == []


def test_enough_examples_must_have_been_drawn():
    assert lacks(a_certificate(), min_examples=25) == []
    wanted = "gloo, 4 ranks: 25 examples were drawn; 26 are wanted"
    assert lacks(a_certificate(), min_examples=26) == [wanted]


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.WITHHELD])
def test_shares_are_of_the_cases_of_claimed_requirements(outcome):
    # check_map is claimed, which four requirements need, MAP-SCALE of them with map_from_dict too.
    claims = {"check_map": ()}
    run = a_run(a_record("MAP-TILE", outcome), a_record("PLAN-EDGE", outcome), claims=claims)
    limit = f"max_{outcome.value}"
    assert lacks(a_certificate(run), **{limit: 1 / 3}) == []
    assert lacks(a_certificate(run), **{limit: 0.33}) == [
        f"gloo, 4 ranks: 33.3% of the claimed cases were {outcome.value}; at most 33.0% may"
    ]


def test_a_share_of_nothing_is_nothing():
    assert lacks(a_certificate(a_run(claims={})), max_refused=0.0) == []


def test_every_run_must_be_young_enough():
    old = a_run(date=DAY - timedelta(days=31), num_ranks=2)
    assert lacks(a_certificate(a_run(), old), max_age_days=31) == []
    wanted = "gloo, 2 ranks: it is 31 days old; 30 are allowed"
    assert lacks(a_certificate(a_run(), old), max_age_days=30) == [wanted]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("torch", "2.13.0+cpu"),
        ("python", "3.11.9"),
        ("pytest", "9.2.0"),
        ("pytest_affine", "0.1.0"),
        ("implementation", "1.0"),
        ("distribution", "2.1"),
    ],
)
def test_versions_must_be_as_specified(read, name, version):
    plain = version.partition("+")[0]
    good, bad = (read(f'versions = {{{name} = "{sign}{plain}"}}') for sign in ("==", "!="))
    assert [*shortfalls(a_certificate(), good, DAY)] == []
    assert [*shortfalls(a_certificate(), bad, DAY)] == [
        f"gloo, 4 ranks: {name} is {version}, and must be !={plain}"
    ]


def test_a_version_that_is_none_is_not_as_specified(read):
    policy = read('versions = {implementation = ">=0", distribution = ">=0"}')
    subject = replace(SUBJECT, version="unknown", distribution=None)
    assert [*shortfalls(a_certificate(subject=subject), policy, DAY)] == [
        "gloo, 4 ranks: implementation is unknown, and must be >=0",
        "gloo, 4 ranks: distribution is absent, and must be >=0",
    ]
