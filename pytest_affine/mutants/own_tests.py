"""The user's own tests against faulty variants of one of their functions.

The tests run as they are; then, if all of them pass, once more for each mutant, in a process of its
own and until the first failure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_affine.contract.proxy import IMPORT_DEADLINE
from pytest_affine.mutants import laid
from pytest_affine.mutants.compose import FaultError
from pytest_affine.mutants.laid import VARIABLE, Target, environment, fitting_faults, target_of
from pytest_affine.mutants.listing import MutantListError, chosen_mutants, known_mutants
from pytest_affine.mutants.mutant import Mutant
from pytest_affine.ranks import RankFailure, spawn
from pytest_affine.ranks.processes import PRELOADED
from pytest_affine.summary import table

__all__ = ["configure_own_tests"]

START_SECONDS = 60.0
"""Seconds that a run of the tests may take beyond three times those of the run without a mutant."""

PLUGIN_NAME = "affine-own-tests"

NOTICED, UNNOTICED = "noticed", "never noticed"

OUTCOMES = {
    int(pytest.ExitCode.OK): UNNOTICED,
    int(pytest.ExitCode.TESTS_FAILED): NOTICED,
    int(pytest.ExitCode.INTERRUPTED): NOTICED,
}
"""What the exit status of the tests says of a mutant; xdist interrupts where `-x` stops."""


def configure_own_tests(config: pytest.Config, text: str) -> None:
    """Have this session run its tests against the mutants that fit a function.

    Where the environment names a mutant, this session is a run with it.

    Raises:
        pytest.UsageError: there is no such function, or no mutant fits it.
    """
    if VARIABLE in os.environ:
        PRELOADED.append(laid.__name__)
        return
    if hasattr(config, "workerinput"):
        return
    search_path = (str(config.invocation_params.dir), str(config.rootpath))
    try:
        target = target_of(text, search_path)
        asked = tuple(config.getoption("affine_mutant") or ())
        known = known_mutants(search_path, asked)
        asked_ids = chosen_mutants(known, asked)
        mutants = [mutant for mutant in known if mutant.id in asked_ids]
        faults = [*dict.fromkeys(mutant.fault for mutant in mutants)]
        fitting = spawn(fitting_faults, target, faults, hash_seed=0, deadline=IMPORT_DEADLINE)
    except RankFailure as failure:
        is_told = isinstance(failure.cause.exception, FaultError)
        reason = failure.cause.exception if is_told else failure
        raise pytest.UsageError(f"--affine-mutate: {reason}") from None
    except (FaultError, MutantListError) as error:
        raise pytest.UsageError(f"--affine-mutate: {error}") from None
    chosen = {mutant.fault: mutant for mutant in mutants if mutant.fault in fitting}
    if not chosen:
        which = "of these mutants none" if asked else "no mutant"
        raise pytest.UsageError(f"--affine-mutate: {which} changes {target.method} alone")
    own = OwnTests(config=config, target=target, mutants=tuple(chosen.values()))
    config.pluginmanager.register(own, PLUGIN_NAME)


@dataclass(kw_only=True, eq=False)
class OwnTests:
    """The plugin of such a session.

    Attributes:
        config: the session's.
        target: the function.
        mutants: those that fit it; of several with one fault the last.
        found: by id, whether a mutant was noticed, and in how many seconds.
        num_passed: how many tests passed without a mutant.
        trouble: why no mutant was tried.
    """

    config: pytest.Config
    target: Target
    mutants: Sequence[Mutant]
    found: dict[str, tuple[str, float]] = field(default_factory=dict)
    num_passed: int = 0
    trouble: str = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the tests that passed, in whatever process."""
        self.num_passed += report.when == "call" and report.passed

    def pytest_report_header(self) -> str:
        """Say what is in force."""
        return (
            f"affine: {len(self.mutants)} mutants of {self.target}, which does what "
            f"{self.target.method} does"
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Run the tests, and then again with each mutant."""
        started = time.monotonic()
        done = yield
        seconds = time.monotonic() - started
        if session.config.option.collectonly:
            return done
        if not self.num_passed or session.testsfailed or session.shouldstop:
            self.trouble = "no mutant is tried: without one, the tests must run and pass"
            return done
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line("")
        for mutant in self.mutants:
            self.found[mutant.id] = _tried(
                self._command(),
                self.config.invocation_params.dir,
                environment(self.target, mutant.fault),
                3 * seconds + START_SECONDS,
            )
            if reporter is not None:
                reporter.write_line(f"affine: {mutant.id} {self.found[mutant.id][0]}")
        return done

    def _command(self) -> list[str]:
        """This session's command; what it would write is written elsewhere."""
        given = [*map(str, self.config.invocation_params.args)]
        quiet = ["-x", "-q", "-p", "no:cacheprovider"]
        if self.config.getoption("xmlpath", None):
            quiet.append(f"--junit-xml={os.devnull}")
        return [sys.executable, "-m", "pytest", *given, *quiet]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail if a mutant is never noticed, or none was tried."""
        outcomes = {outcome for outcome, _ in self.found.values()}
        if (self.trouble or outcomes - {NOTICED}) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print which faults the tests notice, and which they never do."""
        terminalreporter.section(f"affine: mutants of {self.target}")
        for line in _lines(self.mutants, self.found) if self.found else [self.trouble]:
            terminalreporter.write_line(line)


def _tried(
    command: Sequence[str], folder: Path, more: Mapping[str, str], deadline: float
) -> tuple[str, float]:
    """Whether a run of the tests fails, and how many seconds it took."""
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **more},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        status = process.wait(deadline)
    except subprocess.TimeoutExpired:
        status = int(pytest.ExitCode.TESTS_FAILED)  # who waits long enough notices
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    outcome = OUTCOMES.get(status, f"not run, exit status {status}")
    return outcome, time.monotonic() - started


HEAD = ("mutant", "would violate", "own tests", "seconds")


def _lines(mutants: Sequence[Mutant], found: Mapping[str, tuple[str, float]]) -> Iterator[str]:
    rows = [
        (mutant.id, mutant.requirement, found[mutant.id][0], f"{found[mutant.id][1]:.1f}")
        for mutant in mutants
        if mutant.id in found
    ]
    yield from table([HEAD, *rows])
    unnoticed = [m for m in mutants if found.get(m.id, ("", 0.0))[0] == UNNOTICED]
    yield ""
    yield f"of {len(rows)} faults the tests never notice {len(unnoticed)}"
    yield from (f"  {mutant.id}: {mutant.sentence}" for mutant in unnoticed)
