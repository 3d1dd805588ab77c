"""Whether a call creates tensors or communicates; torch is imported only in ranks.

Most tensors come into being by an operation of torch, which its profiler records with all
allocations, also where no Python function of torch was called. Those made over memory that is there
already are no operation: they are seen as calls of torch's builtin functions, in threads that the
call starts too, as are all other functions that give tensors. The tap sees what is communicated,
in any thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from pytest_affine.contract.resident import Resident

__all__ = ["impurities"]

MAX_SHOWN = 5


def impurities(resident: Resident, call: Callable[[Resident], object]) -> list[str]:
    """What a call did that a pure one doesn't, the first few things. Called on one rank."""
    from torch.autograd.profiler import profile

    from pytest_affine.ranks import tap

    called: list[str] = []
    mark = tap.mark()
    with profile(profile_memory=True) as profiler, _Builtins(called):
        call(resident)
    assert profiler.kineto_results is not None
    operations = [event.name() for event in profiler.kineto_results.events()]
    found = [str(event) for event in tap.events_since(mark)] + called + operations
    return [*dict.fromkeys(found)][:MAX_SHOWN]


class _Builtins:
    """Notes the calls of torch's builtin functions that give tensors, in this and new threads."""

    def __init__(self, called: list[str]) -> None:
        self._called = called

    def __enter__(self) -> None:
        self._before = sys.getprofile(), threading.getprofile()
        threading.setprofile(self._look)
        sys.setprofile(self._look)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before[0])
        threading.setprofile(self._before[1])

    def _look(self, frame: FrameType, event: str, builtin: Any) -> None:
        if event != "c_call":
            return
        owner, _, name = builtin.__qualname__.rpartition(".")
        gives = owner == "_VariableFunctionsClass" and name not in OF_DTYPES
        if gives or name == "_from_dlpack":
            self._called.append(f"torch's {name}")


OF_DTYPES = ("can_cast", "promote_types", "result_type")
"""Functions that look at dtypes."""
