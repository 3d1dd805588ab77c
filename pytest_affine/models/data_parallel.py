"""What FSDP and ZeRO make of a parameter that tensor parallelism has cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.layouts import (
    Block,
    Cut,
    Expert,
    Flat,
    Fused,
    Layout,
    Parameter,
    Split,
    Vocab,
    Whole,
)

__all__ = ["flattened", "fully_sharded"]


def fully_sharded(parameter: Parameter, layout: Layout) -> Parameter:
    """The parameter with dim 0 cut over dp too: strided where tp cuts it, as FSDP2 does.

    Nothing is padded, and parts are as even as `torch.chunk` makes them. A scalar stays whole.

    Raises:
        UnsupportedLayoutError: tp cuts it otherwise than in equal parts along one dim.
    """
    dim = _tp_dim(parameter, layout)
    if not parameter.shape:
        return parameter
    cuts = [Cut("dp", 0, strided=dim == 0)]
    if dim is not None:
        cuts.append(Cut("tp", dim))
    return replace(parameter, kind=Split(tuple(cuts), uneven=True))


def flattened(parameters: Sequence[Parameter], layout: Layout) -> tuple[Parameter, ...]:
    """The parameters cut as ZeRO does: one group per stage and dtype, in this order.

    A group is padded to a multiple of the data-parallel ranks.

    Raises:
        UnsupportedLayoutError: a parameter that tp cuts, or one on several stages.
    """
    groups: dict[tuple[tuple[int, ...], str], int] = {}
    offsets = []
    for parameter in parameters:
        _check_flat(parameter, layout)
        group = parameter.stages, parameter.dtype
        offsets.append(groups.get(group, 0))
        groups[group] = offsets[-1] + parameter.num_elements
    totals = {group: -(-total // layout.dp) * layout.dp for group, total in groups.items()}
    return tuple(
        replace(parameter, kind=Flat(offset, totals[parameter.stages, parameter.dtype]))
        for parameter, offset in zip(parameters, offsets, strict=True)
    )


def _check_flat(parameter: Parameter, layout: Layout) -> None:
    if _tp_dim(parameter, layout) is not None:
        raise UnsupportedLayoutError(
            f"parameter {parameter.name!r}: zero cuts what tp {layout.tp} leaves, flattened; that "
            f"is no interval of the full tensor, and kind 'flat' holds only intervals: use tp1, or "
            f"fsdp"
        )
    if len(parameter.stages) > 1:
        raise UnsupportedLayoutError(
            f"parameter {parameter.name!r}: zero gives a tied parameter another offset on each of "
            f"stages {list(parameter.stages)}, and kind 'flat' has one: use pp1, or fsdp"
        )


def _tp_dim(parameter: Parameter, layout: Layout) -> int | None:
    """The dim that tensor parallelism cuts as `Split` would; None if it cuts none."""
    num_dims = len(parameter.shape)
    kind = parameter.kind
    if isinstance(kind, Expert):
        _check_expert_mesh(parameter, layout)
    if layout.tp == 1 or isinstance(kind, Whole):
        return None
    match kind:
        case Split(cuts=(Cut(axis="tp", dim=dim),)):
            return dim % num_dims
        case Vocab():
            return 0
        case Fused(blocks=(Block(rule="split" | "kv") as block,), dim=dim) if (
            block.num_heads % layout.tp == 0
        ):
            return dim % num_dims
        case Expert(dim=dim, etp_dim=cut) if cut is None or (cut - dim) % num_dims:
            return None if cut is None else cut % num_dims
    raise UnsupportedLayoutError(
        f"parameter {parameter.name!r}: tp {layout.tp} does not cut it in equal parts, between "
        f"heads and along one dim, so that kind 'split' can not cut it again over dp: use tp1, or "
        f"plain dp"
    )


def _check_expert_mesh(parameter: Parameter, layout: Layout) -> None:
    if layout.ep > 1 or layout.etp != layout.tp:
        raise UnsupportedLayoutError(
            f"parameter {parameter.name!r}: with ep {layout.ep} and etp {layout.etp} the experts "
            f"have other data-parallel ranks than dp, and no kind cuts experts over those: use "
            f"ep1 and etp{layout.tp}, or plain dp"
        )
