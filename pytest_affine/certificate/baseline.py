"""What got worse, and what got better, from one certificate to a later one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_affine.certificate.record import Certificate, Run
from pytest_affine.certificate.verdicts import WORDS, run_judgements, run_verdicts, worst_word
from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.verdict import Judgement
from pytest_affine.mutants.gate import Bucket

__all__ = ["Change", "compare"]

BEST_FIRST = (
    Outcome.CONFORMANT,
    Outcome.NOT_OBSERVABLE,
    Outcome.REFUSED,
    Outcome.WITHHELD,
    Outcome.NOT_CLAIMED,
    Outcome.NOT_RUN,
    Outcome.BLOCKED,
    Outcome.ADAPTER_ERROR,
    Outcome.VIOLATED,
)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, as a line for a person."""

    text: str
    is_worse: bool


def compare(old: Certificate, new: Certificate) -> Iterator[Change]:
    """Every difference that is better or worse; of runs that both have, and of those that are gone.

    Runs are the same if backend and number of ranks are; of several the worst counts. Verdicts are
    those of each run's own day, so that a waiver that has expired since is no change.
    """
    before, after = _runs(old), _runs(new)
    is_same_suite = old.suite == new.suite
    for key, runs in before.items():
        if key not in after:
            yield Change(f"{runs[0].title}: there is no such run any more", True)
            continue
        for change in _of_runs(runs, after[key], is_same_suite):
            yield Change(f"{runs[0].title}: {change.text}", change.is_worse)
    for key, runs in after.items():
        if key not in before:
            yield Change(f"{runs[0].title}: a new run", False)


def _runs(certificate: Certificate) -> dict[tuple[str, int], list[Run]]:
    found: dict[tuple[str, int], list[Run]] = {}
    for run in certificate.runs:
        found.setdefault((run.backend, run.num_ranks), []).append(run)
    return found


def _of_runs(old: list[Run], new: list[Run], is_same_suite: bool) -> Iterator[Change]:
    yield from _stepped("the verdict was {}, and is {}", _word(old), _word(new), WORDS[::-1])
    examples = [min(run.num_examples for run in runs) for runs in (old, new)]
    yield from _counted("{} examples were drawn, now {}", *examples, more_is_worse=False)
    draws = [{(run.seed, run.num_examples) for run in runs} for runs in (old, new)]
    has_same_draws = is_same_suite and draws[0] == draws[1]
    before, after = _judgements(old), _judgements(new)
    for id_ in (id_ for id_ in REQUIREMENTS if id_ in before and id_ in after):
        for change in _of_requirement(before[id_], after[id_], has_same_draws):
            yield Change(f"{id_}: {change.text}", change.is_worse)
    yield from _of_mutants(_killed(old), _killed(new))


def _word(runs: list[Run]) -> str:
    return worst_word(verdict for run in runs for verdict in run_verdicts(run))


def _stepped(text: str, old: str, new: str, best_first: tuple[str, ...]) -> Iterator[Change]:
    if old != new:
        yield Change(text.format(old, new), best_first.index(new) > best_first.index(old))


def _judgements(runs: list[Run]) -> dict[str, Judgement]:
    """By requirement the worst of its judgements."""
    found: dict[str, Judgement] = {}
    for run in runs:
        for id_, judgement in run_judgements(run).items():
            known = found.setdefault(id_, judgement)
            if BEST_FIRST.index(judgement.outcome) > BEST_FIRST.index(known.outcome):
                found[id_] = judgement
    return found


def _counted(text: str, old: int, new: int, *, more_is_worse: bool) -> Iterator[Change]:
    if old != new:
        yield Change(text.format(old, new), (new > old) == more_is_worse)


COUNTED = {
    Outcome.CONFORMANT: False,
    Outcome.REFUSED: True,
    Outcome.WITHHELD: True,
    Outcome.NOT_RUN: True,
}
"""Outcomes of which the cases are counted, and whether more of them is worse."""


def _of_requirement(old: Judgement, new: Judgement, has_same_draws: bool) -> Iterator[Change]:
    values = tuple(outcome.value for outcome in BEST_FIRST)
    yield from _stepped(
        "the outcome was {}, and is {}", old.outcome.value, new.outcome.value, values
    )
    before, after = old.shares(), new.shares()
    for outcome, more_is_worse in COUNTED.items():
        text = f"{{}} cases were {outcome.value}, now {{}}"
        counts = before.get(outcome, 0), after.get(outcome, 0)
        yield from _counted(text, *counts, more_is_worse=more_is_worse)
    if has_same_draws:
        turned = [sum(r.num_refused + r.num_withheld for r in j.records) for j in (old, new)]
        text = "{} drawn inputs were refused or withheld, now {}"
        yield from _counted(text, *turned, more_is_worse=True)


def _killed(runs: list[Run]) -> Mapping[str, bool] | None:
    """By mutant whether every run that tried it killed it as intended; None without a gate."""
    gates = [run.gate for run in runs if run.gate is not None]
    found: dict[str, bool] = {}
    for mutant in (mutant for gate in gates for mutant in gate["mutants"]):
        is_killed = mutant["bucket"] == Bucket.KILLED.value
        found[mutant["id"]] = found.get(mutant["id"], True) and is_killed
    return found if gates else None


def _of_mutants(old: Mapping[str, bool] | None, new: Mapping[str, bool] | None) -> Iterator[Change]:
    if new is None:
        yield from [Change("the mutants are not run any more", True)] if old is not None else []
        return
    for id_, was_killed in (old or {}).items():
        if was_killed and not new.get(id_, False):
            yield Change(f"mutant {id_} was killed, and is not any more", True)
        elif new.get(id_, False) and not was_killed:
            yield Change(f"mutant {id_} is killed now", False)
    if added := [id_ for id_, is_killed in new.items() if is_killed and id_ not in (old or {})]:
        yield Change(f"{len(added)} mutants more are killed", False)
