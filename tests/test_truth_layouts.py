"""The definition of each kind, against answers by hand."""

import pytest

from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.layouts import (
    Block,
    Cut,
    Expert,
    Flat,
    Fused,
    Interleaved,
    Layout,
    Parameter,
    Split,
    Vocab,
    Whole,
    attention_blocks,
)
from pytest_affine.truth import layout_shards

ROWS = Split((Cut("tp", 0),))
GATE_UP = Fused((Block(name="gate", size=2), Block(name="up", size=2)))


def parameter(shape, kind, stages=(0,)):
    return Parameter(name="weight", shape=shape, dtype="float32", kind=kind, stages=stages)


def elements(layout, shape, kind, stages=(0,)):
    """By rank, the elements of its shard."""
    shards = layout_shards(layout, parameter(shape, kind, stages))
    return {rank: list(shard.elements) for rank, shard in shards.items()}


@pytest.mark.parametrize(
    ("layout", "shape", "kind", "wanted"),
    [
        (Layout(tp=2), (), Whole(), {0: [0], 1: [0]}),
        (Layout(tp=2), (2, 2), ROWS, {0: [0, 1], 1: [2, 3]}),
        (Layout(tp=2), (2, 2), Split((Cut("tp", -1),)), {0: [0, 2], 1: [1, 3]}),
        (
            Layout(dp=3),
            (4,),
            Split((Cut("dp", 0),), uneven=True),
            {0: [0, 1], 1: [2, 3], 2: []},
        ),
        # Blocks {0, 1, 2} and {3, 4} of the later cut; dp 0 has 2 of each, dp 1 what is left.
        (
            Layout(tp=2, dp=2),
            (5,),
            Split((Cut("dp", 0, strided=True), Cut("tp", 0)), uneven=True),
            {0: [0, 1], 1: [3, 4], 2: [2], 3: []},
        ),
        (
            Layout(tp=2),
            (8,),
            Fused(attention_blocks(heads=4, kv_heads=2, head_dim=1)),
            {0: [0, 1, 4, 6], 1: [2, 3, 5, 7]},
        ),
        # One KV head of 2 rows for both ranks.
        (
            Layout(tp=2),
            (8,),
            Fused(attention_blocks(heads=2, kv_heads=1, head_dim=2)),
            {0: [0, 1, 4, 5, 6, 7], 1: [2, 3, 4, 5, 6, 7]},
        ),
        (Layout(tp=2), (4,), GATE_UP, {0: [0, 2], 1: [1, 3]}),
        (
            Layout(tp=4),
            (8,),
            Interleaved(groups=2, blocks=attention_blocks(heads=2, kv_heads=1, head_dim=1)),
            {0: [0, 2, 3], 1: [1, 2, 3], 2: [4, 6, 7], 3: [5, 6, 7]},
        ),
        (
            Layout(),
            (6,),
            Interleaved(
                groups=2,
                blocks=(Block(name="q", size=2), Block(name="k", size=1)),
                shard_groups=1,
            ),
            {0: [0, 1, 3, 4, 2, 5]},
        ),
        (
            Layout(dp=2, ep=2),
            (4,),
            Expert(num_experts=4, table=(0, 1, 1, 0)),
            {0: [0, 3], 1: [1, 2]},
        ),
        # ep is the slower of both: expert 0 is on ranks 0 and 1, and each has half of its rows.
        (
            Layout(tp=4, ep=2, etp=2),
            (4,),
            Expert(num_experts=2, etp_dim=0),
            {0: [0], 1: [1], 2: [2], 3: [3]},
        ),
        (Layout(tp=2), (3,), Vocab(4), {0: [0, 1], 1: [2, None]}),
        (Layout(dp=2), (2, 2), Flat(1, 6), {0: [0, 1], 1: [2, 3]}),
        (Layout(dp=3), (2,), Flat(1, 6), {0: [0], 1: [1], 2: []}),
    ],
)
def test_each_kind_is_defined_as_by_hand(layout, shape, kind, wanted):
    assert elements(layout, shape, kind) == wanted


def test_the_order_lists_the_fastest_axis_first():
    both = Split((Cut("tp", 0), Cut("dp", 0)))
    assert elements(Layout(tp=2, dp=2), (4,), both) == {0: [0], 1: [2], 2: [1], 3: [3]}
    other = Layout(tp=2, dp=2, order="dp-tp-cp-ep-pp")
    assert elements(other, (4,), both) == {0: [0], 1: [1], 2: [2], 3: [3]}


def test_only_ranks_on_a_stage_of_the_parameter_hold_it():
    assert elements(Layout(pp=4), (1,), Whole(), stages=(0, 3)) == {0: [0], 3: [0]}
    first = Layout(tp=2, pp=2, order="pp-tp-cp-ep-dp")
    assert elements(first, (2,), ROWS, stages=(1,)) == {1: [0], 3: [1]}


def test_a_shard_has_the_shape_of_its_lists():
    shards = layout_shards(Layout(tp=2), parameter((3, 2), Vocab(4)))
    assert shards[1].shape == (2, 2)
    assert shards[1].elements == (4, 5, None, None)


@pytest.mark.parametrize(
    ("layout", "shape", "kind", "message"),
    [
        (Layout(tp=2), (3,), ROWS, "3 are not 2 equal parts"),
        (Layout(tp=4), (2,), Fused((Block(name="q", size=2),)), "2 are not 4 equal parts"),
        (Layout(dp=2, ep=2), (3,), Expert(num_experts=3), "3 are not 2 equal parts"),
        (Layout(dp=2), (1,), Flat(0, 3), "3 are not 2 equal parts"),
    ],
)
def test_what_does_not_divide_has_no_definition(layout, shape, kind, message):
    with pytest.raises(UnsupportedLayoutError, match=message):
        layout_shards(layout, parameter(shape, kind))


def test_experts_on_another_stage_than_their_layer_have_no_definition():
    layout = Layout(tp=2, dp=2, pp=2, ep=2, etp=1, order="tp-pp-cp-ep-dp")
    with pytest.raises(InvalidMapError, match="rank 1 is on two stages"):
        layout_shards(layout, parameter((2,), Expert(num_experts=2)))
