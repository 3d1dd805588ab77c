"""Running the schedule of one process: rounds of messages, and copies while they are on their way.

While the messages of a round are sent and received, this process makes its share of the local
copies, and packs those messages of the next round whose arena is free: that of the round before is
direct. (Where both are staged the arena has no room for both, as they would have been one message.)
A message that has arrived is unpacked while others are still awaited.

On an accelerator all of it is put on the current stream, on which the backend makes its own wait
and which waits for the backend's when a work is waited for; this process goes on. So an arena is
packed anew only after it was sent, and whoever wants the result waits for the current stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
import torch.distributed as dist

from pytest_affine.plans import Chunk, Message, Queue
from pytest_affine.reference.batch import Side, segment_end
from pytest_affine.reference.buffers import FlatShards
from pytest_affine.reference.program import Program

__all__ = ["Rounds"]


class Rounds:
    """What one process does, with the memory for it.

    Args:
        program: of this process.
        shards: the flat shards of this process, which has all that the program names.
        device: where the shards are, and the arenas are to be.
    """

    def __init__(self, program: Program, shards: FlatShards, device: torch.device) -> None:
        self._schedule = schedule = program.schedule
        self._plans = program.plans
        self._dtypes = program.dtypes
        self._shards = shards
        queues: dict[Side, Mapping[int, Queue]] = {
            "source": schedule.sends,
            "target": schedule.receives,
        }
        self._arenas = {
            (side, peer): torch.empty(queue.arena_bytes, dtype=torch.uint8, device=device)
            for side, own in queues.items()
            for peer, queue in own.items()
        }

    def run(self, group: dist.ProcessGroup) -> None:
        """Move everything. Called on every rank that takes part, at the same time."""
        num_rounds, copies = self._schedule.num_rounds, self._schedule.local_copies
        self._pack(0, early=True)
        for index in range(num_rounds):
            works = self._transmit(index, group)
            self._copy(copies[index::num_rounds])
            self._pack(index + 1, early=True)
            self._land(index, works)
            self._pack(index + 1, early=False)
        if not num_rounds:
            self._copy(copies)

    def _transmit(self, index: int, group: dist.ProcessGroup) -> list[dist.Work]:
        """Post a round as one batch, receives first. torch wants peers by global rank."""
        receives = (
            (dist.irecv, peer, self._payload(message, "target", peer))
            for peer, message in _messages(self._schedule.receives, index)
        )
        sends = (
            (dist.isend, peer, self._payload(message, "source", peer))
            for peer, message in _messages(self._schedule.sends, index)
        )
        operations = [
            dist.P2POp(operation, payload, dist.get_global_rank(group, peer), group)
            for operation, peer, payload in (*receives, *sends)
        ]
        works: list[dist.Work] = dist.batch_isend_irecv(operations)
        return works

    def _land(self, index: int, works: list[dist.Work]) -> None:
        """Wait for a round, and unpack each message when it is there.

        gloo has a work for each message, in their order, and nccl and xccl one for them all.
        """
        pending = iter(works)
        for peer, message in _messages(self._schedule.receives, index):
            for work in pending:
                work.wait()
                break
            for region, part in self._staged(message, "target", peer):
                region.copy_(part)
        for work in pending:
            work.wait()

    def _pack(self, index: int, *, early: bool) -> None:
        """Pack the messages of a round whose arena is free before its turn, or the others."""
        for peer, message in _messages(self._schedule.sends, index):
            is_free = not index or self._schedule.sends[peer].messages[index - 1].direct
            if is_free is early:
                for region, part in self._staged(message, "source", peer):
                    part.copy_(region)

    def _copy(self, chunks: tuple[Chunk, ...]) -> None:
        for chunk in chunks:
            self._region(chunk, "target").copy_(self._region(chunk, "source"))

    def _payload(self, message: Message, side: Side, peer: int) -> torch.Tensor:
        """The bytes to send or receive: of the shard itself, or of the arena.

        Bytes, because a backend may not know the dtype, or may not keep every bit of it.
        """
        if not message.direct:
            return self._arenas[side, peer][: message.num_bytes]
        shard, first, _ = self._position(message.chunks[0], side)
        return shard[first : first + message.num_elements].view(torch.uint8)

    def _staged(
        self, message: Message, side: Side, peer: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every chunk of a staged message: its region of the shard, and its part of the arena.

        Where their dtypes differ, elements are cast when one is copied into the other.
        """
        if message.direct:
            return
        payload = typed = self._payload(message, side, peer)
        end = 0
        for chunk in message.chunks:
            region = self._region(chunk, side)
            wire = self._dtypes[chunk.parameter].wire
            if typed.dtype != wire:
                typed = payload.view(wire)
            start, end = end, end + region.numel()
            yield region, typed[start:end].view_as(region)

    def _region(self, chunk: Chunk, side: Side) -> torch.Tensor:
        """The chunk's elements in the shard of one side, as a view."""
        shard, first, strides = self._position(chunk, side)
        return shard.as_strided(chunk.shape, strides, shard.storage_offset() + first)

    def _position(self, chunk: Chunk, side: Side) -> tuple[torch.Tensor, int, tuple[int, ...]]:
        """The flat shard, the chunk's first element in it, and its strides."""
        segment = self._plans[chunk.parameter].segments[chunk.segment]
        location, offset, strides = segment_end(segment, side)
        steps = (start * stride for start, stride in zip(chunk.origin, strides, strict=True))
        return self._shards[side][chunk.parameter, location], offset + sum(steps), strides


def _messages(queues: Mapping[int, Queue], index: int) -> Iterator[tuple[int, Message]]:
    """The peers that have a message in a round, and the messages."""
    for peer, queue in queues.items():
        if index < len(queue.messages):
            yield peer, queue.messages[index]
