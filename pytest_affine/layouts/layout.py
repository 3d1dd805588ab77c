"""One set of ranks, factored in a dense mesh and in an expert mesh."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from pytest_affine.errors import AffineTransferError, InvalidMapError
from pytest_affine.layouts.fields import positive, read_entry, text

__all__ = ["DEFAULT_ORDER", "MESHES", "Layout", "Mesh"]

DEFAULT_ORDER = "tp-cp-ep-dp-pp"
Mesh: TypeAlias = Literal["dense", "expert"]
MESHES: tuple[Mesh, Mesh] = ("dense", "expert")

# What each axis of the order is called in a mesh; an axis that is not there has one rank.
_AXES: dict[Mesh, dict[str, str]] = {
    "dense": {"tp": "tp", "cp": "cp", "dp": "dp", "pp": "pp"},
    "expert": {"tp": "etp", "ep": "ep", "dp": "edp", "pp": "pp"},
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How a framework numbers its ranks: degrees of parallelism, and the order of the axes.

    The dense mesh has tp * cp * dp * pp ranks; the expert mesh factors the same ranks as
    etp * ep * edp * pp. A rank's number counts the fastest axis first.

    Attributes:
        tp: tensor-parallel ranks.
        cp: context-parallel ranks; weights are the same on all of them.
        dp: data-parallel ranks.
        pp: pipeline stages.
        ep: expert-parallel ranks.
        etp: tensor-parallel ranks of the experts; `tp` unless given.
        order: the axes, fastest first, joined by "-".

    Raises:
        InvalidMapError: a degree that is no integer of 1 or more, or an order that does not name
            each axis once.
        AffineTransferError: etp * ep does not divide tp * cp * dp.
    """

    tp: int
    cp: int
    dp: int
    pp: int
    ep: int
    etp: int
    order: str

    def __init__(
        self,
        *,
        tp: int = 1,
        cp: int = 1,
        dp: int = 1,
        pp: int = 1,
        ep: int = 1,
        etp: int | None = None,
        order: str = DEFAULT_ORDER,
    ) -> None:
        degrees = {"tp": tp, "cp": cp, "dp": dp, "pp": pp, "ep": ep}
        for axis, degree in {**degrees, "etp": tp if etp is None else etp}.items():
            object.__setattr__(self, axis, positive(degree, axis))
        object.__setattr__(self, "order", text(order, "order"))
        if sorted(self.order.split("-")) != sorted(degrees):
            raise InvalidMapError(
                f'order must name each of {sorted(degrees)} once, joined by "-", got {order!r}'
            )
        if self.tp * self.cp * self.dp % (self.etp * self.ep):
            raise AffineTransferError(
                f"etp {self.etp} times ep {self.ep} must divide tp {self.tp} times cp {self.cp} "
                f"times dp {self.dp}, so that experts have a whole number of data-parallel "
                f"ranks; etp is tp unless it is given"
            )

    @property
    def edp(self) -> int:
        """Data-parallel ranks of the experts."""
        return self.tp * self.cp * self.dp // (self.etp * self.ep)

    @property
    def num_ranks(self) -> int:
        """How many ranks there are."""
        return self.tp * self.cp * self.dp * self.pp

    def degrees(self, mesh: Mesh) -> dict[str, int]:
        """The degree of each axis of a mesh, fastest first."""
        axes = (_AXES[mesh].get(axis) for axis in self.order.split("-"))
        return {axis: getattr(self, axis) for axis in axes if axis}

    def coordinates(self, rank: int, mesh: Mesh) -> dict[str, int]:
        """A rank's index on each axis of a mesh."""
        place = {}
        for axis, degree in self.degrees(mesh).items():
            rank, place[axis] = divmod(rank, degree)
        return place

    def to_dict(self) -> dict[str, Any]:
        """The layout as JSON-ready values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, entry: object, where: str = "layout") -> Layout:
        """Read what `to_dict` writes; absent keys have their defaults.

        Raises:
            AffineTransferError: as the constructor, or an unknown key; names the field at `where`.
        """
        return read_entry(cls, entry, where)
