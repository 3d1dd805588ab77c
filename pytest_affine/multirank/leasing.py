"""The leases of a session: who waits for devices is told at once, and in the summary."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_affine.ranks import Lessor

__all__ = ["attach_waits", "give_way", "lessor_of", "wait_lines"]

PROPERTY = "affine_devices"
"""Name of the property of a test's reports that tells of a wait."""

_MAX_LINES = 10
_LESSOR = pytest.StashKey["Lessor"]()
_WAITS = pytest.StashKey[list[str]]()


def lessor_of(config: pytest.Config) -> Lessor:
    """Who leases devices to the pools of the session."""
    from pytest_affine.options import read_options
    from pytest_affine.ranks import Lessor

    if _LESSOR not in config.stash:
        config.stash[_WAITS] = []
        seconds = read_options(config).lease_timeout
        config.stash[_LESSOR] = Lessor(seconds, partial(_told, config))
    return config.stash[_LESSOR]


def give_way(config: pytest.Config) -> None:
    """Between tests: give up devices that others want."""
    if _LESSOR in config.stash:
        config.stash[_LESSOR].give_way()


def attach_waits(item: pytest.Item) -> None:
    """Have the item's reports tell of the waits since the last call."""
    waits = item.config.stash.get(_WAITS, [])
    item.user_properties += [(PROPERTY, text) for text in waits]
    waits.clear()


def wait_lines(reports: Iterator[object]) -> Iterator[str]:
    """What tests waited for, as lines; nothing if none did."""
    lines = [
        f"{report.nodeid} {text}"
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "teardown"
        for name, text in report.user_properties
        if name == PROPERTY
    ]
    yield from lines[:_MAX_LINES]
    if len(lines) > _MAX_LINES:
        yield f"and {len(lines) - _MAX_LINES} more"


@contextlib.contextmanager
def _told(config: pytest.Config, text: str) -> Iterator[None]:
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        # What a worker of xdist prints here is seen at once; on stdout it never is.
        print(f"\naffine: waits for {text}", file=sys.stderr, flush=True)
    started = time.monotonic()
    try:
        yield
    finally:
        config.stash[_WAITS].append(f"waited {time.monotonic() - started:.1f} s for {text}")
