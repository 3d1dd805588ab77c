"""A mutant's fault laid over one function of the user's, in this process and in its ranks.

What is to be laid stands in the environment, which xdist's workers and the fork server of the ranks
inherit. Importing this module lays it.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import FunctionType
from typing import Any

from pytest_affine.contract.implementation import METHODS, Implementation
from pytest_affine.mutants.compose import FaultError, FaultFacts, facts_of, make_faulty

__all__ = ["VARIABLE", "Target", "environment", "fitting_faults", "target_of"]

VARIABLE = "PYTEST_AFFINE_FAULT"
"""Name of the environment variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A function that takes and returns what a method of the contract does.

    Attributes:
        module: that has it.
        function: its name there.
        method: of `Implementation`.
        search_path: folders to look in for the module, after those already known.
    """

    module: str
    function: str
    method: str
    search_path: tuple[str, ...]

    def __str__(self) -> str:
        """As it is given on the command line, without the method."""
        return f"{self.module}:{self.function}"


def target_of(text: str, search_path: Sequence[str]) -> Target:
    """Read `module:function` or `module:function=method`; the method has the function's name.

    Raises:
        FaultError: it is not written so, or the contract has no such method.
    """
    place, _, method = text.partition("=")
    module, _, function = place.partition(":")
    if not (module and function.isidentifier()):
        raise FaultError(f"{text!r} must be module:function or module:function=method")
    method = method or function
    if method not in METHODS:
        raise FaultError(
            f"{text!r}: the contract has no method {method!r}; a function that does what one of "
            f"its methods does is given as {place}=METHOD, with one of {', '.join(METHODS)}"
        )
    return Target(module=module, function=function, method=method, search_path=tuple(search_path))


def fitting_faults(target: Target, faults: Sequence[str]) -> dict[str, FaultFacts]:
    """By fault, what is known of it, for those that change what the function does.

    Raises:
        FaultError: there is no such function.
    """
    base = _base(target, _function(target))
    facts = {fault: facts_of(fault, base) for fault in faults}
    return {fault: own for fault, own in facts.items() if own["methods"] == [target.method]}


def environment(target: Target, fault: str) -> dict[str, str]:
    """What a process needs in its environment to have the fault laid over the function."""
    return {VARIABLE: json.dumps({"target": asdict(target), "fault": fault})}


def _function(target: Target) -> FunctionType:
    sys.path.extend(folder for folder in target.search_path if folder not in sys.path)
    try:
        found = getattr(importlib.import_module(target.module), target.function)
    except Exception as error:
        raise FaultError(f"{target} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, FunctionType):
        raise FaultError(f"{target} must be a function, got {found!r}")
    return found


def _base(target: Target, function: Callable[..., Any]) -> type[Implementation]:
    return type("Function", (Implementation,), {target.method: staticmethod(function)})


def _lay(target: Target, fault: str) -> None:
    """Have every reference to the function be one to the faulty function.

    A function made in another one, as by a decorator, is replaced in modules that have it by name.
    """
    global _method
    function = _function(target)
    if function.__closure__:
        _method = getattr(make_faulty(fault, _base(target, function)), target.method)
        _replace(function, functools.wraps(function)(_faulty))
        return
    right = FunctionType(function.__code__, function.__globals__, function.__name__)
    right.__defaults__, right.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    _method = getattr(make_faulty(fault, _base(target, right)), target.method)
    function.__defaults__ = function.__kwdefaults__ = None
    function.__code__ = _faulty.__code__
    functools.update_wrapper(function, right)


_method: Callable[..., Any]


def _faulty(*args: Any, **kwargs: Any) -> Any:
    from pytest_affine.mutants import laid  # this code runs with the globals of another module

    return laid._method(*args, **kwargs)


def _replace(function: FunctionType, faulty: Callable[..., Any]) -> None:
    for module in [*sys.modules.values()]:
        names = [name for name, value in vars(module).items() if value is function]
        for name in names:
            setattr(module, name, faulty)


if given := os.environ.get(VARIABLE):
    entry = json.loads(given)
    _lay(Target(**entry["target"]), entry["fault"])
