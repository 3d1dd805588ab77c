"""From records to a verdict: a pure function, the same for a session and for a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_affine.contract.implementation import Claims
from pytest_affine.contract.manifest import Requirement, unclaimed
from pytest_affine.contract.outcomes import Outcome, Record

__all__ = [
    "WORST_FIRST",
    "Fault",
    "Judgement",
    "Verdict",
    "Waived",
    "faults_of",
    "judge",
    "judge_each",
    "outcome_of",
]

Waived = Callable[[str, str], str]
"""Says of a requirement and a case how it is waived, and "" where it is not."""

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
        counts[Outcome.NOT_RUN] += self.num_planned - len(self.records)
        return _in_order(counts)

    @property
    def num_examples(self) -> int:
        """How many inputs stand behind the outcome."""
        return sum(record.num_examples for record in self.records)


def _in_order(counts: Mapping[Outcome, int]) -> dict[Outcome, int]:
    return {outcome: counts[outcome] for outcome in Outcome if counts[outcome]}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a MUST does not hold, or why nobody can say that it does.

    Attributes:
        text: what a person reads.
        breaks: it does not hold.
        cases: those that show it; empty where it is not about cases that ran.
    """

    text: str
    breaks: bool
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one profile: its word, why, and the judgements behind it.

    `only_waived`: nothing keeps it from being conformant but what is waived.
    """

    profile: str
    word: str
    reasons: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    only_waived: bool = False

    def shares(self) -> dict[Outcome, int]:
        """How many cases of the profile ended in each outcome."""
        counts: Counter[Outcome] = Counter()
        for judgement in self.judgements:
            counts.update(judgement.shares())
        return _in_order(counts)


def judge(
    requirements: Iterable[Requirement],
    planned: Mapping[str, Sequence[str]],
    records: Iterable[Record],
    claims: Claims,
    *,
    num_deselected: int = 0,
    gaps: Sequence[str] = (),
    waived: Waived = lambda requirement, case: "",
) -> tuple[Verdict, ...]:
    """Judge every profile.

    Args:
        requirements: the rows of the manifest that are judged.
        planned: by requirement, the names of its cases.
        records: what became of them, in any order; of several for one case the worst counts.
        claims: what the implementation claims.
        num_deselected: how many tests of the suite were deselected, of whatever profile.
        gaps: what else keeps every profile from being conformant.
        waived: what is known not to hold; it leaves a verdict partial at best.
    """
    judgements = judge_each(requirements, planned, records, claims)
    if num_deselected:
        gaps = (f"{num_deselected} tests of the suite were deselected", *gaps)
    faults = [
        (judgement, fault, _waiver_of(judgement, fault, judgements, waived))
        for judgement in judgements
        for fault in faults_of(judgement)
    ]
    profiles = _profiles(judgements, num_deselected)
    return tuple(_verdict(profile, judgements, faults, gaps) for profile in profiles)


def judge_each(
    requirements: Iterable[Requirement],
    planned: Mapping[str, Sequence[str]],
    records: Iterable[Record],
    claims: Claims,
) -> tuple[Judgement, ...]:
    """Judge every requirement; the arguments are those of `judge`."""
    worst: dict[tuple[str, str], Record] = {}
    for record in sorted(records, key=lambda record: WORST_FIRST.index(record.outcome)):
        worst.setdefault((record.requirement, record.case), record)
    return _block(_judge_one(row, planned.get(row.id, ()), worst, claims) for row in requirements)


def _profiles(judgements: Iterable[Judgement], num_deselected: int) -> list[str]:
    """The profiles that take part; the first if none does, so that there is a verdict.

    One takes part if anything of it is claimed, and not all of that was left out of the session.
    """
    part: dict[str, bool] = {}
    for judgement in judgements:
        there = judgement.records or (judgement.num_planned and not num_deselected)
        takes_part = bool(there) and judgement.outcome is not Outcome.NOT_CLAIMED
        profile = judgement.requirement.profile
        part[profile] = part.get(profile, False) or takes_part
    return [profile for profile, takes_part in part.items() if takes_part] or [*part][:1]


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
BROKEN = (*FAILED, Outcome.BLOCKED)


def _verdict(
    profile: str,
    judgements: Sequence[Judgement],
    faults: Iterable[tuple[Judgement, Fault, str]],
    gaps: Sequence[str],
) -> Verdict:
    mine = tuple(j for j in judgements if j.requirement.profile == profile)
    judged = (Outcome.CONFORMANT, *FAILED)
    if not any(record.outcome in judged for j in mine for record in j.records):
        why = f": {'; '.join(gaps)}" if gaps else ""
        return Verdict(profile, "error", (f"nothing was judged{why}",), mine)
    mine_faults = [(fault, how) for j, fault, how in faults if j.requirement.profile == profile]
    waived = [f"{fault.text}: {how}" for fault, how in mine_faults if how]
    if broken := [fault.text for fault, how in mine_faults if fault.breaks and not how]:
        return Verdict(profile, "violated", (*broken, *waived), mine)
    gaps = [*(fault.text for fault, how in mine_faults if not how), *gaps]
    word = "partial" if gaps or waived else "conformant"
    reasons = (*gaps, *waived, *_out_of_sight(j for j in mine if j.requirement.must))
    return Verdict(profile, word, reasons, mine, only_waived=bool(waived and not gaps))


def _out_of_sight(judgements: Iterable[Judgement]) -> list[str]:
    """What left no trace to judge by; the verdict stands, and says so."""
    unseen = [j.requirement.id for j in judgements if Outcome.NOT_OBSERVABLE in j.shares()]
    return [f"wire not observed: {', '.join(unseen)}"] if unseen else []


def faults_of(judgement: Judgement) -> tuple[Fault, ...]:
    """What keeps a MUST from being conformant; nothing for a SHOULD and for what is not claimed."""
    if not judgement.requirement.must or judgement.outcome is Outcome.NOT_CLAIMED:
        return ()
    return (*_broken(judgement), *_gaps(judgement), *_core_gaps(judgement))


def _broken(judgement: Judgement) -> Iterator[Fault]:
    if judgement.outcome in BROKEN:
        cases = tuple(r.case for r in judgement.records if r.outcome in BROKEN)
        yield Fault(f"{judgement.requirement.id} is {judgement.outcome.value}", True, cases)


def _gaps(judgement: Judgement) -> Iterator[Fault]:
    """Why a claimed MUST is not wholly judged."""
    name, shares = judgement.requirement.id, judgement.shares()
    accounted = (Outcome.CONFORMANT, Outcome.NOT_RUN, Outcome.NOT_OBSERVABLE, *BROKEN)
    if not any(outcome in shares for outcome in accounted):
        cases = tuple(record.case for record in judgement.records)
        yield Fault(f"{name} was judged in no case", False, cases)
    elif not_run := shares.get(Outcome.NOT_RUN, 0):
        text = f"{name}: {not_run} of {judgement.num_planned} cases were not run"
        cases = tuple(r.case for r in judgement.records if r.outcome is Outcome.NOT_RUN)
        yield Fault(text, False, cases if len(cases) == not_run else ())


def _core_gaps(judgement: Judgement) -> Iterator[Fault]:
    """Core cases that were refused, and core shapes that were withheld in both bindings."""
    name, core = judgement.requirement.id, [r for r in judgement.records if r.core]
    for record in core:
        if record.outcome is Outcome.REFUSED:
            yield Fault(f"{name} refused core case {record.case}", False, (record.case,))
    for shape in dict.fromkeys(record.core for record in core):
        held = [record for record in core if record.core == shape]
        if {record.outcome for record in held} == {Outcome.WITHHELD}:
            text = f"{name}: core case {shape!r} was withheld in both bindings"
            yield Fault(text, False, tuple(record.case for record in held))


def _waiver_of(
    judgement: Judgement, fault: Fault, judgements: Iterable[Judgement], waived: Waived
) -> str:
    """How a fault is waived: in all its cases, or with all that it is blocked by."""
    if fault.breaks and not fault.cases:
        needs = judgement.requirement.needs
        spoilers = [j for j in judgements if j.requirement.id in needs and j.outcome in FAILED]
        hows = [_waiver_of(j, f, (), waived) for j in spoilers for f in _broken(j)]
        named = ", ".join(j.requirement.id for j in spoilers)
        return f"waived with {named}" if all(hows) else ""
    hows = [waived(judgement.requirement.id, case) for case in fault.cases]
    return hows[0] if hows and all(hows) else ""
