"""What a function may leave behind in its ranks, and how that is told."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pytest_affine.ranks import RankFailure, RankPool
from pytest_affine.ranks.idle import Leftovers, left_behind
from pytest_affine.ranks.wire import Collectives


def _left(pool: RankPool, function: Callable[..., Any], **options: Any) -> dict[int, list[str]]:
    with pytest.raises(RankFailure) as caught:
        pool.run(function, check_idle=True, **options)
    errors = caught.value.failures
    assert {error.kind for error in errors.values()} == {"left behind"}
    assert caught.value.first == min(errors)
    assert not pool.is_running
    return {rank: [*error.left_behind] for rank, error in errors.items()}


def test_a_function_that_cleans_up_leaves_nothing(pool: RankPool) -> None:
    def body() -> float:
        rank, values = dist.get_rank(), torch.ones(1)
        group = dist.new_group([0, 1, 2, 3])
        works = [dist.isend(torch.ones(1), rank ^ 1), dist.irecv(torch.ones(1), rank ^ 1)]
        for work in (*works, dist.all_reduce(values, group=group, async_op=True)):
            assert work is not None
            work.wait()
        dist.destroy_process_group(group)
        return values.item()

    pool.start()
    generation = pool.generation
    for _ in range(2):
        assert pool.run(body, check_idle=True) == [4.0] * 4
    assert pool.generation == generation


def test_a_message_that_nobody_received_is_left_behind(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 2:
            works.append(dist.isend(torch.ones(1), 1))

    works: list[Any] = []
    left = _left(pool, body)
    assert left == {2: ["rank 2 sent 1 message to rank 1, which asked for 0"]}


def test_what_is_left_is_the_text_of_the_failure_at_full_length(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 0:
            for peer in (1, 2, 3):
                dist.isend(torch.ones(1), peer)
            torch.set_default_dtype(torch.float64)

    with pytest.raises(RankFailure) as caught:
        pool.run(body, check_idle=True)
    messages = [f"rank 0 sent 1 message to rank {peer}, which asked for 0" for peer in (1, 2, 3)]
    dtype = "the default dtype was changed from torch.float32 to torch.float64"
    assert str(caught.value) == f"rank 0 of 4: left behind: {'; '.join([dtype, *messages])}"


def test_what_is_left_goes_unnoticed_unless_asked_for(pool: RankPool) -> None:
    assert pool.run(lambda: torch.set_default_dtype(torch.float64)) == [None] * 4
    assert pool.run(torch.get_default_dtype, check_idle=True) == [torch.float64] * 4
    pool.discard()


def test_a_receive_without_a_message_is_left_behind(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 3:
            work.append(dist.irecv(torch.ones(1), 0, tag=4))

    work: list[Any] = []
    assert _left(pool, body) == {
        3: [
            "nobody waited for the end of recv of 4 bytes of float32 from rank 0 with tag 4",
            "rank 3 asked for 1 message from rank 0, which sent 0",
        ],
    }


def test_a_send_whose_message_arrived_needs_no_wait(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 0:
            work = dist.isend(torch.ones(1), 1)
            dist.barrier()
            assert work is not None
        else:
            if dist.get_rank() == 1:
                dist.recv(torch.ones(1), 0)
            dist.barrier()

    pool.run(body, check_idle=True)


def test_a_collective_that_nobody_waited_for_is_left_behind(pool: RankPool) -> None:
    def body() -> None:
        dist.all_reduce(torch.ones(1), async_op=True)

    text = "nobody waited for the end of all_reduce of 4 bytes of float32 on the default group"
    assert _left(pool, body) == {rank: [text] for rank in range(4)}


def test_a_collective_without_some_ranks_is_left_behind(pool: RankPool) -> None:
    def body() -> None:
        dist.barrier()
        if dist.get_rank() == 0:
            dist.broadcast(torch.ones(1), 0, async_op=True)

    work = "nobody waited for the end of broadcast of 4 bytes of float32 from rank 0"
    text = "collectives of the default group were entered 2 on rank 0, 1 on ranks 1, 2 and 3"
    assert _left(pool, body) == {0: [f"{work} on the default group", text]}


def test_ranks_that_were_not_called_took_part_in_nothing(pool: RankPool) -> None:
    def body() -> None:
        dist.isend(torch.ones(1), 3)

    assert _left(pool, body, ranks=[1]) == {
        1: ["rank 1 sent 1 message to rank 3, which asked for 0"]
    }


def test_a_process_group_that_stays_is_left_behind_by_its_ranks(pool: RankPool) -> None:
    def body() -> None:
        dist.new_group([1, 2])

    text = "process group 1 of ranks [1, 2] was not destroyed"
    assert _left(pool, body) == {1: [text], 2: [text]}


def test_a_process_group_that_was_there_before_may_stay_but_not_go(pool: RankPool) -> None:
    def make() -> None:
        groups.append(dist.new_group([0, 1, 2, 3]))

    def destroy() -> None:
        (name,) = [
            group for group in dist.distributed_c10d._world.pg_map if group.group_name != "0"
        ]
        dist.destroy_process_group(name)

    groups: list[Any] = []
    pool.discard()
    pool.run(make)
    pool.run(dist.barrier, check_idle=True)
    text = "process group 1 was destroyed"
    assert _left(pool, destroy) == {rank: [text] for rank in range(4)}


def test_another_default_device_is_left_behind(pool: RankPool) -> None:
    text = "the default device was changed from cpu to meta"
    assert _left(pool, lambda: torch.set_default_device("meta"), ranks=[1]) == {1: [text]}


def test_another_current_device_is_left_behind(pool: RankPool) -> None:
    def pretend() -> None:
        torch.cuda.is_initialized = lambda: True
        torch.cuda.current_device = lambda: 3

    text = "the current device was changed from 0 to 3"
    assert _left(pool, pretend, ranks=[0]) == {0: [text]}


def test_problems_of_one_call_are_not_told_of_the_next(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 0:
            dist.broadcast(torch.ones(1), 0, async_op=True)
            dist.isend(torch.ones(1), 1)

    pool.run(body)
    pool.run(int, check_idle=True)
    pool.discard()


def test_ranks_that_all_raise_live_on_only_if_they_left_nothing(pool: RankPool) -> None:
    def body(num_messages: int) -> None:
        if dist.get_rank() == 0:
            for _ in range(num_messages):
                dist.isend(torch.ones(1), 1)
        raise ValueError("on purpose")

    for num_messages in (0, 1):
        with pytest.raises(RankFailure, match="ValueError: on purpose"):
            pool.run(body, num_messages)
        assert pool.is_running is (num_messages == 0)


def _leftovers(**values: Any) -> Leftovers:
    fields: dict[str, Any] = {
        "problems": (),
        "sent": (0, 0, 0),
        "asked": (0, 0, 0),
        "sent_bytes": (0, 0, 0),
        "asked_bytes": (0, 0, 0),
        "collectives": {},
    }
    return Leftovers(**(fields | values))


def test_messages_that_match_are_nothing_and_counts_may_differ_either_way() -> None:
    matching = {0: _leftovers(sent=(0, 2, 0)), 1: _leftovers(asked=(2, 0, 0))}
    assert left_behind(matching) == {}
    assert left_behind({0: _leftovers(sent=(0, 1, 0)), 1: _leftovers(asked=(3, 0, 0))}) == {
        0: ["rank 0 sent 1 message to rank 1, which asked for 3"]
    }


def test_a_message_that_does_not_fill_the_buffer_it_was_asked_for_is_told(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 0:
            dist.send(torch.ones(50), 2)
        elif dist.get_rank() == 2:
            dist.recv(torch.zeros(100), 0)

    with pytest.raises(RankFailure) as caught:
        pool.run(body, check_idle=True)
    assert caught.value.cause.message == (
        "left behind: rank 0 sent 200 bytes to rank 2, which asked for 400"
    )


def test_messages_asked_of_a_rank_that_was_not_called_are_told() -> None:
    assert left_behind({1: _leftovers(asked=(0, 0, 1))}) == {
        1: ["rank 1 asked for 1 message from rank 2, which sent 0"]
    }


def test_collectives_of_a_group_are_compared_among_its_ranks() -> None:
    def entered(number: int) -> Leftovers:
        return _leftovers(collectives={"5": Collectives(ranks=(0, 2), count=number)})

    assert left_behind({0: entered(2), 1: _leftovers(), 2: entered(2)}) == {}
    assert left_behind({1: _leftovers(), 2: entered(2)}) == {
        2: ["collectives of group 5 were entered 0 on rank 0, 2 on rank 2"]
    }


def _differ(pool: RankPool, body: Callable[[], object]) -> str:
    with pytest.raises(RankFailure) as caught:
        pool.run(body, check_idle=True)
    start = "left behind: collectives of the default group were entered as "
    assert caught.value.cause.message.startswith(start)
    return caught.value.cause.message.removeprefix(start)


def test_collectives_that_differ_and_complete_all_the_same_are_told(pool: RankPool) -> None:
    def broadcast() -> None:
        dist.all_reduce(torch.ones(1))
        dist.broadcast(torch.ones(2 if dist.get_rank() == 0 else 4), 0)
        dist.barrier()

    def reduce() -> None:
        dtype = torch.int32 if dist.get_rank() == 3 else torch.float32
        dist.all_reduce(torch.ones(1, dtype=dtype))

    assert _differ(pool, broadcast) == (
        "broadcast of 8 bytes of float32, root 0 on rank 0, "
        "broadcast of 16 bytes of float32, root 0 on ranks 1, 2 and 3"
    )
    assert _differ(pool, reduce) == (
        "all_reduce of 4 bytes of float32 on ranks 0, 1 and 2, all_reduce of 4 bytes of int32 on "
        "rank 3"
    )


def test_a_difference_long_ago_is_told_without_its_place(pool: RankPool) -> None:
    def body() -> None:
        dist.broadcast(torch.ones(2 if dist.get_rank() == 0 else 4), 0)
        for _ in range(8):
            dist.barrier()

    assert _differ(pool, body) == "different ones"


def test_a_work_that_is_polled_or_whose_future_is_waited_for_leaves_nothing(pool: RankPool) -> None:
    def polled() -> None:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        while not work.is_completed():
            pass
        del work

    def promised() -> None:
        futures = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(2)]
        torch.futures.wait_all(futures)

    for body in (polled, promised):
        pool.run(body, check_idle=True)


def test_a_future_that_nobody_waits_for_is_left_behind(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 0:
            time.sleep(0.5)
        future = dist.all_reduce(torch.ones(1), async_op=True).get_future()
        if dist.get_rank() == 0:
            future.wait()

    left = _left(pool, body)
    assert left[1] == [
        "nobody waited for the end of all_reduce of 4 bytes of float32 on the default group"
    ]


def test_the_grad_mode_is_watched(pool: RankPool) -> None:
    left = _left(pool, lambda: torch.set_grad_enabled(False) and None)
    assert left[0] == ["the grad mode was changed from True to False"]
