"""The gate in a certifying session: what pytest's hooks do while mutants are tried."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_affine.contract.manifest import REQUIREMENTS, unclaimed
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.proxy import IMPORT_DEADLINE, ImplementationProxy
from pytest_affine.contract.suite import SuiteTest
from pytest_affine.mutants.compose import FaultFacts, read_faults
from pytest_affine.mutants.gate import GateResult, MutantResult, judge_gate
from pytest_affine.mutants.items import MutantFile, MutantItem
from pytest_affine.mutants.listing import MutantListError, chosen_mutants, known_mutants
from pytest_affine.mutants.mutant import Mutant
from pytest_affine.mutants.report import gate_lines
from pytest_affine.mutants.trial import Trial, ruled_out, try_mutant
from pytest_affine.ranks import RankFailure, spawn

if TYPE_CHECKING:
    from pytest_affine.session import Certification

__all__ = ["HANG_SECONDS", "MutationGate", "add_gate"]

HANG_SECONDS = 5.0
"""Deadline of a call to a mutant that hangs, unless the session's is shorter."""

PLUGIN_NAME = "affine-mutants"

RESULT = "affine_mutant"
"""Name of the attribute of a report that holds a mutant's result."""


def add_gate(config: pytest.Config, certification: Certification) -> MutationGate:
    """Have this session try mutants once it has certified.

    Raises:
        pytest.UsageError: mutants can't be had; pytest ends with exit status 4.
    """
    asked, search_path = certification.options.mutants or (), certification.search_path
    try:
        mutants = known_mutants(search_path, asked)
        chosen = chosen_mutants(mutants, asked)
    except MutantListError as error:
        raise pytest.UsageError(str(error)) from None
    gate = MutationGate(
        certification=certification,
        mutants=mutants,
        chosen=chosen,
        faults=_fault_facts(config, certification, [m for m in mutants if m.id in chosen]),
    )
    config.pluginmanager.register(gate, PLUGIN_NAME)
    return gate


def _fault_facts(
    config: pytest.Config, certification: Certification, mutants: Sequence[Mutant]
) -> dict[str, FaultFacts]:
    """What the mutants' faults are; read in an interpreter of its own, once per session."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        facts: dict[str, FaultFacts] = json.loads(worker[PLUGIN_NAME])
        return facts
    names = [*dict.fromkeys(mutant.fault for mutant in mutants)]
    path = certification.search_path
    try:
        return spawn(
            read_faults, certification.name, path, names, hash_seed=0, deadline=IMPORT_DEADLINE
        )
    except RankFailure as failure:
        raise pytest.UsageError(f"the mutants cannot be imported: {failure}") from None


@dataclass(kw_only=True, eq=False)
class MutationGate:
    """The plugin of the gate; in an xdist worker it tries mutants and judges nothing.

    Attributes:
        certification: what the session certifies.
        mutants: all that there are.
        chosen: by id of a mutant that is tried, what asks for it on the command line.
        faults: what is known of each mutant's fault, by its name.
        results: what became of the mutants so far.
        seconds: how long each took, by its id.
    """

    certification: Certification
    mutants: tuple[Mutant, ...]
    chosen: Mapping[str, str]
    faults: Mapping[str, FaultFacts]
    results: list[MutantResult] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def tried(self) -> tuple[Mutant, ...]:
        """The mutants that are tried, in the order of the catalogue."""
        return tuple(mutant for mutant in self.mutants if mutant.id in self.chosen)

    @property
    def result(self) -> GateResult:
        """The verdict on what was tried so far."""
        certification = self.certification
        claims = certification.facts["claims"]
        return judge_gate(
            self.results,
            self.mutants,
            [row.id for row in REQUIREMENTS.values() if not unclaimed(row.methods, claims)],
            self._control(),
            needs_all=certification.name == "reference",
        )

    def _control(self) -> dict[tuple[str, str], Outcome]:
        """The outcome of every case without a mutant; the worst one counts."""
        return {
            (record.requirement, record.case): record.outcome
            for verdict in self.certification.verdicts
            for judgement in verdict.judgements
            for record in judgement.records
        }

    def controls(
        self, tests: Mapping[str, tuple[SuiteTest, ...]]
    ) -> dict[str, tuple[SuiteTest, ...]]:
        """Those of the suite's tests that must be right before these mutants are judged."""
        if not self.certification.options.mutants:
            return {**tests}
        wanted = {id_ for mutant in self.tried for id_ in (mutant.requirement, *mutant.also)}
        return {
            module: tuple(test for test in held if test.requirement in wanted)
            for module, held in tests.items()
        }

    def trial(self, mutant: Mutant) -> Trial:
        """Try one mutant in the session's ranks, which are new before it and after it."""
        certification, facts = self.certification, self.faults[mutant.fault]
        if result := ruled_out(mutant, facts, certification.facts["claims"]):
            return Trial(result=result)
        certification.stop()
        pool, deadline = certification.pool, certification.pool.deadline
        pool.discard()
        faulty = ImplementationProxy(
            pool,
            certification.name,
            certification.facts,
            certification.search_path,
            fault=mutant.fault,
            own_files=() if mutant.raises else facts["files"],
        )
        tests = [test for held in certification.suite.values() for test in held]
        how = replace(certification.examination, shrink=False)
        try:
            pool.deadline = min(deadline, HANG_SECONDS) if mutant.hangs else deadline
            return try_mutant(mutant, tests, faulty, certification.implementation, how)
        finally:
            pool.deadline = deadline
            pool.discard()

    def rerun(self, mutant: Mutant) -> str:
        """The command that tries one mutant again."""
        options = self.certification.options
        given = [
            f"--affine-seed={options.seed}",
            f"--affine-examples={options.num_examples}",
            f"--affine-mutant={self.chosen[mutant.id]}",
        ]
        if options.case is not None:
            given.append(f"--affine-case={options.case.to_line()}")
        return self.certification.command(*given)

    def pytest_report_header(self) -> str:
        """Say how many mutants are tried."""
        return f"affine: gate with {len(self.chosen)} of {len(self.mutants)} mutants"

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give an xdist worker what is known of the mutants' faults."""
        node.workerinput[PLUGIN_NAME] = json.dumps(self.faults)

    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        """Add the mutants after the suite, and before anything is selected by keyword or mark."""
        path = Path(__file__).parent
        file = MutantFile.from_parent(session, path=path, nodeid="pytest_affine/mutants", gate=self)
        items.extend(session.genitems(file))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put a mutant's result into its report, which xdist carries to the controller."""
        report = yield
        if call.when == "call" and isinstance(item, MutantItem) and item.result is not None:
            setattr(report, RESULT, item.result.to_dict())
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of a mutant, whichever process it was tried in."""
        if (entry := getattr(report, RESULT, None)) is not None:
            self.results.append(MutantResult.from_dict(entry))
            self.seconds[entry["id"]] = report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of mutants and the verdict."""
        if self.certification.collect_only:
            return
        terminalreporter.section("affine: mutants")
        for line in gate_lines(self.result, self.seconds):
            terminalreporter.write_line(line)
