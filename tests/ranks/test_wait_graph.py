"""What is told about ranks that wait for each other: from values, and from real ranks that hang."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pytest_affine.ranks import RankFailure, RankPool
from pytest_affine.ranks.page import Page, page_path, read
from pytest_affine.ranks.record import Record
from pytest_affine.ranks.waits import Seen, blamed, explain
from pytest_affine.ranks.wire import Sighting, Traffic, WireEvent

QUIET = Sighting(None, False, (), (Traffic(),) * 4)


def _event(kind: str, **values: Any) -> WireEvent:
    fields: dict[str, Any] = {
        "kind": kind,
        "group": "0",
        "group_ranks": (0, 1, 2, 3),
        "peer": None,
        "num_bytes": 4,
        "dtype": "float32",
        "tag": 0,
        "sequence": 0,
        "index": 0,
        "started": 1.0,
    }
    return WireEvent(**(fields | values))


def _in(event: WireEvent, *traffic: Traffic) -> Seen:
    return Seen(Sighting(event, False, (event,), traffic or QUIET.traffic), "is in no call")


def _after(*events: WireEvent) -> Seen:
    return Seen(Sighting(None, False, events, QUIET.traffic), "has returned", is_busy=False)


def _idle(place: str = "is in no call (test.py:3 in work)") -> Seen:
    return Seen(QUIET, place)


REDUCE = _event("all_reduce")
REDUCE_TEXT = "all_reduce of 4 bytes of float32 on the default group"


def test_ranks_that_wait_for_nothing_are_not_told_of() -> None:
    seen = {0: _idle(), 1: _after(REDUCE), 2: Seen(None, "is in no call")}
    assert explain(seen) == []
    assert blamed(seen) is None


def test_the_rank_that_is_missing_in_a_collective_is_told_with_its_place() -> None:
    seen = {0: _in(REDUCE), 1: _in(REDUCE), 2: _idle(), 3: _in(REDUCE)}
    place = "is in no call (test.py:3 in work)"
    line = f"waits in {REDUCE_TEXT} for rank 2, which {place}"
    assert explain(seen) == [
        f"rank 0 {line}",
        f"rank 1 {line}",
        f"rank 2 {place}",
        f"rank 3 {line}",
        "all that wait do so, in the end, for rank 2",
    ]
    assert blamed(seen) == 2


def test_several_missing_ranks_are_told_by_number() -> None:
    seen = {0: _in(REDUCE), 1: _idle(), 2: _idle(), 3: _idle()}
    assert explain(seen)[0] == f"rank 0 waits in {REDUCE_TEXT} for ranks 1, 2 and 3"
    assert blamed(seen) is None


def test_a_rank_that_went_on_is_not_missing() -> None:
    later = _event("all_reduce", sequence=3)
    seen = {0: _in(REDUCE), 1: _in(later), 2: _in(later), 3: _after(REDUCE)}
    assert explain(seen)[0] == f"rank 0 is in {REDUCE_TEXT}, which all its ranks have entered"
    assert explain(seen)[1] == f"rank 1 waits in {REDUCE_TEXT} for ranks 0 and 3"
    assert blamed(seen) is None


def test_a_rank_that_was_not_called_is_told_so() -> None:
    seen = {0: _in(_event("barrier", dtype="", group_ranks=(0, 3), group="7"))}
    (line,) = explain(seen)
    where = "barrier on group 7 of ranks [0, 3]"
    assert line == f"rank 0 waits in {where} for rank 3, which takes no part in this call"
    assert blamed(seen) == 3


@pytest.mark.parametrize(
    ("kind", "ours", "theirs", "text"),
    [
        ("recv", Traffic(asked_messages=3), Traffic(sent_messages=2), "sent it 2 of 3 messages"),
        ("recv", Traffic(asked_messages=1), Traffic(), "sent it nothing"),
        (
            "send",
            Traffic(sent_messages=2),
            Traffic(asked_messages=1),
            "asked it for 1 of 2 messages",
        ),
        ("send", Traffic(sent_messages=1), Traffic(), "asked it for nothing"),
    ],
)
def test_a_message_that_waits_is_told_with_what_its_peer_did(
    kind: str, ours: Traffic, theirs: Traffic, text: str
) -> None:
    event = _event(kind, peer=1, tag=5)
    other = Seen(Sighting(None, False, (), (theirs,)), "has returned", is_busy=False)
    towards = "from" if kind == "recv" else "to"
    assert explain({0: _in(event, Traffic(), ours), 1: other})[0] == (
        f"rank 0 waits in {kind} of 4 bytes of float32 {towards} rank 1 with tag 5; "
        f"that rank has {text} and has returned"
    )


def test_a_receive_from_any_rank_waits_for_all_others() -> None:
    seen = {0: _in(_event("recv")), 1: _in(_event("recv", peer=0)), 2: _idle(), 3: _idle()}
    assert explain(seen)[0] == "rank 0 waits in recv of 4 bytes of float32 from any rank"
    assert blamed(seen) is None


def test_a_circle_is_named() -> None:
    seen = {rank: _in(_event("recv", peer=(rank + 1) % 3)) for rank in range(3)}
    assert explain(seen)[-1] == "ranks 0, 1 and 2 wait for each other in a circle"
    assert blamed(seen) is None


def test_a_chain_is_followed_to_its_end() -> None:
    seen = {0: _in(_event("recv", peer=1)), 1: _in(_event("send", peer=3)), 3: _idle()}
    assert explain(seen)[-1] == "all that wait do so, in the end, for rank 3"
    assert blamed(seen) == 3


def test_a_rank_that_died_in_a_call_does_not_wait() -> None:
    dead = Seen(Sighting(REDUCE, False, (REDUCE,), QUIET.traffic), "was killed", is_busy=False)
    raised = Seen(Sighting(REDUCE, True, (REDUCE,), QUIET.traffic), "is in no call")
    assert explain({0: dead, 1: raised}) == []
    assert explain({0: dead, 1: raised, 2: _in(REDUCE)})[:2] == [
        "rank 0 was killed",
        "rank 1 is in no call",
    ]


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        (_event("broadcast", peer=0), "broadcast of 4 bytes of float32 from rank 0"),
        (_event("all_reduce", num_bytes=8), "all_reduce of 8 bytes of float32"),
        (_event("all_reduce", dtype="int32"), "all_reduce of 4 bytes of int32"),
    ],
)
def test_the_odd_rank_in_a_collective_is_named(odd: WireEvent, text: str) -> None:
    seen = {0: _in(REDUCE), 1: _after(REDUCE), 2: _in(odd), 3: _in(REDUCE)}
    assert explain(seen)[0] == (
        "collective 1 of the default group is all_reduce of 4 bytes of float32 on ranks 0, 1 and 3"
        f", but {text} on rank 2: rank 2 did something else than the others"
    )
    assert blamed(seen) == 2


def test_different_roots_differ_too_and_halves_have_no_odd_one() -> None:
    one, other = _event("broadcast", peer=1, group="5"), _event("broadcast", peer=3, group="5")
    seen = {0: _in(one), 1: _in(one), 2: _in(other), 3: _in(other)}
    assert explain(seen)[0] == (
        "collective 1 of group 5 is broadcast of 4 bytes of float32 from rank 1 on ranks 0 and 1, "
        "but broadcast of 4 bytes of float32 from rank 3 on ranks 2 and 3"
    )
    assert blamed(seen) is None


def test_of_a_group_only_the_first_difference_is_told() -> None:
    kinds = ["all_reduce", "barrier"]
    first, second = ([_event(kind, sequence=number) for kind in kinds] for number in (0, 1))
    lines = explain({0: _after(first[0], second[0]), 1: _after(first[1], second[1])})
    assert [line[:12] for line in lines] == ["collective 1", "rank 0 has r", "rank 1 has r"]


def test_each_rank_may_exchange_another_amount() -> None:
    events = [_event("all_to_all_single", num_bytes=size) for size in (4, 8)]
    assert explain({0: _after(events[0]), 1: _after(events[1])}) == []


def test_the_two_ends_of_a_message_that_differ_are_told() -> None:
    sent, asked = _event("send", peer=1, sequence=1), _event("recv", peer=0, num_bytes=8)
    fits = _event("recv", peer=0, num_bytes=4)
    assert explain({0: _after(sent), 1: _after(fits, _event("recv", peer=0, sequence=1))}) == []
    matching = _event("recv", peer=0, num_bytes=8, sequence=1)
    assert explain({0: _after(sent), 1: _after(asked, matching)})[0] == (
        "message 2 from rank 0 to rank 1 has 4 bytes of float32, "
        "but 8 bytes of float32 were asked for"
    )


def _entered(record: Record, kind: str = "all_reduce", peer: int | None = None) -> Any:
    return record.enter(kind, "0", (0, 1), peer, 4, "float32", 0, 4, 4)


def test_a_page_shows_what_its_rank_is_in(tmp_path: Path) -> None:
    path = page_path(tmp_path)
    record = Record(Page(2, path))
    call = _entered(record)
    sighting = read(path)
    assert sighting is not None
    assert str(sighting.current) == REDUCE_TEXT
    record.leave(call)
    record.end(call)
    sighting = read(path)
    assert sighting is not None
    assert sighting.current is None
    (event,) = sighting.recent
    assert event.ended == call.ended is not None


def test_a_page_keeps_a_call_that_raised_as_the_current_one(tmp_path: Path) -> None:
    path = page_path(tmp_path)
    record = Record(Page(2, path))
    for raised in (False, True):
        record.leave(_entered(record), raised)
        sighting = read(path)
        assert sighting is not None
        assert sighting.raised is raised
        assert (sighting.current is not None) is raised


def test_a_call_within_a_call_gives_way_to_it_again(tmp_path: Path) -> None:
    path = page_path(tmp_path)
    record = Record(Page(2, path))
    _entered(record)
    record.leave(_entered(record, "barrier"))
    sighting = read(path)
    assert sighting is not None
    assert sighting.current is not None
    assert sighting.current.kind == "all_reduce"


def test_a_page_keeps_eight_messages_and_eight_collectives(tmp_path: Path) -> None:
    path = page_path(tmp_path)
    record = Record(Page(2, path))
    first = _entered(record, "send", 1)
    for _ in range(12):
        record.leave(_entered(record, "send", 1))
    for _ in range(9):
        record.leave(_entered(record))
    record.end(first)  # its place has another event now
    sighting = read(path)
    assert sighting is not None
    assert [event.index for event in sighting.recent] == [*range(5, 13), *range(14, 22)]
    assert [event.ended for event in sighting.recent] == [None] * 16


def test_a_page_tells_only_of_the_current_call_of_the_pool(tmp_path: Path) -> None:
    path = page_path(tmp_path)
    record = Record(Page(2, path))
    for _ in range(2):
        record.begin()
        call = _entered(record, "send", 1)
        record.leave(call)
        record.started(call)
    sighting = read(path)
    assert sighting is not None
    assert [(event.index, event.sequence) for event in sighting.recent] == [(1, 0)]
    assert sighting.traffic == (Traffic(), Traffic(sent_messages=1, sent_bytes=4))


def test_a_group_with_more_ranks_than_fit_goes_without_them(tmp_path: Path) -> None:
    path = page_path(tmp_path)
    record = Record(Page(2, path))
    record.enter("barrier", "0", tuple(range(1000)), None, 0, "", 0, 0, 0)
    sighting = read(path)
    assert sighting is not None
    assert sighting.current is not None
    assert sighting.current.group_ranks == ()


def test_without_a_page_nothing_is_seen(tmp_path: Path) -> None:
    assert read(page_path(tmp_path)) is None
    page_path(tmp_path).touch()
    assert read(page_path(tmp_path)) is None


def _failure(pool: RankPool, function: Callable[[], Any], deadline: float = 2.0) -> RankFailure:
    with pytest.raises(RankFailure) as caught:
        pool.run(function, deadline=deadline)
    return caught.value


def test_a_hang_in_native_code_that_holds_the_gil_is_waited_for(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 1:
            ctypes.PyDLL(None).pause()
        dist.all_reduce(torch.ones(1))

    failure = _failure(pool, body)
    assert failure.first == 1
    line = body.__code__.co_firstlineno + 2
    assert (
        f"\n  rank 0 waits in {REDUCE_TEXT} for rank 1, "
        f"which is in no call ({__file__}:{line} in body)\n"
    ) in str(failure)
    assert failure.failures[0].current_call == REDUCE_TEXT
    assert failure.failures[1].current_call == ""
    assert str(failure).endswith(
        f"\n  rank 3 of 4: no answer within 2.0 s, in {REDUCE_TEXT}",
    )


def test_a_rank_that_returned_without_its_part_is_waited_for(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 0:
            dist.recv(torch.ones(4), 3)

    failure = _failure(pool, body)
    assert failure.first == 0
    assert failure.waits[0] == (
        "rank 0 waits in recv of 16 bytes of float32 from rank 3; "
        "that rank has sent it nothing and has returned"
    )


def test_a_wait_for_a_work_is_told_as_its_message(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 2:
            work = dist.irecv(torch.ones(1), 1)
            dist.send(torch.ones(1), 3)
            assert work is not None
            work.wait()
        if dist.get_rank() == 3:
            dist.recv(torch.ones(1), 2)

    call = _failure(pool, body).failures[2].current_call
    assert call == "recv of 4 bytes of float32 from rank 1"


def test_a_size_on_one_rank_that_hurts_others_is_named(pool: RankPool) -> None:
    def body() -> None:
        dist.broadcast(torch.ones(2 if dist.get_rank() == 0 else 1), 0)

    failure = _failure(pool, body)
    assert failure.first != 0  # gloo aborts the ranks that did as most did
    assert failure.waits[0] == (
        "collective 1 of the default group is broadcast of 8 bytes of float32 from rank 0 on rank 0"
        ", but broadcast of 4 bytes of float32 from rank 0 on ranks 1, 2 and 3: "
        "rank 0 did something else than the others"
    )


def test_mismatched_collectives_are_named(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 3:
            dist.all_reduce(torch.ones(1))
        else:
            dist.broadcast(torch.ones(1), 0)
        time.sleep(60)

    failure = _failure(pool, body)
    assert failure.waits[0].endswith("rank 3 did something else than the others")
    assert failure.first == 3


def test_a_collective_that_raised_is_told_with_its_rank(pool: RankPool) -> None:
    def body() -> None:
        if dist.get_rank() == 1:
            time.sleep(0.2)
            raise SystemExit(3)
        dist.recv(torch.ones(1), 1)

    def die() -> None:
        if dist.get_rank() == 1:
            ctypes.string_at(0)
        dist.recv(torch.ones(1), 1)

    assert "rank 1 exited with status 3" in _failure(pool, body).waits
    failure = _failure(pool, die)
    assert failure.failures[0].kind == "exception"
    assert failure.failures[0].current_call == "recv of 4 bytes of float32 from rank 1"
