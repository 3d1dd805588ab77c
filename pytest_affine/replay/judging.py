"""Judging an implementation in one case, without pytest."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pytest_affine.contract.cases import Case
from pytest_affine.contract.discovery import DiscoveryError
from pytest_affine.contract.examination import Examination, Finding, examine
from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.proxy import ImplementationProxy, facts_of
from pytest_affine.contract.resident import Facts
from pytest_affine.contract.suite import SuiteTest, restricted, suite_tests
from pytest_affine.errors import AffineTransferError
from pytest_affine.ranks import RankPool
from pytest_affine.replay.recording import read_calls, record_calls
from pytest_affine.replay.script import script_of

__all__ = ["Replayed", "chosen_tests", "replayed"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one test in the case.

    Attributes:
        test: of the suite.
        finding: as in a session.
        script: shows a violation without this project; None for other outcomes, and where the
            adapter called no other package.
    """

    test: SuiteTest
    finding: Finding
    script: str | None


def chosen_tests(case: Case, requirements: Collection[str]) -> list[SuiteTest]:
    """The suite's tests that take cases like this one; those of these requirements, if there are.

    Raises:
        AffineTransferError: there is no such test, or no such requirement.
    """
    if unknown := sorted({*requirements} - {*REQUIREMENTS}):
        known = ", ".join(REQUIREMENTS)
        raise AffineTransferError(f"unknown requirements {unknown}; the known ones: {known}")
    like = [test for held in restricted(suite_tests(), case).values() for test in held]
    chosen = [test for test in like if not requirements or test.requirement in requirements]
    if not chosen:
        takers = ", ".join(dict.fromkeys(test.requirement for test in like)) or "none"
        raise AffineTransferError(
            f"no test of {', '.join(requirements) or 'the suite'} takes a case of kind "
            f"{case.kind!r} whose detail has the keys {sorted(case.detail)}; those of these do: "
            f"{takers}"
        )
    return chosen


def replayed(
    case: Case,
    tests: Sequence[SuiteTest],
    name: str,
    pool: RankPool,
    search_path: Sequence[str] = (),
) -> Iterator[Replayed]:
    """Judge the implementation called `name` by each test in one case; in the controller.

    Raises:
        AffineTransferError: there is no such implementation, or it can't be imported.
    """
    try:
        facts = facts_of(name, search_path)
    except DiscoveryError as error:
        raise AffineTransferError(str(error)) from None
    implementation = ImplementationProxy(pool, name, facts, search_path)
    how = Examination(num_examples=1, seed=0)
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="affine-replay-") as folder:
            pool.run(record_calls, facts["file"], folder)
            finding = examine(test, case, implementation, how)
            script = None
            if finding.record.outcome is Outcome.VIOLATED:
                calls = [read_calls(folder, rank) for rank in range(pool.num_ranks)]
                script = script_of(_story(name, facts, finding), calls, pool.backend)
        yield Replayed(test, finding, script)
    implementation.close()


def _story(name: str, facts: Facts, finding: Finding) -> str:
    sentence = REQUIREMENTS[finding.record.requirement].sentence
    return f"{name} {facts['version']}. Expected: {sentence}\n\n{finding.text}"
