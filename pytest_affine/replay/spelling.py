"""Values as Python expressions that make them anew."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["NotSpelledError", "Speller"]

MAX_ELEMENTS = 4096
"""Larger tensors are not written out."""


class NotSpelledError(Exception):
    """A value that no expression makes; says what it is."""


class Speller:
    """Spells values, and notes what its expressions need.

    A value that has been named before is spelled by its name. What was named is kept alive, as it
    is told by its identity.

    Attributes:
        modules: whose names the expressions use.
        tensors: name and expression of each tensor, which has a name of its own, as a call may
            write into it.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.tensors: dict[str, str] = {}
        self._names: dict[int, tuple[str, object]] = {}

    def name(self, value: object, name: str) -> None:
        """Spell this very object by a name from now on."""
        if not isinstance(value, PLAIN):
            self._names[id(value)] = name, value

    def spell(self, value: Any) -> str:
        """Return an expression for a value.

        Raises:
            NotSpelledError: nothing in it can be made by an expression; names the part.
        """
        if id(value) in self._names:
            return self._names[id(value)][0]
        if isinstance(value, enum.Enum):
            return f"{self.global_(type(value))}.{value.name}"
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, PLAIN) or value is Ellipsis:
            return repr(value)
        for kind, spelled in self._kinds().items():
            if isinstance(value, kind):
                return spelled(value)
        return self._object(value)

    def global_(self, value: Any) -> str:
        """Return the expression for a class or function by its module and name."""
        module, name = str(value.__module__), getattr(value, "__qualname__", "")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not value:
            raise NotSpelledError(f"{name or value!r} of {module}, which has no global name")
        return self.member(module, name)

    def member(self, module: str, name: str) -> str:
        """Return the expression for what a module calls so."""
        if module == "builtins":
            return name
        self.modules.add(module)
        return f"{module}.{name}"

    def _kinds(self) -> dict[type, Callable[[Any], str]]:
        return {
            torch.Size: lambda value: self.spell(tuple(value)),
            torch.Tensor: self._named_tensor,
            torch.dtype: repr,
            torch.device: lambda value: f"torch.{value!r}",
            dist.ProcessGroup: lambda _: "torch.distributed.group.WORLD",
            tuple: self._tuple,
            list: lambda value: f"[{self._all(value)}]",
            dict: self._dict,
            set: lambda value: f"{{{self._all(value)}}}" if value else "set()",
            frozenset: lambda value: f"frozenset([{self._all(value)}])",
            type: self.global_,
        }

    def _all(self, values: Any) -> str:
        return ", ".join(map(self.spell, values))

    def _tuple(self, value: tuple[Any, ...]) -> str:
        if type(value) is tuple:
            return f"({self._all(value)}{',' * (len(value) == 1)})"
        return f"{self.global_(type(value))}({self._all(value)})"

    def _dict(self, value: Mapping[Any, Any]) -> str:
        parts = (f"{self.spell(key)}: {self.spell(item)}" for key, item in value.items())
        return f"{{{', '.join(parts)}}}"

    def _named_tensor(self, value: torch.Tensor) -> str:
        name = f"tensor_{1 + len(self.tensors)}"
        self.tensors[name] = self._tensor(value)
        self.name(value, name)
        return name

    def _tensor(self, value: torch.Tensor) -> str:
        """The bits, as numbers where these have them all."""
        if value.device.type == "meta" or value.numel() > MAX_ELEMENTS:
            raise NotSpelledError(f"a tensor of shape {tuple(value.shape)} on {value.device}")
        shape = tuple(value.shape)
        packed = value.detach().cpu().contiguous().reshape(-1)
        made = f"torch.tensor({packed.tolist()}, dtype={value.dtype})"
        if not _is_exact(packed):
            numbers = packed.view(torch.uint8).tolist()
            made = f"torch.tensor({numbers}, dtype=torch.uint8).view({value.dtype})"
        if len(shape) != 1:
            made += f".reshape({shape})"
        if value.is_contiguous():
            return made
        size = 1 + sum((n - 1) * s for n, s in zip(shape, value.stride(), strict=True))
        empty = f"torch.empty({size}, dtype={value.dtype})"
        return f"{empty}.as_strided({shape}, {value.stride()}).copy_({made})"

    def _object(self, value: Any) -> str:
        if is_dataclass(value):
            given = ((f.name, getattr(value, f.name)) for f in fields(value) if f.init)
            parts = ", ".join(f"{name}={self.spell(item)}" for name, item in given)
            return f"{self.global_(type(value))}({parts})"
        if callable(value):
            return self.global_(value)
        raise NotSpelledError(f"an object of {type(value).__module__}.{type(value).__qualname__}")


PLAIN = (type(None), bool, int, float, complex, str, bytes)
"""Kinds of which equal values are as good as one."""


def _is_exact(packed: torch.Tensor) -> bool:
    """Whether the numbers of a tensor of one axis have a spelling that gives every bit back."""
    if packed.is_complex() or not bool(packed.to(torch.float64).isfinite().all()):
        return False  # what repr writes is no literal
    again = torch.tensor(packed.tolist(), dtype=packed.dtype)
    return torch.equal(again.view(torch.uint8), packed.view(torch.uint8))
