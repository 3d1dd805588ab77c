"""Each way in which a rank can fail, and what is told about it."""

import ctypes
import io
import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pytest_affine.ranks import RankError, RankFailure, RankPool


def _failure(pool: RankPool, function: Callable[..., Any], **options: Any) -> RankFailure:
    with pytest.raises(RankFailure) as caught:
        pool.run(function, **options)
    return caught.value


def _reduce_except_on(rank: int, action: Callable[[], Any]) -> Callable[[], None]:
    """A function that enters a collective on all ranks but one, which does something else."""

    def work() -> None:
        if dist.get_rank() == rank:
            action()
        else:
            dist.all_reduce(torch.ones(1))

    return work


@contextmanager
def _alarm(seconds: float, action: Callable[[], None]) -> Iterator[None]:
    """Do something in the controller while it waits for ranks."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: action())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _assert_usable(pool: RankPool) -> None:
    def total() -> float:
        ones = torch.ones(1)
        dist.all_reduce(ones)
        return ones.item()

    assert pool.run(total) == [4.0] * 4


def test_an_exception_while_others_wait_in_a_collective_is_the_cause(pool: RankPool) -> None:
    def fail() -> None:
        raise KeyError("of rank 2")

    started = time.monotonic()
    failure = _failure(pool, _reduce_except_on(2, fail))
    assert time.monotonic() - started < 10
    assert failure.first == 2
    assert failure.cause.kind == "exception"
    assert failure.cause.type_name == "KeyError"
    assert failure.cause.message == "'of rank 2'"
    assert isinstance(failure.cause.exception, KeyError)
    assert failure.cause.innermost_file == __file__
    assert [failure.failures[rank].kind for rank in (0, 1, 3)] == ["stopped"] * 3
    _assert_usable(pool)


def test_the_message_has_the_cause_its_traceback_and_a_line_for_each_other(pool: RankPool) -> None:
    def fail() -> None:
        print("on the way")
        raise ValueError("two\nlines")

    text = str(_failure(pool, _reduce_except_on(1, fail)))
    assert text.startswith("rank 1 of 4: ValueError: two\n\nTraceback (most recent call last):\n")
    assert 'raise ValueError("two\\nlines")' in text
    assert "worker.py" not in text
    assert "\n\noutput of rank 1 of 4:\non the way\n\n" in text
    stopped = "still busy after another rank had failed, so it was killed"
    call = "in all_reduce of 4 bytes of float32 on the default group"
    lines = [f"  rank {rank} of 4: {stopped}, {call}" for rank in (0, 2, 3)]
    assert text.endswith("\n".join(["consequences:", *lines]))


def test_the_innermost_file_is_where_the_exception_was_raised(pool: RankPool) -> None:
    failure = _failure(pool, lambda: json.loads("{"), ranks=[0])
    assert failure.cause.innermost_file == json.decoder.__file__


def test_a_long_consequence_is_one_cut_line(pool: RankPool) -> None:
    def fail() -> None:
        time.sleep(0.1 * dist.get_rank())
        raise ValueError(f"{dist.get_rank()}" * 1000 + "\nmore")

    consequences = str(_failure(pool, fail, ranks=[0, 1])).rpartition("consequences:\n")[2]
    assert consequences == "  rank 1 of 4: ValueError: " + "1" * 185 + "..."


def test_of_several_exceptions_the_earliest_is_the_cause_whichever_is_seen_first(
    pool: RankPool,
) -> None:
    pool.start()
    first = time.time() + 2.0  # by then every rank has begun, even where all of them share a core

    def fail() -> None:
        time.sleep(max(0.0, first + 0.2 * (3 - dist.get_rank()) - time.time()))
        raise ValueError(f"{dist.get_rank()}")

    with _alarm(1.5, lambda: time.sleep(2.0)):
        failure = _failure(pool, fail)
    assert failure.first == 3
    assert sorted(failure.failures) == [0, 1, 2, 3]


def test_a_rank_without_an_answer_is_a_deadline_with_its_stack(pool: RankPool) -> None:
    def oversleep() -> None:
        if dist.get_rank() == 1:
            time.sleep(60)

    failure = _failure(pool, oversleep, deadline=1)
    assert str(failure).startswith("rank 1 of 4: no answer within 1.0 s\n\nCurrent thread ")
    assert [*failure.failures] == [1]
    assert failure.cause.kind == "deadline"
    assert f'File "{__file__}"' in failure.cause.traceback
    assert "in oversleep" in failure.cause.traceback
    assert "worker.py" not in failure.cause.traceback
    _assert_usable(pool)


def test_at_the_deadline_the_rank_outside_the_collective_is_the_cause(pool: RankPool) -> None:
    failure = _failure(pool, _reduce_except_on(2, lambda: time.sleep(60)), deadline=1.0)
    assert failure.first == 2
    assert [error.kind for error in failure.failures.values()] == ["deadline"] * 4
    assert "in all_reduce" in failure.failures[0].traceback
    _assert_usable(pool)


def test_the_pool_has_a_deadline_for_all_its_calls() -> None:
    with RankPool(1, deadline=0.2) as pool:
        assert "no answer within 0.2 s" in str(_failure(pool, lambda: time.sleep(60)))


@pytest.mark.parametrize("status", [0, 3])
def test_an_exit_comes_before_the_broken_connections_of_its_peers(
    pool: RankPool, status: int
) -> None:
    def exit_or_wait_for_it() -> None:
        if dist.get_rank() == 2:
            os._exit(status)
        dist.recv(torch.ones(1), 2)

    failure = _failure(pool, exit_or_wait_for_it)
    assert str(failure).startswith(f"rank 2 of 4: exited with status {status}\n")
    assert failure.cause.kind == "exit"
    peers = [failure.failures[rank].type_name for rank in (0, 1, 3)]
    assert peers == ["RuntimeError"] * 3
    _assert_usable(pool)


def test_an_exit_whose_code_is_late_still_comes_before_the_broken_connections(
    pool: RankPool,
) -> None:
    def exit_unnoticed_or_wait_for_it() -> None:
        if dist.get_rank() == 2:
            os.kill(os.getppid(), signal.SIGSTOP)
            os._exit(3)
        dist.recv(torch.ones(1), 2)

    (server,) = pool.run(os.getppid, ranks=[0])
    with _alarm(1.0, lambda: os.kill(server, signal.SIGCONT)):
        failure = _failure(pool, exit_unnoticed_or_wait_for_it)
    assert failure.first == 2
    assert failure.cause.message == "exited with status 3"


@pytest.mark.parametrize(
    ("name", "crash"),
    [
        ("SIGKILL", lambda: os.kill(os.getpid(), signal.SIGKILL)),
        ("SIGSEGV", lambda: ctypes.string_at(0)),
    ],
)
def test_death_by_a_signal_names_it(pool: RankPool, name: str, crash: Callable[[], Any]) -> None:
    failure = _failure(pool, _reduce_except_on(1, crash))
    assert str(failure).startswith(f"rank 1 of 4: killed by {name}\n")
    assert failure.cause.kind == "signal"
    _assert_usable(pool)


def test_a_crash_shows_its_python_stack(pool: RankPool) -> None:
    def crash() -> None:
        ctypes.string_at(0)

    trace = _failure(pool, crash, ranks=[0]).cause.traceback
    assert trace.startswith("Fatal Python error: Segmentation fault")
    assert "in crash" in trace
    assert "Extension modules" not in trace


def test_a_signal_without_a_name_is_told_by_its_number(pool: RankPool) -> None:
    number = signal.SIGRTMIN + 3
    failure = _failure(pool, lambda: os.kill(os.getpid(), number), ranks=[0])
    assert failure.cause.message == f"killed by signal {int(number)}"


@pytest.mark.parametrize(("given", "status"), [(None, 0), (3, 3), ("a reason", 1)])
def test_sys_exit_is_an_exit(pool: RankPool, given: object, status: int) -> None:
    failure = _failure(pool, lambda: sys.exit(given), ranks=[0])  # type: ignore[arg-type]
    assert failure.cause.kind == "exit"
    assert failure.cause.message == f"exited with status {status}"
    assert "sys.exit(given)" in failure.cause.traceback


def test_a_rank_that_died_between_calls_is_told_apart(pool: RankPool) -> None:
    def die_later() -> int:
        threading.Timer(0.1, os._exit, [5]).start()
        return os.getpid()

    (pid,) = pool.run(die_later, ranks=[3])
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.05)
    failure = _failure(pool, os.getpid)
    assert str(failure) == "rank 3 of 4: exited with status 5 before this call"
    _assert_usable(pool)


def test_a_result_that_cannot_be_pickled_names_its_type(pool: RankPool) -> None:
    failure = _failure(pool, threading.Lock, ranks=[1])
    assert failure.cause.kind == "unpicklable"
    assert failure.cause.message == (
        "the result, of type _thread.lock, cannot be pickled: "
        "TypeError: cannot pickle '_thread.lock' object"
    )
    _assert_usable(pool)


class _Trap:
    """Pickles well and unpickles badly, or the other way round, by where it is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _spring, (os.getpid(),)


def _spring(maker: int) -> None:
    if os.getpid() != maker:
        sys.exit("sprung")


def test_a_result_that_cannot_be_unpickled_is_a_failure_of_its_rank(pool: RankPool) -> None:
    failure = _failure(pool, _Trap, ranks=[2])
    assert str(failure).startswith(
        "rank 2 of 4: the result cannot be unpickled in the controller: SystemExit: sprung\n"
    )
    assert failure.cause.kind == "unpicklable"


def test_a_call_that_cannot_be_unpickled_is_a_failure_of_its_rank(
    pool: RankPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = type(sys)("nowhere")
    exec("def function(): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "nowhere", module)
    failure = _failure(pool, module.function, ranks=[0])
    assert failure.cause.kind == "unpicklable"
    assert failure.cause.message == (
        "the call cannot be unpickled: ModuleNotFoundError: No module named 'nowhere'"
    )


def test_an_exception_that_cannot_be_pickled_still_tells_what_it_was(pool: RankPool) -> None:
    class Stubborn(Exception):  # noqa: N818
        def __init__(self) -> None:
            super().__init__("holds a lock")
            self.lock = threading.Lock()

    def fail() -> None:
        raise Stubborn

    cause = _failure(pool, fail, ranks=[0]).cause
    assert cause.exception is None
    assert cause.type_name.endswith(".Stubborn")
    assert cause.message == "holds a lock"
    assert "raise Stubborn" in cause.traceback


def test_an_exception_that_cannot_be_unpickled_still_tells_what_it_was(pool: RankPool) -> None:
    class Odd(Exception):  # noqa: N818
        def __init__(self, first: str, second: str) -> None:
            super().__init__(first + second)

    def fail() -> None:
        raise Odd("one", "two")

    cause = _failure(pool, fail, ranks=[0]).cause
    assert (cause.exception, cause.message) == (None, "onetwo")


def test_an_exception_that_cannot_be_printed_still_tells_its_type(pool: RankPool) -> None:
    class Silent(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ValueError("no text")

    def fail() -> None:
        raise Silent

    assert _failure(pool, fail, ranks=[0]).cause.message == "(it cannot be printed)"


def test_what_is_no_exception_but_raised_is_told_as_one(pool: RankPool) -> None:
    def fail() -> None:
        pytest.fail("the rank says so")

    cause = _failure(pool, fail, ranks=[0]).cause
    assert (cause.kind, cause.message) == ("exception", "the rank says so")


def test_a_wrong_call_is_told_without_frames_of_ours(pool: RankPool) -> None:
    cause = _failure(pool, lambda missing: missing, ranks=[0]).cause
    assert cause.type_name == "TypeError"
    assert "missing 1 required positional argument" in cause.message
    assert cause.innermost_file == ""
    assert "worker.py" not in cause.traceback


def test_the_output_of_the_failed_call_comes_along_and_no_other(pool: RankPool) -> None:
    def speak(word: str) -> None:
        print(word, "by print")
        os.write(2, f"{word} by descriptor\n".encode())

    def fail() -> None:
        speak("late")
        raise ValueError

    pool.run(speak, "early", ranks=[0])
    assert _failure(pool, fail, ranks=[0]).cause.output == "late by print\nlate by descriptor\n"


def test_only_the_end_of_long_output_is_kept(pool: RankPool) -> None:
    def fail() -> None:
        print("start" + 10000 * "x" + "end")
        raise ValueError

    output = _failure(pool, fail, ranks=[0]).cause.output
    assert output == "x" * (8192 - 4) + "end\n"


def test_output_is_kept_when_a_rank_is_killed(pool: RankPool) -> None:
    def die() -> None:
        print("last words", end="")
        os.kill(os.getpid(), signal.SIGKILL)

    assert _failure(pool, die, ranks=[0]).cause.output == "last words"


def test_a_stopped_rank_costs_its_deadline_and_no_more(pool: RankPool) -> None:
    pids = pool.run(os.getpid)
    os.kill(pids[0], signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(RankFailure, match=r"rank 0 of 4: no answer within 0.3 s"):
        pool.run(len, bytes(2**24), deadline=0.3)
    assert time.monotonic() - started < 5.0
    _assert_usable(pool)


def test_a_fork_that_a_function_leaves_behind_answers_nothing(pool: RankPool) -> None:
    def fork() -> str:
        if os.fork() == 0:
            time.sleep(0.2)
            return "child"
        return "parent"

    assert pool.run(fork, ranks=[0]) == ["parent"]
    time.sleep(0.5)
    assert pool.run(abs, -7, ranks=[0]) == [7]


def test_an_interrupted_call_ends_the_ranks_and_the_next_has_new_ones(pool: RankPool) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    before = pool.run(os.getpid)
    with pytest.raises(KeyboardInterrupt), _alarm(0.2, interrupt):
        pool.run(time.sleep, 60)
    assert not set(before) & set(pool.run(os.getpid))


def test_a_failure_pickles() -> None:
    cause = RankError(kind="exception", message="text", exception=ValueError("text"))
    other = RankError(kind="deadline", message="no answer", traceback="stack", output="printed")
    failure = RankFailure({0: cause, 2: other}, 2, {0: "rank 0 of 4", 2: "rank 2 of 4"})
    copy = pickle.loads(pickle.dumps(failure))
    assert str(copy) == str(failure)
    assert (copy.failures, copy.first, copy.names) == (failure.failures, 2, failure.names)
    assert copy.cause == other
    assert repr(copy.failures[0].exception) == "ValueError('text')"


def test_a_failure_pickles_without_an_exception_that_does_not() -> None:
    error = io.UnsupportedOperation("text")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    failure = RankFailure({0: RankError(kind="exception", message="text", exception=error)}, 0, {})
    assert pickle.loads(pickle.dumps(failure)).cause.exception is None
