"""Leases of devices: who has one has it alone, and it is free again whatever becomes of him."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from pytest_affine.ranks import RankFailure, RankPool, RankSetupError, device, device_id, leases
from pytest_affine.ranks.backends import Device
from pytest_affine.ranks.hosts import Host
from pytest_affine.ranks.leases import Lease, Lessor, lock_folder
from pytest_affine.ranks.members import Member, launch

FOUR = [Device(index, f"cpu-{index}") for index in range(4)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the locks, which nobody else has."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"affine-devices-{os.getuid()}"


def _stay() -> None:
    """A pool that never gives up its devices."""


def _take(number: int, devices: Sequence[Device] = FOUR, seconds: float = 0.0) -> Lease:
    return Lessor(seconds).lease(devices, number, _stay)


def _free_ids(devices: Sequence[Device] = FOUR) -> list[int]:
    free = []
    for each in devices:
        with suppress(RankSetupError):
            _take(1, [each]).release()
            free.append(each.id)
    return free


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _wait_until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


@contextmanager
def _waiting(number: int, devices: Sequence[Device] = FOUR) -> Iterator[list[Lease]]:
    """A pool in another thread that has begun to wait; what it has leased at the end."""
    begun, got = threading.Event(), list[Lease]()

    @contextmanager
    def told(text: str) -> Iterator[None]:
        begun.set()
        yield

    thread = threading.Thread(
        target=lambda: got.append(Lessor(20.0, told).lease(devices, number, _stay))
    )
    thread.start()
    assert begun.wait(10)
    yield got
    thread.join(20)
    got[0].release()


def test_no_two_pools_have_the_same_device() -> None:
    one, other = _take(2), _take(2)
    assert one.ids == (0, 1)
    assert other.ids == (2, 3)
    assert _free_ids() == []


def test_a_pool_that_does_not_get_all_its_devices_keeps_none() -> None:
    _held = _take(2)
    with pytest.raises(RankSetupError) as _caught:  # and with it what the pool had
        _take(3)
    assert _free_ids() == [2, 3]


def test_a_wait_that_takes_too_long_names_the_devices_who_has_them_and_the_choices() -> None:
    _held = _take(1), _take(1)
    me = f"process {os.getpid()}"
    text = (
        f"waited 0.3 s for 3 of the devices 0, 1, 2, 3; {me} has 0, 1; choices: fewer ranks, "
        "other ids in --affine-devices, a longer --affine-lease-timeout"
    )
    started = time.monotonic()
    with pytest.raises(RankSetupError, match=f"^{re.escape(text)}$"):
        _take(3, seconds=0.3)
    assert time.monotonic() - started >= 0.3


def test_a_wait_is_told_and_ends_when_the_devices_are_given_back() -> None:
    held, told = _take(3), list[str]()

    @contextmanager
    def tell(text: str) -> Iterator[None]:
        told.append(text)
        held.release()
        yield
        told.append("ended")

    assert Lessor(20.0, tell).lease(FOUR, 2, _stay).ids == (0, 3)
    me = f"process {os.getpid()}"
    assert told == [f"2 of the devices 0, 1, 2, 3; {me} has 0, 1, 2", "ended"]


def test_what_is_there_at_once_is_not_told() -> None:
    Lessor(20.0, _interrupt).lease(FOUR, 4, _stay)  # type: ignore[arg-type]


def test_the_same_device_is_the_same_under_another_id() -> None:
    """As CUDA_VISIBLE_DEVICES has it."""
    _held = _take(1, [Device(0, "card b")])
    with pytest.raises(RankSetupError, match=r"for 1 of the devices 1; process \d+ has 1;"):
        _take(1, [Device(1, "card b")])


def _lease_in_threads(orders: Sequence[Sequence[Device]], then: Callable[[], None]) -> int:
    """How many pools get all devices, asking in these orders, of which `then` frees the last."""
    done = list[int]()

    def work(devices: Sequence[Device]) -> None:
        _take(len(devices), devices, seconds=4.0).release()
        done.append(1)

    threads = [threading.Thread(target=work, args=(each,)) for each in orders]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    then()
    for thread in threads:
        thread.join()
    return len(done)


def test_no_pool_waits_with_what_another_lacks() -> None:
    """The first one has device 0 before device 1 is free, and chance decides who asks next."""
    for _ in range(8):
        held = _take(1, FOUR[1:2])
        assert _lease_in_threads([FOUR[:2], FOUR[:2]], held.release) == 2


def test_pools_take_their_turns_in_the_same_order() -> None:
    turn = FileLock(lock_folder() / "cpu-1.turn", thread_local=False)
    turn.acquire()
    assert _lease_in_threads([FOUR, FOUR[::-1]], turn.release) == 2


def test_devices_are_due_when_others_want_them_and_they_were_kept_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, apart = _take(2), _take(1, [Device(9, "cpu-9")])
    monkeypatch.setattr(leases, "KEEP_SECONDS", 0.0)
    assert not held.is_due()
    with _waiting(3) as got:
        _wait_until(held.is_due)
        assert not got
        assert not apart.is_due()
        monkeypatch.setattr(leases, "KEEP_SECONDS", 60.0)
        assert not held.is_due()
        held.release()
    assert _free_ids() == [0, 1, 2, 3]


def test_a_pool_gives_way_between_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "KEEP_SECONDS", 0.0)
    lessor = Lessor()
    with RankPool(2, device_ids=[0, 1], lessor=lessor) as pool:
        pids = pool.run(os.getpid)
        lessor.give_way()
        assert pool.run(os.getpid) == pids
        with _waiting(1, FOUR[:2]) as got:

            def given() -> list[Lease]:
                lessor.give_way()
                return got

            _wait_until(given)
            assert not any(map(_is_running, pids))
        assert pool.run(device_id) == [0, 1]
        assert pool.generation == 2


def test_pools_of_one_session_give_up_what_another_of_them_needs_and_no_more() -> None:
    ids, lessor = [0, 1, 2, 3], Lessor(0.0)
    with (
        RankPool(1, device_ids=ids, lessor=lessor) as one,
        RankPool(2, device_ids=ids, lessor=lessor) as two,
        RankPool(4, device_ids=ids, lessor=lessor) as four,
    ):
        assert one.run(device_id) == [0]
        assert two.run(device_id) == [1, 2]
        with RankPool(2, device_ids=ids, lessor=lessor) as three:
            assert three.run(device_id) == [0, 3]
            assert not one.is_running
            assert two.is_running
            assert four.run(device_id) == ids
            assert not two.is_running
            assert not three.is_running


def test_each_rank_knows_the_id_that_it_has() -> None:
    with RankPool(2, device_ids=[7, 3]) as pool:
        assert pool.run(device_id) == [3, 7]
        assert pool.run(device) == [torch.device("cpu")] * 2


def test_without_ids_gloo_leases_nothing(folder: Path) -> None:
    with RankPool(2) as pool:
        assert pool.run(device_id) == [None, None]
    assert not folder.exists()


def test_outside_ranks_there_is_no_device_id() -> None:
    with pytest.raises(RuntimeError, match=r"device_id\(\) was called outside ranks"):
        device_id()


def _interrupt(*args: object, **kwargs: object) -> None:
    raise KeyboardInterrupt


def _use(pool: RankPool) -> None:
    pool.run(abs, -1)


def _end_by_death(pool: RankPool, patch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RankFailure, match="exited with status 3"):
        pool.run(os._exit, 3)


def _end_by_close(pool: RankPool, patch: pytest.MonkeyPatch) -> None:
    _use(pool)
    pool.close()


def _end_by_discard(pool: RankPool, patch: pytest.MonkeyPatch) -> None:
    _use(pool)
    pool.discard()


def _end_by_failing_start(pool: RankPool, patch: pytest.MonkeyPatch) -> None:
    launch = sys.modules["pytest_affine.ranks.pool"].launch

    def launch_one(host: Host, rank: int, name: str) -> object:
        if rank:
            raise RankSetupError("no more ranks")
        return launch(host, rank, name)

    patch.setattr("pytest_affine.ranks.pool.launch", launch_one)
    with pytest.raises(RankSetupError, match="no more ranks"):
        pool.start()


def _end_by_interrupted_start(pool: RankPool, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("pytest_affine.ranks.pool.call", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        pool.start()


def _end_by_interrupted_call(pool: RankPool, patch: pytest.MonkeyPatch) -> None:
    _use(pool)
    patch.setattr("pytest_affine.ranks.pool.call", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        _use(pool)


@pytest.mark.parametrize(
    "end",
    [
        _end_by_close,
        _end_by_death,
        _end_by_discard,
        _end_by_failing_start,
        _end_by_interrupted_call,
        _end_by_interrupted_start,
    ],
)
def test_a_pool_has_its_devices_until_its_ranks_have_ended_however_they_do(
    end: Callable[[RankPool, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    members, ended = list[Member](), list[bool]()
    give_back = Lessor.give_back

    def keep(host: Host, rank: int, name: str) -> Member:
        members.append(launch(host, rank, name))
        return members[-1]

    def look(lessor: Lessor, lease: Lease) -> None:
        assert _free_ids() == [2, 3]
        ended.extend(member.process.ended for member in members)
        give_back(lessor, lease)

    monkeypatch.setattr("pytest_affine.ranks.pool.launch", keep)
    monkeypatch.setattr(Lessor, "give_back", look)
    with RankPool(2, device_ids=[0, 1]) as pool:
        end(pool, monkeypatch)
        assert ended == [True] * len(members)
        assert members
        assert _free_ids() == [0, 1, 2, 3]


def test_a_wait_that_is_interrupted_leaves_nothing_taken() -> None:
    held = _take(1)
    with pytest.raises(KeyboardInterrupt):
        Lessor(20.0, _interrupt).lease(FOUR, 4, _stay)  # type: ignore[arg-type]
    held.release()
    assert _take(4, seconds=0.0).ids == (0, 1, 2, 3)


_HOLDER = """
import os, time
from pytest_affine.ranks import RankPool

if __name__ == "__main__":
    pool = RankPool(2, device_ids=[0, 1])
    print(*pool.run(os.getpid), pool.run(os.getppid)[0], flush=True)
    {then}
    time.sleep(60)
"""


FORK = "os.fork() or (time.sleep(8), os._exit(0))"


@contextmanager
def _holder(folder: Path, then: str = "") -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Another process that has two devices; and the ids of its ranks and server."""
    script = folder / "holder.py"
    script.write_text(_HOLDER.format(then=then))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)}
    holder = subprocess.Popen(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        yield holder, [int(word) for word in holder.stdout.readline().split()]
        holder.kill()


def test_no_process_but_the_holder_has_the_locks_open(tmp_path: Path) -> None:
    with _holder(tmp_path) as (holder, pids):
        assert len(pids) == 3
        for pid in (holder.pid, *pids):
            folder = Path(f"/proc/{pid}/fd")
            names = [os.readlink(folder / name) for name in os.listdir(folder)]
            num_locks = sum(name.endswith(".lock") for name in names)
            assert num_locks == (2 if pid == holder.pid else 0)


@pytest.mark.parametrize("then", ["", "pool.run(time.sleep, 60)", FORK])
def test_a_lease_of_a_killed_process_is_free_again_and_its_ranks_are_gone(
    tmp_path: Path, then: str
) -> None:
    with _holder(tmp_path, then) as (holder, pids):
        with pytest.raises(RankSetupError, match=rf"process {holder.pid} has 0, 1;"):
            _take(3)
        holder.kill()
        holder.wait()
        with RankPool(4, device_ids=range(4), lessor=Lessor(5.0)) as pool:
            assert pool.run(device_id) == [0, 1, 2, 3]
        _wait_until(lambda: not any(map(_is_running, pids)))


def test_the_folder_of_the_locks_is_the_users_alone(folder: Path) -> None:
    assert lock_folder() == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert lock_folder() == folder


def _open_to_others(folder: Path, patch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    folder.chmod(0o750)


def _a_link(folder: Path, patch: pytest.MonkeyPatch) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to("elsewhere")


def _a_file(folder: Path, patch: pytest.MonkeyPatch) -> None:
    folder.touch(mode=0o600)


def _somebody_elses(folder: Path, patch: pytest.MonkeyPatch) -> None:
    me = os.getuid()
    folder.with_name(f"affine-devices-{me + 1}").mkdir(mode=0o700)
    patch.setattr(os, "getuid", lambda: me + 1)


@pytest.mark.parametrize("make", [_open_to_others, _a_link, _a_file, _somebody_elses])
def test_a_folder_in_which_others_could_write_is_refused(
    make: Callable[[Path, pytest.MonkeyPatch], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(folder, monkeypatch)
    text = r"affine-devices-\d+, for the locks of devices, must be a folder that is yours alone "
    with pytest.raises(RankSetupError, match=text + r"\(mode 0700\); choices: remove it, another"):
        _take(1)
