"""What a certifying session keeps for its certificate: waivers, its end, and what it ran on."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_affine import __version__
from pytest_affine.certificate.digests import suite_digest
from pytest_affine.certificate.document import to_document, to_text
from pytest_affine.certificate.files import remove_old, today, write_atomically
from pytest_affine.certificate.provenance import device_names, subject_of
from pytest_affine.certificate.record import Certificate, Run, Subject
from pytest_affine.certificate.shape import DocumentError
from pytest_affine.certificate.verdicts import waiver_troubles
from pytest_affine.certificate.waivers import WAIVERS_FILE, Waiver, read_waivers, waived_by
from pytest_affine.contract.suite import planned_cases

if TYPE_CHECKING:
    from pytest_affine.session import Certification

__all__ = ["SHOWING", "Recording", "remove_old_certificate", "start_recording"]

SHOWING = ("collectonly", "showfixtures", "show_fixtures_per_test")
"""Options of pytest with which no test runs."""

WRITTEN_AFTER = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.INTERRUPTED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
"""Exit statuses after which there is something to certify."""


def remove_old_certificate(config: pytest.Config) -> None:
    """Remove what an earlier session wrote, before anything can fail: it is not of this one.

    Raises:
        pytest.UsageError: no file can be written there.
    """
    text = config.getoption("affine_certificate")
    if text is not None and _is_judging(config):
        try:
            remove_old(config.invocation_params.dir / text)
        except DocumentError as error:
            raise pytest.UsageError(f"--affine-certificate: {error}") from None


def _is_judging(config: pytest.Config) -> bool:
    """Whether tests will run, and be judged in this process."""
    is_shown = any(config.getoption(option) for option in SHOWING)
    return not is_shown and not hasattr(config, "workerinput")


def start_recording(config: pytest.Config, certification: Certification) -> Recording:
    """Read the waivers, and what a certificate says of the implementation as it is now.

    Raises:
        pytest.UsageError: waivers that can't be read, or a distribution that isn't installed.
    """
    options = certification.options
    try:
        given = options.waivers or config.rootpath / WAIVERS_FILE
        has_waivers = options.waivers is not None or given.is_file()
        waivers = read_waivers(given) if has_waivers else ()
        recording = Recording(
            certification=certification,
            waivers=tuple(w for w in waivers if w.is_in_scope(options.backend, options.num_ranks)),
        )
        if options.certificate is not None and _is_judging(config):
            recording.target = Target(
                path=options.certificate,
                suite=suite_digest(),
                subject=subject_of(certification.name, certification.facts),
                devices=device_names(options.backend),
            )
    except DocumentError as error:
        raise pytest.UsageError(str(error)) from None
    return recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the certificate goes, and what was there when the session started."""

    path: Path
    suite: str
    subject: Subject
    devices: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class Recording:
    """A plugin of a certifying session; in an xdist worker it only knows of waivers."""

    certification: Certification
    waivers: tuple[Waiver, ...]
    target: Target | None = None
    ends: list[str] = field(default_factory=list)
    day: date = field(default_factory=today)
    message: str = ""

    @functools.cached_property
    def waived(self) -> Callable[[str, str], str]:
        """Says of a requirement and a case how it is waived, and "" where it is not."""
        return waived_by(self.waivers, self.day)

    @property
    def run(self) -> Run:
        """The session so far, without its mutants."""
        certification, options = self.certification, self.certification.options
        trouble = certification.trouble
        planned = planned_cases(certification.tests)
        return Run(
            backend=options.backend,
            num_ranks=options.num_ranks,
            devices=self.target.devices if self.target else (),
            versions={
                "pytest": pytest.__version__,
                "python": platform.python_version(),
                "torch": metadata.version("torch"),
            },
            date=self.day,
            seed=options.seed,
            num_examples=options.num_examples,
            case=options.case.id if options.case else None,
            claims=certification.facts["claims"],
            planned=_sorted(planned),
            records=tuple(certification.records),
            num_deselected=certification.num_deselected,
            incomplete=(*self.ends, *([trouble.splitlines()[0]] if trouble else [])),
            waivers=self.waivers,
            gate=None,
        )

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong with the waivers."""
        return waiver_troubles(self.run, self.day)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Keep what stopped the session: a person, a failure with -x, an error of collection."""
        what = str(excinfo.value) or excinfo.typename
        self.ends.append(f"the session was interrupted: {what}")

    def note_end(self, session: pytest.Session) -> None:
        """Keep what ended the session before its last test."""
        if self.ends:
            return
        if reason := session.shouldfail or session.shouldstop:
            self.ends.append(f"the session ended early: {reason}")
        elif session.exitstatus not in WRITTEN_AFTER:
            self.ends.append(f"the session ended with exit status {int(session.exitstatus)}")

    def write(self, session: pytest.Session) -> None:
        """Write the certificate, unless pytest itself failed.

        Raises:
            DocumentError: the file can't be written.
        """
        if self.target is None or session.exitstatus not in WRITTEN_AFTER:
            return
        gate = self.certification.gate_result
        # With some mutants only, the session runs a part of the suite; a certificate is of all.
        planned = _sorted(planned_cases(self.certification.suite))
        run = replace(self.run, planned=planned, gate=gate.to_dict() if gate else None)
        certificate = Certificate(
            pytest_affine=__version__,
            suite=self.target.suite,
            subject=self.target.subject,
            runs=(run,),
        )
        document = to_document(certificate)
        write_atomically(self.target.path, to_text(document))
        self.message = f"certificate: {self.target.path} ({document['verdict']})"


def _sorted(planned: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The order of cases does not depend on that of the suite, so that a file can say the same."""
    return {id_: tuple(sorted(cases)) for id_, cases in planned.items()}
