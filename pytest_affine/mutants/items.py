"""Mutants as pytest items: one each, which passes if the suite notices the mutant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_affine.mutants.gate import WRONG, Bucket, MutantResult
from pytest_affine.mutants.mutant import Mutant
from pytest_affine.mutants.report import story
from pytest_affine.mutants.trial import Trial

if TYPE_CHECKING:
    from pytest_affine.mutants.session import MutationGate

__all__ = ["MutantFile", "MutantItem"]


class MutantFile(pytest.File):
    """All mutants that are tried."""

    def __init__(self, *, gate: MutationGate, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gate = gate

    def collect(self) -> Iterator[pytest.Item]:
        """One item per mutant."""
        for mutant in self.gate.tried:
            yield MutantItem.from_parent(self, name=mutant.id, mutant=mutant)


class MutantItem(pytest.Item):
    """The trial of one mutant."""

    def __init__(self, *, mutant: Mutant, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mutant = mutant
        self.result: MutantResult | None = None
        self.extra_keyword_matches.add(mutant.requirement)
        self.user_properties.append(("requirement", mutant.requirement))

    @property
    def gate(self) -> MutationGate:
        """The session's gate."""
        assert isinstance(self.parent, MutantFile)
        return self.parent.gate

    def runtest(self) -> None:
        """Try the mutant, keep the result, and pass, fail or skip."""
        trial = self.gate.trial(self.mutant)
        self.result = result = trial.result
        if result.bucket in WRONG:
            raise MutantFailure(trial)
        self.add_report_section("call", "affine", trial.text)
        if result.bucket in (Bucket.NOT_APPLICABLE, Bucket.NOT_JUDGED):
            pytest.skip(f"{result.id} {result.bucket.value}: {result.reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What a person reads: the fault, what ran, and how to run it again."""
        if isinstance(excinfo.value, MutantFailure):
            return story(excinfo.value.trial, self.gate.rerun(self.mutant))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Where the mutants are."""
        return self.path, None, self.name


class MutantFailure(Exception):  # noqa: N818 - a result on its way to the report
    """The suite did not notice a mutant as it must."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial.result.reason)
        self.trial = trial
