"""Whether what a method returned is of the types that the contract says, all the way down."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, cast

from pytest_affine.layouts import LocalName
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import RankPlan, Schedule, TransferPlan, TransferReport, TransferStats

__all__ = ["WrongReturnError", "check_return"]

RETURNS: dict[str, Any] = {
    "supports": str | None,
    "build_map": ParamAffineMap | dict[str, ParamAffineMap],
    "check_map": None,
    "map_to_dict": dict,
    "map_from_dict": ParamAffineMap,
    "maps_to_dict": dict,
    "maps_from_dict": dict[str, ParamAffineMap],
    "plan_transfer": TransferPlan,
    "plan_transfers": dict[str, TransferPlan],
    "plan_to_dict": dict,
    "plan_from_dict": TransferPlan,
    "schedule_transfers": Schedule,
    "plan_digest": str,
    "execute_transfers": TransferStats,
    "analyze_transfers": TransferReport,
    "expected_stats": TransferStats,
    "report_to_dict": dict,
    "reshard": None,
    "plan_on_rank": RankPlan,
    "run": TransferStats | None,
    "describe": ParamAffineMap,
    "match": Mapping[LocalName, AbstractSet[LocalName]],
}


HANDLE = ("run", "rebind", "close")
"""Methods of what `open_sync` gives; `run` is checked under its own name."""


class WrongReturnError(TypeError):
    """A method of the adapter returned something that is not what the contract says."""


def check_return(method: str, value: object) -> None:
    """Raise `WrongReturnError`, naming the field, unless `value` is what `method` must return."""
    if method == "open_sync":
        missing = [name for name in HANDLE if not callable(getattr(value, name, None))]
        if missing:
            raise WrongReturnError(
                f"open_sync must return a handle that has the methods {missing}, got "
                f"{_shown(value)}"
            )
    if method in RETURNS:
        for fault in _faults(value, RETURNS[method], method):
            raise WrongReturnError(fault)


def _faults(value: Any, kind: Any, where: str) -> Iterator[str]:
    """What is not of the type `kind`: integers must be plain, and no booleans."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return
    if origin in (typing.Union, types.UnionType):
        if all(any(_faults(value, choice, where)) for choice in arguments):
            yield f"{where} must be {kind}, got {_shown(value)}"
    elif origin is tuple:
        yield from _tuple_faults(value, arguments, where)
    elif origin is not None and issubclass(origin, Mapping):
        yield from _mapping_faults(value, origin, arguments, where)
    elif origin is not None and issubclass(origin, AbstractSet):
        yield from _set_faults(value, arguments[0], where)
    elif type(value) is kind and dataclasses.is_dataclass(value):
        for name, hint in _hints(cast("Any", kind)).items():
            yield from _faults(getattr(value, name), hint, f"{where}.{name}")
    elif type(value) is not (type(None) if kind is None else kind):
        name = "None" if kind is None else kind.__name__
        yield f"{where} must be {name}, got {_shown(value)}"


def _tuple_faults(value: Any, kinds: tuple[Any, ...], where: str) -> Iterator[str]:
    if type(value) is not tuple:
        yield f"{where} must be a tuple, got {_shown(value)}"
        return
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        yield f"{where} must have {len(kinds)} entries, got {_shown(value)}"
        return
    for index, (entry, kind) in enumerate(zip(value, kinds, strict=True)):
        yield from _faults(entry, kind, f"{where}[{index}]")


def _mapping_faults(value: Any, kind: Any, kinds: tuple[Any, ...], where: str) -> Iterator[str]:
    if not isinstance(value, kind):
        yield f"{where} must be a mapping, got {_shown(value)}"
        return
    for key, entry in value.items():
        yield from _faults(key, kinds[0], f"a key of {where}")
        yield from _faults(entry, kinds[1], f"{where}[{key!r}]")


def _set_faults(value: Any, kind: Any, where: str) -> Iterator[str]:
    if not isinstance(value, AbstractSet):
        yield f"{where} must be a set, got {_shown(value)}"
        return
    for entry in value:
        yield from _faults(entry, kind, f"an element of {where}")


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    # An executor may keep some of the statistics only.
    return {name: hint | None for name, hint in fields.items()} if kind is TransferStats else fields


def _shown(value: object) -> str:
    text = repr(value)
    kind = type(value).__name__
    return f"{kind} {text}" if len(text) <= 60 else f"{kind} {text[:57]}..."
