"""Write mutants-table.md from the catalogue; `render` is what a test compares the page with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from pytest_affine.mutants.catalogue import CATALOGUE

PAGE = Path(__file__).with_name("mutants-table.md")

HEAD = """\
# All mutants

What [`--affine-mutants`](mutants.md) tries, under the requirement whose tests must notice it. Over
the reference, on 4 gloo ranks, all of them are killed as intended. An origin is one of the
[faults of real resharders](faults.md); a mutant without one is this project's own.
"""


def render() -> str:
    """The page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEAD
    yield f"There are {len(CATALOGUE)}.\n"
    for requirement, mutants in groupby(CATALOGUE, key=lambda mutant: mutant.requirement):
        yield f"## {requirement}\n"
        yield "| mutant | what it gets wrong | origin |"
        yield "| --- | --- | --- |"
        for mutant in mutants:
            hangs = " (It hangs.)" if mutant.hangs else ""
            yield f"| {mutant.id} | {mutant.sentence}{hangs} | {mutant.origin} |"
        yield ""


if __name__ == "__main__":
    PAGE.write_text(render())
