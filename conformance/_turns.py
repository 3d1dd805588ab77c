"""What a rank does for the suite with a whole sync: reshard, once or turn after turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_affine.conformance._buffers import Buffer, Held, Key, Tensors, given_tensors
from pytest_affine.conformance._runs import Group, in_group
from pytest_affine.contract.resident import Resident, contract_refusal
from pytest_affine.contract.returns import check_return
from pytest_affine.errors import AffineTransferError
from pytest_affine.ranks import device
from pytest_affine.ranks.wire import WireEvent
from pytest_affine.sync import Sync

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

__all__ = ["After", "Told", "Turn", "closed", "resharded", "run_open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Held):
    """What one rank is told of a sync, and what it holds."""

    sync: Sync


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One sync moved once.

    Attributes:
        sync: which of the syncs at hand.
        run: the values that its buffers hold before.
        renewed: the sides whose buffers are new ones from now on.
        is_refused: whether every rank must refuse it; other turns are the last if it is refused.
    """

    sync: int = 0
    run: int = 0
    renewed: tuple[str, ...] = ()
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """What a rank has after one turn.

    Attributes:
        contents: the bytes of the buffers of its sync.
        events: what the rank did on the wire.
        refusal: with which it refused, if it did.
    """

    contents: Mapping[Key, bytes]
    events: tuple[WireEvent, ...]
    refusal: AffineTransferError | None = None


Place: TypeAlias = tuple[Key, tuple[int, ...], str]


class _Memories:
    """The buffers of one rank: shards of one place, shape and dtype have the same in all syncs."""

    def __init__(self) -> None:
        self._current: dict[Place, torch.Tensor] = {}
        self._old: list[torch.Tensor] = []  # kept, so that no new one lies where one of these does

    def renew(self, sides: Sequence[str]) -> None:
        """Let go of the buffers of these sides."""
        for place in [place for place in self._current if place[0][0] in sides]:
            self._old.append(self._current.pop(place))

    def buffers(self, told: Told, run: int) -> list[Buffer]:
        """The buffers of a sync, as they are before a run."""
        import torch

        buffers = []
        for shard in told.shards:
            place = shard.key, shard.shape, shard.dtype
            if place not in self._current:
                size = len(shard.before[run])
                self._current[place] = torch.empty(size, dtype=torch.uint8, device=device())
            buffers.append(Buffer(shard, self._current[place], told.form))
            buffers[-1].fill(run)
        return buffers


def resharded(
    resident: Resident, told: Sequence[Sequence[Told]], turns: Sequence[Turn], group: Group
) -> list[After]:
    """Take turns with `reshard`. Called on every rank.

    Args:
        resident: the implementation.
        told: by sync, by process.
        turns: what to do; those after one that is refused, and need not be, are not taken.
        group: where; ranks that are not in it return nothing.

    Raises:
        AssertionError: what must be refused was not. Raised here and not in the controller, since
            ranks of which some went ahead and some did not must not be used again.
    """

    def move(turn: Turn, sync: Sync, tensors: Tensors, made: Any) -> None:
        resident.reshard(sync, *tensors, group=made)

    return _taken(told, turns, group, move)


def run_open(
    resident: Resident, told: Sequence[Sequence[Told]], turns: Sequence[Turn], group: Group
) -> list[After]:
    """Take turns with one handle of `open_sync`, which is told what changes; as `resharded`."""
    handle: Any = None
    last = 0

    def move(turn: Turn, sync: Sync, tensors: Tensors, made: Any) -> None:
        nonlocal handle, last
        if handle is None:
            handle = resident.open_sync(sync, *tensors, group=made)
        elif turn.sync != last:
            handle.rebind(sync=sync, source_buffers=tensors[0], target_buffers=tensors[1])
        elif turn.renewed:
            both = dict(zip(("source", "target"), tensors, strict=True))
            handle.rebind(**{f"{side}_buffers": both[side] for side in turn.renewed})
        last = turn.sync
        check_return("run", handle.run())

    after = _taken(told, turns, group, move)
    if handle is not None:
        handle.close()
    return after


def _taken(
    told: Sequence[Sequence[Told]], turns: Sequence[Turn], group: Group, move: Any
) -> list[After]:
    memories, after = _Memories(), []
    with in_group(group) as (made, process):
        for turn in turns if process >= 0 else ():
            memories.renew(turn.renewed)
            after.append(_turn(turn, told[turn.sync][process], memories, move, made))
            if not turn.is_refused and turn is not turns[-1] and _any_refused(after[-1], made):
                break
    return after


def _any_refused(after: After, group: dist.ProcessGroup | None) -> bool:
    """Whether a rank of the group refused; all say so, lest some go on and wait for it."""
    import torch
    import torch.distributed as dist

    refused = torch.tensor([int(after.refusal is not None)], device=device())
    dist.all_reduce(refused, dist.ReduceOp.MAX, group=group)
    return bool(refused.item())


def _turn(turn: Turn, own: Told, memories: _Memories, move: Any, made: Any) -> After:
    from pytest_affine.ranks import tap

    buffers = memories.buffers(own, turn.run)
    refusal = None
    mark = tap.mark()
    try:
        move(turn, own.sync, given_tensors(own, buffers, with_empty=True), made)
    except AffineTransferError as error:
        refusal = contract_refusal(error)
    if turn.is_refused and refusal is None:
        raise AssertionError("must be refused, but went on")
    return After(
        contents={buffer.shard.key: buffer.contents() for buffer in buffers},
        events=tuple(tap.events_since(mark)),
        refusal=refusal,
    )


def closed(resident: Resident, told: Sequence[Told]) -> str:
    """Open a sync, run it, close it twice, run it again, and say what of that went wrong.

    Called on every rank.
    """
    import torch.distributed as dist

    own = told[dist.get_rank()]
    tensors = given_tensors(own, _Memories().buffers(own, 0), with_empty=True)
    handle = resident.open_sync(own.sync, *tensors, group=dist.group.WORLD)
    handle.run()
    try:
        handle.close()
        handle.close()
    except AffineTransferError as refusal:
        return f"refused to close: {refusal}"
    try:
        handle.run()
    except AffineTransferError:
        return ""
    return "ran the sync again"
