"""The two sides of a refit: which tensors are here, and what each of them is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.layouts import Layout, Parameter, describe
from pytest_affine.maps import ParamAffineMap
from pytest_affine.probe.alphabets import dtype_named

__all__ = ["Accessors", "Names", "Shard", "Side", "Tensors"]

Named: TypeAlias = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Accessors:
    """Tensors that can't be written in place.

    Attributes:
        get: gives the tensors by local name; copies will do.
        put: takes tensors by local name, with the values that they are to have.
    """

    get: Callable[[], Named]
    put: Callable[[Named], object]


Tensors: TypeAlias = Named | torch.nn.Module | Callable[[], Named] | Accessors
"""The tensors of one location by local name: a state dict, a module, what returns a state dict with
tensors to be written in place, or accessors. It is asked anew whenever tensors are needed."""

Names: TypeAlias = (
    Mapping[str, str | Sequence[str]] | Callable[[str, int], str | Sequence[str]] | None
)
"""The local names of a parameter: by its name, or a function of its name and a location. Several
are copies at one location, as tied weights are. None: the local name is the parameter's."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A tensor that a side has here.

    Attributes:
        parameter: name of its parameter.
        location: whose shard.
        name: its local name.
        map_: the map of its parameter on this side.
    """

    parameter: str
    location: int
    name: str
    map_: ParamAffineMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a refit, as one process sees it.

    Attributes:
        maps: for every parameter its map, also of those that this process has nothing of; the same
            in every process.
        tensors: for the locations that this process has, their tensors; a list counts locations.
        names: the local names.
        dtypes: one dtype, or one by parameter; a parameter of which this process has no tensor
            needs one. The others have their tensors'.
        parameters: what is known of parameters beyond their maps; it makes texts better.

    Raises:
        InvalidMapError: a map that breaks a rule.
        UnsupportedLayoutError: a map with scales.
    """

    maps: Mapping[str, ParamAffineMap]
    tensors: Mapping[int, Tensors] | Sequence[Tensors]
    names: Names = None
    dtypes: Mapping[str, torch.dtype | str] | torch.dtype | str | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the maps."""
        for name, map_ in self.maps.items():
            try:
                map_.validate()
            except (InvalidMapError, UnsupportedLayoutError) as error:
                raise type(error)(f"parameter {name!r}: {error}") from None
            pieces = (piece for _, pieces in map_.pieces_by_location for piece in pieces)
            if scales := sorted({piece.scale for piece in pieces} - {1.0}):
                raise UnsupportedLayoutError(
                    f"parameter {name!r}: a probe writes numbers, which a scale of {scales[0]} "
                    f"would change; probe a map without scales"
                )

    @classmethod
    def of_layout(
        cls,
        layout: Layout,
        parameters: Sequence[Parameter],
        tensors: Mapping[int, Tensors] | Sequence[Tensors],
        *,
        names: Names = None,
    ) -> Side:
        """A side whose maps and dtypes follow from a layout; locations are its ranks.

        Raises:
            AffineTransferError: layout and parameters do not fit each other.
        """
        return cls(
            maps={parameter.name: describe(layout, parameter) for parameter in parameters},
            tensors=tensors,
            names=names,
            dtypes={parameter.name: parameter.dtype for parameter in parameters},
            parameters={parameter.name: parameter for parameter in parameters},
        )

    @property
    def by_location(self) -> Mapping[int, Tensors]:
        """The tensors of the locations that are here."""
        if isinstance(self.tensors, Mapping):
            return self.tensors
        return dict(enumerate(self.tensors))

    def shards(self) -> Iterator[Shard]:
        """Every tensor with elements that is to be here, location by location."""
        for location in self.by_location:
            for name, map_ in self.maps.items():
                if location in map_.locations and map_.shard_size(location):
                    for local in self.local_names(name, location):
                        yield Shard(name, location, local, map_)

    def local_names(self, name: str, location: int) -> tuple[str, ...]:
        """What a parameter is called at a location."""
        if self.names is None:
            return (name,)
        given = self.names(name, location) if callable(self.names) else self.names.get(name, name)
        return (given,) if isinstance(given, str) else tuple(given)

    def dtype_of(self, name: str, here: Mapping[str, torch.dtype]) -> torch.dtype | None:
        """The dtype of a parameter: what is said, else that of the tensors here, if any."""
        said = self.dtypes.get(name) if isinstance(self.dtypes, Mapping) else self.dtypes
        return here.get(name) if said is None else dtype_named(said)


def tensors_of(tensors: Tensors) -> Named:
    """The tensors of a location as they are now."""
    if isinstance(tensors, Mapping):
        return tensors
    if isinstance(tensors, Accessors):
        return tensors.get()
    if isinstance(tensors, torch.nn.Module):
        found: Named = tensors.state_dict()
        return found
    return tensors()
