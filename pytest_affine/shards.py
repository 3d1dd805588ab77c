"""Cutting shards out of a full tensor, and putting the full tensor together again.

Elements are moved and compared as integers of their bits, so that every dtype works and NaN
payloads and -0.0 survive; only a scale other than 1 computes with values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from pytest_affine.errors import AffineTransferError
from pytest_affine.geometry import unravel
from pytest_affine.maps import AffinePiece, ParamAffineMap

__all__ = ["extract_shard", "rebuild_full"]

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def extract_shard(map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
    """Do `ParamAffineMap.extract`; the shard is packed, shares no memory and has no gradient."""
    map_.validate()
    shape = map_.shard_shape(location)
    if tuple(full.shape) != map_.logical_shape:
        raise AffineTransferError(
            f"full must have the logical shape {map_.logical_shape}, got {tuple(full.shape)}"
        )
    source, pieces = _bits(full), map_.pieces(location)
    shard = source.new_zeros((map_.shard_size(location), source.shape[1]))
    for piece in pieces:
        _in_shard(shard, piece).copy_(_in_full(source, piece))
    _rescale(shard, full.dtype, pieces, _in_shard, torch.mul)
    return _values(shard, full.dtype).view(shape)


def rebuild_full(map_: ParamAffineMap, shards: Mapping[int, torch.Tensor]) -> torch.Tensor:
    """Do `ParamAffineMap.rebuild`; the tensor is packed, shares no memory and has no gradient."""
    map_.validate()
    _check_shards(map_, shards)
    bits = {location: _bits(shard) for location, shard in shards.items()}
    dtype, any_bits = next(iter(shards.values())).dtype, next(iter(bits.values()))
    full = any_bits.new_zeros((map_.num_elements, any_bits.shape[1]))
    written = torch.zeros((map_.num_elements, 1), dtype=torch.bool, device=full.device)
    pieces = []
    for location in map_.locations:
        for piece in map_.pieces(location):
            source, target = _in_shard(bits[location], piece), _in_full(full, piece)
            differs = (source != target).any(-1, keepdim=True) & _in_full(written, piece)
            if differs.any():
                raise AffineTransferError(_disagreement(map_, piece, differs))
            target.copy_(source)
            _in_full(written, piece).fill_(True)
            pieces.append(piece)
    _rescale(full, dtype, pieces, _in_full, torch.div)
    return _values(full, dtype).view(map_.logical_shape)


def _check_shards(map_: ParamAffineMap, shards: Mapping[int, torch.Tensor]) -> None:
    if not shards or set(shards) != set(map_.locations):
        raise AffineTransferError(
            f"shards must be given for the locations {list(map_.locations)}, got {list(shards)}"
        )
    for location, shard in shards.items():
        if shard.numel() != map_.shard_size(location):
            raise AffineTransferError(
                f"the shard of location {location} must have {map_.shard_size(location)} "
                f"elements, got {shard.numel()}"
            )
    kinds = {f"{shard.dtype} on {shard.device}" for shard in shards.values()}
    if len(kinds) > 1:
        raise AffineTransferError(f"shards must have one dtype and device, got {sorted(kinds)}")


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """One row of integer words per element, in row-major order; shares memory where it can."""
    packed = tensor.resolve_conj().resolve_neg().contiguous().view(-1)
    word = min(packed.element_size(), max(WORDS))
    return packed.view(WORDS[word]).view(packed.numel(), packed.element_size() // word)


def _values(bits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return bits.view(-1).view(dtype)


def _in_full(rows: torch.Tensor, piece: AffinePiece) -> torch.Tensor:
    return _strided(rows, piece.shape, piece.full_strides, piece.full_offset)


def _in_shard(rows: torch.Tensor, piece: AffinePiece) -> torch.Tensor:
    return _strided(rows, piece.shape, piece.shard_strides, piece.shard_offset)


def _strided(
    rows: torch.Tensor, shape: Sequence[int], strides: Sequence[int], offset: int
) -> torch.Tensor:
    """The rows of a piece; its offset counts from the first row, not from the storage's start."""
    width = rows.shape[1]
    steps = [stride * width for stride in strides]
    start = rows.storage_offset() + offset * width
    return rows.as_strided((*shape, width), (*steps, 1), start)


def _rescale(
    bits: torch.Tensor,
    dtype: torch.dtype,
    pieces: Sequence[AffinePiece],
    side: Callable[[torch.Tensor, AffinePiece], torch.Tensor],
    operation: Callable[[torch.Tensor, float], torch.Tensor],
) -> None:
    """Multiply or divide by the pieces' scales, each element once, however many pieces hold it."""
    for scale in sorted({piece.scale for piece in pieces} - {1.0}):
        if not (dtype.is_floating_point or dtype.is_complex):
            raise AffineTransferError(f"a scale of {scale} needs a floating dtype, got {dtype}")
        scaled = torch.zeros((len(bits), 1), dtype=torch.bool, device=bits.device)
        for piece in pieces:
            if piece.scale == scale:
                side(scaled, piece).fill_(True)
        rows = scaled[:, 0]
        bits[rows] = _bits(_scaled(_values(bits[rows], dtype), operation, scale))


def _scaled(
    values: torch.Tensor, operation: Callable[[torch.Tensor, float], torch.Tensor], scale: float
) -> torch.Tensor:
    """Values multiplied or divided by a scale; NaNs, whose payloads arithmetic loses, are kept."""
    if values.is_complex():
        parts = _scaled(torch.view_as_real(values), operation, scale)
        return torch.view_as_complex(parts)
    wide = values.float() if values.element_size() == 1 else values
    return torch.where(wide.isnan(), values, operation(wide, scale).to(values.dtype))


def _disagreement(map_: ParamAffineMap, piece: AffinePiece, differs: torch.Tensor) -> str:
    addresses = torch.arange(map_.num_elements, device=differs.device).view(-1, 1)
    element = unravel(int(_in_full(addresses, piece)[differs][0]), map_.logical_shape)
    return (
        f"replicas of element {element} differ: locations {piece.locations} must hold the same bits"
    )
