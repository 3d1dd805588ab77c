import gc
import os
import subprocess
import sys

import pytest
import torch
from handmade import MadeAnew, block, plan, run
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_affine.errors import AffineTransferError
from pytest_affine.geometry import row_major_strides
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.reference.analyzer import analyze_transfers
from pytest_affine.reference.operations import cut_batch
from pytest_affine.reference.schedule import schedule_transfers

APART = TransferEndpoints({0: 0}, {0: 1})


def scheduled(plans, endpoints=APART, *, element_size=1, budget=2**20, process=None):
    return schedule_transfers(
        plans,
        endpoints,
        element_size=element_size,
        budget=StagingBudget(budget),
        process=process,
    ).processes


def num_chunks(plans, endpoints=APART, *, budget=2**20):
    batch = cut_batch(plans, endpoints, element_size=1, budget=StagingBudget(budget), cast=False)
    return batch.num_chunks


def packed(shape, **plan_fields):
    strides = row_major_strides(shape)
    return plan(block((0, 0, strides), (0, 0, strides), shape), **plan_fields)


def messages(processes, sender=0, receiver=1):
    return processes[sender].sends[receiver].messages


def boxes(chunks):
    return [(chunk.origin, chunk.shape) for chunk in chunks]


@pytest.mark.parametrize(
    ("shape", "limit", "expected"),
    [
        ((), 1, [((), ())]),
        ((2, 3), 6, [((0, 0), (2, 3))]),
        ((4, 3), 7, [((0, 0), (2, 3)), ((2, 0), (2, 3))]),
        ((5,), 2, [((0,), (2,)), ((2,), (2,)), ((4,), (1,))]),
        ((2, 3), 2, [((0, 0), (1, 2)), ((0, 2), (1, 1)), ((1, 0), (1, 2)), ((1, 2), (1, 1))]),
        (
            (2, 3, 2),
            4,
            [
                ((0, 0, 0), (1, 2, 2)),
                ((0, 2, 0), (1, 1, 2)),
                ((1, 0, 0), (1, 2, 2)),
                ((1, 2, 0), (1, 1, 2)),
            ],
        ),
        ((2, 2, 2), 3, [((i, j, 0), (1, 1, 2)) for i in range(2) for j in range(2)]),
        ((6, 1), 4, [((0, 0), (4, 1)), ((4, 0), (2, 1))]),
        ((2, 1, 4), 4, [((0, 0, 0), (1, 1, 4)), ((1, 0, 0), (1, 1, 4))]),
        ((1, 3), 2, [((0, 0), (1, 2)), ((0, 2), (1, 1))]),
    ],
)
def test_a_segment_is_cut_into_inner_axes_then_steps_of_the_next_axis(shape, limit, expected):
    plans = {"w": packed(shape)}
    sent = messages(scheduled(plans, budget=limit))
    assert boxes(chunk for message in sent for chunk in message.chunks) == expected
    assert num_chunks(plans, budget=limit) == len(expected)


def test_the_cut_counts_whole_elements_of_the_budget():
    sent = messages(scheduled({"w": packed((5,))}, element_size=4, budget=11))
    assert [message.num_bytes for message in sent] == [8, 8, 4]


def test_a_local_segment_is_cut_too_and_is_in_no_message():
    processes = scheduled({"w": packed((3,))}, TransferEndpoints({0: 2}, {0: 2}), budget=2)
    assert boxes(processes[2].local_copies) == [((0,), (2,)), ((2,), (1,))]
    assert processes[2].sends == processes[2].receives == {}
    assert processes[2].num_rounds == 0


@pytest.mark.parametrize("endpoints", [APART, TransferEndpoints({0: 0}, {0: 0, 1: 1})])
def test_a_segment_without_elements_is_skipped(endpoints):
    processes = scheduled({"w": packed((2, 0))}, endpoints)
    assert [own.sends for own in processes.values()] == [{}, {}]
    assert [own.receives for own in processes.values()] == [{}, {}]
    assert processes[0].local_copies == ()
    assert num_chunks({"w": packed((2, 0))}, endpoints) == 0


def test_operations_are_in_the_order_of_batch_then_plan_then_chunk():
    two = plan(run((0, 4), (0, 0), 2), run((0, 0), (0, 2), 1))
    (message,) = messages(scheduled({"z": two, "a": packed((3,))}, budget=6))
    assert [(c.parameter, c.segment, c.origin) for c in message.chunks] == [
        ("z", 0, (0,)),
        ("z", 1, (0,)),
        ("a", 0, (0,)),
    ]


def test_a_message_takes_operations_while_they_fit():
    runs = plan(*(run((0, 0), (0, 0), length) for length in (2, 3, 1, 4, 2)))
    sent = messages(scheduled({"w": runs}, element_size=2, budget=10))
    assert [message.num_elements for message in sent] == [5, 5, 2]
    assert [message.num_bytes for message in sent] == [10, 10, 4]
    assert [len(message.chunks) for message in sent] == [2, 2, 1]


def test_an_operation_that_does_not_fit_closes_the_message_for_good():
    runs = plan(*(run((0, 0), (0, 0), length) for length in (3, 4, 1)))
    sent = messages(scheduled({"w": runs}, budget=5))
    assert [message.num_elements for message in sent] == [3, 5]


def test_a_message_holds_one_element_size():
    plans = {name: packed((1,)) for name in "abcd"}
    sent = messages(scheduled(plans, element_size={"a": 2, "b": 2, "c": 4, "d": 2}))
    assert [[c.parameter for c in m.chunks] for m in sent] == [["a", "b"], ["c"], ["d"]]
    assert [m.num_bytes for m in sent] == [4, 4, 2]


def test_each_ordered_pair_has_its_own_messages():
    endpoints = TransferEndpoints({0: 0, 1: 1}, {0: 1, 1: 0, 2: 2})
    spread = plan(
        run((0, 0), (0, 0), 1),
        run((1, 0), (1, 0), 2),
        run((0, 0), (2, 0), 3),
        run((1, 0), (2, 3), 4),
    )
    processes = scheduled({"w": spread}, endpoints)
    sent = {(p, q): queue for p, own in processes.items() for q, queue in own.sends.items()}
    assert {pair: queue.messages[0].num_elements for pair, queue in sent.items()} == {
        (0, 1): 1,
        (1, 0): 2,
        (0, 2): 3,
        (1, 2): 4,
    }


def test_peers_are_in_ascending_order():
    spread = plan(*(run((0, 0), (target, 0), 1) for target in (1, 2, 0)))
    processes = scheduled({"w": spread}, TransferEndpoints({0: 9}, {0: 5, 1: 7, 2: 6}))
    assert list(processes) == [5, 6, 7, 9]
    assert list(processes[9].sends) == [5, 6, 7]


def test_both_ends_of_a_message_agree():
    endpoints = TransferEndpoints({0: 3, 1: 1}, {0: 1, 1: 3})
    columns = plan(
        block((0, 0, (4, 1)), (0, 0, (2, 1)), (2, 2)),
        block((0, 2, (4, 1)), (1, 0, (2, 1)), (2, 2)),
        block((1, 0, (1,)), (1, 4, (1,)), (3,)),
    )
    processes = scheduled({"w": columns, "v": columns}, endpoints, element_size=4, budget=9)
    for sender, receiver in ((3, 1), (1, 3)):
        sent = processes[sender].sends[receiver].messages
        received = processes[receiver].receives[sender].messages
        assert [m.chunks for m in sent] == [m.chunks for m in received]
        assert [m.num_bytes for m in sent] == [m.num_bytes for m in received]


@pytest.mark.parametrize(
    ("shape", "strides", "direct"),
    [
        ((4,), (1,), True),
        ((4,), (2,), False),
        ((4,), (0,), False),
        ((2, 4), (4, 1), True),
        ((2, 4), (1, 2), False),
        ((2, 3), (4, 1), False),
        ((1, 4), (99, 1), True),
        ((4, 1), (1, 99), True),
        ((2, 1, 3), (3, 7, 1), True),
        ((2, 1, 3), (6, 7, 2), False),
        ((1,), (0,), True),
        ((), (), True),
    ],
)
def test_a_message_of_one_packed_chunk_is_direct(shape, strides, direct):
    odd = block((0, 3, strides), (0, 5, row_major_strides(shape)), shape)
    processes = scheduled({"w": plan(odd)})
    (sent,) = processes[0].sends[1].messages
    (received,) = processes[1].receives[0].messages
    assert (sent.direct, received.direct) == (direct, True)
    back = block((0, 5, row_major_strides(shape)), (0, 3, strides), shape)
    processes = scheduled({"w": plan(back)})
    assert processes[0].sends[1].messages[0].direct is True
    assert processes[1].receives[0].messages[0].direct is direct


def test_a_message_of_two_packed_chunks_is_staged_on_both_sides():
    processes = scheduled({"w": plan(run((0, 0), (0, 0), 2), run((0, 2), (0, 2), 2))})
    assert not processes[0].sends[1].messages[0].direct
    assert not processes[1].receives[0].messages[0].direct


def test_directness_is_the_chunks_and_not_the_segments():
    rows = plan(block((0, 0, (8, 1)), (0, 0, (4, 1)), (2, 4)))
    assert [m.direct for m in messages(scheduled({"w": rows}, budget=4))] == [True, True]
    assert [m.direct for m in messages(scheduled({"w": rows}, budget=8))] == [False]


@st.composite
def regions(draw):
    shape = draw(st.lists(st.integers(1, 3), max_size=4))
    strides = list(row_major_strides(shape))
    for axis in draw(st.sets(st.integers(0, 3), max_size=2)):
        if axis < len(strides):
            strides[axis] = draw(st.integers(0, 9))
    return tuple(shape), tuple(strides)


@settings(max_examples=200)
@given(regions(), st.integers(1, 30))
def test_the_packed_test_is_that_of_torch(region, limit):
    shape, strides = region
    segment = block((0, 0, strides), (0, 0, row_major_strides(shape)), shape)
    for message in messages(scheduled({"w": plan(segment)}, budget=limit)):
        (chunk,) = message.chunks
        reach = 1 + sum((extent - 1) * s for extent, s in zip(chunk.shape, strides, strict=True))
        tensor = torch.empty(reach).as_strided(chunk.shape, strides)
        assert message.direct == tensor.is_contiguous()


def test_an_arena_holds_the_largest_staged_message():
    columns = plan(
        block((0, 0, (9, 1)), (0, 0, (1, 2)), (2, 2)),
        run((0, 20), (0, 9), 7),
        block((0, 0, (9, 1)), (0, 0, (1, 2)), (2, 3)),
    )
    processes = scheduled({"w": columns}, element_size=4, budget=28)
    assert [m.num_bytes for m in messages(processes)] == [16, 28, 24]
    assert [m.direct for m in messages(processes)] == [False, True, False]
    assert processes[0].sends[1].arena_bytes == 24
    assert processes[1].receives[0].arena_bytes == 24


def test_a_queue_of_direct_messages_has_no_arena():
    processes = scheduled({"w": packed((8,))}, budget=4)
    assert len(messages(processes)) == 2
    assert processes[0].sends[1].arena_bytes == 0
    assert processes[1].receives[0].arena_bytes == 0


def test_an_axis_of_extent_one_with_a_large_stride_is_direct():
    processes = scheduled({"w": plan(block((0, 8, (100, 1)), (0, 0, (4, 1)), (1, 4)))})
    assert messages(processes)[0].direct
    assert processes[0].sends[1].arena_bytes == 0


def test_rounds_are_the_longest_queue_of_either_direction():
    endpoints = TransferEndpoints({0: 0, 1: 1}, {0: 1, 1: 2})
    uneven = plan(run((0, 0), (0, 0), 7), run((1, 0), (1, 0), 5))
    processes = scheduled({"w": uneven}, endpoints, budget=3)
    assert {p: own.num_rounds for p, own in processes.items()} == {0: 3, 1: 3, 2: 2}
    assert {p: list(own.sends) for p, own in processes.items()} == {0: [1], 1: [2], 2: []}
    assert {p: list(own.receives) for p, own in processes.items()} == {0: [], 1: [0], 2: [1]}


def test_what_is_sent_and_copied_is_what_the_plans_move():
    endpoints = TransferEndpoints({0: 0, 1: 1}, {0: 0, 1: 1})
    shifted = plan(run((0, 0), (0, 0), 2), run((1, 0), (0, 2), 1), run((1, 1), (1, 0), 1))
    processes = scheduled({"w": shifted}, endpoints, element_size=4)
    assert [m.num_bytes for m in messages(processes, 1, 0)] == [4]
    assert processes[0].sends == {}
    local = [sum(c.num_elements for c in own.local_copies) for own in processes.values()]
    assert local == [2, 1]


def test_one_process_has_its_entry_of_the_schedule_for_all():
    endpoints = TransferEndpoints({0: 0, 1: 5}, {0: 5, 1: 0, 2: 7})
    spread = plan(
        run((0, 0), (0, 0), 4),
        run((1, 0), (2, 0), 3),
        run((0, 0), (1, 0), 2),
        run((1, 0), (1, 2), 1),
    )
    plans = {"w": spread, "v": spread}
    whole = scheduled(plans, endpoints, budget=3)
    assert list(whole) == [0, 5, 7]
    for process in whole:
        assert scheduled(plans, endpoints, budget=3, process=process) == {process: whole[process]}


def test_a_plan_used_for_two_parameters_counts_twice():
    shared = packed((3,))
    (message,) = messages(scheduled({"a": shared, "b": shared}))
    assert [chunk.parameter for chunk in message.chunks] == ["a", "b"]
    assert num_chunks({"a": shared, "b": shared}) == 2


def test_plans_that_are_made_when_asked_for_are_told_apart():
    (message,) = messages(scheduled(MadeAnew({f"p{length}": length for length in range(1, 50)})))
    assert [chunk.shape for chunk in message.chunks] == [(length,) for length in range(1, 50)]


def test_a_plan_shared_by_two_element_sizes_is_cut_for_each():
    shared = packed((6,))
    sent = messages(scheduled({"a": shared, "b": shared}, element_size={"a": 2, "b": 4}, budget=8))
    assert [message.num_elements for message in sent] == [4, 2, 2, 2, 2]


def test_the_last_chunk_of_a_cut_segment_is_joined_by_what_follows():
    mixed = plan(run((0, 0), (0, 0), 1), run((0, 0), (0, 0), 7), run((0, 0), (0, 0), 2))
    sent = messages(scheduled({"w": mixed}, budget=3))
    # 1, then 3 + 3 + 1, then 2
    assert [[c.segment for c in m.chunks] for m in sent] == [[0], [1], [1], [1, 2]]
    assert [m.num_elements for m in sent] == [1, 3, 3, 3]


def test_the_first_chunk_of_a_cut_segment_joins_what_is_there():
    # Rows of 3 do not fill what the budget leaves.
    mixed = plan(run((0, 0), (0, 0), 2), block((0, 0, (3, 1)), (0, 0, (3, 1)), (3, 3)))
    sent = messages(scheduled({"w": mixed}, budget=5))
    assert [[c.segment for c in m.chunks] for m in sent] == [[0, 1], [1], [1]]


def test_one_process_is_scheduled_whatever_the_others_have():
    endpoints = TransferEndpoints({0: 0}, {0: 1, 1: 2})
    uneven = plan(run((0, 0), (0, 0), 2**60), run((0, 0), (1, 0), 2))
    processes = scheduled({"w": uneven}, endpoints, budget=1, process=2)
    assert processes[2].num_rounds == 2
    assert num_chunks({"w": uneven}, endpoints, budget=1) == 2**60 + 2


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("stage", [schedule_transfers, analyze_transfers])
def test_the_garbage_collector_is_left_as_it_was(stage, enabled):
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        stage({}, APART, element_size=1, budget=StagingBudget())
        with pytest.raises(AffineTransferError):
            stage({}, APART, element_size=1, budget=StagingBudget(0))
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


PROGRAM = """
import sys
sys.modules["torch"] = None
from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferPlan, TransferSegment
from pytest_affine.reference.analyzer import analyze_transfers
from pytest_affine.reference.digest import plan_digest
from pytest_affine.reference.schedule import schedule_transfers
segment = TransferSegment(
    source_location=0, source_offset=0, source_strides=(2**30, 1),
    target_location=0, target_offset=0, target_strides=(1, 2**30), shape=(2**30, 2**30),
)
plans = {"w": TransferPlan((segment,), (2**60,), None, None, 2**60)}
batch = plans, TransferEndpoints({0: 0}, {0: 1})
options = {"element_size": 4, "budget": StagingBudget(2**62)}
(message,) = schedule_transfers(*batch, **options).processes[0].sends[1].messages
print(message.num_bytes, analyze_transfers(*batch, **options).volume.num_bytes)
print(len(plan_digest(*batch, **options)))
"""


def test_schedule_analysis_and_digest_need_no_torch():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(2**62), str(2**62), "64"]


@pytest.mark.parametrize("plans", [{}, {"w": packed((2,))}])
@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (0, "budget.bytes_per_peer must be 1 or more, got 0"),
        (-1, "budget.bytes_per_peer must be 1 or more, got -1"),
        (3, "budget.bytes_per_peer is 3, which holds no element of 4 bytes; it must be 4 or more"),
        (True, "budget.bytes_per_peer must be an integer, got True"),
        (8.0, r"budget.bytes_per_peer must be an integer, got 8\.0"),
        (None, "budget.bytes_per_peer must be an integer, got None"),
    ],
)
def test_an_unusable_budget_is_refused_for_an_empty_batch_too(plans, budget, message):
    with pytest.raises(AffineTransferError, match=message):
        scheduled(plans, element_size=4, budget=budget)


@pytest.mark.parametrize("size", [0, -2, True, 1.5, "4"])
@pytest.mark.parametrize("spread", [lambda size: size, lambda size: {"w": size}])
def test_an_element_size_that_is_no_positive_integer_is_refused(size, spread):
    with pytest.raises(AffineTransferError, match=r"element_size.* must be (1 or more|an integer)"):
        scheduled({"w": packed((2,))}, element_size=spread(size))


def test_the_budget_holds_every_element_size_given():
    with pytest.raises(AffineTransferError, match="holds no element of 8 bytes"):
        scheduled({}, element_size={"a": 2, "b": 8}, budget=4)


def test_a_parameter_without_element_size_is_refused():
    with pytest.raises(AffineTransferError, match=r"element_size lacks parameters \['w'\].*'v'"):
        scheduled({"w": packed((2,))}, element_size={"v": 4})


@pytest.mark.parametrize("process", [2, 7, -1])
def test_a_process_that_no_endpoint_names_is_refused(process):
    with pytest.raises(AffineTransferError, match=rf"process {process} is named by no .* \[0, 1\]"):
        scheduled({"w": packed((2,))}, process=process)


@pytest.mark.parametrize("process", [True, 0.0, "0"])
def test_a_process_that_is_no_integer_is_refused(process):
    with pytest.raises(AffineTransferError, match="process must be an integer"):
        scheduled({"w": packed((2,))}, process=process)


@pytest.mark.parametrize("process", [-1, 0.5, True, None])
@pytest.mark.parametrize("side", ["source", "target"])
def test_an_endpoint_that_is_no_process_is_refused(process, side):
    bound = {"source": {0: 0}, "target": {0: 1}, side: {0: process}}
    message = rf"endpoints.{side}\[0\] must be (0 or more|an integer), got {process}"
    with pytest.raises(AffineTransferError, match=message):
        scheduled({}, TransferEndpoints(**bound))


@pytest.mark.parametrize(
    "unbound",
    [
        plan(run((3, 0), (0, 0), 1)),
        plan(source_sizes={0: 1, 3: 0}),
    ],
)
def test_a_source_location_without_endpoint_is_refused(unbound):
    message = r"parameter 'w' has source locations \[3\] without an endpoint; those bound: \[0\]"
    with pytest.raises(AffineTransferError, match=message):
        scheduled({"w": unbound})


@pytest.mark.parametrize(
    "unbound",
    [
        plan(run((0, 0), (3, 0), 1)),
        plan(target_sizes={0: 1, 3: 0}),
    ],
)
def test_a_target_location_without_endpoint_is_refused(unbound):
    message = r"parameter 'w' has target locations \[3\] without an endpoint; those bound: \[0\]"
    with pytest.raises(AffineTransferError, match=message):
        scheduled({"w": unbound})


@pytest.mark.parametrize(
    "segment",
    [
        block((0, 0, (1,)), (0, 0, (2, 1)), (2, 2)),
        block((0, 0, (2, 1)), (0, 0, (1,)), (2, 2)),
        block((0, -1, (1,)), (0, 0, (1,)), (2,)),
        block((0, 0, (1,)), (0, 0, (-1,)), (2,)),
        block((0, 0, (2, 1)), (0, 0, (2, 1)), (-2, -2)),
    ],
)
def test_a_segment_that_is_no_block_is_refused(segment):
    with pytest.raises(AffineTransferError, match="segment 0 of parameter 'w' is no block"):
        scheduled({"w": plan(segment)})
