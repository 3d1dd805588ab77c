"""Maps of every kind by hand, what is refused and in which words, and the JSON of layouts."""

import json
import re

import pytest

from pytest_affine import truth
from pytest_affine.errors import AffineTransferError, InvalidMapError, UnsupportedLayoutError
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
    describe,
)


def parameter(kind, shape, **fields):
    return Parameter(name="weight", shape=shape, dtype="float32", kind=kind, **fields)


def held(layout, kind, shape, **fields):
    """{rank: logical elements in the shard's order}, of a map that truth finds valid."""
    map_ = describe(layout, parameter(kind, shape, **fields))
    truth.assert_valid(map_)
    return {rank: list(truth.element_at(map_, rank)) for rank in map_.locations}


def shard_shapes(layout, kind, shape):
    return dict(describe(layout, parameter(kind, shape)).shard_shapes)


def blocks(*entries):
    return tuple(Block(name=f"{size}", size=size, rule=rule) for size, rule in entries)


def test_whole_is_all_on_every_rank():
    assert held(Layout(tp=2, dp=2), Whole(), (2, 2)) == {rank: [0, 1, 2, 3] for rank in range(4)}


def test_a_scalar_is_whole_on_every_rank():
    assert held(Layout(tp=2), Whole(), ()) == {0: [0], 1: [0]}


def test_a_split_over_tp_is_the_same_on_all_dp_and_cp_ranks():
    kind = Split((Cut("tp", 0),))
    assert held(Layout(tp=2, dp=2), kind, (4,)) == {0: [0, 1], 1: [2, 3], 2: [0, 1], 3: [2, 3]}
    assert held(Layout(tp=2, cp=2), kind, (4,)) == {0: [0, 1], 1: [2, 3], 2: [0, 1], 3: [2, 3]}


def test_replicas_name_each_other():
    map_ = describe(Layout(tp=2, dp=2), parameter(Split((Cut("tp", 0),)), (4,)))
    assert [map_.pieces(rank)[0].locations for rank in range(4)] == [(0, 2), (1, 3), (0, 2), (1, 3)]


def test_the_order_of_the_axes_numbers_the_ranks():
    layout, kind = Layout(tp=2, dp=2, order="dp-tp-cp-ep-pp"), Split((Cut("tp", 0),))
    assert held(layout, kind, (4,)) == {0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3]}


def test_pp_first_in_the_order_puts_neighbours_on_different_stages():
    layout, kind = Layout(tp=2, pp=2, order="pp-tp-cp-ep-dp"), Split((Cut("tp", 0),))
    assert held(layout, kind, (4,), stages=(1,)) == {1: [0, 1], 3: [2, 3]}


def test_columns_are_cut_by_a_dim_that_may_count_from_the_end():
    for dim in (1, -1):
        assert held(Layout(tp=2), Split((Cut("tp", dim),)), (2, 4)) == {
            0: [0, 1, 4, 5],
            1: [2, 3, 6, 7],
        }


def test_a_later_cut_of_a_dim_cuts_what_the_former_left():
    kind = Split((Cut("tp", 0), Cut("dp", 0)))
    assert held(Layout(tp=2, dp=2), kind, (8,)) == {0: [0, 1], 1: [4, 5], 2: [2, 3], 3: [6, 7]}


def test_a_strided_cut_before_the_tp_cut_gives_each_rank_a_part_of_its_tp_shard():
    kind = Split((Cut("dp", 0, strided=True), Cut("tp", 0)))
    assert held(Layout(tp=2, dp=2), kind, (8,)) == {0: [0, 1], 1: [4, 5], 2: [2, 3], 3: [6, 7]}


def test_without_strides_the_first_cut_is_the_outer_one():
    kind = Split((Cut("dp", 0), Cut("tp", 0)))
    assert held(Layout(tp=2, dp=2), kind, (8,)) == {0: [0, 1], 1: [2, 3], 2: [4, 5], 3: [6, 7]}


def test_an_uneven_strided_cut_has_equal_offsets_in_every_block():
    # F06: dp rank 0 has {0, 1, 3, 4} and dp rank 1 has {2}; tp cuts these.
    kind = Split((Cut("dp", 0, strided=True), Cut("tp", 0)), uneven=True)
    assert held(Layout(tp=2, dp=2), kind, (5,)) == {0: [0, 1], 1: [3, 4], 2: [2], 3: []}


def test_a_strided_cut_of_one_dim_ignores_cuts_of_another():
    kind = Split((Cut("dp", 0, strided=True), Cut("tp", 1)))
    assert held(Layout(tp=2, dp=2), kind, (2, 2)) == {0: [0], 1: [1], 2: [2], 3: [3]}


def test_uneven_parts_are_as_torch_chunk_makes_them():
    kind = Split((Cut("tp", 0),), uneven=True)
    assert held(Layout(tp=4), kind, (5,)) == {0: [0, 1], 1: [2, 3], 2: [4], 3: []}
    assert shard_shapes(Layout(tp=4), kind, (5, 2))[3] == (0, 2)


def test_cp_ranks_may_be_cut_over_too():
    kind = Split((Cut("cp", 0), Cut("dp", 0)))
    assert held(Layout(cp=2, dp=2), kind, (4,)) == {0: [0], 1: [2], 2: [1], 3: [3]}


def test_fused_blocks_are_split_one_by_one():
    # F10: equal chunks would be 0..3 and 4..7.
    kind = Fused(blocks((4, "split"), (2, "split"), (2, "split")))
    assert held(Layout(tp=2), kind, (8, 1)) == {0: [0, 1, 4, 6], 1: [2, 3, 5, 7]}


def test_gate_and_up_are_fused_along_the_columns_too():
    kind = Fused(blocks((2, "split"), (2, "split")), dim=1)
    assert held(Layout(tp=2), kind, (2, 4)) == {0: [0, 2, 4, 6], 1: [1, 3, 5, 7]}


def test_a_fused_bias_is_cut_as_its_weight():
    kind = Fused(blocks((2, "split"), (1, "whole")))
    assert held(Layout(tp=2), kind, (3,)) == {0: [0, 2], 1: [1, 2]}


def test_a_whole_block_is_on_every_rank():
    kind = Fused(blocks((4, "split"), (1, "whole")))
    assert held(Layout(tp=2), kind, (5, 1)) == {0: [0, 1, 4], 1: [2, 3, 4]}
    map_ = describe(Layout(tp=2), parameter(kind, (5, 1)))
    assert [piece.locations for piece in map_.pieces(1)] == [(1,), (0, 1)]


def test_ranks_beyond_the_kv_heads_share_them():
    kind = Fused(attention_blocks(heads=4, kv_heads=2, head_dim=1))
    assert held(Layout(tp=4), kind, (8, 1)) == {
        0: [0, 4, 6],
        1: [1, 4, 6],
        2: [2, 5, 7],
        3: [3, 5, 7],
    }


def test_kv_heads_that_do_not_divide_the_ranks_are_shared_by_the_rule():
    kind = Fused(attention_blocks(heads=3, kv_heads=2, head_dim=1))
    # r * 2 // 3 is 0, 0, 1.
    assert held(Layout(tp=3), kind, (7, 1)) == {0: [0, 3, 5], 1: [1, 3, 5], 2: [2, 4, 6]}


def test_heads_stay_whole():
    kind = Fused(attention_blocks(heads=2, kv_heads=1, head_dim=2))
    assert held(Layout(tp=2), kind, (8, 1)) == {0: [0, 1, 4, 5, 6, 7], 1: [2, 3, 4, 5, 6, 7]}


# Rows q, q, k, v, twice (F09).
TWO_GROUPS = attention_blocks(heads=2, kv_heads=1, head_dim=1)


def test_interleaved_groups_go_to_ranks_whole_while_there_are_enough():
    kind = Interleaved(groups=2, blocks=TWO_GROUPS)
    assert held(Layout(tp=2), kind, (8, 1)) == {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}


def test_ranks_beyond_the_groups_share_the_groups_kv_heads():
    kind = Interleaved(groups=2, blocks=TWO_GROUPS)
    assert held(Layout(tp=4), kind, (8, 1)) == {
        0: [0, 2, 3],
        1: [1, 2, 3],
        2: [4, 6, 7],
        3: [5, 6, 7],
    }


def test_one_shard_group_puts_the_blocks_end_to_end():
    kind = Interleaved(groups=2, blocks=TWO_GROUPS, shard_groups=1)
    assert held(Layout(), kind, (8, 1)) == {0: [0, 1, 4, 5, 2, 6, 3, 7]}


def test_four_shard_groups_arrange_a_shard_as_codegen_arranges_the_whole():
    # Four groups q q v v k k; every shard has four groups q v k.
    third = tuple(Block(name=name, size=2) for name in "qvk")
    kind = Interleaved(groups=4, blocks=third, shard_groups=4)
    assert held(Layout(tp=2), kind, (24, 1)) == {
        0: [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11],
        1: [12, 14, 16, 13, 15, 17, 18, 20, 22, 19, 21, 23],
    }


def test_ranks_that_do_not_divide_the_groups_cut_between_heads():
    third = tuple(Block(name=name, size=3) for name in "qvk")
    kind = Interleaved(groups=2, blocks=third)
    # Six heads each, two a rank; the second rank has heads 2 and 3, of both groups.
    assert held(Layout(tp=3), kind, (18, 1))[1] == [2, 5, 8, 9, 12, 15]


def test_experts_are_contiguous_over_expert_parallel_ranks():
    assert held(Layout(dp=2, ep=2), Expert(num_experts=4), (4, 1)) == {0: [0, 1], 1: [2, 3]}


def test_a_table_says_where_each_expert_is():
    kind = Expert(num_experts=4, table=(0, 1, 1, 0))
    assert held(Layout(dp=2, ep=2), kind, (4, 1)) == {0: [0, 3], 1: [1, 2]}


def test_a_rank_that_the_table_names_nowhere_has_an_empty_shard():
    kind = Expert(num_experts=2, table=(1, 1))
    assert held(Layout(dp=2, ep=2), kind, (2, 1)) == {0: [], 1: [0, 1]}


def test_experts_over_tp_ranks_with_etp_1():
    kind = Expert(num_experts=2, etp_dim=1)
    assert held(Layout(tp=2, ep=2, etp=1), kind, (2, 2)) == {0: [0, 1], 1: [2, 3]}


def test_etp_cuts_an_axis_of_every_expert_and_is_fastest():
    kind = Expert(num_experts=2, etp_dim=1)
    layout = Layout(tp=2, dp=2, ep=2)
    assert layout.etp == 2
    assert held(layout, kind, (2, 2)) == {0: [0], 1: [1], 2: [2], 3: [3]}


def test_the_order_numbers_the_expert_mesh_too():
    kind = Expert(num_experts=2, etp_dim=1)
    layout = Layout(tp=2, dp=2, ep=2, order="ep-tp-cp-dp-pp")
    assert held(layout, kind, (2, 2)) == {0: [0], 1: [2], 2: [1], 3: [3]}


def test_experts_have_their_own_data_parallel_ranks():
    layout = Layout(tp=2, dp=2, ep=2, etp=1)
    assert layout.edp == 2
    assert held(layout, Expert(num_experts=2), (2, 1)) == {0: [0], 1: [1], 2: [0], 3: [1]}


def test_cp_ranks_take_part_in_the_expert_mesh():
    layout = Layout(cp=2, dp=1, ep=2)
    assert layout.edp == 1
    assert held(layout, Expert(num_experts=2), (2,)) == {0: [0], 1: [1]}


def test_etp_on_the_axis_of_the_experts_cuts_each_expert():
    kind = Expert(num_experts=2, etp_dim=0)
    assert held(Layout(tp=2), kind, (4, 1)) == {0: [0, 2], 1: [1, 3]}


def test_experts_may_be_along_the_columns():
    kind = Expert(num_experts=2, dim=1)
    assert held(Layout(dp=2, ep=2), kind, (2, 4)) == {0: [0, 1, 4, 5], 1: [2, 3, 6, 7]}


def test_a_vocabulary_is_padded_at_its_end():
    # F15: 5 rows padded to 6, and to 8.
    assert held(Layout(tp=2), Vocab(6), (5, 1)) == {0: [0, 1, 2], 1: [3, 4, None]}
    assert held(Layout(tp=2), Vocab(8), (5, 1)) == {0: [0, 1, 2, 3], 1: [4, None, None, None]}


def test_a_rank_may_hold_padding_only():
    assert held(Layout(tp=4), Vocab(8), (5,)) == {
        0: [0, 1],
        1: [2, 3],
        2: [4, None],
        3: [None, None],
    }


def test_padding_rows_are_as_wide_as_the_others():
    assert held(Layout(tp=2), Vocab(2), (1, 2)) == {0: [0, 1], 1: [None, None]}
    assert shard_shapes(Layout(tp=2), Vocab(2), (1, 2)) == {0: (1, 2), 1: (1, 2)}


def test_a_flat_parameter_is_an_interval_per_data_parallel_rank():
    assert held(Layout(dp=2), Flat(1, 8), (2, 3)) == {0: [0, 1, 2], 1: [3, 4, 5]}


def test_a_flat_parameter_misses_the_ranks_before_and_after_it():
    assert held(Layout(dp=4), Flat(5, 16), (6,)) == {0: [], 1: [0, 1, 2], 2: [3, 4, 5], 3: []}
    assert held(Layout(dp=2), Flat(1, 2), ()) == {0: [], 1: [0]}


def test_flat_shards_are_the_same_on_all_tp_ranks():
    layout = Layout(tp=2, dp=2)
    assert held(layout, Flat(0, 2), (2,)) == {0: [0], 1: [0], 2: [1], 3: [1]}


def test_other_stages_are_not_in_the_map():
    kind = Split((Cut("tp", 0),))
    assert held(Layout(tp=2, pp=2), kind, (2,), stages=(1,)) == {2: [0], 3: [1]}


def test_a_tied_parameter_is_on_both_its_stages():
    kind = Split((Cut("tp", 0),))
    layout = Layout(tp=2, pp=3)
    assert held(layout, kind, (2,), stages=(2, 0)) == {0: [0], 1: [1], 4: [0], 5: [1]}
    assert parameter(kind, (2,), stages=(2, 0)) == parameter(kind, (2,), stages=(0, 2))


def test_experts_are_on_the_stage_of_their_layer():
    layout = Layout(tp=2, ep=2, etp=1, pp=2)
    assert held(layout, Expert(num_experts=2), (2,), stages=(1,)) == {2: [0], 3: [1]}


def test_size_costs_nothing():
    map_ = describe(Layout(tp=4), parameter(Split((Cut("tp", 0),)), (2**60, 2**30)))
    assert map_.shard_shape(3) == (2**58, 2**30)


def refuses(message, error=InvalidMapError):
    return pytest.raises(error, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tp": 0}, "tp must be 1 or more, got 0"),
        ({"etp": 0}, "etp must be 1 or more, got 0"),
        ({"dp": True}, "dp must be an integer, got True"),
        ({"order": ""}, "order must be a string that is not empty, got ''"),
        (
            {"order": "tp-dp-pp"},
            "order must name each of ['cp', 'dp', 'ep', 'pp', 'tp'] once, joined by \"-\", "
            "got 'tp-dp-pp'",
        ),
    ],
)
def test_a_layout_of_no_sense_is_refused(fields, message):
    with refuses(message):
        Layout(**fields)


def test_experts_need_a_whole_number_of_data_parallel_ranks():
    message = (
        "etp 2 times ep 4 must divide tp 2 times cp 1 times dp 2, so that experts have a whole "
        "number of data-parallel ranks; etp is tp unless it is given"
    )
    with refuses(message, AffineTransferError):
        Layout(tp=2, dp=2, ep=4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cut("pp", 0), "axis must be one of ['tp', 'cp', 'dp'], got 'pp'"),
        (lambda: Cut("tp", 0.5), "dim must be an integer, got 0.5"),
        (lambda: Cut("tp", 0, strided=1), "strided must be true or false, got 1"),
        (lambda: Split(()), "cuts must be a list that is not empty, got ()"),
        (lambda: Split(({"axis": "tp"},)), "cuts[0] lacks the key 'dim'; it has ['axis']"),
        (lambda: Split((7,)), "cuts[0] must be a JSON object, got 7"),
        (lambda: Split((Cut("tp", 0),), uneven=None), "uneven must be true or false, got None"),
        (
            lambda: Split((Cut("tp", 0), Cut("tp", 1))),
            "cuts must name a mesh axis at most once, got ['tp'] more often",
        ),
        (lambda: Block(name="", size=1), "name must be a string that is not empty, got ''"),
        (lambda: Block(name="q", size=0), "size must be 1 or more, got 0"),
        (
            lambda: Block(name="q", size=1, rule="cut"),
            "rule must be one of ['split', 'whole', 'kv'], got 'cut'",
        ),
        (
            lambda: Block(name="q", size=3, head_dim=2),
            "size of block 'q' must be a multiple of its head_dim 2, got 3",
        ),
        (
            lambda: attention_blocks(heads=0, kv_heads=1, head_dim=1),
            "heads must be 1 or more, got 0",
        ),
        (lambda: Fused(()), "blocks must be a list that is not empty, got ()"),
        (lambda: Fused(blocks((1, "split")), dim="0"), "dim must be an integer, got '0'"),
        (
            lambda: Interleaved(groups=0, blocks=blocks((1, "split"))),
            "groups must be 1 or more, got 0",
        ),
        (
            lambda: Interleaved(groups=1, blocks=blocks((1, "split")), shard_groups=0),
            "shard_groups must be 1 or more, got 0",
        ),
        (lambda: Expert(num_experts=0), "num_experts must be 1 or more, got 0"),
        (
            lambda: Expert(num_experts=2, table=(0,)),
            "table must have 2 entries, one per expert, got 1",
        ),
        (lambda: Vocab(0), "multiple must be 1 or more, got 0"),
        (lambda: Flat(-1, 2), "offset must be 0 or more, got -1"),
        (lambda: parameter(Whole(), (-1,)), "shape must hold integers of 0 or more, got [-1]"),
        (
            lambda: parameter(Whole(), (1,), stages=()),
            "stages must name at least one stage, and none twice, got []",
        ),
        (
            lambda: parameter(Whole(), (1,), stages=(1, 1)),
            "stages must name at least one stage, and none twice, got [1, 1]",
        ),
        (lambda: parameter("whole", (1,)), "kind must be a JSON object, got 'whole'"),
    ],
)
def test_a_field_of_no_sense_is_refused(make, message):
    with refuses(message):
        make()


@pytest.mark.parametrize(
    ("layout", "kind", "shape", "message"),
    [
        (
            Layout(tp=2),
            Split((Cut("tp", 2),)),
            (4,),
            "cuts[0].dim must be one of [-1, 0], the axes of shape [4], got 2",
        ),
        (
            Layout(tp=2),
            Fused(blocks((2, "split"))),
            (4,),
            "the blocks must fill dim 0, which has 4 indices; 1 groups of 2 have 2",
        ),
        (
            Layout(),
            Interleaved(groups=3, blocks=TWO_GROUPS),
            (8,),
            "the blocks must fill dim 0, which has 8 indices; 3 groups of 4 have 12",
        ),
        (
            Layout(),
            Expert(num_experts=3),
            (4,),
            "num_experts must divide extent 4 of dim 0, got 3",
        ),
        (
            Layout(dp=2, ep=2),
            Expert(num_experts=2, table=(0, 2)),
            (2,),
            "table must hold expert-parallel ranks, one of [0, 1], got [2]",
        ),
        (
            Layout(),
            Vocab(2),
            (),
            "the axis of a vocabulary's rows must be one of [], the axes of shape [], got 0",
        ),
        (
            Layout(),
            Flat(3, 6),
            (2, 2),
            "offset 3 and 4 elements of shape [2, 2] must stay within padded_total 6",
        ),
    ],
)
def test_a_kind_that_contradicts_the_shape_is_refused(layout, kind, shape, message):
    with refuses(f"parameter 'weight': {message}"):
        describe(layout, parameter(kind, shape))


@pytest.mark.parametrize(
    ("layout", "kind", "shape", "what", "axis"),
    [
        (Layout(tp=3), Split((Cut("tp", 0),)), (4,), "extent of dim 0 is 4, which 3", "tp"),
        (
            Layout(tp=2, dp=2),
            Split((Cut("tp", 0), Cut("dp", 0))),
            (6,),
            "extent of dim 0 is 6, which 4",
            "tp x dp",
        ),
        (
            Layout(tp=2),
            Fused((Block(name="q", size=6, head_dim=2),)),
            (6,),
            "number of heads of block 'q' is 3, which 2",
            "tp",
        ),
        (
            Layout(tp=2),
            Fused((Block(name="k", size=3, rule="kv"),)),
            (3,),
            "number of heads of block 'k' is 3, which 2",
            "tp",
        ),
        (Layout(dp=2, ep=2), Expert(num_experts=3), (3,), "num_experts is 3, which 2", "ep"),
        (
            Layout(tp=2),
            Expert(num_experts=1, etp_dim=1),
            (1, 3),
            "what etp cuts of dim 1 is 3, which 2",
            "etp",
        ),
        (Layout(tp=2), Vocab(3), (2,), "number of padded rows is 3, which 2", "tp"),
        (Layout(dp=2), Flat(0, 3), (2,), "padded_total is 3, which 2", "dp"),
    ],
)
def test_what_can_not_be_shared_equally_is_unsupported(layout, kind, shape, what, axis):
    message = (
        f"parameter 'weight': {what} {axis} ranks can not share equally; {axis} must divide it"
    )
    with refuses(message, UnsupportedLayoutError):
        describe(layout, parameter(kind, shape))


def test_shard_groups_share_a_ranks_heads_equally():
    kind = Interleaved(groups=1, blocks=blocks((3, "split")), shard_groups=2)
    message = (
        "parameter 'weight': a rank holds 3 heads of block '3', which 2 shard_groups can not share "
        "equally; shard_groups must divide them"
    )
    with refuses(message, UnsupportedLayoutError):
        describe(Layout(), parameter(kind, (3,)))


def test_a_stage_that_the_layout_lacks_is_refused():
    message = (
        "parameter 'weight': stages must be among [0, 1], the layout's pipeline stages, got [2]"
    )
    with refuses(message):
        describe(Layout(pp=2), parameter(Whole(), (1,), stages=(0, 2)))


def test_experts_on_another_stage_than_their_layer_are_refused():
    layout = Layout(cp=2, pp=2, order="tp-cp-pp-ep-dp")
    message = (
        "order 'tp-cp-pp-ep-dp' puts rank 1 on pipeline stage 0 of the dense mesh and 1 of the "
        "expert mesh; pp last in the order is always right"
    )
    with refuses(message, AffineTransferError):
        describe(layout, parameter(Expert(num_experts=1), (1,)))
    assert held(layout, Whole(), (1,)) == {0: [0], 1: [0]}


KINDS = [
    Whole(),
    Split((Cut("dp", -1, strided=True), Cut("tp", 0)), uneven=True),
    Fused(attention_blocks(heads=4, kv_heads=2, head_dim=8), dim=1),
    Interleaved(groups=2, blocks=TWO_GROUPS, shard_groups=1),
    Expert(num_experts=2, dim=1, table=(1, 0), etp_dim=0),
    Vocab(128),
    Flat(3, 64),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_a_parameter_survives_json(kind):
    before = parameter(kind, (4, 2), stages=(0, 3))
    assert Parameter.from_dict(json.loads(json.dumps(before.to_dict()))) == before


def test_a_layout_survives_json():
    layout = Layout(tp=2, cp=3, dp=4, pp=5, ep=6, etp=1, order="cp-tp-ep-dp-pp")
    assert Layout.from_dict(json.loads(json.dumps(layout.to_dict()))) == layout
    assert Layout.from_dict({"tp": 2}) == Layout(tp=2)


def test_the_json_of_a_kind_says_what_is_not_the_default():
    kind = Split((Cut("dp", 0, strided=True), Cut("tp", 0)))
    assert parameter(kind, (4,)).to_dict() == {
        "name": "weight",
        "shape": [4],
        "dtype": "float32",
        "kind": {
            "kind": "split",
            "cuts": [{"axis": "dp", "dim": 0, "strided": True}, {"axis": "tp", "dim": 0}],
        },
        "stages": [0],
    }


def entry(**changes):
    return {"name": "w", "shape": [1], "dtype": "int8", "kind": {"kind": "whole"}, **changes}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (7, "parameter must be a JSON object, got 7"),
        ({}, "parameter lacks the key 'name'; it has []"),
        (
            entry(color=1),
            "parameter has unknown keys ['color']; the known ones are "
            "['name', 'shape', 'dtype', 'kind', 'stages']",
        ),
        (entry(shape="4"), "parameter: shape must be a sequence of integers, got '4'"),
        (entry(kind={}), "parameter: kind lacks the key 'kind'; it has []"),
        (
            entry(kind={"kind": "cut"}),
            "parameter: kind.kind must be one of ['whole', 'split', 'fused', 'interleaved', "
            "'expert', 'vocab', 'flat'], got 'cut'",
        ),
        (
            entry(kind={"kind": "split", "cuts": [{"axis": "tp", "dim": 0}, {"axis": "x"}]}),
            "parameter: kind: cuts[1] lacks the key 'dim'; it has ['axis']",
        ),
        (
            entry(kind={"kind": "split", "cuts": [{"axis": "x", "dim": 0}]}),
            "parameter: kind: cuts[0]: axis must be one of ['tp', 'cp', 'dp'], got 'x'",
        ),
        (
            entry(kind={"kind": "vocab"}),
            "parameter: kind lacks the key 'multiple'; it has []",
        ),
    ],
)
def test_bad_json_of_a_parameter_is_refused(bad, message):
    with refuses(message):
        Parameter.from_dict(bad)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "layout must be a JSON object, got []"),
        (
            {"np": 2},
            "layout has unknown keys ['np']; the known ones are "
            "['tp', 'cp', 'dp', 'pp', 'ep', 'etp', 'order']",
        ),
        ({"tp": "2"}, "layout: tp must be an integer, got '2'"),
    ],
)
def test_bad_json_of_a_layout_is_refused(bad, message):
    with refuses(message):
        Layout.from_dict(bad)
