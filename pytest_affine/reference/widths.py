"""How wide elements are: in a source, in a target, and on the wire between the two."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from pytest_affine.errors import AffineTransferError
from pytest_affine.plans import StagingBudget
from pytest_affine.reference.batch import at_least, per_parameter

__all__ = ["ElementSizes", "Width", "checked_widths"]

Size: TypeAlias = int | tuple[int, int]
ElementSizes: TypeAlias = Size | Mapping[str, Size]
"""Bytes per element, one for all parameters or one per parameter; where elements are cast, those of
the source and those of the target."""


class Width(NamedTuple):
    """Bytes per element on both sides; equal ones may be of two dtypes, and then are cast too."""

    source: int
    target: int
    is_cast: bool

    @property
    def num_bytes(self) -> int:
        """Bytes per element for every rule and statistic, and on the wire: the fewer."""
        return min(self.source, self.target)

    @property
    def casts(self) -> tuple[bool, bool]:
        """Whether the sender casts, and whether the receiver does: who has the wider elements.

        Of two dtypes of one size it is the receiver.
        """
        sender_casts = self.target < self.source
        return self.is_cast and sender_casts, self.is_cast and not sender_casts


def checked_widths(
    plans: Collection[str],
    element_size: ElementSizes,
    budget: StagingBudget,
    *,
    cast: bool,
) -> tuple[dict[str, Width], int]:
    """Return widths by parameter, in the batch's order, and the bytes of the budget.

    Raises:
        AffineTransferError: a size or budget that is no integer of at least 1, a budget smaller
            than any element size given (for an empty batch too), a parameter without a size, or
            two sizes for one parameter where `cast` is false.
    """
    given: Width | dict[str, Width]
    if isinstance(element_size, Mapping):
        sizes = element_size.items()
        given = {name: _width(size, f"element_size[{name!r}]", cast) for name, size in sizes}
        most = max((width.num_bytes for width in given.values()), default=1)
    else:
        given = _width(element_size, "element_size", cast)
        most = given.num_bytes
    budget_bytes = at_least(1, budget.bytes_per_peer, "budget.bytes_per_peer")
    if budget_bytes < most:
        raise AffineTransferError(
            f"budget.bytes_per_peer is {budget_bytes}, which holds no element of {most} bytes; "
            f"it must be {most} or more"
        )
    return per_parameter(given, plans, "element_size"), budget_bytes


def _width(size: object, field: str, cast: bool) -> Width:
    if not (cast and isinstance(size, tuple)):
        num_bytes = at_least(1, size, field)
        return Width(num_bytes, num_bytes, is_cast=False)
    if len(size) != 2:
        raise AffineTransferError(
            f"{field} must be an integer, or a source's and a target's, got {size!r}"
        )
    source, target = (at_least(1, each, f"{field}[{side}]") for side, each in enumerate(size))
    return Width(source, target, is_cast=True)
