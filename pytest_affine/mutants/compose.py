"""Laying a fault over an implementation, and what can be said of it beforehand."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import TypedDict

from pytest_affine.contract.discovery import GROUP, find_implementation
from pytest_affine.contract.implementation import METHODS, Implementation

__all__ = ["FaultError", "FaultFacts", "compose", "make_faulty", "read_faults"]


class FaultError(ValueError):
    """A mutant's class cannot be had, or made, or laid over an implementation."""


class FaultFacts(TypedDict):
    """What the controller knows of a fault.

    `methods`: what it overrides of the contract. `files`: where it is written. `belongs_to`: the
    implementation that it is for, if it is for another one. `error`: why it cannot be had.
    """

    methods: list[str]
    files: list[str]
    belongs_to: str
    error: str


def compose(fault: str, base: type[Implementation]) -> type[Implementation]:
    """The implementation `base` with a fault: what the fault's `super()` calls is `base`.

    Raises:
        FaultError: no such class, or none that can be laid over `base`.
    """
    found = _find(fault)
    try:
        return type(found.__name__, (found, base), {})
    except TypeError as error:
        raise FaultError(
            f"fault {fault!r} cannot be laid over {base.__qualname__}: {error}"
        ) from error


def make_faulty(fault: str, base: type[Implementation]) -> Implementation:
    """An instance of `base` with a fault.

    Raises:
        FaultError: as `compose`, or its constructor raises.
    """
    kind = compose(fault, base)
    try:
        return kind()
    except Exception as error:
        raise FaultError(
            f"fault {fault!r} cannot be made: {type(error).__name__}: {error}"
        ) from error


def read_faults(
    name: str, search_path: Sequence[str], faults: Sequence[str]
) -> dict[str, FaultFacts]:
    """Import faults beside the implementation called `name`, and describe each. Makes none."""
    base = find_implementation(name, search_path)
    return {fault: facts_of(fault, base) for fault in faults}


def _find(fault: str) -> type[Implementation]:
    try:
        found = EntryPoint(name=fault, value=fault, group="").load()
    except Exception as error:
        raise FaultError(
            f"fault {fault!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Implementation)):
        raise FaultError(
            f"fault {fault!r} must be a subclass of pytest_affine.Implementation, got {found!r}"
        )
    return found


def facts_of(fault: str, base: type[Implementation]) -> FaultFacts:
    facts = FaultFacts(methods=[], files=[], belongs_to="", error="")
    try:
        found = _find(fault)
        if belongs_to := _other_implementation(found, base):
            return {**facts, "belongs_to": belongs_to}
        compose(fault, base)
        own = [kind for kind in found.__mro__ if not issubclass(base, kind)]
        files = dict.fromkeys(inspect.getsourcefile(kind) or "" for kind in own)
    except (FaultError, TypeError, OSError) as error:
        return {**facts, "error": str(error)}
    methods = [method for method in METHODS if any(method in vars(kind) for kind in own)]
    return {**facts, "methods": methods, "files": [*files]}


def _other_implementation(found: type, base: type) -> str:
    """The registered implementation that a fault derives from, unless that is `base`."""
    if issubclass(found, base):
        return ""
    registered = {entry.value: entry.name for entry in entry_points(group=GROUP)}
    names = (registered.get(f"{kind.__module__}:{kind.__qualname__}") for kind in found.__mro__)
    return next(filter(None, names), "")
