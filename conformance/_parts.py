"""Each rank's part of a plan: whether all parts are one plan, and how well it spreads the load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from pytest_affine import truth
from pytest_affine.conformance._batches import wire_bytes
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import RankPlan, TransferPlan, TransferSegment
from pytest_affine.sync import Sync, SyncParameter

__all__ = ["assembled", "load_of", "mismatches"]

Part: TypeAlias = tuple[str, TransferSegment]


def mismatches(sync: Sync, parts: Sequence[RankPlan]) -> Iterator[str]:
    """Where parts contradict the sync or each other; `parts` are by process."""
    sources, targets = dict(sync.endpoints.source), dict(sync.endpoints.target)
    names = [parameter.name for parameter in sync.parameters]
    for process, own in enumerate(parts):
        for side, transfers in (("sends", own.sends), ("receives", own.receives)):
            for parameter, peer, segment in transfers:
                ends = (
                    sources.get(segment.source_location),
                    targets.get(segment.target_location),
                )
                wanted = (process, peer) if side == "sends" else (peer, process)
                if parameter not in names:
                    yield f"process {process} {side} {parameter!r}, which the sync does not have"
                elif ends != wanted:
                    yield (
                        f"process {process} {side} a segment of {parameter!r} whose processes are "
                        f"{wanted}, between locations whose processes are {ends}: {segment}"
                    )
    pairs = [(p, q) for p in range(len(parts)) for q in range(len(parts))]
    for sender, receiver in pairs:
        sent = _between(parts[sender].sends, receiver)
        received = _between(parts[receiver].receives, sender)
        if sent != received:
            yield _difference(sender, receiver, sent, received)


def _between(transfers: Sequence[tuple[str, int, TransferSegment]], peer: int) -> list[Part]:
    return [(parameter, segment) for parameter, other, segment in transfers if other == peer]


def _difference(sender: int, receiver: int, sent: Sequence[Part], received: Sequence[Part]) -> str:
    what = f"process {sender} sends {len(sent)} segments to process {receiver}, which receives "
    if Counter(sent) == Counter(received):
        return f"{what}the same in another order"
    unsent, unreceived = Counter(received) - Counter(sent), Counter(sent) - Counter(received)
    return (
        f"{what}{len(received)}; received and not sent: {[*unsent.elements()][:1]}, sent and not "
        f"received: {[*unreceived.elements()][:1]}"
    )


def assembled(parameter: SyncParameter, parts: Sequence[RankPlan]) -> TransferPlan:
    """The plan of one parameter, of what all processes receive."""
    segments = tuple(
        segment for own in parts for name, _, segment in own.receives if name == parameter.name
    )
    return TransferPlan(
        segments,
        parameter.source.logical_shape,
        _sizes(parameter.source),
        _sizes(parameter.target),
        sum(segment.num_elements for segment in segments),
    )


def _sizes(map_: ParamAffineMap) -> tuple[tuple[int, int], ...]:
    return tuple((location, map_.shard_size(location)) for location in map_.locations)


def load_of(sync: Sync, parts: Sequence[RankPlan]) -> str:
    """The busiest sender beside the least that is possible, and how much of what can stay stays."""
    sizes = {parameter.name: wire_bytes(parameter) for parameter in sync.parameters}
    sent, local = Counter[int](), 0
    for process, own in enumerate(parts):
        for parameter, peer, segment in own.receives:
            num_bytes = segment.num_elements * sizes[parameter]
            if peer == process:
                local += num_bytes
            else:
                sent[peer] += num_bytes
    can_stay, choices = _choices(sync)
    least, most = _least(choices), max(sent.values(), default=0)
    busiest = f"{most / least:.2f} of the least" if least else f"{most} bytes for none"
    stays = f"{local / can_stay:.0%}" if can_stay else "none possible"
    return f"busiest sender {busiest}, local copies {stays}"


def _choices(sync: Sync) -> tuple[int, Counter[frozenset[int]]]:
    """Bytes whose target process has them, and those of the others by the processes to send them.

    Each location counts for itself, also where two of one process want the same.
    """
    can_stay, choices = 0, Counter[frozenset[int]]()
    sources = dict(sync.endpoints.source)
    for parameter in sync.parameters:
        size, holders = wire_bytes(parameter), truth.holders(parameter.source)
        processes = [frozenset(sources[at] for at, *_ in held) for held in holders]
        for location, process in sync.endpoints.target:
            if location in parameter.target.locations:
                for element in truth.element_at(parameter.target, location):
                    if element is not None and process in processes[element]:
                        can_stay += size
                    elif element is not None:
                        choices[processes[element]] += size
    return can_stay, choices


def _least(choices: Mapping[frozenset[int], int]) -> float:
    """What the busiest sender sends at least: no set of processes can share less than it alone has.

    That much is enough too, by the theorem of Hall, where bytes are spread as one likes.
    """
    senders = sorted(frozenset().union(*choices))
    return max(
        (
            sum(number for held, number in choices.items() if held <= frozenset(group)) / size
            for size in range(1, len(senders) + 1)
            for group in combinations(senders, size)
        ),
        default=0.0,
    )
