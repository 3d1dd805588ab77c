"""The controller's side of the contract: a stand-in that runs each call in a rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_affine.contract import resident
from pytest_affine.contract.discovery import DiscoveryError
from pytest_affine.contract.implementation import METHODS, Implementation
from pytest_affine.contract.outcomes import AdapterFault, Death, ImplementationFault, Withheld
from pytest_affine.contract.resident import Facts, Origin, read_facts
from pytest_affine.contract.returns import WrongReturnError
from pytest_affine.errors import AffineTransferError
from pytest_affine.mutants.compose import FaultError
from pytest_affine.ranks import RankFailure, RankPool, spawn
from pytest_affine.sync import Sync

__all__ = ["IMPORT_DEADLINE", "ImplementationProxy", "facts_of"]

IMPORT_DEADLINE = 120.0
"""Seconds that importing an implementation may take."""


def facts_of(name: str, search_path: Sequence[str]) -> Facts:
    """What the implementation called `name` claims; read in an interpreter of its own.

    Raises:
        DiscoveryError: there is no such implementation, or it can't be imported.
    """
    try:
        return spawn(read_facts, name, search_path, hash_seed=0, deadline=IMPORT_DEADLINE)
    except RankFailure as failure:
        known = isinstance(failure.cause.exception, DiscoveryError)
        text = str(failure.cause.exception) if known else f"implementation {name!r}: {failure}"
        raise DiscoveryError(text) from None


class ImplementationProxy(Implementation):
    """An implementation that lives in ranks, called from the controller.

    Every method of the contract is called on rank 0 under the pool's deadline. A refusal comes
    back as the `AffineTransferError` that was raised there.

    Args:
        pool: its ranks.
        name: its name, as `--affine-certify` takes it.
        facts: what `read_facts` says of it.
        search_path: folders to look in for modules, after those already known.
        fault: `module:class` of the fault that a mutant lays over it.
        own_files: files whose exceptions are the adapter's own; those of its facts if None.

    Raises (from any call):
        AffineTransferError: the implementation refused, on every rank that was asked.
        AdapterFault: the adapter's own file raised, or returned a wrong type.
        ImplementationFault: anything else was raised.
        Death: a rank died or ran past its deadline.
    """

    def __init__(
        self,
        pool: RankPool,
        name: str,
        facts: Facts,
        search_path: Sequence[str] = (),
        *,
        fault: str | None = None,
        own_files: Sequence[str] | None = None,
    ) -> None:
        self.pool = pool
        self.name = name
        self.claims: Mapping[str, Sequence[str]] = facts["claims"]
        self.deaths: Counter[str] = Counter()
        self.latest_death = ""
        self._facts = facts
        self._origin = Origin(name, tuple(search_path), fault)
        self._own_files = (facts["file"],) if own_files is None else own_files
        self._generation: int | None = None
        self._has_communicated = False

    @property
    def num_ranks(self) -> int:
        """Size of the transport group."""
        return self.pool.num_ranks

    def run(self, function: Callable[..., Any], *args: Any, method: str) -> Any:
        """Return `function(implementation, *args)` as run in rank 0; `method` is what it calls."""
        return self._run(function, args, method, ranks=[0])[0]

    def run_on_every_rank(self, function: Callable[..., Any], *args: Any, method: str) -> list[Any]:
        """Return `function(implementation, *args)` as run on every rank, by rank."""
        self._has_communicated = True
        return self._run(function, args, method, ranks=None)

    def run_in_fresh_interpreter(
        self, function: Callable[..., Any], *args: Any, hash_seed: int, method: str
    ) -> Any:
        """Return `function(implementation, *args)` as run under a given string-hash seed."""
        try:
            return spawn(
                resident.call_in_fresh_interpreter,
                self._origin,
                function,
                args,
                hash_seed=hash_seed,
                deadline=2 * self.pool.deadline,
            )
        except RankFailure as failure:
            raise self._translated(failure, method, num_asked=1) from None

    def withheld_reason(self, sync: Sync) -> str | None:
        """Why the adapter withholds this sync, or None."""
        if not self._facts["withholds"]:
            return None
        reason: str | None = self.run(resident.withheld_reason, sync, method="supports")
        return reason

    def require_support(self, sync: Sync | None) -> None:
        """Raise `Withheld` with the adapter's reason if it withholds this sync."""
        if sync is not None and (reason := self.withheld_reason(sync)) is not None:
            raise Withheld(reason)

    def discard_ranks(self) -> None:
        """End ranks that may hold each other's messages; the next call starts new ones.

        Does nothing where they never ran a function together.
        """
        if self._has_communicated:
            self.pool.discard()
            self._has_communicated = False

    def close(self) -> None:
        """Stop the implementation on every rank, where it was started."""
        if self.pool.is_running and self.pool.generation == self._generation:
            self.pool.run(resident.stop_resident, self._origin)

    def _run(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        method: str,
        ranks: Sequence[int] | None,
    ) -> list[Any]:
        self._start()
        try:
            return self.pool.run(resident.call_resident, self._origin, function, args, ranks=ranks)
        except RankFailure as failure:
            num_asked = self.num_ranks if ranks is None else len(ranks)
            raise self._translated(failure, method, num_asked) from None

    def _start(self) -> None:
        """Start the implementation on every rank of a pool that was built or rebuilt."""
        self.pool.start()
        if self.pool.generation == self._generation:
            return
        try:
            self.pool.run(resident.start_resident, self._origin)
        except RankFailure as failure:
            self.pool.discard()
            raise self._fault(failure, "start") from None
        self._generation = self.pool.generation

    def _translated(self, failure: RankFailure, method: str, num_asked: int) -> BaseException:
        raised = [error.exception for error in failure.failures.values()]
        refusals = [error for error in raised if isinstance(error, AffineTransferError)]
        return refusals[0] if len(refusals) == num_asked else self._fault(failure, method)

    def _fault(self, failure: RankFailure, method: str) -> BaseException:
        if failure.cause.kind in ("deadline", "signal", "exit", "lost"):
            self.deaths[method] += 1
            self.latest_death = failure.cause.kind
            return Death(str(failure), failure.missing)
        if failure.cause.innermost_file in self._own_files:
            return AdapterFault(str(failure))
        if isinstance(failure.cause.exception, (WrongReturnError, FaultError)):
            return AdapterFault(str(failure))
        return ImplementationFault(str(failure))


def _remote(method: str) -> Callable[..., Any]:
    def call(self: ImplementationProxy, *args: Any, **options: Any) -> Any:
        return self.run(resident.call_method, method, args, options, method=method)

    call.__name__ = method
    call.__doc__ = getattr(Implementation, method).__doc__
    return call


for _method in METHODS:
    setattr(ImplementationProxy, _method, _remote(_method))
