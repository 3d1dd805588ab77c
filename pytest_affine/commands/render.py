"""Render a certificate for those who read other formats."""

from __future__ import annotations

import argparse

from pytest_affine.certificate.files import today
from pytest_affine.certificate.render import FORMATS
from pytest_affine.certificate.verify import verify
from pytest_affine.commands.certificates import installed_suite, read_file

__all__ = ["HELP", "add_arguments", "run"]

HELP = (
    "Print a certificate as a badge of shields.io (its endpoint JSON), as Markdown for the page of "
    "a job, or as an in-toto Statement to be signed."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes to its parser."""
    parser.add_argument("file", metavar="FILE", help="a certificate")
    parser.add_argument("--format", required=True, choices=FORMATS, help="what to print")


def run(arguments: argparse.Namespace) -> int:
    """Print it; returns the exit status, which does not depend on the verdict.

    Raises:
        DocumentError: the file can't be read or trusted.
    """
    found = verify(read_file(arguments.file, installed_suite()), day=today())
    print(FORMATS[arguments.format](found), end="")
    return 0
