"""A pool of ranks, kept between calls and rebuilt after a failure that may have left traces."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pytest_affine.ranks.backends import BACKENDS, check_backend
from pytest_affine.ranks.calls import (
    call,
    new_folder,
    pickled_arguments,
    pickled_context,
    pickled_function,
)
from pytest_affine.ranks.channel import Message
from pytest_affine.ranks.failures import RankFailure
from pytest_affine.ranks.members import Member, end, launch
from pytest_affine.ranks.processes import START_SECONDS, ForkServer, fork_server
from pytest_affine.ranks.worker import join

T = TypeVar("T")

_CLOSE_SECONDS = 1.0


class RankPool:
    """So many rank processes with one initialised default process group, kept between calls.

    They start with the first call, or with `start`. In a call random, numpy (where imported) and
    torch are seeded with `seed` plus the rank. The controller calls all methods, from one thread.

    Attributes:
        num_ranks: size of the process group.
        backend: its backend.
        deadline: seconds that a call may take unless it says otherwise.
        generation: how often the ranks were started; what lives in them is gone when it changes.
        printed: the end of what each rank of the latest call printed in it.
    """

    def __init__(
        self, num_ranks: int, *, backend: str = "gloo", deadline: float = 30.0, seed: int = 0
    ) -> None:
        check_backend(backend, num_ranks)
        self.num_ranks = num_ranks
        self.backend = backend
        self.deadline = deadline
        self.generation = 0
        self.printed: dict[int, str] = {}
        self._seed = seed
        self._server: ForkServer | None = None
        self._members: list[Member] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._closed = False

    @property
    def is_running(self) -> bool:
        """Whether there are ranks, which the next call would find."""
        return bool(self._members)

    def start(self) -> None:
        """Start the ranks unless they run; ranks that went with their server are replaced.

        Raises RankSetupError, or RankFailure from a rank.
        """
        if self._closed:
            raise RuntimeError("this pool of ranks is closed")
        server = fork_server()
        if self._members and self._server is server:
            return
        self._end()
        self._server = server
        self.generation += 1
        self._folder = new_folder()
        folder = Path(self._folder.name)
        try:
            for rank in range(self.num_ranks):
                self._members.append(launch(rank, f"rank {rank} of {self.num_ranks}", folder))
            self._join(folder / "store")
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

    def _join(self, store: Path) -> None:
        context = pickled_context(self._seed, os.environ)
        work = pickled_function(join)
        row = BACKENDS[self.backend]
        messages = [
            (context, work, pickled_arguments(rank, self.num_ranks, row, str(store)))
            for rank in range(self.num_ranks)
        ]
        call(self._members, messages, START_SECONDS)

    def _run(
        self,
        ranks: Sequence[int],
        calls: Sequence[Message],
        deadline: float | None,
        check_idle: bool = False,
    ) -> list[Any]:
        self.start()
        context = pickled_context(self._seed)
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
        end(members, patience)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _is_harmless(failure: RankFailure, num_called: int) -> bool:
    """Whether all ranks stopped alike, and left nothing behind.

    An exception on some ranks only may leave the others' messages in the group.
    """
    errors = failure.failures.values()
    kinds = {error.kind for error in errors}
    left = any(error.left_behind for error in errors)
    return kinds == {"exception"} and len(errors) == num_called and not left
