"""Single requirements of the suite, judged on any implementation in real ranks."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pytest_affine.contract.cases import Case
from pytest_affine.contract.examination import Examination, Finding, examine
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import Facts, read_facts
from pytest_affine.contract.suite import SuiteTest, restricted, suite_tests
from pytest_affine.contract.verdict import outcome_of
from pytest_affine.ranks import RankPool

DEADLINE = 20.0
"""Seconds that one call in the ranks may take; what is to hang is given fewer."""

FOLDER = Path(__file__).parent


class Judge:
    """Judges implementations in one pool of ranks.

    An implementation is "reference"; or a class of a module of this folder, such as
    "allowed:NoOptions"; or the reference with a fault of `pytest_affine.mutants.faults`, such as
    "digests:IgnoresNames". A case is the name of a fixed case of the requirement, or any case of a
    kind that the requirement takes.
    """

    def __init__(self, pool: RankPool) -> None:
        self._pool = pool
        self._reference = self._made("reference")

    def assert_notices(self, name: str, requirement: str, case: str | Case) -> None:
        """Fail unless a fault is a violation in this case, in which the reference has none."""
        assert self.outcome(name, requirement, case) is Outcome.VIOLATED
        assert self.outcome("reference", requirement, case) is Outcome.CONFORMANT

    def outcome(self, name: str, requirement: str, case: str | Case | None = None) -> Outcome:
        """The worst outcome in the requirement's fixed cases, or in the one that is given."""
        records = [finding.record for finding in self.findings(name, requirement, case)]
        return outcome_of(records, len(records))

    def violation(
        self,
        name: str,
        requirement: str,
        case: str | Case | None = None,
        deadline: float = DEADLINE,
    ) -> str:
        """What a person is told of the first violation found; fails if there is none."""
        findings = self.findings(name, requirement, case, deadline)
        assert findings[-1].record.outcome is Outcome.VIOLATED, findings
        return findings[-1].text

    def findings(
        self,
        name: str,
        requirement: str,
        case: str | Case | None = None,
        deadline: float = DEADLINE,
    ) -> list[Finding]:
        """A finding for each test of the requirement and each fixed case, up to a violation."""
        self._pool.deadline = deadline
        # What has a fault may remember what it did; the reference is kept, to be quick.
        kept = name == self._reference.name
        implementation = self._reference if kept else self._made(name)
        how = Examination(num_examples=1, seed=0)
        found: list[Finding] = []
        for test, fixed in _fixed(requirement, case):
            found.append(examine(test, fixed, implementation, how))
            if found[-1].record.outcome is Outcome.VIOLATED:
                break
        if not kept:
            implementation.close()
        return found

    def _made(self, name: str) -> ImplementationProxy:
        module, _, kind = name.partition(":")
        if not kind or (FOLDER / f"{module}.py").exists():
            return ImplementationProxy(self._pool, name, _facts(name), [str(FOLDER)])
        fault = f"pytest_affine.mutants.faults.{module}:{kind}"
        return ImplementationProxy(self._pool, "reference", _facts("reference"), fault=fault)


_tests = cache(suite_tests)


@cache
def _facts(name: str) -> Facts:
    return read_facts(name, [str(FOLDER)])


def _fixed(requirement: str, case: str | Case | None) -> list[tuple[SuiteTest, Case]]:
    tests = _tests()
    if isinstance(case, Case):
        tests = restricted(tests, case)
    found = [
        (test, fixed)
        for held in tests.values()
        for test in held
        if test.requirement == requirement
        for fixed in test.fixed
        if not isinstance(case, str) or case == fixed.name
    ]
    assert found, f"{requirement} does not have the case {case!r}"
    return found
