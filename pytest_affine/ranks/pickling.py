"""Pickling of what travels between controller and ranks."""

from __future__ import annotations

import functools
import io
import operator
import sys
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle  # type: ignore[import-untyped]


def dumps(value: object) -> bytes:
    """Pickle by cloudpickle, with the true file name in each function that travels by value.

    cloudpickle leaves the name out, but a traceback needs it. What is below `torch.ops` travels by
    name: a function that mentions `torch.ops` takes all of it along otherwise, which can't travel.
    """
    if "torch._ops" in sys.modules:
        _learn_operators()
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return _make_code, (make, arguments, code.co_filename)


def _make_code(make: Callable[..., CodeType], arguments: tuple[Any, ...], file: str) -> CodeType:
    return make(*arguments).replace(co_filename=file)


@functools.cache
def _learn_operators() -> None:
    from torch import _ops

    REDUCERS[_ops._Ops] = lambda value: (_operator, ("ops",))
    REDUCERS[_ops._OpNamespace] = lambda value: (_operator, (f"ops.{value.name}",))
    for kind in (_ops.OpOverloadPacket, _ops.OpOverload):
        REDUCERS[kind] = lambda value: (_operator, (f"ops.{value}",))


def _operator(name: str) -> Any:
    import torch

    return operator.attrgetter(name)(torch)


REDUCERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {CodeType: _reduce_code}
"""How values of these types travel; whoever adds one does so in controller and ranks."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar[Any] = ChainMap(REDUCERS, cloudpickle.Pickler.dispatch_table)
