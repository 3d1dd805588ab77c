"""The gate as a user sees it: every test runs pytest in a process of its own."""

import re

import pytest

from pytest_affine.fixtures.syncs import SYMBOLIC

pytestmark = pytest.mark.long

CASE = SYMBOLIC[0].to_line()
"""The only case of every session here, so that even a mutant that survives does so quickly.

It is the one that every test of a planner can take.
"""

MODULE = """
import os, sys, time
from dataclasses import replace
from pytest_affine import Implementation
from pytest_affine.adapters.reference import Reference
from pytest_affine.mutants import Mutant
from pytest_affine.reference import planner


class Planner(Implementation):
    def plan_transfer(self, source, target):
        return planner.plan_transfer(source, target)


class Remembering(Planner):
    plans = {}

    def plan_transfer(self, source, target):
        key = str((source, target))
        if key not in self.plans:
            self.plans[key] = planner.plan_transfer(source, target)
        return self.plans[key]


class Knowing(Planner):
    def start(self, group):
        known = {"pytest_affine.conformance.plans", "pytest_affine.mutants.faults.plans"}
        assert known <= set(sys.modules), "each rank imports the suite anew"


class Withholding(Planner):
    def supports(self, sync):
        return "not today"


class NotStopping(Planner):
    def stop(self):
        raise RuntimeError("too late")


class Changes(Implementation):
    def plan_transfer(self, source, target, **options):
        return self.changed(super().plan_transfer(source, target, **options))


class DoesNothing(Changes):
    def changed(self, plan):
        return plan


class CountsOneMore(Changes):
    def changed(self, plan):
        return replace(plan, moved_elements=plan.moved_elements + 1)


class Slips(Changes):
    def changed(self, plan):
        return plan.no_such_thing


class Exits(Changes):
    def changed(self, plan):
        os._exit(3)


class Hangs(Changes):
    def changed(self, plan):
        time.sleep(100)


class OrdersByHash(Changes):
    def changed(self, plan):
        return replace(plan, segments=tuple(sorted(plan.segments, key=lambda s: hash(str(s)))))


class Digests(Implementation):
    def plan_digest(self, *args, **options):
        return ""


class IsUnmade(Implementation):
    def __init__(self):
        raise RuntimeError("no luck")


class OfTheReference(Reference):
    pass


class Patches(Implementation):
    def __init__(self):
        right = planner.plan_transfer
        planner.plan_transfer = lambda *args, **options: replace(
            right(*args, **options), moved_elements=7
        )


def mutant(id, fault, requirement="PLAN-ONCE", **more):
    sentence = f"{fault} as a test says."
    return Mutant(
        id=id, requirement=requirement, sentence=sentence, fault=f"mine:{fault}", **more
    )


SOME_IDS = ("counts-one-more", "slips", "is-the-same", "digests")
KILLED = [mutant("counts-one-more", "CountsOneMore", origin="F99")]
ALL = [
    mutant("survives", "DoesNothing"),
    *KILLED,
    mutant("counts-and-tiles", "CountsOneMore", "PLAN-TILE"),
    mutant("counts-or-tiles", "CountsOneMore", "PLAN-TILE", also=("PLAN-ONCE",)),
    mutant("slips", "Slips"),
    mutant("slips-and-says-so", "Slips", raises=True),
    mutant("exits", "Exits"),
    mutant("hangs", "Hangs"),
    mutant("is-gone", "Gone"),
    mutant("is-unmade", "IsUnmade", raises=True),
    mutant("is-the-same", "DoesNothing", equivalent="it does nothing"),
    mutant("is-not-the-same", "CountsOneMore", equivalent="it only counts"),
    mutant("digests", "Digests"),
    mutant("of-the-reference", "OfTheReference"),
]
HASHES = [mutant("orders-by-hash", "OrdersByHash", "PLAN-DETERMINISTIC")]
SOME = [mutant for mutant in ALL if mutant.id in SOME_IDS]
DIGESTS = [mutant("digests", "Digests")]
HANGS = [mutant("hangs-and-says-so", "Hangs", hangs=True), mutant("hangs", "Hangs")]
PATCHES = [mutant("patches", "Patches"), mutant("same", "DoesNothing", equivalent="it is")]
"""

BUCKETS = """
survives           PLAN-ONCE    survived
counts-one-more    PLAN-ONCE    killed as intended
counts-and-tiles   PLAN-TILE    killed by another
counts-or-tiles    PLAN-TILE    killed as intended
slips              PLAN-ONCE    broken
slips-and-says-so  PLAN-ONCE    killed as intended
exits              PLAN-ONCE    broken
hangs              PLAN-ONCE    timed out
is-gone            PLAN-ONCE    broken
is-unmade          PLAN-ONCE    broken
is-the-same        PLAN-ONCE    equivalent
is-not-the-same    PLAN-ONCE    not equivalent
digests            PLAN-ONCE    not applicable
of-the-reference   PLAN-ONCE    not applicable
""".strip().splitlines()

SOME_BUCKETS = """
counts-one-more  PLAN-ONCE    killed as intended
slips            PLAN-ONCE    broken
is-the-same      PLAN-ONCE    equivalent
digests          PLAN-ONCE    not applicable
""".strip().splitlines()

COUNTS = (
    "3 killed as intended, 1 killed by another, 1 survived, 1 equivalent, 1 not equivalent, "
    "4 broken, 1 timed out, 2 not applicable"
)


@pytest.fixture
def run(pytester):
    pytester.makepyfile(mine=MODULE)

    def run(*arguments, name="mine:Planner", of=None):
        if of is not None:
            # A short list in place of the catalogue.
            pytester.makeconftest(
                f"import mine\nfrom pytest_affine.mutants import catalogue\n"
                f"catalogue.CATALOGUE = tuple(mine.{of})\n"
            )
            arguments = ("--affine-mutants", *arguments)
        return pytester.runpytest_subprocess(
            "-p",
            "no:cacheprovider",
            "--affine-ranks=1",
            f"--affine-certify={name}",
            f"--affine-case={CASE}",
            *arguments,
        )

    return run


def table(result):
    """The table of mutants without its last two columns."""
    lines = [line.rstrip() for line in result.outlines]
    start = next(i for i, line in enumerate(lines) if re.match(r"mutant +requirement +", line))
    rows = lines[start + 1 : lines.index("", start)]
    return [re.split(r" {2,}\d+\.\d ", row)[0].rstrip() for row in rows]


def test_every_mutant_ends_in_its_bucket_and_is_told_with_what_ran(run):
    result = run("--affine-timeout=4", of="ALL")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert table(result) == BUCKETS
    result.stdout.fnmatch_lines(
        [
            "affine: gate with 14 of 14 mutants",
            "mutant survives survived: no test noticed it",
            "  DoesNothing as a test says.",
            "must be noticed by",
            "  PLAN-ONCE: `moved_elements` is the sum *",
            "ran * inputs of * requirements",
            "rerun:",
            "  pytest --affine-certify=mine:Planner --affine-ranks=1 --affine-backend=gloo "
            "--affine-seed=0 --affine-examples=25 --affine-mutant=survives '--affine-case={*",
            "mutant counts-and-tiles killed by another: *",
            "noticed by PLAN-ONCE in moved_elements*",
            "  PLAN-ONCE wrong moved_elements: 1025 instead of 1024",
            "counts-one-more *PLAN-ONCE moved_elements*[[]replayed[]]",
            "counts-or-tiles *PLAN-ONCE moved_elements*",
            "gate: FAILED",
            f"  of 14 mutants: {COUNTS}",
            "  survives: survived: no test noticed it",
            "  counts-and-tiles: killed by another: *",
            "  slips: broken: its own code is at fault: rank 0 of 1: AttributeError: *",
            "  exits: broken: it does not say that it ends a rank: *exited with status 3",
            "  hangs: timed out: it does not say that it hangs: *no answer within 4.0 s",
            "  is-gone: broken: fault 'mine:Gone' cannot be imported: AttributeError: *",
            "  is-unmade: broken: its own code is at fault: *cannot be made: RuntimeError: no luck",
            "  is-not-the-same: not equivalent: *",
        ]
    )


@pytest.mark.parametrize("dist", ["load", "loadscope"])
def test_under_xdist_the_table_and_the_verdict_are_the_same(run, dist):
    result = run("-n", "2", "--dist", dist, of="SOME")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert table(result) == SOME_BUCKETS
    result.stdout.fnmatch_lines(
        [
            "gate: FAILED",
            "  of 4 mutants: 1 killed as intended, 1 equivalent, 1 broken, 1 not applicable",
            "  slips: broken: *",
        ]
    )


def test_a_gate_that_is_passed_keeps_the_exit_status_and_shows_what_was_said(run):
    result = run("-rP", of="KILLED")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*PASSES*",
            "  PLAN-ONCE wrong moved_elements: 1025 instead of 1024",
            "gate: PASSED",
            "  of 1 mutants: 1 killed as intended",
            "  no mutant applies to *PLAN-TILE*",
        ]
    )


def test_a_gate_that_failed_fails_the_session_though_every_item_passed(run):
    result = run("-k", "PLAN-ONCE", name="reference", of="KILLED")
    assert result.parseoutcomes().keys() == {"passed", "deselected"}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gate: FAILED", "  no mutant is for MAP-COVER, *"])


def test_a_gate_whose_mutants_all_do_not_apply_has_run_nothing(run):
    result = run(of="DIGESTS")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "digests *not applicable*- not claimed: plan_digest",
            "gate: FAILED",
            "  no mutant was run",
        ]
    )


def test_what_is_not_judged_without_a_mutant_is_not_judged_with_it(run):
    result = run("-rs", name="mine:Withholding", of="KILLED")
    result.stdout.fnmatch_lines(
        [
            "counts-one-more *not judged*",
            "gate: PARTIAL",
            "  1 of 1 mutants were not judged",
            "*nothing noticed it, but PLAN-ONCE*is withheld without the mutant too: not today",
        ]
    )


def test_ranks_are_new_for_a_mutant_and_do_not_outlive_it(run):
    result = run("-k", "PLAN-ONCE", name="mine:Remembering", of="PATCHES")
    assert table(result) == [
        "patches  PLAN-ONCE    killed as intended",
        "same     PLAN-ONCE    equivalent",
    ]


def test_ranks_are_forked_from_a_process_that_knows_the_suite_and_the_mutants(run):
    result = run("-k", "PLAN-ONCE", name="mine:Knowing", of="KILLED")
    result.stdout.fnmatch_lines(["PLAN-ONCE *conformant*", "gate: PASSED"])


def test_the_control_is_right_after_mutants_too(run, pytester):
    pytester.makepyfile(
        backwards="""
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(items):
            items.reverse()
        """
    )
    arguments = ("-k", "PLAN-ONCE", "-p", "backwards", "-v")
    result = run(*arguments, name="mine:Remembering", of="PATCHES")
    result.stdout.fnmatch_lines(["*::patches PASSED*", "*::test_moved_elements*", "gate: PASSED"])


def test_a_mutant_is_one_in_fresh_interpreters_too(run):
    result = run("-k", "PLAN-DETERMINISTIC", of="HASHES")
    assert table(result) == ["orders-by-hash  PLAN-DETERMINISTIC  killed as intended"]


def test_a_mutant_that_says_it_hangs_is_given_less_time(run):
    result = run("--affine-timeout=6", "-k", "PLAN-ONCE", "-rP", of="HANGS")
    result.stdout.fnmatch_lines(
        [
            "*_ hangs-and-says-so _*",
            "rank 0 of 1: no answer within 5.0 s",
            "hangs-and-says-so *killed as intended*",
            "  hangs: timed out: *no answer within 6.0 s",
        ]
    )


def test_one_mutant_is_tried_with_the_tests_of_its_own_requirement(run):
    result = run("--affine-mutant=mine:KILLED", "-v")
    items = [line for line in result.outlines if re.match(r"pytest_affine/\S+ ", line)]
    assert [re.sub(r".*::", "", line).split()[0] for line in items] == [
        "test_moved_elements_is_the_sum_of_segments_none_of_them_empty[replayed]",
        "counts-one-more",
    ]
    result.stdout.fnmatch_lines(["profile affine: PARTIAL", "gate: PARTIAL"])
    assert result.ret == 0


def test_a_mutant_of_a_list_is_run_again_with_its_list(run):
    result = run("--affine-mutant=mine:ALL", "-k", "survives or PLAN-ONCE and not s")
    result.stdout.fnmatch_lines(["  pytest *--affine-mutant=mine:ALL*"])


def test_mutants_are_collected_as_items(run):
    result = run("--collect-only", "-q", of="KILLED")
    assert "pytest_affine/mutants::counts-one-more" in result.outlines
    assert "gate:" not in result.stdout.str()
    assert result.ret == 0


def test_a_stop_that_fails_is_still_told(run):
    result = run(name="mine:NotStopping", of="KILLED")
    result.stdout.fnmatch_lines(["the implementation's stop failed: *", "gate: PASSED"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--affine-mutant=counts-one-mor"], "unknown mutant 'counts-one-mor'; there are 1, of *"),
        (["--affine-mutant=mine:Gone"], "mutants 'mine:Gone' (mine:Gone) cannot be had: *"),
        (
            ["--affine-certify="],
            "--affine-mutants and --affine-mutant need --affine-certify or --affine-mutate",
        ),
    ],
)
def test_mutants_that_can_not_be_had_stop_the_session(run, arguments, message):
    result = run(*arguments, of="KILLED")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*"])
