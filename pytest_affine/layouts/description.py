"""From a layout and a parameter to the map over the ranks of the layout."""

from __future__ import annotations

from pytest_affine.builders.numbering import spread_map
from pytest_affine.errors import AffineTransferError, InvalidMapError, UnsupportedLayoutError
from pytest_affine.layouts.cells import cell_map
from pytest_affine.layouts.kinds import Expert
from pytest_affine.layouts.layout import MESHES, Layout, Mesh
from pytest_affine.layouts.parameter import Parameter
from pytest_affine.maps import ParamAffineMap

__all__ = ["check_stages", "describe"]


def describe(layout: Layout, parameter: Parameter) -> ParamAffineMap:
    """Say which rank of a layout holds what of a parameter, and where in its shard.

    Locations are ranks of the layout. Ranks of other pipeline stages are not in the map; a rank of
    the parameter's stages that an uneven cut leaves without elements has an empty shard. Ranks that
    hold the same elements name each other. Nothing is looked at element by element, so that size
    costs nothing.

    Raises:
        InvalidMapError: parameter and layout contradict each other: a dim, block, table, offset or
            stage that does not exist.
        UnsupportedLayoutError: what must divide does not.
        AffineTransferError: the order puts a rank on different stages of the two meshes.
    """
    kind = parameter.kind
    mesh: Mesh = "expert" if isinstance(kind, Expert) else "dense"
    places = _places(layout, mesh, parameter)
    degrees = layout.degrees(mesh)
    cell_by_rank = dict.fromkeys(places, 0)
    for axis in kind.axes:
        for rank, place in places.items():
            cell_by_rank[rank] = cell_by_rank[rank] * degrees[axis] + place[axis]
    try:
        return spread_map(cell_map(kind, parameter.shape, degrees), cell_by_rank)
    except (InvalidMapError, UnsupportedLayoutError) as error:
        raise type(error)(f"parameter {parameter.name!r}: {error}") from None


def _places(layout: Layout, mesh: Mesh, parameter: Parameter) -> dict[int, dict[str, int]]:
    """The coordinates of every rank that is on a stage of the parameter."""
    if unknown := [stage for stage in parameter.stages if stage >= layout.pp]:
        raise InvalidMapError(
            f"parameter {parameter.name!r}: stages must be among {list(range(layout.pp))}, the "
            f"layout's pipeline stages, got {unknown}"
        )
    places = {rank: layout.coordinates(rank, mesh) for rank in range(layout.num_ranks)}
    if mesh == "expert":
        check_stages(layout)
    return {rank: place for rank, place in places.items() if place["pp"] in parameter.stages}


def check_stages(layout: Layout) -> None:
    """Refuse a layout that puts experts on other stages than the layer they belong to."""
    for rank in range(layout.num_ranks):
        dense, expert = (layout.coordinates(rank, mesh)["pp"] for mesh in MESHES)
        if expert != dense:
            raise AffineTransferError(
                f"order {layout.order!r} puts rank {rank} on pipeline stage {dense} of the dense "
                f"mesh and {expert} of the expert mesh; pp last in the order is always right"
            )
