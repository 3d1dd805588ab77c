"""From what became of each mutant to the gate's verdict: pure functions of a list."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pytest_affine.contract.outcomes import Outcome
from pytest_affine.mutants.mutant import Mutant

__all__ = ["Bucket", "GateResult", "MutantResult", "judge_gate", "judge_results", "settled"]


class Bucket(enum.Enum):
    """What became of a mutant."""

    KILLED = "killed as intended"
    BY_ANOTHER = "killed by another"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    NOT_EQUIVALENT = "not equivalent"
    BROKEN = "broken"
    TIMED_OUT = "timed out"
    NOT_APPLICABLE = "not applicable"
    NOT_JUDGED = "not judged"
    NOT_RUN = "not run"


WRONG = (
    Bucket.BY_ANOTHER,
    Bucket.SURVIVED,
    Bucket.NOT_EQUIVALENT,
    Bucket.BROKEN,
    Bucket.TIMED_OUT,
)
"""Buckets that fail the gate."""

OPEN = (Bucket.NOT_JUDGED, Bucket.NOT_RUN)
"""Buckets that leave it open whether the gate would pass."""


NUMBERS = ("LOAD-BALANCE",)
"""Requirements that only show a number, so that no mutant can violate them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantResult:
    """What became of one mutant.

    Attributes:
        id: the mutant's.
        requirement: the one whose tests must notice it.
        origin: where the fault is from.
        sentence: what it gets wrong.
        bucket: what became of it.
        killed_by: the requirement that a test found violated, if one did.
        case: the name under which that case is recorded.
        reason: what the test said, or why there is no kill.
    """

    id: str
    requirement: str
    origin: str
    sentence: str
    bucket: Bucket
    killed_by: str = ""
    case: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready values."""
        return {**asdict(self), "bucket": self.bucket.value}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> MutantResult:
        """Read what `to_dict` writes."""
        return cls(**{**entry, "bucket": Bucket(entry["bucket"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The mutants, and the verdict on the suite that ran against them.

    Attributes:
        mutants: one result each, in the order of the catalogue.
        requirements_without_mutant: claimed requirements that no mutant can be laid over.
        verdict: "passed"; "failed"; or "partial" where nothing was wrong, and not all was judged.
        problems: why the verdict is not "passed".
    """

    mutants: tuple[MutantResult, ...]
    requirements_without_mutant: tuple[str, ...]
    verdict: str
    problems: tuple[str, ...]

    @property
    def counts(self) -> dict[Bucket, int]:
        """How many mutants are in each bucket that has any, in the order of buckets."""
        counted = Counter(result.bucket for result in self.mutants)
        return {bucket: counted[bucket] for bucket in Bucket if bucket in counted}

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready values."""
        return {
            "mutants": [result.to_dict() for result in self.mutants],
            "requirements_without_mutant": [*self.requirements_without_mutant],
            "verdict": self.verdict,
            "problems": [*self.problems],
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> GateResult:
        """Read what `to_dict` writes, as it stands; `judge_results` judges its mutants anew."""
        return cls(
            mutants=tuple(map(MutantResult.from_dict, entry["mutants"])),
            requirements_without_mutant=tuple(entry["requirements_without_mutant"]),
            verdict=entry["verdict"],
            problems=tuple(entry["problems"]),
        )


def judge_gate(
    results: Iterable[MutantResult],
    mutants: Sequence[Mutant],
    claimed: Iterable[str],
    control: Mapping[tuple[str, str], Outcome],
    *,
    needs_all: bool,
) -> GateResult:
    """Judge a session.

    Args:
        results: what its items found, in any order.
        mutants: every mutant that there is.
        claimed: ids of the requirements that the implementation is judged by.
        control: by requirement and case, the outcome without any mutant.
        needs_all: whether a claimed requirement that no mutant is for fails the gate.
    """
    return judge_results(settled(results, mutants, control), claimed, needs_all=needs_all)


def settled(
    results: Iterable[MutantResult],
    mutants: Sequence[Mutant],
    control: Mapping[tuple[str, str], Outcome],
) -> tuple[MutantResult, ...]:
    """One result for each mutant, in their order; a kill counts only where the control is right."""
    found = {result.id: result for result in results}
    return tuple(
        _against_control(found[mutant.id], control) if mutant.id in found else result_of(mutant)
        for mutant in mutants
    )


def result_of(mutant: Mutant, bucket: Bucket = Bucket.NOT_RUN, **more: str) -> MutantResult:
    """The result of a mutant."""
    return MutantResult(
        id=mutant.id,
        requirement=mutant.requirement,
        origin=mutant.origin,
        sentence=mutant.sentence,
        bucket=bucket,
        **more,
    )


def _against_control(
    result: MutantResult, control: Mapping[tuple[str, str], Outcome]
) -> MutantResult:
    outcome = control.get((result.killed_by, result.case), Outcome.NOT_RUN)
    if result.bucket is not Bucket.KILLED or outcome is Outcome.CONFORMANT:
        return result
    reason = f"{outcome.value} without the mutant too"
    if outcome is Outcome.NOT_RUN:
        reason = "this case was not run without the mutant"
    return replace(result, bucket=Bucket.NOT_JUDGED, reason=reason)


def judge_results(
    results: Sequence[MutantResult], claimed: Iterable[str], *, needs_all: bool
) -> GateResult:
    """Judge a list of results; the arguments are those of `judge_gate`."""
    problems, gaps = _wrong(results), _open(results)
    without: list[str] = []
    unsettled: list[str] = []
    killers = {result.killed_by for result in results if result.bucket is Bucket.KILLED}
    for id_ in (id_ for id_ in claimed if id_ not in killers and id_ not in NUMBERS):
        buckets = {result.bucket for result in results if result.requirement == id_}
        if buckets <= {Bucket.NOT_APPLICABLE}:
            without.append(id_)
        elif buckets.intersection(OPEN):
            unsettled.append(id_)
        else:
            problems.append(f"{id_}: no mutant was killed")
    if unsettled:
        gaps.append(f"no mutant was judged to the end for {', '.join(unsettled)}")
    if needs_all and without:
        problems.append(f"no mutant is for {', '.join(without)}")
    return GateResult(
        mutants=tuple(results),
        requirements_without_mutant=tuple(without),
        verdict="failed" if problems else "partial" if gaps else "passed",
        problems=(*problems, *gaps),
    )


def _wrong(results: Sequence[MutantResult]) -> list[str]:
    unrun = (Bucket.NOT_RUN, Bucket.NOT_APPLICABLE)
    if all(result.bucket in unrun for result in results):
        return ["no mutant was run"]
    return [
        f"{result.id}: {result.bucket.value}{f': {result.reason}' * bool(result.reason)}"
        for result in results
        if result.bucket in WRONG
    ]


def _open(results: Sequence[MutantResult]) -> list[str]:
    counted = Counter(result.bucket for result in results)
    return [
        f"{counted[bucket]} of {len(results)} mutants were {bucket.value}"
        for bucket in OPEN
        if bucket in counted
    ]
