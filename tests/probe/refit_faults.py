"""The refit of the example with faults that real resharders had, by the ids of docs/faults.md.

Each changes a freshly loaded module of the example, whose tensors were made before.
"""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "refit.py"


def load():
    """The example as a module of its own, with nothing left of an earlier one."""
    spec = importlib.util.spec_from_file_location("refit_under_test", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build(fault, rank):
    """The probe and the faulty refit of a rank, which has brought weights elsewhere before."""
    example = load()
    probe, refit = example.build(rank)
    FAULTS[fault](example)
    other = example.new_state(example.ROLLOUT, 3 - rank)
    example.refit(example.new_state(example.TRAINER, rank), other, 3 - rank)
    return probe, refit


def counts_indices(example):
    def check(indices, weight):
        if len(indices) > weight.shape[weight.dim]:
            raise ValueError("too many")

    example.check = check


def names_ranks_that_hold_nothing_of_it(example):
    right = example.holders
    example.holders = lambda weight: [*right(weight), *range(4)]


def rounds_widths_to_grains(example):
    right = example.shared_rows

    def shared_rows(extent, side, rank):
        if side.shares > 1:
            return right(extent, side, rank)
        width = -(-extent // side.tp) // 2 * 2
        return list(range(extent))[rank * width : (rank + 1) * width]

    example.shared_rows = shared_rows


def remembers_blocks(example):
    right, seen = example.held, []

    def held(weight, side, rank):
        if weight.cut == "qkv":
            seen.append(weight.shape[0])
        if weight.cut == "even" and weight.shape[0] in seen:
            weight = replace(weight, cut="qkv")
        return right(weight, side, rank)

    example.held = held


def joins_in_the_order_of_ranks(example):
    right = example.plan

    def plan(name, target_rank):
        weight = example.weights()[name]
        if weight.cut != "shared":
            return right(name, target_rank)
        shards = {rank: example.held(weight, example.TRAINER, rank) for rank in range(4)}
        joined = [(rank, place) for rank, rows in shards.items() for place in range(len(rows))]
        return [joined[row] for row in example.held(weight, example.ROLLOUT, target_rank)]

    example.plan = plan


def sizes_shares_by_their_own_part(example):
    def shared_rows(extent, side, rank):
        rows = example.part(range(extent), rank % side.tp, side.tp)
        return example.part(rows, rank // side.tp, side.shares)

    example.shared_rows = shared_rows


def keeps_the_stride_of_full_rows(example):
    right = example.at

    def at(shard, weight, place):
        if weight.dim == 0 or shard.shape[1] == weight.shape[1] // 4:
            return right(shard, weight, place)
        addresses = torch.arange(weight.shape[0]) * weight.shape[1] + place
        return shard.flatten()[addresses % shard.numel()]

    example.at = at


def cuts_heads(example):
    right = example.query_key_value

    def query_key_value(tp, num_ranks):
        if num_ranks <= example.KV_HEADS:
            return right(tp, num_ranks)
        queries = example.part(range(example.Q), tp, num_ranks)
        row = example.Q + tp * example.KV // num_ranks
        return [*queries, row, row + example.KV]

    example.query_key_value = query_key_value


def cuts_fused_rows_equally(example):
    right = example.query_key_value
    all_rows = range(example.Q + 2 * example.KV)

    def query_key_value(tp, num_ranks):
        return example.part(all_rows, tp, num_ranks) if num_ranks == 4 else right(tp, num_ranks)

    example.query_key_value = query_key_value


def takes_gate_and_up_for_one_block(example):
    right = example.held

    def held(weight, side, rank):
        if weight.cut == "gate_up" and side is example.ROLLOUT:
            weight = replace(weight, cut="even")
        return right(weight, side, rank)

    example.held = held


def takes_slots_for_experts(example):
    def slot(side, rank, expert):
        return expert % (example.EXPERTS // side.shares)

    example.slot = slot


def declares_shards_as_replicas(example):
    right = example.weights

    def weights():
        return {
            name: replace(weight, cut="whole") if name.endswith(".up.bias") else weight
            for name, weight in right().items()
        }

    example.weights = weights


def takes_padding_for_rows(example):
    right = example.vocab_rows

    def vocab_rows(extent, side, tp):
        multiple = example.TRAINER.vocab_multiple
        return right(-(-extent // multiple) * multiple, side, tp)

    example.vocab_rows = vocab_rows
    example.check = lambda indices, weight: None


def keeps_one_of_the_shards_of_a_name(example):
    right = example.holders
    example.holders = lambda weight: [min(right(weight))]


def takes_the_last_replica(example):
    def holders(weight):
        shards = {tuple(example.held(weight, example.TRAINER, rank)): rank for rank in range(4)}
        return [*shards.values()]

    example.holders = holders


def plans_once_per_name(example):
    right, plans = example.plan, {}

    def plan(name, target_rank):
        return plans.setdefault(name, right(name, target_rank))

    example.plan = plan


def receives_in_the_dtype_of_the_target(example):
    right, own, names = example.gather, example.own_shard, []

    def own_shard(name, trainer):
        names.append(name)
        return own(name, trainer)

    def gather(weight, shard):
        sent, dtype = right(weight, shard), example.dtype_of(names[-1], example.ROLLOUT)
        received = [torch.zeros(each.shape, dtype=dtype) for each in sent]
        for buffer, each in zip(received, sent, strict=True):
            buffer.view(-1).view(each.dtype)[: each.numel()] = each.flatten()
        return received

    example.own_shard, example.gather = own_shard, gather


FAULTS = {
    "none": lambda example: None,
    "F01": counts_indices,
    "F02": names_ranks_that_hold_nothing_of_it,
    "F03": rounds_widths_to_grains,
    "F04": remembers_blocks,
    "F05": joins_in_the_order_of_ranks,
    "F06": sizes_shares_by_their_own_part,
    "F08": keeps_the_stride_of_full_rows,
    "F09": cuts_heads,
    "F10": cuts_fused_rows_equally,
    "F11": takes_gate_and_up_for_one_block,
    "F13": takes_slots_for_experts,
    "F14": declares_shards_as_replicas,
    "F15": takes_padding_for_rows,
    "F19": keeps_one_of_the_shards_of_a_name,
    "F21": takes_the_last_replica,
    "F23": plans_once_per_name,
    "F31": receives_in_the_dtype_of_the_target,
}
