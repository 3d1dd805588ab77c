import subprocess
import sys

import pytest
from truth_cases import copy, map_of, plan_of, run, split_map

from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.truth import (
    assert_exact,
    assert_exact_tiling,
    assert_valid,
    draw_shard,
    map_problems,
    plan_problems,
)

COLUMNS = map_of((2, 6), {0: [[0, 1, 2], [6, 7, 8]], 1: [[3, 4, 5], [9, 10, 11]]})
WHOLE = map_of((2, 6), {0: [[0, 1, 2, 3, 4, 5, None], [6, 7, 8, 9, 10, 11, None]]})


def drawn(source, target, *segments, location=0):
    problems = plan_problems(plan_of(source, target, *segments), source, target)
    return draw_shard(target, location, problems)


def test_every_element_of_a_shard_is_one_character():
    segments = (
        copy((2, 2), (0, 0, (3, 1)), (0, 0, (7, 1))),
        copy((1, 1), (0, 3, (1, 1)), (0, 7, (1, 1))),
        copy((2, 2), (1, 1, (3, 1)), (0, 3, (7, 1))),
        copy((1, 2), (1, 4, (3, 1)), (0, 12, (7, 1))),
    )
    assert drawn(COLUMNS, WHOLE, *segments) == (
        "location 0, shape (2, 7)\n"
        "  0    5\n"
        "0 ..?xx?#\n"
        "1 2.?xxx!\n"
        ". right, # padding, ? never written, 2 written twice, ! padding written, x wrong element"
    )


def test_of_two_problems_of_one_element_the_first_is_drawn():
    line = map_of((3,), {0: [0, 1, 2]})
    assert drawn(line, line, run(3, (0, 0), (0, 0)), run(2, (0, 0), (0, 1))) == (
        "location 0, shape (3,)\n  0\n0 .xx\n. right, x wrong element"
    )


def test_outer_axes_are_slabs():
    cube = split_map((2, 1, 2, 3), 1, 0)
    assert drawn(cube, cube, run(6, (0, 0), (0, 0)), run(4, (0, 8), (0, 8))) == (
        "location 0, shape (2, 1, 2, 3)\n"
        "[0, 0, :, :]\n"
        "  0\n"
        "0 ...\n"
        "1 ...\n"
        "[1, 0, :, :]\n"
        "  0\n"
        "0 ??.\n"
        "1 ...\n"
        ". right, ? never written"
    )


def test_of_a_large_shard_the_part_near_the_first_problem_is_drawn():
    large = split_map((1000, 50, 100), 1, 0)
    size = 1000 * 50 * 100
    gap = 500 * 5000 + 20 * 100 + 90
    segments = (run(gap, (0, 0), (0, 0)), run(size - gap - 1, (0, gap + 1), (0, gap + 1)))
    lines = drawn(large, large, *segments).splitlines()
    assert [line for line in lines if line.startswith("[")] == [
        f"[{slab}, :, :]" for slab in (498, 499, 500, 501)
    ]
    right = f"…{'.' * 64}"
    assert lines[41:62] == [
        "[500, :, :]",
        "    36  40   45   50   55   60   65   70   75   80   85   90   95",
        " …",
        f"18 {right}",
        f"19 {right}",
        f"20 …{'.' * 54}?{'.' * 9}",
        *(f"{row} {right}" for row in range(21, 34)),
        " …",
        "[501, :, :]",
    ]
    assert lines[-2:] == ["…", ". right, ? never written"]


def test_a_line_is_one_row_and_a_scalar_one_character():
    line = map_of((3,), {0: [0, 1, 2]})
    assert drawn(line, line, run(2, (0, 0), (0, 0))) == (
        "location 0, shape (3,)\n  0\n0 ..?\n. right, ? never written"
    )
    scalar = map_of((), {0: 0})
    assert drawn(scalar, scalar) == "location 0, shape ()\n  0\n0 ?\n? never written"


def test_an_empty_shard_has_nothing_to_draw():
    assert draw_shard(map_of((2,), {0: [0, 1], 1: []}), 1) == "location 1, shape (0,): no elements"


def test_boxes_that_are_wrong_in_part_have_their_own_character():
    columns = split_map((100, 3), 3, 1)
    flat = ParamAffineMap((100, 3), {0: (300,)}, {0: [AffinePiece((300,), 0, (1,), 0, (1,), (0,))]})
    segments = [copy((100, 1), (at, 0, (1, 1)), (0, at, (3, 1))) for at in (0, 1)]
    problems = plan_problems(plan_of(columns, flat, *segments), columns, flat, max_enumerated=0)
    assert draw_shard(flat, 0, problems) == (
        "location 0, shape (300,)\n"
        "  0    5    10   15   20   25   30   35   40   45   50   55   60\n"
        f"0 ..{'~' * 62}…\n"
        ". right, ~ in part never written"
    )


def test_problems_of_a_map_are_drawn_in_the_full_tensor_too():
    map_ = map_of((2, 3), {0: [[0, 1], [3, 4]]})
    assert draw_shard(map_, None, map_problems(map_)) == (
        "full tensor, shape (2, 3)\n  0\n0 ..?\n1 ..?\n. right, ? not covered"
    )


def test_an_unknown_location_is_not_drawn():
    with pytest.raises(InvalidMapError, match="no location 7 in this map; it has"):
        draw_shard(WHOLE, 7)


EXACT = (copy((2, 3), (0, 0, (3, 1)), (0, 0, (7, 1))), copy((2, 3), (1, 0, (3, 1)), (0, 3, (7, 1))))


def failure(check, *arguments, **options):
    with pytest.raises(AssertionError) as caught:
        check(*arguments, **options)
    assert not any(entry.name.startswith(("assert_", "_fail")) for entry in visible(caught))
    return str(caught.value)


def visible(caught):
    return [entry for entry in caught.traceback if not entry.ishidden(caught)]


def test_what_is_right_does_not_fail():
    plan = plan_of(COLUMNS, WHOLE, *EXACT)
    assert_exact(plan, COLUMNS, WHOLE)
    assert_exact_tiling(plan, COLUMNS, WHOLE)
    assert_valid(WHOLE)


def test_a_failure_tells_rules_and_problems_and_draws_the_first_affected_shard():
    plan = plan_of(WHOLE, COLUMNS, copy((2, 3), (0, 0, (7, 1)), (0, 0, (3, 1))), moved_elements=1)
    assert failure(assert_exact, plan, WHOLE, COLUMNS) == (
        "the plan breaks PLAN-ONCE, PLAN-TILE:\n"
        "  PLAN-ONCE wrong moved_elements: 1 instead of 6\n"
        "  PLAN-TILE never written: location 1 [0:2, 0:3], 6 elements; "
        "(0, 0) at address 0: written by no segment\n"
        "location 1, shape (2, 3)\n"
        "  0\n"
        "0 ???\n"
        "1 ???\n"
        "? never written"
    )


def test_a_failure_that_is_about_no_element_draws_nothing():
    plan = plan_of(COLUMNS, WHOLE, *EXACT, moved_elements=1)
    assert failure(assert_exact, plan, COLUMNS, WHOLE) == (
        "the plan breaks PLAN-ONCE:\n  PLAN-ONCE wrong moved_elements: 1 instead of 12"
    )


def test_of_many_problems_the_first_are_told():
    line = map_of((20,), {0: list(range(20))})
    every_second = copy((10,), (0, 0, (2,)), (0, 0, (2,)))
    lines = failure(assert_exact, plan_of(line, line, every_second), line, line).splitlines()
    assert len(lines) == 1 + 8 + 1 + 4
    assert lines[8:] == [
        "  PLAN-TILE never written: location 0 [15:16], 1 element; "
        "(15,) at address 15: written by no segment",
        "  and 2 more",
        "location 0, shape (20,)",
        "  0    5    10   15",
        "0 .?.?.?.?.?.?.?.?.?.?",
        ". right, ? never written",
    ]


def test_tiling_alone_does_not_look_at_what_is_written():
    swapped = (EXACT[0], copy((2, 3), (0, 0, (3, 1)), (0, 3, (7, 1))))
    plan = plan_of(COLUMNS, WHOLE, *swapped, moved_elements=0)
    assert_exact_tiling(plan, COLUMNS, WHOLE)
    assert failure(assert_exact, plan, COLUMNS, WHOLE).startswith(
        "the plan breaks PLAN-ONCE, PLAN-SOURCE:\n"
    )
    outside = plan_of(COLUMNS, WHOLE, *EXACT, run(1, (0, 6), (0, 0)))
    assert failure(assert_exact_tiling, outside, COLUMNS, WHOLE).startswith(
        "the plan breaks PLAN-BOUNDS, PLAN-TILE:\n"
    )


def test_only_the_rules_asked_for_fail():
    plan = plan_of(COLUMNS, WHOLE, EXACT[0], moved_elements=0)
    assert_exact(plan, COLUMNS, WHOLE, rules=["PLAN-SOURCE"])
    assert failure(assert_exact, plan, COLUMNS, WHOLE, rules=["PLAN-TILE"]).startswith(
        "the plan breaks PLAN-TILE:\n"
    )


def test_a_rule_that_is_not_judged_here_is_refused():
    with pytest.raises(
        ValueError,
        match=r"rules judged here are \('PLAN-BOUNDS', 'PLAN-ONCE', 'PLAN-REFUSE', 'PLAN-SCALE', "
        r"'PLAN-SOURCE', 'PLAN-TILE'\), not \['PLAN-TILES'\]",
    ):
        assert_exact(plan_of(COLUMNS, WHOLE, *EXACT), COLUMNS, WHOLE, rules=["PLAN-TILES"])


def test_a_bad_map_fails_in_the_same_words():
    assert failure(assert_valid, map_of((3,), {0: [0, 1]})) == (
        "the map breaks MAP-COVER:\n"
        "  MAP-COVER not covered: full tensor [2:3], 1 element; logical (2,) is in no piece\n"
        "full tensor, shape (3,)\n"
        "  0\n"
        "0 ..?\n"
        ". right, ? not covered"
    )


def test_judging_imports_neither_torch_nor_the_reference_nor_the_validation():
    loaded = "import sys, pytest_affine.truth; print(*sys.modules)"
    names = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    ).stdout.split()
    forbidden = ("torch", "pytest_affine.reference", "pytest_affine.validation")
    assert "pytest_affine.truth" in names
    assert [name for name in names if name.startswith(forbidden)] == []
