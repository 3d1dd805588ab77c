"""The dtypes of a parameter: in its source shards, in its target shards, and on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import torch

from pytest_affine.errors import TransferRefusedError

__all__ = ["Dtype", "Dtypes", "dtypes_of"]

Dtype: TypeAlias = torch.dtype | tuple[torch.dtype, torch.dtype]
"""One for source and target, or one for each."""


class Dtypes(NamedTuple):
    """The dtype of a parameter's elements on both sides."""

    source: torch.dtype
    target: torch.dtype

    @property
    def wire(self) -> torch.dtype:
        """What is sent: the smaller, and of two of one size the source's."""
        return self.target if self.target.itemsize < self.source.itemsize else self.source

    @property
    def element_size(self) -> int | tuple[int, int]:
        """Bytes per element as the schedule takes them: two where elements are cast."""
        if self.source == self.target:
            return self.source.itemsize
        return self.source.itemsize, self.target.itemsize

    def __str__(self) -> str:
        """One dtype where both are the same."""
        both = dict.fromkeys(map(str, self))
        return " to ".join(both)


def dtypes_of(dtype: Dtype | Mapping[str, Dtype], *, cast: bool) -> Dtypes | dict[str, Dtypes]:
    """Return what was given, one or one per parameter, with both sides told apart.

    Raises:
        TransferRefusedError: what is no dtype, two dtypes where `cast` is false, or a cast that
            drops imaginary parts.
    """
    if isinstance(dtype, Mapping):
        return {name: _dtypes(each, cast) for name, each in dtype.items()}
    return _dtypes(dtype, cast)


def _dtypes(dtype: object, cast: bool) -> Dtypes:
    pair = dtype if isinstance(dtype, tuple) and cast else (dtype, dtype)
    if len(pair) != 2 or not all(isinstance(each, torch.dtype) for each in pair):
        choices = "a torch.dtype, or a source's and a target's," if cast else "a torch.dtype,"
        raise TransferRefusedError(f"dtype must be {choices} got {dtype!r}")
    if pair[0].is_complex and not pair[1].is_complex:
        raise TransferRefusedError(
            f"{pair[0]} is not cast to {pair[1]}, which has no imaginary part; the target's dtype "
            f"must be complex too"
        )
    return Dtypes(*pair)
