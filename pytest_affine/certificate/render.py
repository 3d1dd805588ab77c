"""A verified certificate in the formats that others read: a badge, a job page, an attestation."""

from __future__ import annotations

import hashlib
import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pytest_affine.certificate.document import to_document, to_text
from pytest_affine.certificate.record import Run
from pytest_affine.certificate.verdicts import not_covered
from pytest_affine.certificate.verify import Verification
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.verdict import Verdict
from pytest_affine.summary import HEAD, row_of, share_text

__all__ = ["FORMATS", "PREDICATE_TYPE"]

COLORS = {
    "conformant": "brightgreen",
    "partial": "yellow",
    "violated": "red",
    "error": "lightgrey",
}

PREDICATE_TYPE = "urn:pytest-affine:certificate:1"
"""Type of the predicate of the in-toto Statement; the same as the id of the JSON Schema."""


def shields(found: Verification) -> str:
    """What an endpoint badge of shields.io is made from."""
    shares: Counter[Outcome] = Counter()
    for verdict in _all_verdicts(found):
        shares.update(verdict.shares())
    total, good = sum(shares.values()), shares[Outcome.CONFORMANT]
    badge = {
        "schemaVersion": 1,
        "label": "pytest-affine",
        "message": f"{found.word}, {good:,} of {total:,} cases",
        "color": COLORS[found.word],
        "isError": found.word == "error",
    }
    return json.dumps(badge, indent=1, sort_keys=True) + "\n"


def in_toto(found: Verification) -> str:
    """An in-toto Statement about the certificate's file, not signed."""
    document = to_document(found.certificate)
    content = to_text(document).encode()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {
                "name": "certificate of pytest-affine",
                "digest": {"sha256": hashlib.sha256(content).hexdigest()},
            }
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": _predicate(found, document),
    }
    return json.dumps(statement, indent=1, sort_keys=True) + "\n"


def _predicate(found: Verification, document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "contentDigest": document["digest"],
        "implementation": document["implementation"],
        "pytestAffine": document["pytest_affine"],
        "suite": document["suite"],
        "verdict": found.word,
        "runs": [
            {
                "backend": run.backend,
                "ranks": run.num_ranks,
                "devices": [*run.devices],
                "date": run.date.isoformat(),
                "gate": run.gate["verdict"] if run.gate else None,
                "verdicts": {verdict.profile: verdict.word for verdict in verdicts},
            }
            for run, verdicts in found.verdicts
        ],
    }


def markdown(found: Verification) -> str:
    """A summary for the page of a job."""
    return "\n".join(_markdown_lines(found)) + "\n"


def _markdown_lines(found: Verification) -> Iterator[str]:
    subject = found.certificate.subject
    yield f"## {_plain(subject.name)} {_plain(subject.version)}: {found.word}"
    yield ""
    yield from _table(("run", "profile", "verdict", "cases"), _run_rows(found))
    for run, verdicts in found.verdicts:
        reasons = [reason for verdict in verdicts for reason in verdict.reasons]
        yield from _listed(f"{run.title}: why", reasons)
        yield from _gate_lines(run)
    yield from _listed("Policy", found.shortfalls)
    yield from _listed("Worse than the baseline", _changes(found, is_worse=True))
    yield from _listed("Better than the baseline", _changes(found, is_worse=False))
    for run, verdicts in found.verdicts:
        rows = [row_of(judgement) for verdict in verdicts for judgement in verdict.judgements]
        table = _table(HEAD, rows)
        yield from _folded(f"{run.title}: all requirements", table)
        lines = (f"- {_plain(line)}" for line in not_covered(run))
        yield from _folded(f"{run.title}: not covered", lines)


def _run_rows(found: Verification) -> Iterator[tuple[str, ...]]:
    for run, verdicts in found.verdicts:
        for verdict in verdicts:
            yield run.title, verdict.profile, verdict.word, share_text(verdict)


def _gate_lines(run: Run) -> Iterator[str]:
    if run.gate is None:
        return
    buckets = Counter(mutant["bucket"] for mutant in run.gate["mutants"])
    counted = ", ".join(f"{count} {bucket}" for bucket, count in sorted(buckets.items()))
    yield ""
    yield f"Mutation gate, {run.title}: {run.gate['verdict']} ({counted or 'no mutants'})"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(map(_plain, row))} |" for row in rows)


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    items = [f"- {_plain(line)}" for line in lines]
    yield from ["", f"### {title}", "", *items] if items else []


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("", f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


def _changes(found: Verification, *, is_worse: bool) -> list[str]:
    return [change.text for change in found.changes if change.is_worse is is_worse]


def _plain(text: str) -> str:
    """Text that no renderer of Markdown takes for anything else, on one line."""
    for special in "\\`*_{}[]|#":
        text = text.replace(special, f"\\{special}")
    return " ".join(html.escape(text, quote=False).split())


def _all_verdicts(found: Verification) -> Iterator[Verdict]:
    for _, verdicts in found.verdicts:
        yield from verdicts


FORMATS: dict[str, Callable[[Verification], str]] = {
    "shields": shields,
    "markdown": markdown,
    "in-toto": in_toto,
}
"""What `python -m pytest_affine render --format` can make."""
