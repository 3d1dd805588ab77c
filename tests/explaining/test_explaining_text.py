"""Drawings as text, and what they are made from; each is derived by hand."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from pytest_affine.builders import contiguous_split_map, replicated_map
from pytest_affine.contract.cases import Case
from pytest_affine.errors import AffineTransferError
from pytest_affine.explaining.holdings import element_bytes, explain
from pytest_affine.explaining.text import MAX_LINES, to_text
from pytest_affine.fixtures.syncs import case
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.plans import TransferEndpoints


def split(shape, extents, dim=0):
    return contiguous_split_map(shape, extents, dim)


def drawn(*arguments, **options):
    return to_text(explain(case("drawn", *arguments, **options)))


def with_fields(of, **fields):
    """The case with other fields of its only parameter."""
    (parameter,) = of.sync.parameters
    return replace(of, sync=replace(of.sync, parameters=(replace(parameter, **fields),)))


def diagonal(extent):
    """The diagonal of a square at location 0, and the rest, which is no box, at location 1."""
    row = extent + 1
    pieces = {
        0: [AffinePiece((extent,), 0, (row,), 0, (1,), (0,))],
        1: [AffinePiece((extent - 1, extent), 1, (row, 1), 0, (extent, 1), (1,))],
    }
    shapes = {0: (extent,), 1: (extent - 1, extent)}
    return ParamAffineMap((extent, extent), shapes, pieces)


def test_rows_that_move_and_rows_that_stay():
    # Row 2 leaves location 1; rows 0 and 1 are in place, and so is row 3.
    assert drawn((split((4,), [2, 2]), split((4,), [3, 1]))) == (
        "weight [4]\n"
        "  source, float32\n"
        "    location 0 (process 0): [2]\n"
        "    location 1 (process 1): [2]\n"
        "    0 0 1 1\n"
        "  target, float32\n"
        "    location 0 (process 0): [3]\n"
        "    location 1 (process 1): [1]\n"
        "    0 0 0 1\n"
        "  moves, 4 bytes\n"
        "    process 1 to process 0: 4 bytes in 1 segment\n"
        "  stays, 12 bytes\n"
        "    process 0: 8 bytes in 1 segment\n"
        "    process 1: 4 bytes in 1 segment"
    )


def test_replicas_padding_a_local_name_and_a_cast():
    piece = AffinePiece((2, 2), 0, (2, 1), 0, (2, 1), (0,))
    padded = ParamAffineMap((2, 2), {0: (3, 2)}, {0: [piece]}, {0: [Padding((2,), 4, (1,))]})
    both = case("cast", (replicated_map((2, 2), 2), padded))
    both = with_fields(both, target_dtype="bfloat16", target_names={0: "a\nb"})
    both = replace(both, sync=replace(both.sync, endpoints=TransferEndpoints({0: 0, 1: 1}, {0: 2})))
    # Four elements, sent in the smaller dtype.
    assert to_text(explain(both)) == (
        "weight [2, 2]\n"
        "  source, float32\n"
        "    location 0 (process 0): [2, 2]\n"
        "    location 1 (process 1): [2, 2]\n"
        "    0+1 0+1\n"
        "    0+1 0+1\n"
        "  target, bfloat16\n"
        "    location 0 (process 2): [3, 2], 2 of it padding, called 'a\\nb'\n"
        "    0 0\n"
        "    0 0\n"
        "  moves, 8 bytes\n"
        "    process 0 to process 2: 8 bytes in 1 segment"
    )


def test_more_than_two_axes_are_told_as_ranges():
    maps = split((2, 4, 3), [1, 1]), split((2, 4, 3), [1, 3], 1)
    assert drawn(maps, source=[0, 0], target=[0, 0]) == (
        "weight [2, 4, 3]\n"
        "  source, float32\n"
        "    location 0 (process 0): [1, 4, 3]\n"
        "    location 1 (process 0): [1, 4, 3]\n"
        "    [0:1, 0:4, 0:3] at 0\n"
        "    [1:2, 0:4, 0:3] at 1\n"
        "  target, float32\n"
        "    location 0 (process 0): [2, 1, 3]\n"
        "    location 1 (process 0): [2, 3, 3]\n"
        "    [0:2, 0:1, 0:3] at 0\n"
        "    [0:2, 1:4, 0:3] at 1\n"
        "  stays, 96 bytes\n"
        "    process 0: 96 bytes in 4 segments"
    )


def test_a_scalar_is_one_cell():
    lines = drawn((replicated_map((), 1), replicated_map((), 1))).splitlines()
    assert lines[:4] == [
        "weight []",
        "  source, float32",
        "    location 0 (process 0): []",
        "    0",
    ]


def test_of_many_shards_pieces_and_moves_the_first_are_told():
    lines = drawn((split((64, 2), [1] * 64), split((64, 2), [64]))).splitlines()
    assert lines[2:14] == [
        *(f"    location {at} (process {at}): [1, 2]" for at in range(3)),
        "    … and 61 more",
        *(f"    [{at}:{at + 1}, 0:2] at {at}" for at in range(7)),
        "    … and 57 more",
    ]
    assert lines[17:] == [
        "  moves, 504 bytes",
        *(f"    process {at} to process 0: 8 bytes in 1 segment" for at in range(1, 5)),
        "    … and 59 more",
        "  stays, 8 bytes",
        "    process 0: 8 bytes in 1 segment",
    ]


def test_a_parameter_takes_40_lines_at_most():
    split_up, mixed = split((64, 2), [1] * 64), split((64, 2), [2] * 32)
    lines = drawn((split_up, mixed), source=range(64), target=range(32)).splitlines()
    assert len(lines) <= MAX_LINES <= 40


def test_of_many_holders_the_first_are_named():
    many = replicated_map((1,), 6)
    assert "\n    0+1+2+3+…\n" in drawn((many, replicated_map((1,), 1)))


def test_parameters_are_a_line_apart():
    one = split((1,), [1])
    text = drawn({"first": (one, one), "second": (one, one)})
    assert [block.split()[0] for block in text.split("\n\n")] == ["first", "second"]


def test_a_refused_map_is_told_and_the_other_side_is_drawn():
    gap = ParamAffineMap((2,), {0: (1,)}, {0: [AffinePiece((1,), 0, (1,), 0, (1,), (0,))]})
    lines = drawn((gap, split((2,), [1, 1]))).splitlines()
    assert lines[0].startswith("refused: parameter 'weight'")
    assert "MAP-COVER" in lines[1]
    start = lines.index("weight [2]")
    assert lines[start + 3] == "    the map breaks its rules:"
    assert lines[-4:] == [
        "  target, float32",
        "    location 0 (process 0): [1]",
        "    location 1 (process 1): [1]",
        "    0 1",
    ]


def test_a_small_map_that_is_no_boxes_is_drawn_though_it_is_not_planned():
    text = drawn((diagonal(3), split((3, 3), [3])))
    assert text.startswith("refused: ")
    assert "\n    0 1 1\n    1 0 1\n    1 1 0\n" in text


def test_a_large_map_that_is_no_boxes_is_not_drawn():
    text = drawn((diagonal(33), split((33, 33), [33])))
    assert "pieces that are no boxes are drawn up to 1,024 elements, and there are 1,089" in text


def test_a_location_that_no_endpoint_binds_has_no_process():
    one = case("bound", (split((1,), [1, 0]), split((1,), [1])))
    one = replace(one, sync=replace(one.sync, endpoints=TransferEndpoints({0: 0}, {0: 0})))
    assert "location 1 (no process): [0]" in to_text(explain(one))


def test_a_case_without_a_sync_is_refused():
    with pytest.raises(AffineTransferError, match="of the kind 'builder' has no sync to be drawn"):
        explain(Case(name="none", kind="builder"))


def test_bytes_are_those_of_torch():
    sizes = {name: each.itemsize for name, each in vars(torch).items() if is_dtype(each)}
    assert {name: element_bytes(name) for name in sizes} == sizes


def is_dtype(value):
    return isinstance(value, torch.dtype)


@pytest.mark.parametrize("dtype", ["", "text", "32", "float32 ", "<b>8"])
def test_a_dtype_of_no_known_size_is_refused(dtype):
    one = split((1,), [1])
    with pytest.raises(AffineTransferError, match="has no known size; those that have: names"):
        explain(case("odd", (one, one), dtype=dtype))


def test_a_drawing_takes_no_torch():
    code = (
        "import sys, pytest_affine.explaining.page; from pytest_affine.explaining import holdings; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_the_plan_reads_what_the_process_of_the_target_holds():
    maps = replicated_map((2,), 2), split((2,), [2])
    assert drawn(maps, source=[0, 1], target=[1]).endswith(
        "  stays, 8 bytes\n    process 1: 8 bytes in 1 segment"
    )


def test_cells_are_as_wide_as_the_longest():
    text = drawn((split((11,), [1] * 11), split((11,), [11])))
    assert "\n     0  1  2  3  4  5  6  7  8  9 10\n" in text


def test_ranges_are_in_the_order_of_the_full_tensor():
    pieces = {at: [AffinePiece((1, 1, 1), 1 - at, (1, 1, 1), 0, (1, 1, 1), (at,))] for at in (0, 1)}
    swapped = ParamAffineMap((2, 1, 1), {0: (1, 1, 1), 1: (1, 1, 1)}, pieces)
    text = drawn((swapped, split((2, 1, 1), [2])))
    assert "\n    [0:1, 0:1, 0:1] at 1\n    [1:2, 0:1, 0:1] at 0\n" in text
