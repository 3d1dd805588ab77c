"""The rank's side of the contract: the implementation that lives in a rank."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_affine import errors
from pytest_affine.contract.discovery import find_implementation
from pytest_affine.contract.implementation import METHODS, Claims, Implementation, claims_of
from pytest_affine.contract.returns import check_return
from pytest_affine.errors import AffineTransferError

__all__ = ["Facts", "Origin", "Resident", "call_resident", "read_facts", "start_resident"]


@dataclass(frozen=True, slots=True)
class Origin:
    """What an implementation in a rank is made from.

    Attributes:
        name: its name, as `--affine-certify` takes it.
        search_path: folders to look in for modules, after those already known.
        fault: `module:class` of the fault that a mutant lays over it.
    """

    name: str
    search_path: tuple[str, ...] = ()
    fault: str | None = None


class Resident:
    """An implementation as the suite sees it in a rank.

    A stage that it does not claim is supplied by the reference, and what it returns is checked
    for its type, so that a slip in an adapter is told apart from a fault behind it. A mutant
    claims what the implementation under it does.
    """

    def __init__(
        self, implementation: Implementation, substitute: Implementation, claims: Claims
    ) -> None:
        self.implementation = implementation
        self._substitute = substitute
        self._claims = claims

    def __getattr__(self, name: str) -> Any:
        """A method of the contract, by its name."""
        if name not in METHODS:
            raise AttributeError(f"the contract has no method {name!r}; it has {METHODS}")
        owner = self.implementation if name in self._claims else self._substitute
        return _checked(name, getattr(owner, name))

    def taken(self, method: str, **options: Any) -> dict[str, Any]:
        """Those of the options that the method takes."""
        known = self._claims.get(method, options)
        return {name: value for name, value in options.items() if name in known}


def _checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        value = method(*args, **kwargs)
        check_return(name, value)
        return value

    return call


def make_resident(origin: Origin) -> Resident:
    """Make an instance of the implementation, in this process."""
    from pytest_affine.adapters.reference import Reference
    from pytest_affine.mutants.compose import make_faulty

    found = find_implementation(origin.name, origin.search_path)
    instance = found() if origin.fault is None else make_faulty(origin.fault, found)
    return Resident(instance, Reference(), claims_of(found))


_residents: dict[Origin, Resident] = {}


def start_resident(origin: Origin) -> None:
    """Make the implementation of this rank and call its `start`. Called on every rank."""
    from torch.distributed import group

    resident = make_resident(origin)
    assert group.WORLD is not None, "the ranks have no process group"
    resident.implementation.start(group.WORLD)
    _residents[origin] = resident


def stop_resident(origin: Origin) -> None:
    """Call `stop` on the implementation of this rank, if the rank has not been replaced since.

    Called on every rank.
    """
    if (found := _residents.pop(origin, None)) is not None:
        found.implementation.stop()


def call_resident(origin: Origin, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return `function(resident, *args)` for the implementation of this rank.

    A refusal is raised as `contract_refusal` has it.
    """
    try:
        return function(_residents[origin], *args)
    except AffineTransferError as refusal:
        known = contract_refusal(refusal)
        if known is refusal:
            raise
        raise known from refusal


def contract_refusal(refusal: AffineTransferError) -> AffineTransferError:
    """The refusal, of the contract's kind above its own if it is of a kind of the adapter's.

    The controller need not be able to import the adapter.
    """
    kind = next(kind for kind in type(refusal).__mro__ if kind.__module__ == errors.__name__)
    known: AffineTransferError = refusal if kind is type(refusal) else kind(str(refusal))
    return known


def call_in_fresh_interpreter(
    origin: Origin, function: Callable[..., Any], args: Sequence[Any]
) -> Any:
    """Return `function(resident, *args)` for an implementation made just now, without a group."""
    return function(make_resident(origin), *args)


def call_method(resident: Resident, method: str, args: Sequence[Any], options: Any) -> Any:
    """Call one method of the contract."""
    return getattr(resident, method)(*args, **options)


def withheld_reason(resident: Resident, sync: Any) -> str | None:
    """Why the adapter withholds this sync, or None."""
    reason = resident.implementation.supports(sync)
    check_return("supports", reason)
    return reason


Facts = dict[str, Any]
"""What the controller knows of an implementation: claims, version, where it is from, withholds."""


def read_facts(name: str, search_path: Sequence[str]) -> Facts:
    """Import the implementation called `name` and say what it claims. Makes no instance."""
    found = find_implementation(name, search_path)
    return {
        "claims": claims_of(found),
        "version": str(found.version),
        "distribution": str(found.distribution),
        "module": found.__module__,
        "file": inspect.getsourcefile(found) or "",
        "withholds": found.supports is not Implementation.supports,
    }
