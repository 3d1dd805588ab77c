"""What is made of a call that failed: which rank is the cause, and who waits for whom."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace

from pytest_affine.ranks.failures import RankError, RankFailure
from pytest_affine.ranks.members import Member
from pytest_affine.ranks.waits import Seen, blamed, explain, never_begun
from pytest_affine.ranks.wire import Sighting

_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')
_TORCH = f"{os.sep}torch{os.sep}"


def diagnosed(
    errors: Mapping[Member, RankError],
    first: Member,
    sightings: Mapping[Member, Sighting | None],
) -> RankFailure:
    """The failure of a call, with what the pages of all members tell.

    Of ranks that ran out of time, the one for which the others wait is the first.
    """
    failures = {
        member.rank: replace(
            error, output=member.printed(), current_call=_current_call(sightings[member], error)
        )
        for member, error in errors.items()
    }
    seen = {
        member.rank: _seen(sighting, failures.get(member.rank))
        for member, sighting in sightings.items()
    }
    rank = first.rank
    if failures[rank].kind == "deadline" and (other := blamed(seen)) in failures:
        rank = other
    names = {member.rank: member.name for member in errors}
    return RankFailure(failures, rank, names, explain(seen), never_begun(seen))


def _current_call(sighting: Sighting | None, error: RankError) -> str:
    if sighting is None or sighting.current is None:
        return ""
    return "" if sighting.raised and error.kind != "exception" else str(sighting.current)


def _seen(sighting: Sighting | None, error: RankError | None) -> Seen:
    if error is None or error.kind == "unpicklable":
        return Seen(sighting, "has returned", is_busy=False)
    if error.kind in ("deadline", "stopped"):
        place = _place(error.traceback)
        return Seen(sighting, f"is in no call ({place})" if place else "is in no call")
    call = f" in {error.current_call}" if error.current_call else ""
    return Seen(sighting, _end(error) + call, is_busy=False)


def _end(error: RankError) -> str:
    if error.kind == "exception":
        return f"has raised {error.type_name}"
    return error.message if error.kind == "exit" else f"was {error.message}"


def _place(stack: str) -> str:
    """Where in the user's code the main thread is, which faulthandler shows last."""
    thread = stack.rpartition("most recent call first")[2]
    frames = _FRAME.findall(thread)
    users = [frame for frame in frames if _TORCH not in frame[0]] or frames
    return "{}:{} in {}".format(*users[0]) if users else ""
