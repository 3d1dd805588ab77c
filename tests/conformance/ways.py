"""Executors that put their payload on the wire in one way or another, and one fault each.

They are small, and not made of the reference's: one message to each peer at most, no budget, and no
exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from pytest_affine.adapters.reference import Reference
from pytest_affine.mutants.faults.parts import Buffers, Plans
from pytest_affine.plans import TransferEndpoints, TransferSegment, TransferStats

Regions: TypeAlias = dict[int, list[torch.Tensor]]


def region(buffers: Buffers, name: str, segment: TransferSegment, side: str) -> torch.Tensor:
    """The elements of a segment in the shard of one side."""
    tensor = buffers[name][getattr(segment, f"{side}_location")]
    offset = tensor.storage_offset() + getattr(segment, f"{side}_offset")
    return tensor.as_strided(segment.shape, getattr(segment, f"{side}_strides"), offset)


def as_bytes(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The bytes of these tensors, end to end."""
    flat = [tensor.contiguous().view(-1).view(torch.uint8) for tensor in tensors]
    return torch.cat(flat) if flat else torch.empty(0, dtype=torch.uint8)


class ByMessages(Reference):
    """Sends one message to each peer, of all that goes there; right where one dtype is moved."""

    def execute_transfers(
        self,
        plans: Any,
        source_buffers: Any,
        target_buffers: Any,
        endpoints: TransferEndpoints,
        **options: Any,
    ) -> TransferStats:
        own, held, reached = dist.get_rank(), dict(endpoints.source), dict(endpoints.target)
        outgoing: Regions = {}
        incoming: Regions = {}
        for name, plan in plans.items():
            for segment in plan.segments:
                ends = held[segment.source_location], reached[segment.target_location]
                if ends[0] == own:
                    part = region(source_buffers, name, segment, "source")
                    outgoing.setdefault(ends[1], []).append(part)
                if ends[1] == own:
                    part = region(target_buffers, name, segment, "target")
                    incoming.setdefault(ends[0], []).append(part)
        stats = self.stats(plans, outgoing, incoming, own)
        if plans:
            self.move(outgoing, incoming, own)
        return stats

    def stats(self, plans: Plans, outgoing: Regions, incoming: Regions, own: int) -> TransferStats:
        def size(regions: Regions) -> int:
            return sum(part.nbytes for peer in regions for part in regions[peer] if peer != own)

        num_segments = sum(len(plan.segments) for plan in plans.values())
        return TransferStats(
            segments=num_segments,
            chunks=num_segments,
            rounds=int(bool({*outgoing, *incoming} - {own})),
            local_copy_bytes=sum(part.nbytes for part in outgoing.get(own, [])),
            sent_bytes=size(outgoing),
            received_bytes=size(incoming),
        )

    def move(self, outgoing: Regions, incoming: Regions, own: int) -> None:
        sent = {peer: as_bytes(parts) for peer, parts in outgoing.items()}
        received = {peer: as_bytes(parts) for peer, parts in incoming.items()}
        if own in sent:
            received[own] = sent.pop(own)
        self.transmit(sent, {peer: each for peer, each in received.items() if peer != own})
        for peer, parts in incoming.items():
            start = 0
            for part in parts:
                moved = received[peer][start : start + part.nbytes]
                part.copy_(moved.clone().view(part.dtype).view(part.shape))
                start += part.nbytes

    def transmit(
        self, sent: Mapping[int, torch.Tensor], received: Mapping[int, torch.Tensor]
    ) -> None:
        works = [dist.irecv(buffer, peer) for peer, buffer in received.items()]
        works += [dist.isend(buffer, peer) for peer, buffer in sent.items()]
        for work in works:
            assert work is not None
            work.wait()


class ByAllToAll(ByMessages):
    """Moves by one collective, which is no fault."""

    def transmit(
        self, sent: Mapping[int, torch.Tensor], received: Mapping[int, torch.Tensor]
    ) -> None:
        ranks = range(dist.get_world_size())
        nothing = torch.empty(0, dtype=torch.uint8)
        given = [sent.get(rank, nothing) for rank in ranks]
        wanted = [received.get(rank, nothing) for rank in ranks]
        sizes = [each.numel() for each in wanted]
        output = torch.empty(sum(sizes), dtype=torch.uint8)
        dist.all_to_all_single(output, torch.cat(given), sizes, [each.numel() for each in given])
        for buffer, part in zip(wanted, torch.split(output, sizes), strict=True):
            buffer.copy_(part)


class ByBroadcast(ByMessages):
    """Sends to everybody what one is to get, so that more is on the wire than it says."""

    def transmit(
        self, sent: Mapping[int, torch.Tensor], received: Mapping[int, torch.Tensor]
    ) -> None:
        ranks, own = range(dist.get_world_size()), dist.get_rank()
        sizes: list[Any] = [None for _ in ranks]
        dist.all_gather_object(sizes, {peer: each.numel() for peer, each in sent.items()})
        for sender in ranks:
            for receiver, size in sizes[sender].items():
                moved = torch.empty(size, dtype=torch.uint8)
                if sender == own:
                    moved = sent[receiver]
                dist.broadcast(moved, sender)
                if receiver == own:
                    received[sender].copy_(moved)


class ByReduction(ByMessages):
    """Moves by sums of what one rank has and the others have not."""

    def transmit(
        self, sent: Mapping[int, torch.Tensor], received: Mapping[int, torch.Tensor]
    ) -> None:
        ranks, own = range(dist.get_world_size()), dist.get_rank()
        for sender in ranks:
            for receiver in ranks:
                shared = torch.zeros(64, dtype=torch.uint8)
                if sender == own and receiver in sent:
                    shared[: sent[receiver].numel()] = sent[receiver]
                dist.all_reduce(shared)
                if receiver == own and sender in received:
                    received[sender].copy_(shared[: received[sender].numel()])


class ByStore(ByMessages):
    """Moves by a store, so that the tap sees nothing."""

    num_calls = 0

    def transmit(
        self, sent: Mapping[int, torch.Tensor], received: Mapping[int, torch.Tensor]
    ) -> None:
        store, own = _get_default_store(), dist.get_rank()
        self.num_calls += 1
        name = f"{type(self).__name__} {self.num_calls}"
        for peer, buffer in sent.items():
            store.set(f"{name}: {own} to {peer}", bytes(buffer.tolist()).hex())
        for peer, buffer in received.items():
            text = store.get(f"{name}: {peer} to {own}").decode()
            buffer.copy_(torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8))


class SendsTwice(ByMessages):
    """Sends everything twice, and says that it was once."""

    def transmit(
        self, sent: Mapping[int, torch.Tensor], received: Mapping[int, torch.Tensor]
    ) -> None:
        for _ in range(2):
            super().transmit(sent, received)


class SendsHalves(ByMessages):
    """Sends two messages to each peer, and says that it took one round."""

    def transmit(
        self, sent: Mapping[int, torch.Tensor], received: Mapping[int, torch.Tensor]
    ) -> None:
        for half in (0, 1):
            super().transmit(
                {peer: each.tensor_split(2)[half] for peer, each in sent.items()},
                {peer: each.tensor_split(2)[half] for peer, each in received.items()},
            )
