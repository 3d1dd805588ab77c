"""Who waits for whom, and who does something else than the others: told from the ranks' pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pytest_affine.ranks.wire import (
    DEFAULT_GROUP,
    MissingMessage,
    Sighting,
    Traffic,
    WireEvent,
)

_SIZES_DIFFER = frozenset({"all_to_all", "all_to_all_single"})


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a rank: its page, and what can be said of it unless it waits in a call.

    A rank is busy while it has not answered and is alive.
    """

    sighting: Sighting | None
    whereabouts: str
    is_busy: bool = True

    @property
    def waits_in(self) -> WireEvent | None:
        """The event that the rank is in."""
        if self.sighting is None or self.sighting.raised or not self.is_busy:
            return None
        return self.sighting.current

    @property
    def collectives(self) -> tuple[WireEvent, ...]:
        """The latest collectives of the rank."""
        return tuple(event for event in self._recent if not event.is_message)

    @property
    def messages(self) -> tuple[WireEvent, ...]:
        """The latest messages of the rank."""
        return tuple(event for event in self._recent if event.is_message)

    def traffic(self, peer: int) -> Traffic:
        """What passed between the rank and a peer."""
        return Traffic() if self.sighting is None else self.sighting.traffic[peer]

    @property
    def _recent(self) -> tuple[WireEvent, ...]:
        return () if self.sighting is None else self.sighting.recent


def explain(seen: Mapping[int, Seen]) -> list[str]:
    """Lines that tell why ranks wait; none if no rank waits and all did the same."""
    lines = [*_mismatches(seen), *_message_mismatches(seen)]
    waiting = [rank for rank in seen if seen[rank].waits_in]
    if not waiting and not lines:
        return []
    lines += [_line(rank, seen) for rank in sorted(seen)]
    if circle := _circle(seen):
        lines.append(f"{ranks_text(circle)} wait for each other in a circle")
    ends = _ends(seen)
    if len(waiting) > 1 and len(ends) == 1:
        lines.append(f"all that wait do so, in the end, for rank {ends[0]}")
    return lines


def blamed(seen: Mapping[int, Seen]) -> int | None:
    """The one rank that did something else than the others, or for which all of them wait."""
    odd = [rank for event_ranks in _differing(seen) for rank in _odd(event_ranks)]
    found = odd or _ends(seen)
    return found[0] if len(set(found)) == 1 else None


def never_begun(seen: Mapping[int, Seen]) -> tuple[MissingMessage, ...]:
    """The messages that ranks wait for, and that the rank at their other end has not begun.

    A rank's messages for another are counted together, whatever their group and tag.
    """
    return tuple(
        MissingMessage(rank, event)
        for rank in sorted(seen)
        if (event := seen[rank].waits_in) is not None
        if event.is_message and event.peer is not None and event.peer in seen
        if _num_begun(event.kind, seen[event.peer].traffic(rank)) <= event.sequence
    )


def _num_begun(kind: str, theirs: Traffic) -> int:
    """How many receives the other rank began for our sends, or sends for our receives."""
    return theirs.sent_messages if kind == "recv" else theirs.asked_messages


def _waits_for(rank: int, seen: Mapping[int, Seen]) -> list[int]:
    event = seen[rank].waits_in
    if event is None:
        return []
    if not event.is_message:
        others = [other for other in event.group_ranks if other != rank]
        return [other for other in others if not _has_entered(seen.get(other), event)]
    if event.peer is None:
        return [other for other in event.group_ranks if other != rank]
    return [event.peer]


def _has_entered(seen: Seen | None, event: WireEvent) -> bool:
    entered = () if seen is None else seen.collectives
    return any(each.group == event.group and each.sequence >= event.sequence for each in entered)


def _ends(seen: Mapping[int, Seen]) -> list[int]:
    """The ranks that are waited for and wait for nobody."""
    awaited = {other for rank in seen for other in _waits_for(rank, seen)}
    return sorted(rank for rank in awaited if rank not in seen or not _waits_for(rank, seen))


def _circle(seen: Mapping[int, Seen]) -> list[int]:
    for start in sorted(seen):
        path = [start]
        while len(others := _waits_for(path[-1], seen)) == 1 and others[0] in seen:
            if others[0] == start:
                return path if len(path) > 1 else []
            if others[0] in path:
                break
            path.append(others[0])
    return []


def _line(rank: int, seen: Mapping[int, Seen]) -> str:
    event = seen[rank].waits_in
    if event is None:
        return f"rank {rank} {seen[rank].whereabouts}"
    others = _waits_for(rank, seen)
    if not others:
        return f"rank {rank} is in {event}, which all its ranks have entered"
    if event.is_message:
        return f"rank {rank} waits in {event}" + _peer_clause(rank, event, seen)
    text = f"rank {rank} waits in {event} for {ranks_text(others)}"
    return text + _doing(others[0], seen, ", which ") if len(others) == 1 else text


def _peer_clause(rank: int, event: WireEvent, seen: Mapping[int, Seen]) -> str:
    peer = event.peer
    if peer is None or peer not in seen:
        return ""
    ours, done = seen[rank].traffic(peer), _num_begun(event.kind, seen[peer].traffic(rank))
    if event.kind == "recv":
        verb, wanted = "sent it", ours.asked_messages
    else:
        verb, wanted = "asked it for", ours.sent_messages
    amount = f"{done} of {wanted} messages" if done else "nothing"
    return f"; that rank has {verb} {amount}{_doing(peer, seen, ' and ')}"


def _doing(rank: int, seen: Mapping[int, Seen], join: str) -> str:
    if rank not in seen:
        return f"{join}takes no part in this call"
    return "" if seen[rank].waits_in else f"{join}{seen[rank].whereabouts}"


def _mismatches(seen: Mapping[int, Seen]) -> list[str]:
    lines = []
    for event_ranks in _differing(seen):
        event = next(iter(event_ranks.values()))[0][1]
        what = ", but ".join(
            f"{operation} on {ranks_text([rank for rank, _ in pairs])}"
            for operation, pairs in event_ranks.items()
        )
        odd = _odd(event_ranks)
        end = f": {ranks_text(odd)} did something else than the others" if odd else ""
        lines.append(f"collective {event.sequence + 1} of {group_text(event.group)} is {what}{end}")
    return lines


_ByOperation = dict[str, list[tuple[int, WireEvent]]]


def _differing(seen: Mapping[int, Seen]) -> list[_ByOperation]:
    """For each group, the first collective that is not the same everywhere, by operation."""
    pairs = [(rank, event) for rank in sorted(seen) for event in seen[rank].collectives]
    pairs.sort(key=lambda pair: (pair[1].group, pair[1].sequence))
    found: dict[str, _ByOperation] = {}
    for (group, _), same in groupby(pairs, lambda pair: (pair[1].group, pair[1].sequence)):
        operations: _ByOperation = {}
        for rank, event in same:
            operations.setdefault(_comparable(event), []).append((rank, event))
        if len(operations) > 1:
            found.setdefault(group, operations)
    return list(found.values())


def _comparable(event: WireEvent) -> str:
    return event.kind if event.kind in _SIZES_DIFFER else event.operation


def _odd(operations: _ByOperation) -> list[int]:
    """The ranks that differ from a majority."""
    sides = sorted(operations.values(), key=len)
    others = [rank for side in sides[:-1] for rank, _ in side]
    return others if len(sides[-1]) > len(others) else []


def _message_mismatches(seen: Mapping[int, Seen]) -> Iterable[str]:
    for rank in sorted(seen):
        for event in seen[rank].messages:
            receiver = None if event.peer is None else seen.get(event.peer)
            if event.kind != "send" or receiver is None:
                continue
            for other in receiver.messages:
                if _is_other_end(other, rank, event) and _load(other) != _load(event):
                    yield (
                        f"message {event.sequence + 1} from rank {rank} to rank {event.peer} "
                        f"has {_load(event)}, but {_load(other)} were asked for"
                    )


def _is_other_end(other: WireEvent, sender: int, event: WireEvent) -> bool:
    ends = other.kind, other.peer, other.group, other.tag, other.sequence
    return ends == ("recv", sender, event.group, event.tag, event.sequence)


def _load(event: WireEvent) -> str:
    return f"{event.num_bytes} bytes of {event.dtype}"


def group_text(name: str) -> str:
    """A group in a sentence."""
    return "the default group" if name == DEFAULT_GROUP else f"group {name}"


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks in a sentence."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
