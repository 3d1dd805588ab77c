import pytest
import torch
from handmade import plan, run

from pytest_affine.errors import TransferRefusedError
from pytest_affine.plans import TransferEndpoints
from pytest_affine.reference.buffers import bind_buffers
from pytest_affine.reference.dtypes import Dtypes

SIZED = plan(run((0, 0), (0, 0), 1), source_sizes={0: 1}, target_sizes={0: 1})
UNSIZED = plan(run((0, 0), (0, 0), 1))


def bound(plans, sources, targets, dtype=torch.float32, num_locations=1):
    here = dict.fromkeys(range(num_locations), 0)
    return bind_buffers(
        plans,
        {"source": sources, "target": targets},
        TransferEndpoints(here, here),
        dtypes=dict.fromkeys(plans, Dtypes(dtype, dtype)),
        device=torch.device("cpu"),
        process=0,
    )


def test_a_shard_is_seen_as_a_flat_view_of_its_own_memory():
    memory = torch.zeros(8)
    sizes = {0: 4}
    four = plan(run((0, 0), (0, 0), 4), source_sizes=sizes, target_sizes=sizes)
    flat = bound({"w": four}, {"w": {0: memory[2:6].view(2, 2)}}, {"w": {0: torch.zeros(4)}})
    shard = flat["source"]["w", 0]
    assert shard.shape == (4,)
    assert shard.data_ptr() == memory[2:].data_ptr()


@pytest.mark.parametrize(
    ("lazy", "dtype"),
    [
        (torch.zeros(1, dtype=torch.complex64).conj(), torch.complex64),
        (torch.zeros(1, dtype=torch.complex64).conj().imag, torch.float32),
    ],
    ids=["conjugated", "negated"],
)
def test_a_shard_whose_memory_is_not_its_values_is_refused(lazy, dtype):
    assert lazy.is_contiguous()
    with pytest.raises(TransferRefusedError, match=r"source buffer 'w'\[0\] is not packed"):
        bound({"w": SIZED}, {"w": {0: lazy}}, {"w": {0: torch.zeros(1, dtype=dtype)}}, dtype)


@pytest.mark.parametrize("each", [SIZED, UNSIZED], ids=["with sizes", "without sizes"])
def test_a_buffer_that_segments_read_must_be_there(each):
    with pytest.raises(TransferRefusedError, match=r"^source buffer 'w'\[0\] is missing$"):
        bound({"w": each}, {}, {"w": {0: torch.zeros(1)}})


def test_without_sizes_a_location_that_no_segment_names_may_have_a_buffer_or_none():
    buffers = {"w": {0: torch.zeros(1), 1: torch.zeros(5)}}
    flat = bound({"w": UNSIZED}, buffers, {"w": {0: torch.zeros(1)}}, num_locations=2)
    assert list(flat["source"]) == [("w", 0), ("w", 1)]
    assert list(flat["target"]) == [("w", 0)]


def test_an_empty_shard_needs_no_buffer_and_shares_memory_with_anything():
    empty = plan(source_sizes={0: 0}, target_sizes={0: 4})
    memory = torch.zeros(4)
    assert list(bound({"w": empty}, {}, {"w": {0: memory}})["source"]) == []
    flat = bound({"w": empty}, {"w": {0: memory[2:2]}}, {"w": {0: memory}})
    assert list(flat["source"]) == [("w", 0)]


def test_an_empty_segment_reaches_nothing():
    nothing = plan(run((0, 99), (0, 99), 0), source_sizes={0: 0}, target_sizes={0: 0})
    assert bound({"w": nothing}, {}, {}) == {"source": {}, "target": {}}


def test_neighbours_in_one_memory_do_not_overlap():
    memory = torch.zeros(2)
    flat = bound({"w": SIZED}, {"w": {0: memory[:1]}}, {"w": {0: memory[1:]}})
    assert flat["target"]["w", 0].data_ptr() == memory[1:].data_ptr()


def test_a_target_inside_an_outer_source_overlaps_it_whatever_lies_between():
    three = plan(source_sizes={0: 8, 1: 1}, target_sizes={0: 1})
    memory = torch.zeros(8)
    sources = {"w": {0: memory, 1: memory[1:2]}}
    with pytest.raises(TransferRefusedError, match=r"'w'\[0\] overlaps source buffer 'w'\[0\]"):
        bound({"w": three}, sources, {"w": {0: memory[4:5]}}, num_locations=2)


def test_all_problems_are_told_at_once():
    with pytest.raises(TransferRefusedError) as refusal:
        bound({"w": SIZED}, {"v": {}}, {"w": {0: torch.zeros(2)}})
    assert str(refusal.value) == (
        "source buffers name 'v', which no plan has: ['w']; source buffer 'w'[0] is missing; "
        "target buffer 'w'[0] has 2 elements, its shard has 1"
    )
