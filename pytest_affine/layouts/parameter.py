"""What a framework knows of one parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pytest_affine.errors import InvalidMapError
from pytest_affine.layouts.fields import read_entry, text
from pytest_affine.layouts.kinds import KINDS, Kind, kind_from_dict, kind_to_dict
from pytest_affine.values import integers

__all__ = ["Parameter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter and how it is cut, for any layout.

    Attributes:
        name: of the logical parameter.
        shape: of the full tensor, without padding.
        dtype: a torch attribute name, such as "bfloat16".
        kind: how it is cut.
        stages: the pipeline stages that hold it; two for tied weights.

    Raises:
        InvalidMapError: a field of the wrong type or out of its range.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: Kind
    stages: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        """Check the fields; the kind may be what `kind_to_dict` writes."""
        text(self.name, "name")
        text(self.dtype, "dtype")
        object.__setattr__(self, "shape", _indices(self.shape, "shape"))
        stages = _indices(self.stages, "stages")
        if not stages or len(set(stages)) != len(stages):
            raise InvalidMapError(
                f"stages must name at least one stage, and none twice, got {list(stages)}"
            )
        object.__setattr__(self, "stages", tuple(sorted(stages)))
        if not isinstance(self.kind, tuple(KINDS.values())):
            object.__setattr__(self, "kind", kind_from_dict(self.kind))

    @property
    def num_elements(self) -> int:
        """Number of elements of the full tensor."""
        return math.prod(self.shape)

    def to_dict(self) -> dict[str, Any]:
        """The parameter as JSON-ready values."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "kind": kind_to_dict(self.kind),
            "stages": list(self.stages),
        }

    @classmethod
    def from_dict(cls, entry: object, where: str = "parameter") -> Parameter:
        """Read what `to_dict` writes; `InvalidMapError` names the field at `where`."""
        return read_entry(cls, entry, where)


def _indices(values: object, field: str) -> tuple[int, ...]:
    numbers = integers(values, field)
    if any(number < 0 for number in numbers):
        raise InvalidMapError(f"{field} must hold integers of 0 or more, got {list(numbers)}")
    return numbers
