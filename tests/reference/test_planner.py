import json
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import pytest
from handmade import block, run

from pytest_affine.builders import (
    block_gather_map,
    contiguous_split_map,
    flat_map,
    mesh_map,
    replicated_map,
)
from pytest_affine.errors import (
    AffineTransferError,
    InvalidMapError,
    InvalidReplicaPolicyError,
    PlanLimitError,
    UnsupportedLayoutError,
)
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.plans import (
    PlanBudget,
    PlanStatistics,
    ReplicaPart,
    ReplicaRequest,
    TransferEndpoints,
)
from pytest_affine.reference.planner import finish_plan, plan_transfer
from pytest_affine.reference.regions import draft_plan, prepare_map
from pytest_affine.sync import canonical_json


def rows(full_start, shard_start, length, locations=(0,), scale=1.0):
    """A piece of consecutive elements on both sides."""
    return AffinePiece((length,), full_start, (1,), shard_start, (1,), locations, scale)


def packed(logical_shape, held):
    """A map from {location: ((first element, number of elements), ..)} laid end to end.

    No element is held twice.
    """
    pieces = {}
    for location, runs in held.items():
        pieces[location], filled = [], 0
        for start, length in runs:
            pieces[location].append(rows(start, filled, length, (location,)))
            filled += length
    sizes = {location: (sum(length for _, length in runs),) for location, runs in held.items()}
    return ParamAffineMap(logical_shape, sizes, pieces)


def one(source, target):
    """A segment of one element; each end is (location, offset)."""
    return block((*source, ()), (*target, ()), ())


def segments(source, target, **options):
    return list(plan_transfer(source, target, **options).segments)


def whole(*shape):
    return replicated_map(shape, 1)


def test_fragments_are_assembled_by_offset_and_not_by_location():
    source = packed((4,), {2: [(0, 3)], 0: [(3, 1)], 1: []})
    assert segments(source, whole(4)) == [run((2, 0), (0, 0), 3), one((0, 0), (0, 3))]


def test_an_uneven_strided_shard_is_read_in_two_runs():
    source = packed((5,), {0: [(0, 2), (3, 2)], 1: [(2, 1)]})
    assert segments(source, whole(5)) == [
        run((0, 0), (0, 0), 2),
        one((1, 0), (0, 2)),
        run((0, 2), (0, 3), 2),
    ]


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        (
            [2, 1],
            [
                block((0, 0, (2, 1)), (0, 0, (3, 1)), (2, 2)),
                block((1, 0, (1,)), (0, 2, (3,)), (2,)),
            ],
        ),
        (
            [2, 2],
            [
                block((0, 0, (2, 1)), (0, 0, (4, 1)), (2, 2)),
                block((1, 0, (2, 1)), (0, 2, (4, 1)), (2, 2)),
            ],
        ),
    ],
)
def test_column_shards_are_read_with_their_own_row_stride(widths, expected):
    shape = (2, sum(widths))
    assert segments(contiguous_split_map(shape, widths, 1), whole(*shape)) == expected


def test_fewer_heads_than_sources_are_gathered_row_by_row():
    # Rows q, q, k, v twice; targets hold all of Q, of K and of V.
    source = contiguous_split_map((8, 1), [2, 2, 2, 2], 0)
    target = packed((8, 1), {0: [(0, 2), (4, 2)], 1: [(2, 1), (6, 1)], 2: [(3, 1), (7, 1)]})
    assert segments(source, target) == [
        run((0, 0), (0, 0), 2),
        run((2, 0), (0, 2), 2),
        one((1, 0), (1, 0)),
        one((3, 0), (1, 1)),
        one((1, 1), (2, 0)),
        one((3, 1), (2, 1)),
    ]


def test_fused_query_key_and_value_are_each_split():
    target = packed((8, 1), {0: [(0, 2), (4, 1), (6, 1)], 1: [(2, 2), (5, 1), (7, 1)]})
    assert segments(whole(8, 1), target) == [
        run((0, 0), (0, 0), 2),
        one((0, 4), (0, 2)),
        one((0, 6), (0, 3)),
        run((0, 2), (1, 0), 2),
        one((0, 5), (1, 2)),
        one((0, 7), (1, 3)),
    ]


def test_gate_and_up_are_put_back_in_order():
    source = packed((4, 1), {0: [(0, 1), (2, 1)], 1: [(1, 1), (3, 1)]})
    assert segments(source, whole(4, 1)) == [
        one((0, 0), (0, 0)),
        one((1, 0), (0, 1)),
        one((0, 1), (0, 2)),
        one((1, 1), (0, 3)),
    ]


@pytest.mark.parametrize("experts", [{0: [0, 1], 1: [2, 3]}, {0: [0, 3], 1: [1, 2]}])
def test_an_expert_is_found_by_its_number_and_not_by_its_slot(experts):
    source = block_gather_map((4, 1), experts, 1, 0)
    target = contiguous_split_map((4, 1), [1, 1, 1, 1], 0)
    slots = {expert: (at, slot) for at, held in experts.items() for slot, expert in enumerate(held)}
    assert segments(source, target) == [one(slots[expert], (expert, 0)) for expert in range(4)]


def test_padding_is_neither_read_nor_written():
    source = ParamAffineMap(
        (5,),
        {0: (3,), 1: (3,)},
        {0: [rows(0, 0, 3)], 1: [rows(3, 0, 2, (1,))]},
        {1: [Padding((1,), 2, (1,))]},
    )
    target = ParamAffineMap(
        (5,),
        {0: (4,), 1: (4,)},
        {0: [rows(0, 0, 4)], 1: [rows(4, 0, 1, (1,))]},
        {1: [Padding((3,), 1, (1,))]},
    )
    assert segments(source, target) == [
        run((0, 0), (0, 0), 3),
        one((1, 0), (0, 3)),
        one((1, 1), (1, 0)),
    ]


def test_every_source_is_read_where_there_are_fewer_targets():
    source = contiguous_split_map((4,), [1, 1, 1, 1], 0)
    assert segments(source, contiguous_split_map((4,), [2, 2], 0)) == [
        one((0, 0), (0, 0)),
        one((1, 0), (0, 1)),
        one((2, 0), (1, 0)),
        one((3, 0), (1, 1)),
    ]


def test_a_source_is_read_at_its_place_in_the_shard_and_not_in_the_full_tensor():
    source = ParamAffineMap((4,), {0: (4,)}, {0: [rows(0, 2, 2), rows(2, 0, 2)]})
    assert segments(source, whole(4)) == [run((0, 2), (0, 0), 2), run((0, 0), (0, 2), 2)]


def test_segments_are_in_the_order_of_the_target_shard_and_not_of_the_full_tensor():
    source, target = contiguous_split_map((4,), [2, 2], 0), packed((4,), {0: [(2, 2), (0, 2)]})
    assert segments(source, target) == [run((1, 0), (0, 0), 2), run((0, 0), (0, 2), 2)]


def test_a_transposed_shard_is_read_across():
    piece = AffinePiece((3, 2), 0, (1, 3), 0, (2, 1), (0,))
    source = ParamAffineMap((2, 3), {0: (3, 2)}, {0: [piece]})
    assert segments(source, whole(2, 3)) == [block((0, 0, (1, 2)), (0, 0, (3, 1)), (2, 3))]


def test_flat_intervals_are_read_as_boxes():
    source = flat_map({"w": (3, 4)}, {0: (0, 6), 1: (6, 12)})["w"]
    assert segments(source, contiguous_split_map((3, 4), [2, 2], 1)) == [
        block((0, 0, (4, 1)), (0, 0, (2, 1)), (2, 2)),
        run((1, 2), (0, 4), 2),
        run((0, 2), (1, 0), 2),
        block((1, 0, (4, 1)), (1, 2, (2, 1)), (2, 2)),
    ]


def test_an_empty_parameter_between_others_has_an_empty_plan():
    shapes = {"a": (8,), "b": (0, 3), "c": (24,)}
    halves = flat_map(shapes, {0: (0, 16), 1: (16, 32)})
    planned = {name: segments(halves[name], whole(*shape)) for name, shape in shapes.items()}
    assert planned == {
        "a": [run((0, 0), (0, 0), 8)],
        "b": [],
        "c": [run((0, 0), (0, 0), 8), run((1, 0), (0, 8), 16)],
    }


def test_a_replicated_scalar_is_read_from_its_first_holder():
    assert segments(replicated_map((), 2), replicated_map((), 2)) == [
        one((0, 0), (0, 0)),
        one((0, 0), (1, 0)),
    ]


def test_more_locations_than_rows_are_planned():
    target = contiguous_split_map((1, 2), [0, 1, 0], 0)
    plan = plan_transfer(whole(1, 2), target)
    assert list(plan.segments) == [run((0, 0), (1, 0), 2)]
    assert plan.target_sizes == ((0, 0), (1, 2), (2, 0))


@pytest.mark.parametrize("size", [2**31 + 8, 2**29 + 8, 2**53 + 2, 2**60])
def test_sizes_that_overflow_smaller_integers_are_exact(size):
    source = contiguous_split_map((size,), [size // 2, size // 2], 0)
    plan = plan_transfer(source, whole(size))
    half = size // 2
    assert list(plan.segments) == [run((0, 0), (0, 0), half), run((1, 0), (0, half), half)]
    assert plan.moved_elements == size


def test_the_plan_says_what_was_planned_and_what_it_took():
    source, target = contiguous_split_map((4, 6), [3, 3], 1), whole(4, 6)
    plan = plan_transfer(source, target)
    assert (plan.logical_shape, plan.moved_elements) == ((4, 6), 24)
    assert (plan.source_sizes, plan.target_sizes) == (((0, 12), (1, 12)), ((0, 24),))
    assert plan.statistics == PlanStatistics(
        source_pieces=2,
        target_pieces=1,
        pair_checks=2 + 2,  # each target box with each source box, then each region's source
        segments_before_merge=2,
        segments=2,
        plan_bytes=len(canonical_json(plan.to_dict())),
    )


def cut_in_eight(size):
    """One shard, a packed cube, described by its eight octants."""
    strides, half = (size * size, size, 1), size // 2
    pieces = [
        AffinePiece((half,) * 3, corner, strides, corner, strides, (0,))
        for corner in (
            i * half * strides[0] + j * half * strides[1] + k * half
            for i in (0, 1)
            for j in (0, 1)
            for k in (0, 1)
        )
    ]
    return ParamAffineMap((size,) * 3, {0: (size,) * 3}, {0: pieces})


@pytest.mark.parametrize("size", [2, 4, 16])
def test_regions_are_merged_along_every_axis(size):
    plan = plan_transfer(cut_in_eight(size), whole(size, size, size))
    assert list(plan.segments) == [run((0, 0), (0, 0), size**3)]
    assert plan.statistics.segments_before_merge == 8


def test_regions_apart_in_the_full_tensor_are_merged_where_both_shards_hold_them_together():
    source = packed((6,), {0: [(0, 2), (4, 2)], 1: [(2, 2)]})
    target = packed((6,), {0: [(0, 2), (4, 2)], 1: [(2, 2)]})
    assert segments(source, target) == [run((0, 0), (0, 0), 4), run((1, 0), (1, 0), 2)]


def test_single_rows_are_merged_with_the_row_strides_of_both_shards():
    # Each target row is read on its own, since row 1 has another second holder.
    source = ParamAffineMap(
        (2, 3),
        {0: (2, 3), 1: (1, 3)},
        {
            0: [
                AffinePiece((1, 3), 0, (3, 1), 0, (3, 1), (0,)),
                AffinePiece((1, 3), 3, (3, 1), 3, (3, 1), (0, 1)),
            ],
            1: [AffinePiece((1, 3), 3, (3, 1), 0, (3, 1), (0, 1))],
        },
    )
    target = contiguous_split_map((2, 3), [2, 1], 1)
    assert segments(source, target) == [
        block((0, 0, (3, 1)), (0, 0, (2, 1)), (2, 2)),
        block((0, 2, (3,)), (1, 0, (1,)), (2,)),
    ]


@pytest.mark.parametrize(
    "pieces",
    [
        [rows(0, 0, 6), AffinePiece((1, 3), 6, (3, 1), 6, (99, 1), (0,))],
        [AffinePiece((1, 3), 0, (3, 1), 0, (99, 1), (0,)), rows(3, 3, 6)],
    ],
)
def test_a_single_row_joins_the_block_before_or_behind_it(pieces):
    source = ParamAffineMap((3, 3), {0: (9,)}, {0: pieces})
    assert segments(source, contiguous_split_map((3, 3), [2, 1], 1)) == [
        block((0, 0, (3, 1)), (0, 0, (2, 1)), (3, 2)),
        block((0, 2, (3,)), (1, 0, (1,)), (3,)),
    ]


@pytest.mark.parametrize(
    "element",
    [
        pytest.param(((), (), ()), id="no axes"),
        pytest.param(((1,), (1,), (0,)), id="an axis of no stride"),
    ],
)
def test_single_elements_that_both_shards_hold_together_are_merged(element):
    shape, full_strides, shard_strides = element
    pieces = [AffinePiece(shape, at, full_strides, at, shard_strides, (0,)) for at in range(3)]
    elements = ParamAffineMap((3,), {0: (3,)}, {0: pieces})
    assert segments(elements, elements) == [run((0, 0), (0, 0), 3)]


def grown(kind, factor):
    if kind == "columns":
        shape = (factor, 8 * factor)
        return contiguous_split_map(shape, [2 * factor] * 4, 1), contiguous_split_map(
            shape, [4 * factor] * 2, 1
        )
    if kind == "mesh":
        shape = (4 * factor, 6 * factor, 8 * factor)
        return (
            mesh_map(shape, (2, 3), [["shard", 0], ["shard", 1]]),
            mesh_map(shape, (2, 2), [["shard", 2], ["shard", 1]]),
        )
    shape = (5, 6 * factor)
    return (
        flat_map({"w": shape}, {0: (0, 13 * factor), 1: (13 * factor, 30 * factor)})["w"],
        contiguous_split_map(shape, [2 * factor] * 3, 1),
    )


@pytest.mark.parametrize(("kind", "count"), [("columns", 4), ("mesh", 16), ("flat", 8)])
@pytest.mark.parametrize("factor", [1, 8, 64, 2**40])
def test_the_number_of_segments_does_not_grow_with_the_extents(kind, count, factor):
    source, target = grown(kind, factor)
    assert len(segments(source, target)) == count


def test_planning_extents_of_2_to_the_60_takes_no_more_memory():
    def peak(num_rows):
        source, target = (
            contiguous_split_map((num_rows, 16), [16 // parts] * parts, 1) for parts in (8, 4)
        )
        tracemalloc.start()
        plan_transfer(source, target)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(2**10)
    assert peak(2**60) < 2 * peak(2**10)


def test_eight_axes_are_planned():
    shape = (2,) * 8
    assert segments(contiguous_split_map(shape, [1, 1], 7), whole(*shape)) == [
        block((0, 0, (1,)), (0, 0, (2,)), (128,)),
        block((1, 0, (1,)), (0, 1, (2,)), (128,)),
    ]


def replicas(first_cut, second_cut):
    """F (6,) on two locations, in two pieces each, cut in different places."""
    return ParamAffineMap(
        (6,),
        {0: (6,), 1: (6,)},
        {
            location: [rows(0, 0, cut, (0, 1)), rows(cut, cut, 6 - cut, (0, 1))]
            for location, cut in ((0, first_cut), (1, second_cut))
        },
    )


def asked(source, target, answer=max, endpoints=None):
    """What a selector was asked, and the segments; it answers with one of the holders."""
    requests = []

    def selector(request):
        requests.append(request)
        return answer(request.holders)

    return requests, segments(source, target, replica_selector=selector, endpoints=endpoints)


def test_the_selector_names_the_holder_that_is_read():
    _, planned = asked(replicated_map((6,), 3), whole(6), lambda holders: holders[1])
    assert planned == [run((1, 0), (0, 0), 6)]


def test_replicas_that_are_cut_elsewhere_are_read_all_the_same():
    requests, planned = asked(replicas(2, 5), whole(6))
    assert [(request.logical_origin, request.shape) for request in requests] == [
        ((0,), (2,)),
        ((2,), (4,)),
    ]
    assert planned == [run((1, 0), (0, 0), 6)]


def test_the_selector_is_asked_about_regions_with_several_holders_only():
    source = ParamAffineMap(
        (4, 2),
        {0: (8,), 1: (4,)},
        {0: [rows(0, 0, 4), rows(4, 4, 4, (0, 1))], 1: [rows(4, 0, 4, (0, 1))]},
    )
    requests, planned = asked(source, contiguous_split_map((4, 2), [3, 1], 0))
    common = {"parameter": None, "holders": (0, 1), "element_size": 1}
    assert requests == [
        ReplicaRequest(
            target_location=0, logical_origin=(2, 0), shape=(1, 2), num_bytes=2, **common
        ),
        ReplicaRequest(
            target_location=1, logical_origin=(3, 0), shape=(1, 2), num_bytes=2, **common
        ),
    ]
    assert planned == [
        run((0, 0), (0, 0), 4),
        run((1, 0), (0, 4), 2),
        run((1, 2), (1, 0), 2),
    ]


def test_the_selector_is_asked_in_the_order_of_the_full_tensor():
    target = packed((6,), {3: [(4, 2), (0, 2)], 1: [(2, 2)]})
    requests, _ = asked(replicated_map((6,), 2), target)
    assert [(request.target_location, request.logical_origin) for request in requests] == [
        (1, (2,)),
        (3, (0,)),
        (3, (4,)),
    ]


def test_the_selector_is_told_the_processes():
    endpoints = TransferEndpoints({0: 5, 1: 4}, {0: 7})
    (request,), _ = asked(replicated_map((6,), 2), whole(6), endpoints=endpoints)
    assert (request.target_process, request.holder_processes) == (7, (5, 4))


@pytest.mark.parametrize(
    ("endpoints", "message"),
    [
        (
            TransferEndpoints({0: 0}, {0: 0}),
            "endpoints.source names no process for locations [1]; those bound: [0]",
        ),
        (
            TransferEndpoints({0: 0, 1: 1}, {3: 0}),
            "endpoints.target names no process for locations [0]; those bound: [3]",
        ),
    ],
)
def test_endpoints_that_lack_a_location_of_a_request_are_refused(endpoints, message):
    with pytest.raises(AffineTransferError, match=f"^{re.escape(message)}$"):
        asked(replicated_map((6,), 2), whole(6), endpoints=endpoints)


@pytest.mark.parametrize("answer", [True, False, 0.0, 1.0, None, "0", (0,), 2, -1])
def test_an_answer_that_is_no_holder_is_refused(answer):
    message = (
        f"the selector answered {answer!r} for the region at (0,) of shape (6,) "
        "that target location 0 needs; it must be one of its holders, (0, 1)"
    )
    with pytest.raises(InvalidReplicaPolicyError, match=f"^{re.escape(message)}$"):
        asked(replicated_map((6,), 2), whole(6), lambda _: answer)


def test_equal_scales_are_planned():
    halved = replicated_map((4,), 1, scale=0.5)
    assert segments(halved, halved) == [run((0, 0), (0, 0), 4)]


def test_scales_that_differ_are_unsupported():
    source = ParamAffineMap((4,), {0: (4,)}, {0: [rows(0, 0, 2), rows(2, 2, 2, (0,), 0.5)]})
    message = (
        "target location 0 needs scale 1.0 of a box at (2,) of shape (2,) that source locations "
        "(0,) hold with scale 0.5; only equal scales are planned"
    )
    with pytest.raises(UnsupportedLayoutError, match=f"^{re.escape(message)}$"):
        plan_transfer(source, whole(4))


def test_unequal_logical_shapes_are_refused():
    message = (
        "source and target must be of one tensor, but the source map's logical shape is (4,) "
        "and the target map's is (2, 2)"
    )
    with pytest.raises(InvalidMapError, match=f"^{re.escape(message)}$"):
        plan_transfer(whole(4), whole(2, 2))


@pytest.mark.parametrize("side", ["source", "target"])
def test_an_invalid_map_is_refused_by_its_side(side):
    maps = {"source": whole(4), "target": whole(4), side: packed((4,), {0: [(0, 3)]})}
    with pytest.raises(InvalidMapError, match=rf"^{side} map: (.|\n)*MAP-COVER.*\(3,\)"):
        plan_transfer(**maps)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_piece_that_is_no_box_is_unsupported(side):
    every_second = ParamAffineMap(
        (4,),
        {0: (2,), 1: (2,)},
        {at: [AffinePiece((2,), at, (2,), 0, (1,), (at,))] for at in (0, 1)},
    )
    message = (
        f"{side} map: location 0, piece 0 of shape (2,) with full strides (2,) at 0 is no "
        "axis-aligned box and no flat interval of the logical shape (4,), or its strides (1,) "
        "in the shard cut it into more than 1024 boxes"
    )
    maps = {"source": whole(4), "target": whole(4), side: every_second}
    with pytest.raises(UnsupportedLayoutError, match=f"^{re.escape(message)}$"):
        plan_transfer(**maps)


ENOUGH = {
    "max_ndim": 2,
    "max_pieces_per_map": 2,
    "max_pair_checks": 4 + 4,  # four source boxes with one target box, then one for each region
    "max_segments": 2,
    "max_merge_passes": 1,
    "max_merge_checks": 3 + 4,  # per source: two copies along a row, and the single rows across
    "max_plan_bytes": 196,  # the length of its JSON, as a test below says
}


def limited(**limit):
    source = flat_map({"w": (4, 6)}, {0: (0, 15), 1: (15, 24)})["w"]
    return plan_transfer(source, whole(4, 6), limits=PlanBudget(**limit))


@pytest.mark.parametrize(("field", "enough"), ENOUGH.items())
def test_a_limit_that_suffices_changes_nothing(field, enough):
    assert limited(**{field: enough}) == limited()


@pytest.mark.parametrize(("field", "enough"), ENOUGH.items())
def test_a_limit_that_is_exceeded_is_named_with_the_way_to_raise_it(field, enough):
    message = (
        f"planning takes {enough} or more of what PlanBudget.{field} limits to {enough - 1}; "
        f"to allow it pass limits=PlanBudget({field}={enough}) or more"
    )
    with pytest.raises(PlanLimitError, match=f"^{re.escape(message)}$"):
        limited(**{field: enough - 1})


def test_the_axes_of_a_piece_are_limited_too():
    piece = AffinePiece((1, 1, 4), 0, (4, 4, 1), 0, (4, 4, 1), (0,))
    source = ParamAffineMap((4,), {0: (4,)}, {0: [piece]})
    assert segments(source, whole(4), limits=PlanBudget(max_ndim=3)) == [run((0, 0), (0, 0), 4)]
    with pytest.raises(PlanLimitError, match=r"takes 3 or more of what PlanBudget\.max_ndim"):
        plan_transfer(source, whole(4), limits=PlanBudget(max_ndim=2))


def test_the_boxes_of_a_permuted_piece_are_limited_before_they_are_paired():
    piece = AffinePiece((512, 2), 0, (2, 1), 0, (1, 512), (0,))
    source = ParamAffineMap((1024,), {0: (1024,)}, {0: [piece]})
    target = packed((1024,), {0: [(512, 512), (0, 512)]})
    with pytest.raises(PlanLimitError, match=r"takes 512 or more of what PlanBudget\.max_pair"):
        plan_transfer(source, target, limits=PlanBudget(max_pair_checks=500))


def test_the_bytes_of_a_plan_are_those_of_its_canonical_json():
    assert len(canonical_json(limited().to_dict())) == ENOUGH["max_plan_bytes"]


def test_the_bytes_of_a_plan_are_limited_before_all_of_them_are_counted():
    source, target = (contiguous_split_map((4096,), [1] * 4096, 0) for _ in range(2))
    num_bytes = plan_transfer(source, target).statistics.plan_bytes
    with pytest.raises(PlanLimitError, match=r"max_plan_bytes limits to 150000;") as refused:
        plan_transfer(source, target, limits=PlanBudget(max_plan_bytes=150_000))
    named = int(re.search(r"takes (\d+)", str(refused.value))[1])
    assert 150_000 < named < num_bytes // 2 + 50_000


@pytest.mark.parametrize("num_locations", [16, 64, 256])
def test_only_boxes_that_meet_are_compared(num_locations):
    source, target = (
        contiguous_split_map((1024, 2), [1024 // parts] * parts, 0)
        for parts in (num_locations, 2 * num_locations)
    )
    # Each target box with the one source box that it lies in, and each region's source.
    assert plan_transfer(source, target).statistics.pair_checks == 2 * (2 * num_locations)


def test_only_boxes_of_a_replica_that_meet_are_compared():
    halves = [rows(2 * at, 2 * at, 2, (0, 1)) for at in range(64)]
    shifted = [
        rows(0, 0, 1, (0, 1)),
        *(rows(2 * at - 1, 2 * at - 1, 2, (0, 1)) for at in range(1, 64)),
    ]
    source = ParamAffineMap(
        (128,), {0: (128,), 1: (128,)}, {0: halves, 1: [*shifted, rows(127, 127, 1, (0, 1))]}
    )
    plan = plan_transfer(source, whole(128), replica_selector=lambda request: 1)
    # 64 regions, each in two boxes of the replica.
    assert plan.statistics.pair_checks == 64 + 2 * 64
    assert list(plan.segments) == [run((1, 0), (0, 0), 128)]


def test_a_flat_partition_is_replanned_within_the_default_limits():
    shapes = {"bias": (7,), "weight": (3 * 2**10 - 1, 32), "norm": (25,)}
    source, target = (
        flat_map(shapes, {at: (at * size, (at + 1) * size) for at in range(parts)})["weight"]
        for parts, size in ((256, 384), (192, 512))
    )
    plan = plan_transfer(source, target)
    assert len(plan.segments) == 384
    assert plan.moved_elements == (3 * 2**10 - 1) * 32


def test_boxes_that_replicas_add_count_as_pair_checks():
    # One pair, then the two boxes of the replica that is named.
    source = ParamAffineMap(
        (6,),
        {0: (6,), 1: (6,)},
        {0: [rows(0, 0, 6, (0, 1))], 1: [rows(0, 0, 2, (0, 1)), rows(2, 2, 4, (0, 1))]},
    )
    options = {"replica_selector": lambda request: 1}
    assert segments(source, whole(6), limits=PlanBudget(max_pair_checks=3), **options)
    with pytest.raises(
        PlanLimitError, match=r"takes 3 or more of what PlanBudget\.max_pair_checks"
    ):
        segments(source, whole(6), limits=PlanBudget(max_pair_checks=2), **options)


def test_the_order_in_which_mappings_were_filled_changes_nothing():
    pieces = {0: [rows(0, 0, 2)], 1: [rows(2, 0, 2, (1,))]}
    sizes = {0: (2,), 1: (2,)}
    backwards = [dict(reversed(mapping.items())) for mapping in (sizes, pieces)]
    plans = [
        plan_transfer(source, whole(4))
        for source in (ParamAffineMap((4,), sizes, pieces), ParamAffineMap((4,), *backwards))
    ]
    assert plans[0] == plans[1]


SCRIPT = """
import json
from itertools import permutations
from pytest_affine.builders import flat_map, mesh_map
from pytest_affine.reference.planner import plan_transfer
maps = [
    mesh_map((5, 6), (2, 2), [["replicate"], ["shard", 0]]),
    mesh_map((5, 6), (2, 2), [["shard", 1], ["shard", 0]]),
    flat_map({"w": (5, 6)}, {0: (0, 13), 1: (13, 30)})["w"],
]
print(json.dumps([plan_transfer(*pair).to_dict() for pair in permutations(maps, 2)]))
"""


def test_the_string_hash_seed_changes_nothing():
    printed = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in "01"
    }
    assert len(printed) == 1
    plans = json.loads(printed.pop())
    assert (len(plans), len(plans[0]["segments"])) == (6, 4)


def test_one_prepared_map_serves_many_plans():
    source, limits = replicas(2, 5), PlanBudget()
    prepared = prepare_map("source", source, limits)
    for target in (whole(6), contiguous_split_map((6,), [2, 4], 0), source):
        draft = draft_plan(prepared, prepare_map("target", target, limits), limits)
        assert finish_plan(draft, None) == plan_transfer(source, target)
        parts = [(ReplicaPart(1, region.origin, region.shape),) for region in draft.regions]
        chosen = plan_transfer(source, target, replica_selector=lambda request: 1)
        assert finish_plan(draft, parts) == chosen


def test_what_was_planned_before_changes_nothing():
    source, target = replicas(2, 5), contiguous_split_map((6,), [2, 4], 0)
    alone = plan_transfer(source, target)
    plan_transfer(contiguous_split_map((12,), [3, 3, 3, 3], 0), whole(12))
    assert plan_transfer(source, target) == alone
    assert replace(alone, statistics=None) == alone
