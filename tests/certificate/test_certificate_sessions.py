"""Certificates as a user gets them: every test runs pytest in a process of its own."""

import json
import xml.etree.ElementTree as ElementTree
from datetime import timedelta
from pathlib import Path

import pytest

from pytest_affine.__main__ import main
from pytest_affine.certificate.files import today
from pytest_affine.fixtures.built import BUILT

ADAPTERS = """
import time
from dataclasses import replace
from pytest_affine import Implementation
from pytest_affine.builders import BUILDERS
from pytest_affine.maps import ParamAffineMap


class Builder(Implementation):
    version = "1.0"

    def build_map(self, builder, **arguments):
        return BUILDERS[builder](**arguments)


class Wrong(Builder):
    def build_map(self, builder, **arguments):
        built = super().build_map(builder, **arguments)
        if not isinstance(built, ParamAffineMap):
            return {name: shifted(each) for name, each in built.items()}
        return shifted(built)


class NotStopping(Builder):
    def stop(self):
        raise RuntimeError("too late")


class Nowhere(Builder):
    distribution = "nowhere"


def shifted(built):
    return replace(
        built,
        pieces_by_location=[
            (at, [replace(piece, full_offset=0) for piece in pieces])
            for at, pieces in built.pieces_by_location
        ],
    )
"""


QUICK = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    # What is not claimed takes long to skip. The user's own tests come last.
    mine = [item for item in items if "requirement" not in dict(item.user_properties)]
    kept = [item for item in items if ("requirement", "MAP-BUILD") in item.user_properties]
    items[:] = kept + mine
"""


@pytest.fixture
def run(pytester):
    pytester.makepyfile(mine=ADAPTERS)
    pytester.makeconftest(QUICK)

    def run(name, *arguments):
        fixed = ("-p", "no:cacheprovider", "--affine-ranks=1", "--affine-certificate=c.json")
        return pytester.runpytest_subprocess(f"--affine-certify=mine:{name}", *fixed, *arguments)

    return run


def document():
    return json.loads(Path("c.json").read_text())


def assert_shown(result, *lines):
    result.stdout.fnmatch_lines([f"*{line}*" for line in lines])


def test_a_whole_session_of_what_is_right_gives_a_certificate_that_verifies(run, capsys):
    result = run("Builder", "--junitxml=junit.xml", "-n2")
    assert result.ret == 0
    assert_shown(result, "certificate: *c.json (conformant)")
    assert main(["verify", "c.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "CONFORMANT"
    written = document()
    assert written["implementation"]["adapter"]["file"] == "mine.py"
    (session,) = written["runs"]
    assert (session["backend"], session["ranks"], session["devices"]) == ("gloo", 1, ["cpu"])
    assert (session["seed"], session["num_examples"], session["case"]) == (0, 25, None)
    assert session["claims"] == {"build_map": []}
    assert session["incomplete"] == []
    assert_junit_names_requirements_and_cases(session)


def assert_junit_names_requirements_and_cases(session):
    properties = [
        {each.get("name"): each.get("value") for each in test.iter("property")}
        for test in ElementTree.parse("junit.xml").iter("testcase")
    ]
    assert all(found.keys() == {"requirement", "case"} for found in properties)
    named = {(found["requirement"], found["case"]) for found in properties}
    assert named == {("MAP-BUILD", case) for case in session["requirements"]["MAP-BUILD"]}


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        (["-k", "split"], "* tests of the suite were deselected"),
        (["-k", "nothing_like_it"], "nothing was judged: * tests of the suite were deselected"),
        (
            [f"--affine-case={BUILT[0].to_line()}"],
            "one case was judged, *",
        ),
    ],
    ids=["some", "none", "one case"],
)
def test_a_session_of_a_part_of_the_suite_never_verifies(run, arguments, reasons, capsys):
    run("Builder", *arguments)
    assert main(["verify", "c.json"]) == 1
    pytest.LineMatcher(capsys.readouterr().out.splitlines()).fnmatch_lines([f"*{reasons}*"])


FAILING = "def test_a(): assert 0"
PRESSING = "def test_a(): raise KeyboardInterrupt"
LEAVING = "import pytest\ndef test_a(): pytest.exit('enough', returncode=0)"


@pytest.mark.parametrize(
    ("text", "arguments", "reason"),
    [
        (FAILING, ["-x"], "the session ended early: stopping after 1 failures"),
        (FAILING, ["--maxfail=1", "-n1"], "the session was interrupted: stopping after 1 fail"),
        (PRESSING, [], "the session was interrupted: KeyboardInterrupt"),
        (LEAVING, [], "the session was interrupted: enough"),
    ],
    ids=["x", "maxfail under xdist", "keyboard", "exit with 0"],
)
def test_a_session_that_was_interrupted_never_verifies(run, pytester, text, arguments, reason):
    # The last test, so that every test of the suite has its record.
    pytester.makepyfile(test_mine=text)
    run("Builder", *arguments)
    (session,) = document()["runs"]
    assert [text[: len(reason)] for text in session["incomplete"]] == [reason]
    assert None not in session["requirements"]["MAP-BUILD"].values()
    assert main(["verify", "c.json"]) == 1


def test_an_error_of_collection_never_verifies(run, pytester):
    pytester.makepyfile(test_mine="import nowhere")
    run("Builder")
    assert document()["runs"][0]["incomplete"] == [
        "the session was interrupted: 1 error during collection"
    ]
    assert main(["verify", "c.json"]) == 1


def test_an_internal_error_gives_no_certificate(run, pytester):
    Path("c.json").write_text("old")
    pytester.makepyfile(test_mine="def test_a(): pass")
    pytester.makeconftest("def pytest_runtest_protocol(item): raise RuntimeError")
    assert run("Builder").ret == pytest.ExitCode.INTERNAL_ERROR
    assert not Path("c.json").exists()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("Missing", [], "has no attribute 'Missing'"),
        ("Builder", ["--affine-seed=x"], "--affine-seed must be an integer"),
        ("Builder", ["--affine-waivers=none.toml"], "none.toml can not be read: No such file"),
        ("Nowhere", [], "the implementation's class says distribution = 'nowhere', which is not"),
    ],
)
def test_a_wrong_use_gives_no_certificate_and_leaves_no_old_one(run, name, arguments, message):
    Path("c.json").write_text("old")
    result = run(name, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
    assert not Path("c.json").exists()


def test_a_session_that_only_lists_its_tests_leaves_certificates_alone(run):
    Path("c.json").write_text("old")
    assert run("Builder", "--collect-only", "-q").ret == 0
    assert Path("c.json").read_text() == "old"


def test_a_path_that_no_file_can_be_at_is_refused(run):
    result = run("Builder", "--affine-certificate=.")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--affine-certificate: " in result.stderr.str()
    assert "can not be written: Is a directory" in result.stderr.str()


@pytest.mark.parametrize("option", ["--affine-certificate=c.json", "--affine-waivers=w.toml"])
def test_a_certificate_is_of_something(pytester, option):
    result = pytester.runpytest_subprocess(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = "--affine-certificate and --affine-waivers need --affine-certify"
    assert message in result.stderr.str()


def test_a_certificate_that_can_not_be_written_at_the_end_fails_the_session(run, pytester):
    pytester.makepyfile(test_mine="import os\ndef test_a(): os.rmdir('out')")
    result = run("Builder", "--affine-certificate=out/c.json")
    assert result.ret == 1
    assert_shown(result, "the certificate was not written: *out/c.json can not be written: No such")


def test_an_implementation_that_does_not_stop_is_not_conformant(run):
    assert run("NotStopping").ret == 1
    (session,) = document()["runs"]
    (text,) = session["incomplete"]
    assert text.startswith("the implementation's stop failed: ")
    assert main(["verify", "c.json"]) == 1


def waive(*lines, days=30):
    Path("affine-waivers.toml").write_text(
        f"""
        [[waiver]]
        requirement = "MAP-BUILD"
        kind = "known-bug"
        link = "https://bugs.test/7"
        expires = {today() + timedelta(days=days)}
        """
        + "\n".join(lines)
    )


def test_what_is_waived_does_not_fail_the_session_and_is_never_conformant(run, capsys):
    waive()
    result = run("Wrong")
    assert result.ret == 0
    assert_shown(result, "profile affine: PARTIAL", "MAP-BUILD is violated: waived until *")
    assert not result.parseoutcomes().get("failed")
    assert result.parseoutcomes()["xfailed"] > 0
    assert main(["verify", "c.json"]) == 1
    Path("policy.toml").write_text("accept_waived = true")
    assert main(["verify", "c.json", "--policy", "policy.toml"]) == 0
    assert "PARTIAL (accepted: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("days", "message"),
    [
        (-1, "expired on *: remove the entry, or look at the reason again"),
        (30, "is stale, since that holds now: remove the entry"),
    ],
    ids=["expired", "stale"],
)
def test_a_waiver_that_is_of_no_use_fails_the_session(run, days, message):
    waive(days=days)
    result = run("Builder")
    assert result.ret == 1
    assert_shown(result, f"fails the session: waiver of MAP-BUILD*{message}")
    assert document()["runs"][0]["verdicts"]["affine"]["word"] == "partial"
    assert main(["verify", "c.json"]) == 1


def test_a_violation_whose_waiver_has_expired_fails(run):
    waive(days=-1)
    assert run("Wrong").ret == 1
    assert document()["verdict"] == "violated"


def test_a_waiver_for_another_backend_is_no_trouble_and_waives_nothing(run):
    waive('backend = "nccl"')
    assert run("Wrong").ret == 1
    assert document()["runs"][0]["waivers"] == []


def test_a_file_of_waivers_can_be_named(run):
    waive()
    Path("affine-waivers.toml").rename("known.toml")
    assert run("Wrong", "--affine-waivers=known.toml", "-n1").ret == 0
