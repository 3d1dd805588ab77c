"""How a test of the suite is written and found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_affine.contract.cases import Case
from pytest_affine.contract.manifest import REQUIREMENTS

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "DRAWN",
    "SuiteTest",
    "cases",
    "drawn",
    "planned_cases",
    "requirement",
    "restricted",
    "suite_tests",
]

DRAWN = "drawn"
"""Name of the case that stands for all that Hypothesis draws for one test."""

Function = TypeVar("Function", bound=Callable[..., None])


def requirement(id_: str, *methods: str) -> Callable[[Function], Function]:
    """Mark a function of the suite as the test of one requirement of the manifest.

    `methods` are those that this test needs beside what the requirement needs.
    """
    if id_ not in REQUIREMENTS:
        raise ValueError(f"{id_!r} is no requirement of the manifest: {', '.join(REQUIREMENTS)}")
    needed = (*REQUIREMENTS[id_].methods, *methods)
    mark_id, mark_methods = _marker("affine_requirement", id_), _marker("affine_methods", needed)
    return lambda function: mark_methods(mark_id(function))


def cases(*groups: Iterable[Case]) -> Callable[[Function], Function]:
    """Give a test its fixed cases, one group after the other; a case in two groups runs once."""
    named: dict[str, Case] = {}
    for case in (case for group in groups for case in group):
        if named.setdefault(case.name, case) != case:
            raise ValueError(f"two cases are called {case.name!r}")
    return _marker("affine_cases", tuple(named.values()))


def drawn(strategy: Callable[[int], SearchStrategy[Case]]) -> Callable[[Function], Function]:
    """Give a test the cases that Hypothesis draws from `strategy(number of ranks)`."""
    return _marker("affine_strategy", strategy)


def _marker(name: str, value: Any) -> Callable[[Function], Function]:
    def mark(function: Function) -> Function:
        setattr(function, name, value)
        return function

    return mark


@dataclass(frozen=True, slots=True)
class SuiteTest:
    """One function of the suite, called with (implementation, case), and the methods it needs."""

    function: Callable[[Any, Case], None]
    requirement: str
    methods: tuple[str, ...]
    fixed: tuple[Case, ...]
    strategy: Callable[[int], SearchStrategy[Case]] | None

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__

    def record_name(self, case: str) -> str:
        """Name under which one of its cases is recorded: unique within the requirement."""
        return f"{self.name.removeprefix('test_')}[{case}]"

    def case_names(self) -> tuple[str, ...]:
        """Names of its cases, the drawn ones as one."""
        return (*(case.name for case in self.fixed), *((DRAWN,) if self.strategy else ()))


def suite_tests() -> dict[str, tuple[SuiteTest, ...]]:
    """Every test of the suite, by the module of `pytest_affine.conformance` that holds it."""
    import pytest_affine.conformance as package

    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    found = {name: tuple(_tests_in(f"{package.__name__}.{name}")) for name in names}
    return {name: tests for name, tests in found.items() if tests}


def _tests_in(module_name: str) -> Iterator[SuiteTest]:
    module = importlib.import_module(module_name)
    for function in vars(module).values():
        if getattr(function, "__module__", None) != module_name:
            continue
        if (id_ := getattr(function, "affine_requirement", None)) is not None:
            yield SuiteTest(
                function,
                id_,
                function.affine_methods,
                getattr(function, "affine_cases", ()),
                getattr(function, "affine_strategy", None),
            )


def restricted(
    tests: Mapping[str, Sequence[SuiteTest]], case: Case
) -> dict[str, tuple[SuiteTest, ...]]:
    """The tests that take cases like this one, with this case and no other.

    Like it are cases of its kind with the same keys of detail.
    """
    return {
        module: tuple(
            replace(test, fixed=(case,), strategy=None)
            for test in held
            if any(_is_like(case, fixed) for fixed in test.fixed)
        )
        for module, held in tests.items()
    }


def _is_like(one: Case, other: Case) -> bool:
    return one.kind == other.kind and set(one.detail) == set(other.detail)


def planned_cases(tests: Mapping[str, Sequence[SuiteTest]]) -> dict[str, list[str]]:
    """By requirement, the record names of every case of these tests."""
    planned: dict[str, list[str]] = {id_: [] for id_ in REQUIREMENTS}
    for test in (test for held in tests.values() for test in held):
        planned[test.requirement] += [test.record_name(case) for case in test.case_names()]
    return planned
