"""Golden answers of `plan_problems`, derived by hand; F numbers are kinds of real faults."""

from dataclasses import replace

import pytest
from truth_cases import copy, map_of, plan_of, run, split_map

from pytest_affine.maps import ParamAffineMap
from pytest_affine.truth import plan_problems

WHOLE = map_of((4,), {0: [0, 1, 2, 3]})
HALVES = map_of((4,), {0: [0, 1], 1: [2, 3]})
TO_HALVES = (run(2, (0, 0), (0, 0)), run(2, (0, 2), (1, 0)))


def texts(source, target, *segments, **changes):
    plan = plan_of(source, target, *segments, **changes)
    return [str(problem) for problem in plan_problems(plan, source, target)]


def wrong_elements(source, target, *segments):
    """(target location, origin, shape) of problems, all of which must be wrong elements."""
    plan = plan_of(source, target, *segments)
    problems = plan_problems(plan, source, target)
    assert {(problem.rule, problem.kind) for problem in problems} == {
        ("PLAN-SOURCE", "wrong element")
    }
    return [(problem.location, problem.origin, problem.shape) for problem in problems]


def test_an_exact_plan_has_no_problems():
    assert texts(WHOLE, HALVES, *TO_HALVES) == []


def test_a_plan_without_sizes_is_judged_by_the_maps():
    assert texts(WHOLE, HALVES, *TO_HALVES, source_sizes=None, target_sizes=None) == []


@pytest.mark.parametrize("shape", [(0, 3), (0,)])
def test_f17_an_empty_parameter_needs_no_segment(shape):
    empty = ParamAffineMap(shape, {0: shape, 1: (0,)}, {})
    assert texts(empty, empty) == []


def test_f17_a_scalar_is_one_element():
    both = map_of((), {0: 0, 1: 0})
    assert (
        texts(both, both, copy((), (0, 0, ()), (0, 0, ())), copy((), (0, 0, ()), (1, 0, ()))) == []
    )
    assert texts(both, both, copy((), (0, 0, ()), (0, 0, ()))) == [
        "PLAN-TILE never written: location 1 [], 1 element; () at address 0: written by no segment"
    ]


def test_f22_what_a_shortened_plan_leaves_out_is_never_written():
    halves = split_map((16,), 2, 0)
    assert texts(halves, split_map((16,), 1, 0), run(8, (0, 0), (0, 0))) == [
        "PLAN-TILE never written: location 0 [8:16], 8 elements; "
        "(8,) at address 8: written by no segment"
    ]


def test_an_element_of_two_segments_is_written_twice():
    assert texts(WHOLE, HALVES, *TO_HALVES, run(1, (0, 3), (1, 1))) == [
        "PLAN-TILE written twice: location 1 [1:2], 1 element; "
        "(1,) at address 1: written by segment 1, segment 2"
    ]


def test_an_element_that_one_segment_repeats_is_written_twice_and_once_wrongly():
    repeated = copy((2,), (0, 0, (1,)), (0, 0, (0,)))
    assert texts(WHOLE, HALVES, repeated, run(1, (0, 1), (0, 1)), TO_HALVES[1]) == [
        "PLAN-SOURCE wrong element: location 0 [0:1], 1 element; (0,) at address 0: "
        "segment 0 reads logical (1,) instead of (0,), address 1 of source location 0",
        "PLAN-TILE written twice: location 0 [0:1], 1 element; "
        "(0,) at address 0: written by segment 0, segment 0",
    ]


def test_a_wrong_element_is_named_with_the_right_one_and_where_it_came_from():
    columns = map_of((2, 3), {0: [[0, 1], [3, 4]], 1: [[2], [5]]})
    rows = map_of((2, 3), {0: [[0, 1, 2]], 1: [[3, 4, 5]]})
    segments = [
        copy((1, 2), (0, 0, (2, 1)), (0, 0, (3, 1))),
        copy((1, 1), (1, 0, (1, 1)), (0, 2, (3, 1))),
        copy((1, 2), (0, 2, (2, 1)), (1, 0, (3, 1))),
        copy((1, 1), (1, 0, (1, 1)), (1, 2, (3, 1))),
    ]
    assert texts(columns, rows, *segments) == [
        "PLAN-SOURCE wrong element: location 1 [0:1, 2:3], 1 element; (0, 2) at address 2: "
        "segment 3 reads logical (0, 2) instead of (1, 2), address 0 of source location 1"
    ]


def test_wrong_elements_that_touch_are_one_box():
    square = map_of((3, 3), {0: [[0, 1, 2], [3, 4, 5], [6, 7, 8]]})
    shifted = [
        copy((3, 1), (0, 0, (3, 1)), (0, 0, (3, 1))),
        copy((3, 1), (0, 2, (3, 1)), (0, 1, (3, 1))),
        copy((3, 1), (0, 1, (3, 1)), (0, 2, (3, 1))),
    ]
    assert wrong_elements(square, square, *shifted) == [(0, (0, 1), (3, 2))]


def test_f05_fragments_in_rank_order_instead_of_offset_order():
    source = map_of((4,), {0: [3], 1: [], 2: [0, 1, 2]})
    in_rank_order = (run(1, (0, 0), (0, 0)), run(3, (2, 0), (0, 1)))
    assert texts(source, WHOLE, run(3, (2, 0), (0, 0)), run(1, (0, 0), (0, 3))) == []
    assert wrong_elements(source, WHOLE, *in_rank_order) == [(0, (0,), (4,))]


def test_f06_a_strided_shard_sized_from_its_own_outer_piece():
    source = map_of((5,), {0: [0, 1, 3, 4], 1: [2]})
    whole = map_of((5,), {0: [0, 1, 2, 3, 4]})
    as_if_3_and_2 = (
        run(2, (0, 0), (0, 0)),
        run(1, (0, 2), (0, 3)),
        copy((2,), (1, 0, (1,)), (0, 2, (2,))),
    )
    assert texts(source, whole, *as_if_3_and_2) == [
        "PLAN-BOUNDS outside the source: location 0 [4:5], 1 element; (4,) at address 4: "
        "segment 2 reads outside the shard, address 1 of source location 1"
    ]


def test_f08_a_narrow_column_shard_read_with_the_full_row_stride():
    columns = map_of((2, 3), {0: [[0, 1], [3, 4]], 1: [[2], [5]]})
    whole = map_of((2, 3), {0: [[0, 1, 2], [3, 4, 5]]})
    segments = (
        copy((2, 2), (0, 0, (3, 1)), (0, 0, (3, 1))),
        copy((2, 1), (1, 0, (3, 1)), (0, 2, (3, 1))),
    )
    assert texts(columns, whole, *segments) == [
        "PLAN-BOUNDS outside the source: location 0 [1:2, 1:3], 2 elements; (1, 1) at address 4: "
        "segment 0 reads outside the shard, address 4 of source location 0",
        "PLAN-SOURCE wrong element: location 0 [1:2, 0:1], 1 element; (1, 0) at address 3: "
        "segment 0 reads logical (1, 1) instead of (1, 0), address 3 of source location 0",
    ]


def test_f08_a_narrow_column_shard_written_with_the_full_row_stride():
    columns = map_of((2, 3), {0: [[0, 1], [3, 4]], 1: [[2], [5]]})
    whole = map_of((2, 3), {0: [[0, 1, 2], [3, 4, 5]]})
    segments = (
        copy((2, 2), (0, 0, (3, 1)), (0, 0, (2, 1))),
        copy((2, 1), (0, 2, (3, 1)), (1, 0, (3, 1))),
    )
    assert texts(whole, columns, *segments) == [
        "PLAN-BOUNDS outside the target: location 1 [3:4, 0:1], 1 element; "
        "(3, 0) at address 3: written by segment 1",
        "PLAN-TILE never written: location 1 [1:2, 0:1], 1 element; "
        "(1, 0) at address 1: written by no segment",
    ]


def test_f09_rows_of_heads_cut_as_if_q_k_and_v_were_contiguous():
    rows = map_of((8, 1), {0: [[0], [1]], 1: [[2], [3]], 2: [[4], [5]], 3: [[6], [7]]})
    q_k_v = map_of((8, 1), {0: [[0], [1], [4], [5]], 1: [[2], [6]], 2: [[3], [7]]})
    contiguous = (
        run(2, (0, 0), (0, 0)),
        run(2, (1, 0), (0, 2)),
        run(2, (2, 0), (1, 0)),
        run(2, (3, 0), (2, 0)),
    )
    assert wrong_elements(rows, q_k_v, *contiguous) == [
        (0, (2, 0), (2, 1)),
        (1, (0, 0), (2, 1)),
        (2, (0, 0), (1, 1)),
    ]


def test_f10_fused_q_k_v_cut_into_equal_chunks():
    whole = map_of((8, 1), {0: [[row] for row in range(8)]})
    fused = map_of((8, 1), {0: [[0], [1], [4], [6]], 1: [[2], [3], [5], [7]]})
    chunks = (run(4, (0, 0), (0, 0)), run(4, (0, 4), (1, 0)))
    assert wrong_elements(whole, fused, *chunks) == [(0, (2, 0), (2, 1)), (1, (0, 0), (3, 1))]


def test_f11_gate_and_up_joined_as_a_plain_row_split():
    source = map_of((4, 1), {0: [[0], [2]], 1: [[1], [3]]})
    whole = map_of((4, 1), {0: [[0], [1], [2], [3]]})
    plain = (run(2, (0, 0), (0, 0)), run(2, (1, 0), (0, 2)))
    assert wrong_elements(source, whole, *plain) == [(0, (1, 0), (2, 1))]


def test_f13_expert_slots_taken_for_expert_numbers():
    source = map_of((4, 1), {0: [[0], [3]], 1: [[1], [2]]})
    experts = map_of((4, 1), {expert: [[expert]] for expert in range(4)})
    by_slot = [run(1, (expert // 2, expert % 2), (expert, 0)) for expert in range(4)]
    assert wrong_elements(source, experts, *by_slot) == [
        (1, (0, 0), (1, 1)),
        (2, (0, 0), (1, 1)),
        (3, (0, 0), (1, 1)),
    ]


def test_f15_padding_is_neither_read_nor_written():
    source = map_of((5,), {0: [0, 1, 2], 1: [3, 4, None]})
    target = map_of((5,), {0: [0, 1, 2, 3], 1: [4, None, None, None]})
    segments = (run(3, (0, 0), (0, 0)), run(1, (1, 0), (0, 3)))
    assert texts(source, target, *segments, run(1, (1, 1), (1, 0))) == []
    assert texts(source, target, *segments, run(2, (1, 1), (1, 0))) == [
        "PLAN-SOURCE padding read: location 1 [1:2], 1 element; (1,) at address 1: "
        "segment 2 reads padding, address 2 of source location 1",
        "PLAN-TILE padding written: location 1 [1:2], 1 element; "
        "(1,) at address 1: written by segment 2",
    ]


def test_f24_a_target_that_reads_only_the_source_with_its_own_number():
    quarters = split_map((4,), 4, 0)
    own = (run(1, (0, 0), (0, 0)), run(1, (1, 0), (1, 0)))
    assert texts(quarters, HALVES, *own) == [
        "PLAN-TILE never written: location 0 [1:2], 1 element; "
        "(1,) at address 1: written by no segment",
        "PLAN-SOURCE wrong element: location 1 [0:1], 1 element; (0,) at address 0: "
        "segment 1 reads logical (1,) instead of (2,), address 0 of source location 1",
        "PLAN-TILE never written: location 1 [1:2], 1 element; "
        "(1,) at address 1: written by no segment",
    ]


def test_f43_a_column_shard_taken_for_rows_end_to_end():
    columns = map_of((2, 4), {0: [[0, 1], [4, 5]], 1: [[2, 3], [6, 7]]})
    whole = map_of((2, 4), {0: [[0, 1, 2, 3], [4, 5, 6, 7]]})
    end_to_end = (run(4, (0, 0), (0, 0)), run(4, (1, 0), (0, 4)))
    assert wrong_elements(columns, whole, *end_to_end) == [
        (0, (0, 2), (1, 2)),
        (0, (1, 0), (1, 2)),
    ]


def test_f44_offsets_that_count_from_the_start_of_the_storage_leave_the_shard():
    assert texts(HALVES, WHOLE, run(2, (0, 0), (0, 0)), run(2, (1, 2), (0, 2))) == [
        "PLAN-BOUNDS outside the source: location 0 [2:4], 2 elements; (2,) at address 2: "
        "segment 1 reads outside the shard, address 2 of source location 1"
    ]


def test_f46_a_source_piece_read_through_its_full_tensor_side():
    swapped = map_of((4,), {0: [2, 3, 0, 1]})
    assert texts(swapped, WHOLE, run(2, (0, 2), (0, 0)), run(2, (0, 0), (0, 2))) == []
    assert wrong_elements(swapped, WHOLE, run(4, (0, 0), (0, 0))) == [(0, (0,), (4,))]


def test_a_negative_offset_is_outside():
    assert texts(WHOLE, HALVES, run(3, (0, 0), (0, -1)), TO_HALVES[1])[0] == (
        "PLAN-BOUNDS outside the target: location 0 [-1:0], 1 element; "
        "(-1,) at address -1: written by segment 0"
    )


def test_what_no_piece_fills_cannot_be_read():
    gap = ParamAffineMap((4,), {0: (4,)}, {0: WHOLE.pieces(0)[:3]})
    assert texts(gap, HALVES, *TO_HALVES) == [
        "PLAN-SOURCE nothing read: location 1 [1:2], 1 element; (1,) at address 1: "
        "segment 1 reads what no piece fills, address 3 of source location 0"
    ]


def test_an_unknown_source_location_is_named():
    assert texts(WHOLE, HALVES, TO_HALVES[0], run(2, (7, 2), (1, 0))) == [
        "PLAN-BOUNDS unknown source: location 1 [0:2], 2 elements; (0,) at address 0: "
        "segment 1 reads an unknown location, address 2 of source location 7"
    ]


def test_an_unknown_target_location_is_named():
    assert texts(WHOLE, HALVES, *TO_HALVES, run(2, (0, 0), (7, 0))) == [
        "PLAN-BOUNDS unknown target: segment 2 writes target location 7; the target map has [0, 1]"
    ]


def test_source_and_target_scale_must_be_equal():
    doubled = map_of((4,), {0: [0, 1], 1: [2, 3]}, scale=2.0)
    to_whole = (run(2, (0, 0), (0, 0)), run(2, (1, 0), (0, 2)))
    assert texts(doubled, map_of((4,), {0: [0, 1, 2, 3]}, scale=2.0), *to_whole) == []
    assert texts(doubled, WHOLE, *to_whole) == [
        "PLAN-SCALE scales differ: location 0 [0:4], 4 elements; (0,) at address 0: "
        "segment 0 reads scale 2.0 instead of 1.0, address 0 of source location 0"
    ]


def test_an_empty_segment_breaks_plan_once():
    assert texts(WHOLE, HALVES, *TO_HALVES, copy((2, 0), (0, 0, (1, 1)), (0, 0, (1, 1)))) == [
        "PLAN-ONCE empty segment: segment 2 has the shape (2, 0)"
    ]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"moved_elements": 5}, "PLAN-ONCE wrong moved_elements: 5 instead of 4"),
        ({"moved_elements": None}, "PLAN-ONCE wrong moved_elements: None instead of 4"),
        ({"logical_shape": (2, 2)}, "PLAN-BOUNDS wrong logical_shape: (2, 2) instead of (4,)"),
        (
            {"source_sizes": {0: 5}},
            "PLAN-BOUNDS wrong source_sizes: ((0, 5),) instead of ((0, 4),)",
        ),
        (
            {"target_sizes": {}},
            "PLAN-BOUNDS wrong target_sizes: () instead of ((0, 2), (1, 2))",
        ),
        (
            {"target_sizes": {0: 2}},
            "PLAN-BOUNDS wrong target_sizes: ((0, 2),) instead of ((0, 2), (1, 2))",
        ),
    ],
    ids=str,
)
def test_wrong_totals_are_named(changes, text):
    assert texts(WHOLE, HALVES, *TO_HALVES, **changes) == [text]


def test_a_plan_between_two_logical_shapes_is_refused():
    square = map_of((2, 2), {0: [0, 1, 2, 3]})
    assert texts(square, HALVES, *TO_HALVES) == [
        "PLAN-REFUSE logical shapes differ: (2, 2) instead of (4,)"
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (-2,)},
        {"shape": (2, 1)},
        {"shape": (2.0,)},
        {"source_strides": (-1,)},
        {"target_strides": (-1,)},
        {"source_strides": ()},
        {"target_strides": (1, 1)},
        {"source_offset": 0.0},
        {"target_offset": None},
        {"source_location": True},
        {"target_location": "0"},
    ],
    ids=str,
)
def test_a_malformed_segment_is_named_and_writes_nothing(changes):
    problems = texts(
        WHOLE, HALVES, replace(TO_HALVES[0], **changes), TO_HALVES[1], moved_elements=2
    )
    assert problems[0].startswith(
        "PLAN-BOUNDS malformed segment: segment 0 needs whole numbers, and extents and strides of "
        "at least 0, one stride per axis on either side; it is {'shape': ["
    )
    assert problems[1:] == [
        "PLAN-TILE never written: location 0 [0:2], 2 elements; "
        "(0,) at address 0: written by no segment"
    ]


def test_each_kind_is_told_once_per_element_with_the_first_segment_that_shows_it():
    wrong, right = run(2, (0, 0), (1, 0)), run(2, (1, 0), (1, 0))
    assert texts(HALVES, HALVES, TO_HALVES[0], wrong, right, wrong) == [
        "PLAN-SOURCE wrong element: location 1 [0:2], 2 elements; (0,) at address 0: "
        "segment 1 reads logical (0,) instead of (2,), address 0 of source location 0",
        "PLAN-TILE written twice: location 1 [0:2], 2 elements; "
        "(0,) at address 0: written by segment 1, segment 2, segment 3",
    ]


def test_problems_come_totals_first_then_by_target_location():
    plan = plan_of(WHOLE, HALVES, run(3, (0, 0), (0, 0)), moved_elements=0)
    assert [(p.location, p.kind) for p in plan_problems(plan, WHOLE, HALVES)] == [
        (None, "wrong moved_elements"),
        (0, "outside the target"),
        (1, "never written"),
    ]
