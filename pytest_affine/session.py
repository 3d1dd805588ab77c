"""A certifying session: what pytest's hooks do while one is in force."""

from __future__ import annotations

import functools
import json
import pkgutil
import shlex
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_affine import conformance
from pytest_affine.certificate.recording import (
    SHOWING,
    Recording,
    remove_old_certificate,
    start_recording,
)
from pytest_affine.certificate.shape import DocumentError
from pytest_affine.certificate.verdicts import run_verdicts
from pytest_affine.contract.discovery import DiscoveryError
from pytest_affine.contract.examination import Examination
from pytest_affine.contract.outcomes import Record
from pytest_affine.contract.proxy import ImplementationProxy, facts_of
from pytest_affine.contract.resident import Facts
from pytest_affine.contract.suite import SuiteTest, restricted, suite_tests
from pytest_affine.contract.verdict import Verdict
from pytest_affine.items import SuiteFile, SuiteItem
from pytest_affine.multirank.leasing import lessor_of
from pytest_affine.mutants import faults
from pytest_affine.mutants.gate import GateResult
from pytest_affine.mutants.session import MutationGate, add_gate
from pytest_affine.options import Options, read_options
from pytest_affine.ranks import (
    Lessor,
    RankFailure,
    RankPool,
    RankSetupError,
    check_backend,
)
from pytest_affine.ranks.processes import PRELOADED
from pytest_affine.summary import header_line, summary_lines

__all__ = ["Certification", "configure"]

PLUGIN_NAME = "affine-certification"

RECORD = "affine_record"
"""Name of the attribute of a report that holds an item's record."""


def configure(config: pytest.Config, name: str) -> None:
    """Check the options, and certify `name` in this session if it is not empty.

    Raises:
        pytest.UsageError: what was asked for can't be had; pytest ends with exit status 4.
    """
    remove_old_certificate(config)
    options = read_options(config)
    # Where tests say how many ranks they take, each is looked at when it runs.
    is_given = bool(name) or config.getoption("affine_ranks") is not None
    try:
        check_backend(options.backend, options.num_ranks if is_given else 1, options.device_ids)
    except RankSetupError as error:
        raise pytest.UsageError(str(error)) from None
    if options.mutants is not None and not (name or config.getoption("affine_mutate")):
        raise pytest.UsageError(
            "--affine-mutants and --affine-mutant need --affine-certify or --affine-mutate"
        )
    if (options.certificate or options.waivers) and not name:
        raise pytest.UsageError("--affine-certificate and --affine-waivers need --affine-certify")
    if name:
        _preload(with_mutants=options.mutants is not None)
        search_path = (str(config.invocation_params.dir), str(config.rootpath))
        facts = _facts(config, name, search_path)
        certification = Certification(
            name=name,
            options=options,
            lessor=lessor_of(config),
            facts=facts,
            search_path=search_path,
        )
        certification.recording = start_recording(config, certification)
        config.pluginmanager.register(certification.recording, "affine-recording")
        if options.mutants is not None:
            certification.gate = add_gate(config, certification)
        if options.case is not None and not any(certification.tests.values()):
            raise pytest.UsageError(
                f"--affine-case: no test of the suite takes a case of kind {options.case.kind!r} "
                f"whose detail has the keys {sorted(options.case.detail)}"
            )
        config.pluginmanager.register(certification, PLUGIN_NAME)


def _preload(*, with_mutants: bool) -> None:
    """Have the suite, and mutants, in the server that ranks are forked from; none has started yet.

    Ranks that are new would each import it anew otherwise.
    """
    for package in (conformance, *([faults] if with_mutants else [])):
        names = [m.name for m in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
        PRELOADED.extend(name for name in names if name not in PRELOADED)


def _facts(config: pytest.Config, name: str, search_path: tuple[str, ...]) -> Facts:
    """What the implementation claims; read in an interpreter of its own, once per session."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        facts: Facts = json.loads(worker[PLUGIN_NAME])
        return facts
    try:
        return facts_of(name, search_path)
    except DiscoveryError as error:
        raise pytest.UsageError(str(error)) from None


@dataclass(kw_only=True, eq=False)
class Certification:
    """The plugin of a certifying session; in an xdist worker it runs tests and judges nothing."""

    name: str
    options: Options
    lessor: Lessor
    facts: Facts
    search_path: tuple[str, ...]
    records: list[Record] = field(default_factory=list)
    num_deselected: int = 0
    trouble: str = ""
    collect_only: bool = False
    gate: MutationGate | None = None
    recording: Recording = field(init=False)

    @functools.cached_property
    def suite(self) -> dict[str, tuple[SuiteTest, ...]]:
        """The suite's tests by module, restricted to one case if one was given."""
        tests = suite_tests()
        return tests if self.options.case is None else restricted(tests, self.options.case)

    @functools.cached_property
    def tests(self) -> dict[str, tuple[SuiteTest, ...]]:
        """Those of the suite that this session runs: all, unless some mutants only are tried."""
        return self.suite if self.gate is None else self.gate.controls(self.suite)

    @functools.cached_property
    def pool(self) -> RankPool:
        """The session's ranks, which start when they are first called."""
        return RankPool(
            self.options.num_ranks,
            backend=self.options.backend,
            deadline=self.options.timeout,
            seed=self.options.seed,
            device_ids=self.options.device_ids,
            lessor=self.lessor,
        )

    @functools.cached_property
    def implementation(self) -> ImplementationProxy:
        """The implementation in its ranks."""
        return ImplementationProxy(self.pool, self.name, self.facts, self.search_path)

    def command(self, *more: str) -> str:
        """The command of a session that certifies the same in the same ranks, with more options."""
        arguments = [
            "pytest",
            f"--affine-certify={self.name}",
            f"--affine-ranks={self.options.num_ranks}",
            f"--affine-backend={self.options.backend}",
        ]
        return shlex.join([*arguments, *more])

    @property
    def examination(self) -> Examination:
        """How cases are drawn."""
        return Examination(num_examples=self.options.num_examples, seed=self.options.seed)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict of each profile, from the records so far."""
        return run_verdicts(self.recording.run)

    @property
    def gate_result(self) -> GateResult | None:
        """The verdict on the mutants, if any are tried."""
        return None if self.gate is None else self.gate.result

    def pytest_report_header(self) -> str:
        """Say what is in force."""
        return header_line(self.name, self.facts["version"], self.options)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give an xdist worker what is known of the implementation."""
        node.workerinput[PLUGIN_NAME] = json.dumps(self.facts)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Keep pytest from collecting the suite's files a second time."""
        path = collection_path.resolve()
        return True if SUITE in (path, *path.parents) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Add the suite, before anything is selected by keyword or mark."""
        self.collect_only = any(config.getoption(option) for option in SHOWING)
        items.extend(self._suite_items(session))

    def _suite_items(self, session: pytest.Session) -> Iterator[pytest.Item]:
        for module, tests in self.tests.items():
            file = SuiteFile.from_parent(
                session,
                path=SUITE / f"{module}.py",
                nodeid=f"pytest_affine/conformance/{module}.py",
                tests=tests,
                certification=self,
            )
            yield from session.genitems(file)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count the suite's items that were deselected."""
        self.num_deselected += sum(isinstance(item, SuiteItem) for item in items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put an item's record into its report, which xdist carries to the controller."""
        report = yield
        if call.when == "call" and isinstance(item, SuiteItem) and item.record is not None:
            setattr(report, RECORD, item.record.to_dict())
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the record of an item, whichever process it ran in."""
        if (entry := getattr(report, RECORD, None)) is not None:
            self.records.append(Record.from_dict(entry))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End the ranks; a verdict of error or violated makes the exit status 1."""
        self.stop()
        if "pool" in self.__dict__:
            self.pool.close()
        self.recording.note_end(session)
        config = session.config
        if hasattr(config, "workeroutput"):
            config.workeroutput[PLUGIN_NAME] = [self.num_deselected, self.trouble]
        elif not self.collect_only and session.exitstatus in UNDECIDED:
            words = {verdict.word for verdict in self.verdicts}
            words |= {f"gate {gate.verdict}"} if (gate := self.gate_result) else set()
            failed = bool(self.trouble or self.recording.troubles)
            failed = failed or bool(words & {"error", "violated", "gate failed"})
            session.exitstatus = pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK
        self._write_certificate(session)

    def _write_certificate(self, session: pytest.Session) -> None:
        try:
            self.recording.write(session)
        except DocumentError as error:
            self.trouble = f"the certificate was not written: {error}"
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def stop(self) -> None:
        """Stop the implementation in its ranks, where it was started."""
        if "implementation" not in self.__dict__:
            return
        try:
            self.implementation.close()
        except RankFailure as failure:
            self.trouble = f"the implementation's stop failed: {failure}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what an xdist worker found; every worker deselects the same items."""
        output = getattr(node, "workeroutput", None) or {}
        num_deselected, trouble = output.get(PLUGIN_NAME, (0, ""))
        self.num_deselected = max(self.num_deselected, num_deselected)
        self.trouble = self.trouble or trouble

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of requirements and the verdicts."""
        if self.collect_only:
            return
        terminalreporter.section(f"affine: {self.name} {self.facts['version']}")
        for line in summary_lines(self.verdicts):
            terminalreporter.write_line(line)
        for line in self.recording.troubles:
            terminalreporter.write_line(f"fails the session: {line}")
        for line in self.trouble.splitlines():
            terminalreporter.write_line(line)
        if self.recording.message:
            terminalreporter.write_line(self.recording.message)


SUITE = (Path(__file__).parent / "conformance").resolve()

UNDECIDED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
"""Exit statuses of pytest that the verdict may change."""
