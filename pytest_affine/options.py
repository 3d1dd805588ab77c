"""What was asked for on the command line, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pytest

from pytest_affine.contract.cases import Case
from pytest_affine.errors import AffineTransferError
from pytest_affine.plugin import DEFAULT_EXAMPLES, DEFAULT_RANKS, DEFAULT_TIMEOUT

__all__ = ["Options", "read_options"]

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a session, with their defaults applied.

    Attributes:
        num_ranks: size of the process group.
        backend: its backend.
        timeout: seconds that one call in the ranks may take.
        seed: seed of everything that is drawn.
        num_examples: how many cases each property test draws.
        case: the one case to judge, if one was given.
    """

    num_ranks: int
    backend: str
    timeout: float
    seed: int
    num_examples: int
    case: Case | None


def read_options(config: pytest.Config) -> Options:
    """Read and check the options; `pytest.UsageError` names the option, the value and the rule."""
    return Options(
        num_ranks=_number(config, "affine_ranks", int, DEFAULT_RANKS, least=1),
        backend=config.getoption("affine_backend") or "gloo",
        timeout=_number(config, "affine_timeout", float, DEFAULT_TIMEOUT, least=0.1),
        seed=_number(config, "affine_seed", int, 0, least=0),
        num_examples=_number(config, "affine_examples", int, DEFAULT_EXAMPLES, least=1),
        case=_case(config.getoption("affine_case")),
    )


def _number(
    config: pytest.Config,
    name: str,
    kind: Callable[[str], Number],
    default: Number,
    *,
    least: Number,
) -> Number:
    text = config.getoption(name)
    if text is None:
        return default
    option = "--" + name.replace("_", "-")
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value < float("inf"):
        noun = "an integer" if kind is int else "a number"
        raise pytest.UsageError(f"{option} must be {noun} of {least} or more, got {text!r}")
    return value


def _case(text: str | None) -> Case | None:
    if text is None:
        return None
    try:
        return Case.from_line(text)
    except AffineTransferError as error:
        raise pytest.UsageError(f"--affine-case: {error}") from None
