"""From the runs of a certificate to verdicts: pure functions, for a session and for a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date

from pytest_affine.certificate.record import Run
from pytest_affine.certificate.waivers import waived_by, waiver_problems
from pytest_affine.contract.manifest import REQUIREMENTS, Requirement, unclaimed
from pytest_affine.contract.outcomes import Outcome, Record
from pytest_affine.contract.verdict import Judgement, Verdict, judge, judge_each
from pytest_affine.mutants.gate import Bucket, GateResult, judge_results

__all__ = [
    "WORDS",
    "claimed_ids",
    "not_covered",
    "run_judgements",
    "run_verdicts",
    "waiver_troubles",
    "worst_word",
]

WORDS = ("error", "violated", "partial", "conformant")
"""Words of verdicts, worst first."""


def worst_word(verdicts: Iterable[Verdict]) -> str:
    """The word of the worst of some verdicts; "error" where there is none."""
    words = {verdict.word for verdict in verdicts}
    return next((word for word in WORDS if word in words), "error")


def run_verdicts(run: Run, day: date | None = None) -> tuple[Verdict, ...]:
    """The verdict of each profile, from the records of a run.

    `day`: when it is judged, for what expires; the day of the run if None.
    """
    day = run.date if day is None else day
    gaps = (*run.incomplete, *_choice(run), *waiver_troubles(run, day), *_gate_gaps(run))
    return judge(
        _rows(run),
        run.planned,
        run.records,
        run.claims,
        num_deselected=run.num_deselected,
        gaps=gaps,
        waived=waived_by(run.waivers, day),
    )


def _rows(run: Run) -> list[Requirement]:
    """The requirements that the run's suite had; another suite may have had fewer."""
    return [row for row in REQUIREMENTS.values() if row.id in run.planned]


def run_judgements(run: Run) -> dict[str, Judgement]:
    """By requirement, in the order of the manifest, what all its cases come to."""
    judgements = judge_each(_rows(run), run.planned, run.records, run.claims)
    return {judgement.requirement.id: judgement for judgement in judgements}


def _choice(run: Run) -> tuple[str, ...]:
    return () if run.case is None else (f"one case was judged, {run.case}",)


def waiver_troubles(run: Run, day: date) -> tuple[str, ...]:
    """What is wrong with the waivers of a run; nothing can be told where one case was chosen."""
    if run.case is not None or not run.waivers:
        return ()
    return tuple(waiver_problems(run.waivers, run_judgements(run), run.planned, day))


def claimed_ids(run: Run) -> list[str]:
    """The requirements whose methods are claimed."""
    return [row.id for row in _rows(run) if not unclaimed(row.methods, run.claims)]


def _gate_gaps(run: Run) -> list[str]:
    """Why the mutants leave it open whether the suite would notice a fault.

    They are judged anew; what is stored may only add to it.
    """
    if run.gate is None:
        return []
    stored = GateResult.from_dict(run.gate)
    judged = judge_results(stored.mutants, claimed_ids(run), needs_all=False)
    problems = [*judged.problems, *_kills_without_control(run, stored)]
    if stored.verdict != "passed":
        problems += stored.problems or [stored.verdict]
    return [f"gate: {problem}" for problem in dict.fromkeys(problems)]


def _kills_without_control(run: Run, gate: GateResult) -> Iterator[str]:
    """A kill counts only where the same case is conformant without the mutant."""
    right = {(r.requirement, r.case) for r in run.records if r.outcome is Outcome.CONFORMANT}
    for mutant in gate.mutants:
        if mutant.bucket is Bucket.KILLED and (mutant.killed_by, mutant.case) not in right:
            yield (
                f"{mutant.id}: {mutant.killed_by} in {mutant.case!r} is not conformant without it"
            )


def not_covered(run: Run) -> tuple[str, ...]:
    """What a run says nothing about, as lines for a person."""
    return (
        *(f"not claimed: {line}" for line in _unclaimed(run)),
        *_counted(run, Outcome.REFUSED, "refused by the implementation"),
        *_counted(run, Outcome.WITHHELD, "withheld by the adapter"),
        *_counted(run, Outcome.NOT_RUN, "not run"),
        *_counted(run, Outcome.NOT_OBSERVABLE, "not observable"),
        *(f"never run: {line}" for line in _never_run(run)),
        *(() if run.gate else ("whether the suite would notice a fault: no mutants were run",)),
    )


def _unclaimed(run: Run) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for row in REQUIREMENTS.values():
        if missing := unclaimed(row.methods, run.claims):
            by_reason.setdefault(", ".join(missing), []).append(row.id)
    for methods, ids in by_reason.items():
        yield f"{methods} ({', '.join(ids)})"


def _counted(run: Run, outcome: Outcome, words: str) -> Iterator[str]:
    """Records of an outcome, by requirement and reason."""
    found = Counter((r.requirement, _kind(r)) for r in run.records if r.outcome is outcome)
    for id_ in REQUIREMENTS:
        for reason in sorted(reason for held, reason in found if held == id_):
            cases = f"{found[id_, reason]} of {len(run.planned[id_])} cases"
            yield f"{words}: {id_}, {cases}: {reason}"


def _kind(record: Record) -> str:
    """A reason as far as it is the same for many cases: the kind of an error, not its numbers."""
    kind, is_error, _ = record.reason.partition(": ")
    return kind if is_error and record.outcome is Outcome.REFUSED else record.reason


def _never_run(run: Run) -> Iterator[str]:
    ran = Counter(record.requirement for record in run.records)
    for id_ in claimed_ids(run):
        if missing := len(run.planned[id_]) - ran[id_]:
            yield f"{id_}, {missing} of {len(run.planned[id_])} cases"
