"""The fixture and the marker `affine_ranks`, in sessions of pytest that use them."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch  # noqa: F401 - a session within this one would import it and drop it again
from marks import long

import pytest_affine.multirank.marked  # noqa: F401 - as torch

HEAD = """
import asyncio, ctypes, os, resource, signal, sys, threading, time, unittest, warnings
import pytest, torch
import torch.distributed as dist
from hypothesis import given, strategies as st

two = pytest.mark.affine_ranks(2)
"""


CONFTEST = """
import pytest

class Local:
    number = 5

@pytest.fixture
def local():
    return Local()
"""


@pytest.fixture
def run(pytester):
    """Write a test file below the common head and run it; in a process of its own if need be."""

    def run(text, *arguments, alone=False):
        pytester.makeconftest(CONFTEST)
        pytester.makepyfile(test_it=HEAD + text)
        start = pytester.runpytest_subprocess if alone else pytester.runpytest_inprocess
        return start("-p", "no:cacheprovider", "-rA", *arguments)

    return run


def failures(result):
    """{test: text of its failure or error} of a session."""
    found, text = {}, []
    for line in result.outlines:
        if heading := re.fullmatch(r"_+ (?:ERROR at setup of )?(\S+) _+", line):
            text = found.setdefault(heading[1], [])
        elif re.fullmatch(r"=+ .+ =+", line):
            text = []
        else:
            text.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def outcomes(result):
    """{test: its outcome} of a session."""
    lines = result.stdout.str().rpartition("= short test summary")[2]
    return {
        name: word for word, name in re.findall(r"^(\w+) \S+\.py::(\S+)", lines, flags=re.MULTILINE)
    }


HANG = "rank 1 of 2: no answer within 1.0 s"
EVENTS = {
    "exception": (
        "if rank == 1: raise KeyError('gone')\n    wait()",
        "rank 1 of 2: KeyError: 'gone'",
    ),
    "sigkill": (
        "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n    wait()",
        "rank 1 of 2: killed by SIGKILL",
    ),
    "sigsegv": ("if rank == 1: ctypes.string_at(0)\n    wait()", "rank 1 of 2: killed by SIGSEGV"),
    "exit_0": ("if rank == 1: os._exit(0)\n    wait()", "rank 1 of 2: exited with status 0"),
    "exit_3": ("if rank == 1: os._exit(3)\n    wait()", "rank 1 of 2: exited with status 3"),
    "sys_exit": ("if rank == 1: sys.exit()\n    wait()", "rank 1 of 2: exited with status 0"),
    "loop_holding_the_gil": (
        "while rank == 1: ctypes.PyDLL(None).sleep(60)",
        HANG,
    ),
    "endless_wait": (
        "if rank == 1: dist.recv(torch.ones(1), 0)",
        HANG,
    ),
    "collective_of_all_but_one": (
        "if rank == 1: time.sleep(60)\n    wait()",
        HANG,
    ),
    "mismatched_collectives": (
        "dist.all_reduce(torch.ones(1 + 10**6 * rank))",
        "rank [01] of 2: *",
    ),
    "skip_on_one": (
        "if rank == 1: pytest.skip('no GPU')\n    wait()",
        "rank 1 of 2: Skipped: no GPU (a skip counts only if every rank skips)",
    ),
    "result": (
        "return threading.Lock() if rank == 1 else None",
        "rank 1 of 2: the result, of type _thread.lock, cannot be pickled: TypeError: *",
    ),
    "error": (
        "if rank == 1: raise Stubborn()\n    wait()",
        "rank 1 of 2: *Stubborn: holds a lock",
    ),
    "left_behind": ("dist.new_group()", "rank 0 of 2: left behind: *group*"),
    "output": (
        "for _ in range(100 * rank): os.write(1, b'x' * 2**20)\n    assert rank == 0",
        "rank 1 of 2: AssertionError: assert 1 == 0",
    ),
    "out_of_memory": (
        "if rank == 1: resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)); bytearray(2**31)",
        "rank 1 of 2: MemoryError",
    ),
}

EVENT = """
@pytest.mark.affine_ranks(2, timeout={timeout})
def test_{name}(affine_rank):
    rank = affine_rank
    {body}

@two
def test_after_{name}():
    wait()
"""

BEFORE_EVENTS = """
class Stubborn(Exception):
    def __init__(self):
        super().__init__("holds a lock")
        self.lock = threading.Lock()

def wait():
    dist.all_reduce(torch.ones(1))

def num_descriptors():
    return len(os.listdir("/proc/self/fd"))

@pytest.mark.affine_ranks(2)
def test_before(affine_ranks):
    affine_ranks.run(wait)
    counts.append(num_descriptors())

counts = []

@two
def test_fork(affine_rank):
    if os.fork() == 0:
        return
    wait()

@two
def test_after_fork():
    wait()
"""

AFTER_EVENTS = """
@pytest.mark.affine_ranks(2)
def test_nothing_is_left(affine_ranks):
    (server, _) = affine_ranks.run(os.getppid)
    with open(f"/proc/{server}/task/{server}/children") as file:
        assert len(file.read().split()) == 2
    assert num_descriptors() == counts[0]
"""


def test_whatever_befalls_a_rank_the_rank_and_cause_are_told_and_the_next_test_passes(run):
    tests = [
        EVENT.format(name=name, body=body, timeout=1 if HANG in text else 20)
        for name, (body, text) in EVENTS.items()
    ]
    result = run("".join([BEFORE_EVENTS, *tests, AFTER_EVENTS]), alone=True)
    failed, words = failures(result), outcomes(result)
    for name, (_, text) in EVENTS.items():
        pytest.LineMatcher(failed.pop(f"test_{name}").splitlines()[:1]).fnmatch_lines(text)
        assert words.pop(f"test_{name}") == "FAILED"
    assert not failed
    assert {*words.values()} == {"PASSED"}
    assert len(words) == len(EVENTS) + 4
    assert len(result.stdout.str()) < 100_000


BODIES = """
class Thing:
    def __init__(self, number):
        self.number = number

@pytest.fixture
def thing():
    yield Thing(3)

class Mark:
    lock = threading.Lock()

@two
def test_arguments(thing, tmp_path, affine_rank, affine_world_size, affine_device):
    assert isinstance(thing, Thing) and thing.number == 3
    assert tmp_path.is_dir()
    assert (affine_rank, affine_world_size) == (dist.get_rank(), 2)
    total = torch.ones(1, device=affine_device)
    dist.all_reduce(total)
    assert total.item() == 2

@two
def test_wire(affine_wire, affine_rank):
    before = affine_wire.mark()
    dist.all_reduce(torch.ones(3))
    (event,) = affine_wire.events_since(before)
    assert (event.kind, event.num_bytes, event.group_ranks) == ("all_reduce", 12, (0, 1))
    assert "affine_rank" not in repr(affine_rank)

def test_outside(affine_ranks, affine_rank):
    assert repr(affine_rank) == "<affine_rank: each rank has its own>"

def make(base):
    def local(mark, offset=0):
        with pytest.raises(ValueError, match="not today"):
            raise ValueError("not today")
        assert dist.get_world_size() == base + offset
    return local

test_closure = two(pytest.mark.parametrize("mark", [1, 2])(make(2)))

@pytest.fixture
def nested(affine_rank):
    return {"rank": [affine_rank]}

@two
class TestMethods:
    number = 5

    @pytest.fixture(autouse=True)
    def set(self):
        self.own = 6

    @pytest.mark.parametrize("lock", [Mark.lock], ids=["lock"])
    def test_lock(self, lock):
        pass

    def test_method(self, nested):
        assert nested == {"rank": [dist.get_rank()]}
        assert (self.number, self.own) == (5, 6)

def test_default(affine_ranks, affine_rank):
    base = 3
    assert affine_ranks.num_ranks == 4
    assert affine_ranks.run(lambda rank, *, n: base + rank * n, affine_rank, n=2) == [3, 5, 7, 9]

@pytest.mark.affine_ranks(3)
def test_some(affine_ranks):
    assert (affine_ranks.num_ranks, affine_ranks.backend, affine_ranks.timeout) == (3, "gloo", 30)
    assert affine_ranks.run(os.getpid) == affine_ranks.run(os.getpid)
    assert os.getpid() not in affine_ranks.run(os.getpid)

pids = []

@pytest.mark.parametrize("time", range(2))
@pytest.mark.affine_ranks(3)
def test_shared(affine_ranks, time):
    pids.append(affine_ranks.run(os.getpid))
    assert pids[time] == pids[0]
"""


def test_bodies_take_values_of_fixtures_and_functions_come_from_anywhere(run):
    result = run(BODIES)
    (failed,) = failures(result).items()
    assert failed[0] == "TestMethods.test_lock[lock]"
    assert failed[1] == (
        "argument 'lock', of type _thread.lock, cannot be sent to ranks: "
        "TypeError: cannot pickle '_thread.lock' object"
    )
    assert [*outcomes(result).values()].count("PASSED") == 10


TOLD = """
@two
def test_diff(affine_rank):
    print("printed", affine_rank)
    assert [1, affine_rank] == [1, 0]

@two
@pytest.mark.xfail
def test_marked_xfail():
    assert False

@two
def test_skip():
    pytest.skip("no GPU")

@two
def test_xfail(affine_rank):
    if affine_rank == 1:
        pytest.xfail("known")

@two
def test_xfail_and_error(affine_rank):
    if affine_rank == 1:
        pytest.xfail("known")
    assert affine_rank

@two
def test_fail(affine_rank):
    pytest.fail("as I say")

@two
def test_printing(affine_rank):
    if affine_rank:
        print("fine", affine_rank)

def test_run(affine_ranks):
    affine_ranks.run(lambda: 1 / 0)
"""


def test_a_report_has_the_first_rank_its_traceback_the_others_and_what_they_printed(run):
    result = run(TOLD)
    told = failures(result)
    assert re.fullmatch(DIFF, told.pop("test_diff"))
    assert told.pop("test_fail").count("outcomes.py") == 0
    assert told.pop("test_xfail_and_error").startswith("rank 0 of 2: AssertionError: assert 0\n")
    assert ">       affine_ranks.run(lambda: 1 / 0)\nE   " in (text := told.pop("test_run"))
    assert re.search(r"RankFailure: rank \d of 4: ZeroDivisionError: division by zero\n", text)
    assert "launcher.py" not in text
    assert re.fullmatch(
        "-+ Captured stdout and stderr of rank 1 call -+\nfine 1", told.pop("test_printing")
    )
    assert not told
    result.stdout.fnmatch_lines(
        [
            "PASSED test_it.py::test_printing",
            "SKIPPED [[]1] test_it.py:*: no GPU",
            "XFAIL test_it.py::test_marked_xfail",
            "XFAIL test_it.py::test_xfail - known",
            "FAILED test_it.py::test_diff - Failed: rank 1 of 2: AssertionError: assert [[]1...",
        ]
    )
    result.assert_outcomes(passed=1, skipped=1, xfailed=2, failed=4)


DIFF = r"""rank 1 of 2: AssertionError: assert \[1, 1\] == \[1, 0\]

Traceback \(most recent call last\):
  File ".*test_it.py", line \d+, in test_diff
    assert \[1, affine_rank\] == \[1, 0\]
AssertionError: assert \[1, 1\] == \[1, 0\]
 *
  At index 1 diff: 1 != 0
  Use -v to get more diff

output of rank 1 of 2:
printed 1
-+ Captured stdout and stderr of rank 0 call -+
printed 0"""


NUMBER = "the number of ranks must be an integer from 1 to 1024, got"
TIMEOUT = "timeout must be a number from 0.1 to 86400.0, in seconds, got"
REFUSED = {
    "0": f"{NUMBER} 0",
    "1025": f"{NUMBER} 1025",
    "'4'": f"{NUMBER} '4'",
    "True": f"{NUMBER} True",
    "2.0": f"{NUMBER} 2.0",
    "2, 3": "it takes one number of ranks",
    "2, n=3": "it takes one number of ranks",
    "2, deadline=3": "unknown argument 'deadline'; choices: n, timeout",
    "2, timeout=0": f"{TIMEOUT} 0",
    "timeout='2'": f"{TIMEOUT} '2'",
    "timeout=86401": f"{TIMEOUT} 86401",
}


def test_a_marker_that_says_what_can_not_be_fails_its_test_and_starts_nothing(run):
    tests = [
        f"@pytest.mark.affine_ranks({arguments})\ndef test_{index}(): pass\n"
        for index, arguments in enumerate(REFUSED)
    ]
    result = run("".join(tests) + "def test_fixture(affine_ranks): pass")
    assert failures(result) == {
        f"test_{index}": f"@pytest.mark.affine_ranks({arguments}): {rule}"
        for index, (arguments, rule) in enumerate(REFUSED.items())
    }
    result.assert_outcomes(failed=len(REFUSED), passed=1)


REFUSED_BODIES = """
@two
def test_monkeypatch(monkeypatch):
    pass

@two
def test_capsys(capsys):
    pass

@two
async def test_async():
    pass

@two
@given(st.integers())
def test_drawn(number):
    pass

@two
class TestCase(unittest.TestCase):
    def test_method(self):
        pass

@two
def test_lock(lock):
    pass

@pytest.fixture
def lock():
    return threading.Lock()

@two
def test_value(affine_rank):
    return affine_rank or None

LOCK = threading.Lock()

@two
def test_global():
    LOCK.acquire()
"""


def test_a_value_of_each_rank_is_refused_to_a_test_that_has_no_ranks(run):
    text = """
def test_unmarked(affine_rank):
    assert affine_rank != 0

def test_with_ranks(affine_ranks, affine_rank):
    assert affine_ranks.run(abs, affine_rank) == [0, 1, 2, 3]
"""
    result = run(text)
    assert failures(result)["test_unmarked"].strip() == (
        "affine_rank is a value of each rank, and this test has none; "
        "choices: @pytest.mark.affine_ranks(n), the fixture affine_ranks"
    )
    result.assert_outcomes(errors=1, passed=1)


def test_what_can_not_run_on_ranks_is_refused_by_name(run):
    told = failures(run(REFUSED_BODIES))
    for name in ("monkeypatch", "capsys"):
        assert told.pop(f"test_{name}") == (
            f"a body on ranks cannot take the fixture '{name}', which acts on pytest's own process;"
            " take the fixture affine_ranks and call its run"
        )
    assert told.pop("test_async") == (
        "an async body cannot run on ranks; a plain one can, and may call asyncio.run"
    )
    assert told.pop("test_drawn") == (
        "a body with @given cannot run on ranks, each of which would draw values of its own; "
        "take the fixture affine_ranks and call its run"
    )
    assert told.pop("TestCase.test_method") == (
        "TestCase is a unittest.TestCase, whose methods cannot run on ranks"
    )
    reason = "cannot be sent to ranks: TypeError: cannot pickle '_thread.lock' object"
    assert told.pop("test_lock") == f"argument 'lock', of type _thread.lock, {reason}"
    assert re.fullmatch(
        rf"the function <function test_global at \w+> {reason}", told.pop("test_global")
    )
    assert told.pop("test_value") == (
        "a test must return None; on rank 1 it returned a value of type int"
    )
    assert not told


@pytest.mark.parametrize("backend", ["nccl", "xccl"])
def test_more_ranks_than_devices_are_refused_before_any_starts(run, backend):
    text = "@pytest.mark.affine_ranks(99)\ndef test_it(): pass"
    result = run(text, f"--affine-backend={backend}", "--affine-ranks=1")
    if backend not in result.stderr.str():  # where there is a device for one rank
        assert f"asked for 99 ranks on {backend}, which needs one" in failures(result)["test_it"]


DEADLINES = """
def test_default(affine_ranks):
    affine_ranks.run(time.sleep, 60)

@pytest.mark.affine_ranks(1, timeout=0.2)
def test_marked():
    time.sleep(60)

@pytest.mark.affine_ranks(1)
def test_unmarked():
    time.sleep(60)
"""


def test_a_deadline_is_the_markers_or_the_options_or_the_ini_files(run, pytester):
    pytester.makeini("[pytest]\naffine_timeout = 0.3")
    for arguments, default in (((), 0.3), (("--affine-timeout=0.4",), 0.4)):
        told = failures(run(DEADLINES, "--affine-ranks=1", *arguments))
        assert f"rank 0 of 1: no answer within {default} s" in told["test_default"]
        assert told["test_marked"].startswith("rank 0 of 1: no answer within 0.2 s\n")
        assert told["test_unmarked"].startswith(f"rank 0 of 1: no answer within {default} s\n")
        assert told["test_unmarked"].endswith("in test_unmarked")


def test_an_ini_option_that_is_no_deadline_is_told(run, pytester):
    pytester.makeini("[pytest]\naffine_timeout = soon")
    told = failures(run("def test_it(affine_ranks): pass"))
    assert told == {
        "test_it": "the ini option affine_timeout must be a number from 0.1 to 86400.0, got 'soon'"
    }


WARNINGS = """
class Own(Warning):
    def __init__(self, one, two):
        super().__init__(one, two)

@two
def test_warning(affine_rank):
    warnings.warn("careful", RuntimeWarning)
    warnings.warn(Own("mine", 2))

@two
@pytest.mark.filterwarnings("error:careful")
def test_error(affine_rank):
    warnings.warn("beware")
    warnings.warn("careful")

@two
@pytest.mark.filterwarnings("ignore:careful")
def test_ignored(affine_rank):
    warnings.warn("careful")

def test_recorded(affine_ranks):
    def warn():
        warnings.warn("careful")
        return dist.get_rank()
    with pytest.warns(UserWarning, match="rank 1 of 4: careful"):
        assert affine_ranks.run(warn) == [0, 1, 2, 3]
"""


def test_warnings_of_ranks_obey_the_filters_and_name_the_rank(run):
    result = run(WARNINGS, "-Wdefault", alone=True)
    (told,) = failures(result).items()
    assert told[0] == "test_error"
    assert re.match(r"rank \d of 2: UserWarning: careful\n", told[1])
    assert re.search(r"output of rank \d of 2:\n.*UserWarning: beware\n", told[1])
    shown = re.findall(r"test_it.py:\d+: (\w+: rank .*)", result.stdout.str())
    assert shown == [
        "RuntimeWarning: rank 0 of 2: careful",
        "Own: rank 0 of 2: ('mine', 2)",
        "RuntimeWarning: rank 1 of 2: careful",
        "Own: rank 1 of 2: ('mine', 2)",
        "UserWarning: rank 0 of 4: careful",
        "UserWarning: rank 2 of 4: careful",
        "UserWarning: rank 3 of 4: careful",
    ]
    result.assert_outcomes(passed=3, failed=1, warnings=7)


def test_output_is_not_held_back_where_pytest_captures_nothing(run):
    text = "@pytest.mark.affine_ranks(1)\ndef test_it(): print('at once')"
    result = run(text, "-s")
    result.stdout.fnmatch_lines(["*rank 0 of 1:", "at once"])
    result.stdout.no_fnmatch_line("*Captured*")


FAILING = """
@pytest.mark.affine_ranks(2)
def test_fails(affine_rank, local):
    print("printed", affine_rank)
    assert {affine_rank, local.number} == {0, 5}

@pytest.mark.affine_ranks(2)
def test_passes():
    pass
"""


@pytest.mark.parametrize(
    "dist", ["load", *long("loadscope", "loadfile", "loadgroup", "worksteal", "each")]
)
def test_under_xdist_and_in_junit_xml_the_report_is_the_same(run, pytester, dist):
    workers = ("--tx=2*popen",) if dist == "each" else ("-n2",)
    result = run(
        FAILING, *workers, f"--dist={dist}", "--junitxml=it.xml", "-ojunit_logging=all", alone=True
    )
    times = 2 if dist == "each" else 1
    result.assert_outcomes(failed=times, passed=times)
    assert "rank 1 of 2: AssertionError: assert {1, 5} == {0, 5}" in failures(result)["test_fails"]
    case = next(ElementTree.parse("it.xml").iterfind(".//testcase[failure]"))
    failure, output = case.find("failure"), case.find("system-out")
    assert failure.get("message").startswith(
        "Failed: rank 1 of 2: AssertionError: assert {1, 5} == {0, 5}"
    )
    assert failure.text.startswith(
        "rank 1 of 2: AssertionError: assert {1, 5} == {0, 5}\n\nTraceback"
    )
    assert "output of rank 1 of 2:\nprinted 1" in failure.text
    assert "printed 0" in output.text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--tb=short"], "rank 1 of 2: AssertionError: assert {1, 5} == {0, 5}"),
        (
            ["--tb=line"],
            "*test_it.py:*: Failed: rank 1 of 2: AssertionError: assert {1, 5} == {0, 5}",
        ),
        (["--tb=no"], "FAILED test_it.py::test_fails - Failed: rank 1 of 2: AssertionError: *"),
        (["--tb=native"], "rank 1 of 2: AssertionError: assert {1, 5} == {0, 5}"),
        (["-x"], "*stopping after 1 failures*"),
        (["-vv"], "*Full diff:*"),
        (["--import-mode=importlib"], "rank 1 of 2: AssertionError: assert {1, 5} == {0, 5}"),
    ],
)
def test_pytests_options_do_what_they_do_elsewhere(run, arguments, line):
    result = run(FAILING, *arguments)
    result.stdout.fnmatch_lines([line])
    result.assert_outcomes(failed=1, passed=0 if "-x" in arguments else 1)


def test_a_debugger_does_not_hang(run):
    result = run(FAILING, "--pdb", alone=True)
    result.stdout.fnmatch_lines(
        ["rank 1 of 2: AssertionError: assert {1, 5} == {0, 5}", "*entering PDB*"]
    )
