"""Functions run in a fresh interpreter, where shows what a fork server hides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pytest_affine.ranks.calls import run_alone

T = TypeVar("T")

_LAST_SEED = 2**32 - 1


def spawn(function: Callable[..., T], /, *args: Any, hash_seed: int, deadline: float = 30.0) -> T:
    """Run `function(*args)` in a new interpreter with PYTHONHASHSEED set; return its value.

    Only what the function needs is imported there. Raises RankFailure with the one rank 0, which
    it calls "interpreter with PYTHONHASHSEED=0". The controller calls it.
    """
    if not 0 <= hash_seed <= _LAST_SEED:
        raise ValueError(f"hash_seed must be from 0 to {_LAST_SEED}, not {hash_seed}")
    name = f"interpreter with PYTHONHASHSEED={hash_seed}"
    return run_alone(function, *args, name=name, deadline=deadline, hash_seed=hash_seed)
