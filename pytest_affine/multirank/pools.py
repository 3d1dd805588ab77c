"""How many ranks a test asks for, and the pool that it gets: one of each kind in a session."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pytest_affine.multirank.leasing import lessor_of
from pytest_affine.options import LEAST_TIMEOUT, MAX_RANKS, MOST_TIMEOUT, read_options
from pytest_affine.ranks import RankPool
from pytest_affine.ranks.processes import PRELOADED

__all__ = ["MARKER", "Request", "pool_for", "read_request"]

MARKER = "affine_ranks"

_POOLS = pytest.StashKey[dict[tuple[int, str], RankPool]]()

PRELOADED.append("pytest_affine.multirank.stage")


@dataclass(frozen=True, slots=True)
class Request:
    """What a test asks for: so many ranks, and seconds that a call may take in them."""

    num_ranks: int
    timeout: float


def read_request(item: pytest.Item) -> Request:
    """What the item's marker says, and the session's options where it says nothing.

    Raises pytest.UsageError for a marker or an option that says what can't be.
    """
    options = read_options(item.config)
    marker = item.get_closest_marker(MARKER)
    num_ranks, timeout = (None, None) if marker is None else _read_marker(marker)
    return Request(
        options.num_ranks if num_ranks is None else num_ranks,
        options.timeout if timeout is None else timeout,
    )


def pool_for(request: Request, config: pytest.Config) -> RankPool:
    """The session's pool of so many ranks; they start with its first call and end with pytest.

    Raises RankSetupError if the machine can't have them.
    """
    options = read_options(config)
    if _POOLS not in config.stash:
        config.stash[_POOLS] = {}
        config.add_cleanup(lambda: _close(config))
    pools = config.stash[_POOLS]
    kind = request.num_ranks, options.backend
    if kind not in pools:
        pools[kind] = RankPool(
            request.num_ranks,
            backend=options.backend,
            seed=options.seed,
            device_ids=options.device_ids,
            lessor=lessor_of(config),
        )
    return pools[kind]


def _close(config: pytest.Config) -> None:
    for pool in config.stash[_POOLS].values():
        pool.close()


def _read_marker(marker: pytest.Mark) -> tuple[int | None, float | None]:
    arguments = {**dict(zip(("n",), marker.args, strict=False)), **marker.kwargs}
    if len(marker.args) > 1 or len(arguments) < len(marker.args) + len(marker.kwargs):
        raise _wrong(marker, "it takes one number of ranks")
    if unknown := [name for name in arguments if name not in ("n", "timeout")]:
        raise _wrong(marker, f"unknown argument {unknown[0]!r}; choices: n, timeout")
    n, timeout = arguments.get("n"), arguments.get("timeout")
    if n is not None and (type(n) is not int or not 1 <= n <= MAX_RANKS):
        rule = f"the number of ranks must be an integer from 1 to {MAX_RANKS}"
        raise _wrong(marker, f"{rule}, got {n!r}")
    if timeout is not None and not (
        type(timeout) in (int, float) and LEAST_TIMEOUT <= timeout <= MOST_TIMEOUT
    ):
        rule = f"timeout must be a number from {LEAST_TIMEOUT} to {MOST_TIMEOUT}, in seconds"
        raise _wrong(marker, f"{rule}, got {timeout!r}")
    return n, timeout


def _wrong(marker: pytest.Mark, rule: str) -> pytest.UsageError:
    given = [*map(repr, marker.args), *(f"{name}={it!r}" for name, it in marker.kwargs.items())]
    return pytest.UsageError(f"@pytest.mark.{MARKER}({', '.join(given)}): {rule}")
