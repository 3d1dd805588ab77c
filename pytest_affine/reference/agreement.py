"""The one exchange before anything moves: all ranks go on, or all of them raise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NoReturn

import torch
import torch.distributed as dist

from pytest_affine.errors import AffineTransferError, TransferRefusedError

__all__ = ["agree", "refuse"]


def agree(text: str, group: dist.ProcessGroup, device: torch.device) -> None:
    """Return once every rank is known to bring the same text. Called on every rank of the group.

    Each rank calls this or `refuse`. What they send has a fixed size, a digest of the text; texts,
    which may be long, are only gathered when something is wrong.

    Args:
        text: what must be the same on every rank.
        group: the ranks that are to agree.
        device: where the group moves data.

    Raises:
        TransferRefusedError: on every rank, if one refuses or texts differ; it says which, and why.
    """
    if refusal := _exchanged(text, group, device, refuses=False):
        raise refusal


def refuse(error: Exception, group: dist.ProcessGroup, device: torch.device) -> NoReturn:
    """Tell all other ranks, of which each calls this or `agree`, why this rank can't go on.

    Raises:
        TransferRefusedError: always; the same as on every other rank.
    """
    kind = "" if isinstance(error, AffineTransferError) else f"{type(error).__name__}: "
    refusal = _exchanged(f"{kind}{error}", group, device, refuses=True)
    assert refusal is not None
    raise refusal from error


def _exchanged(
    text: str, group: dist.ProcessGroup, device: torch.device, *, refuses: bool
) -> TransferRefusedError | None:
    """What every rank must raise, or None if all agree."""
    encoded = text.encode(errors="backslashreplace")
    head = bytes([refuses]) + len(encoded).to_bytes(8, "little")
    records = _gather(head + hashlib.sha256(encoded).digest(), group, device)
    if not refuses and len(set(records)) == 1:
        return None
    lengths = [int.from_bytes(record[1:9], "little") for record in records]
    padded = _gather(encoded.ljust(max(lengths)), group, device)
    texts = [text[:length].decode() for text, length in zip(padded, lengths, strict=True)]
    refusals = {p: texts[p] for p, record in enumerate(records) if record[0]}
    agreements = {p: text for p, text in enumerate(texts) if p not in refusals}
    return TransferRefusedError(_refusal(refusals, agreements))


def _gather(payload: bytes, group: dist.ProcessGroup, device: torch.device) -> list[bytes]:
    """Every rank's payload, all of one length, in the order of the group's ranks."""
    own = torch.tensor(list(payload), dtype=torch.uint8, device=device)
    gathered = [torch.empty_like(own) for _ in range(group.size())]
    dist.all_gather(gathered, own, group=group)
    return [bytes(record.tolist()) for record in gathered]


def _refusal(refusals: Mapping[int, str], agreements: Mapping[int, str]) -> str:
    parts = [f"process {process} refuses: {reason}" for process, reason in refusals.items()]
    processes: dict[str, list[int]] = {}
    for process, text in agreements.items():
        processes.setdefault(text, []).append(process)
    if len(processes) > 1:
        sides = (f"processes {numbers} have {text}" for text, numbers in processes.items())
        parts.append("processes disagree: " + ", ".join(sides))
    return "nothing was moved: " + "; ".join(parts)
