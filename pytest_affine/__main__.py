"""The command line: `python -m pytest_affine COMMAND`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pytest_affine.commands import plan
from pytest_affine.errors import AffineTransferError

__all__ = ["main"]

COMMANDS = {"plan": plan}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, or 2 for what can not be done as asked."""
    parser = argparse.ArgumentParser(prog="python -m pytest_affine")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        described = commands.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(described)
        described.set_defaults(run=command.run)
    given = parser.parse_args(arguments)
    try:
        given.run(given)
    except AffineTransferError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
