"""The buffers of one process: checked against the plans, and seen as flat shards."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch

from pytest_affine.errors import TransferRefusedError
from pytest_affine.plans import TransferEndpoints, TransferPlan
from pytest_affine.reference.batch import Side, bound_processes, segment_end, shard_sizes
from pytest_affine.reference.dtypes import Dtypes

__all__ = ["Buffers", "FlatShards", "bind_buffers"]

Buffers: TypeAlias = Mapping[str, Mapping[int, torch.Tensor]]
FlatShards: TypeAlias = dict[Side, dict[tuple[str, int], torch.Tensor]]

MAX_PROBLEMS = 5


def bind_buffers(
    plans: Mapping[str, TransferPlan],
    buffers: Mapping[Side, Buffers],
    endpoints: TransferEndpoints,
    *,
    dtypes: Mapping[str, Dtypes],
    device: torch.device,
    process: int,
) -> FlatShards:
    """Return every buffer of this process as a 1-D view of its shard, by side, name and location.

    Raises:
        TransferRefusedError: what section 7 refuses of buffers; the message lists what was found.
    """
    problems: list[str] = []
    flat: FlatShards = {"source": {}, "target": {}}
    bound = dict(zip(flat, bound_processes(endpoints), strict=True))
    for side, shards in flat.items():
        expected = _expected_shards(plans, side, bound[side], dtypes)
        problems += _surplus(plans, side, buffers[side], expected, process)
        for shard in expected.values():
            if shard.process == process:
                tensor = buffers[side].get(shard.parameter, {}).get(shard.location)
                if problem := _problem(shard, tensor, device):
                    problems.append(f"{shard} {problem}")
                elif tensor is not None:
                    shards[shard.parameter, shard.location] = _flat(tensor)
    problems += _overlaps(flat)
    if problems:
        more = len(problems) - MAX_PROBLEMS
        shown = problems[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
        raise TransferRefusedError("; ".join(shown))
    return flat


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shard:
    """A shard that a plan has; its segments address `reach` elements of it."""

    side: Side
    parameter: str
    location: int
    process: int
    size: int | None
    reach: int
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{self.side} buffer {self.parameter!r}[{self.location}]"


def _expected_shards(
    plans: Mapping[str, TransferPlan],
    side: Side,
    bound: Mapping[int, int],
    dtypes: Mapping[str, Dtypes],
) -> dict[tuple[str, int], _Shard]:
    """Every shard of the plans; where a plan lacks sizes, every location that has an endpoint."""
    shards = {}
    for name, plan in plans.items():
        sizes, reach = shard_sizes(plan, side), _reach(plan, side)
        known = dict(sizes if sizes is not None else ())
        for location in sorted({*known, *reach} if sizes is not None else bound):
            shards[name, location] = _Shard(
                side=side,
                parameter=name,
                location=location,
                process=bound[location],
                size=known.get(location, 0) if sizes is not None else None,
                reach=reach.get(location, 0),
                dtype=getattr(dtypes[name], side),
            )
    return shards


def _reach(plan: TransferPlan, side: Side) -> dict[int, int]:
    """By location, one more than the last address of any segment."""
    reach: dict[int, int] = {}
    for segment in plan.segments:
        if 0 not in segment.shape:
            location, offset, strides = segment_end(segment, side)
            steps = ((e - 1) * s for e, s in zip(segment.shape, strides, strict=True))
            reach[location] = max(reach.get(location, 0), 1 + offset + sum(steps))
    return reach


def _surplus(
    plans: Mapping[str, TransferPlan],
    side: Side,
    buffers: Buffers,
    expected: Mapping[tuple[str, int], _Shard],
    process: int,
) -> Iterator[str]:
    for name, shards in buffers.items():
        if name not in plans:
            yield f"{side} buffers name {name!r}, which no plan has: {reprlib.repr(list(plans))}"
            continue
        for location in shards:
            shard = expected.get((name, location))
            if shard is None:
                known = [number for parameter, number in expected if parameter == name]
                yield f"{side} buffers name {name!r}[{location!r}]; its locations: {known}"
            elif shard.process != process:
                yield f"{shard} belongs to process {shard.process}, this is process {process}"


def _problem(shard: _Shard, tensor: torch.Tensor | None, device: torch.device) -> str | None:
    """What is wrong with the buffer of a shard of this process, if anything."""
    if shard.size is not None and shard.reach > shard.size:
        return f"has {shard.size} elements in its plan, whose segments reach {shard.reach}"
    if tensor is None:
        return "is missing" if shard.size or shard.reach else None
    if not isinstance(tensor, torch.Tensor):
        return f"must be a tensor, got {type(tensor).__name__}"
    if tensor.dtype != shard.dtype:
        return f"has dtype {tensor.dtype}, but {shard.dtype} is to be moved"
    if tensor.device != device:
        return f"is on device {tensor.device}, but the group moves what is on {device}"
    if not _is_packed(tensor):
        return f"is not packed (row-major contiguous): shape {tuple(tensor.shape)}"
    if tensor.numel() < shard.reach or shard.size not in (None, tensor.numel()):
        wanted = shard.reach if shard.size is None else shard.size
        return f"has {tensor.numel()} elements, its shard has {wanted}"
    if _end(tensor) > tensor.untyped_storage().data_ptr() + tensor.untyped_storage().nbytes():
        return f"reaches beyond its storage of {tensor.untyped_storage().nbytes()} bytes"
    return None


def _is_packed(tensor: torch.Tensor) -> bool:
    """Whether the tensor's memory, read in order, is its elements in order."""
    strided = tensor.layout == torch.strided and not (tensor.is_conj() or tensor.is_neg())
    return strided and tensor.is_contiguous()


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())


def _start(tensor: torch.Tensor) -> int:
    """Address of the first byte."""
    first = int(tensor.storage_offset()) * tensor.element_size()
    return tensor.untyped_storage().data_ptr() + first


def _end(tensor: torch.Tensor) -> int:
    """Address after the last byte of a packed tensor."""
    return _start(tensor) + int(tensor.numel()) * tensor.element_size()


def _overlaps(flat: FlatShards) -> Iterator[str]:
    """Every buffer that begins inside an earlier one, unless both are sources."""
    last: dict[Side, tuple[int, str]] = {"source": (0, ""), "target": (0, "")}
    for start, end, side, label in sorted(_ranges(flat)):
        others: Iterable[Side] = ("source", "target") if side == "target" else ("target",)
        for other in others:
            if start < last[other][0]:
                yield f"{label} overlaps {last[other][1]} in memory"
        last[side] = max(last[side], (end, label))


def _ranges(flat: FlatShards) -> Iterator[tuple[int, int, Side, str]]:
    for side, shards in flat.items():
        for (name, location), tensor in shards.items():
            if tensor.numel():
                label = f"{side} buffer {name!r}[{location}]"
                yield _start(tensor), _end(tensor), side, label
