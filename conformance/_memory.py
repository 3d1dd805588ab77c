"""How much memory of torch a call takes in this rank; torch is imported only in ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from pytest_affine.conformance._buffers import Share, buffers_of, given_tensors
from pytest_affine.conformance._runs import execute_share
from pytest_affine.contract.resident import Resident
from pytest_affine.ranks import current_rank, device

__all__ = ["Taken", "taken_bytes"]


@dataclass(frozen=True, slots=True)
class Taken:
    """The most bytes that were held at one time beyond those held before.

    Attributes:
        exchange: by a batch of no parameters with the same endpoints.
        batch: by the batch.
        grain: to a multiple of what the allocator rounds each allocation up.
    """

    exchange: int
    batch: int
    grain: int


def taken_bytes(resident: Resident, shares: Sequence[Share]) -> Taken:
    """Measure both. Called on every rank."""
    share = shares[current_rank()]
    buffers = buffers_of(share)
    for buffer in buffers:
        buffer.fill(0)
    tensors = given_tensors(share, buffers, with_empty=True)
    nothing = replace(share, batch=replace(share.batch, plans={}))
    peak_bytes, grain = (_on_cpu, 1) if device().type == "cpu" else (_on_accelerator, 512)
    return Taken(
        exchange=peak_bytes(lambda: execute_share(resident, nothing, ({}, {}))),
        batch=peak_bytes(lambda: execute_share(resident, share, tensors)),
        grain=grain,
    )


def _on_cpu(call: Callable[[], object]) -> int:
    """From torch's memory events, which tell every allocation of this thread, to the byte."""
    from torch.autograd.profiler import profile

    with profile(profile_memory=True) as profiler:
        call()
    assert profiler.kineto_results is not None
    events = [e for e in profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    changes: list[int] = [event.nbytes() for event in events]
    return max(accumulate(changes, initial=0))


def _on_accelerator(call: Callable[[], object]) -> int:
    """From the statistics of the caching allocator, which counts blocks in use."""
    import torch

    module = torch.get_device_module(device())
    before: int = module.memory_allocated()
    module.reset_peak_memory_stats()
    call()
    peak: int = module.max_memory_allocated()
    return peak - before
