"""Cutting shards and rebuilding the full tensor: golden answers, bits, views, replicas, scales."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_affine.builders import (
    block_gather_map,
    contiguous_split_map,
    flat_map,
    mesh_map,
    replicated_map,
    segmented_map,
    sub_param_map,
)
from pytest_affine.errors import AffineTransferError, InvalidMapError
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap

unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

COLUMNS = contiguous_split_map((2, 3), [2, 1], 1)
PAIR = replicated_map((2,), 2)
# A vocabulary of 5 in rows of 3: location 1 has one row of padding (F15).
PADDED = ParamAffineMap(
    (5,),
    {0: (3,), 1: (3,)},
    {
        0: [AffinePiece((3,), 0, (1,), 0, (1,), (0,))],
        1: [AffinePiece((2,), 3, (1,), 0, (1,), (1,))],
    },
    {1: [Padding((1,), 2, (1,))]},
)
# Both hold all six elements; location 0 in pieces of 2 and 4, location 1 in pieces of 5 and 1.
CUT_DIFFERENTLY = ParamAffineMap(
    (6,),
    {0: (6,), 1: (6,)},
    {
        0: [
            AffinePiece((2,), 0, (1,), 0, (1,), (0, 1)),
            AffinePiece((4,), 2, (1,), 2, (1,), (0, 1)),
        ],
        1: [
            AffinePiece((5,), 0, (1,), 0, (1,), (0, 1)),
            AffinePiece((1,), 5, (1,), 5, (1,), (0, 1)),
        ],
    },
)
ROUND_TRIPS = {
    "columns": COLUMNS,
    "middle axis": contiguous_split_map((2, 3, 2), [1, 0, 2], 1),
    "fused": sub_param_map((8, 1), [4, 2, 2], [[2, 2], [1, 1], [1, 1]], 0),
    "segmented": segmented_map((6, 2), [(4, False), (2, True)], 0, 2, [[1, 3]]),
    "gathered": block_gather_map((6,), {0: [0, 1, 4, 5], 1: [2, 3, 4, 5]}, 1, 0),
    "flat": flat_map({"w": (3, 4)}, {2: (0, 5), 0: (5, 12), 1: (5, 5)})["w"],
    "mesh": mesh_map((5, 4), [2, 2], [["strided_shard", 0, 2], ["shard", 1]]),
    "replicas": replicated_map((2, 2), 3),
    "replicas cut differently": CUT_DIFFERENTLY,
    "padded": PADDED,
    "scalar": replicated_map((), 2),
    "no elements": replicated_map((0, 3), 2),
    "transposed": ParamAffineMap(
        (2, 4), {0: (4, 2)}, {0: [AffinePiece((2, 4), 0, (4, 1), 0, (1, 2), (0,))]}
    ),
}


def refuses(message: str) -> Any:
    return pytest.raises(AffineTransferError, match=f"^{re.escape(message)}$")


def numbered(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = int(torch.Size(shape).numel())
    return torch.arange(1, count + 1).to(dtype).view(shape)


def extract_all(map_: ParamAffineMap, full: torch.Tensor) -> dict[int, torch.Tensor]:
    return {location: map_.extract(full, location) for location in map_.locations}


def raw(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist())


def from_raw(data: list[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(data, dtype=torch.uint8).view(dtype)


def test_a_column_shard_is_cut_row_by_row() -> None:
    """F08 and F43."""
    full = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    shards = extract_all(COLUMNS, full)
    assert shards[0].tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert shards[1].tolist() == [[3.0], [6.0]]


def test_the_full_tensor_is_put_together_from_columns() -> None:
    shards = {
        0: torch.tensor([[1.0, 2.0], [4.0, 5.0]]),
        1: torch.tensor([[3.0], [6.0]]),
    }
    assert COLUMNS.rebuild(shards).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_fragments_go_where_their_offset_says() -> None:
    """F05: location 2 holds the first three elements, location 0 the last."""
    map_ = flat_map({"w": (2, 2)}, {2: (0, 3), 0: (3, 4), 1: (0, 0)})["w"]
    shards = {0: torch.tensor([4]), 1: torch.tensor([], dtype=torch.int64), 2: torch.arange(1, 4)}
    assert map_.rebuild(shards).tolist() == [[1, 2], [3, 4]]
    assert map_.extract(numbered((2, 2)), 2).tolist() == [1.0, 2.0, 3.0]


def test_padding_is_zero_when_cut_and_ignored_when_rebuilt() -> None:
    """F15."""
    full = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    assert PADDED.extract(full, 1).tolist() == [4.0, 5.0, 0.0]
    shards = {0: full[:3], 1: torch.tensor([4.0, 5.0, float("nan")])}
    assert PADDED.rebuild(shards).tolist() == full.tolist()


@pytest.mark.parametrize("map_", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
def test_rebuild_is_the_inverse_of_extract(map_: ParamAffineMap) -> None:
    full = numbered(map_.logical_shape)
    shards = extract_all(map_, full)
    assert {at: tuple(shard.shape) for at, shard in shards.items()} == dict(map_.shard_shapes)
    rebuilt = map_.rebuild(shards)
    assert rebuilt.shape == full.shape
    assert rebuilt.tolist() == full.tolist()


BITS = [
    # -0.0, a quiet NaN with a payload, a signalling NaN, a denormal; little-endian bytes
    (torch.float64, [0, 0, 0, 0, 0, 0, 0, 128, 7, 0, 0, 0, 0, 0, 248, 127]),
    (torch.float32, [0, 0, 0, 128, 7, 0, 192, 127, 1, 0, 128, 127, 1, 0, 0, 0]),
    (torch.float16, [0, 128, 7, 126, 1, 124, 1, 0]),
    (torch.bfloat16, [0, 128, 199, 127, 129, 127, 1, 0]),
    (torch.float8_e4m3fn, [128, 127, 255, 1]),
    (torch.float8_e5m2, [128, 126, 253, 1]),
    (torch.complex64, [0, 0, 0, 128, 7, 0, 192, 127, 1, 0, 128, 255, 0, 0, 0, 128]),
    (torch.complex128, [*range(16), 7, 0, 0, 0, 0, 0, 248, 127, 0, 0, 0, 0, 0, 0, 0, 128]),
    (torch.int64, [*range(1, 17)]),
    (torch.int8, [0, 1, 128, 255]),
    (torch.bool, [0, 1, 1, 0]),
]
IDS = [str(dtype) for dtype, _ in BITS]


@pytest.mark.parametrize(("dtype", "data"), BITS, ids=IDS)
def test_every_bit_survives_the_round_trip(dtype: torch.dtype, data: list[int]) -> None:
    full = from_raw(data, dtype)
    half = len(full) // 2
    map_ = block_gather_map((len(full),), {0: [1, 0], 1: [0]}, half, 0)
    shards = extract_all(map_, full)
    middle = half * dtype.itemsize
    assert shards[0].dtype == dtype
    assert raw(shards[0]) == bytes(data[middle:] + data[:middle])
    assert raw(shards[1]) == bytes(data[:middle])
    assert raw(map_.rebuild(shards)) == bytes(data)


def in_a_window(tensor: torch.Tensor) -> torch.Tensor:
    """Equal values in the second half of a larger buffer (F44)."""
    buffer = torch.full((2 * tensor.numel(),), -1, dtype=tensor.dtype)
    return buffer.chunk(2)[1].view(tensor.shape).copy_(tensor)


def in_every_second_place(tensor: torch.Tensor) -> torch.Tensor:
    buffer = torch.full((*tensor.shape, 2), -1, dtype=tensor.dtype)
    return buffer[..., 1].copy_(tensor)


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mT.contiguous().mT


VIEWS = [in_a_window, in_every_second_place, transposed]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128, torch.int8])
@pytest.mark.parametrize("view", VIEWS)
def test_views_into_larger_or_other_storage_are_read_by_their_elements(
    view: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    full = numbered((2, 3), dtype)
    assert view(full).tolist() == full.tolist()
    shards = extract_all(COLUMNS, full)
    assert [COLUMNS.extract(view(full), location).tolist() for location in (0, 1)] == [
        shards[0].tolist(),
        shards[1].tolist(),
    ]
    viewed = {location: view(shard) for location, shard in shards.items()}
    assert COLUMNS.rebuild(viewed).tolist() == full.tolist()


def test_conjugated_and_negated_views_are_read_as_what_they_show() -> None:
    pair = torch.tensor([1 + 2j, 3 - 4j])
    assert PAIR.extract(pair.conj(), 0).tolist() == [1 - 2j, 3 + 4j]
    one = torch.tensor([1 + 2j]).conj().imag
    assert one.is_neg()
    assert replicated_map((1,), 1).extract(one, 0).tolist() == [-2.0]


def test_results_are_packed_and_share_nothing_with_what_they_were_made_of() -> None:
    full = torch.ones(2, requires_grad=True)
    shards = extract_all(PAIR, full)
    rebuilt = PAIR.rebuild(shards)
    for result in (*shards.values(), rebuilt):
        assert not result.requires_grad
        assert result.is_contiguous()
        result.zero_()
    assert full.tolist() == [1.0, 1.0]


def test_shards_may_have_any_shape_of_the_right_size() -> None:
    shards = {0: torch.tensor([1, 2, 4, 5]), 1: torch.tensor([3, 6])}
    assert COLUMNS.rebuild(shards).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_replicas_that_differ_are_refused_and_the_element_is_named() -> None:
    """F21."""
    map_ = segmented_map((2, 2), [(1, False), (1, True)], 0, 2, [[1, 0]])
    shards = extract_all(map_, numbered((2, 2)))
    shards[1][0, 1] = 7.0
    with refuses("replicas of element (1, 1) differ: locations (0, 1) must hold the same bits"):
        map_.rebuild(shards)


def test_a_replicated_scalar_that_differs_is_refused() -> None:
    shards = {0: torch.tensor(1.0), 1: torch.tensor(2.0)}
    with refuses("replicas of element () differ: locations (0, 1) must hold the same bits"):
        replicated_map((), 2).rebuild(shards)


@pytest.mark.parametrize("location", [0, 1])
@pytest.mark.parametrize("element", range(6))
def test_replicas_are_compared_element_by_element_whatever_their_pieces(
    element: int, location: int
) -> None:
    shards = extract_all(CUT_DIFFERENTLY, numbered((6,)))
    shards[location][element] = -1.0
    message = f"replicas of element ({element},) differ: "
    with refuses(message + "locations (0, 1) must hold the same bits"):
        CUT_DIFFERENTLY.rebuild(shards)


@pytest.mark.parametrize(
    ("dtype", "one", "other"),
    [
        (torch.float32, [0, 0, 0, 0], [0, 0, 0, 128]),  # 0.0 and -0.0
        (torch.float32, [0, 0, 192, 127], [7, 0, 192, 127]),  # NaNs of two payloads
        (torch.float8_e4m3fn, [127], [255]),  # NaNs of two signs
        (torch.bfloat16, [128, 63], [129, 63]),
        (torch.complex64, [0] * 8, [0] * 7 + [128]),
        (torch.complex128, [0] * 16, [0] * 15 + [128]),
        (torch.int64, [0] * 8, [0] * 7 + [1]),
        (torch.bool, [0], [1]),
    ],
)
def test_replicas_that_differ_in_one_bit_are_refused(
    dtype: torch.dtype, one: list[int], other: list[int]
) -> None:
    shards = {0: from_raw([*one, *one], dtype), 1: from_raw([*one, *other], dtype)}
    with refuses("replicas of element (1,) differ: locations (0, 1) must hold the same bits"):
        PAIR.rebuild(shards)


def test_equal_nans_are_equal() -> None:
    nans = torch.tensor([float("nan"), 1.0])
    assert raw(PAIR.rebuild({0: nans, 1: nans.clone()})) == raw(nans)


def test_a_shard_is_the_full_tensor_times_the_scale_and_back() -> None:
    map_ = replicated_map((2,), 2, 0.25)
    full = torch.tensor([2.0, -6.0])
    assert map_.extract(full, 1).tolist() == [0.5, -1.5]
    assert map_.rebuild({0: full, 1: full}).tolist() == [8.0, -24.0]


def test_only_the_scaled_piece_is_scaled() -> None:
    halves = [AffinePiece((1,), i, (1,), i, (1,), (0,), 2.0 - i) for i in range(2)]
    map_ = ParamAffineMap((2,), {0: (2,)}, {0: halves})
    assert map_.extract(torch.tensor([3.0, 5.0]), 0).tolist() == [6.0, 5.0]
    assert map_.rebuild({0: torch.tensor([6.0, 5.0])}).tolist() == [3.0, 5.0]


def test_rebuild_divides_where_a_reciprocal_would_be_inexact() -> None:
    map_ = replicated_map((1,), 1, 49.0)
    assert map_.rebuild({0: torch.tensor([49.0], dtype=torch.float64)}).tolist() == [1.0]
    assert 49.0 * (1 / 49.0) != 1.0


def test_scaled_replicas_are_compared_before_they_are_divided() -> None:
    """A third of both is the same float32; the shards are not."""
    bits = torch.tensor([0x3F800000, 0x3F800001], dtype=torch.int32)
    one, other = bits[:1].view(torch.float32), bits[1:].view(torch.float32)
    assert one / 3e38 == other / 3e38
    with refuses("replicas of element (0,) differ: locations (0, 1) must hold the same bits"):
        replicated_map((1,), 2, 3e38).rebuild({0: one, 1: other})


FLOATS = [(dtype, data) for dtype, data in BITS if dtype.is_floating_point or dtype.is_complex]


@pytest.mark.parametrize("scale", [0.5, -2.0])
@pytest.mark.parametrize(("dtype", "data"), FLOATS, ids=[str(dtype) for dtype, _ in FLOATS])
def test_scales_that_are_powers_of_two_are_undone_bit_for_bit(
    dtype: torch.dtype, data: list[int], scale: float
) -> None:
    values = [1.0, -1.5, 0.0, -0.0, float("inf")]
    if dtype is torch.float8_e4m3fn:
        values[-1] = 240.0 / 2  # it has no infinity
    nans = from_raw(data, dtype)
    nans = nans[(nans.real if dtype.is_complex else nans).isnan()]
    full = torch.cat([torch.tensor(values).to(dtype).view(torch.uint8), nans.view(torch.uint8)])
    full = full.view(dtype)
    map_ = replicated_map(tuple(full.shape), 2, scale)
    shards = extract_all(map_, full)
    assert shards[0][1].to(torch.complex64).real == -1.5 * scale
    assert raw(map_.rebuild(shards)) == raw(full)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8, torch.bool])
def test_a_scale_on_integers_is_refused(dtype: torch.dtype) -> None:
    map_, full = replicated_map((2,), 1, 0.5), torch.ones(2, dtype=dtype)
    message = f"a scale of 0.5 needs a floating dtype, got {dtype}"
    with refuses(message):
        map_.extract(full, 0)
    with refuses(message):
        map_.rebuild({0: full})


@pytest.mark.parametrize("shape", [(3, 2), (6,), (2, 3, 1), (2, 4)])
def test_a_full_tensor_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with refuses(f"full must have the logical shape (2, 3), got {shape}"):
        COLUMNS.extract(torch.zeros(shape), 0)


def test_an_unknown_location_is_refused() -> None:
    with refuses("no location 2 in this map; it has [0, 1]"):
        COLUMNS.extract(torch.zeros(2, 3), 2)


@pytest.mark.parametrize("size", [1, 3])
def test_a_shard_of_another_size_is_refused(size: int) -> None:
    """F14: real shards of 2 under a map that declares replicas of 4, and other mistakes."""
    shards = {0: torch.zeros(2, 2), 1: torch.zeros(size)}
    with refuses(f"the shard of location 1 must have 2 elements, got {size}"):
        COLUMNS.rebuild(shards)


def test_a_shard_declared_as_a_replica_is_refused() -> None:
    """F14."""
    halves = {0: torch.zeros(2), 1: torch.zeros(2)}
    with refuses("the shard of location 0 must have 4 elements, got 2"):
        replicated_map((4,), 2).rebuild(halves)


@pytest.mark.parametrize("locations", [[], [0], [0, 1, 2], [0, 2]])
def test_missing_and_surplus_shards_are_refused(locations: list[int]) -> None:
    with refuses(f"shards must be given for the locations [0, 1], got {locations}"):
        COLUMNS.rebuild({location: torch.zeros(2, 2) for location in locations})


def test_a_map_without_locations_has_nothing_to_rebuild_from() -> None:
    with refuses("shards must be given for the locations [], got []"):
        ParamAffineMap((0,), {}, {}).rebuild({})


def test_shards_of_different_dtypes_are_refused() -> None:
    with refuses(
        "shards must have one dtype and device, got ['torch.float16 on cpu', 'torch.int16 on cpu']"
    ):
        PAIR.rebuild({0: torch.zeros(2, dtype=torch.float16), 1: torch.zeros(2, dtype=torch.int16)})


def test_shards_on_different_devices_are_refused() -> None:
    with refuses(
        "shards must have one dtype and device, got "
        "['torch.float32 on cpu', 'torch.float32 on meta']"
    ):
        PAIR.rebuild({0: torch.zeros(2), 1: torch.zeros(2, device="meta")})


def test_an_invalid_map_is_neither_cut_nor_rebuilt() -> None:
    """F01: one shard address written twice, another never."""
    twice = [AffinePiece((2,), full, (1,), 0, (1,), (0,)) for full in (0, 2)]
    map_ = ParamAffineMap((4,), {0: (4,)}, {0: twice})
    with pytest.raises(InvalidMapError, match="MAP-TILE"):
        map_.extract(torch.zeros(4), 0)
    with pytest.raises(InvalidMapError, match="MAP-TILE"):
        map_.rebuild({0: torch.zeros(4)})


@st.composite
def permuted_maps(draw: st.DrawFn) -> tuple[ParamAffineMap, list[int]]:
    """One location that holds a (2, 3, 2) tensor with its axes permuted, and that permutation."""
    shape, order = (2, 3, 2), draw(st.permutations(range(3)))
    shard_shape = [shape[axis] for axis in order]
    packed, strides = 1, [0, 0, 0]
    for axis in reversed(order):
        strides[axis], packed = packed, packed * shape[axis]
    piece = AffinePiece(shape, 0, (6, 2, 1), 0, tuple(strides), (0,))
    return ParamAffineMap(shape, {0: shard_shape}, {0: [piece]}), order


@unhurried
@given(permuted_maps())
def test_a_piece_is_read_by_its_strides_on_either_side(
    permuted: tuple[ParamAffineMap, list[int]],
) -> None:
    map_, order = permuted
    full = numbered((2, 3, 2))
    assert map_.extract(full, 0).tolist() == full.permute(order).tolist()
    assert map_.rebuild({0: full.permute(order)}).tolist() == full.tolist()
