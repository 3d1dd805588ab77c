"""Every example of README and docs is run.

A `python` block whose first line is a comment with a file name is written to that file and run.
Of a `console` block each line that begins with `$ ` is run, all of the block in one folder; what
follows must be in its output, in that order, where `...` stands for any lines and `*` for any
characters.
"""

import fnmatch
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What findings.md shows needs DeepSpeed, and is run beside the tests of its adapter.
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "findings.md"),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEADLINE = 300


def blocks(page, language):
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


def named_files(page):
    """{file name: text} of the page's python blocks."""
    files = {}
    for text in blocks(page, "python"):
        name = re.match(r"# (\w+\.py)\n", text)
        assert name, f"{page.name}: a python block must begin with its file name: {text[:60]!r}"
        files[name[1]] = text
    return files


def commands(page):
    """Of each of the page's console blocks, every (command, lines of its output)."""
    for text in blocks(page, "console"):
        parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
        yield [(command, lines) for command, *lines in map(str.splitlines, parts)]


def assert_printed(lines, output):
    """Each line stands in the output, in this order; one after the other but for `...`."""
    printed = iter(output.splitlines())
    anywhere = True
    for line in lines:
        if line == "...":
            anywhere = True
            continue
        pattern = re.sub(r"\[", "[[]", line.rstrip())
        for got in printed:
            if fnmatch.fnmatchcase(got.rstrip(), pattern):
                break
            assert anywhere, f"wanted {line!r}, got {got!r}, in\n{output}"
        else:
            raise AssertionError(f"{line!r} is not in\n{output}")
        anywhere = False


EXAMPLES = [
    pytest.param(page, block, id=f"{page.stem}: {block[0][0][:60]}")
    for page in PAGES
    for block in commands(page)
]


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize(("page", "block"), EXAMPLES)
def test_a_command_prints_what_the_page_says(page, block, tmp_path):
    for name, text in named_files(page).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "my_faulty.py").write_text(faulty_planner())
    for command, lines in block:
        assert lines, f"{page.name}: {command} shows no output"
        assert_printed(lines, output_of(command, tmp_path))


def output_of(command, folder):
    """What a command prints that is run there."""
    scripts = Path(sys.executable).parent
    result = subprocess.run(
        [str(scripts / (words := shlex.split(command))[0]), *words[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    return result.stdout + result.stderr


def faulty_planner():
    """README's planner with the fault that README describes."""
    text = named_files(ROOT / "README.md")["my_adapter.py"]
    right, wrong = "target_offset=target_offset + first - low", "target_offset=target_offset"
    assert text.count(right) == 1
    return text.replace(right, wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_python_block_is_a_file_that_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, text in named_files(page).items():
        (tmp_path / name).write_text(text)
        exec(compile(text, name, "exec"), {"__name__": name.removesuffix(".py")})


@pytest.mark.parametrize("module", ["requirements_page", "mutants_page"])
def test_a_generated_page_is_what_its_table_says(module, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    page = importlib.import_module(module)
    assert page.PAGE.read_text() == page.render(), f"run: python docs/{module}.py"


def test_every_fault_that_a_case_names_is_on_the_page_of_faults():
    sources = "".join(path.read_text() for path in (ROOT / "fixtures").glob("*.py"))
    named = set(re.findall(r"\bF\d\d\b", sources))
    listed = set(re.findall(r"^\| (F\d\d) \|", (ROOT / "docs/faults.md").read_text(), re.MULTILINE))
    assert named
    assert named <= listed


def test_every_link_of_the_pages_leads_to_a_file():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), (page, target)
