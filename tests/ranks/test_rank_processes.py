"""Ranks and their fork server as processes: they start, end, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from pytest_affine.ranks import RankFailure, RankPool, RankSetupError, processes, shutdown


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _assert_gone(pids: Iterable[int], seconds: float) -> None:
    limit = time.monotonic() + seconds
    left = [pid for pid in pids if _is_running(pid)]
    while left and time.monotonic() < limit:
        time.sleep(0.02)
        left = [pid for pid in left if _is_running(pid)]
    assert not left


def _num_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_ranks_start_with_the_first_call_or_when_told() -> None:
    with RankPool(2) as pool:
        folder = processes.fork_server().folder
        before = {*folder.iterdir()}
        assert pool.run(abs, -1) == [1, 1]
        with RankPool(1) as other:
            other.start()
            assert len({*folder.iterdir()} - before) == 3  # a folder for each rank


def test_close_ends_all_ranks_and_can_be_repeated() -> None:
    pool = RankPool(3)
    pids = pool.run(os.getpid)
    pool.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    pool.close()


def test_what_a_rank_has_forked_ends_with_the_rank() -> None:
    def fork() -> int:
        if (pid := os.fork()) == 0:
            time.sleep(1000)
        return pid

    with RankPool(2) as pool:
        forked = pool.run(fork)
        assert all(map(_is_running, forked))
    _assert_gone(forked, 5)


def test_what_a_rank_has_started_in_another_session_ends_with_the_rank() -> None:
    def fork_twice() -> int:
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(writer, os.getpid().to_bytes(8, "big"))
                time.sleep(1000)
            os._exit(0)
        return int.from_bytes(os.read(reader, 8), "big")

    with RankPool(2) as pool:
        forked = pool.run(fork_twice)
        assert all(map(_is_running, forked))
        assert pool.run(abs, -1) == [1, 1]
    _assert_gone(forked, 5)


def test_leaving_a_pool_as_a_context_closes_it() -> None:
    with RankPool(1) as pool:
        pids = pool.run(os.getpid)
    assert not Path(f"/proc/{pids[0]}").exists()


def test_rebuilding_leaves_no_process_no_descriptor_and_no_file() -> None:
    def die() -> None:
        os._exit(1)

    folder = processes.fork_server().folder
    before = {*folder.iterdir()}
    with RankPool(2) as pool:
        server = pool.run(os.getppid)[0]
        pids, counts = set(), set()
        for _ in range(4):
            pids |= {*pool.run(os.getpid)}
            counts.add((_num_descriptors(os.getpid()), _num_descriptors(server)))
            with pytest.raises(RankFailure, match="exited with status 1"):
                pool.run(die)
            assert {*folder.iterdir()} == before
        assert len(pids) == 8
        assert len(counts) == 1
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_rank_inherits_nothing_of_the_ranks_before_it() -> None:
    with RankPool(1) as pool, RankPool(1) as later:
        pool.start()
        later.start()
        before, after = (each.run(os.listdir, "/proc/self/fd")[0] for each in (pool, later))
        assert len(before) == len(after)


def test_pools_share_one_server_and_shutdown_ends_it() -> None:
    with RankPool(1) as one, RankPool(1) as other:
        server = one.run(os.getppid)
        assert other.run(os.getppid) == server
        shutdown()
        _assert_gone(server, seconds=0)
        assert one.run(os.getppid) != server
        assert one.generation == 2


def test_ranks_die_with_their_server_and_the_next_call_has_new_ones() -> None:
    with RankPool(2) as pool:
        pids, server = pool.run(os.getpid), pool.run(os.getppid)[0]
        os.kill(server, signal.SIGKILL)
        _assert_gone([server, *pids], seconds=5)
        assert pool.run(abs, -1) == [1, 1]


def test_ranks_that_lose_their_server_in_a_call_are_told_as_lost() -> None:
    def kill_the_server() -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)

    with RankPool(1) as pool:
        with pytest.raises(RankFailure, match=r"^rank 0 of 1: lost together with the fork server$"):
            pool.run(kill_the_server)
        assert pool.run(abs, -1) == [1]


_CONTROLLER = """
import os, time
from pytest_affine.ranks import RankPool

if __name__ == "__main__":
    print("main", flush=True)
    pool = RankPool(2)
    print(*pool.run(os.getpid), pool.run(os.getppid)[0], flush=True)
    {then}
"""


def _start_controller(folder: Path, then: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a process that has a pool; and the ids of its ranks and server."""
    script = folder / "controller.py"
    script.write_text(_CONTROLLER.format(then=then))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)}
    controller = subprocess.Popen(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert controller.stdout is not None
    assert controller.stdout.readline() == "main\n"
    return controller, [int(word) for word in controller.stdout.readline().split()]


@pytest.mark.parametrize("then", ["time.sleep(60)", "pool.run(time.sleep, 60)"])
def test_a_killed_controller_leaves_nothing_behind(tmp_path: Path, then: str) -> None:
    controller, pids = _start_controller(tmp_path, then)
    with controller:
        assert len(pids) == 3
        controller.kill()
    _assert_gone(pids, seconds=5)
    assert [path.name for path in tmp_path.iterdir()] == ["controller.py"]


def test_a_server_does_not_wait_for_forks_of_a_killed_controller(tmp_path: Path) -> None:
    then = "os.fork() or print('forked', flush=True); time.sleep(10)"
    controller, pids = _start_controller(tmp_path, then)
    with controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == "forked\n"
        controller.kill()
        _assert_gone(pids, seconds=5)


def test_a_controller_that_forgets_to_close_ends_everything_at_its_exit(tmp_path: Path) -> None:
    controller, pids = _start_controller(tmp_path, "pass")
    with controller:
        assert controller.wait(10) == 0
    _assert_gone(pids, seconds=0)
    assert [path.name for path in tmp_path.iterdir()] == ["controller.py"]


def test_a_forked_controller_has_a_server_of_its_own() -> None:
    server = processes.fork_server()
    pid = os.fork()
    if pid == 0:
        same = processes.fork_server() is server
        shutdown()
        os._exit(1 if same else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert processes.fork_server() is server


def test_where_nothing_can_be_forked_ranks_are_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    def total() -> float:
        ones = torch.ones(1)
        dist.all_reduce(ones)
        return ones.item()

    monkeypatch.setattr(processes, "_CAN_FORK", False)
    with RankPool(2) as pool:
        names = pool.run(Path.read_text, Path("/proc/self/cmdline"))
        assert all("import worker" in name for name in names)
        assert pool.run(total) == [2.0, 2.0]


def test_a_server_that_cannot_import_torch_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('this torch is broken')\n")
    shutdown()
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        pool = RankPool(1)
        with pytest.raises(RankSetupError, match=r"(?s)starts no process: .*torch is broken"):
            pool.start()
    assert pool.run(abs, -1) == [1]
    pool.close()


def test_a_server_that_hangs_is_told_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with RankPool(1) as pool, RankPool(1) as other:
        (server,) = pool.run(os.getppid)
        os.kill(server, signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(processes, "START_SECONDS", 0.2)
            patch.setattr(processes, "_END_SECONDS", 0.2)
            with pytest.raises(RankSetupError, match=r"starts no process: no answer within 0.2 s"):
                other.start()
        assert other.run(abs, -1) == [1]


def test_ranks_are_out_of_reach_of_the_terminal() -> None:
    with RankPool(1) as pool:
        assert pool.run(os.getsid, 0) != [os.getsid(0)]


def test_the_group_meets_on_loopback_whatever_the_host_is_called() -> None:
    with RankPool(2) as pool:
        assert pool.run(os.getenv, "GLOO_SOCKET_IFNAME") == ["lo", "lo"]


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, pytest_affine.ranks; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
