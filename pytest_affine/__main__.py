"""The command line: `python -m pytest_affine COMMAND`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pytest_affine.certificate.shape import DocumentError
from pytest_affine.commands import explain, merge, plan, render, replay, verify
from pytest_affine.errors import AffineTransferError

__all__ = ["main"]

COMMANDS = {
    "plan": plan,
    "replay": replay,
    "explain": explain,
    "verify": verify,
    "merge": merge,
    "render": render,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: its own, or 2 for what can not be done as asked."""
    parser = argparse.ArgumentParser(prog="python -m pytest_affine")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        described = commands.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(described)
        described.set_defaults(run=command.run)
    given = parser.parse_args(arguments)
    try:
        status: int | None = given.run(given)
    except (AffineTransferError, DocumentError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return status or 0


if __name__ == "__main__":
    sys.exit(main())
