"""What every rank of a layout has, under the names that it has there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pytest_affine.errors import InvalidMapError
from pytest_affine.layouts.fields import read_entry, text
from pytest_affine.layouts.layout import Layout
from pytest_affine.values import integers, json_field, location_key, pairs_by_location

__all__ = ["Inventory", "LocalTensor"]

LocalTensor: TypeAlias = tuple[str, tuple[int, ...], str]
"""Local name, shape of the shard and dtype, a torch attribute name."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """One side's tensors by location, which is a rank of the layout.

    Attributes:
        layout: the side's ranks.
        tensors: by location, name, shape and dtype of each tensor; names of one location differ.
        expert_table: for each expert its expert-parallel rank; None: contiguous, by what the ranks
            have.

    Raises:
        InvalidMapError: a field of the wrong type, a location that is no rank of the layout, or a
            name that one location has twice; names the field.
    """

    layout: Layout
    tensors: tuple[tuple[int, tuple[LocalTensor, ...]], ...]
    expert_table: tuple[int, ...] | None = None

    def __init__(
        self,
        layout: Layout,
        tensors: Mapping[int, Sequence[LocalTensor]] | Sequence[tuple[int, Sequence[LocalTensor]]],
        expert_table: Sequence[int] | None = None,
    ) -> None:
        if not isinstance(layout, Layout):
            raise InvalidMapError(f"layout must be a Layout, got {layout!r}")
        held = [
            (location, _local_tensors(entries, f"tensors[{location}]"))
            for location, entries in pairs_by_location(tensors, "tensors")
        ]
        if strangers := [at for at, _ in held if not 0 <= at < layout.num_ranks]:
            raise InvalidMapError(
                f"locations of tensors must be ranks of the layout, 0 to {layout.num_ranks - 1}, "
                f"got {strangers}"
            )
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "tensors", tuple(held))
        table = None if expert_table is None else integers(expert_table, "expert_table")
        object.__setattr__(self, "expert_table", table)

    def names(self, location: int) -> tuple[str, ...]:
        """The local names that a location has; none if it is not listed."""
        return tuple(name for name, _, _ in dict(self.tensors).get(location, ()))

    def to_dict(self) -> dict[str, Any]:
        """The inventory as JSON-ready values; an absent table is left out."""
        entry: dict[str, Any] = {
            "layout": self.layout.to_dict(),
            "tensors": {
                str(location): [[name, list(shape), dtype] for name, shape, dtype in held]
                for location, held in self.tensors
            },
        }
        return entry | ({} if self.expert_table is None else {"expert_table": [*self.expert_table]})

    @classmethod
    def from_dict(cls, entry: object, where: str = "inventory") -> Inventory:
        """Read what `to_dict` writes; `InvalidMapError` names the field at `where`."""
        layout = Layout.from_dict(json_field(entry, "layout", dict, where), f"{where}.layout")
        tensors = json_field(entry, "tensors", dict, where)
        by_location = [
            (location_key(key, f"{where}.tensors"), held) for key, held in tensors.items()
        ]
        values: Any = entry
        return read_entry(cls, {**values, "layout": layout, "tensors": by_location}, where)


def _local_tensors(entries: object, field: str) -> tuple[LocalTensor, ...]:
    if not isinstance(entries, (list, tuple)):
        raise InvalidMapError(f"{field} must be a list of tensors, got {entries!r}")
    read = tuple(_local_tensor(each, f"{field}[{index}]") for index, each in enumerate(entries))
    names = [name for name, _, _ in read]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidMapError(f"{field} names {twice} more than once")
    return read


def _local_tensor(entry: object, field: str) -> LocalTensor:
    if not isinstance(entry, (list, tuple)) or len(entry) != 3:
        raise InvalidMapError(f"{field} must be (local name, shape, dtype), got {entry!r}")
    name, shape, dtype = entry
    extents = integers(shape, f"{field}.shape")
    if any(extent < 0 for extent in extents):
        raise InvalidMapError(f"{field}.shape must hold integers of 0 or more, got {extents}")
    return text(name, f"{field}.name"), extents, text(dtype, f"{field}.dtype")
