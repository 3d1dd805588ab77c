"""Plan the transfer of a whole model from one sharding to another, and say what it takes."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pytest_affine.commands.model_batch import plan_batch
from pytest_affine.commands.plan_table import planned_model, render
from pytest_affine.errors import AffineTransferError
from pytest_affine.models import load_model, model_names
from pytest_affine.plans import PlanBudget, StagingBudget, TransferEndpoints
from pytest_affine.reference.analyzer import (
    PathOf,
    analyze_transfers,
    default_path_of,
    node_path_of,
    report_to_dict,
)

__all__ = ["HELP", "add_arguments", "run"]

HELP = (
    "Plan the transfer of every parameter of a model from one sharding to another, and say what it "
    "takes. Rank r of the source and rank r of the target are taken to be one process."
)
LIMITS = tuple(field.name for field in fields(PlanBudget))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes to its parser."""
    parser.add_argument(
        "--layout", required=True, metavar="MODEL", help=f"one of {', '.join(model_names())}"
    )
    degrees = "degrees of parallelism, such as tp8,fsdp64 or tp4,ep8,etp1,dp2 or tp16,pp32"
    for side in ("source", "target"):
        parser.add_argument(f"--{side}", required=True, metavar="DEGREES", help=degrees)
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="what planning one parameter may take, may be repeated; NAME is one of "
        + ", ".join(LIMITS),
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="let target rank r be process N + r, where the source has N ranks",
    )
    parser.add_argument(
        "--budget",
        type=int,
        default=StagingBudget().bytes_per_peer,
        metavar="BYTES",
        help="bytes staged per peer and direction at one time (%(default)s)",
    )
    parser.add_argument(
        "--per-node",
        type=int,
        metavar="PROCESSES",
        help="tell apart what stays on a node of so many processes",
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument("--report", metavar="FILE", help="write the whole analysis as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Plan, print the table, and write the report if there is to be one.

    Raises:
        AffineTransferError: an argument of no sense, a transfer that can not be planned, or a file
            that can not be written.
    """
    batch = plan_batch(
        load_model(arguments.layout),
        arguments.source,
        arguments.target,
        apart=arguments.apart,
        limits=_limits(arguments.limit),
    )
    start = time.perf_counter()
    report = analyze_transfers(
        batch.plans,
        batch.endpoints,
        element_size=batch.element_size,
        budget=StagingBudget(arguments.budget),
        path_of=_path_of(batch.endpoints, arguments.per_node),
    )
    planned = planned_model(batch, report, time.perf_counter() - start)
    if arguments.report is not None:
        _write(report_to_dict(report), arguments.report)
    print(json.dumps(asdict(planned), indent=1) if arguments.json else render(planned))


def _path_of(endpoints: TransferEndpoints, per_node: int | None) -> PathOf:
    if per_node is None:
        return default_path_of
    if per_node < 1:
        raise AffineTransferError(f"--per-node must be 1 or more, got {per_node}")
    return node_path_of({process: process // per_node for process in endpoints.processes})


def _write(report: dict[str, Any], path: str) -> None:
    try:
        Path(path).write_text(json.dumps(report, separators=(",", ":")) + "\n")
    except OSError as error:
        raise AffineTransferError(f"--report {path}: {error.strerror}") from error


def _limits(given: Sequence[str]) -> PlanBudget:
    limits = {}
    for text in given:
        name, _, number = text.partition("=")
        if name not in LIMITS:
            raise AffineTransferError(f"--limit must name one of {list(LIMITS)}, got {text!r}")
        if not number.isascii() or not number.isdecimal():
            raise AffineTransferError(
                f"--limit {name} must be an integer of 0 or more, as in {name}=100, got {text!r}"
            )
        limits[name] = int(number)
    return PlanBudget(**limits)
