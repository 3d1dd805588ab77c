"""Verify a certificate offline."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_affine.certificate.document import read_certificate
from pytest_affine.certificate.files import read_text, today
from pytest_affine.certificate.policy import read_policy
from pytest_affine.certificate.verify import report_lines, verify
from pytest_affine.commands.certificates import installed_suite, read_file

__all__ = ["HELP", "add_arguments", "run"]

HELP = (
    "Judge a certificate's records again, offline. Exits with 0 if it is conformant (and does what "
    "the policy and the baseline demand), 1 if it is not, 2 if it can't be read or trusted."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes to its parser."""
    parser.add_argument("file", metavar="FILE", help="a certificate")
    parser.add_argument("--policy", metavar="FILE", help="what a project demands, as TOML")
    parser.add_argument(
        "--baseline", metavar="FILE", help="an earlier certificate, than which it may not be worse"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what the certificate is worth; returns the exit status.

    Raises:
        DocumentError: a file can't be read or trusted.
    """
    baseline = None
    if (path := arguments.baseline) is not None:
        baseline = read_certificate(read_text(Path(path)), path)
    found = verify(
        read_file(arguments.file, installed_suite()),
        day=today(),
        policy=read_policy(Path(arguments.policy)) if arguments.policy is not None else None,
        baseline=baseline,
    )
    print("\n".join(report_lines(found)))
    return 0 if found.is_good else 1
