"""What the commands that read certificates have in common: the edge around pure functions."""

from __future__ import annotations

from pathlib import Path

from pytest_affine.certificate.digests import suite_digest
from pytest_affine.certificate.files import read_text
from pytest_affine.certificate.record import Certificate
from pytest_affine.certificate.verify import Suite, read_trusted

__all__ = ["installed_suite", "read_file"]


def installed_suite() -> Suite:
    """The suite of this installation."""
    from pytest_affine.contract.suite import planned_cases, suite_tests

    return Suite(suite_digest(), planned_cases(suite_tests()))


def read_file(path: str, suite: Suite) -> Certificate:
    """The certificate in a file, as far as it can be trusted.

    Raises:
        DocumentError: it can't be.
    """
    return read_trusted(read_text(Path(path)), path, suite)
