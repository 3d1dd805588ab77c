"""Layouts: what a framework knows about its ranks and its parameters, and the maps that follow.

A `Layout` numbers ranks, a `Parameter` says how one parameter is cut, `describe` gives the map.
An `Inventory` lists each rank's tensors by their local names, `match` says which belong together.
"""

from pytest_affine.layouts.description import describe
from pytest_affine.layouts.inventory import Inventory, LocalTensor
from pytest_affine.layouts.kinds import (
    Block,
    Cut,
    Expert,
    Flat,
    Fused,
    Interleaved,
    Kind,
    Split,
    Vocab,
    Whole,
    attention_blocks,
    kind_from_dict,
    kind_to_dict,
)
from pytest_affine.layouts.layout import Layout
from pytest_affine.layouts.names import LocalName, match
from pytest_affine.layouts.parameter import Parameter

__all__ = [
    "Block",
    "Cut",
    "Expert",
    "Flat",
    "Fused",
    "Interleaved",
    "Inventory",
    "Kind",
    "Layout",
    "LocalName",
    "LocalTensor",
    "Parameter",
    "Split",
    "Vocab",
    "Whole",
    "attention_blocks",
    "describe",
    "kind_from_dict",
    "kind_to_dict",
    "match",
]
