"""What the tap records of real gloo ranks, and that it changes nothing."""

import itertools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import all_reduce as imported_by_name

from pytest_affine.ranks import RankPool, tap
from pytest_affine.ranks.page import Page
from pytest_affine.ranks.record import Record
from pytest_affine.ranks.wire import Traffic, WireEvent

ALL = (0, 1, 2, 3)


def _record(pool: RankPool, body: Callable[[], Any]) -> list[list[WireEvent]]:
    def recorded() -> list[WireEvent]:
        start = tap.mark()
        body()
        return tap.events_since(start)

    return pool.run(recorded)


def _brief(event: WireEvent) -> tuple[str, int | None, int, int, int]:
    return event.kind, event.peer, event.num_bytes, event.sent_bytes, event.received_bytes


def _next() -> int:
    return (dist.get_rank() + 1) % 4


def _previous() -> int:
    return (dist.get_rank() - 1) % 4


def test_an_event_tells_what_passed_and_when(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 2:
            dist.send(torch.zeros(3, dtype=torch.float64), 1, tag=7)
        if dist.get_rank() == 1:
            dist.recv(torch.zeros(3, dtype=torch.float64), 2, tag=7)

    nothing, (received,), (sent,), also_nothing = _record(pool, body)
    assert nothing == also_nothing == []
    assert _brief(sent) == ("send", 1, 24, 24, 0)
    assert _brief(received) == ("recv", 2, 24, 0, 24)
    assert (sent.dtype, sent.tag, sent.group, sent.group_ranks) == ("float64", 7, "0", ALL)
    for event in (sent, received):
        assert event.ended is not None
        assert event.started < event.ended
    assert sent.started < (received.ended or 0)


def test_a_message_has_ended_once_it_was_waited_for(pool: RankPool) -> None:
    def body() -> list[list[str]]:
        tap.clear()
        works = [dist.isend(torch.ones(1), _next()), dist.irecv(torch.ones(1), _previous())]
        left = []
        for work in works:
            left.append([event.kind for event in tap.unfinished()])
            assert work is not None
            work.wait()
        return [*left, [event.kind for event in tap.unfinished()]]

    assert pool.run(body) == [[["send", "recv"], ["recv"], []]] * 4


def test_a_batch_is_recorded_in_its_order(pool: RankPool) -> None:
    def body() -> None:
        operations = [
            dist.P2POp(dist.irecv, torch.ones(2), _previous()),
            dist.P2POp(dist.isend, torch.ones(2), _next()),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()

    first, second = _record(pool, body)[0]
    assert (_brief(first), _brief(second)) == (("recv", 3, 8, 0, 8), ("send", 1, 8, 8, 0))
    assert second.index == first.index + 1


def test_a_receive_from_any_rank_learns_its_peer(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 0:
            dist.recv(torch.ones(1))
        if dist.get_rank() == 3:
            dist.send(torch.ones(1), 0)

    assert [_brief(event) for event in _record(pool, body)[0]] == [("recv", 3, 4, 0, 4)]


def _lists() -> list[torch.Tensor]:
    return [torch.ones(2) for _ in range(4)]


def _at_root(rank: int, values: list[torch.Tensor]) -> list[torch.Tensor] | None:
    return values if dist.get_rank() == rank else None


# Bytes on rank 1 and rank 2, the root where there is one: one rank's part, sent, received.
COLLECTIVES: dict[str, tuple[Callable[[], Any], tuple[int, ...], tuple[int, ...]]] = {
    "all_reduce": (lambda: dist.all_reduce(torch.ones(2)), (8, 8, 8), (8, 8, 8)),
    "broadcast": (lambda: dist.broadcast(torch.ones(2), 2), (8, 0, 8), (8, 8, 0)),
    "reduce": (lambda: dist.reduce(torch.ones(2), 2), (8, 8, 0), (8, 8, 8)),
    "gather": (
        lambda: dist.gather(torch.ones(2), _at_root(2, _lists()), 2),
        (8, 8, 0),
        (8, 8, 32),
    ),
    "scatter": (
        lambda: dist.scatter(torch.ones(2), _at_root(2, _lists()), 2),
        (8, 0, 8),
        (8, 32, 8),
    ),
    "all_gather": (lambda: dist.all_gather(_lists(), torch.ones(2)), (8, 8, 32), (8, 8, 32)),
    "all_gather_into_tensor": (
        lambda: dist.all_gather_into_tensor(torch.ones(8), torch.ones(2)),
        (8, 8, 32),
        (8, 8, 32),
    ),
    "reduce_scatter": (
        lambda: dist.reduce_scatter(torch.ones(2), _lists()),
        (8, 32, 8),
        (8, 32, 8),
    ),
    "reduce_scatter_tensor": (
        lambda: dist.reduce_scatter_tensor(torch.ones(2), torch.ones(8)),
        (8, 32, 8),
        (8, 32, 8),
    ),
    "all_to_all": (
        lambda: dist.all_to_all(_lists(), _lists()),
        (32, 32, 32),
        (32, 32, 32),
    ),
    "all_to_all_single": (
        lambda: dist.all_to_all_single(torch.ones(8), torch.ones(8)),
        (32, 32, 32),
        (32, 32, 32),
    ),
    "barrier": (dist.barrier, (0, 0, 0), (0, 0, 0)),
    "monitored_barrier": (dist.monitored_barrier, (0, 0, 0), (0, 0, 0)),
}


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_a_collective_is_one_event_that_has_ended(pool: RankPool, kind: str) -> None:
    body, on_1, on_2 = COLLECTIVES[kind]
    events = _record(pool, body)
    assert [len(each) for each in events] == [1] * 4
    peer = 2 if kind in ("broadcast", "reduce", "gather", "scatter") else None
    assert _brief(events[1][0]) == (kind, peer, *on_1)
    assert _brief(events[2][0]) == (kind, peer, *on_2)
    assert all(event.ended for (event,) in events)


@pytest.mark.parametrize(
    "body",
    [
        lambda: dist.all_to_all(_lists(), _lists()),
        lambda: dist.all_to_all_single(torch.ones(8), torch.ones(8)),
    ],
    ids=["tensors", "one tensor"],
)
def test_an_all_to_all_says_what_it_gave_to_each_rank(
    pool: RankPool, body: Callable[[], object]
) -> None:
    for (event,) in _record(pool, body):
        assert event.sent_parts == (8, 8, 8, 8)


@pytest.mark.parametrize("is_functional", [False, True])
def test_an_all_to_all_of_uneven_rows_says_what_it_gave_to_each_rank(
    pool: RankPool, is_functional: bool
) -> None:
    def body() -> None:
        rank = dist.get_rank()
        sent, received = [1, 0, 2, 0] if rank == 1 else [0] * 4, [0, 0, 0, 0]
        received[1] = (1, 0, 2, 0)[rank]
        given = torch.ones(sum(sent), 3)
        if is_functional:
            _ops().wait_tensor(_ops().all_to_all_single(given, received, sent, "0"))
        else:
            dist.all_to_all_single(torch.ones(sum(received), 3), given, received, sent)

    events = _record(pool, body)
    assert [event.sent_parts for (event,) in events] == [
        (0, 0, 0, 0),
        (12, 0, 24, 0),
        (0, 0, 0, 0),
        (0, 0, 0, 0),
    ]


def test_object_collectives_show_as_the_collectives_below_them(pool: RankPool) -> None:
    events = _record(pool, lambda: dist.all_gather_object([None] * 4, 1))[0]
    assert [event.kind for event in events] == ["all_gather", "all_gather"]


def test_an_asynchronous_collective_is_seen_to_end_without_a_wait(pool: RankPool) -> None:
    def body() -> bool:
        start = tap.mark()
        work = dist.all_reduce(torch.ones(1), async_op=True)
        dist.barrier()
        while work is not None and not work.is_completed():
            pass
        return tap.events_since(start)[0].ended is not None

    assert pool.run(body) == [True] * 4


def test_functions_imported_by_name_before_are_seen(pool: RankPool) -> None:
    events = _record(pool, lambda: imported_by_name(torch.ones(1)))
    assert [[event.kind for event in each] for each in events] == [["all_reduce"]] * 4


def test_ranks_in_the_record_of_a_subgroup_are_global(pool: RankPool) -> None:
    def body() -> None:
        group = dist.new_group([1, 3])
        if dist.get_rank() == 1:
            dist.send(torch.ones(1), 3, group=group)
            dist.broadcast(torch.ones(1), 3, group=group)
        if dist.get_rank() == 3:
            dist.recv(torch.ones(1), 1, group=group)
            dist.broadcast(torch.ones(1), 3, group=group)
        dist.barrier()
        dist.destroy_process_group(group)

    message, collective, _ = _record(pool, body)[1]
    assert (message.group_ranks, message.peer) == ((1, 3), 3)
    assert (collective.group_ranks, collective.peer) == ((1, 3), 3)
    assert collective.group == message.group != "0"


def _ops(namespace: str = "_c10d_functional") -> Any:
    return getattr(torch.ops, namespace)


# For each functional collective, what it is recorded as on rank 1.
FUNCTIONAL: dict[str, tuple[Callable[[], torch.Tensor], tuple[Any, ...]]] = {
    "all_reduce": (
        lambda: _ops().all_reduce(torch.ones(2), "sum", "0"),
        ("all_reduce", None, 8, 8, 8),
    ),
    "all_reduce_": (
        lambda: _ops().all_reduce_(torch.ones(2), "sum", "0"),
        ("all_reduce", None, 8, 8, 8),
    ),
    "all_gather_into_tensor": (
        lambda: _ops().all_gather_into_tensor(torch.ones(2), 4, "0"),
        ("all_gather_into_tensor", None, 8, 8, 32),
    ),
    "reduce_scatter_tensor": (
        lambda: _ops().reduce_scatter_tensor(torch.ones(8), "sum", 4, "0"),
        ("reduce_scatter_tensor", None, 8, 32, 8),
    ),
    "all_to_all_single": (
        lambda: _ops().all_to_all_single(torch.ones(4), [1] * 4, [1] * 4, "0"),
        ("all_to_all_single", None, 16, 16, 16),
    ),
    "all_to_all_single with a gradient": (
        lambda: _ops("_c10d_functional_autograd").all_to_all_single(
            torch.ones(4), [1] * 4, [1] * 4, "0"
        ),
        ("all_to_all_single", None, 16, 16, 16),
    ),
    "broadcast": (
        lambda: _ops().broadcast(torch.ones(2), 3, "0"),
        ("broadcast", 3, 8, 0, 8),
    ),
    "broadcast from here": (
        lambda: _ops().broadcast(torch.ones(2), 1, "0"),
        ("broadcast", 1, 8, 8, 0),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_a_functional_collective_is_one_event_that_ends_with_a_wait(
    pool: RankPool, name: str
) -> None:
    start, expected = FUNCTIONAL[name]

    def body() -> list[int]:
        value = start()
        counts = [len(tap.unfinished())]
        _ops().wait_tensor(value)
        return [*counts, len(tap.unfinished())]

    def recorded() -> tuple[list[int], list[WireEvent]]:
        tap.clear()
        return body(), tap.events()

    counts, (event,) = pool.run(recorded)[1]
    assert _brief(event) == expected
    assert event.ended is not None
    assert counts == [1, 0]


def test_functional_collectives_on_several_tensors_end_with_the_last_wait(pool: RankPool) -> None:
    def body() -> tuple[str, list[int]]:
        tap.clear()
        values = _ops().all_reduce_coalesced([torch.ones(1), torch.ones(2)], "sum", "0")
        counts = []
        for value in values:
            counts.append(len(tap.unfinished()))
            _ops().wait_tensor(value)
        (event,) = tap.events()
        assert (event.num_bytes, event.received_bytes) == (12, 12)
        return event.kind, [*counts, len(tap.unfinished())]

    assert pool.run(body) == [("all_reduce_coalesced", [1, 1, 0])] * 4


def test_a_functional_collective_of_a_subgroup_is_recorded_with_its_ranks(pool: RankPool) -> None:
    def body() -> None:
        group = dist.new_group([1, 3])
        if dist.get_rank() in (1, 3):
            _ops().wait_tensor(_ops().broadcast(torch.ones(1), 1, group.group_name))
        dist.barrier()
        dist.destroy_process_group(group)

    event = _record(pool, body)[3][0]
    assert (event.group_ranks, event.peer) == ((1, 3), 3)
    assert (event.sent_bytes, event.received_bytes) == (4, 0)


def test_the_functions_over_functional_collectives_end_with_the_first_use(pool: RankPool) -> None:
    def body() -> list[bool]:
        tap.clear()
        (functional.all_reduce(torch.ones(2), "sum", [0, 1, 2, 3]) + 1).sum()
        return [event.ended is not None for event in tap.events()]

    assert pool.run(body, deadline=120.0) == [[True]] * 4


def test_functional_collectives_of_a_backward_pass_are_seen(pool: RankPool) -> None:
    def body() -> list[int]:
        tap.clear()
        values = torch.ones(4, requires_grad=True)
        moved = functional.all_to_all_single_autograd(values, [1] * 4, [1] * 4, [0, 1, 2, 3])
        counts = [len(tap.events())]
        torch.autograd.backward(moved.sum())
        return [*counts, len(tap.events())]

    assert pool.run(body, deadline=120.0) == [[1, 2]] * 4


def test_other_operations_do_not_pass_through_the_tap(pool: RankPool) -> None:
    def body() -> int:
        return torch._C._len_torch_dispatch_stack()

    assert pool.run(body) == [0] * 4


def test_the_tap_leaves_type_name_and_backend_of_a_group(pool: RankPool) -> None:
    def body() -> tuple[bool, str, str]:
        group = dist.group.WORLD
        assert group is not None
        return type(group) is dist.ProcessGroup, group.group_name, group.name()

    assert pool.run(body) == [(True, "0", "gloo")] * 4


def test_after_uninstall_everything_is_as_it_was(pool: RankPool) -> None:
    def body() -> tuple[list[str], list[str]]:
        def types() -> list[str]:
            methods = [dist.ProcessGroup.__dict__["allreduce"], dist.Work.__dict__["wait"]]
            return [type(method).__name__ for method in methods]

        def is_covered() -> bool:
            return torch._C._dispatch_has_kernel_for_dispatch_key(
                "_c10d_functional::all_reduce", "CPU"
            )

        tapped = types()
        assert is_covered()
        tap.uninstall()
        bare = types()
        assert not is_covered()
        _ops().wait_tensor(_ops().all_reduce(torch.ones(1), "sum", "0"))
        dist.all_reduce(torch.ones(1))
        tap.install()
        assert tap.events() == []
        return tapped, bare

    assert pool.run(body) == [(["function"] * 2, ["instancemethod"] * 2)] * 4
    pool.discard()


def test_without_the_tap_there_is_no_record() -> None:
    with pytest.raises(RuntimeError, match=r"the wire tap is not installed in this process: tap\."):
        tap.events()


def test_arguments_that_torch_refuses_are_refused_by_torch(pool: RankPool) -> None:
    def body() -> list[str]:
        group: Any = dist.group.WORLD
        start, told = tap.mark(), []
        for method, args in ((group.allreduce, []), (group.send, [[torch.ones(1)], "x", 0])):
            with pytest.raises(TypeError, match="incompatible function arguments") as caught:
                method(*args)
            told.append(type(caught.value).__name__)
        assert tap.events_since(start) == []
        return told

    assert pool.run(body, ranks=[0]) == [["TypeError"] * 2]


def _sparse() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ones(2, 2).to_sparse_csr()


def test_a_call_that_raises_at_once_is_not_on_the_wire(pool: RankPool) -> None:
    def body() -> tuple[list[float | None], int, list[int]]:
        start = tap.mark()
        with pytest.raises(NotImplementedError, match="SparseCsrCPU"):
            dist.all_reduce(_sparse())
        dist.all_reduce(torch.ones(1))
        refused, done = tap.events_since(start)
        return [refused.ended], len(tap.unfinished()), [refused.sequence, done.sequence]

    assert pool.run(body) == [([None], 0, [0, 0])] * 4


def test_what_is_dropped_without_a_wait_stays_unfinished(pool: RankPool) -> None:
    def body() -> list[str]:
        tap.clear()
        dist.all_reduce(torch.ones(1), async_op=True)
        dist.barrier()
        return [event.kind for event in tap.unfinished()]

    assert pool.run(body) == [["all_reduce"]] * 4


def test_a_work_that_nobody_holds_is_not_kept_alive_by_the_tap(pool: RankPool) -> None:
    def body() -> bool:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        assert work is not None
        reference = weakref.ref(work)
        work.wait()
        del work
        return reference() is None

    assert pool.run(body) == [True] * 4


def test_totals_count_messages_and_bytes_by_peer(pool: RankPool) -> None:
    def body() -> tuple[Traffic, ...]:
        tap.clear()
        if dist.get_rank() == 0:
            for size in (1, 2):
                dist.send(torch.ones(size), 3)
        if dist.get_rank() == 3:
            for size in (1, 2):
                dist.recv(torch.ones(size), 0)
        return tap.totals()

    totals = pool.run(body)
    nothing = Traffic()
    assert totals[0] == (nothing, nothing, nothing, Traffic(sent_messages=2, sent_bytes=12))
    taken = Traffic(asked_messages=2, received_messages=2, received_bytes=12)
    assert totals[3] == (taken, nothing, nothing, nothing)


def test_only_the_latest_events_are_kept_and_the_totals_lose_nothing() -> None:
    record = Record(Page(2))
    for _ in range(10_003):
        call = record.enter("send", "0", (0, 1), 1, 4, "float32", 0, 4, 0)
        record.leave(call)
        record.started(call)
        record.end(call)
    assert [event.index for event in record.events()] == [*range(3, 10_003)]
    assert record.totals()[1] == Traffic(sent_messages=10_003, sent_bytes=40_012)


class _NeverDone:
    def is_completed(self) -> bool:
        return False


def test_of_works_that_were_dropped_only_the_latest_are_kept() -> None:
    record = Record(Page(2))
    for _ in range(10_003):
        call = record.enter("all_reduce", "0", (0, 1), None, 4, "float32", 0, 4, 4)
        record.leave(call)
        record.follow(_NeverDone(), [call])
    assert [event.index for event in record.unfinished()] == [*range(3, 10_003)]


def test_indices_rise_by_one_and_sequences_count_by_group_and_by_peer_and_tag(
    pool: RankPool,
) -> None:
    def body() -> None:
        for tag in (0, 5, 0):
            if dist.get_rank() == 0:
                dist.send(torch.ones(1), 1, tag=tag)
            if dist.get_rank() == 1:
                dist.recv(torch.ones(1), 0, tag=tag)
            dist.barrier()

    events = _record(pool, body)[0]
    assert all(b.index == a.index + 1 for a, b in itertools.pairwise(events))
    assert [event.sequence for event in events if event.kind == "send"] == [0, 0, 1]
    assert [event.sequence for event in events if event.kind == "barrier"] == [0, 1, 2]
