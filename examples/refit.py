"""A refit: a trainer's weights brought to a rollout engine on the same four ranks, and its probe.

The trainer has two tensor-parallel times two data-parallel ranks; the latter share its experts and
the position table, as FSDP would. The rollout engine is tensor parallel on all four. What each rank
holds of a weight is a list of indices along the axis that is cut. Every weight is gathered from all
ranks, and each rank copies what it holds of it on the other side.

The refit knows nothing of pytest-affine. The test at the end says once more, in layouts, what both
sides hold, and the probe finds out whether the refit delivers that:

    pytest examples/refit.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pytest
import torch
import torch.distributed as dist

from pytest_affine import Probe
from pytest_affine.layouts import (
    Block,
    Cut,
    Expert,
    Fused,
    Kind,
    Layout,
    Parameter,
    Split,
    Vocab,
    Whole,
    attention_blocks,
)
from pytest_affine.probe import Side as ProbeSide
from pytest_affine.probe.on_ranks import ProbeOnRanks

HIDDEN, FFN, EXPERTS, VOCAB, POSITIONS = 6, 8, 4, 10, 9
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 2
Q, KV = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM


@dataclass(frozen=True)
class Side:
    """How one side spreads weights over ranks; tensor-parallel ranks are neighbours."""

    tp: int
    shares: int
    vocab_multiple: int
    norm_dtype: torch.dtype


TRAINER = Side(tp=2, shares=2, vocab_multiple=16, norm_dtype=torch.bfloat16)
ROLLOUT = Side(tp=4, shares=1, vocab_multiple=12, norm_dtype=torch.float32)


@dataclass(frozen=True)
class Weight:
    """A weight: its shape, and how it is cut, and along which axis."""

    shape: tuple[int, ...]
    cut: str
    dim: int = 0
    expert: int | None = None


def weights() -> dict[str, Weight]:
    """Every weight of the model by its name: a dense layer, then one of experts."""
    found = {
        "embed.weight": Weight((VOCAB, HIDDEN), "vocab"),
        "positions.weight": Weight((POSITIONS, HIDDEN), "shared"),
        "head.weight": Weight((VOCAB, HIDDEN), "vocab"),
        "layers.0.gate_up.weight": Weight((2 * FFN, HIDDEN), "gate_up"),
        "layers.0.gate_up.bias": Weight((2 * FFN,), "gate_up"),
        "layers.0.down.weight": Weight((HIDDEN, FFN), "even", dim=1),
        "layers.1.router.weight": Weight((EXPERTS, HIDDEN), "whole"),
    }
    for layer in ("layers.0", "layers.1"):
        found[f"{layer}.norm.weight"] = Weight((HIDDEN,), "whole")
        found[f"{layer}.qkv.weight"] = Weight((Q + 2 * KV, HIDDEN), "qkv")
        found[f"{layer}.qkv.bias"] = Weight((Q + 2 * KV,), "qkv")
        found[f"{layer}.scale.weight"] = Weight((Q + 2 * KV,), "even")
        found[f"{layer}.out.weight"] = Weight((HIDDEN, Q), "even", dim=1)
        found[f"{layer}.out.bias"] = Weight((HIDDEN,), "whole")
    for expert in range(EXPERTS):
        name = f"layers.1.experts.{expert}"
        found[f"{name}.up.weight"] = Weight((FFN, HIDDEN), "even", expert=expert)
        found[f"{name}.up.bias"] = Weight((FFN,), "even", expert=expert)
        found[f"{name}.down.weight"] = Weight((HIDDEN, FFN), "even", dim=1, expert=expert)
        found[f"{name}.down.bias"] = Weight((HIDDEN,), "whole", expert=expert)
    return found


def part(indices: Sequence[int], number: int, num_parts: int) -> list[int]:
    """One of so many parts, the last ones smaller or empty, as `torch.chunk` cuts."""
    width = -(-len(indices) // num_parts)
    return list(indices[number * width : (number + 1) * width])


def slot(side: Side, rank: int, expert: int) -> int | None:
    """The number of an expert among those of a rank; None if it has others."""
    per_share = EXPERTS // side.shares
    share, number = divmod(expert, per_share)
    return number if share == rank // side.tp else None


def local_name(name: str, side: Side, rank: int) -> str | None:
    """What a rank calls a weight: experts have the rank's own numbers. None if it lacks it."""
    expert = weights()[name].expert
    number = None if expert is None else slot(side, rank, expert)
    if expert is not None and number is None:
        return None
    return re.sub(r"experts\.\d+", f"experts.{number}", name)


def query_key_value(tp: int, num_ranks: int) -> list[int]:
    """The rows of whole heads; where there are more ranks than KV heads, some have the same one."""
    heads = part(range(HEADS), tp, num_ranks)
    kv_heads = part(range(KV_HEADS), tp, num_ranks)
    if num_ranks > KV_HEADS:
        kv_heads = [tp * KV_HEADS // num_ranks]
    starts = [head * HEAD_DIM for head in heads]
    starts += [Q + head * HEAD_DIM for head in kv_heads]
    starts += [Q + KV + head * HEAD_DIM for head in kv_heads]
    return [start + row for start in starts for row in range(HEAD_DIM)]


def shared_rows(extent: int, side: Side, rank: int) -> list[int]:
    """The rank's share of its tensor-parallel part; shares are as wide as in the first part."""
    width = -(-len(part(range(extent), 0, side.tp)) // side.shares)
    start = rank // side.tp * width
    return part(range(extent), rank % side.tp, side.tp)[start : start + width]


def vocab_rows(extent: int, side: Side, tp: int) -> list[int]:
    """The rows of a padded vocabulary; padding is at the end, and left out."""
    padded = -(-extent // side.vocab_multiple) * side.vocab_multiple
    return [row for row in part(range(padded), tp, side.tp) if row < extent]


def held(weight: Weight, side: Side, rank: int) -> list[int]:
    """The indices that a rank holds along the axis that is cut, in the order of its shard."""
    extent, tp = weight.shape[weight.dim], rank % side.tp
    if weight.expert is not None and slot(side, rank, weight.expert) is None:
        return []
    if weight.cut == "even":
        return part(range(extent), tp, side.tp)
    if weight.cut == "gate_up":
        return part(range(FFN), tp, side.tp) + part(range(FFN, 2 * FFN), tp, side.tp)
    if weight.cut == "qkv":
        return query_key_value(tp, side.tp)
    if weight.cut == "shared":
        return shared_rows(extent, side, rank)
    return vocab_rows(extent, side, tp) if weight.cut == "vocab" else list(range(extent))


def check(indices: Sequence[int], weight: Weight) -> None:
    """Refuse a list of indices that names one twice, or one that there is not."""
    extent = weight.shape[weight.dim]
    if len({*indices} & {*range(extent)}) != len(indices):
        raise ValueError(f"{list(indices)} are not different indices below {extent}")


@cache
def plan(name: str, target_rank: int) -> list[tuple[int, int] | None]:
    """For each index of a target shard the rank that has it, and where in that rank's shard."""
    weight = weights()[name]
    sources: dict[int, tuple[int, int]] = {}
    for rank in holders(weight):
        for place, index in enumerate(held(weight, TRAINER, rank)):
            sources.setdefault(index, (rank, place))
    indices = held(weight, ROLLOUT, target_rank)
    check(indices, weight)
    return [sources.get(index) for index in indices]


def holders(weight: Weight) -> list[int]:
    """One rank for each different shard of the trainer, the lowest that has it."""
    return [*{tuple(held(weight, TRAINER, r)): r for r in reversed(range(4))}.values()]


def gather(weight: Weight, shard: torch.Tensor) -> list[torch.Tensor]:
    """The shards of all ranks, filled up along the axis that is cut to be equally long."""
    shape = list(weight.shape)
    shape[weight.dim] = max(len(held(weight, TRAINER, rank)) for rank in range(4))
    packed, length = shard.new_zeros(shape), min(shard.shape[weight.dim], shape[weight.dim])
    packed.narrow(weight.dim, 0, length).copy_(shard.narrow(weight.dim, 0, length))
    gathered = [torch.empty_like(packed) for _ in range(4)]
    dist.all_gather(gathered, packed)
    return gathered


def at(shard: torch.Tensor, weight: Weight, place: int) -> torch.Tensor:
    """One index of a shard along the axis that is cut."""
    return shard.select(weight.dim, place)


def dtype_of(name: str, side: Side) -> torch.dtype:
    """The dtype of a weight: norms are float32 where they are used."""
    return side.norm_dtype if "norm" in name else torch.bfloat16


def own_shard(name: str, trainer: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """What this rank has of a weight; without an index where it has nothing."""
    local = local_name(name, TRAINER, dist.get_rank())
    return new_shard(name, TRAINER, dist.get_rank()) if local is None else trainer[local]


def new_shard(name: str, side: Side, rank: int) -> torch.Tensor:
    """A shard with room for what a rank holds."""
    weight = weights()[name]
    shape = list(weight.shape)
    shape[weight.dim] = len(held(weight, side, rank))
    if weight.cut == "vocab":
        shape[0] = -(-VOCAB // side.vocab_multiple) * side.vocab_multiple // side.tp
    return torch.zeros(shape, dtype=dtype_of(name, side))


def new_state(side: Side, rank: int) -> dict[str, torch.Tensor]:
    """The shards of a rank by local name."""
    names = {name: local_name(name, side, rank) for name in weights()}
    return {local: new_shard(name, side, rank) for name, local in names.items() if local}


def refit(
    trainer: Mapping[str, torch.Tensor], rollout: Mapping[str, torch.Tensor], target_rank: int
) -> None:
    """Bring the trainer's weights to the rollout engine; every rank calls it.

    Args:
        trainer: the trainer's shards of this rank, by local name.
        rollout: those of the rollout engine, which are written.
        target_rank: this process's rank in the rollout engine.
    """
    for name, weight in weights().items():
        gathered, target = gather(weight, own_shard(name, trainer)), rollout[name]
        sources = plan(name, target_rank)
        for place, source in zip(range(target.shape[weight.dim]), sources, strict=False):
            if source is not None:
                rank, index = source
                at(target, weight, place).copy_(at(gathered[rank], weight, index))


# What follows is for the probe: the same in layouts, which use nothing from above but sizes.


def kind_of(name: str, *, on_trainer: bool) -> Kind:
    """How a side cuts a weight."""
    if expert := re.search(r"experts\.(\d+)", name):
        owner = int(expert[1]) * 2 // EXPERTS if on_trainer else 0
        dims = {"up.weight": 0, "up.bias": 0, "down.weight": 1}
        return Expert(num_experts=1, table=(owner,), etp_dim=dims.get(name[expert.end() + 1 :]))
    if name in ("embed.weight", "head.weight"):
        return Vocab(16 if on_trainer else 12)
    if name == "positions.weight":
        cuts = (Cut("dp", 0, strided=True), Cut("tp", 0))
        return Split(cuts if on_trainer else (Cut("tp", 0),), uneven=True)
    if "gate_up" in name:
        return Fused((Block(name="gate", size=FFN), Block(name="up", size=FFN)))
    if "qkv" in name:
        return Fused(attention_blocks(heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM))
    if name.endswith(("scale.weight", "out.weight", "down.weight")):
        return Split((Cut("tp", 0 if "scale" in name else 1),))
    return Whole()


def parameters(*, on_trainer: bool) -> list[Parameter]:
    """Every weight as a side has it."""
    return [
        Parameter(
            name=name,
            shape=weight.shape,
            dtype="float32" if "norm" in name and not on_trainer else "bfloat16",
            kind=kind_of(name, on_trainer=on_trainer),
        )
        for name, weight in weights().items()
    ]


def trainer_name(name: str, rank: int) -> str:
    """What the trainer calls a weight: each data-parallel rank numbers its two experts from 0."""
    return re.sub(r"experts\.(\d+)", lambda found: f"experts.{int(found[1]) % 2}", name)


def build(rank: int) -> tuple[Probe, Callable[[], None]]:
    """The probe and the refit of a rank."""
    trainer, rollout = new_state(TRAINER, rank), new_state(ROLLOUT, rank)
    probe = Probe(
        source=ProbeSide.of_layout(
            Layout(tp=2, dp=2, ep=2),
            parameters(on_trainer=True),
            {rank: trainer},
            names=trainer_name,
        ),
        target=ProbeSide.of_layout(Layout(tp=4), parameters(on_trainer=False), {rank: rollout}),
    )
    return probe, lambda: refit(trainer, rollout, rank)


@pytest.mark.affine_ranks(4)
def test_the_refit_delivers_every_weight(affine_probe: ProbeOnRanks, affine_rank: int) -> None:
    """Every element of the rollout engine is the right one of the trainer."""
    report = affine_probe.run(build, affine_rank)
    report.check()
    assert report.wire == "observed"
