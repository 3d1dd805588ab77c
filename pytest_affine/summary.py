"""What a certifying session prints: the header, the table of requirements, the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.verdict import Judgement, Verdict

if TYPE_CHECKING:
    from pytest_affine.options import Options

__all__ = ["HEAD", "header_line", "row_of", "share_text", "summary_lines", "table"]


def header_line(name: str, version: str, options: Options) -> str:
    """One line that says what is in force."""
    ranks = f"{options.num_ranks} rank{'s' * (options.num_ranks > 1)}"
    return (
        f"affine: certify {name} {version}, {ranks} on {options.backend}, deadline "
        f"{options.timeout:g} s, {options.num_examples} examples, seed {options.seed}"
    )


def summary_lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The table of requirements and each profile's verdict, as lines."""
    for verdict in verdicts:
        yield from table([HEAD, *map(row_of, verdict.judgements)])
        yield ""
        yield from _verdict_lines(verdict)


HEAD = ("requirement", "outcome", "cases", "inputs", "shares")


def row_of(judgement: Judgement) -> tuple[str, ...]:
    """The cells of a requirement, below those of `HEAD`."""
    row = judgement.requirement
    return (
        row.id if row.must else f"{row.id} (should)",
        judgement.outcome.value,
        str(judgement.num_planned),
        str(judgement.num_examples),
        _shares(judgement),
    )


def _shares(judgement: Judgement) -> str:
    """Counts per outcome; numbers measured, and what was drawn and turned away, are beside them."""
    parts = [f"{count} {outcome.value}" for outcome, count in judgement.shares().items()]
    refused = sum(record.num_refused for record in judgement.records)
    withheld = sum(record.num_withheld for record in judgement.records)
    measured = (r.reason for r in judgement.records if r.outcome is Outcome.CONFORMANT)
    numbers = "; ".join(filter(None, dict.fromkeys(measured)))
    parts += [f"measured: {numbers}"] if numbers else []
    parts += [f"{refused} drawn inputs refused"] if refused else []
    parts += [f"{withheld} drawn inputs withheld"] if withheld else []
    return ", ".join(parts)


def table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows of as many cells, as lines whose columns are aligned."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


MAX_REASONS = 10


def share_text(verdict: Verdict) -> str:
    """The share of cases in each outcome, which stands beside every verdict."""
    shares = verdict.shares()
    total = sum(shares.values())
    parts = (f"{count / total:.1%} {outcome.value} ({count})" for outcome, count in shares.items())
    return f"of {total} cases: {', '.join(parts) if total else 'none'}"


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    yield f"profile {verdict.profile}: {verdict.word.upper()}"
    yield f"  {share_text(verdict)}"
    yield from (f"  {reason}" for reason in verdict.reasons[:MAX_REASONS])
    if len(verdict.reasons) > MAX_REASONS:
        yield f"  and {len(verdict.reasons) - MAX_REASONS} more"
