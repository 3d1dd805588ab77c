"""The suite's tests as pytest items; they use no fixtures, so nobody else's can reach them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_affine.contract.cases import Case
from pytest_affine.contract.examination import Finding, examine
from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.contract.outcomes import Outcome, Record
from pytest_affine.contract.suite import DRAWN, SuiteTest

if TYPE_CHECKING:
    from pytest_affine.session import Certification

__all__ = ["SuiteFile", "SuiteItem"]


class SuiteFile(pytest.File):
    """One module of the suite."""

    def __init__(
        self, *, tests: tuple[SuiteTest, ...], certification: Certification, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.tests = tests
        self.certification = certification

    def collect(self) -> Iterator[pytest.Item]:
        """One item per test and fixed case, and one for what a test draws."""
        for test in self.tests:
            drawn = (None,) if test.strategy else ()
            for case in (*test.fixed, *drawn):
                name = f"{test.name}[{DRAWN if case is None else case.name}]"
                yield SuiteItem.from_parent(self, name=name, test=test, case=case)


class SuiteItem(pytest.Item):
    """One test of the suite in one case."""

    def __init__(self, *, test: SuiteTest, case: Case | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.test = test
        self.case = case
        self.record: Record | None = None
        self.extra_keyword_matches.add(test.requirement)
        name = test.record_name(DRAWN if case is None else case.name)
        self.user_properties += [("requirement", test.requirement), ("case", name)]

    @property
    def certification(self) -> Certification:
        """The session's certification."""
        assert isinstance(self.parent, SuiteFile)
        return self.parent.certification

    def runtest(self) -> None:
        """Judge the implementation, leave a record in the report, and pass, fail or skip."""
        certification = self.certification
        finding = examine(
            self.test, self.case, certification.implementation, certification.examination
        )
        self.record = record = finding.record
        if record.outcome in (Outcome.VIOLATED, Outcome.ADAPTER_ERROR):
            if waiver := certification.recording.waived(record.requirement, record.case):
                pytest.xfail(f"{waiver}: {record.reason}")
            if REQUIREMENTS[record.requirement].must:
                raise SuiteFailure(finding)
            pytest.xfail(f"a SHOULD: {record.reason}")
        if record.outcome is not Outcome.CONFORMANT:
            pytest.skip(f"{record.requirement} {record.outcome.value}: {record.reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What a person reads: the rule, what was found, and how to replay it."""
        if isinstance(excinfo.value, SuiteFailure):
            return self._story(excinfo.value.finding)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Where the test stands in the suite."""
        return self.path, self.test.function.__code__.co_firstlineno - 1, self.name

    def _story(self, finding: Finding) -> str:
        row = REQUIREMENTS[finding.record.requirement]
        lines = [
            f"{row.id} {finding.record.outcome.value} by {self.certification.name}",
            f"  {row.sentence}",
            "",
            finding.text.rstrip(),
        ]
        if finding.case is not None:
            lines += ["", "replay:", f"  {self._replay(finding.case)}"]
            lines += [
                "or, for a script to report, with the case from there:",
                f"  {self._script()}",
            ]
        return "\n".join(lines)

    def _replay(self, case: Case) -> str:
        given = ("-k", self.test.requirement, f"--affine-case={case.to_line()}")
        return self.certification.command(*given)

    def _script(self) -> str:
        options = self.certification.options
        return (
            f"python -m pytest_affine replay CASE --implementation={self.certification.name} "
            f"--requirement={self.test.requirement} --ranks={options.num_ranks} "
            f"--backend={options.backend} --script=show.py"
        )


class SuiteFailure(Exception):  # noqa: N818 - a finding on its way to the report
    """An item found a violation."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.record.reason)
        self.finding = finding
