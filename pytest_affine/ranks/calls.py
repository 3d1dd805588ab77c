"""One call on several ranks: send it, gather the answers within a deadline, judge them.

First bad event wins. It starts a short grace, in which the other ranks can tell what befell them;
which one came first is then read off the times on the answers. A death comes before whatever was
raised: peers complain about the lost connection before the exit code reaches us.
"""

from __future__ import annotations

import os
import pickle
import select
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pytest_affine.ranks.channel import Message
from pytest_affine.ranks.diagnosis import diagnosed
from pytest_affine.ranks.failures import Kind, RankError, RankFailure, describe
from pytest_affine.ranks.hosts import LOCAL
from pytest_affine.ranks.idle import Leftovers, left_behind
from pytest_affine.ranks.members import Member, dump_stacks, end, launch
from pytest_affine.ranks.pickling import dumps
from pytest_affine.ranks.processes import START_SECONDS
from pytest_affine.ranks.wire import Sighting
from pytest_affine.ranks.worker import Context

T = TypeVar("T")

GRACE_SECONDS = 0.5
"""How long the other ranks may go on after the first bad event."""

_EXIT_SECONDS = 5.0
_COLLECTIVES = os.path.join("torch", "distributed")


def pickled_context(seed: int = 0, environment: Mapping[str, str] | None = None) -> bytes:
    """The controller's surroundings as they are now."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        folder = None
    given = None if environment is None else dict(environment)
    return pickle.dumps(Context(sys_path=sys.path, folder=folder, seed=seed, environment=given))


def pickled_function(function: Callable[..., Any]) -> bytes:
    """The function as bytes; TypeError if it cannot travel."""
    return _pickled(function, f"the function {function!r}")


def pickled_arguments(*args: Any, **kwargs: Any) -> bytes:
    """The arguments as bytes; TypeError if they cannot travel."""
    return _pickled((args, kwargs), "an argument")


def call(
    members: Sequence[Member],
    messages: Sequence[Message],
    deadline: float,
    *,
    check_idle: bool = False,
) -> list[Any]:
    """Give each member its call (context, function, arguments); the values in their order.

    Raises RankFailure; a member that has not answered is then still busy. With `check_idle` it is
    also raised if the call left something behind.
    """
    gathering = _Gathering(members, messages, deadline)
    replies = gathering.replies()
    left = left_behind(
        {member.rank: each.leftovers for member, each in replies.items() if each.leftovers}
    )
    errors = {
        member: _with_exception(reply.error, reply.value, left.get(member.rank, ()))
        for member, reply in replies.items()
        if reply.error is not None
    }
    if errors:
        first = min(errors, key=lambda member: replies[member].order)
        raise diagnosed(errors, first, gathering.sightings or _sightings(members))
    if left and check_idle:
        raise _failure({each: _untidy(left[each.rank]) for each in members if each.rank in left})
    return _values({member: replies[member].value for member in members})


def run_alone(
    function: Callable[..., T],
    /,
    *args: Any,
    name: str,
    deadline: float = START_SECONDS,
    hash_seed: int | None = None,
) -> T:
    """Run a function in a process of its own: a fork, or a new interpreter with this hash seed."""
    environment = dict(os.environ)
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = str(hash_seed)
    context = pickled_context(environment=environment)
    message = context, pickled_function(function), pickled_arguments(*args)
    member = launch(LOCAL, 0, name, hash_seed=hash_seed)
    try:
        (value,) = call([member], [message], deadline)
    finally:
        end([member])
    result: T = value
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    """What became of one member's call; `value` is pickled: of a failed call, the exception."""

    error: RankError | None
    time: float
    value: bytes = b""
    died: bool = False
    leftovers: Leftovers | None = None

    @property
    def order(self) -> tuple[bool, float, bool]:
        """Sorts bad events. Of ranks out of time, one in no collective makes the others wait."""
        waits = self.error is not None and _COLLECTIVES in self.error.traceback
        return not self.died, self.time, waits


def _reply(member: Member, message: Message) -> _Reply:
    head, value, leftovers = message
    error, when = pickle.loads(head)
    when += member.host.clock_offset
    return _Reply(error=error, time=when, value=value, leftovers=pickle.loads(leftovers))


class _Gathering:
    """The members that are busy with one call, and the replies so far."""

    def __init__(
        self, members: Sequence[Member], messages: Sequence[Message], deadline: float
    ) -> None:
        self._deadline = deadline
        self._limit = time.monotonic() + deadline
        self._busy = list(members)
        self._replies: dict[Member, _Reply] = {}
        self._failing = False
        self.sightings: dict[Member, Sighting | None] = {}
        self._ended_before = [member for member in members if member.process.wait(0)]
        for member, message in zip(members, messages, strict=True):
            member.channel.send(message)

    def replies(self) -> dict[Member, _Reply]:
        while self._busy and self._something_happens():
            for member in list(self._busy):
                message, ended = member.receive()
                if message is not None:
                    self._settle(member, _reply(member, message))
                elif ended:
                    self._bury(member)
        for member in list(self._busy):
            if member.channel.ended and member.process.wait(_EXIT_SECONDS):
                self._bury(member)  # its end was seen, and only its exit code was late
        if self._busy:
            self._give_up()
        return self._replies

    def _something_happens(self) -> bool:
        poll = select.poll()
        for member in self._busy:
            poll.register(member.process, select.POLLIN)
            if not member.channel.ended:
                writable = select.POLLOUT if member.channel.pending else 0
                poll.register(member.channel, select.POLLIN | writable)
        return bool(poll.poll(max(self._limit - time.monotonic(), 0) * 1000))

    def _settle(self, member: Member, reply: _Reply) -> None:
        self._busy.remove(member)
        self._replies[member] = reply
        if reply.error is not None and not self._failing:
            self._failing = True
            self._limit = min(self._limit, time.monotonic() + GRACE_SECONDS)

    def _bury(self, member: Member) -> None:
        error = member.death(before=member in self._ended_before)
        self._settle(member, _Reply(error=error, time=time.monotonic(), died=True))

    def _give_up(self) -> None:
        # Looked at first: the signal for the stacks may wake a rank that waits.
        self.sightings = _sightings([*self._replies, *self._busy])
        dump_stacks(self._busy)
        kind: Kind = "deadline"
        text = f"no answer within {float(self._deadline)} s"
        if self._failing:
            kind, text = "stopped", "still busy after another rank had failed, so it was killed"
        now = time.monotonic()
        for member in self._busy:
            self._replies[member] = _Reply(error=member.failure(kind, text), time=now)


def _sightings(members: Sequence[Member]) -> dict[Member, Sighting | None]:
    return {member: member.sighting() for member in members}


def _pickled(value: object, what: str) -> bytes:
    try:
        return dumps(value)
    except Exception as error:
        raise TypeError(f"{what} cannot be sent to ranks: {describe(error)}") from error


def _with_exception(error: RankError, pickled: bytes, left: Sequence[str]) -> RankError:
    error = replace(error, left_behind=tuple(left))
    try:
        return replace(error, exception=pickle.loads(pickled))
    except (Exception, SystemExit):
        return error


def _values(pickled: Mapping[Member, bytes]) -> list[Any]:
    values, errors = [], {}
    for member, data in pickled.items():
        try:
            values.append(pickle.loads(data))
        except (Exception, SystemExit) as error:
            text = f"the result cannot be unpickled in the controller: {describe(error)}"
            trace = "".join(traceback.format_exception(error))
            errors[member] = RankError(kind="unpicklable", message=text, traceback=trace)
    if errors:
        raise _failure(errors)
    return values


def _untidy(left: Sequence[str]) -> RankError:
    message = f"left behind: {'; '.join(left)}"
    return RankError(kind="left behind", message=message, left_behind=tuple(left))


def _failure(errors: Mapping[Member, RankError]) -> RankFailure:
    return RankFailure(
        failures={
            member.rank: replace(error, output=member.printed()) for member, error in errors.items()
        },
        first=next(iter(errors)).rank,
        names={member.rank: member.name for member in errors},
    )
