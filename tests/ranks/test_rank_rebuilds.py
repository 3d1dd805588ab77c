"""Ranks started again and again in one session."""

import gc
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from marks import long

from pytest_affine.ranks import RankFailure, RankPool, shutdown

WARM_UP = 50
"""Rebuilds before the first look: what grows only once has grown by then."""

SLACK_BYTES = 2**20


def _children(pid: int) -> int:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(len((task / "children").read_text().split()) for task in tasks)


def _resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary folder of a fork server of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shutdown()
    yield tmp_path
    shutdown()


@pytest.mark.parametrize("num_rebuilds", [200, *long(1000)])
def test_many_rebuilds_leave_the_controller_as_it_was(folder: Path, num_rebuilds: int) -> None:
    def look() -> tuple[list[int], int]:
        # A server that has started a rank has let go of the one before it.
        assert pool.run(os.getppid) == [server]
        numbers = [
            len(os.listdir("/proc/self/fd")),
            len(os.listdir(f"/proc/{server}/fd")),
            _children(os.getpid()),
            _children(server),
            threading.active_count(),
            len([*folder.rglob("*")]),
        ]
        return numbers, _resident_bytes()

    with RankPool(1) as pool:
        (server,) = pool.run(os.getppid)
        for number in range(num_rebuilds):
            with pytest.raises(RankFailure, match="exited with status 1"):
                pool.run(os._exit, 1)
            if number == WARM_UP:
                before, bytes_before = look()
        assert pool.generation == num_rebuilds
        after, bytes_after = look()
    assert after == before
    assert bytes_after < bytes_before + SLACK_BYTES
