"""Messages that leave late, in another order, or not at all, between real gloo ranks."""

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pytest_affine.ranks import Delay, Drop, RankFailure, RankPool, Reorder, tap, wire_faults
from pytest_affine.ranks.trouble import WireFault

SECONDS = 0.3


def others() -> list[int]:
    return [peer for peer in range(4) if peer != dist.get_rank()]


def exchanged(*faults: WireFault) -> tuple[list[list[int]], list[tuple[int, int]]]:
    """Two messages to each other rank, of 1 and 2 elements: what came, and (peer, size) as sent."""
    mark, came, works = tap.mark(), [], []
    with wire_faults(*faults):
        for size in (1, 2):
            value = torch.full((size,), 10 * dist.get_rank() + size)
            works += [dist.isend(value, peer) for peer in others()]
        for peer in others():
            for size in (1, 2):
                dist.recv(received := torch.zeros(size, dtype=torch.int64), peer)
                came.append(received.tolist())
        for work in works:
            assert work is not None
            work.wait()
    sent = [event for event in tap.events_since(mark) if event.kind == "send"]
    return came, [(event.peer or 0, event.num_bytes // 8) for event in sent]


def all_that_comes(rank: int) -> list[list[int]]:
    return [[10 * p + n] * n for p in range(4) if p != rank for n in (1, 2)]


@pytest.mark.parametrize(
    "faults",
    [
        (),
        (Delay(0.01),),
        (Delay(0.01, 2), Delay(0.02, receiver=1)),
        (Reorder(),),
        (Reorder(5), Delay(0.01, 0)),
        (Drop(0, 1, 2),),
    ],
)
def test_no_order_and_no_delay_changes_what_comes(
    pool: RankPool, faults: tuple[WireFault, ...]
) -> None:
    outcomes = pool.run(exchanged, *faults, check_idle=True)
    assert [came for came, _ in outcomes] == [all_that_comes(rank) for rank in range(4)]


def test_without_faults_messages_are_sent_as_they_are_given(pool: RankPool) -> None:
    sent = pool.run(exchanged)[1][1]
    assert sent == [(0, 1), (2, 1), (3, 1), (0, 2), (2, 2), (3, 2)]


def test_messages_to_one_receiver_are_overtaken_by_others_while_they_are_late(
    pool: RankPool,
) -> None:
    late, usual, *_ = [sent for _, sent in pool.run(exchanged, Delay(0.01, 0, 2))]
    assert late == [(1, 1), (3, 1), (1, 2), (3, 2), (2, 1), (2, 2)]
    assert usual == [(0, 1), (2, 1), (3, 1), (0, 2), (2, 2), (3, 2)]


def test_what_is_later_leaves_later(pool: RankPool) -> None:
    sent = pool.run(exchanged, Delay(0.02), Delay(0.02, receiver=0))[1][1]
    assert sent == [(2, 1), (3, 1), (2, 2), (3, 2), (0, 1), (0, 2)]


def orders(pool: RankPool, seed: int) -> list[list[tuple[int, int]]]:
    return [sent for _, sent in pool.run(exchanged, Reorder(seed))]


def test_messages_leave_in_another_order_but_never_to_one_peer(pool: RankPool) -> None:
    found = {seed: orders(pool, seed) for seed in range(4)}
    for rank in range(4):
        given = [(p, n) for n in (1, 2) for p in range(4) if p != rank]
        of_rank = [by_rank[rank] for by_rank in found.values()]
        assert all(sorted(sent) == sorted(given) for sent in of_rank)
        assert any(sent != given for sent in of_rank)
        for sent in of_rank:
            assert [size for _, size in sorted(sent, key=lambda each: each[0])] == [1, 2] * 3
    assert orders(pool, 0) == found[0]
    assert len({str(by_rank) for by_rank in found.values()}) == 4


def test_each_rank_has_an_order_of_its_own(pool: RankPool) -> None:
    places = [
        [sorted({peer for peer, _ in sent}).index(peer) for peer, _ in sent]
        for sent in orders(pool, 0)
    ]
    assert len({str(each) for each in places}) > 1


def wait(work: Any) -> int:
    """Wait, and say how many messages have left by then."""
    mark = tap.mark()
    work.wait()
    return len(tap.events_since(mark))


def look(work: Any) -> int:
    """The same of a look; gloo has a work waited for once."""
    mark = tap.mark()
    work.is_completed()
    num_sent = len(tap.events_since(mark))
    work.wait()
    return num_sent


def linger(work: Any) -> int:
    """The same of a second."""
    mark = tap.mark()
    time.sleep(1.0)
    num_sent = len(tap.events_since(mark))
    work.wait()
    return num_sent


def sent_to_rank_1(seconds: float, then: Callable[[Any], int]) -> tuple[float, int]:
    """When rank 0 sends, and what it then says; when the message is at rank 1."""
    said, when = 0, time.monotonic()
    with wire_faults(Delay(seconds)):
        if dist.get_rank() == 0:
            said = then(dist.isend(torch.ones(1), 1))
        if dist.get_rank() == 1:
            dist.recv(torch.zeros(1), 0)
            when = time.monotonic()
    return when, said


@pytest.mark.parametrize("ask", [wait, look])
def test_a_late_message_leaves_when_its_sender_asks_for_it_and_it_is_due(
    pool: RankPool, ask: Callable[[Any], int]
) -> None:
    (sent, num_sent), (there, _), *_ = pool.run(sent_to_rank_1, SECONDS, ask)
    assert there - sent >= SECONDS
    assert num_sent == 1


def test_a_message_that_is_overdue_is_not_held_any_longer(pool: RankPool) -> None:
    (sent, num_sent), (there, _), *_ = pool.run(sent_to_rank_1, 1.0, linger)
    assert 1.0 <= there - sent < 2.0
    assert num_sent == 0


def by_wait() -> None:
    dist.barrier()


def by_future() -> None:
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()


def by_looking() -> None:
    work = dist.barrier(async_op=True)
    while not work.is_completed():
        time.sleep(0.01)
    work.wait()


@pytest.mark.parametrize("by", [by_wait, by_future, by_looking])
def test_waiting_for_something_else_sends_what_is_held(
    pool: RankPool, by: Callable[[], None]
) -> None:
    def body() -> float:
        own = dist.get_rank()
        value = torch.full((1,), 7.0 - own)
        with wire_faults(Reorder()):
            if own == 0:
                work = dist.isend(value, 1)
                by()
                assert work is not None
                work.wait()
            else:
                if own == 1:
                    dist.recv(value, 0)
                by()
        return value.item()

    assert pool.run(body, check_idle=True)[1] == 7.0


def test_what_is_held_at_the_end_leaves_then(pool: RankPool) -> None:
    def body() -> list[int]:
        own, mark, counts = dist.get_rank(), tap.mark(), []
        with wire_faults(Reorder()):
            work = dist.isend(torch.ones(1), (own + 1) % 4)
            counts.append(len(tap.events_since(mark)))
        counts.append(len(tap.events_since(mark)))
        dist.recv(torch.zeros(1), (own - 1) % 4)
        assert work is not None
        work.wait()
        return counts

    assert pool.run(body, check_idle=True) == [[0, 1]] * 4


def test_what_is_overwritten_before_the_sender_waits_is_seen(pool: RankPool) -> None:
    def body() -> float:
        value = torch.ones(1)
        with wire_faults(Delay(0.0)):
            if dist.get_rank() == 0:
                work = dist.isend(value, 1)
                value.fill_(2)
                assert work is not None
                work.wait()
            if dist.get_rank() == 1:
                dist.recv(value, 0)
        return value.item()

    assert pool.run(body)[1] == 2.0


def test_a_batch_leaves_in_another_order(pool: RankPool) -> None:
    def body(*faults: WireFault) -> tuple[list[Any], list[float]]:
        mark, own = tap.mark(), dist.get_rank()
        come = [torch.zeros(1) for _ in others()]
        with wire_faults(*faults):
            operations = [
                *(dist.P2POp(dist.irecv, *each) for each in zip(come, others(), strict=True)),
                *(dist.P2POp(dist.isend, torch.full((1,), float(own)), peer) for peer in others()),
            ]
            for work in dist.batch_isend_irecv(operations):
                work.wait()
        events = tap.events_since(mark)
        return [e.peer for e in events if e.kind == "send"], [each.item() for each in come]

    (usual, _), (other, came) = pool.run(body)[3], pool.run(body, Delay(0.0, 3, 0))[3]
    assert (usual, other) == ([0, 1, 2], [1, 2, 0])
    assert came == [0.0, 1.0, 2.0]


UNSORTED = pytest.mark.skipif(
    "sort_ranks" not in inspect.signature(dist.new_group).parameters,
    reason="this torch sorts the ranks of every group",
)


@UNSORTED
def test_ranks_of_faults_are_global_ones_in_every_group(pool: RankPool) -> None:
    def body(fault: WireFault) -> list[Any]:
        group, mark = dist.new_group([3, 0, 1], sort_ranks=False), tap.mark()
        if dist.get_rank() == 3:
            with wire_faults(fault):
                works = [dist.isend(torch.ones(1), peer, group=group) for peer in (1, 0)]
                for work in works:
                    assert work is not None
                    work.wait()
        elif dist.get_rank() < 2:
            dist.recv(torch.zeros(1), 3, group=group)
        dist.destroy_process_group(group) if dist.get_rank() != 2 else None
        return [event.peer for event in tap.events_since(mark) if event.kind == "send"]

    assert pool.run(body, Delay(0.0, 3, 1))[3] == [0, 1]


def test_one_context_in_another_has_the_faults_of_both(pool: RankPool) -> None:
    def body() -> list[int]:
        mark = tap.mark()
        with wire_faults(Delay(0.0, 0, 1)), wire_faults(Delay(0.0, 0, 2)):
            if dist.get_rank() == 0:
                works = [dist.isend(torch.ones(1), peer) for peer in others()]
                for work in works:
                    assert work is not None
                    work.wait()
            else:
                dist.recv(torch.zeros(1), 0)
        return [event.peer or 0 for event in tap.events_since(mark) if event.kind == "send"]

    assert pool.run(body, check_idle=True)[0] == [3, 1, 2]


def methods() -> list[Any]:
    names = [(dist.ProcessGroup, "send"), (dist.Work, "wait"), (dist.Work, "is_completed")]
    return [getattr(*each) for each in (*names, (dist.Work, "get_future"))]


def test_the_methods_of_torch_are_what_they_were_afterwards(pool: RankPool) -> None:
    def body(*faults: WireFault) -> list[bool]:
        before = methods()
        with suppress(KeyError), wire_faults(*faults):
            during = methods()
            raise KeyError
        return [during == before, methods() == before]

    assert pool.run(body, Reorder()) == [[False, True]] * 4
    assert pool.run(body) == [[True, True]] * 4


@pytest.fixture
def fragile() -> Iterator[RankPool]:
    """Ranks that are left waiting."""
    with RankPool(3) as pool:
        pool.run(others)  # so that nothing is left to import
        pool.deadline = 2.0
        yield pool


def sent_by_rank_0(fault: WireFault, num_messages: int) -> list[float]:
    """Rank 0 sends numbers to all others, and each says what came."""
    came = []
    with wire_faults(fault):
        for number in range(num_messages):
            if dist.get_rank() == 0:
                for peer in range(1, dist.get_world_size()):
                    dist.send(torch.full((1,), float(number)), peer)
            else:
                dist.recv(value := torch.zeros(1), 0)
                came.append(value.item())
                print("message", number)
    return came


def test_a_receiver_waits_for_a_lost_message_until_the_deadline(fragile: RankPool) -> None:
    with pytest.raises(RankFailure) as caught:
        fragile.run(sent_by_rank_0, Drop(0, 2, 1), 4)
    failure = caught.value
    assert failure.failures.keys() == {2}
    assert failure.cause.message == "no answer within 2.0 s"
    assert failure.cause.output == "message 0\n"
    assert failure.waits == [
        "rank 0 has returned",
        "rank 1 has returned",
        "rank 2 waits in recv of 4 bytes of float32 from rank 0; that rank has sent it 1 of 2 "
        "messages and has returned",
    ]
    (missing,) = failure.missing
    assert (missing.rank, missing.event.peer, missing.event.sequence) == (2, 0, 1)
    assert "trouble.py" not in str(failure)


@pytest.mark.parametrize(
    "fault",
    [Drop(0, 2, 4), Drop(2, 0), Drop(1, 2), Drop(0, 1, 9)],
)
def test_other_messages_are_not_lost(pool: RankPool, fault: WireFault) -> None:
    numbers = [0.0, 1.0, 2.0, 3.0]
    assert pool.run(sent_by_rank_0, fault, 4) == [[], numbers, numbers, numbers]


def test_for_its_sender_a_lost_message_is_sent(fragile: RankPool) -> None:
    def body() -> list[Any]:
        mark, said = tap.mark(), []
        with wire_faults(Drop(0, 1), Delay(0.0)):
            if dist.get_rank() == 0:
                work = dist.isend(torch.ones(1), 1)
                assert work is not None
                said = [work.is_completed(), work.wait(), work.get_future().done()]
        return [*said, len(tap.events_since(mark))]

    assert fragile.run(body, check_idle=True)[0] == [True, True, True, 0]


def test_the_first_of_several_losses_counts(fragile: RankPool) -> None:
    def body() -> list[int]:
        mark = tap.mark()
        with wire_faults(Drop(0, 1, 2), Drop(0, 1, 1), Drop(0, 2, 0)):
            if dist.get_rank() == 0:
                for _ in range(3):
                    dist.send(torch.ones(1), 1)
            if dist.get_rank() == 1:
                dist.recv(torch.zeros(1), 0)
        return [event.num_bytes for event in tap.events_since(mark)]

    assert fragile.run(body) == [[4], [4], []]


def test_a_send_that_is_wrong_raises_when_it_leaves(pool: RankPool) -> None:
    def sent() -> None:
        with wire_faults(Reorder()):
            work = dist.isend(torch.ones(2, 2).t(), (dist.get_rank() + 1) % 4)
            assert work is not None
            with pytest.raises(RuntimeError, match="contiguous"):
                work.wait()

    def body() -> None:
        with pytest.raises(RuntimeError, match="contiguous"):
            sent()

    pool.run(body, check_idle=True)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Delay(-0.5), r"seconds of Delay\(seconds=-0.5, .*\) must not be negative"),
        (Delay(1, 4), r"the sender of Delay\(.*\) must be one of \[0, 1, 2, 3\]"),
        (Delay(1, receiver=-1), r"the receiver of Delay\(.*\) must be one of \[0, 1, 2, 3\]"),
        (Drop(4, 0), r"the sender of Drop\(sender=4, .*\) must be one of"),
        (Drop(0, 4), r"the receiver of Drop\(.*\) must be one of"),
        (Drop(0, 1, -1), r"index of Drop\(.*index=-1\) must not be negative"),
    ],
)
def test_a_fault_that_can_not_happen_is_refused(
    monkeypatch: pytest.MonkeyPatch, fault: WireFault, message: str
) -> None:
    monkeypatch.setattr(dist, "get_backend", lambda: "gloo")
    monkeypatch.setattr(dist, "get_world_size", lambda: 4)
    with pytest.raises(ValueError, match=message), wire_faults(Reorder(), fault):
        pass


def test_another_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "get_backend", lambda: "nccl")
    wanted = r"wire_faults\(\) is for gloo, and the default group has nccl"
    with pytest.raises(RuntimeError, match=wanted), wire_faults(Reorder()):
        pass
