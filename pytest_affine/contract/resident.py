"""The rank's side of the contract: the implementation that lives in a rank."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pytest_affine import errors
from pytest_affine.contract.discovery import find_implementation
from pytest_affine.contract.implementation import METHODS, Implementation, claims_of
from pytest_affine.contract.returns import check_return
from pytest_affine.errors import AffineTransferError

__all__ = ["Facts", "Resident", "call_resident", "read_facts", "start_resident"]


class Resident:
    """An implementation as the suite sees it in a rank.

    A stage that it does not claim is supplied by the reference, and what it returns is checked
    for its type, so that a slip in an adapter is told apart from a fault behind it.
    """

    def __init__(self, implementation: Implementation, substitute: Implementation) -> None:
        self.implementation = implementation
        self._substitute = substitute
        self._claims = claims_of(type(implementation))

    def __getattr__(self, name: str) -> Any:
        """A method of the contract, by its name."""
        if name not in METHODS:
            raise AttributeError(f"the contract has no method {name!r}; it has {METHODS}")
        owner = self.implementation if name in self._claims else self._substitute
        return _checked(name, getattr(owner, name))


def _checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        value = method(*args, **kwargs)
        check_return(name, value)
        return value

    return call


def make_resident(name: str, search_path: Sequence[str]) -> Resident:
    """Make an instance of the implementation called `name`, in this process."""
    from pytest_affine.adapters.reference import Reference

    return Resident(find_implementation(name, search_path)(), Reference())


_residents: dict[str, Resident] = {}


def start_resident(name: str, search_path: Sequence[str]) -> None:
    """Make the implementation of this rank and call its `start`. Called on every rank."""
    from torch.distributed import group

    resident = make_resident(name, search_path)
    assert group.WORLD is not None, "the ranks have no process group"
    resident.implementation.start(group.WORLD)
    _residents[name] = resident


def stop_resident(name: str) -> None:
    """Call `stop` on the implementation of this rank, if the rank has not been replaced since.

    Called on every rank.
    """
    if (found := _residents.pop(name, None)) is not None:
        found.implementation.stop()


def call_resident(name: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return `function(resident, *args)` for the implementation of this rank.

    A refusal of a kind of the adapter's own is raised as the contract's kind above it, for the
    controller need not be able to import the adapter.
    """
    try:
        return function(_residents[name], *args)
    except AffineTransferError as refusal:
        kind = next(kind for kind in type(refusal).__mro__ if kind.__module__ == errors.__name__)
        if kind is type(refusal):
            raise
        raise kind(str(refusal)) from refusal


def call_in_fresh_interpreter(
    name: str, search_path: Sequence[str], function: Callable[..., Any], args: Sequence[Any]
) -> Any:
    """Return `function(resident, *args)` for an implementation made just now, without a group."""
    return function(make_resident(name, search_path), *args)


def call_method(resident: Resident, method: str, args: Sequence[Any], options: Any) -> Any:
    """Call one method of the contract."""
    return getattr(resident, method)(*args, **options)


def withheld_reason(resident: Resident, sync: Any) -> str | None:
    """Why the adapter withholds this sync, or None."""
    reason = resident.implementation.supports(sync)
    check_return("supports", reason)
    return reason


Facts = dict[str, Any]
"""What the controller knows of an implementation: claims, version, file, withholds."""


def read_facts(name: str, search_path: Sequence[str]) -> Facts:
    """Import the implementation called `name` and say what it claims. Makes no instance."""
    found = find_implementation(name, search_path)
    return {
        "claims": claims_of(found),
        "version": str(found.version),
        "file": inspect.getsourcefile(found) or "",
        "withholds": found.supports is not Implementation.supports,
    }
