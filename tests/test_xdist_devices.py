"""Devices of sessions and of xdist's workers: leased by one at a time, waited for, and told."""

import itertools
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import pytest
import torch  # noqa: F401 - a session within this one would import it and drop it again
from marks import long

import pytest_affine.multirank.marked  # noqa: F401 - as torch
from pytest_affine.ranks import Lessor
from pytest_affine.ranks.backends import Device

DISTS = ["load", *long("loadscope", "loadfile", "loadgroup", "worksteal", "each")]

LOGGING = """
import os, time
import pytest

@pytest.fixture
def log():
    return os.path.abspath("log"), os.getpid()

@pytest.mark.affine_ranks(4)
@pytest.mark.parametrize("number", range(4))
def test_it(number, log, affine_rank, affine_device, affine_device_id):
    started = time.monotonic()
    time.sleep(0.1)
    assert affine_device.type == "cpu"
    with open(log[0], "a") as file:
        file.write(f"{log[1]} {affine_device_id} {started} {time.monotonic()}\\n")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The temporary folder of this test and the sessions in it, where the locks are."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def start(pytester):
    """Start a session of pytest in a process of its own."""
    running = []

    def start(*arguments):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        running.append(
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=pytester.path,
            )
        )
        return running[-1]

    yield start
    for session in running:
        with session:
            session.kill()


def lease(*ids, seconds=0.0):
    """Have devices as another session would."""
    devices = [Device(index, f"cpu-{index}") for index in ids]
    return Lessor(seconds).lease(devices, len(ids), lambda: None)


def read_until(stream, pattern):
    for line in stream:
        if re.search(pattern, line):
            return line
    raise AssertionError(f"there is no line like {pattern}")


def finish(session):
    output, _ = session.communicate(timeout=60)
    return session.returncode, output


def assert_never_shared(path, num_tests):
    """By the log of each test, on four ranks: no device was in use twice at one time."""
    rows = [line.split() for line in path.read_text().splitlines()]
    assert len(rows) == 4 * num_tests
    assert {row[1] for row in rows} == {"0", "1", "2", "3"}
    assert len({row[0] for row in rows}) == 2, "only one process had devices"
    for index in "0123":
        spans = sorted((float(row[2]), float(row[3])) for row in rows if row[1] == index)
        for (_, end), (begin, _) in itertools.pairwise(spans):
            assert end <= begin


@pytest.mark.parametrize("dist", DISTS)
def test_workers_of_xdist_never_share_a_device(pytester, dist):
    pytester.makepyfile(test_one=LOGGING, test_two=LOGGING)
    workers = ["--tx=2*popen"] if dist == "each" else ["-n2"]
    result = pytester.runpytest_subprocess(*workers, f"--dist={dist}", "--affine-devices=0,1,2,3")
    num_tests = 16 if dist == "each" else 8
    result.assert_outcomes(passed=num_tests)
    assert_never_shared(pytester.path / "log", num_tests)


def test_sessions_never_share_a_device(pytester, start):
    pytester.makepyfile(test_one=LOGGING)
    sessions = [start("--affine-devices=0,1,2,3") for _ in range(2)]
    assert [finish(session)[0] for session in sessions] == [0, 0]
    assert_never_shared(pytester.path / "log", 8)


PLAIN = """
import pytest

@pytest.mark.affine_ranks(2)
def test_it(affine_device_id):
    assert affine_device_id in (0, 1)

def test_without_ranks():
    pass
"""


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_a_wait_is_told_while_it_lasts_and_at_the_end(pytester, start, workers):
    pytester.makepyfile(PLAIN)
    held = lease(1)
    arguments = ["--affine-devices=0,1", "--affine-ranks=2", "--affine-lease-timeout=20"]
    session = start(*arguments, "--junitxml=it.xml", *workers)
    waits = f"for 2 of the devices 0, 1; process {os.getpid()} has 1"
    assert read_until(session.stderr, "affine") == f"affine: waits {waits}\n"
    held.release()
    status, output = finish(session)
    assert status == 0
    section = output[output.index("affine: waits for devices") :].splitlines()
    assert re.fullmatch(rf"test_\w+\.py::test_it waited \d+\.\d s {waits}", section[1])
    assert re.fullmatch(r"=+ 2 passed in .*", section[2])
    cases = ElementTree.parse(pytester.path / "it.xml").iterfind(".//testcase")
    told = {case.get("name"): case.find("properties/property") for case in cases}
    assert told["test_it"].get("name") == "affine_devices"
    assert re.fullmatch(rf"waited \d+\.\d s {waits}", told["test_it"].get("value"))
    assert told["test_without_ranks"] is None


def test_many_waits_are_not_all_told(pytester):
    test = "@pytest.mark.affine_ranks(1)\ndef test_{}(): pass\n"
    pytester.makepyfile("import pytest\n" + "".join(map(test.format, range(12))))
    _held = lease(0)
    result = pytester.runpytest_inprocess(
        "--affine-devices=0", "--affine-ranks=1", "--affine-lease-timeout=0.3"
    )
    result.assert_outcomes(failed=12)
    lines = result.outlines[result.outlines.index(next(iter(filter(WAITS, result.outlines)))) :]
    assert [line.split()[0] for line in lines[1:12]] == [
        *(f"test_many_waits_are_not_all_told.py::test_{number}" for number in range(10)),
        "and",
    ]
    assert lines[11] == "and 2 more"


WAITS = re.compile("=+ affine: waits for devices =+").fullmatch


@pytest.mark.parametrize("arguments", [[], ["-n2"]])
def test_a_test_that_waits_too_long_fails_and_says_what_to_do(pytester, arguments):
    pytester.makeini("[pytest]\naffine_devices = 0,1,2\naffine_lease_timeout = 0.4")
    pytester.makepyfile(PLAIN)
    _held = lease(0), lease(2)
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            f"waited 0.4 s for 2 of the devices 0, 1, 2; process {os.getpid()} has 0, 2; choices: "
            "fewer ranks, other ids in --affine-devices, a longer --affine-lease-timeout"
        ]
    )


GIVING_WAY = """
import pathlib, time
import pytest

@pytest.fixture(autouse=True)
def done(request):
    yield
    pathlib.Path("done", request.node.name).touch()

@pytest.mark.affine_ranks(2)
@pytest.mark.parametrize("number", range(40))
def test_it(number):
    time.sleep(0.1)

@pytest.mark.parametrize("number", range(40))
def test_without_ranks(number):
    time.sleep(0.1)
"""


@pytest.mark.parametrize("chosen", ["test_it", "test_it[0] or test_without_ranks"])
def test_a_session_that_goes_on_gives_its_devices_to_one_that_waits(pytester, start, chosen):
    pytester.makepyfile(GIVING_WAY)
    done = pytester.mkdir("done")
    session = start("--affine-devices=0,1", "--affine-ranks=2", "-v", "-k", chosen)
    read_until(session.stdout, "test_it.0. PASSED")
    lease(0, 1, seconds=20.0).release()
    num_done = len([*done.iterdir()])
    assert finish(session)[0] == 0
    assert num_done < len([*done.iterdir()])


def test_pools_of_one_session_keep_their_devices_as_long_as_there_are_enough(pytester):
    pytester.makepyfile(
        """
        import pytest

        IDS = {1: [0], 3: [1, 2, 3], 4: [0, 1, 2, 3]}
        PIDS = {}

        @pytest.mark.parametrize("size", [pytest.param(n, marks=MARK(n)) for n in (1, 3, 1, 4, 1)])
        def test_it(affine_ranks, affine_device_id, size):
            import os

            assert affine_ranks.run(lambda index: index, affine_device_id) == IDS[size]
            PIDS.setdefault(size, []).append(affine_ranks.run(os.getpid))

        def test_processes():
            one, again, anew = PIDS[1]
            assert one == again != anew
        """.replace("MARK", "pytest.mark.affine_ranks")
    )
    result = pytester.runpytest_inprocess("--affine-devices=0,1,2,3", "--affine-lease-timeout=0.1")
    result.assert_outcomes(passed=6)
    assert "affine" not in result.stderr.str()


KILLED = """
import os, pathlib, signal
import pytest

@pytest.mark.parametrize("number", range(6))
def test_it(affine_ranks, number):
    affine_ranks.run(abs, -1)
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_devices_of_a_killed_worker_are_there_for_the_others(pytester):
    pytester.makepyfile(KILLED)
    result = pytester.runpytest_subprocess("-n2", "--affine-devices=0,1,2,3")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["*worker 'gw*' crashed while running *test_it?2?'"])


DYING = """
import os
import pytest

@pytest.mark.affine_ranks(2)
@pytest.mark.parametrize("number", range(4))
def test_it(number, affine_rank):
    if number % 2 and affine_rank:
        os._exit(3)
"""


def test_a_dying_rank_gives_its_device_back_and_leaves_its_worker_alive(pytester):
    pytester.makepyfile(DYING)
    result = pytester.runpytest_subprocess("-n2", "--affine-devices=0,1", "--affine-ranks=2")
    result.assert_outcomes(passed=2, failed=2)
    assert result.stdout.str().count("rank 1 of 2: exited with status 3\n") == 2
    result.stdout.no_fnmatch_line("*crashed*")


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("0,x", "--affine-devices must be integers with commas between them, got '0,x'"),
        ("0,,1", "--affine-devices must be integers with commas between them, got '0,,1'"),
        (
            "0,-1,2,3",
            "device ids (--affine-devices) must be different integers from 0 on, got 0, -1, 2, 3",
        ),
        (
            "1,2,2,3",
            "device ids (--affine-devices) must be different integers from 0 on, got 1, 2, 2, 3",
        ),
        (
            "0,1,2 --affine-ranks=4",
            "asked for 4 ranks on gloo, each with a device id of its own; --affine-devices has "
            "0, 1, 2; choices: at most 3 ranks, more ids in --affine-devices",
        ),
    ],
)
def test_ids_that_can_not_be_stop_the_session_before_it_collects(pytester, ids, message):
    result = pytester.runpytest_inprocess(*f"--affine-devices={ids}".split())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}" in result.errlines
    assert "collected" not in result.stdout.str()


def test_fewer_ids_than_ranks_by_default_are_enough_for_tests_that_say_how_many_they_take(
    pytester,
):
    text = "import pytest\n@pytest.mark.affine_ranks(2)\ndef test_it(): pass"
    pytester.makepyfile(text)
    pytester.runpytest_subprocess("--affine-devices=0,1").assert_outcomes(passed=1)


def test_a_wait_must_be_of_some_length(pytester):
    result = pytester.runpytest_inprocess("--affine-lease-timeout=0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    rule = "must be a number from 0.1 to 86400.0"
    assert f"ERROR: --affine-lease-timeout {rule}, got '0'" in result.errlines


def test_no_ids_on_the_command_line_turn_those_of_the_ini_file_off(pytester):
    pytester.makeini("[pytest]\naffine_devices = 3")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.affine_ranks(1)
        def test_it(affine_device_id):
            assert affine_device_id == 3
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    result = pytester.runpytest_inprocess("--affine-devices=")
    result.stdout.fnmatch_lines(["rank 0 of 1: AssertionError: assert None == 3"])


def test_ranks_that_certify_lease_devices_too(pytester):
    arguments = ["--affine-certify=reference", "--affine-ranks=2", "-k", "MAP-HOLD and replica"]
    arguments += ["--affine-devices=0,1", "--affine-lease-timeout=0.3"]
    held = lease(1)
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*RankSetupError: waited 0.3 s for 2 of the devices 0, 1; *", "profile affine: ERROR"]
    )
    held.release()
    assert pytester.runpytest_subprocess(*arguments).ret == 0
