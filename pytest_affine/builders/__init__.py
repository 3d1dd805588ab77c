"""Builders: the shardings that frameworks use, each as a map of boxes or of flat intervals.

Arguments are plain JSON values, so that a case can carry them; keys of a mapping by location may
be str or int. A negative `dim` counts from the end. Every `locations` is exact, pieces without
elements are left out, and a wrong argument is an `InvalidMapError` that names it.
"""

from collections.abc import Callable
from typing import Any

from pytest_affine.builders.blocks import (
    block_gather_map,
    contiguous_split_map,
    replicated_map,
    segmented_map,
    sub_param_map,
)
from pytest_affine.builders.flat import flat_map
from pytest_affine.builders.mesh import mesh_map

__all__ = [
    "BUILDERS",
    "block_gather_map",
    "contiguous_split_map",
    "flat_map",
    "mesh_map",
    "replicated_map",
    "segmented_map",
    "sub_param_map",
]

BUILDERS: dict[str, Callable[..., Any]] = {
    builder.__name__: builder
    for builder in (
        replicated_map,
        contiguous_split_map,
        sub_param_map,
        segmented_map,
        block_gather_map,
        flat_map,
        mesh_map,
    )
}
