"""Draw the sync of a case: who holds what, what moves, and what stays."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_affine.certificate.files import write_atomically
from pytest_affine.commands.cases import add_case, read_case
from pytest_affine.explaining.holdings import explain
from pytest_affine.explaining.page import to_page
from pytest_affine.explaining.text import to_text

__all__ = ["HELP", "add_arguments", "run"]

HELP = (
    "Draw the sync of a case, parameter by parameter: who holds what on either side, what moves "
    "from process to process in the reference's plan, and what stays."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes to its parser."""
    add_case(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it as a page too")


def run(given: argparse.Namespace) -> int:
    """Print the drawing, and write the page if there is to be one; returns the exit status.

    Raises:
        AffineTransferError: the case can't be read, has no sync, or has an unknown dtype.
        DocumentError: the page can't be written.
    """
    explained = explain(read_case(given.case))
    print(to_text(explained))
    if given.html is not None:
        write_atomically(given.html, to_page(explained))
        print(f"\na page was written to {given.html}")
    return 0
