"""Faults on the wire, for tests: messages that leave late, in another order, or not at all.

A message is held by its sender, and is sent in earnest when that rank next waits: it asks a work
anything, its own or another, or ends the context. So nothing runs in the background, the contents
are those at that time, and the tap sees what is on the wire. What blocks outside the methods of a
work, such as making a group or a functional collective, sends nothing that is held.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial, wraps
from random import Random
from typing import Any, TypeAlias

__all__ = ["Delay", "Drop", "Reorder", "WireFault", "wire_faults"]


@dataclass(frozen=True, slots=True)
class Delay:
    """Messages leave so many seconds after they were given to `send`, or later.

    Attributes:
        seconds: how long each is held.
        sender: the global rank whose messages are late; None: any.
        receiver: the global rank whose messages are late; None: any.
    """

    seconds: float
    sender: int | None = None
    receiver: int | None = None

    def concerns(self, sender: int, receiver: int) -> bool:
        """Whether messages of this ordered pair are late."""
        return self.sender in (None, sender) and self.receiver in (None, receiver)


@dataclass(frozen=True, slots=True)
class Reorder:
    """What a rank sends before it waits leaves in a random order; to one peer it stays in order.

    Attributes:
        seed: of the order; each rank has one of its own.
    """

    seed: int = 0


@dataclass(frozen=True, slots=True)
class Drop:
    """One message of an ordered pair of ranks is lost, and the later ones do not overtake it.

    For its sender the message is sent. Its receiver waits for it.

    Attributes:
        sender: global rank.
        receiver: global rank.
        index: number of the message among those of the pair in this context, from 0.
    """

    sender: int
    receiver: int
    index: int = 0


WireFault: TypeAlias = Delay | Reorder | Drop


@contextmanager
def wire_faults(*faults: WireFault) -> Iterator[None]:
    """Let messages of gloo groups leave late, in another order, or not at all, within a `with`.

    Every rank enters it, with the same faults, which may be none. A send that is wrong in itself
    raises when it leaves.

    Raises:
        ValueError: a fault names a rank that there is not, or a negative number.
        RuntimeError: the default group has another backend, which may send several at once.
    """
    if not faults:
        yield
        return
    import torch.distributed as dist

    if (backend := dist.get_backend()) != "gloo":
        raise RuntimeError(f"wire_faults() is for gloo, and the default group has {backend}")
    for fault in faults:
        _check(fault, dist.get_world_size())
    outbox = _Outbox(faults, dist.get_rank())
    group, work = dist.ProcessGroup, dist.Work
    replaced: dict[tuple[type, str], Any] = {(group, "send"): _holding(outbox, group.send)}
    for name in ("wait", "is_completed", "get_future"):
        replaced[work, name] = _emptying(outbox, getattr(work, name))
    originals = [(kind, name, kind.__dict__[name]) for kind, name in replaced]
    for (kind, name), method in replaced.items():
        setattr(kind, name, method)
    try:
        yield
    finally:
        for kind, name, method in originals:
            setattr(kind, name, method)
        outbox.empty()


def _check(fault: WireFault, num_ranks: int) -> None:
    values = asdict(fault)
    for name in {"sender", "receiver"} & values.keys():
        if values[name] is not None and values[name] not in range(num_ranks):
            raise ValueError(f"the {name} of {fault} must be one of {[*range(num_ranks)]}")
    for name in {"seconds", "index"} & values.keys():
        if values[name] < 0:
            raise ValueError(f"{name} of {fault} must not be negative")


class _HeldSend:
    """A message that is held, and in place of its work; whoever asks it anything has it sent."""

    def __init__(
        self, send: Callable[[], Any], receiver: int, due: float, empty: Callable[[], None]
    ) -> None:
        self._send = send
        self.receiver = receiver
        self.due = due
        self._empty = empty
        self._work: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._work is None:
            self._empty()
        return getattr(self._work, name)

    def leave(self) -> None:
        """Send it, not before it is due."""
        time.sleep(max(self.due - time.monotonic(), 0))
        self._work = self._send()


class _Outbox:
    """What one rank has sent and the wire does not have yet."""

    def __init__(self, faults: Sequence[WireFault], rank: int) -> None:
        self._rank = rank
        self._delays = [fault for fault in faults if isinstance(fault, Delay)]
        seeds = [fault.seed for fault in faults if isinstance(fault, Reorder)]
        self._random = Random(f"{seeds} {rank}") if seeds else None
        drops = [fault for fault in faults if isinstance(fault, Drop) and fault.sender == rank]
        self._lost_from: Mapping[int, int] = {
            receiver: min(drop.index for drop in drops if drop.receiver == receiver)
            for receiver in {drop.receiver for drop in drops}
        }
        self._num_sent = Counter[int]()
        self._held: list[_HeldSend] = []

    def take(self, receiver: int, send: Callable[[], Any]) -> Any:
        """Send a message now or later, or lose it; what stands for its work."""
        index = self._num_sent[receiver]
        self._num_sent[receiver] += 1
        if index >= self._lost_from.get(receiver, index + 1):
            return _work_that_is_done()
        delays = [each.seconds for each in self._delays if each.concerns(self._rank, receiver)]
        if not delays and self._random is None:
            return send()
        self._held.append(_HeldSend(send, receiver, time.monotonic() + sum(delays), self.empty))
        return self._held[-1]

    def empty(self) -> None:
        """Send what is held. One that can't be sent, and so raises, is held on with the rest."""
        for each in self._ordered():
            each.leave()
            self._held.remove(each)

    def _ordered(self) -> list[_HeldSend]:
        in_time = sorted(self._held, key=lambda each: each.due)
        if self._random is None:
            return in_time
        queues: dict[int, deque[_HeldSend]] = {}
        for each in in_time:
            queues.setdefault(each.receiver, deque()).append(each)
        receivers = [each.receiver for each in in_time]
        self._random.shuffle(receivers)
        return [queues[receiver].popleft() for receiver in receivers]


def _work_that_is_done() -> Any:
    import torch
    from torch._C import _distributed_c10d

    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result([])
    return _distributed_c10d._create_work_from_future(future)  # type: ignore[attr-defined]


def _holding(outbox: _Outbox, original: Callable[..., Any]) -> Callable[..., Any]:
    import torch.distributed as dist

    @wraps(original)
    def send(group: Any, tensors: Any, dstRank: int, tag: int) -> Any:  # noqa: N803 - torch's
        __tracebackhide__ = True
        receiver = dist.get_process_group_ranks(group)[dstRank]
        return outbox.take(receiver, partial(original, group, tensors, dstRank, tag))

    return send


def _emptying(outbox: _Outbox, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def method(work: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        outbox.empty()
        return original(work, *args, **kwargs)

    return method
