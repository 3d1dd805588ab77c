"""Plan the transfer of a whole model from one sharding to another, and say what it takes."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, fields

from pytest_affine.commands.plan_table import PlannedModel, planned_model, render
from pytest_affine.commands.progress import Bar
from pytest_affine.errors import AffineTransferError
from pytest_affine.models import Model, describe_all, load_model, model_names, parse_sharding
from pytest_affine.plans import PlanBudget, TransferEndpoints
from pytest_affine.reference.replicas import plan_transfers

__all__ = ["HELP", "add_arguments", "plan_model", "run"]

HELP = (
    "Plan the transfer of every parameter of a model from one sharding to another. Rank r of the "
    "source and rank r of the target are taken to be one process."
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
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Plan, and print the table.

    Raises:
        AffineTransferError: an argument of no sense, or a transfer that can not be planned.
    """
    limits = _limits(arguments.limit)
    planned = plan_model(load_model(arguments.layout), arguments.source, arguments.target, limits)
    print(json.dumps(asdict(planned), indent=1) if arguments.json else render(planned))


def plan_model(model: Model, source: str, target: str, limits: PlanBudget) -> PlannedModel:
    """Plan every parameter of a model in one batch, with a progress bar.

    Raises as `parse_sharding`, `Model.parameters_on`, `describe` and `plan_transfers` do.
    """
    ends = [parse_sharding(degrees) for degrees in (source, target)]
    parameters = [model.parameters_on(end) for end in ends]
    num_parameters = len(parameters[0])
    element_size = {parameter.name: _itemsize(parameter.dtype) for parameter in parameters[0]}
    start = time.perf_counter()
    with closing(Bar(3 * num_parameters)) as bar:
        bar.begin("maps")
        maps = [
            describe_all(end.layout, bar.over(own))
            for end, own in zip(ends, parameters, strict=True)
        ]
        described = time.perf_counter()
        bar.begin("plans")
        plans = plan_transfers(
            {name: (map_, maps[1][name]) for name, map_ in maps[0].items()},
            limits=limits,
            endpoints=TransferEndpoints(*({r: r for r in range(e.layout.num_ranks)} for e in ends)),
            element_size=element_size,
        )
        bar.advance(num_parameters)
    return planned_model(
        model=model.name,
        degrees=(source, target),
        maps=(maps[0], maps[1]),
        plans=plans,
        element_size=element_size,
        seconds=(described - start, time.perf_counter() - described),
    )


def _itemsize(dtype: str) -> int:
    import torch

    size: int = getattr(torch, dtype).itemsize
    return size


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
