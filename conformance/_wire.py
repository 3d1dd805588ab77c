"""What went over the wire, as the tap saw it: payload by pair, apart from the exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pytest_affine import truth
from pytest_affine.conformance._batches import wire_bytes
from pytest_affine.contract.outcomes import NotObservable
from pytest_affine.maps import ParamAffineMap
from pytest_affine.ranks.wire import WireEvent
from pytest_affine.sync import Sync

__all__ = ["Payload", "payload", "require_seen", "require_sight", "surplus", "unreceived"]

Pair = tuple[int | None, int | None]
Payload = Mapping[tuple[int, int], tuple[int, int]]
"""By (sender, receiver), bytes and messages."""


def payload(
    exchange: Sequence[Sequence[WireEvent]], seen: Sequence[Sequence[WireEvent]]
) -> Payload:
    """What each process sent to each other, less what it sent in the exchange; both by process.

    A collective counts as one message for each member that something goes to; one that puts the
    same on the wire as one of the exchange is the exchange. Where it can't be told what went to
    whom, the wire is not observable.

    Raises:
        NotObservable: a collective of several bytes that tells no pairs, such as a reduction.
    """
    num_bytes, messages = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for own, (before, after) in enumerate(zip(exchange, seen, strict=True)):
        usual, actual = Counter(map(_content, before)), Counter(map(_content, after))
        for sign, contents in ((1, actual - usual), (-1, usual - actual)):
            for content, number in contents.items():
                for peer, sent in _sent(content, own):
                    num_bytes[own, peer] += sign * number * sent
                    messages[own, peer] += sign * number
    return {pair: (num_bytes[pair], messages[pair]) for pair in messages}


def _content(event: WireEvent) -> WireEvent:
    """The event without its time and place in the run: equal where the same is on the wire."""
    return WireEvent(
        kind=event.kind,
        group="",
        group_ranks=event.group_ranks,
        peer=event.peer,
        num_bytes=event.num_bytes,
        dtype="",
        tag=0,
        sequence=0,
        index=0,
        started=0.0,
        sent_bytes=event.sent_bytes,
        received_bytes=event.received_bytes,
        sent_parts=event.sent_parts,
    )


def _sent(event: WireEvent, own: int) -> Iterator[tuple[int, int]]:
    """To whom this process sent how many bytes in one event; a message may have none."""
    if event.is_message:
        if event.kind == "send" and event.peer is not None:
            yield event.peer, event.sent_bytes
        return
    others = [rank for rank in event.group_ranks if rank != own]
    parts: dict[int, int] = {}
    if event.kind.startswith("all_to_all") and event.sent_parts:
        parts = dict(zip(event.group_ranks, event.sent_parts, strict=True))
    elif event.kind in ("broadcast", "scatter"):
        parts = dict.fromkeys(others, event.num_bytes) if event.peer == own else {}
    elif event.kind.startswith("all_gather"):
        parts = dict.fromkeys(others, event.sent_bytes)
    elif event.kind == "gather":
        parts = {event.peer: event.sent_bytes} if event.peer is not None else {}
    elif event.sent_bytes:
        raise NotObservable(f"the tap can't tell to whom the bytes of one {event.kind} went")
    yield from ((peer, sent) for peer, sent in parts.items() if peer != own and sent)


def require_sight(sync: Sync, moved: Payload) -> None:
    """Raise `NotObservable` unless the tap saw all that must have changed hands.

    Each process must get the elements of its targets that no source shard of its own holds; what
    landed, and did not come by the wire, came by a way that the tap can't see.
    """
    received = Counter[int]()
    for (_, receiver), (num_bytes, _) in moved.items():
        received[receiver] += num_bytes
    require_seen(sync, received)


def require_seen(sync: Sync, received: Mapping[int, int]) -> None:
    """Raise `NotObservable` if a process was seen to receive fewer bytes than it must have."""
    for process, needed in sorted(_needed_bytes(sync).items()):
        if received[process] < needed:
            raise NotObservable(
                f"process {process} got at least {needed} bytes from others, of which "
                f"{received[process]} were seen on the wire"
            )


def _needed_bytes(sync: Sync) -> Counter[int]:
    needed = Counter[int]()
    for parameter in sync.parameters:
        held = _elements_by_process(parameter.source, sync.endpoints.source)
        wanted = _elements_by_process(parameter.target, sync.endpoints.target)
        for process, elements in wanted.items():
            missing = elements - held.get(process, set())
            needed[process] += len(missing) * wire_bytes(parameter)
    return needed


def _elements_by_process(
    map_: ParamAffineMap, bound: Sequence[tuple[int, int]]
) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for location, process in bound:
        if location in map_.locations:
            elements = {e for e in truth.element_at(map_, location) if e is not None}
            found.setdefault(process, set()).update(elements)
    return found


def surplus(events: Sequence[WireEvent], exchanges: Sequence[Sequence[WireEvent]]) -> str:
    """What of these events each of the exchanges lacks, by kind and peer; empty if nothing."""
    more = [Counter(map(_operation, events)) - Counter(map(_operation, e)) for e in exchanges]
    least = min(more, key=lambda each: each.total())
    return ", ".join(f"{number} {operation}" for operation, number in sorted(least.items()))


def _operation(event: WireEvent) -> str:
    if event.kind == "recv":
        return f"recv from {event.peer}"
    return event.kind if event.peer is None else f"{event.kind} to {event.peer}"


def unreceived(events: Sequence[Sequence[WireEvent]]) -> str:
    """Which messages of a call were sent and not received, or awaited and not sent; by process."""
    sent, asked = Counter[Pair](), Counter[Pair]()
    for own, mine in enumerate(events):
        sent.update((own, event.peer) for event in mine if event.kind == "send")
        asked.update((event.peer, own) for event in mine if event.kind == "recv")
    differing = [pair for pair in sent | asked if sent[pair] != asked[pair]]
    return "; ".join(
        f"process {sender} sent {sent[sender, receiver]} messages to process {receiver}, which "
        f"received {asked[sender, receiver]}"
        for sender, receiver in differing
    )
