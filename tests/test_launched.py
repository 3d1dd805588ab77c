"""Sessions of pytest that torchrun, or variables like its own, have started."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HEAD = """
import os, signal, time
import pytest
import torch
import torch.distributed as dist

four = pytest.mark.affine_ranks(4)
"""

PASSING = """
def test_what_a_test_does_to_the_variables_of_the_launcher_is_nothing_to_ranks(
    affine_ranks, monkeypatch
):
    monkeypatch.setenv("MASTER_PORT", "1")
    assert affine_ranks.run(os.getpid)

@four
def test_each_rank_is_the_child_of_a_launched_process(affine_rank, affine_world_size):
    ones = torch.ones(1)
    dist.all_reduce(ones)
    assert ones == 4
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == (str(affine_rank), "4")
    print("here")

def test_by_default_there_is_a_rank_for_each_process(affine_ranks):
    servers = affine_ranks.run(os.getppid)
    assert len({*servers}) == 4
    launched = [int(os.popen(f"ps -o ppid= {server}").read()) for server in servers]
    assert launched[0] == os.getpid()
    assert len({*launched}) == 4

@pytest.mark.affine_ranks(2)
def test_fewer_ranks_are_the_first():
    assert dist.get_world_size() == 2

"""

FAILING = """
@four
def test_death(affine_rank):
    if affine_rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()

@pytest.mark.affine_ranks(4, timeout=2)
def test_hang(affine_rank):
    if affine_rank == 3:
        time.sleep(60)
    dist.barrier()

@four
def test_after():
    dist.barrier()

@pytest.mark.affine_ranks(5)
def test_too_many():
    pass
"""


@pytest.fixture
def environment() -> dict[str, str]:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return {**kept, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


Start = Callable[..., list[subprocess.Popen[str]]]


@pytest.fixture
def start(tmp_path: Path, environment: dict[str, str]) -> Iterator[Start]:
    """Launch pytest on a test file as a launcher without a store of its own does."""
    started: list[subprocess.Popen[str]] = []

    def start(
        text: str, *arguments: str, num_processes: int = 2, **variables: str
    ) -> list[subprocess.Popen[str]]:
        (tmp_path / "test_it.py").write_text(HEAD + text)
        shared = {
            **environment,
            "WORLD_SIZE": str(num_processes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            **variables,
        }
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        for rank in range(num_processes):
            own = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            pipe = subprocess.PIPE
            started.append(
                subprocess.Popen(
                    command, env=own, cwd=tmp_path, stdout=pipe, stderr=subprocess.STDOUT, text=True
                )
            )
        return started

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ends(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """The exit status and the output of each."""
    limit = time.monotonic() + 120
    texts = [process.communicate(timeout=limit - time.monotonic())[0] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, texts, strict=True)]


def torchrun(
    folder: Path, environment: dict[str, str], text: str, *arguments: str
) -> subprocess.Popen[str]:
    (folder / "test_it.py").write_text(HEAD + text)
    command = [sys.executable, "-m", "torch.distributed.run", *arguments]
    command += ["-m", "pytest", "-p", "no:cacheprovider", "-rA", "--affine-launcher=join"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=environment, cwd=folder, stdout=pipe, stderr=pipe, text=True
    )


def outcomes(output: str) -> dict[str, str]:
    """{test: outcome} from the short summary."""
    found = re.findall(r"^([A-Z]+) test_it\.py::(\w+)", output, re.MULTILINE)
    return {test: outcome for outcome, test in found}


def test_under_torchrun_there_is_one_session_and_each_rank_lives_in_its_process(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    launcher = torchrun(tmp_path, environment, PASSING, "--nproc-per-node=4")
    output, errors = launcher.communicate(timeout=120)
    assert launcher.returncode == 0, output + errors
    assert {*outcomes(output).values()} == {"PASSED"}
    assert len(outcomes(output)) == 4
    assert output.count("test session starts") == 1
    assert "stdout and stderr of rank 2 call" in output


def test_two_agents_are_two_nodes_and_both_end_with_the_status_of_the_session(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    meeting = [f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-backend=c10d"]
    agents = [
        torchrun(tmp_path, environment, FAILING, "--nnodes=2", "--nproc-per-node=2", *meeting)
        for _ in range(2)
    ]
    texts = [agent.communicate(timeout=120) for agent in agents]
    assert [agent.returncode for agent in agents] == [1, 1]
    (output,) = (output for output, _ in texts if output)
    assert output.count("test session starts") == 1
    assert outcomes(output) == {
        "test_death": "FAILED",
        "test_hang": "FAILED",
        "test_after": "PASSED",
        "test_too_many": "FAILED",
    }
    assert "\nrank 2 of 4: killed by SIGKILL\n" in output
    assert "\nrank 3 of 4: no answer within 2.0 s\n" in output
    assert "rank 0 waits in barrier on the default group for rank 3" in output
    assert (
        "\nasked for 5 ranks, but the launcher has started 4 processes, of which each keeps one "
        "rank; choices: at most 4 ranks, more processes, --affine-launcher=ignore\n"
    ) in output
    root_causes = [
        re.search(r"Root Cause.*?rank +: (\d)", errors, re.DOTALL) for _, errors in texts
    ]
    assert "0" in [cause[1] for cause in root_causes if cause]


@pytest.mark.parametrize(
    ("text", "status"),
    [("def test_it(): pass", 0), ("", 5)],
)
def test_every_launched_process_ends_with_the_status_of_the_session(
    start: Start, text: str, status: int
) -> None:
    (controller, output), *others = ends(start(text, "--affine-ranks=1"))
    assert controller == status
    assert output.count("test session starts") == 1
    assert others == [(status, "")]


def test_certifying_goes_over_the_launched_processes(start: Start) -> None:
    arguments = "--affine-certify=reference", "-k", "bound_in_any_way"
    (status, output), other = ends(start("", *arguments))
    assert "2 ranks on gloo" in output
    assert re.search(r"EXEC-ENDPOINTS .*\b1 conformant", output)
    assert (status, other) == (0, (0, ""))


def test_when_the_controller_dies_the_others_end_and_leave_nothing(
    start: Start, tmp_path: Path
) -> None:
    text = """
def test_it(affine_ranks):
    print(*affine_ranks.run(os.getpid), *affine_ranks.run(os.getppid), flush=True)
    affine_ranks.run(time.sleep, 60)
"""
    folder = tmp_path / "temporary"
    folder.mkdir()
    controller, other = start(text, "--affine-ranks=2", "-s", TMPDIR=str(folder))
    assert controller.stdout is not None
    found = None
    while found is None:
        found = re.search(r"(?:\d+ ){3}\d+", controller.stdout.readline())
    controller.kill()
    output, _ = other.communicate(timeout=10)
    assert other.returncode == 1
    assert output == (
        "pytest-affine: launched process of rank 1: the controller, which is the process of rank "
        "0, has ended without a status\n"
    )
    limit = time.monotonic() + 5
    while left := [pid for pid in found[0].split() if Path("/proc", pid).exists()]:
        assert time.monotonic() < limit, left
        time.sleep(0.05)
    assert [path.name for path in folder.iterdir() if "affine" in path.name] == []


def test_a_launched_process_that_is_gone_is_told_and_nothing_hangs(start: Start) -> None:
    text = """
@pytest.mark.affine_ranks(2)
def test_first(affine_rank):
    if affine_rank == 1:
        with open("pid", "w") as file:
            print(os.popen(f"ps -o ppid= {os.getppid()}").read(), os.getpid(), file=file)

def test_kill():
    launched, rank = open("pid").read().split()
    os.kill(int(launched), signal.SIGKILL)
    while os.path.exists(f"/proc/{rank}"):
        time.sleep(0.05)

@pytest.mark.affine_ranks(2)
def test_second():
    pass

@pytest.mark.affine_ranks(2)
def test_third():
    pass
"""
    (status, output), (other, _) = ends(start(text, "--affine-ranks=2", "-rA"))
    assert (status, other) == (1, -signal.SIGKILL)
    assert [*outcomes(output).values()].count("PASSED") == 2
    assert "rank 1 of 2: lost together with the fork server" in output
    assert "rank 1 can't be started: its launched process is gone or does not answer" in output


def test_workers_of_xdist_are_refused(start: Start) -> None:
    (status, output), other = ends(start("", "--affine-ranks=2", "-n2"))
    assert (status, other) == (4, (4, ""))
    assert output == (
        "ERROR: a session that has joined 2 launched processes can't be spread over workers of "
        "pytest-xdist; choices: no -n, --affine-launcher=ignore\n\n"
    )


@pytest.mark.parametrize("arguments", [[], ["--affine-ranks=1", "--affine-launcher=ignore"]])
def test_a_session_that_has_no_use_for_a_launcher_ignores_it(
    start: Start, arguments: list[str]
) -> None:
    text = "def test_it(): pass"
    assert all("1 passed" in output for _, output in ends(start(text, *arguments)))


def test_what_a_test_starts_does_not_join_again(start: Start) -> None:
    text = """
import subprocess, sys

def test_it():
    command = [sys.executable, "-m", "pytest", "--affine-ranks=1", "--version"]
    assert subprocess.run(command, timeout=30).returncode == 0
"""
    assert [status for status, _ in ends(start(text, "--affine-ranks=2"))] == [0, 0]


@pytest.mark.parametrize(
    ("variables", "what"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE must be an integer of at least 0, got 'two'"),
        ({"WORLD_SIZE": "1", "RANK": "1"}, "RANK is 1 and WORLD_SIZE 1, which must be larger"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set"),
        ({"MASTER_PORT": "-1"}, "MASTER_PORT must be an integer of at least 0, got '-1'"),
        ({"LOCAL_RANK": "1.5"}, "LOCAL_RANK must be an integer of at least 0, got '1.5'"),
    ],
)
def test_variables_that_no_launcher_would_set_are_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], what: str
) -> None:
    told = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in {**told, **variables}.items():
        monkeypatch.setenv(name, value)
    result = pytester.runpytest_inprocess("--affine-launcher=join")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.lines[0] == (
        f"ERROR: {what}: a launcher sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (and "
        "LOCAL_RANK); choices: correct them, unset RANK, --affine-launcher=ignore"
    )


def test_a_choice_in_the_ini_file_that_does_not_exist_is_refused(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\naffine_launcher = maybe")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.lines[0] == (
        "ERROR: the ini option affine_launcher must be one of auto, join, ignore, got 'maybe'"
    )
