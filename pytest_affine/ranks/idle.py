"""Whether a function left the ranks as it found them: what the controller makes of it.

Each rank looks at itself, and the controller compares what they say: no barrier is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_affine.ranks.waits import group_text, ranks_text
from pytest_affine.ranks.wire import Collectives


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What a rank says after a call; the counts are of this call.

    Attributes:
        problems: what is wrong whatever other ranks say.
        sent: by peer, how many messages the rank sent to it.
        asked: by peer, how many messages the rank asked of it.
        sent_bytes: by peer, the bytes of what was sent.
        asked_bytes: by peer, the bytes that there was room for in what was asked for and came.
        collectives: by name of a group, the collectives that the rank entered.
    """

    problems: tuple[str, ...]
    sent: tuple[int, ...]
    asked: tuple[int, ...]
    sent_bytes: tuple[int, ...]
    asked_bytes: tuple[int, ...]
    collectives: Mapping[str, Collectives]


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
        name: entered.ranks
        for each in leftovers.values()
        for name, entered in each.collectives.items()
    }
    found = []
    for name, ranks in groups.items():
        nothing = Collectives(ranks=ranks)
        entered = {
            rank: each.collectives.get(name, nothing)
            for rank in ranks
            if (each := leftovers.get(rank)) is not None
        }
        text = _difference({**dict.fromkeys(ranks, nothing), **entered})
        if text:
            found.append((min(entered), f"collectives of {group_text(name)} were entered {text}"))
    return found


def _difference(entered: Mapping[int, Collectives]) -> str:
    """How the collectives of a group's ranks differ; empty if they do not."""
    if text := _sides({rank: str(each.count) for rank, each in entered.items()}):
        return text
    if len({each.digest for each in entered.values()}) == 1:
        return ""
    for texts in zip(*(each.latest for each in entered.values()), strict=True):
        if text := _sides(dict(zip(entered, texts, strict=True))):
            return f"as {text}"
    return "as different ones"


def _sides(texts: Mapping[int, str]) -> str:
    """Which ranks have which text; empty if all have one."""
    ranks: dict[str, list[int]] = {}
    for rank, text in texts.items():
        ranks.setdefault(text, []).append(rank)
    if len(ranks) == 1:
        return ""
    return ", ".join(f"{text} on {ranks_text(some)}" for text, some in ranks.items())


def _messages(number: int) -> str:
    return f"{number} message" if number == 1 else f"{number} messages"
