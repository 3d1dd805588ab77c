"""The plugin as a user sees it: every test runs pytest in a process of its own."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import pytest_affine
from pytest_affine.contract.suite import suite_tests

NUM_ITEMS = sum(len(test.case_names()) for tests in suite_tests().values() for test in tests)

IMPLEMENTATIONS = """
import ctypes, os, time
from dataclasses import replace
from pytest_affine import AffineTransferError, Implementation, UnsupportedLayoutError
from pytest_affine.adapters.reference import Reference
from pytest_affine.reference.planner import plan_transfer


class Planner(Implementation):
    def plan_transfer(self, source, target):
        return plan_transfer(source, target)


class Resharder(Implementation):
    '''Swaps the source offsets of the first two segments.'''

    def plan_transfer(self, source, target):
        plan = plan_transfer(source, target)
        if len(plan.segments) < 2:
            return plan
        one, two, *rest = plan.segments
        one, two = (
            replace(one, source_offset=two.source_offset),
            replace(two, source_offset=one.source_offset),
        )
        return replace(plan, segments=(one, two, *rest))


class Refusing(Implementation):
    def plan_transfer(self, source, target):
        raise AffineTransferError("not today")


class TooWide(UnsupportedLayoutError):
    def __init__(self, width, limit):
        super().__init__(f"{width} locations are more than {limit}")


class RefusingInItsOwnWords(Planner):
    def plan_transfer(self, source, target):
        raise TooWide(len(source.locations), 0)


class HangingSupports(Planner):
    def supports(self, sync):
        time.sleep(1000)


class Looping(Implementation):
    def plan_transfer(self, source, target):
        while True:
            pass


class Crashing(Implementation):
    def plan_transfer(self, source, target):
        ctypes.string_at(0)


class Slipping(Implementation):
    def plan_transfer(self, source, target):
        return source.pieces_by_locations


class Untyped(Implementation):
    def plan_transfer(self, source, target):
        return [segment.to_dict() for segment in plan_transfer(source, target).segments]


class Withholding(Planner):
    def supports(self, sync):
        return "more than one parameter" if len(sync.parameters) > 1 else None


class NotStarting(Planner):
    def start(self, group):
        raise RuntimeError("no licence")


class NotStopping(Planner):
    def stop(self):
        raise RuntimeError("too late")


class Growing(Reference):
    '''Breaks a SHOULD only: its segments are one row high.'''

    def plan_transfer(self, source, target, **options):
        plan = super().plan_transfer(source, target, **options)
        return replace(plan, segments=[row for s in plan.segments for row in rows(s)])


def rows(segment):
    if not segment.shape or segment.shape[0] < 2:
        return [segment]
    return [
        replace(
            segment,
            shape=(1, *segment.shape[1:]),
            source_offset=segment.source_offset + i * segment.source_strides[0],
            target_offset=segment.target_offset + i * segment.target_strides[0],
        )
        for i in range(segment.shape[0])
    ]
"""


@pytest.fixture
def run(pytester):
    pytester.makepyfile(broken=IMPLEMENTATIONS)

    def run(*arguments, ranks=1, **options):
        fixed = ("-p", "no:cacheprovider", *([f"--affine-ranks={ranks}"] if ranks else []))
        return pytester.runpytest_subprocess(*fixed, *arguments, **options)

    return run


def collected(result):
    return [line for line in result.outlines if line.startswith("pytest_affine/conformance/")]


def imported_by_a_plain_run(pytester, *arguments):
    """What a plain run imports, torch and the like as far as this plugin is the cause."""
    result = pytester.run(sys.executable, "-X", "importtime", "-m", "pytest", *arguments)
    result.assert_outcomes(passed=1)
    return {line.rpartition("|")[2].strip() for line in result.errlines if "|" in line}


def test_a_plain_run_imports_nothing_heavy_for_the_plugin(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_what_is_imported():
            heavy = {"torch", "hypothesis", "cloudpickle", "pytest_affine.session"}
            assert not heavy & set(sys.modules)
        """
    )
    # Hypothesis has a plugin of its own, which may import what it likes.
    without = imported_by_a_plain_run(pytester, "-p", "no:affine")
    extra = imported_by_a_plain_run(pytester) - without
    assert not [name for name in extra if not name.startswith("pytest_affine")]
    assert not [name for name in extra if name.startswith("pytest_affine.contract")]


def test_a_plain_run_prints_nothing_of_the_plugin(pytester):
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_subprocess()
    assert not [line for line in result.outlines if line.startswith("affine")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--affine-backend=nccl"], "asked for 1 rank on nccl"),
        (["--affine-backend=xccl", "--affine-ranks=2"], "asked for 2 ranks on xccl"),
        (["--affine-backend=mpi"], "mpi"),
        (["--affine-ranks=0"], "--affine-ranks must be an integer from 1 to 1024, got '0'"),
        (["--affine-ranks=two"], "--affine-ranks must be an integer from 1 to 1024, got 'two'"),
        (["--affine-timeout=0"], "--affine-timeout must be a number from 0.1 to 86400.0, got '0'"),
        (
            ["--affine-timeout=inf"],
            "--affine-timeout must be a number from 0.1 to 86400.0, got 'inf'",
        ),
        (
            ["--affine-seed=-1"],
            "--affine-seed must be an integer from 0 to 9223372036854775807, got '-1'",
        ),
        (
            ["--affine-examples=0"],
            "--affine-examples must be an integer from 1 to 1000000, got '0'",
        ),
        (["--affine-case={}"], "--affine-case: case lacks the key 'kind'"),
        (
            ['--affine-case={"kind":"builder"}', "--affine-certify=broken:Planner"],
            "no test of the suite takes a case of kind 'builder' whose detail has the keys []",
        ),
        (
            ["--affine-certify=referense"],
            "unknown implementation 'referense'; the known ones are deepspeed, reference",
        ),
        (["--affine-certify=nowhere:Mine"], "No module named 'nowhere'"),
        (["--affine-certify=failing:Mine"], "ZeroDivisionError: division by zero"),
        (["--affine-certify=leaving:Mine"], "exited with status 3"),
    ],
)
def test_what_can_not_be_had_stops_the_session_before_it_collects(
    run, pytester, arguments, message
):
    pytester.makepyfile(failing="1 / 0", leaving="import os; os._exit(3)")
    result = run(*arguments, ranks=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
    assert "collected" not in result.stdout.str()


@pytest.mark.parametrize("backend", ["nccl", "xccl"])
def test_a_backend_without_devices_names_what_is_there_and_the_choices(run, backend):
    result = run("--affine-certify=reference", f"--affine-backend={backend}", ranks=4)
    text = result.stderr.str()
    assert result.ret == 4
    assert f"asked for 4 ranks on {backend}" in text
    assert "found 0" in text
    assert "gloo" in text


def test_the_header_says_what_is_in_force(run):
    result = run("--affine-certify=broken:Planner", "-k", "PLAN-SCALE")
    result.stdout.fnmatch_lines(
        [
            "affine: certify broken:Planner unknown, 1 rank on gloo, deadline 30 s, 25 examples, "
            "seed 0"
        ]
    )


SITUATIONS = {
    "as it is": [],
    "python_files of the user": ["-o", "python_files=*.py"],
    "import mode importlib": ["--import-mode=importlib"],
    "import mode append": ["--import-mode=append"],
    "strict": ["--strict-markers", "--strict-config", "-W", "error"],
    "a test file named": ["test_mine.py"],
    "a folder named": ["."],
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_suite_is_collected_exactly_once(run, pytester, situation):
    pytester.makepyfile(test_mine="def test_mine(): pass")
    result = run("--affine-certify=broken:Planner", "--collect-only", "-q", *SITUATIONS[situation])
    assert result.ret == 0
    assert len(collected(result)) == len(set(collected(result))) == NUM_ITEMS
    assert "test_mine.py::test_mine" in result.outlines


def test_an_ini_option_certifies_a_plain_run(run, pytester):
    pytester.makeini("[pytest]\naffine_certify = broken:Planner")
    result = run("-k", "PLAN-SCALE")
    result.stdout.fnmatch_lines(["*affine: broken:Planner unknown*", "PLAN-SCALE *conformant*"])
    pytester.makepyfile("def test_mine(): pass")
    run("--affine-certify=").assert_outcomes(passed=1)


@pytest.mark.parametrize("venv", ["inside", "outside"])
def test_the_suite_is_found_in_a_virtual_environment(
    run, pytester, tmp_path_factory, monkeypatch, venv
):
    base = pytester.path / ".venv" if venv == "inside" else tmp_path_factory.mktemp("venv")
    site = base / "lib" / "site-packages"
    (site.parent).mkdir(parents=True)
    (base / "pyvenv.cfg").write_text("home = /nowhere\n")
    package = Path(pytest_affine.__file__).parent
    shutil.copytree(package, site / "pytest_affine", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", str(site))
    pytester.makepyfile(
        test_copied=f"""
        import pytest_affine
        def test_copied(): assert {str(site)!r} in pytest_affine.__file__
        """
    )
    result = run("--affine-certify=broken:Planner", "-k", "PLAN-SCALE or test_copied")
    result.assert_outcomes(passed=4, deselected=NUM_ITEMS - 3)


def test_under_xdist_the_verdict_is_the_same(run):
    arguments = ["--affine-certify=broken:Planner", "-k", "PLAN-LIMIT or PLAN-TILE or PLAN-EDGE"]
    alone, shared = run(*arguments), run(*arguments, "-n", "2")

    def table(result):
        return [line for line in result.outlines if re.match(r"[A-Z]+-[A-Z]+ |profile|  ", line)]

    assert table(alone) == table(shared)
    assert table(alone)
    assert alone.ret == shared.ret == 0


def test_a_session_that_collects_no_test_of_the_suite_fails_and_says_why(run, pytester):
    pytester.makepyfile(test_mine="def test_mine(): pass")
    for extra in ([], ["-n", "2"]):
        result = run("--affine-certify=broken:Planner", "-k", "test_mine", *extra)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                "profile affine: ERROR",
                f"*nothing was judged: {NUM_ITEMS} tests of the suite were deselected",
            ]
        )


def test_a_planner_that_swaps_two_offsets_is_violated_with_the_smallest_case_and_a_drawing(run):
    result = run("--affine-certify=broken:Resharder", "-k", "PLAN-SOURCE")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "PLAN-SOURCE violated by broken:Resharder",
            "  Each write reads a source shard element that holds the same logical element*",
            "the plan breaks PLAN-SOURCE:",
            "  PLAN-SOURCE wrong element: location *",
            "location 0, shape *",
            "*x wrong element*",
            "replay:",
            "  pytest --affine-certify=broken:Resharder --affine-ranks=1 *",
            "profile affine: VIOLATED",
        ],
    )


def replays(result):
    lines = [line.strip() for line in result.outlines]
    return [lines[i + 1] for i, line in enumerate(lines) if line == "replay:"]


def test_the_line_that_a_failure_prints_replays_it(run):
    first = run("--affine-certify=broken:Resharder", "-k", "PLAN-SOURCE and drawn")
    (line,) = replays(first)
    case = json.loads(re.search(r"--affine-case=(\{.*\})", line)[1])
    assert len(case["sync"]["parameters"]) <= 2
    again = run(
        "--affine-certify=broken:Resharder",
        "-k",
        "PLAN-SOURCE",
        f"--affine-case={json.dumps(case)}",
    )
    again.assert_outcomes(failed=1, deselected=again.parseoutcomes()["deselected"])
    assert replays(again) == [line]


def test_one_that_refuses_everything_is_not_conformant(run):
    result = run("--affine-certify=broken:Refusing", "-k", "PLAN-TILE")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["PLAN-TILE *refused*", "profile affine: ERROR"])


def test_a_refusal_of_a_kind_of_the_adapters_own_is_a_refusal(run):
    result = run("--affine-certify=broken:RefusingInItsOwnWords", "-k", "PLAN-EDGE", "-rs")
    result.stdout.fnmatch_lines(
        ["PLAN-EDGE *refused*", "*UnsupportedLayoutError: 1 locations are more than 0"]
    )


def test_supports_that_hangs_blocks_the_rest(run):
    result = run("--affine-certify=broken:HangingSupports", "-k", "PLAN-EDGE", "--affine-timeout=1")
    result.stdout.fnmatch_lines(["PLAN-EDGE *2 violated, 9 blocked"])


def test_one_that_loops_for_ever_is_violated_and_ends(run):
    result = run("--affine-certify=broken:Looping", "-k", "PLAN", "--affine-timeout=1", timeout=90)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*no answer within 1*", "PLAN-TILE *blocked*", "profile affine: VIOLATED"]
    )


def test_one_that_crashes_is_violated_and_the_next_test_runs(run):
    result = run("--affine-certify=broken:Crashing", "-k", "PLAN", timeout=90)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*rank 0 of 1: killed by SIGSEGV*", "PLAN-TILE *blocked*", "profile affine: VIOLATED"]
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Slipping", "*AttributeError: 'ParamAffineMap' object has no attribute 'pieces_by_loca*"),
        ("Untyped", "*WrongReturnError: plan_transfer must be TransferPlan, got list*"),
    ],
)
def test_a_slip_of_the_adapter_is_told_apart_from_a_fault_behind_it(run, name, message):
    result = run(f"--affine-certify=broken:{name}", "-k", "PLAN-ONCE")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([message, "PLAN-ONCE *adapter error*", "profile affine: VIOLATED"])


def test_one_that_does_not_start_is_told_by_its_error_and_blocks_the_rest(run):
    result = run("--affine-certify=broken:NotStarting", "-k", "PLAN-SCALE or PLAN-LIMIT")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*RuntimeError: no licence*", "PLAN-SCALE *adapter error*"])


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_one_that_does_not_stop_fails_the_session(run, workers):
    result = run("--affine-certify=broken:NotStopping", "-k", "PLAN-SCALE", *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "PLAN-SCALE *3 conformant",
            "the implementation's stop failed: *",
            "*RuntimeError: too late*",
        ]
    )


def test_what_the_adapter_withholds_is_skipped_with_its_reason(run):
    result = run("--affine-certify=broken:Withholding", "-k", "PLAN-EDGE", "-rs")
    result.stdout.fnmatch_lines(
        ["PLAN-EDGE *10 conformant, 1 withheld", "*PLAN-EDGE withheld: more than one parameter"]
    )


def test_a_should_is_shown_and_does_not_fail_the_session(run):
    result = run("--affine-certify=broken:Growing", "-k", "PLAN-MERGED or PLAN-ONCE")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["PLAN-MERGED (should) *violated*", "profile affine: PARTIAL"])


def test_what_is_not_claimed_is_skipped(run):
    result = run("--affine-certify=broken:Planner", "-k", "EXEC-EXACT or PLAN-ONCE", "-rs")
    result.stdout.fnmatch_lines(
        ["EXEC-EXACT *not claimed*", "*EXEC-EXACT not claimed: execute_transfers"]
    )


def test_the_users_own_fixtures_and_failing_tests_do_not_reach_the_suite(run, pytester):
    pytester.makeconftest(
        """
        import pytest
        @pytest.fixture(autouse=True)
        def implementation(): raise RuntimeError("not for the suite")
        """
    )
    result = run("--affine-certify=broken:Planner", "-k", "PLAN-SCALE")
    assert result.ret == 0
    result.assert_outcomes(passed=3, deselected=NUM_ITEMS - 3)
