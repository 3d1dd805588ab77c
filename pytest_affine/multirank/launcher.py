"""What a test holds to run functions on its ranks, and what it is told when that fails."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeVar

import cloudpickle  # type: ignore[import-untyped]
import pluggy
import pytest

from pytest_affine.multirank.body import Scene, Warned, perform
from pytest_affine.multirank.pools import pool_for, read_request
from pytest_affine.ranks import RankError, RankFailure
from pytest_affine.ranks.failures import describe, type_name
from pytest_affine.ranks.pickling import dumps

__all__ = ["AffineRanks"]

T = TypeVar("T")

_NOT_SHOWN = tuple(f'File "{Path(each).parent}' for each in (__file__, pluggy.__file__))
"""How lines of a rank's stack begin that are between the rank's loop and the test's function."""


class AffineRanks:
    """The ranks of one test: processes with an initialised default process group.

    Attributes:
        num_ranks: size of the process group.
        backend: its backend.
        timeout: seconds that one call may take.
    """

    def __init__(self, item: pytest.Item) -> None:
        request = read_request(item)
        self._item = item
        self._pool = pool_for(request, item.config)
        self.num_ranks = request.num_ranks
        self.backend = self._pool.backend
        self.timeout = request.timeout

    def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> list[T]:
        """Run `function(*args, **kwargs)` on every rank at once; the values by rank.

        Function, arguments and values travel by cloudpickle; what is defined in the test's module
        or in a conftest.py travels by value. The controller calls it. If every rank skips, so does
        the test, and so it is with xfail.

        Raises:
            RankFailure: it did not succeed on every rank, or left something behind there.
            TypeError: the function or an argument can't be sent to ranks; the text names it.
        """
        __tracebackhide__ = True
        scene = Scene([*warnings.filters], self._item.config.get_verbosity())
        with _travelling_by_value(_modules(self._item)):
            try:
                values = self._pool.run(
                    perform,
                    function,
                    args,
                    kwargs,
                    scene,
                    deadline=self.timeout,
                    check_idle=True,
                )
            except RankFailure as failure:
                self._show_output(but_of=failure.first)
                _settle(failure, self.num_ranks)
            except TypeError as error:
                raise TypeError(_culprit(function, args, kwargs) or str(error)) from None
        self._show_output()
        return [self._warn(rank, value) for rank, value in enumerate(values)]

    def _show_output(self, but_of: int | None = None) -> None:
        """Give what ranks printed to the test's report; the failure has that of its first rank."""
        uncaptured = self._item.config.getoption("capture", "no") == "no"
        for rank, text in self._pool.printed.items():
            if not text.strip() or rank == but_of:
                continue
            if uncaptured:
                print(f"rank {rank} of {self.num_ranks}:\n{text}", end="")
            else:
                # A name that begins like this is what JUnit XML looks for.
                self._item.add_report_section("call", f"stdout and stderr of rank {rank}", text)

    def _warn(self, rank: int, value: Any) -> Any:
        """The plain value; its rank's warnings are shown, as its filters had decided already."""
        if not isinstance(value, Warned):
            return value
        for each in value.warnings:
            text = f"rank {rank} of {self.num_ranks}: {each.text}"
            warnings.showwarning(_warning(each.category, text), each.category, each.file, each.line)
        return value.value


def _warning(category: type[Warning], text: str) -> Warning:
    try:
        return category(text)
    except Exception:
        return UserWarning(text)


def _settle(failure: RankFailure, num_ranks: int) -> NoReturn:
    """Raise what the failure amounts to: an outcome that ranks agree on, or the failure."""
    __tracebackhide__ = True
    first, cause = failure.first, failure.cause
    told = {
        rank: error.exception for rank, error in failure.failures.items() if error.kind != "stopped"
    }
    if isinstance(cause.exception, pytest.exit.Exception):
        pytest.exit(cause.message)
    if [*map(type, told.values())] == num_ranks * [pytest.skip.Exception]:
        pytest.skip(cause.message)
    if isinstance(cause.exception, pytest.xfail.Exception):
        unexpected = [
            rank for rank, each in told.items() if type(each) is not type(cause.exception)
        ]
        if not unexpected:
            pytest.xfail(cause.message)
        first = unexpected[0]
    failures = {rank: _explained(error) for rank, error in failure.failures.items()}
    raise RankFailure(failures, first, failure.names, failure.waits, failure.missing) from None


def _explained(error: RankError) -> RankError:
    lines = error.traceback.splitlines(keepends=True)
    trace = "".join(line for line in lines if not any(part in line for part in _NOT_SHOWN))
    text = error.message
    if isinstance(error.exception, pytest.skip.Exception):
        text += " (a skip counts only if every rank skips)"
    return replace(error, message=text, traceback=trace)


def _modules(item: pytest.Item) -> Iterator[ModuleType]:
    """The modules that pytest rewrote, and that a rank may not find or find under other names."""
    if isinstance(item, pytest.Function):
        yield item.module
    for plugin in item.config.pluginmanager.get_plugins():
        if isinstance(plugin, ModuleType) and plugin.__name__.rpartition(".")[2] == "conftest":
            yield plugin


@contextlib.contextmanager
def _travelling_by_value(modules: Iterator[ModuleType]) -> Iterator[None]:
    already = cloudpickle.list_registry_pickle_by_value()
    new = [
        module
        for module in modules
        if module.__name__ not in already and sys.modules.get(module.__name__) is module
    ]
    for module in new:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in new:
            cloudpickle.unregister_pickle_by_value(module)


def _culprit(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str | None:
    """Which of these can't be sent to ranks, and why."""
    positional = {f"argument {index}": value for index, value in enumerate(args)}
    named = {f"argument {name!r}": value for name, value in kwargs.items()}
    for what, value in {f"the function {function!r}": function, **positional, **named}.items():
        try:
            dumps(value)
        except Exception as error:
            kind = "" if value is function else f", of type {type_name(type(value))},"
            return f"{what}{kind} cannot be sent to ranks: {describe(error)}"
    return None
