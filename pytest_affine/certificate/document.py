"""A certificate as a JSON document: what is written, and what is read and trusted."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from pytest_affine.certificate.digests import digest_of
from pytest_affine.certificate.record import Certificate, Run, Subject
from pytest_affine.certificate.shape import DocumentError, Schema, check_shape, read_json, shown
from pytest_affine.certificate.verdicts import WORDS, not_covered, run_verdicts
from pytest_affine.contract.manifest import UPCOMING

__all__ = ["SCHEMA_NUMBER", "check_trust", "read_certificate", "schema", "to_document", "to_text"]

SCHEMA_NUMBER = 1


@functools.cache
def schema() -> Schema:
    """The published JSON Schema of the document."""
    text = resources.files("pytest_affine.certificate").joinpath("schema.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def to_document(certificate: Certificate) -> dict[str, Any]:
    """The certificate as JSON-ready values, with its verdict and its digest."""
    runs = [{**run.to_dict(), **_derived(run)} for run in certificate.runs]
    words = {verdict["word"] for run in runs for verdict in run["verdicts"].values()}
    document = {
        "schema": SCHEMA_NUMBER,
        "pytest_affine": certificate.pytest_affine,
        "suite": certificate.suite,
        "implementation": certificate.subject.to_dict(),
        "runs": runs,
        "verdict": next(word for word in WORDS if word in words),
        "untested": {profile: [*ids] for profile, ids in UPCOMING.items()},
    }
    return {**document, "digest": digest_of(document)}


def _derived(run: Run) -> dict[str, Any]:
    return {
        "verdicts": {
            verdict.profile: {"word": verdict.word, "reasons": [*verdict.reasons]}
            for verdict in run_verdicts(run)
        },
        "not_covered": [*not_covered(run)],
    }


def to_text(document: Mapping[str, Any]) -> str:
    """The one way in which a document is written: sorted keys, a line per value, ASCII."""
    return json.dumps(document, sort_keys=True, indent=1, ensure_ascii=True) + "\n"


def read_certificate(text: str, name: str) -> Certificate:
    """Read a document as strictly as its schema and its digest allow.

    Raises:
        DocumentError: cut short, of an unknown schema, with an unknown key, or edited.
    """
    document = read_json(text, name)
    if isinstance(document, dict) and document.get("schema", SCHEMA_NUMBER) != SCHEMA_NUMBER:
        raise DocumentError(
            f"{name} is of schema {document['schema']!r}; this version of pytest-affine reads "
            f"schema {SCHEMA_NUMBER}"
        )
    check_shape(document, schema(), name)
    content = {key: value for key, value in document.items() if key != "digest"}
    if (digest := digest_of(content)) != document["digest"]:
        raise DocumentError(
            f"{name} was edited: its content has the digest {digest}, and it says "
            f"{document['digest']}; certify again instead"
        )
    return Certificate(
        pytest_affine=document["pytest_affine"],
        suite=document["suite"],
        subject=Subject.from_dict(document["implementation"]),
        runs=tuple(map(Run.from_dict, document["runs"])),
    )


def check_trust(
    certificate: Certificate,
    text: str,
    name: str,
    *,
    suite: str,
    planned: Mapping[str, Sequence[str]],
) -> None:
    """Check a certificate against the suite that is installed, and against itself.

    Args:
        certificate: what was read.
        text: what it was read from.
        name: how messages name it.
        suite: digest of the installed suite.
        planned: by requirement, the names of its cases.

    Raises:
        DocumentError: another suite, other cases than the suite plans, or a verdict, shares or
            anything else that the records do not give.
    """
    if certificate.suite != suite:
        raise DocumentError(
            f"{name} is of another suite than the one that is installed ({certificate.suite}, "
            f"{suite}); verify it with the pytest-affine that it was made with, "
            f"{certificate.pytest_affine}, or certify again"
        )
    for index, run in enumerate(certificate.runs):
        _check_planned(run, f"{name}.runs[{index}]", planned)
    document, again = json.loads(text), to_document(certificate)
    for place, stated, judged in _stated(document, again):
        if stated != judged:
            raise DocumentError(
                f"{name}{place} is {shown(stated)}, and its records give {shown(judged)}; "
                "certify again instead"
            )


def _check_planned(run: Run, where: str, planned: Mapping[str, Sequence[str]]) -> None:
    if unknown := sorted(run.planned.keys() ^ planned.keys()):
        raise DocumentError(f"{where}.requirements lacks or adds {', '.join(unknown)}")
    if run.case is not None:
        return
    for id_, cases in planned.items():
        if different := sorted({*cases} ^ {*run.planned[id_]}):
            raise DocumentError(
                f"{where}.requirements.{id_} lacks or adds {len(different)} of the suite's "
                f"{len(cases)} cases, such as {different[0]!r}"
            )


def _stated(document: Any, again: Any) -> list[tuple[str, Any, Any]]:
    """(place, what a document states, what its records give) of all that follows from them."""
    found = [(f".{key}", document[key], again[key]) for key in ("verdict", "untested")]
    for index, (run, judged) in enumerate(zip(document["runs"], again["runs"], strict=True)):
        for key in ("verdicts", "not_covered"):
            found.append((f".runs[{index}].{key}", run[key], judged[key]))
    return found
