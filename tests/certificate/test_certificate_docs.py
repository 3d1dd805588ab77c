"""What the pages on certificates and on CI show beside what is run there."""

import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_affine import plugin
from pytest_affine.__main__ import main
from pytest_affine.certificate.document import schema
from pytest_affine.certificate.policy import read_policy
from pytest_affine.certificate.waivers import read_waivers

DOCS = Path(__file__).parents[2] / "docs"
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECIPES = re.findall(
    r"^```yaml\n(.*?)^```$", (DOCS / "ci.md").read_text(), re.MULTILINE | re.DOTALL
)


def test_the_policy_and_the_waivers_of_the_page_are_read(tmp_path):
    policy, waivers = TOML.findall((DOCS / "certificate.md").read_text())
    (tmp_path / "policy.toml").write_text(policy)
    (tmp_path / "waivers.toml").write_text(waivers)
    assert read_policy(tmp_path / "policy.toml").runs == (("gloo", 4), ("nccl", 4))
    assert [waiver.cases for waiver in read_waivers(tmp_path / "waivers.toml")] == [
        "*",
        "*[odd split*",
    ]


def test_the_page_has_every_key_of_a_certificate_and_of_a_run():
    page = (DOCS / "certificate.md").read_text()
    keys = [*schema()["properties"], *schema()["$defs"]["run"]["properties"]]
    assert [key for key in keys if f"`{key}`" not in page] == []


def commands(recipe):
    """The command lines of a recipe, those folded over several lines as one."""
    joined = re.sub(r">-\n\s+", "", recipe)
    joined = re.sub(r"\n\s+(?=--)", " ", joined)
    return [line.split(": ")[-1].strip("- ") for line in joined.splitlines()]


@pytest.mark.parametrize("recipe", RECIPES, ids=["GitHub", "GitLab"])
def test_the_options_of_a_recipe_are_those_that_there_are(recipe):
    known = []
    group = SimpleNamespace(addoption=lambda name, **_: known.append(name))
    parser = SimpleNamespace(getgroup=lambda *_: group, addini=lambda *_: None)
    plugin.pytest_addoption(parser)
    used = {option.partition("=")[0] for option in re.findall(r"--affine-[\w=-]+", recipe)}
    assert len(used) >= 5
    assert used <= {*known}


@pytest.mark.parametrize("recipe", RECIPES, ids=["GitHub", "GitLab"])
def test_the_commands_of_a_recipe_are_those_that_there_are(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    start = "python -m pytest_affine "
    found = [line.removeprefix(start) for line in commands(recipe) if line.startswith(start)]
    assert {line.split()[0] for line in found} == {"merge", "render", "verify"}
    for line in found:
        # None of the files is there, which is all that may be wrong.
        assert main(shlex.split(line.partition(" >")[0])) == 2
        assert "can not be read: No such file or directory" in capsys.readouterr().err
