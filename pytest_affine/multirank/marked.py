"""A marked test: its body runs on every rank, and its report is what happened there."""

from __future__ import annotations

import inspect
import unittest
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_affine.multirank.launcher import AffineRanks
from pytest_affine.multirank.pools import MARKER
from pytest_affine.ranks import RankFailure, RankSetupError
from pytest_affine.ranks.failures import type_name

__all__ = ["place", "ranks_of", "refuse_test_case", "run_body"]

CONTROLLING = frozenset({MARKER, "affine_probe"})
"""Fixtures with which a test's body stays in the controller and runs functions on ranks."""

_STAYING = ("cache", "monkeypatch", "pytestconfig", "pytester", "recwarn", "request", "subtests")
_STAYING_KINDS = ("cap", "record_")
"""pytest's fixtures that act on the process in which they were made, and how some begin."""


def ranks_of(item: pytest.Item) -> AffineRanks:
    """The ranks of a test; if it can't have what it asks for, it fails with a few words."""
    try:
        return AffineRanks(item)
    except (pytest.UsageError, RankSetupError) as error:
        text = str(error)
    pytest.fail(text, pytrace=False)


def run_body(item: pytest.Function) -> bool | None:
    """Run a marked test's body on its ranks; None if it takes the ranks as a fixture instead."""
    arguments = _arguments(item)
    if CONTROLLING & arguments.keys():
        return None
    if trouble := _trouble(item, arguments):
        pytest.fail(trouble, pytrace=False)
    ranks = ranks_of(item)
    try:
        text = _returned(ranks.run(item.obj, **arguments))
    except (RankFailure, RankSetupError, TypeError) as error:
        text = str(error)
    if text:
        pytest.fail(text, pytrace=False)
    return True


def _returned(values: Sequence[object]) -> str:
    """What is wrong with the values of a body."""
    for rank, value in enumerate(values):
        if value is not None:
            kind = type_name(type(value))
            return f"a test must return None; on rank {rank} it returned a value of type {kind}"
    return ""


def refuse_test_case(item: pytest.Item) -> None:
    """Fail a marked method of a `unittest.TestCase`, which would run in the controller unseen."""
    owner = item.cls if isinstance(item, pytest.Function) else None
    if owner is not None and issubclass(owner, unittest.TestCase):
        text = f"{owner.__name__} is a unittest.TestCase, whose methods cannot run on ranks"
        pytest.fail(text, pytrace=False)


def place(item: pytest.Item, report: pytest.TestReport) -> None:
    """Have a report of what was raised here point at the test."""
    where = str(item.path), (item.location[1] or 0) + 1
    longrepr: Any = report.longrepr
    crash = getattr(longrepr, "reprcrash", None)
    if isinstance(longrepr, tuple) and longrepr[0] == __file__:
        report.longrepr = *where, longrepr[2]
    elif crash is not None and crash.path == __file__:
        crash.path, crash.lineno = where


def _arguments(item: pytest.Function) -> dict[str, Any]:
    """The values of the fixtures and parameters that the body takes."""
    return {
        name: item.funcargs[name]
        for name, parameter in inspect.signature(item.obj).parameters.items()
        if parameter.default is parameter.empty and name in item.funcargs
    }


def _trouble(item: pytest.Function, arguments: Mapping[str, Any]) -> str | None:
    """What keeps the body from running on ranks."""
    if inspect.iscoroutinefunction(item.obj) or inspect.isasyncgenfunction(item.obj):
        return "an async body cannot run on ranks; a plain one can, and may call asyncio.run"
    if getattr(item.obj, "is_hypothesis_test", False):
        return (
            "a body with @given cannot run on ranks, each of which would draw values of its own; "
            f"take the fixture {MARKER} and call its run"
        )
    staying = [name for name in arguments if name in _STAYING or name.startswith(_STAYING_KINDS)]
    if staying:
        return (
            f"a body on ranks cannot take the fixture {staying[0]!r}, which acts on pytest's own "
            f"process; take the fixture {MARKER} and call its run"
        )
    return None
