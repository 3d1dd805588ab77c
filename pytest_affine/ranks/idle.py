"""Whether a function left the ranks as it found them: what the controller makes of it.

Each rank looks at itself, and the controller compares what they say: no barrier is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_affine.ranks.waits import group_text, ranks_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What a rank says after a call; the counts are of this call.

    Attributes:
        problems: what is wrong whatever other ranks say.
        sent: by peer, how many messages the rank sent to it.
        asked: by peer, how many messages the rank asked of it.
        sent_bytes: by peer, the bytes of what was sent.
        asked_bytes: by peer, the bytes that there was room for in what was asked for and came.
        collectives: by name of a group, its ranks and how many collectives the rank entered.
    """

    problems: tuple[str, ...]
    sent: tuple[int, ...]
    asked: tuple[int, ...]
    sent_bytes: tuple[int, ...]
    asked_bytes: tuple[int, ...]
    collectives: Mapping[str, tuple[tuple[int, ...], int]]


def left_behind(leftovers: Mapping[int, Leftovers]) -> dict[int, list[str]]:
    """What each rank left behind; ranks that left nothing are not in it. The controller calls it.

    What does not match is told with the first rank that is concerned.
    """
    found = {rank: [*each.problems] for rank, each in leftovers.items()}
    for rank, text in unmatched(leftovers):
        found[rank].append(text)
    return {rank: texts for rank, texts in found.items() if texts}


def unmatched(leftovers: Mapping[int, Leftovers]) -> list[tuple[int, str]]:
    """What one rank did and another did not: messages, collectives; with a rank concerned."""
    return [*_unmatched_messages(leftovers), *_unmatched_collectives(leftovers)]


def _unmatched_messages(leftovers: Mapping[int, Leftovers]) -> list[tuple[int, str]]:
    found = []
    for rank, ours in leftovers.items():
        for peer, num_sent in enumerate(ours.sent):
            theirs = leftovers.get(peer)
            num_asked = 0 if theirs is None else theirs.asked[rank]
            if num_sent != num_asked:
                what = f"rank {rank} sent {_messages(num_sent)} to rank {peer}"
                found.append((rank, f"{what}, which asked for {num_asked}"))
            elif theirs and ours.sent_bytes[peer] != theirs.asked_bytes[rank]:
                # gloo leaves the rest of a larger buffer as it was, and says nothing.
                what = f"rank {rank} sent {ours.sent_bytes[peer]} bytes to rank {peer}"
                found.append((rank, f"{what}, which asked for {theirs.asked_bytes[rank]}"))
        for peer, num_asked in enumerate(ours.asked):
            if num_asked and peer not in leftovers:
                what = f"rank {rank} asked for {_messages(num_asked)} from rank {peer}"
                found.append((rank, f"{what}, which sent 0"))
    return found


def _unmatched_collectives(leftovers: Mapping[int, Leftovers]) -> list[tuple[int, str]]:
    groups = {
        name: ranks for each in leftovers.values() for name, (ranks, _) in each.collectives.items()
    }
    found = []
    for name, ranks in groups.items():
        by_count: dict[int, list[int]] = {}
        for rank in ranks:
            each = leftovers.get(rank)
            count = each.collectives.get(name, (ranks, 0))[1] if each else 0
            by_count.setdefault(count, []).append(rank)
        if len(by_count) > 1:
            first = min(rank for rank in ranks if rank in leftovers)
            counts = ", ".join(f"{n} on {ranks_text(some)}" for n, some in by_count.items())
            found.append((first, f"collectives of {group_text(name)} were entered {counts}"))
    return found


def _messages(number: int) -> str:
    return f"{number} message" if number == 1 else f"{number} messages"
