"""Judge an implementation in one case again, without pytest."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_affine.commands.cases import add_case, read_case
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.errors import AffineTransferError
from pytest_affine.plugin import DEFAULT_RANKS, DEFAULT_TIMEOUT
from pytest_affine.ranks import RankPool, RankSetupError

if TYPE_CHECKING:
    from pytest_affine.replay.judging import Replayed

__all__ = ["HELP", "add_arguments", "run"]

HELP = (
    "Judge an implementation in one case, by every requirement that takes such a case, and say "
    "what is wrong. The exit status is 1 if anything is."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes to its parser."""
    add_case(parser)
    parser.add_argument(
        "--implementation",
        required=True,
        metavar="NAME",
        help="a registered name, or module:attribute",
    )
    parser.add_argument(
        "--requirement",
        action="append",
        default=[],
        metavar="ID",
        help="judge by this requirement only; may be repeated",
    )
    parser.add_argument("--ranks", type=int, default=DEFAULT_RANKS, metavar="N")
    parser.add_argument("--backend", default="gloo", metavar="NAME", help="gloo, nccl or xccl")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT, metavar="SECONDS")
    parser.add_argument(
        "--script",
        type=Path,
        metavar="FILE",
        help="write a script that makes the calls which the first violation comes from, with the "
        "package behind the adapter alone",
    )


def run(given: argparse.Namespace) -> int:
    """Run the command; returns 1 if a requirement is violated."""
    from pytest_affine.replay.judging import chosen_tests, replayed  # which import torch

    tests = chosen_tests(case := read_case(given.case), given.requirement)
    num_faults = 0
    with _pool(given) as pool:
        for each in replayed(case, tests, given.implementation, pool, [os.getcwd()]):
            print(_told(each))
            num_faults += each.finding.record.outcome in FAULTS
            if given.script is not None and each.finding.record.outcome is Outcome.VIOLATED:
                print(_written(each, given.script))
                given.script = None
    return int(num_faults > 0)


FAULTS = (Outcome.VIOLATED, Outcome.ADAPTER_ERROR)


def _pool(given: argparse.Namespace) -> RankPool:
    try:
        return RankPool(given.ranks, backend=given.backend, deadline=given.timeout)
    except RankSetupError as error:
        raise AffineTransferError(str(error)) from None


def _told(each: Replayed) -> str:
    record = each.finding.record
    text = each.finding.text.rstrip() or record.reason
    shown = "".join(f"\n  {line}" for line in text.splitlines())
    return f"{record.requirement} {record.outcome.value} ({each.test.name}){shown}"


def _written(each: Replayed, path: Path) -> str:
    if each.script is None:
        return "no script is written: no call from the adapter into another package was seen"
    path.write_text(each.script)
    return f"a script of the calls was written to {path}"
