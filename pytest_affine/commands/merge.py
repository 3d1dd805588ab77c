"""Merge certificates of several backends and numbers of ranks."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_affine.certificate.document import to_document, to_text
from pytest_affine.certificate.files import write_atomically
from pytest_affine.certificate.merge import merge
from pytest_affine.commands.certificates import installed_suite, read_file

__all__ = ["HELP", "add_arguments", "run"]

HELP = (
    "Make one certificate of several: the runs of one suite on one implementation, on whatever "
    "backends and numbers of ranks. The worst of them is its verdict."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes to its parser."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a certificate")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the merged one")


def run(arguments: argparse.Namespace) -> int:
    """Write the merged certificate; returns the exit status.

    Raises:
        DocumentError: a file can't be read or trusted, or what they are of differs.
    """
    suite = installed_suite()
    merged = merge([(path, read_file(path, suite)) for path in arguments.files])
    document = to_document(merged)
    write_atomically(Path(arguments.output), to_text(document))
    titles = "; ".join(run.title for run in merged.runs)
    print(f"{arguments.output}: {document['verdict']}, of {len(merged.runs)} runs: {titles}")
    return 0
