"""What is right, decided by elements and addresses; knows nothing of the reference.

Small cases are decided by looking at every element. Large ones are cut into blocks that are alike
throughout, and decided by the same code.
"""

from pytest_affine.truth.assertions import assert_exact, assert_exact_tiling, assert_valid
from pytest_affine.truth.drawing import draw_shard
from pytest_affine.truth.elements import element_at, holders
from pytest_affine.truth.layouts import LayoutShard, layout_shards
from pytest_affine.truth.map_rules import map_problems
from pytest_affine.truth.plan_rules import plan_problems
from pytest_affine.truth.problems import Problem

__all__ = [
    "LayoutShard",
    "Problem",
    "assert_exact",
    "assert_exact_tiling",
    "assert_valid",
    "draw_shard",
    "element_at",
    "holders",
    "layout_shards",
    "map_problems",
    "plan_problems",
]
