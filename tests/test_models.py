"""The real models: their sizes, how they lie on ranks, and what is refused in which words."""

import json
import math
import re
import runpy
from dataclasses import asdict
from pathlib import Path

import pytest

from pytest_affine import truth
from pytest_affine.errors import AffineTransferError, UnsupportedLayoutError
from pytest_affine.layouts import (
    Cut,
    Expert,
    Flat,
    Fused,
    Layout,
    Parameter,
    Split,
    Vocab,
    Whole,
    describe,
)
from pytest_affine.models import (
    Sharding,
    layers_per_stage,
    load_model,
    model_names,
    parse_sharding,
)
from pytest_affine.models.data_parallel import fully_sharded

FOLDER = Path(__file__).parents[1] / "fixtures" / "layouts"

# Elements as Hugging Face counts them in the safetensors files that the models' sources name; for
# DeepSeek-V3 without its multi-token prediction module, and for CodeGen and Yuan, whose files are
# not safetensors, by adding up the shapes of their modules.
NUM_ELEMENTS = {
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_419_200,
    "gpt-bigcode": 15_517_456_384,
    "codegen-16b": 16_032_155_648,
    "yuan-2-2b": 2_088_724_480,
}


def refuses(message, error=AffineTransferError):
    return pytest.raises(error, match=f"^{re.escape(message)}$")


def by_name(model, degrees):
    return {held.name: held for held in load_model(model).parameters_on(degrees)}


def test_every_model_is_listed():
    assert set(model_names()) == set(NUM_ELEMENTS)


@pytest.mark.parametrize("name", NUM_ELEMENTS)
def test_a_model_has_as_many_elements_as_its_source_says(name):
    assert load_model(name).num_elements == NUM_ELEMENTS[name]


@pytest.mark.parametrize("name", NUM_ELEMENTS)
def test_a_models_file_is_what_the_script_beside_it_writes(name):
    script = runpy.run_path(str(FOLDER / "generate.py"))
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert text == script["written"](asdict(script["models"]()[name])) + "\n"
    assert json.loads(text)["sources"]


@pytest.mark.parametrize(
    ("layers", "stages", "counts"),
    [
        (126, 16, [7, *[8] * 14, 7]),  # Llama 3, section 3.3.2
        (126, 32, [3, *[4] * 30, 3]),
        (4, 2, [2, 2]),
        (7, 4, [2, 2, 2, 1]),
        (9, 4, [2, 3, 2, 2]),
        (3, 3, [1, 1, 1]),
    ],
)
def test_outer_stages_have_fewer_layers(layers, stages, counts):
    assert layers_per_stage(layers, stages) == counts


def test_layers_are_numbered_through_and_lie_on_their_stages():
    parameters = by_name("llama-3-8b", "pp4")
    stages = [
        parameters[f"model.layers.{layer}.input_layernorm.weight"].stages for layer in range(32)
    ]
    assert stages == [(layer // 8,) for layer in range(32)]
    assert parameters["model.embed_tokens.weight"].stages == (0,)
    assert parameters["model.norm.weight"].stages == (3,)
    assert parameters["lm_head.weight"].stages == (3,)


def test_kinds_of_layers_follow_one_another():
    names = by_name("deepseek-v3", "tp1")
    dense = [layer for layer in range(61) if f"model.layers.{layer}.mlp.up_proj.weight" in names]
    sparse = [
        layer for layer in range(61) if f"model.layers.{layer}.mlp.experts.up_proj.weight" in names
    ]
    assert (dense, sparse) == ([0, 1, 2], list(range(3, 61)))


def test_a_tied_head_is_held_by_the_first_and_the_last_stage():
    assert by_name("gpt-bigcode", "pp4")["transformer.wte.weight"].stages == (0, 3)
    assert by_name("gpt-bigcode", "pp1")["transformer.wte.weight"].stages == (0,)
    assert by_name("gpt-bigcode", "pp4")["transformer.wpe.weight"].stages == (0,)


def test_parameters_that_are_cut_alike_share_one_map():
    maps = load_model("llama-3-8b").maps_on("tp2,pp2")
    assert next(iter(maps)) == "model.embed_tokens.weight"
    up, gate = (f"model.layers.{{}}.mlp.{name}_proj.weight" for name in ("up", "gate"))
    assert maps[up.format(0)] is maps[up.format(15)] is maps[gate.format(0)]
    assert maps[up.format(0)] != maps[up.format(16)]


def test_a_dtype_may_differ_from_the_models():
    parameters = by_name("deepseek-v3", "tp1")
    assert parameters["model.layers.3.mlp.gate.weight"].dtype == "bfloat16"
    assert parameters["model.layers.3.mlp.gate.e_score_correction_bias"].dtype == "float32"


def elements_of_rank(maps, rank):
    """Elements that a rank holds, padding included."""
    return sum(math.prod(dict(map_.shard_shapes).get(rank, (0,))) for map_ in maps.values())


def test_a_rank_holds_its_share_of_llama():
    norms = 65 * 4096
    maps = load_model("llama-3-8b").maps_on("tp2")  # 128,256 rows are 501 times 256
    assert elements_of_rank(maps, 1) == (NUM_ELEMENTS["llama-3-8b"] - norms) // 2 + norms


def test_sixteen_ranks_hold_eight_kv_heads_twice():
    once, norms, kv = load_model("llama-3-8b").num_elements, 65 * 4096, 2 * 32 * 1024 * 4096
    padding = 2 * (63 * 2048 - 128256) * 4096
    maps = load_model("llama-3-8b").maps_on("tp16")
    assert elements_of_rank(maps, 5) == (once - norms + kv + padding) // 16 + norms
    k = maps["model.layers.0.self_attn.k_proj.weight"]
    assert [k.pieces(rank)[0].locations for rank in (4, 5)] == [(4, 5), (4, 5)]
    assert k.pieces(5)[0].full_offset == 2 * 128 * 4096


def test_expert_parallel_ranks_share_the_experts():
    experts = 58 * 256 * 3 * 2048 * 7168
    maps = load_model("deepseek-v3").maps_on("dp64,ep64")
    assert elements_of_rank(maps, 63) == NUM_ELEMENTS["deepseek-v3"] - experts + experts // 64


def test_a_vocabulary_is_padded_to_128_rows_on_every_rank():
    assert by_name("llama-3-8b", "tp4")["lm_head.weight"].kind == Vocab(512)
    head = load_model("llama-3-8b").maps_on("tp4")["lm_head.weight"]
    # 128,256 rows are 250.5 times 512.
    assert head.shard_shape(3) == (251 * 128, 4096)
    assert [block.shape for block in head.padding(3)] == [(256, 4096)]


def test_fsdp_and_zero_pad_no_rows():
    for degrees in ("tp4,fsdp2", "zero2"):
        assert not load_model("llama-3-8b").maps_on(degrees)["lm_head.weight"].padding_by_location


# Every model at every degree that it takes; every distinct map is judged.
DEGREES = ["tp1", "tp2", "tp2,cp2,dp2,pp3", "dp4", "fsdp48"]
MORE_DEGREES = {
    "llama-3-8b": ["tp16", "tp8,fsdp8", "zero7", "zero4,pp3"],
    "llama-3-70b": ["tp8,fsdp8", "tp64"],
    "llama-3-405b": ["tp8,fsdp64", "tp16,pp32"],
    "qwen3-30b-a3b": ["tp4,ep8,etp1,dp2", "ep128,dp128", "tp2,fsdp8"],
    "qwen3-235b-a22b": ["tp8,ep2,etp4", "ep8,dp8,pp4"],
    "deepseek-v3": ["tp4,ep8,etp1,dp2", "tp8,ep64,etp1,dp8", "tp2,fsdp4", "tp16,pp16"],
    "gpt-bigcode": ["tp16", "tp3", "tp6,dp2,pp5"],
    "codegen-16b": ["tp3", "tp6"],
    "yuan-2-2b": ["tp16", "tp4,pp24"],
}
CASES = [
    pytest.param(name, degrees, id=f"{name}: {degrees}")
    for name in NUM_ELEMENTS
    for degrees in DEGREES + MORE_DEGREES[name]
]


@pytest.mark.parametrize(("name", "degrees"), CASES)
def test_every_parameter_of_a_model_has_a_valid_map(name, degrees):
    model = load_model(name)
    maps = model.maps_on(degrees)
    assert list(maps) == [held.name for held in model.parameters_on("tp1")]
    for map_ in {id(map_): map_ for map_ in maps.values()}.values():
        map_.validate()


@pytest.mark.parametrize(
    ("name", "degrees"),
    [("llama-3-8b", "tp16"), ("deepseek-v3", "tp4,ep8,etp1,dp2"), ("codegen-16b", "tp2")],
)
def test_truth_finds_the_maps_of_a_layer_valid(name, degrees):
    maps = load_model(name).maps_on(degrees)
    for map_ in {id(map_): map_ for map_ in maps.values()}.values():
        truth.assert_valid(map_)


def test_yuans_values_come_from_both_halves_of_the_heads():
    # Rank 1 of 4 has heads 4..7 and 20..23 of 32, as DeepSpeed's shared_qk_value_head_ids says.
    map_ = load_model("yuan-2-2b").maps_on("tp4")["model.layers.0.self_attn.v_proj.weight"]
    assert [(piece.full_offset, piece.shape) for piece in map_.pieces(1)] == [
        (4 * 64 * 2048, (4 * 64, 2048)),
        (20 * 64 * 2048, (4 * 64, 2048)),
    ]


def test_codegens_shards_are_four_groups_of_queries_values_and_keys():
    # As DeepSpeed's codegen_block_layout says for 2 ranks: blocks of half a group's q, v or k.
    map_ = load_model("codegen-16b").maps_on("tp2")["transformer.h.0.attn.qkv_proj.weight"]
    size = 3 * 256 * 6144
    blocks = []
    for piece in map_.pieces(0):
        first = piece.full_offset // size
        blocks += range(first, first + piece.num_elements // size)
    assert blocks == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


@pytest.mark.parametrize(
    ("degrees", "sharding"),
    [
        ("tp8,fsdp64", Sharding(Layout(tp=8, dp=64), "fsdp")),
        ("tp16,pp32", Sharding(Layout(tp=16, pp=32))),
        ("tp4,ep8,etp1,dp2", Sharding(Layout(tp=4, ep=8, etp=1, dp=2))),
        (" zero64 , cp2 ", Sharding(Layout(cp=2, dp=64), "zero")),
    ],
)
def test_degrees_are_read(degrees, sharding):
    assert parse_sharding(degrees) == sharding


AXES = "['tp', 'cp', 'dp', 'fsdp', 'zero', 'ep', 'etp', 'pp']"


@pytest.mark.parametrize(
    ("degrees", "message"),
    [
        ("", f"degrees '': an axis must be one of {AXES}, got ''"),
        ("np2", f"degrees 'np2': an axis must be one of {AXES}, got 'np2'"),
        ("tp2,,pp2", f"degrees 'tp2,,pp2': an axis must be one of {AXES}, got ''"),
        (
            "tp",
            "degrees 'tp': the degree of 'tp' must be an integer of 1 or more, got ''",
        ),
        (
            "tp0",
            "degrees 'tp0': the degree of 'tp' must be an integer of 1 or more, got '0'",
        ),
        (
            "tp2.5",
            "degrees 'tp2.5': the degree of 'tp' must be an integer of 1 or more, got '2.5'",
        ),
        ("tp2,tp2", "degrees 'tp2,tp2' name 'tp' twice"),
        (
            "dp2,fsdp2",
            "degrees 'dp2,fsdp2' name ['dp', 'fsdp'], which are the same ranks; name one of them",
        ),
        (
            "tp2,ep4",
            "degrees 'tp2,ep4': etp 2 times ep 4 must divide tp 2 times cp 1 times dp 1, so that "
            "experts have a whole number of data-parallel ranks; etp is tp unless it is given",
        ),
    ],
)
def test_degrees_of_no_sense_are_refused(degrees, message):
    with refuses(message):
        parse_sharding(degrees)


def test_an_unknown_model_is_refused():
    with refuses(f"a model must be one of {sorted(NUM_ELEMENTS)}, got 'llama'"):
        load_model("llama")


def test_more_stages_than_layers_are_refused():
    with refuses("pp must be at most 32, the number of layers, got 33"):
        load_model("llama-3-8b").parameters_on("pp33")


def fsdp_kinds(model, degrees):
    return {name: held.kind for name, held in by_name(model, degrees).items()}


def test_fsdp_cuts_dim_0_strided_where_tp_cuts_it_too():
    kinds = fsdp_kinds("llama-3-8b", "tp2,fsdp4")
    strided = Split((Cut("dp", 0, strided=True), Cut("tp", 0)), uneven=True)
    plain = Split((Cut("dp", 0), Cut("tp", 1)), uneven=True)
    assert kinds["model.embed_tokens.weight"] == strided
    assert kinds["model.layers.0.self_attn.k_proj.weight"] == strided
    assert kinds["model.layers.0.mlp.gate_proj.weight"] == strided
    assert kinds["model.layers.0.self_attn.o_proj.weight"] == plain
    assert kinds["model.layers.0.mlp.down_proj.weight"] == plain
    assert kinds["model.norm.weight"] == Split((Cut("dp", 0),), uneven=True)


def test_fsdp_cuts_experts_where_their_mesh_is_the_dense_one():
    kinds = fsdp_kinds("qwen3-30b-a3b", "tp2,fsdp4")
    plain = Split((Cut("dp", 0), Cut("tp", 1)), uneven=True)
    assert kinds["model.layers.0.mlp.experts.gate_proj.weight"] == plain


def test_fsdp_without_tp_cuts_every_parameter_along_dim_0():
    for name in ("gpt-bigcode", "codegen-16b"):
        assert set(fsdp_kinds(name, "fsdp4").values()) == {Split((Cut("dp", 0),), uneven=True)}


CUT_AGAIN = (
    "parameter {!r}: tp {} does not cut it in equal parts, between heads and along one dim, so "
    "that kind 'split' can not cut it again over dp: use tp1, or plain dp"
)


@pytest.mark.parametrize(
    ("model", "degrees", "name", "tp"),
    [
        ("gpt-bigcode", "tp2,fsdp2", "transformer.h.0.attn.c_attn.weight", 2),
        ("codegen-16b", "tp2,fsdp2", "transformer.h.0.attn.qkv_proj.weight", 2),
        ("yuan-2-2b", "tp2,fsdp2", "model.layers.0.self_attn.v_proj.weight", 2),
        ("llama-3-8b", "tp16,fsdp2", "model.layers.0.self_attn.k_proj.weight", 16),
        ("llama-3-8b", "tp3,fsdp2", "model.layers.0.self_attn.q_proj.weight", 3),
    ],
)
def test_fsdp_does_not_cut_what_tp_cuts_in_blocks(model, degrees, name, tp):
    with refuses(CUT_AGAIN.format(name, tp), UnsupportedLayoutError):
        load_model(model).parameters_on(degrees)


@pytest.mark.parametrize(
    ("degrees", "ep", "etp", "tp"), [("fsdp4,ep2", 2, 1, 1), ("tp2,etp1,fsdp2", 1, 1, 2)]
)
def test_fsdp_does_not_cut_experts_of_another_mesh(degrees, ep, etp, tp):
    message = (
        f"parameter 'model.layers.0.mlp.experts.gate_proj.weight': with ep {ep} and etp {etp} the "
        f"experts have other data-parallel ranks than dp, and no kind cuts experts over those: use "
        f"ep1 and etp{tp}, or plain dp"
    )
    with refuses(message, UnsupportedLayoutError):
        load_model("qwen3-30b-a3b").parameters_on(degrees)


def parameter(kind, *shape):
    return Parameter(name="weight", shape=shape, dtype="float32", kind=kind)


def test_fsdp_does_not_cut_experts_that_tp_cuts_one_by_one():
    with refuses(CUT_AGAIN.format("weight", 2), UnsupportedLayoutError):
        fully_sharded(parameter(Expert(num_experts=2, etp_dim=-2), 4, 2), Layout(tp=2, dp=2))


def test_fsdp_cuts_experts_that_tp_leaves_whole_over_dp_only():
    sharded = fully_sharded(parameter(Expert(num_experts=2), 2, 2), Layout(tp=2, dp=2))
    assert sharded.kind == Split((Cut("dp", 0),), uneven=True)


def test_fsdp_leaves_scalars_whole():
    assert fully_sharded(parameter(Whole()), Layout(dp=2)) == parameter(Whole())


def test_zero_flattens_the_parameters_of_each_stage_and_dtype():
    parameters = by_name("llama-3-8b", "zero3,pp2")
    embedding, query = 128256 * 4096, 4096 * 4096
    layer = 2 * query + 2 * 1024 * 4096 + 3 * 14336 * 4096 + 2 * 4096
    # Neither total is a multiple of 3, so that both are padded.
    first, last = embedding + 16 * layer, 16 * layer + 4096 + embedding
    assert parameters["model.embed_tokens.weight"].kind == Flat(0, first + -first % 3)
    assert parameters["model.layers.0.self_attn.k_proj.weight"].kind.offset == embedding + query
    assert parameters["model.layers.16.self_attn.q_proj.weight"].kind == Flat(0, last + -last % 3)
    assert parameters["lm_head.weight"].kind.offset == last - embedding
    floats = by_name("deepseek-v3", "zero2")
    bias = "model.layers.{}.mlp.gate.e_score_correction_bias"
    assert floats[bias.format(4)].kind == Flat(256, 58 * 256)


def test_a_parameter_crosses_the_boundaries_of_zero():
    model = load_model("llama-3-8b")
    embedding = describe(Layout(dp=64), model.parameters_on("zero64")[0])
    width = model.num_elements // 64
    assert embedding.shard_shape(3) == (width,)
    assert embedding.pieces(3)[0].full_offset == 3 * width
    assert embedding.shard_shape(4) == (128256 * 4096 - 4 * width,)
    assert embedding.shard_shape(5) == (0,)


def test_zero_leaves_nothing_flat_of_what_tp_cuts():
    message = (
        "parameter 'model.embed_tokens.weight': zero cuts what tp 2 leaves, flattened; that is no "
        "interval of the full tensor, and kind 'flat' holds only intervals: use tp1, or fsdp"
    )
    with refuses(message, UnsupportedLayoutError):
        load_model("llama-3-8b").parameters_on("zero64,tp2")


def test_zero_has_no_offset_for_a_tied_parameter_on_two_stages():
    message = (
        "parameter 'transformer.wte.weight': zero gives a tied parameter another offset on each of "
        "stages [0, 1], and kind 'flat' has one: use pp1, or fsdp"
    )
    with refuses(message, UnsupportedLayoutError):
        load_model("gpt-bigcode").parameters_on("zero2,pp2")


def test_plain_dp_leaves_the_kinds_as_they_are():
    kinds = fsdp_kinds("llama-3-8b", "tp2,dp4")
    assert kinds["model.norm.weight"] == Whole()
    assert isinstance(kinds["model.layers.0.self_attn.q_proj.weight"], Fused)
