"""A policy: what a project demands of a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from pytest_affine.certificate.files import read_toml
from pytest_affine.certificate.patterns import matches
from pytest_affine.certificate.record import Certificate, Run
from pytest_affine.certificate.shape import DocumentError, check_shape
from pytest_affine.certificate.verdicts import claimed_ids, run_judgements, run_verdicts
from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.contract.outcomes import Outcome

__all__ = ["Policy", "is_accepted", "read_policy", "shortfalls"]

VERSIONED = ("distribution", "implementation", "pytest", "pytest_affine", "python", "torch")
"""What a policy can say versions of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is demanded; a key that is left out demands nothing.

    Attributes:
        accept_waived: a verdict that only waivers keep from being conformant is accepted.
        runs: backends and numbers of ranks, of each of which there must be a run.
        requirements: ids, `*` standing for anything, that must be conformant in every run.
        gate: some run has passed the mutation gate.
        min_examples: least number of cases that each property test drew, in every run.
        max_refused: greatest share of cases of claimed requirements that were refused, in any run.
        max_withheld: the same of withheld ones.
        max_age_days: days since the oldest run.
        versions: by name, a version specifier such as ">=2.6,<3".
    """

    accept_waived: bool = False
    runs: tuple[tuple[str, int], ...] = ()
    requirements: tuple[str, ...] = ()
    gate: bool = False
    min_examples: int = 0
    max_refused: float = 1.0
    max_withheld: float = 1.0
    max_age_days: int | None = None
    versions: Mapping[str, SpecifierSet] = field(default_factory=dict)


TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 1}
SHARE = {"type": ["number", "integer"], "minimum": 0, "maximum": 1}
RUN = {
    "type": "object",
    "additionalProperties": False,
    "required": ["backend", "ranks"],
    "properties": {"backend": TEXT, "ranks": COUNT},
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "accept_waived": {"type": "boolean"},
        "runs": {"type": "array", "minItems": 1, "items": RUN},
        "requirements": {"type": "array", "items": TEXT},
        "gate": {"type": "boolean"},
        "min_examples": COUNT,
        "max_refused": SHARE,
        "max_withheld": SHARE,
        "max_age_days": {"type": "integer", "minimum": 0},
        "versions": {
            "type": "object",
            "additionalProperties": False,
            "properties": dict.fromkeys(VERSIONED, TEXT),
        },
    },
}


def read_policy(path: Path) -> Policy:
    """Read a policy.

    Raises:
        DocumentError: names the file, the key, the rule and the choices.
    """
    entry, name = read_toml(path), path.name
    check_shape(entry, SCHEMA, name)
    patterns = entry.get("requirements", [])
    return Policy(
        **{
            **entry,
            "runs": tuple((run["backend"], run["ranks"]) for run in entry.get("runs", [])),
            "requirements": tuple(dict.fromkeys(_ids(patterns, f"{name}.requirements"))),
            "versions": {
                key: _specifier(text, f"{name}.versions.{key}")
                for key, text in entry.get("versions", {}).items()
            },
        }
    )


def _ids(patterns: Sequence[str], where: str) -> Iterator[str]:
    for index, pattern in enumerate(patterns):
        matched = [id_ for id_ in REQUIREMENTS if matches(pattern, id_)]
        if not matched:
            raise DocumentError(
                f"{where}[{index}] is {pattern!r}, which is no requirement; there are "
                f"{', '.join(REQUIREMENTS)}"
            )
        yield from matched


def _specifier(text: str, where: str) -> SpecifierSet:
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        raise DocumentError(
            f"{where} must be a version specifier, such as '>=2.6,<3', got {text!r}"
        ) from None


def is_accepted(certificate: Certificate, policy: Policy, day: date) -> bool:
    """Whether every verdict is conformant, or waived where the policy accepts that."""
    verdicts = [verdict for run in certificate.runs for verdict in run_verdicts(run, day)]
    return all(
        verdict.word == "conformant" or (policy.accept_waived and verdict.only_waived)
        for verdict in verdicts
    )


def shortfalls(certificate: Certificate, policy: Policy, day: date) -> Iterator[str]:
    """What a policy demands and a certificate lacks, apart from its verdict."""
    present = {(run.backend, run.num_ranks) for run in certificate.runs}
    for backend, num_ranks in policy.runs:
        if (backend, num_ranks) not in present:
            yield f"there is no run on {backend} with {num_ranks} ranks"
    if policy.gate and not any(_passed_gate(run) for run in certificate.runs):
        yield "no run has passed the mutation gate (--affine-mutants)"
    for run in certificate.runs:
        yield from (f"{run.title}: {text}" for text in _of_run(run, policy, day))
        yield from (f"{run.title}: {text}" for text in _of_versions(certificate, run, policy))


def _passed_gate(run: Run) -> bool:
    return run.gate is not None and run.gate["verdict"] == "passed"


def _of_run(run: Run, policy: Policy, day: date) -> Iterator[str]:
    judgements = run_judgements(run)
    for id_ in policy.requirements:
        if (outcome := judgements[id_].outcome) is not Outcome.CONFORMANT:
            yield f"{id_} must be conformant, and is {outcome.value}"
    if run.num_examples < policy.min_examples:
        yield f"{run.num_examples} examples were drawn; {policy.min_examples} are wanted"
    limits = ((Outcome.REFUSED, policy.max_refused), (Outcome.WITHHELD, policy.max_withheld))
    for outcome, limit in limits:
        if (share := share_of(run, outcome)) > limit:
            yield f"{share:.1%} of the claimed cases were {outcome.value}; at most {limit:.1%} may"
    age = (day - run.date).days
    if policy.max_age_days is not None and age > policy.max_age_days:
        yield f"it is {age} days old; {policy.max_age_days} are allowed"


def share_of(run: Run, outcome: Outcome) -> float:
    """The share of an outcome among the cases of claimed requirements."""
    claimed = claimed_ids(run)
    total = sum(len(run.planned[id_]) for id_ in claimed)
    found = sum(r.outcome is outcome and r.requirement in claimed for r in run.records)
    return found / total if total else 0.0


def _of_versions(certificate: Certificate, run: Run, policy: Policy) -> Iterator[str]:
    behind = certificate.subject.distribution
    present = {
        **run.versions,
        "pytest_affine": certificate.pytest_affine,
        "implementation": certificate.subject.version,
        "distribution": behind.version if behind else "",
    }
    for name, specifier in policy.versions.items():
        if not _contains(specifier, present[name]):
            yield f"{name} is {present[name] or 'absent'}, and must be {specifier}"


def _contains(specifier: SpecifierSet, version: str) -> bool:
    try:
        return specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False
