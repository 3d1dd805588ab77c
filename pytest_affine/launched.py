"""pytest under torchrun and its like: one session for all launched processes.

The process of rank 0 runs the session. The others collect nothing and print nothing: each keeps its
rank, and ends with the exit status of the session.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_affine.plugin import is_used

if TYPE_CHECKING:
    from pytest_affine.ranks.joining import Launch

__all__: list[str] = []

_GRACE_SECONDS = 1.0

CHOICES = ("auto", "join", "ignore")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("affine")
    group.addoption(
        "--affine-launcher",
        choices=CHOICES,
        help="what to do if torchrun or its like has started this process: join the others in one "
        "session, ignore that, or auto: join if another --affine option was given (default: auto)",
    )
    parser.addini("affine_launcher", "default of --affine-launcher", default="auto")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int, int]:
    """Join the launcher that has started this process, where that is wanted."""
    launch = _launch(config)
    if launch is None:
        return (yield)
    is_spread = getattr(config.option, "numprocesses", None) or getattr(config.option, "tx", None)
    if launch.rank > 0:
        sys.exit(pytest.ExitCode.USAGE_ERROR if is_spread else _follow(launch))
    if is_spread:
        raise pytest.UsageError(
            f"a session that has joined {launch.world_size} launched processes can't be spread "
            "over workers of pytest-xdist; choices: no -n, --affine-launcher=ignore"
        )
    from pytest_affine.ranks import RankSetupError
    from pytest_affine.ranks.joining import lead

    with contextlib.ExitStack() as stack:
        try:
            finish = stack.enter_context(lead(launch))
        except RankSetupError as error:
            raise pytest.UsageError(str(error)) from None
        try:
            status = yield
        except BaseException as error:
            wrong_use = isinstance(error, pytest.UsageError)
            finish(pytest.ExitCode.USAGE_ERROR if wrong_use else pytest.ExitCode.INTERNAL_ERROR)
            raise
        finish(status)
    return status


def pytest_report_header() -> str | None:
    """Say what was joined."""
    hosts = sys.modules.get("pytest_affine.ranks.hosts")
    launched = hosts.launched_hosts() if hosts else ()
    if not launched:
        return None
    num_nodes = len({host.node for host in launched})
    nodes = f"{num_nodes} node{'s' * (num_nodes > 1)}"
    return f"affine: one session for {len(launched)} launched processes on {nodes}"


def _launch(config: pytest.Config) -> Launch | None:
    """What a launcher has told this process, if the session is to join it."""
    choice = config.getoption("affine_launcher") or config.getini("affine_launcher")
    if choice not in CHOICES:
        raise pytest.UsageError(
            f"the ini option affine_launcher must be one of {', '.join(CHOICES)}, got {choice!r}"
        )
    is_wanted = choice == "join" or (choice == "auto" and is_used(config))
    if not is_wanted or "RANK" not in os.environ or hasattr(config, "workerinput"):
        return None
    from pytest_affine.ranks import RankSetupError
    from pytest_affine.ranks.joining import read_launch

    try:
        return read_launch(os.environ)
    except RankSetupError as error:
        raise pytest.UsageError(str(error)) from None


def _follow(launch: Launch) -> int:
    """Keep the rank of this process; the exit status, once all is over."""
    from pytest_affine.ranks import RankSetupError
    from pytest_affine.ranks.joining import follow

    status: int | None = pytest.ExitCode.INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):
        try:
            status = follow(launch)
            trouble = "the controller, which is the process of rank 0, has ended without a status"
        except RankSetupError as error:
            status, trouble = None, str(error)
    if status:
        # A launcher blames the first process that fails: that is to be the controller.
        time.sleep(_GRACE_SECONDS)
    if status is None:
        print(f"pytest-affine: launched process of rank {launch.rank}: {trouble}", file=sys.stderr)
        status = pytest.ExitCode.TESTS_FAILED
    return status
