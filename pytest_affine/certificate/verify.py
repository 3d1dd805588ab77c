"""Verifying a certificate offline: what it is worth, for whoever was handed the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from pytest_affine.certificate.baseline import Change, compare
from pytest_affine.certificate.document import check_trust, read_certificate
from pytest_affine.certificate.policy import Policy, is_accepted, shortfalls
from pytest_affine.certificate.record import Certificate, Run
from pytest_affine.certificate.shape import DocumentError
from pytest_affine.certificate.verdicts import WORDS, not_covered, run_verdicts, worst_word
from pytest_affine.contract.manifest import UPCOMING
from pytest_affine.contract.verdict import Verdict
from pytest_affine.summary import share_text

__all__ = ["Suite", "Verification", "read_trusted", "report_lines", "verify"]


@dataclass(frozen=True, slots=True)
class Suite:
    """The suite that is installed: its digest, and by requirement the names of its cases."""

    digest: str
    planned: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What became of a certificate.

    Attributes:
        certificate: what was read.
        verdicts: by run, the verdict of each profile as of today.
        word: the worst of them.
        is_accepted: whether every verdict is conformant, or waived where the policy accepts that.
        shortfalls: what the policy demands beside the verdict, and is not there.
        changes: what is better or worse than the baseline.
    """

    certificate: Certificate
    verdicts: tuple[tuple[Run, tuple[Verdict, ...]], ...]
    word: str
    is_accepted: bool
    shortfalls: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def is_good(self) -> bool:
        """Whether all that was asked for is so."""
        is_worse = any(change.is_worse for change in self.changes)
        return self.is_accepted and not self.shortfalls and not is_worse


def read_trusted(text: str, name: str, suite: Suite) -> Certificate:
    """Read a certificate, and check it against the suite and against its own records.

    Raises:
        DocumentError: it can't be read, or must not be trusted.
    """
    certificate = read_certificate(text, name)
    check_trust(certificate, text, name, suite=suite.digest, planned=suite.planned)
    return certificate


def verify(
    certificate: Certificate,
    *,
    day: date,
    policy: Policy | None = None,
    baseline: Certificate | None = None,
) -> Verification:
    """Judge a certificate's records, as of `day`, and by a policy and against a baseline if given.

    Raises:
        DocumentError: the baseline is of another implementation, or a run is of a later day.
    """
    for run in certificate.runs:
        if run.date > day:
            raise DocumentError(f"a run is of {run.date}, which is after today, {day}")
    if baseline is not None and baseline.subject.name != certificate.subject.name:
        raise DocumentError(
            f"the baseline is of {baseline.subject.name!r}, and the certificate of "
            f"{certificate.subject.name!r}"
        )
    policy = policy or Policy()
    verdicts = tuple((run, run_verdicts(run, day)) for run in certificate.runs)
    return Verification(
        certificate=certificate,
        verdicts=verdicts,
        word=worst_word(verdict for _, found in verdicts for verdict in found),
        is_accepted=is_accepted(certificate, policy, day),
        shortfalls=tuple(shortfalls(certificate, policy, day)),
        changes=tuple(compare(baseline, certificate)) if baseline else (),
    )


def report_lines(found: Verification) -> Iterator[str]:
    """What a person reads: verdict, reasons, what was not covered, policy, baseline."""
    subject = found.certificate.subject
    behind = subject.distribution
    yield (
        f"{subject.name} {subject.version}"
        + (f", {behind.name} {behind.version}" if behind else "")
        + f", judged by pytest-affine {found.certificate.pytest_affine}"
    )
    for run, verdicts in found.verdicts:
        yield from _run_lines(run, verdicts)
    for profile, ids in UPCOMING.items():
        yield f"no test yet: profile {profile} ({', '.join(ids)})"
    yield from (f"policy: {text}" for text in found.shortfalls)
    for change in found.changes:
        yield f"baseline: {'worse' if change.is_worse else 'better'}: {change.text}"
    accepted = " (accepted: only what is waived keeps it from being conformant)"
    yield f"{found.word.upper()}{accepted if found.is_accepted and found.word != WORDS[-1] else ''}"


def _run_lines(run: Run, verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield ""
    yield (
        f"{run.title} ({', '.join(run.devices)}), torch {run.versions['torch']}, {run.date}, "
        f"{run.num_examples} examples, seed {run.seed}"
    )
    for verdict in verdicts:
        yield f"  profile {verdict.profile}: {verdict.word.upper()}"
        yield f"    {share_text(verdict)}"
        yield from (f"    {reason}" for reason in verdict.reasons)
    yield "  not covered:"
    yield from (f"    {line}" for line in not_covered(run))
