"""Starting and using 4 gloo ranks: this project's pool beside three others, in one run.

    pip install expecttest numpy && python benchmarks/ranks.py

The peers are a bare fork server of the standard library (torch preloaded, a new group for each
test), and torch's own `MultiProcessTestCase` and `MultiProcContinuousTest`. Every test is empty, so
that what is measured is the harness. Ratios are to this project, larger is slower.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

NUM_RANKS = 4
NUM_TESTS = 20
NUM_CALLS = 500


def seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def in_fresh_interpreter(*arguments: str) -> list[float]:
    """Run this script with arguments; it prints numbers."""
    command = [sys.executable, "-W", "ignore", __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return [float(word) for word in done.stdout.split()]


def empty() -> None:
    pass


def measure_pool() -> list[float]:
    """Cold start to first result, restart, and one call, in seconds."""
    from pytest_affine.ranks import RankPool

    pool = RankPool(NUM_RANKS)
    cold = seconds(lambda: pool.run(empty))
    restarts = []
    for _ in range(NUM_TESTS):
        pool.discard()
        restarts.append(seconds(lambda: pool.run(empty)))
    calls = [seconds(lambda: pool.run(empty)) for _ in range(NUM_CALLS)]
    pool.close()
    return [cold, sorted(restarts)[NUM_TESTS // 2], sorted(calls)[NUM_CALLS // 2]]


def reduce_often() -> float:
    """Seconds of CPU of one small all_reduce in a group of one, where nobody is waited for."""
    import torch
    import torch.distributed as dist

    value = torch.ones(1)
    started = time.process_time()
    for _ in range(NUM_CALLS):
        dist.all_reduce(value)
    return (time.process_time() - started) / NUM_CALLS


def measure_tap() -> list[float]:
    """A collective with the wire tap and without, in seconds of the rank's CPU."""
    from pytest_affine.ranks import RankPool, tap

    with RankPool(1) as pool:
        tapped = min(pool.run(reduce_often)[0] for _ in range(NUM_TESTS))
        pool.run(tap.uninstall)
        return [tapped, min(pool.run(reduce_often)[0] for _ in range(NUM_TESTS))]


def join_and_leave(rank: int, path: str) -> None:
    import torch.distributed as dist

    store = dist.FileStore(path, NUM_RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=NUM_RANKS)
    dist.destroy_process_group()


def measure_fork_server() -> list[float]:
    """Cold start to first result, and one test with a new group, in seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed"])

    def test() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "store")
            ranks = [
                context.Process(target=join_and_leave, args=(rank, path))
                for rank in range(NUM_RANKS)
            ]
            for process in ranks:
                process.start()
            for process in ranks:
                process.join(60)

    cold = seconds(test)
    return [cold, sorted(seconds(test) for _ in range(NUM_TESTS))[NUM_TESTS // 2]]


def peer_class(name: str) -> type[unittest.TestCase]:
    from torch.testing._internal import common_distributed

    base = getattr(common_distributed, name)

    class Peer(base):  # type: ignore[misc]
        world_size = NUM_RANKS

        @classmethod
        def backend_str(cls) -> str:
            return "gloo"

        @classmethod
        def device_type(cls) -> str:
            return "cpu"

        def setUp(self) -> None:
            super().setUp()
            if hasattr(self, "_spawn_processes") and name == "MultiProcessTestCase":
                self._spawn_processes()

    Peer.__module__, Peer.__qualname__ = __name__, name
    for number in range(NUM_TESTS):
        setattr(Peer, f"test_{number:03}", lambda self: None)
    return Peer


if "torch" in os.environ.get("AFFINE_BENCHMARK", ""):
    # Their processes are spawned and import this module to find the class.
    MultiProcessTestCase = peer_class("MultiProcessTestCase")
    MultiProcContinuousTest = peer_class("MultiProcContinuousTest")


class Timed(unittest.TestResult):
    """How long each test took, from its start to its stop; the first starts the ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - the name unittest calls
        super().startTest(test)
        self.started = time.perf_counter()

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.times.append(time.perf_counter() - self.started)
        super().stopTest(test)


def measure_torch(name: str, num_tests: int) -> list[float]:
    """The first test, and each further one, in seconds."""
    peer, result = globals()[name], Timed()
    unittest.TestSuite(peer(f"test_{number:03}") for number in range(num_tests)).run(result)
    if not result.wasSuccessful():
        sys.exit(str(result.errors + result.failures))
    first, *further = result.times
    return [first, sorted(further)[len(further) // 2]]


MODES: dict[str, Callable[[], list[float]]] = {
    "torch": lambda: [seconds(lambda: __import__("torch.distributed"))],
    "pool": measure_pool,
    "tap": measure_tap,
    "fork server": measure_fork_server,
    "MultiProcessTestCase": lambda: measure_torch("MultiProcessTestCase", 3),
    "MultiProcContinuousTest": lambda: measure_torch("MultiProcContinuousTest", NUM_TESTS),
}


def main() -> None:
    os.environ["AFFINE_BENCHMARK"] = ""
    imported = min(in_fresh_interpreter("torch")[0] for _ in range(3))
    print(f"import torch.distributed: {imported:.2f} s")
    cold, restart, call = in_fresh_interpreter("pool")
    print(f"{'':26}{'to first result':>24}{'each further test':>24}")
    print(f"{'pool, ranks kept':26}{cold:>15.2f} s {'':>6}{call * 1e3:>14.2f} ms")
    print(f"{'pool, ranks started anew':26}{'':>24}{restart * 1e3:>14.1f} ms")
    for peer in ("fork server", "MultiProcessTestCase", "MultiProcContinuousTest"):
        os.environ["AFFINE_BENCHMARK"] = "torch" if peer.startswith("Multi") else ""
        first, further = in_fresh_interpreter(peer)
        print(
            f"{peer:26}{first:>15.2f} s {first / cold:>5.1f}x{further * 1e3:>14.2f} ms"
            f" {further / (restart if peer == 'fork server' else call):>6.1f}x"
        )
    tapped, untapped = in_fresh_interpreter("tap")
    print(f"one collective: {tapped * 1e6:.0f} us with the tap, {untapped * 1e6:.0f} us without")
    print(f"cold start over one import of torch: {cold / imported:.2f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*MODES[sys.argv[1]]())
    else:
        main()
