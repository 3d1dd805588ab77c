"""Leases: of all sessions of a user on one machine, one at a time has a device.

A device has three locks, files in a folder of the user's. `lock` is held by the pool of which a
rank has the device. `turn` is held by the pool that is gathering devices: it takes the turns of
all devices that would do, in the order of their keys, before it takes any device, so that no two
pools ever hold what the other lacks. `wanted` is held by a pool that has its turn and must wait;
whoever has the device looks at it between tests. What a process holds is free when it has ended,
however it did.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_affine.ranks.backends import Device, listed
from pytest_affine.ranks.failures import RankSetupError

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["Lease", "Lessor", "lock_folder"]

KEEP_SECONDS = 2.0
"""How long a pool may keep devices that others want, so that not every test starts ranks anew."""

_QUIET_SECONDS = 0.2
_POLL_SECONDS = 0.05


class _Locks:
    """The locks of one kind that this process holds, by device; at the end of a block, none."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder = folder
        self._kind = kind
        self._held: dict[Device, BaseFileLock] = {}

    @property
    def devices(self) -> list[Device]:
        return [*self._held]

    def take(self, device: Device) -> bool:
        """Whether the lock is ours, be it only now."""
        from filelock import FileLock, Timeout

        if device in self._held:
            return True
        lock = FileLock(self._folder / f"{device.key}.{self._kind}", thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        self._held[device] = lock
        return True

    def release(self) -> None:
        while self._held:
            self._held.popitem()[1].release()

    def __enter__(self) -> _Locks:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class Lease:
    """Devices that are a pool's until it releases them.

    Attributes:
        ids: the devices' ids, one for each rank.
    """

    def __init__(self, folder: Path, locks: _Locks) -> None:
        self.ids = tuple(sorted(device.id for device in locks.devices))
        self._folder = folder
        self._locks = locks
        self._since = time.monotonic()
        for path in self._holder_paths():
            path.write_text(f"process {os.getpid()}")

    def is_due(self) -> bool:
        """Whether another pool wants a device of these, which have been kept for long enough."""
        if time.monotonic() - self._since < KEEP_SECONDS:
            return False
        with _Locks(self._folder, "wanted") as wanted:
            return not all(map(wanted.take, self._locks.devices))

    def release(self) -> None:
        """Let others have the devices; a second call does nothing."""
        for path in self._holder_paths():
            path.unlink(missing_ok=True)
        self._locks.release()

    def _holder_paths(self) -> list[Path]:
        return [_holder_path(self._folder, device) for device in self._locks.devices]


class Lessor:
    """Leases devices to the pools of one session.

    Args:
        seconds: how long a pool may wait for its devices.
        told: entered with what a pool waits for, and left when the wait has ended.
    """

    def __init__(
        self,
        seconds: float = 600.0,
        told: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._seconds = seconds
        self._told = told
        self._leases: dict[Lease, Callable[[], None]] = {}

    def lease(self, devices: Sequence[Device], number: int, give_up: Callable[[], None]) -> Lease:
        """So many of the devices, all at once; `give_up` ends the pool and returns its lease.

        Where too few are free, other pools of the session give up theirs; then it waits, and
        raises RankSetupError if that takes too long.
        """
        search = _Search(lock_folder(), devices, number)
        with search.turns, search.wanted:
            try:
                if not (search.succeeds() or self._make_room(search)):
                    self._wait(search)
                lease = Lease(search.folder, search.locks)
            except BaseException:
                search.locks.release()
                raise
        self._leases[lease] = give_up
        return lease

    def give_back(self, lease: Lease) -> None:
        """A pool's ranks have ended, and do without their devices."""
        lease.release()
        self._leases.pop(lease, None)

    def give_way(self) -> None:
        """End the pools of this session that have devices which others want."""
        for lease, give_up in [*self._leases.items()]:
            if lease.is_due():
                give_up()

    def _make_room(self, search: _Search) -> bool:
        for give_up in [*self._leases.values()]:
            give_up()
            if search.succeeds():
                return True
        return False

    def _wait(self, search: _Search) -> None:
        limit = time.monotonic() + self._seconds
        if search.goes_on(min(limit, time.monotonic() + _QUIET_SECONDS)):
            return
        with self._told(search.describe()):
            if not search.goes_on(limit):
                raise RankSetupError(
                    f"waited {self._seconds:g} s for {search.describe()}; choices: fewer ranks, "
                    "other ids in --affine-devices, a longer --affine-lease-timeout"
                )


class _Search:
    """One pool on its way to so many devices."""

    def __init__(self, folder: Path, devices: Sequence[Device], number: int) -> None:
        self.folder = folder
        self.turns = _Locks(folder, "turn")
        self.wanted = _Locks(folder, "wanted")
        self.locks = _Locks(folder, "lock")
        self._devices = devices
        self._number = number

    def succeeds(self) -> bool:
        """Whether it has so many now; it takes what is free, once it has its turn at all."""
        if not self._has_turn():
            return False
        for device in self._devices:
            if len(self.locks.devices) < self._number:
                self.locks.take(device)
        return len(self.locks.devices) == self._number

    def goes_on(self, limit: float) -> bool:
        """Whether it succeeds in time, as those who have the devices know that they are wanted."""
        while not self.succeeds():
            if time.monotonic() >= limit:
                return False
            if self._has_turn():
                for device in self._missing():
                    self.wanted.take(device)
            time.sleep(_POLL_SECONDS)
        return True

    def describe(self) -> str:
        """What is searched for, and who has it."""
        held: dict[str, list[int]] = {}
        for device in self._missing():
            if holder := _holder(self.folder, device):
                held.setdefault(holder, []).append(device.id)
        whose = "".join(f"; {holder} has {listed(ids)}" for holder, ids in held.items())
        return f"{self._number} of the devices {listed([d.id for d in self._devices])}{whose}"

    def _has_turn(self) -> bool:
        return all(map(self.turns.take, sorted(self._devices, key=lambda each: each.key)))

    def _missing(self) -> list[Device]:
        return [device for device in self._devices if device not in self.locks.devices]


def lock_folder() -> Path:
    """The folder of the locks, which all processes of this user have; made if it isn't there.

    Raises RankSetupError if others can write there.
    """
    path = Path(tempfile.gettempdir(), f"affine-devices-{os.getuid()}")
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        found = path.lstat()
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        if not private or found.st_uid != os.getuid():
            raise RankSetupError(
                f"{path}, for the locks of devices, must be a folder that is yours alone (mode "
                "0700); choices: remove it, another TMPDIR"
            ) from None
    return path


def _holder_path(folder: Path, device: Device) -> Path:
    return folder / f"{device.key}.holder"


def _holder(folder: Path, device: Device) -> str:
    """Who says that it has the device."""
    with suppress(FileNotFoundError):
        return _holder_path(folder, device).read_text()
    return ""
