"""From records to a verdict: a pure function, the same for a session and for a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_affine.contract.implementation import Claims
from pytest_affine.contract.manifest import Requirement, unclaimed
from pytest_affine.contract.outcomes import Outcome, Record

__all__ = ["Judgement", "Verdict", "judge", "outcome_of"]

WORST_FIRST = (
    Outcome.VIOLATED,
    Outcome.ADAPTER_ERROR,
    Outcome.BLOCKED,
    Outcome.NOT_RUN,
    Outcome.CONFORMANT,
    Outcome.NOT_OBSERVABLE,
    Outcome.REFUSED,
    Outcome.WITHHELD,
    Outcome.NOT_CLAIMED,
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One requirement in all its cases.

    Attributes:
        requirement: which.
        outcome: its worst outcome; conformant if some cases are and the others were refused or
            withheld, which the shares show.
        records: one per case.
        num_planned: how many cases it has; more than the records where some did not run.
    """

    requirement: Requirement
    outcome: Outcome
    records: tuple[Record, ...]
    num_planned: int

    def shares(self) -> dict[Outcome, int]:
        """How many cases ended in each outcome, those that did not run included."""
        counts = Counter(record.outcome for record in self.records)
        if missing := self.num_planned - len(self.records):
            counts[Outcome.NOT_RUN] += missing
        return dict(counts)

    @property
    def num_examples(self) -> int:
        """How many inputs stand behind the outcome."""
        return sum(record.num_examples for record in self.records)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one profile: its word, why, and the judgements behind it."""

    profile: str
    word: str
    reasons: tuple[str, ...]
    judgements: tuple[Judgement, ...]

    def shares(self) -> dict[Outcome, int]:
        """How many cases of the profile ended in each outcome."""
        counts: Counter[Outcome] = Counter()
        for judgement in self.judgements:
            counts.update(judgement.shares())
        return dict(counts)


def judge(
    requirements: Iterable[Requirement],
    planned: Mapping[str, Sequence[str]],
    records: Iterable[Record],
    claims: Claims,
    *,
    num_deselected: int = 0,
) -> tuple[Verdict, ...]:
    """Judge every profile.

    Args:
        requirements: the rows of the manifest that are judged.
        planned: by requirement, the names of its cases.
        records: what became of them, in any order; of several for one case the worst counts.
        claims: what the implementation claims.
        num_deselected: how many tests of the suite were deselected, of whatever profile.
    """
    requirements = tuple(requirements)
    worst: dict[tuple[str, str], Record] = {}
    for record in sorted(records, key=lambda record: WORST_FIRST.index(record.outcome)):
        worst.setdefault((record.requirement, record.case), record)
    judgements = _block(
        _judge_one(row, planned.get(row.id, ()), worst, claims) for row in requirements
    )
    profiles = dict.fromkeys(row.profile for row in requirements)
    return tuple(_verdict(profile, judgements, num_deselected) for profile in profiles)


def _judge_one(
    row: Requirement,
    cases: Sequence[str],
    worst: Mapping[tuple[str, str], Record],
    claims: Claims,
) -> Judgement:
    found = tuple(worst[row.id, case] for case in cases if (row.id, case) in worst)
    if missing := unclaimed(row.methods, claims):
        reason = ", ".join(missing)
        found = tuple(
            Record(requirement=row.id, case=case, outcome=Outcome.NOT_CLAIMED, reason=reason)
            for case in cases
        )
    return Judgement(row, outcome_of(found, len(cases)), found, len(cases))


def outcome_of(records: Sequence[Record], num_planned: int) -> Outcome:
    """The outcome of a requirement: the worst of its cases, missing ones counting as not run."""
    outcomes = {record.outcome for record in records}
    if len(records) < num_planned or not outcomes:
        outcomes.add(Outcome.NOT_RUN)
    return next(outcome for outcome in WORST_FIRST if outcome in outcomes)


def _block(judgements: Iterable[Judgement]) -> tuple[Judgement, ...]:
    """What was found conformant on evidence that a violated requirement spoils is blocked."""
    judged = tuple(judgements)
    bad = {j.requirement.id for j in judged if j.outcome in FAILED}
    return tuple(
        Judgement(j.requirement, Outcome.BLOCKED, j.records, j.num_planned)
        if j.outcome is Outcome.CONFORMANT and bad.intersection(j.requirement.needs)
        else j
        for j in judged
    )


FAILED = (Outcome.VIOLATED, Outcome.ADAPTER_ERROR)


def _verdict(profile: str, judgements: Sequence[Judgement], num_deselected: int) -> Verdict:
    mine = tuple(j for j in judgements if j.requirement.profile == profile)
    musts = [j for j in mine if j.requirement.must]
    judged = (Outcome.CONFORMANT, *FAILED)
    if not any(record.outcome in judged for j in mine for record in j.records):
        why = f": {num_deselected} tests of the suite were deselected" if num_deselected else ""
        return Verdict(profile, "error", (f"nothing was judged{why}",), mine)
    broken = [_named(j) for j in musts if j.outcome in (*FAILED, Outcome.BLOCKED)]
    if broken:
        return Verdict(profile, "violated", tuple(broken), mine)
    gaps = [gap for j in musts if j.outcome is not Outcome.NOT_CLAIMED for gap in _gaps(j)]
    gaps += _core_gaps(musts)
    gaps += [f"{num_deselected} tests of the suite were deselected"] if num_deselected else []
    word = "partial" if gaps else "conformant"
    return Verdict(profile, word, (*gaps, *_out_of_sight(musts)), mine)


def _out_of_sight(judgements: Iterable[Judgement]) -> list[str]:
    """What left no trace to judge by; the verdict stands, and says so."""
    unseen = [j.requirement.id for j in judgements if Outcome.NOT_OBSERVABLE in j.shares()]
    return [f"wire not observed: {', '.join(unseen)}"] if unseen else []


def _named(judgement: Judgement) -> str:
    return f"{judgement.requirement.id} is {judgement.outcome.value}"


def _gaps(judgement: Judgement) -> list[str]:
    """Why a claimed MUST is not wholly judged."""
    name, shares = judgement.requirement.id, judgement.shares()
    accounted = (Outcome.CONFORMANT, Outcome.NOT_RUN, Outcome.NOT_OBSERVABLE)
    if not any(outcome in shares for outcome in accounted):
        return [f"{name} was judged in no case"]
    if not_run := shares.get(Outcome.NOT_RUN, 0):
        return [f"{name}: {not_run} of {judgement.num_planned} cases were not run"]
    return []


def _core_gaps(judgements: Iterable[Judgement]) -> list[str]:
    """Core cases that were refused, and core shapes that were withheld in both bindings."""
    gaps = []
    for judgement in judgements:
        name, core = judgement.requirement.id, [r for r in judgement.records if r.core]
        gaps += [f"{name} refused core case {r.case}" for r in core if r.outcome is Outcome.REFUSED]
        for shape in dict.fromkeys(record.core for record in core):
            outcomes = {record.outcome for record in core if record.core == shape}
            if outcomes == {Outcome.WITHHELD}:
                gaps.append(f"{name}: core case {shape!r} was withheld in both bindings")
    return gaps
