"""The commands that read certificates, on files of the suite that is installed."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from handmade_certificates import PLANNED, SUITE, a_certificate, a_record, a_run, edited, text_of

from pytest_affine.__main__ import main
from pytest_affine.certificate.files import today
from pytest_affine.commands import certificates, merge, render, verify
from pytest_affine.commands.certificates import installed_suite
from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.contract.outcomes import Outcome

BROKEN = a_record("MAP-INV", Outcome.VIOLATED)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a certificate to a file of that name, of a suite that is said to be installed."""
    monkeypatch.chdir(tmp_path)
    for command in (merge, render, verify):
        monkeypatch.setattr(command, "installed_suite", lambda: SUITE)

    def write(name, *runs):
        runs = runs or (a_run(),)
        recent = (replace(run, date=today()) for run in runs)
        (tmp_path / name).write_text(text_of(a_certificate(*recent)))

    return write


def test_the_installed_suite_has_its_digest_and_all_its_cases():
    suite = installed_suite()
    assert suite.digest == certificates.suite_digest()
    assert suite.planned.keys() == {*REQUIREMENTS}
    assert all(len(cases) == len({*cases}) > 0 for cases in suite.planned.values())


def test_verify_exits_with_0_for_what_is_conformant(write, capsys):
    write("c.json")
    assert main(["verify", "c.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "CONFORMANT"


def test_verify_exits_with_1_for_what_is_not(write, capsys):
    write("c.json", a_run(BROKEN))
    assert main(["verify", "c.json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "    MAP-INV is violated" in lines
    assert lines[-1] == "VIOLATED"


def test_verify_exits_with_1_where_the_policy_is_not_met(write, tmp_path, capsys):
    write("c.json")
    (tmp_path / "policy.toml").write_text("min_examples = 100")
    assert main(["verify", "c.json", "--policy", "policy.toml"]) == 1
    wanted = "policy: gloo, 4 ranks: 25 examples were drawn; 100 are wanted"
    assert wanted in capsys.readouterr().out.splitlines()


def test_verify_exits_with_1_where_the_baseline_was_better(write, capsys):
    write("old.json", a_run(), a_run(num_ranks=2))
    write("c.json")
    assert main(["verify", "c.json", "--baseline", "old.json"]) == 1
    wanted = "baseline: worse: gloo, 2 ranks: there is no such run any more"
    assert wanted in capsys.readouterr().out.splitlines()
    assert main(["verify", "old.json", "--baseline", "c.json"]) == 0


def test_a_baseline_may_be_of_another_suite(write, tmp_path):
    write("c.json")
    other = a_certificate(suite="sha256:" + "6" * 64)
    (tmp_path / "old.json").write_text(text_of(other))
    assert main(["verify", "c.json", "--baseline", "old.json"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.json"], "error: none.json can not be read: No such file or directory"),
        (["cut.json"], "error: cut.json is no whole JSON document: "),
        (["edited.json"], "error: edited.json was edited: "),
        (["c.json", "--policy", "none.toml"], "error: none.toml can not be read: No such file"),
        (["c.json", "--policy", "odd.toml"], "error: odd.toml has the unknown key 'gates'"),
        (["c.json", "--baseline", "cut.json"], "error: cut.json is no whole JSON document: "),
    ],
)
def test_verify_exits_with_2_for_what_can_not_be_read_or_trusted(
    write, tmp_path, capsys, arguments, message
):
    write("c.json")
    text = (tmp_path / "c.json").read_text()
    (tmp_path / "cut.json").write_text(text[:-20])
    spoilt = edited(text, lambda document: document.update(verdict="error"), with_digest=False)
    (tmp_path / "edited.json").write_text(spoilt)
    (tmp_path / "odd.toml").write_text("gates = true")
    assert main(["verify", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(message)
    assert printed.out == ""


def test_merge_writes_one_certificate_that_verifies(write, tmp_path, capsys):
    write("one.json")
    write("two.json", a_run(num_ranks=2))
    assert main(["merge", "one.json", "two.json", "-o", "all.json"]) == 0
    wanted = "all.json: conformant, of 2 runs: gloo, 2 ranks; gloo, 4 ranks\n"
    assert capsys.readouterr().out == wanted
    assert main(["verify", "all.json"]) == 0


def test_merge_refuses_what_is_not_of_one_kind_and_writes_nothing(write, tmp_path, capsys):
    write("one.json")
    other = replace(a_certificate().subject, version="2.0")
    (tmp_path / "two.json").write_text(text_of(a_certificate(subject=other)))
    assert main(["merge", "one.json", "two.json", "-o", "all.json"]) == 2
    message = "one.json and two.json differ in the version of the implementation: 1.0, 2.0"
    assert message in capsys.readouterr().err
    assert not (tmp_path / "all.json").exists()


@pytest.mark.parametrize("name", ["shields", "in-toto"])
def test_render_prints_json(write, capsys, name):
    write("c.json", a_run(BROKEN))
    assert main(["render", "c.json", "--format", name]) == 0
    assert "violated" in json.dumps(json.loads(capsys.readouterr().out))


def test_render_prints_markdown(write, capsys):
    write("c.json")
    assert main(["render", "c.json", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("## my\\_adapter:Mine 1.0: conformant\n")


def test_render_does_not_show_what_can_not_be_trusted(write, tmp_path, capsys):
    planned = {**PLANNED, "PLAN-TILE": ("drawn",)}
    records = tuple(r for r in a_run().records if r.case in planned[r.requirement])
    write("c.json", a_run(planned=planned, records=records))
    assert main(["render", "c.json", "--format", "markdown"]) == 2
    assert capsys.readouterr().out == ""


def test_the_formats_are_named_where_another_is_asked_for(write, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["render", "c.json", "--format", "html"])
    assert leaving.value.code == 2
    assert "'shields', 'markdown', 'in-toto'" in capsys.readouterr().err.replace('"', "'")


def test_verifying_imports_no_torch(tmp_path):
    (tmp_path / "c.json").write_text("{}")
    script = (
        "import sys; from pytest_affine.__main__ import main; main(['verify', 'c.json']); "
        "print(*{'torch', 'pytest_affine.conformance'}.intersection(sys.modules))"
    )
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout == "pytest_affine.conformance\n"
