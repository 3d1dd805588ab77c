"""The command `replay`, on an adapter of a package that has faults."""

import subprocess
import sys

import pytest

from pytest_affine.__main__ import main
from pytest_affine.builders import contiguous_split_map
from pytest_affine.fixtures.syncs import case

PACKAGE = """
from dataclasses import dataclass
from functools import wraps


@dataclass(frozen=True)
class Copy:
    source: int
    start: int
    target: int
    to: int
    length: int


def timed(function):
    @wraps(function)
    def called(*args, **kwargs):
        return function(*args, **kwargs)

    return called


class Planner:
    def __init__(self, source_rows, target_rows):
        self.source_rows = source_rows
        self.target_rows = target_rows

    def plan(self, *, leave_out):
        copies, source_end = [], 0
        for source, num_source in enumerate(self.source_rows):
            target_end = 0
            for target, num_target in enumerate(self.target_rows):
                start = max(source_end, target_end)
                end = min(source_end + num_source, target_end + num_target)
                if start < end:
                    copies.append(
                        Copy(source, start - source_end, target, start - target_end, end - start)
                    )
                target_end += num_target
            source_end += num_source
        return copies[: len(copies) - leave_out]


def add(target, group):
    import torch.distributed as dist

    dist.all_reduce(target, group=group)
"""

ADAPTER = """
import toy_reshard

from pytest_affine import Implementation
from pytest_affine.plans import TransferPlan, TransferSegment, TransferStats


class Planning(Implementation):
    version = "1.0"

    def plan_transfer(self, source, target):
        rows = ([m.shard_size(at) for at in m.locations] for m in (source, target))
        copies = toy_reshard.Planner(*rows).plan(leave_out=1)
        segments = [
            TransferSegment(
                source_location=copy.source,
                source_offset=copy.start,
                source_strides=(1,),
                target_location=copy.target,
                target_offset=copy.to,
                target_strides=(1,),
                shape=(copy.length,),
            )
            for copy in copies
        ]
        moved = sum(copy.length for copy in copies)
        return TransferPlan(segments, source.logical_shape, None, None, moved)

    def plan_to_dict(self, plan):
        raise KeyError("segments")

    def plan_from_dict(self, entry):
        raise KeyError("segments")


class Adding(Implementation):
    def execute_transfers(
        self, plans, source_buffers, target_buffers, endpoints, *, dtype, budget, group=None
    ):
        toy_reshard.add(*(held[at] for held in target_buffers.values() for at in held), group)
        return TransferStats(
            segments=0, chunks=0, rounds=0, local_copy_bytes=0, sent_bytes=0, received_bytes=0
        )


class Apart(Implementation):
    def plan_transfer(self, source, target):
        return TransferPlan((), source.logical_shape, None, None, 0)
"""

ROWS = case(
    "rows", (contiguous_split_map((4,), [2, 2], 0), contiguous_split_map((4,), [3, 1], 0))
).to_line()
EVEN = case("even", (contiguous_split_map((4,), [2, 2], 0),) * 2).to_line()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "toy_reshard.py").write_text(PACKAGE)
    (tmp_path / "toy_adapter.py").write_text(ADAPTER)
    return tmp_path


@pytest.fixture
def replay(folder, monkeypatch, capsys):
    """Runs the command in the folder; returns exit status, output and errors."""
    monkeypatch.chdir(folder)

    def run(*arguments):
        status = main(["replay", "--ranks", "2", *arguments])
        return status, *capsys.readouterr()

    return run


def toy(name, requirement, *arguments):
    return "--implementation", f"toy_adapter:{name}", "--requirement", requirement, *arguments


def output_of(path):
    """What a script prints that has the folder's package and nothing of this project."""
    done = subprocess.run(
        [sys.executable, path.name],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_violation_is_told_and_a_script_shows_it_with_the_package_alone(folder, replay):
    status, output, _ = replay(ROWS, *toy("Planning", "PLAN-TILE", "--script", "show.py"))
    assert status == 1
    assert output.startswith("PLAN-TILE violated (test_every_target_element_is_written_exactly_")
    assert "never written: location 1 [0:1], 1 element" in output
    assert output.endswith("a script of the calls was written to show.py\n")
    script = (folder / "show.py").read_text()
    assert script.startswith('"""toy_adapter:Planning 1.0. Expected: Every element of every target')
    assert "pytest_affine" not in script
    planner = "value_1 = toy_reshard.Planner([2, 2], [3, 1])"
    assert f"{planner}\nvalue_2 = value_1.plan(leave_out=1)\n" in script
    assert output_of(folder / "show.py") == (
        "value_2 [Copy(source=0, start=0, target=0, to=0, length=2), "
        "Copy(source=1, start=0, target=0, to=2, length=1)]\n"
    )


def test_the_calls_of_all_ranks_are_in_the_script(folder, replay):
    status, output, _ = replay(EVEN, *toy("Adding", "EXEC-EXACT", "--script", "show.py"))
    assert status == 1
    assert output.startswith("EXEC-EXACT violated")
    shown = output_of(folder / "show.py").splitlines()
    assert {line.split(":")[0] for line in shown if "value_" in line} == {"rank 0", "rank 1"}


def test_a_case_may_be_in_a_file_and_what_is_right_exits_with_0(folder, replay):
    (folder / "case.json").write_text(ROWS)
    given = ("--implementation", "reference", "--requirement", "PLAN-TILE")
    assert replay("case.json", *given, "--script", "show.py") == (
        0,
        "PLAN-TILE conformant (test_every_target_element_is_written_exactly_once)\n",
        "",
    )
    assert not (folder / "show.py").exists()


def test_an_error_of_the_adapter_is_told_and_has_no_script(folder, replay):
    status, output, _ = replay(ROWS, *toy("Planning", "PLAN-TRIP", "--script", "show.py"))
    assert status == 1
    assert output.startswith("PLAN-TRIP adapter error")
    assert "KeyError: 'segments'" in output
    assert not (folder / "show.py").exists()


def test_an_adapter_that_calls_no_package_has_no_script(replay):
    status, output, _ = replay(ROWS, *toy("Apart", "PLAN-TILE", "--script", "show.py"))
    assert status == 1
    assert output.endswith(
        "no script is written: no call from the adapter into another package was seen\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("{", "--implementation", "reference"), "error: a case must be one JSON object: "),
        (
            ("none.json", "--implementation", "reference"),
            "error: no file 'none.json' can be read: No such file or directory",
        ),
        (
            (ROWS, "--implementation", "nobody"),
            "error: unknown implementation 'nobody'; the known ones are ",
        ),
        (
            (ROWS, "--implementation", "reference", "--requirement", "PLAN-TILES"),
            "error: unknown requirements ['PLAN-TILES']; the known ones: MAP-COVER, ",
        ),
        (
            (ROWS, "--implementation", "reference", "--requirement", "MAP-BUILD"),
            "error: no test of MAP-BUILD takes a case of kind 'sync' whose detail has the keys "
            "[]; those of these do: ",
        ),
        (
            (ROWS, "--implementation", "reference", "--backend", "mpi"),
            "error: unknown backend 'mpi'",
        ),
    ],
)
def test_what_can_not_be_replayed_is_refused(replay, arguments, text):
    status, output, errors = replay(*arguments)
    assert (status, output) == (2, "")
    assert errors.startswith(text)
