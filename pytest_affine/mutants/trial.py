"""One mutant's trial: the suite's tests against it, until one is violated."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pytest_affine.contract.cases import Case
from pytest_affine.contract.examination import Examination, Finding, examine
from pytest_affine.contract.implementation import Claims
from pytest_affine.contract.manifest import REQUIREMENTS, unclaimed
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.suite import SuiteTest
from pytest_affine.mutants.compose import FaultFacts
from pytest_affine.mutants.gate import Bucket, MutantResult, result_of
from pytest_affine.mutants.mutant import Mutant

__all__ = ["Trial", "ruled_out", "try_mutant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A result, and what a person wants to know of it.

    Attributes:
        result: what became of the mutant.
        text: what the test that noticed it said.
        requirements: those whose tests ran.
        num_inputs: how many inputs they judged.
    """

    result: MutantResult
    text: str = ""
    requirements: tuple[str, ...] = ()
    num_inputs: int = 0


def ruled_out(mutant: Mutant, facts: FaultFacts, claims: Claims) -> MutantResult | None:
    """The result of a mutant that can't be tried on what claims this, or None."""
    if facts["error"]:
        return result_of(mutant, Bucket.BROKEN, reason=facts["error"])
    if facts["belongs_to"]:
        reason = f"it is for {facts['belongs_to']} alone"
    elif missing := unclaimed(REQUIREMENTS[mutant.requirement].methods, claims):
        reason = f"not claimed: {', '.join(missing)}"
    elif facts["methods"] and not set(facts["methods"]).intersection(claims):
        reason = f"not claimed: {', '.join(facts['methods'])}"
    else:
        return None
    return result_of(mutant, Bucket.NOT_APPLICABLE, reason=reason)


def try_mutant(
    mutant: Mutant,
    tests: Sequence[SuiteTest],
    faulty: ImplementationProxy,
    control: ImplementationProxy,
    how: Examination,
) -> Trial:
    """Run the tests of its own requirement on it, then others, until one notices it.

    Args:
        mutant: the mutant.
        tests: the suite's.
        faulty: the implementation with the mutant's fault.
        control: the implementation without it, to tell what no test could have noticed.
        how: how cases are drawn.
    """
    trial = _Trial(mutant, faulty, control, how)
    own = [test for test in tests if test.requirement == mutant.requirement]
    also = [test for test in tests if test.requirement in mutant.also]
    rest = [test for test in tests if test not in own and test not in also]
    try:
        if caught := trial.first(own):
            return caught
        if mutant.equivalent:
            return trial.ended(Bucket.EQUIVALENT, mutant.equivalent)
        if caught := trial.first(also):
            return caught
        if gap := trial.gap():
            return trial.ended(Bucket.NOT_JUDGED, gap)
        return trial.first(rest) or trial.ended(Bucket.SURVIVED, "no test noticed it")
    except Exception as error:
        reason = f"the suite itself raised {type(error).__name__}: {error}"
        return trial.ended(Bucket.BROKEN, reason, traceback.format_exc())


Unjudged = tuple[SuiteTest, Case | None]


@dataclass(slots=True)
class _Trial:
    mutant: Mutant
    faulty: ImplementationProxy
    control: ImplementationProxy
    how: Examination
    requirements: dict[str, None] = field(default_factory=dict)
    num_inputs: int = 0
    unjudged: list[Unjudged] = field(default_factory=list)

    def first(self, tests: Iterable[SuiteTest]) -> Trial | None:
        """What ends the trial, if one of these tests does."""
        for test, case in _in_order(tests):
            finding = examine(test, case, self.faulty, self.how)
            outcome = finding.record.outcome
            if outcome in (Outcome.CONFORMANT, Outcome.VIOLATED):
                self.requirements[test.requirement] = None
                self.num_inputs += finding.record.num_examples
            else:
                self.unjudged.append((test, case))
            if outcome in (Outcome.VIOLATED, Outcome.ADAPTER_ERROR):
                if self._is_slow_without(test, case):
                    reason = "without the mutant too, a call ran past this deadline"
                    return self.ended(Bucket.NOT_JUDGED, reason, finding.text)
                return self._caught(finding)
        return None

    def _is_slow_without(self, test: SuiteTest, case: Case | None) -> bool:
        """Whether the control runs past the deadline too, which is short where one is to hang."""
        if self.faulty.latest_death != "deadline" or not self.mutant.hangs:
            return False
        self.control.pool.discard()
        deaths = self.control.deaths.copy()
        record = examine(test, case, self.control, self.how).record
        self.control.deaths = deaths
        return record.outcome is not Outcome.CONFORMANT

    def gap(self) -> str:
        """Why no test could have noticed it, if they have no verdict without the mutant either."""
        if self.mutant.requirement not in self.requirements and not self.unjudged:
            return f"no case of {self.mutant.requirement} was chosen"
        self.control.pool.discard()  # what is left of the mutant in the ranks
        for test, case in self.unjudged:
            record = examine(test, case, self.control, self.how).record
            if record.outcome is not Outcome.CONFORMANT:
                return (
                    f"nothing noticed it, but {record.requirement}[{record.case}] is "
                    f"{record.outcome.value} without the mutant too: {record.reason}"
                )
        return ""

    def ended(self, bucket: Bucket, reason: str, text: str = "", **more: str) -> Trial:
        """The trial's end."""
        return Trial(
            result=result_of(self.mutant, bucket, reason=reason, **more),
            text=text,
            requirements=tuple(self.requirements),
            num_inputs=self.num_inputs,
        )

    def _caught(self, finding: Finding) -> Trial:
        record = finding.record
        bucket, prefix = self._bucket(record.requirement, record.outcome)
        return self.ended(
            bucket,
            prefix + record.reason,
            finding.text,
            killed_by=record.requirement,
            case=record.case,
        )

    def _bucket(self, requirement: str, outcome: Outcome) -> tuple[Bucket, str]:
        death = self.faulty.latest_death
        if outcome is Outcome.ADAPTER_ERROR:
            return Bucket.BROKEN, "its own code is at fault: "
        if death == "deadline" and not self.mutant.hangs:
            return Bucket.TIMED_OUT, "it does not say that it hangs: "
        if death not in ("", "deadline") and not self.mutant.raises:
            return Bucket.BROKEN, "it does not say that it ends a rank: "
        if self.mutant.equivalent:
            return Bucket.NOT_EQUIVALENT, ""
        intended = requirement in (self.mutant.requirement, *self.mutant.also)
        return (Bucket.KILLED if intended else Bucket.BY_ANOTHER), ""


def _in_order(tests: Iterable[SuiteTest]) -> Iterator[tuple[SuiteTest, Case | None]]:
    """Fixed cases first, for what is drawn takes longer."""
    tests = [*tests]
    yield from ((test, case) for test in tests for case in test.fixed)
    yield from ((test, None) for test in tests if test.strategy)
