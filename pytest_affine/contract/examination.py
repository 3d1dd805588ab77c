"""Running one test of the suite in one case, and saying what became of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_affine.contract.cases import Case
from pytest_affine.contract.implementation import NotClaimedError
from pytest_affine.contract.manifest import REQUIREMENTS, unclaimed
from pytest_affine.contract.outcomes import (
    AdapterFault,
    Death,
    Measured,
    NotObservable,
    NotRun,
    Outcome,
    Record,
    Withheld,
)
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import DRAWN, SuiteTest
from pytest_affine.errors import AffineTransferError

__all__ = ["MAX_DEATHS", "Examination", "Finding", "examine"]

MAX_DEATHS = 2
"""After so many deaths in one method, what else needs it is blocked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A record, and what a person is told where the case is not conformant.

    Attributes:
        record: the outcome.
        text: what was wrong; empty where nothing was.
        case: the case that shows it, the smallest one found, for violations.
    """

    record: Record
    text: str = ""
    case: Case | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """How cases are drawn: how many, from which seed, and whether the smallest is looked for."""

    num_examples: int
    seed: int
    shrink: bool = True


def examine(
    test: SuiteTest, case: Case | None, implementation: ImplementationProxy, how: Examination
) -> Finding:
    """Judge an implementation by one test in one case, or in drawn cases where it is None.

    Raises:
        Exception: only where the suite itself is at fault.
    """
    name = DRAWN if case is None else case.name
    record = Record(
        requirement=test.requirement,
        case=test.record_name(name),
        outcome=Outcome.CONFORMANT,
        core=case.core if case else None,
    )
    if barred := _barred(test, implementation):
        outcome, reason = barred
        return Finding(replace(record, outcome=outcome, reason=reason))
    if case is None:
        return _examine_drawn(test, implementation, how, record)
    return _finding(record, case, lambda: _run(test, implementation, case))


def _barred(test: SuiteTest, implementation: ImplementationProxy) -> tuple[Outcome, str] | None:
    """Why a test can't run at all: not claimed, too few ranks, or blocked by deaths."""
    row = REQUIREMENTS[test.requirement]
    if missing := unclaimed(test.methods, implementation.claims):
        return Outcome.NOT_CLAIMED, ", ".join(missing)
    if implementation.num_ranks < row.ranks:
        reason = f"needs {row.ranks} ranks, there are {implementation.num_ranks}"
        return Outcome.NOT_RUN, reason
    for method in ("start", "supports", *(name.partition("[")[0] for name in test.methods)):
        if implementation.deaths[method] >= MAX_DEATHS:
            return Outcome.BLOCKED, f"{method} died {MAX_DEATHS} times or ran past its deadline"
    return None


def _run(test: SuiteTest, implementation: ImplementationProxy, case: Case) -> None:
    implementation.require_support(case.sync)
    try:
        test.function(implementation, case)
    except AssertionError:
        # What went wrong may have left messages between the ranks.
        implementation.discard_ranks()
        raise


def _finding(record: Record, case: Case | None, run: Callable[[], None]) -> Finding:
    try:
        run()
    except AffineTransferError as refusal:
        reason = f"{type(refusal).__name__}: {refusal}"
        return Finding(replace(record, outcome=Outcome.REFUSED, reason=reason))
    except Measured as number:
        return Finding(replace(record, reason=str(number)))
    except Withheld as reason:
        return Finding(replace(record, outcome=Outcome.WITHHELD, reason=str(reason)))
    except NotRun as reason:
        return Finding(replace(record, outcome=Outcome.NOT_RUN, reason=str(reason)))
    except NotObservable as reason:
        return Finding(replace(record, outcome=Outcome.NOT_OBSERVABLE, reason=str(reason)))
    except NotClaimedError as reason:
        return Finding(replace(record, outcome=Outcome.NOT_CLAIMED, reason=str(reason)))
    except (AssertionError, Death) as problem:
        adapter = isinstance(problem, AdapterFault)
        outcome = Outcome.ADAPTER_ERROR if adapter else Outcome.VIOLATED
        text = _text(problem)
        return Finding(replace(record, outcome=outcome, reason=_first_line(text)), text, case)
    return Finding(record)


def _text(problem: BaseException) -> str:
    """The message; for a bare assert, the line that failed."""
    if str(problem):
        return str(problem)
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{frame.name}: {frame.line}"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]


class _Draws:
    """What became of the cases that were drawn for one test."""

    def __init__(self, test: SuiteTest, implementation: ImplementationProxy) -> None:
        self.test = test
        self.implementation = implementation
        self.num_examples = self.num_refused = self.num_withheld = 0
        self.last: Case | None = None
        self.problem: AssertionError | None = None

    def take(self, case: Case) -> None:
        """Run the test on one drawn case; refused and withheld ones are counted."""
        self.num_examples += 1
        self.last = case
        try:
            _run(self.test, self.implementation, case)
        except AffineTransferError:
            self.num_refused += 1
        except Withheld:
            self.num_withheld += 1
        except AssertionError as problem:
            self.problem = problem
            raise


def _examine_drawn(
    test: SuiteTest, implementation: ImplementationProxy, how: Examination, record: Record
) -> Finding:
    draws = _Draws(test, implementation)
    finding = _finding(record, None, lambda: _draw(draws, how))
    counted = replace(
        finding.record,
        num_examples=draws.num_examples,
        num_refused=draws.num_refused,
        num_withheld=draws.num_withheld,
    )
    if finding.record.outcome is Outcome.CONFORMANT:
        return Finding(_all_turned_away(counted))
    return Finding(counted, finding.text, draws.last)


def _all_turned_away(record: Record) -> Record:
    """Drawn cases of which not one was judged are refused, or withheld, and not conformant."""
    if record.num_refused + record.num_withheld < record.num_examples:
        return record
    outcome = Outcome.REFUSED if record.num_refused else Outcome.WITHHELD
    return replace(record, outcome=outcome, reason="every drawn case")


def _draw(draws: _Draws, how: Examination) -> None:
    """Let Hypothesis draw and shrink; the last case it runs is the smallest that fails."""
    import hypothesis
    import hypothesis.errors

    assert draws.test.strategy is not None
    generate, shrink = hypothesis.Phase.generate, hypothesis.Phase.shrink
    decorate = hypothesis.settings(
        database=None,
        deadline=None,
        derandomize=False,
        max_examples=how.num_examples,
        phases=(generate, shrink) if how.shrink else (generate,),
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )

    # Each test draws cases of its own.
    @hypothesis.seed(f"{how.seed} {draws.test.name}")
    @decorate
    @hypothesis.given(draws.test.strategy(draws.implementation.num_ranks))
    def take(case: Case) -> None:
        draws.take(case)

    try:
        take()
    except hypothesis.errors.Flaky:
        raise AssertionError(
            f"{draws.problem}\nthe same case was right when it was run again"
        ) from None
