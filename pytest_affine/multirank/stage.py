"""A pytest session without tests, kept in each rank for what pytest adds to a running test.

The one such thing that a rank can't do without is the explanation of failed comparisons. Importing
this module opens the session, so that a fork server that has it gives it to every rank.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

__all__ = ["STAGE"]

_LEFT_OUT = ("cacheprovider", "faulthandler", "logging", "threadexception", "unraisableexception")


class _Act(pytest.Item):
    """Stands for a test in pytest's hooks: runs one function after another."""

    work: Callable[[], Any]
    value: Any
    error: BaseException | None

    def runtest(self) -> None:
        """Run the function and keep what it returns or raises."""
        self.value = self.error = None
        try:
            self.value = self.work()
        except BaseException as error:
            trace = error.__traceback__
            self.error = error.with_traceback(trace and trace.tb_next)


class _Stage:
    """The plugin of the session, which keeps it after its end."""

    session: pytest.Session

    def pytest_collection(self) -> bool:
        return True

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.session = session
        return True

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        item.runtest()
        return True

    @cached_property
    def _act(self) -> _Act:
        act: _Act = _Act.from_parent(self.session, name="act")
        return act

    @cached_property
    def _protocol(self) -> Callable[..., Any]:
        """pytest's hook around a test, with nobody in it but us and what explains assertions."""
        plugins = self.session.config.pluginmanager
        wanted = (self, plugins.get_plugin("assertion"))
        others = [plugin for plugin in plugins.get_plugins() if plugin not in wanted]
        return plugins.subset_hook_caller("pytest_runtest_protocol", others)

    def play(self, work: Callable[[], Any], verbosity: int) -> Any:
        """Run a function as if it were a test; return its value, or raise its exception."""
        __tracebackhide__ = True
        self.session.config.option.verbose = verbosity
        act = self._act
        act.work = work
        self._protocol(item=act, nextitem=None)
        value, error = act.value, act.error
        del act.work, act.value, act.error
        if error is not None:
            raise error
        return value


def _open() -> _Stage:
    stage, printed = _Stage(), io.StringIO()
    arguments = [f"-pno:{name}" for name in _LEFT_OUT]
    arguments += ["-c", os.devnull, "--rootdir=/", "--noconftest", "--disable-plugin-autoload"]
    arguments += ["--capture=no", "--assert=plain"]
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
            patch.delenv(name, raising=False)
        pytest.main(arguments, plugins=[stage])
    if not hasattr(stage, "session"):
        raise RuntimeError(f"pytest does not start in a rank:\n{printed.getvalue()}")
    return stage


STAGE = _open()
