"""What a certifying session prints: the header, the table of requirements, the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.verdict import Judgement, Verdict
from pytest_affine.options import Options

__all__ = ["header_line", "summary_lines"]


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
        yield from _table([HEAD, *map(_row, verdict.judgements)])
        yield ""
        yield from _verdict_lines(verdict)


HEAD = ("requirement", "outcome", "cases", "inputs", "shares")


def _row(judgement: Judgement) -> tuple[str, ...]:
    row = judgement.requirement
    return (
        row.id if row.must else f"{row.id} (should)",
        judgement.outcome.value,
        str(judgement.num_planned),
        str(judgement.num_examples),
        _shares(judgement),
    )


def _shares(judgement: Judgement) -> str:
    """Counts per outcome; what was drawn and turned away is named beside them."""
    parts = [f"{count} {outcome.value}" for outcome, count in _ordered(judgement.shares())]
    refused = sum(record.num_refused for record in judgement.records)
    withheld = sum(record.num_withheld for record in judgement.records)
    parts += [f"{refused} drawn inputs refused"] if refused else []
    parts += [f"{withheld} drawn inputs withheld"] if withheld else []
    return ", ".join(parts)


def _ordered(shares: Mapping[Outcome, int]) -> list[tuple[Outcome, int]]:
    return [(outcome, shares[outcome]) for outcome in Outcome if outcome in shares]


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


MAX_REASONS = 10


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    shares = verdict.shares()
    total = sum(shares.values())
    parts = (
        f"{count / total:.1%} {outcome.value} ({count})" for outcome, count in _ordered(shares)
    )
    yield f"profile {verdict.profile}: {verdict.word.upper()}"
    yield f"  of {total} cases: {', '.join(parts) if total else 'none'}"
    yield from (f"  {reason}" for reason in verdict.reasons[:MAX_REASONS])
    if len(verdict.reasons) > MAX_REASONS:
        yield f"  and {len(verdict.reasons) - MAX_REASONS} more"
