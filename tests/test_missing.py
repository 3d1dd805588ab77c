"""Messages that ranks wait for in vain: found on their pages, and told by schedules."""

import pickle
from typing import Any

import pytest

from pytest_affine.missing import missing_messages
from pytest_affine.plans import Chunk, Message, ProcessSchedule, Queue, Schedule
from pytest_affine.ranks import RankFailure
from pytest_affine.ranks.waits import Seen, never_begun
from pytest_affine.ranks.wire import MissingMessage, Sighting, Traffic, WireEvent


def event(kind: str = "recv", peer: int | None = 0, **values: Any) -> WireEvent:
    fields: dict[str, Any] = {
        "group": "0",
        "group_ranks": (0, 1, 2),
        "num_bytes": 8,
        "dtype": "uint8",
        "tag": 0,
        "sequence": 0,
        "index": 0,
        "started": 1.0,
    }
    return WireEvent(kind=kind, peer=peer, **(fields | values))


def seen(current: WireEvent | None, **traffic: Traffic) -> Seen:
    """A rank in an event, and its traffic with `rank_0` and so on."""
    by_peer = tuple(traffic.get(f"rank_{peer}", Traffic()) for peer in range(3))
    return Seen(Sighting(current, False, (), by_peer), "is in no call")


WAITS = event(sequence=2)


@pytest.mark.parametrize(("num_sent", "is_missing"), [(0, True), (2, True), (3, False), (4, False)])
def test_a_message_is_missing_if_its_sender_has_sent_only_those_before(
    num_sent: int, is_missing: bool
) -> None:
    sender = seen(None, rank_1=Traffic(sent_messages=num_sent, asked_messages=1))
    found = never_begun({0: sender, 1: seen(WAITS), 2: seen(None)})
    assert found == ((MissingMessage(1, WAITS),) if is_missing else ())


@pytest.mark.parametrize(
    ("num_asked", "is_missing"), [(0, True), (2, True), (3, False), (4, False)]
)
def test_a_send_waits_for_a_receive_that_is_missing(num_asked: int, is_missing: bool) -> None:
    waits = event("send", 1, sequence=2)
    receiver = seen(None, rank_0=Traffic(asked_messages=num_asked, sent_messages=1))
    found = never_begun({0: seen(waits), 1: receiver})
    assert found == ((MissingMessage(0, waits),) if is_missing else ())


@pytest.mark.parametrize(
    "current",
    [None, event(peer=None), event("all_reduce", None), event("broadcast", 0), event(peer=2)],
)
def test_nothing_is_missing_where_no_message_of_a_rank_at_hand_is_awaited(
    current: WireEvent | None,
) -> None:
    assert never_begun({0: seen(None), 1: seen(current)}) == ()


def test_a_failure_keeps_what_is_missing_when_it_travels() -> None:
    missing = (MissingMessage(1, WAITS),)
    failure = RankFailure({}, 0, {}, ["a line"], missing)
    assert pickle.loads(pickle.dumps(failure)).missing == missing


def message(*segments: tuple[str, int], num_bytes: int = 8) -> Message:
    chunks = tuple(
        Chunk(parameter=name, segment=segment, origin=(0,), shape=(1,))
        for name, segment in segments
    )
    return Message(chunks=chunks, num_elements=num_bytes, num_bytes=num_bytes, direct=False)


def schedule(sender: int, receiver: int, *messages: Message) -> Schedule:
    """Messages of one pair, beside a process that only has others."""
    queue, nothing = Queue(messages, 8), Queue((message(("other", 9)),), 8)

    def own(sends: dict[int, Queue], receives: dict[int, Queue]) -> ProcessSchedule:
        return ProcessSchedule(sends=sends, receives=receives, local_copies=(), num_rounds=3)

    idle = 3 - sender - receiver
    return Schedule(
        {
            sender: own({receiver: queue}, {idle: nothing}),
            receiver: own({}, {sender: queue, idle: nothing}),
            idle: own({receiver: nothing, sender: nothing}, {}),
        }
    )


FIVE = (
    message(("w", 0)),
    message(("w", 1)),
    message(("w", 4), ("w", 4), ("w", 5), num_bytes=1024),
    message(("w", 6), ("v", 0), num_bytes=16),
    message(("v", 1)),
)


def test_a_message_is_told_with_its_pair_number_bytes_round_and_segments() -> None:
    missing = MissingMessage(2, event(peer=0, sequence=2, num_bytes=1024))
    assert missing_messages([missing], [schedule(0, 2, *FIVE)]) == [
        "rank 2 waits for message 3 of 5 from rank 0 (1,024 bytes, round 3: parameter 'w', "
        "segments 4, 5), which rank 0 never sent"
    ]


def test_a_receive_that_is_missing_is_told_from_its_sender() -> None:
    missing = MissingMessage(0, event("send", 2, sequence=3, num_bytes=16))
    assert missing_messages([missing], [schedule(0, 2, *FIVE)]) == [
        "rank 0 waits to send message 4 of 5 to rank 2 (16 bytes, round 4: parameter 'w', "
        "segment 6; parameter 'v', segment 0), which rank 2 never asked for"
    ]


def test_processes_are_ranks_of_the_group_in_its_order() -> None:
    missing = MissingMessage(1, event(peer=5, group_ranks=(5, 3, 1)))
    (line,) = missing_messages([missing], [schedule(0, 2, *FIVE)])
    assert line.startswith("rank 1 waits for message 1 of 5 from rank 5 (8 bytes, round 1: ")


@pytest.mark.parametrize(
    ("sequence", "told"),
    [
        (4, "message 5 of 5 from rank 0 in batch 1 of 3 (8 bytes, round 5: parameter 'v', s"),
        (5, "message 1 of 1 from rank 0 in batch 3 of 3 (8 bytes, round 1: parameter 'u', s"),
    ],
)
def test_messages_of_several_batches_are_counted_on(sequence: int, told: str) -> None:
    batches = [schedule(0, 2, *FIVE), schedule(0, 1), schedule(0, 2, message(("u", 0)))]
    (line,) = missing_messages([MissingMessage(2, event(sequence=sequence))], batches)
    assert line.startswith(f"rank 2 waits for {told}")


@pytest.mark.parametrize(
    "missing",
    [
        event(sequence=5),
        event(num_bytes=9),
        event(peer=None),
        event(peer=3, group_ranks=(0, 1, 2)),
        event(group_ranks=()),
        event(group_ranks=(0, 1)),
        event("send", 0),
    ],
)
def test_what_is_not_in_the_schedules_is_not_told(missing: WireEvent) -> None:
    assert missing_messages([MissingMessage(2, missing)], [schedule(0, 2, *FIVE)]) == []


def test_a_process_without_a_schedule_has_no_messages() -> None:
    assert missing_messages([MissingMessage(2, event())], [Schedule({})]) == []


def test_of_many_segments_only_some_are_named() -> None:
    many = message(*(("w", number) for number in range(9)), ("v", 0))
    (line,) = missing_messages([MissingMessage(2, event())], [schedule(0, 2, many)])
    assert "parameter 'w', segments 0, 1, 2, 3, 4, 5, 6, 7; and 2 more), which" in line
