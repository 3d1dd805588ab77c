"""A pool of ranks, kept between calls and rebuilt after a failure that may have left traces."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_affine.ranks.backends import BACKENDS, check_backend
from pytest_affine.ranks.calls import (
    call,
    pickled_arguments,
    pickled_context,
    pickled_function,
)
from pytest_affine.ranks.channel import Message
from pytest_affine.ranks.failures import RankFailure
from pytest_affine.ranks.hosts import hosts_for, launched_hosts
from pytest_affine.ranks.leases import Lease, Lessor
from pytest_affine.ranks.meeting import meet_at_launcher, meet_in_file
from pytest_affine.ranks.members import Member, end, launch
from pytest_affine.ranks.processes import START_SECONDS
from pytest_affine.ranks.worker import join

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

T = TypeVar("T")

_CLOSE_SECONDS = 1.0


class RankPool:
    """So many rank processes with one initialised default process group, kept between calls.

    They start with the first call, or with `start`. In a call random, numpy (where imported) and
    torch are seeded with `seed` plus the rank. The controller calls all methods, from one thread.

    Where the backend needs devices, or with `device_ids`, each rank has one of them, leased from
    the start of the ranks to their end; pools of one session share a `lessor`.

    Attributes:
        num_ranks: size of the process group.
        backend: its backend.
        deadline: seconds that a call may take unless it says otherwise.
        generation: how often the ranks were started; what lives in them is gone when it changes.
        printed: the end of what each rank of the latest call printed in it.
    """

    def __init__(
        self,
        num_ranks: int,
        *,
        backend: str = "gloo",
        deadline: float = 30.0,
        seed: int = 0,
        device_ids: Sequence[int] | None = None,
        lessor: Lessor | None = None,
    ) -> None:
        self._devices = check_backend(backend, num_ranks, device_ids)
        self.num_ranks = num_ranks
        self.backend = backend
        self.deadline = deadline
        self.generation = 0
        self.printed: dict[int, str] = {}
        self._seed = seed
        self._lessor = lessor or Lessor()
        self._lease: Lease | None = None
        self._servers: list[object] = []
        self._members: list[Member] = []
        self._environments: dict[int, dict[str, str]] = {}
        self._closed = False

    @property
    def is_running(self) -> bool:
        """Whether there are ranks, which the next call would find."""
        return bool(self._members)

    def start(self) -> None:
        """Start the ranks unless they run; ranks that went with their server are replaced.

        Raises RankSetupError, also where others keep the devices, or RankFailure from a rank.
        """
        if self._closed:
            raise RuntimeError("this pool of ranks is closed")
        hosts = hosts_for(self.num_ranks)
        servers = [host.server for host in hosts]
        if self._members and self._servers == servers:
            return
        self._end()
        self._servers = servers
        self.generation += 1
        try:
            if self._devices:
                self._lease = self._lessor.lease(self._devices, self.num_ranks, self.discard)
            for rank, host in enumerate(hosts):
                self._members.append(launch(host, rank, f"rank {rank} of {self.num_ranks}"))
            self._join()
        except BaseException:
            self._end()
            raise

    def run(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        deadline: float | None = None,
        ranks: Sequence[int] | None = None,
        check_idle: bool = False,
        **kwargs: Any,
    ) -> list[T]:
        """Run `function(*args, **kwargs)` on these ranks (default all) at once.

        Returns the values in the order of `ranks`. Function, arguments and values travel by
        cloudpickle. Raises RankFailure, and TypeError if the call cannot be pickled. With
        `check_idle` it is a failure to leave something behind: a message or collective that others
        did not take part in or nobody waited for, a process group, another current or default
        device or default dtype.
        """
        ranks = range(self.num_ranks) if ranks is None else ranks
        self._check_ranks(ranks)
        message = pickled_function(function), pickled_arguments(*args, **kwargs)
        return self._run(ranks, [message] * len(ranks), deadline, check_idle)

    def run_each(
        self,
        function: Callable[..., T],
        arguments_by_rank: Sequence[tuple[Any, ...]],
        *,
        deadline: float | None = None,
    ) -> list[T]:
        """Run `function(*arguments_by_rank[rank])` on every rank at once; otherwise as `run`."""
        if len(arguments_by_rank) != self.num_ranks:
            raise ValueError(
                f"run_each takes one tuple of arguments for each of the {self.num_ranks} ranks, "
                f"not {len(arguments_by_rank)}"
            )
        work = pickled_function(function)
        messages = [(work, pickled_arguments(*args)) for args in arguments_by_rank]
        return self._run(range(self.num_ranks), messages, deadline)

    def discard(self) -> None:
        """End the ranks at once; the next call starts new ones."""
        self._end()

    def close(self) -> None:
        """End the ranks within a bounded time; a second call does nothing."""
        self._closed = True
        self._end(patience=_CLOSE_SECONDS)

    def __enter__(self) -> RankPool:
        """The pool itself, not started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the pool."""
        self.close()

    def _join(self) -> None:
        context = self._context(range(self.num_ranks))
        work = pickled_function(join)
        row, open_store = BACKENDS[self.backend], self._meeting()
        messages = []
        for member in self._members:
            index = self._lease.ids[member.rank] if self._lease else member.host.device_index
            arguments = pickled_arguments(
                member.rank,
                self.num_ranks,
                row,
                open_store,
                folder=member.folder,
                device_index=index,
                address=member.host.address,
            )
            messages.append((context, work, arguments))
        call(self._members, messages, START_SECONDS)

    def _context(self, ranks: Sequence[int]) -> bytes:
        """What a call runs in, with the environment unless these ranks have it already."""
        if launched_hosts():
            return pickled_context(self._seed)  # a launched process has an environment of its own
        environment = {**os.environ}
        environment.pop("PYTEST_CURRENT_TEST", None)  # it changes with every test
        if all(self._environments.get(rank) == environment for rank in ranks):
            return pickled_context(self._seed)
        self._environments.update(dict.fromkeys(ranks, environment))
        return pickled_context(self._seed, environment)

    def _meeting(self) -> Callable[[int], Store]:
        if launched_hosts():
            return partial(meet_at_launcher, secrets.token_hex(8))
        return partial(meet_in_file, str(self._members[0].folder / "meeting"))

    def _run(
        self,
        ranks: Sequence[int],
        calls: Sequence[Message],
        deadline: float | None,
        check_idle: bool = False,
    ) -> list[Any]:
        self.start()
        context = self._context(ranks)
        members = [self._members[rank] for rank in ranks]
        messages = [(context, *each) for each in calls]
        deadline = self.deadline if deadline is None else deadline
        try:
            return self._call(members, messages, deadline, check_idle)
        except RankFailure as failure:
            if not _is_harmless(failure, len(ranks)):
                self._end()
            raise
        except BaseException:
            self._end()
            raise

    def _call(
        self,
        members: Sequence[Member],
        messages: Sequence[Message],
        deadline: float,
        check_idle: bool,
    ) -> list[Any]:
        try:
            return call(members, messages, deadline, check_idle=check_idle)
        finally:
            self.printed = {member.rank: member.printed() for member in members}

    def _check_ranks(self, ranks: Sequence[int]) -> None:
        known = range(self.num_ranks)
        if len(set(ranks)) != len(ranks) or not set(ranks) <= set(known):
            raise ValueError(f"ranks must be different ones of {[*known]}, not {[*ranks]}")

    def _end(self, patience: float = 0.0) -> None:
        members, self._members = self._members, []
        self._environments.clear()
        end(members, patience)
        if self._lease is not None:
            self._lessor.give_back(self._lease)
            self._lease = None


def _is_harmless(failure: RankFailure, num_called: int) -> bool:
    """Whether all ranks stopped alike, and left nothing behind.

    An exception on some ranks only may leave the others' messages in the group.
    """
    errors = failure.failures.values()
    kinds = {error.kind for error in errors}
    left = any(error.left_behind for error in errors)
    return kinds == {"exception"} and len(errors) == num_called and not left
