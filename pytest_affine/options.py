"""What was asked for on the command line or in the ini file, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_affine.contract.cases import Case
from pytest_affine.errors import AffineTransferError
from pytest_affine.plugin import (
    DEFAULT_EXAMPLES,
    DEFAULT_LEASE_TIMEOUT,
    DEFAULT_RANKS,
    DEFAULT_TIMEOUT,
    INI,
)
from pytest_affine.ranks.hosts import launched_hosts

__all__ = ["LEAST_TIMEOUT", "Options", "read_options"]

LEAST_TIMEOUT = 0.1
"""The shortest deadline that may be asked for, in seconds."""

MOST_TIMEOUT = 86400.0
"""The longest deadline that may be asked for, in seconds."""

MAX_RANKS = 1024

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a session, with their defaults applied.

    Attributes:
        num_ranks: size of the process group.
        backend: its backend.
        device_ids: the devices that the session may use; all there are if None.
        lease_timeout: seconds that ranks may wait for devices that others have leased.
        timeout: seconds that one call in the ranks may take.
        seed: seed of everything that is drawn.
        num_examples: how many cases each property test draws.
        case: the one case to judge, if one was given.
        mutants: the only mutants to try, as ids or `module:attribute`; all if it is empty, and none
            if it is None.
        certificate: the file that a certificate is written to.
        waivers: the file of waivers, if one was given.
    """

    num_ranks: int
    backend: str
    device_ids: tuple[int, ...] | None
    lease_timeout: float
    timeout: float
    seed: int
    num_examples: int
    case: Case | None
    mutants: tuple[str, ...] | None
    certificate: Path | None
    waivers: Path | None


def read_options(config: pytest.Config) -> Options:
    """Read and check the options; `pytest.UsageError` names the option, the value and the rule."""
    num_ranks = len(launched_hosts()) or DEFAULT_RANKS
    return Options(
        num_ranks=_number(config, "affine_ranks", int, num_ranks, least=1, most=MAX_RANKS),
        backend=config.getoption("affine_backend") or "gloo",
        device_ids=_device_ids(config),
        lease_timeout=_seconds(config, "affine_lease_timeout", DEFAULT_LEASE_TIMEOUT),
        timeout=_seconds(config, "affine_timeout", DEFAULT_TIMEOUT),
        seed=_number(config, "affine_seed", int, 0, least=0, most=2**63 - 1),
        num_examples=_number(config, "affine_examples", int, DEFAULT_EXAMPLES, least=1, most=10**6),
        case=_case(config.getoption("affine_case")),
        mutants=_mutants(config),
        certificate=_path(config, "affine_certificate"),
        waivers=_path(config, "affine_waivers"),
    )


def _given(config: pytest.Config, name: str) -> tuple[str | None, str]:
    """What was given, and the name of the option that says so."""
    text, option = config.getoption(name), "--" + name.replace("_", "-")
    if text is None and name in INI:
        text, option = config.getini(name) or None, f"the ini option {name}"
    return text, option


def _device_ids(config: pytest.Config) -> tuple[int, ...] | None:
    text, option = _given(config, "affine_devices")
    if not text:
        return None
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        rule = "must be integers with commas between them"
        raise pytest.UsageError(f"{option} {rule}, got {text!r}") from None


def _seconds(config: pytest.Config, name: str, default: float) -> float:
    return _number(config, name, float, default, least=LEAST_TIMEOUT, most=MOST_TIMEOUT)


def _number(
    config: pytest.Config,
    name: str,
    kind: Callable[[str], Number],
    default: Number,
    *,
    least: Number,
    most: Number,
) -> Number:
    text, option = _given(config, name)
    if text is None:
        return default
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        noun = "an integer" if kind is int else "a number"
        raise pytest.UsageError(f"{option} must be {noun} from {least} to {most}, got {text!r}")
    return value


def _path(config: pytest.Config, name: str) -> Path | None:
    text: str | None = config.getoption(name)
    return None if text is None else config.invocation_params.dir / text


def _mutants(config: pytest.Config) -> tuple[str, ...] | None:
    named: list[str] | None = config.getoption("affine_mutant")
    if named is not None:
        return tuple(named)
    return () if config.getoption("affine_mutants") else None


def _case(text: str | None) -> Case | None:
    if text is None:
        return None
    try:
        return Case.from_line(text)
    except AffineTransferError as error:
        raise pytest.UsageError(f"--affine-case: {error}") from None
