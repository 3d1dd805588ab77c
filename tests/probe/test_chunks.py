"""A shard in chunks."""

import pytest
import torch

from pytest_affine.builders import contiguous_split_map, sub_param_map
from pytest_affine.maps import AffinePiece, ParamAffineMap
from pytest_affine.probe import chunks
from pytest_affine.probe.chunks import Scratch, chunks_of
from pytest_affine.probe.readings import wanted_numbers
from pytest_affine.truth import element_at

TRANSPOSED = ParamAffineMap(
    (4, 6), {0: (6, 4)}, {0: [AffinePiece((4, 6), 0, (6, 1), 0, (1, 4), (0,))]}
)
MAPS = [
    contiguous_split_map((4, 6), [2, 2], 0),
    contiguous_split_map((4, 6), [3, 3], 1),
    sub_param_map((6, 2, 3), [2, 4], [[1, 1], [2, 2]], 0),
    TRANSPOSED,
]


@pytest.mark.parametrize("map_", MAPS)
@pytest.mark.parametrize("most", [1, 4, 5, 100])
def test_chunks_are_no_larger_than_allowed_and_have_every_element_once(map_, most, monkeypatch):
    monkeypatch.setattr(chunks, "MAX_CHUNK", most)
    for location in map_.locations:
        found = torch.full((map_.shard_size(location),), -1)
        scratch = Scratch(found.device, torch.int32)
        for chunk in chunks_of(map_, location):
            numbers = scratch.numbers(chunk, start=10)
            assert 1 <= numbers.numel() <= most
            assert (chunk.within(found) == -1).all()
            chunk.within(found).copy_(numbers)
        assert (found - 10).tolist() == list(element_at(map_, location))


def test_scratch_tells_chunks_of_one_shape_apart():
    scratch = Scratch(torch.device("cpu"), torch.int64)
    (row,) = chunks_of(contiguous_split_map((1, 3), [3], 1), 0)
    column = next(chunks_of(contiguous_split_map((3, 2), [1, 1], 1), 1))
    assert scratch.numbers(row, 0).tolist() == [0, 1, 2]
    assert scratch.numbers(column, 0).tolist() == [1, 3, 5]


@pytest.mark.parametrize("first", range(12))
@pytest.mark.parametrize("length", [1, 5])
def test_a_window_of_a_shard_has_its_part_of_the_numbers(first, length, monkeypatch):
    monkeypatch.setattr(chunks, "MAX_CHUNK", 3)
    map_, window = MAPS[1], range(first, min(12, first + length))
    numbers = [7 + element for element in element_at(map_, 1)]
    assert wanted_numbers(map_, 1, 7, window).tolist() == numbers[window.start : window.stop]
