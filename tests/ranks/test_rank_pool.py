"""What a pool of ranks does with calls that succeed, and which failures it survives."""

import math
import operator
import os
import random
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pytest_affine.ranks import RankFailure, RankPool, current_rank, device


def _pids(pool: RankPool) -> list[int]:
    return pool.run(os.getpid)


def test_values_come_back_in_the_order_of_the_ranks(pool: RankPool) -> None:
    assert pool.run(current_rank) == [0, 1, 2, 3]
    assert pool.run(current_rank, ranks=[2, 0]) == [2, 0]


def test_each_rank_is_a_process_of_its_own(pool: RankPool) -> None:
    assert len({os.getpid(), *_pids(pool)}) == 5


def test_arguments_and_keywords_reach_the_function(pool: RankPool) -> None:
    assert pool.run(sorted, [3, 1, 2], reverse=True) == [[3, 2, 1]] * 4


def test_functions_may_be_closures_and_lambdas(pool: RankPool) -> None:
    step = 10
    assert pool.run(lambda base: base + step * current_rank(), 1) == [1, 11, 21, 31]


def test_each_rank_can_get_other_arguments(pool: RankPool) -> None:
    assert pool.run_each(operator.sub, [(9, rank) for rank in range(4)]) == [9, 8, 7, 6]


def test_a_missing_tuple_of_arguments_is_refused(pool: RankPool) -> None:
    with pytest.raises(ValueError, match="one tuple of arguments for each of the 4 ranks, not 3"):
        pool.run_each(math.sqrt, [(1,), (2,), (3,)])


@pytest.mark.parametrize("ranks", [[4], [-1], [1, 1]])
def test_ranks_that_are_not_there_or_named_twice_are_refused(
    pool: RankPool, ranks: list[int]
) -> None:
    with pytest.raises(ValueError, match=r"ranks must be different ones of \[0, 1, 2, 3\], not "):
        pool.run(os.getpid, ranks=ranks)


def test_ranks_run_at_once(pool: RankPool) -> None:
    started = time.monotonic()
    pool.run(time.sleep, 0.5)
    assert time.monotonic() - started < 1.5


def test_the_ranks_are_one_initialised_gloo_group(pool: RankPool) -> None:
    def describe() -> tuple[int, int, str]:
        return dist.get_rank(), dist.get_world_size(), dist.get_backend()

    assert pool.run(describe) == [(rank, 4, "gloo") for rank in range(4)]


def test_a_collective_works(pool: RankPool) -> None:
    def total() -> list[int]:
        values = torch.tensor([1, 10 * dist.get_rank()])
        dist.all_reduce(values)
        return values.tolist()

    assert pool.run(total) == [[4, 60]] * 4


def test_ranks_can_send_to_each_other(pool: RankPool) -> None:
    def pass_on() -> int:
        rank, received = dist.get_rank(), torch.zeros(1)
        sending = dist.isend(torch.full((1,), float(rank)), (rank + 1) % 4)
        dist.recv(received, (rank - 1) % 4)
        assert sending is not None
        sending.wait()
        return int(received)

    assert pool.run(pass_on) == [3, 0, 1, 2]


def test_tensors_travel_both_ways(pool: RankPool) -> None:
    doubled = pool.run(lambda values: 2 * values, torch.arange(3), ranks=[1])
    assert torch.equal(doubled[0], torch.tensor([0, 2, 4]))


def test_a_gloo_rank_has_the_cpu_as_its_device(pool: RankPool) -> None:
    assert pool.run(device, ranks=[3]) == [torch.device("cpu")]


@pytest.mark.parametrize("function", [current_rank, device])
def test_outside_ranks_there_is_no_rank_and_no_device(function: object) -> None:
    assert callable(function)
    with pytest.raises(RuntimeError, match=r"\(\) was called outside ranks: RankPool.run\(\)"):
        function()


def test_large_calls_and_results_arrive_whole(pool: RankPool) -> None:
    sent = os.urandom(2**23)
    assert pool.run(lambda data: data[::-1], sent, ranks=[0, 3]) == [sent[::-1]] * 2


def test_generators_are_seeded_for_each_call_by_seed_and_rank(pool: RankPool) -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    first = pool.run(draw)
    assert pool.run(draw) == first
    assert [len(set(column)) for column in zip(*first, strict=True)] == [4, 4, 4]
    with RankPool(1, seed=2) as other:
        assert other.run(draw) == first[2:3]


@pytest.mark.parametrize(("setting", "num_threads"), [(None, 1), ("3", 3), ("2,4", 2)])
def test_ranks_compute_with_one_thread_unless_told_otherwise(
    setting: str | None, num_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if setting is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    with RankPool(1) as pool:
        assert pool.run(torch.get_num_threads) == [num_threads]


def test_a_call_runs_in_the_folder_of_the_controller(
    pool: RankPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.start()
    monkeypatch.chdir(tmp_path)
    assert pool.run(os.getcwd, ranks=[0]) == [str(tmp_path)]


def test_a_call_sees_modules_that_the_controller_found_since(
    pool: RankPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.start()
    (tmp_path / "found_later.py").write_text("def answer():\n    return 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("found_later")
    assert pool.run(module.answer, ranks=[1]) == [42]
    del sys.modules["found_later"]


def test_a_function_that_cannot_be_pickled_is_refused_and_the_pool_lives(pool: RankPool) -> None:
    before, lock = _pids(pool), threading.Lock()
    with pytest.raises(TypeError, match=r"the function .*acquire.* cannot be sent to ranks: "):
        pool.run(lock.acquire)
    with pytest.raises(TypeError, match=r"an argument cannot be sent to ranks: TypeError: cannot"):
        pool.run(print, lock)
    assert _pids(pool) == before


def test_an_exception_on_every_rank_leaves_the_ranks_alive(pool: RankPool) -> None:
    before = _pids(pool)
    with pytest.raises(RankFailure, match="ValueError: math domain error"):
        pool.run(math.sqrt, -1.0)
    assert _pids(pool) == before


def test_an_exception_in_work_on_a_single_rank_leaves_the_ranks_alive(pool: RankPool) -> None:
    before = _pids(pool)
    with pytest.raises(RankFailure, match="rank 2 of 4: ValueError: math domain error"):
        pool.run(math.sqrt, -1.0, ranks=[2])
    assert _pids(pool) == before


def test_an_exception_on_some_ranks_costs_the_pool_its_ranks(pool: RankPool) -> None:
    before = _pids(pool)
    with pytest.raises(RankFailure, match="rank 3 of 4: ValueError"):
        pool.run_each(math.sqrt, [(1.0,), (1.0,), (1.0,), (-1.0,)])
    assert not set(before) & set(_pids(pool))


def test_messages_that_nobody_received_do_not_reach_a_later_call(pool: RankPool) -> None:
    def send_and_fail() -> None:
        if dist.get_rank() == 0:
            dist.isend(torch.tensor([13.0]), 1)
            raise ValueError("before the message was received")

    def send_again() -> float:
        values = torch.tensor([7.0])
        if dist.get_rank() == 0:
            dist.send(values, 1)
        if dist.get_rank() == 1:
            values.zero_()
            dist.recv(values, 0)
        return values.item()

    with pytest.raises(RankFailure, match="before the message was received"):
        pool.run(send_and_fail)
    assert pool.run(send_again) == [7.0] * 4


def test_a_closed_pool_refuses_to_run() -> None:
    pool = RankPool(1)
    pool.close()
    with pytest.raises(RuntimeError, match="this pool of ranks is closed"):
        pool.run(os.getpid)


def test_functions_that_name_operators_travel(pool: RankPool) -> None:
    every, some, one = torch.ops, torch.ops.aten, torch.ops.aten.add
    overload = torch.ops.aten.add.Tensor

    def values() -> list[float]:
        ones = torch.ones(1)
        found = [every.aten.add(ones, 1), some.add(ones, 2), one(ones, 3), overload(ones, 4 * ones)]
        return [value.item() for value in (*found, torch.ops.aten.add(ones, 5))]

    assert pool.run(values) == 4 * [[2.0, 3.0, 4.0, 5.0, 6.0]]


def test_each_call_has_the_environment_of_the_controller(
    pool: RankPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get() -> tuple[str | None, str | None]:
        return os.environ.get("AFFINE_FIRST"), os.environ.get("AFFINE_SECOND")

    with monkeypatch.context() as patch:
        patch.setenv("AFFINE_FIRST", "1")
        assert pool.run(get, ranks=[0]) == [("1", None)]
        assert pool.run(get) == 4 * [("1", None)]
        patch.setenv("AFFINE_SECOND", "2")
        assert pool.run(get) == 4 * [("1", "2")]
    assert pool.run(get) == 4 * [(None, None)]


def test_what_a_call_does_to_the_environment_and_to_stdout_goes_with_it(pool: RankPool) -> None:
    def change() -> None:
        os.environ["AFFINE_FIRST"] = "1"
        del os.environ["PATH"]
        sys.stdout = None

    def look() -> tuple[str | None, bool]:
        print("still there")
        return os.environ.get("AFFINE_FIRST"), "PATH" in os.environ

    pool.run(change)
    assert pool.run(look) == 4 * [(None, True)]
    assert pool.printed == dict.fromkeys(range(4), "still there\n")
    assert pool.run(os.getenv, "GLOO_SOCKET_IFNAME") == 4 * ["lo"]
