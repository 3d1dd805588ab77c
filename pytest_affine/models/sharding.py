"""Degrees of parallelism as one writes them down: "tp8,fsdp64", "tp4,ep8,etp1,dp2"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from pytest_affine.errors import AffineTransferError
from pytest_affine.layouts import Layout

__all__ = ["DataParallel", "Sharding", "parse_sharding"]

DataParallel: TypeAlias = Literal["dp", "fsdp", "zero"]
DATA_PARALLEL: tuple[DataParallel, ...] = get_args(DataParallel)
AXES = ("tp", "cp", *DATA_PARALLEL, "ep", "etp", "pp")


@dataclass(frozen=True, slots=True)
class Sharding:
    """A layout, and what its data-parallel ranks do.

    Attributes:
        layout: the ranks.
        data: "dp": every data-parallel rank holds the same; "fsdp": each holds a part of dim 0 of
            what tensor parallelism leaves; "zero": each holds an interval of the flattened
            parameters of its stage.
    """

    layout: Layout
    data: DataParallel = "dp"


def parse_sharding(degrees: str) -> Sharding:
    """Read axes and their degrees, joined by commas; axes that are not named have one rank.

    The axes are those of `Layout`, and "fsdp" and "zero", which say what "dp" ranks do.

    Raises:
        AffineTransferError: an unknown axis, one that is named twice, a degree that is no integer
            of 1 or more, or degrees that are no layout; names the degrees.
    """
    named: dict[str, int] = {}
    for part in degrees.split(","):
        axis, degree = _axis(part.strip(), degrees)
        if axis in named:
            raise AffineTransferError(f"degrees {degrees!r} name {axis!r} twice")
        named[axis] = degree
    data = [axis for axis in DATA_PARALLEL if axis in named]
    if len(data) > 1:
        raise AffineTransferError(
            f"degrees {degrees!r} name {data}, which are the same ranks; name one of them"
        )
    axes: dict[str, Any] = {
        "dp" if axis in data else axis: degree for axis, degree in named.items()
    }
    try:
        return Sharding(Layout(**axes), data[0] if data else "dp")
    except AffineTransferError as error:
        raise AffineTransferError(f"degrees {degrees!r}: {error}") from None


def _axis(part: str, degrees: str) -> tuple[str, int]:
    match = re.fullmatch(r"([a-z]*)(.*)", part, re.DOTALL)
    assert match
    axis, degree = match.groups()
    if axis not in AXES:
        raise AffineTransferError(
            f"degrees {degrees!r}: an axis must be one of {list(AXES)}, got {part!r}"
        )
    if not re.fullmatch(r"[1-9][0-9]*", degree):
        raise AffineTransferError(
            f"degrees {degrees!r}: the degree of {axis!r} must be an integer of 1 or more, "
            f"got {degree!r}"
        )
    return axis, int(degree)
