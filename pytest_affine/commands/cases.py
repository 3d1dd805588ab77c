"""What the commands that take a case have in common: how one is given."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_affine.contract.cases import Case
from pytest_affine.errors import AffineTransferError

__all__ = ["add_case", "read_case"]


def add_case(parser: argparse.ArgumentParser) -> None:
    """Add the argument that `read_case` reads."""
    parser.add_argument("case", help="a case as a failure prints it, or a file that holds one")


def read_case(given: str) -> Case:
    """The case of a command line: a line of JSON, or the name of a file that holds one.

    Raises:
        AffineTransferError: no such file, or what it holds is no case.
    """
    if given.lstrip().startswith("{"):
        return Case.from_line(given)
    try:
        return Case.from_line(Path(given).read_text())
    except OSError as error:
        reason = error.strerror or error
        raise AffineTransferError(f"no file {given!r} can be read: {reason}") from None
