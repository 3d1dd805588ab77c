"""What the executor does while messages are on their way, by the order in which a rank does it."""

import pytest
import torch
import torch.distributed as dist
from handmade import block, plan, run
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.ranks import RankPool
from pytest_affine.reference.executor import execute_transfers

SAME = {location: location for location in range(3)}


@pytest.fixture(scope="module")
def ranks():
    with RankPool(3) as pool:
        yield pool


class Copies(TorchDispatchMode):
    """Notes how many elements are copied."""

    def __init__(self, events):
        super().__init__()
        self.events = events

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.copy_.default:
            self.events.append(f"copy {args[0].numel()}")
        return func(*args, **(kwargs or {}))


class Noted:
    """Work that notes when it has been waited for."""

    def __init__(self, work, events, name):
        self.work = work
        self.events = events
        self.name = name

    def wait(self):
        self.work.wait()
        self.events.append(f"end {self.name}")


class All:
    """One work for several."""

    def __init__(self, works):
        self.works = works

    def wait(self):
        for work in self.works:
            work.wait()


def done(each, size, is_coalesced=False):
    """On every rank: move one parameter of elements of 4 bytes, 8 of which fit into the budget.

    Returns what was done, in order, and what the target holds.
    """
    events = []
    transmit = dist.batch_isend_irecv

    def noted(operations):
        names = [f"{op.op.__name__} {op.tensor.numel()}" for op in operations]
        events.extend(f"post {name}" for name in names)
        works = transmit(operations)
        if is_coalesced:
            works, names = [All(works)], ["round"]
        return [Noted(w, events, name) for w, name in zip(works, names, strict=True)]

    rank = dist.get_rank()
    target = torch.zeros(size)
    dist.batch_isend_irecv = noted
    try:
        with Copies(events):
            execute_transfers(
                {"w": each},
                {"w": {rank: torch.arange(1.0, size + 1)}},
                {"w": {rank: target}},
                TransferEndpoints(SAME, SAME),
                dtype=torch.float32,
                budget=StagingBudget(32),
            )
    finally:
        dist.batch_isend_irecv = transmit
    return events, target.tolist()


def events_of(outcomes):
    return [events for events, _ in outcomes]


def sized(size, *segments):
    sizes = dict.fromkeys(SAME, size)
    return plan(*segments, source_sizes=sizes, target_sizes=sizes)


FROM_TWO = sized(10, *(block((peer, 0, (1,)), (2, peer, (2,)), (3 + peer,)) for peer in (0, 1)))
"""Process 2 receives 3 elements from process 0 and 4 from process 1, every second of its own."""


def test_local_copies_are_made_while_each_round_is_on_its_way(ranks):
    moved = (run((0, at), (1, at), 8) for at in (0, 8))
    stays = (run((0, at), (0, at), size) for at, size in ((0, 3), (3, 4)))
    events, *_ = events_of(ranks.run(done, sized(16, *moved, *stays), 16))
    assert events == [
        *("post isend 32", "copy 3", "end isend 32"),
        *("post isend 32", "copy 4", "end isend 32"),
    ]


def test_local_copies_are_made_where_nothing_is_sent(ranks):
    events = events_of(ranks.run(done, sized(4, run((1, 0), (1, 0), 4)), 4))
    assert events == [[], ["copy 4"], []]


def test_a_message_is_packed_while_a_direct_one_is_on_its_way_and_a_staged_one_is_not(ranks):
    direct = run((0, 0), (1, 0), 8)
    columns = (
        block((0, at, (2,)), (1, at, (1,)), (length,)) for at, length in ((8, 4), (16, 6), (28, 5))
    )
    sender, receiver, _ = events_of(ranks.run(done, sized(40, direct, *columns), 40))
    assert sender == [
        *("post isend 32", "copy 4", "end isend 32"),
        *("post isend 16", "end isend 16"),
        *("copy 6", "post isend 24", "end isend 24"),
        *("copy 5", "post isend 20", "end isend 20"),
    ]
    sizes = (32, 16, 24, 20)
    assert receiver == [f"{what} irecv {size}" for size in sizes for what in ("post", "end")]


def test_a_message_is_unpacked_while_others_are_awaited(ranks):
    *_, receiver = events_of(ranks.run(done, FROM_TWO, 10))
    assert receiver == [
        *("post irecv 12", "post irecv 16"),
        *("end irecv 12", "copy 3", "end irecv 16", "copy 4"),
    ]


def test_one_work_for_a_whole_round_is_waited_for_before_anything_is_unpacked(ranks):
    """As nccl and xccl have it, which post a round as one group."""
    *_, (events, target) = ranks.run(done, FROM_TWO, 10, is_coalesced=True)
    assert events == ["post irecv 12", "post irecv 16", "end round", "copy 3", "copy 4"]
    assert target == [1, 1, 2, 2, 3, 3, 0, 4, 0, 0]
