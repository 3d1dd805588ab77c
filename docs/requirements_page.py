"""Write requirements.md from the manifest; `render` is what a test compares the page with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from pytest_affine.contract.manifest import REQUIREMENTS, UPCOMING, Requirement

PAGE = Path(__file__).with_name("requirements.md")

HEAD = """\
# Requirements

Every rule that the suite judges by, as the manifest has it. A MUST decides the verdict, a SHOULD
is only shown. A requirement is judged where all of its methods are claimed; `method[option]` is
claimed by a method whose signature has that option. Where a requirement that it stands on is
violated, it is blocked.
"""


def render() -> str:
    """The page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEAD
    for profile, rows in groupby(REQUIREMENTS.values(), key=lambda row: row.profile):
        yield f"## Profile {profile}\n"
        for stage, held in groupby(rows, key=lambda row: row.stage):
            yield from _table(stage, held)
    yield "## Still to come\n"
    yield "These ids of the contract have no test yet, and take no part in a verdict.\n"
    yield from (f"- {profile}: {', '.join(ids)}" for profile, ids in UPCOMING.items())
    yield ""


def _table(stage: str, rows: Iterator[Requirement]) -> Iterator[str]:
    yield f"### Stage: {stage}\n"
    yield "| id | rule | | ranks | methods | stands on |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in rows:
        word = "MUST" if row.must else "SHOULD"
        methods = ", ".join(f"`{method}`" for method in row.methods)
        needs = ", ".join(row.needs)
        yield f"| {row.id} | {row.sentence} | {word} | {row.ranks} | {methods} | {needs} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(render())
