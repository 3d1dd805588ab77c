"""What is said of a batch is compared with the wire, in whatever way the payload goes over it."""

import pytest
from judging import Judge

from pytest_affine.builders import contiguous_split_map
from pytest_affine.conformance._wire import payload, surplus, unreceived
from pytest_affine.contract.outcomes import NotObservable, Outcome
from pytest_affine.fixtures.syncs import case
from pytest_affine.ranks.wire import WireEvent

PARTLY = "part of each shard stays (F30)"
HANDOFF = "an uneven handoff in small messages (F47)"

SQUARE = case(
    "an element from each process to each",
    (
        contiguous_split_map((4, 4), [1, 1, 1, 1], 0),
        contiguous_split_map((4, 4), [1, 1, 1, 1], 1),
    ),
)
"""One message for each pair under any budget."""

TO_ONE = case(
    "all to one",
    (contiguous_split_map((4,), [1, 1, 1, 1], 0), contiguous_split_map((4,), [4], 0)),
)

WAYS = {
    "ByMessages": Outcome.CONFORMANT,
    "ByAllToAll": Outcome.CONFORMANT,
    "ByBroadcast": Outcome.VIOLATED,
    "ByReduction": Outcome.NOT_OBSERVABLE,
    "ByStore": Outcome.NOT_OBSERVABLE,
    "SendsTwice": Outcome.VIOLATED,
}


@pytest.mark.parametrize("requirement", ["EXEC-STATS", "ANALYZE-WIRE"])
@pytest.mark.parametrize("name", WAYS)
def test_payload_is_seen_whatever_way_it_goes_or_is_not_observable(
    judge: Judge, name: str, requirement: str
) -> None:
    assert judge.outcome(f"ways:{name}", "EXEC-EXACT", SQUARE) is Outcome.CONFORMANT
    assert judge.outcome(f"ways:{name}", requirement, SQUARE) is WAYS[name]


def test_what_the_tap_could_not_see_is_told(judge: Judge) -> None:
    finding, *_ = judge.findings("ways:ByStore", "EXEC-STATS", SQUARE)
    assert finding.record.reason == (
        "process 0 got at least 12 bytes from others, of which 0 were seen on the wire"
    )
    finding, *_ = judge.findings("ways:ByReduction", "EXEC-STATS", SQUARE)
    assert finding.record.reason == "the tap can't tell to whom the bytes of one all_reduce went"


FAULTS = [
    ("statistics:ReturnsOneByteMoreSent", "EXEC-STATS", PARTLY, "sent_bytes 0, got 1"),
    ("statistics:ReturnsOneByteMoreCopied", "EXEC-STATS", PARTLY, "local_copy_bytes 8, got 9"),
    ("statistics:ReturnsOneByteMoreReceived", "EXEC-STATS", PARTLY, "received_bytes 4, got 5"),
    ("statistics:CountsLocalBytesAsSent", "EXEC-STATS", PARTLY, "local_copy_bytes 8, got 0"),
]


@pytest.mark.parametrize(("name", "requirement", "at", "wrong"), FAULTS)
def test_statistics_that_the_wire_and_the_buffers_do_not_show_are_named(
    judge: Judge, name: str, requirement: str, at: str, wrong: str
) -> None:
    text = judge.violation(name, requirement, at)
    assert "on the wire and in the buffers were " in text
    assert wrong in text
    assert judge.outcome("reference", requirement, at) is Outcome.CONFORMANT


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("statistics:ReturnsRoundsOfSendersOnly", "rounds 1, got 0"),
        ("ways:SendsHalves", "rounds 2, got 1"),
    ],
)
def test_rounds_are_the_most_messages_to_or_from_one_peer(
    judge: Judge, name: str, wrong: str
) -> None:
    assert wrong in judge.violation(name, "EXEC-STATS", TO_ONE)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("analyses:TurnsPairsAround", HANDOFF),
        ("analyses:CountsOneMessageForEachPair", HANDOFF),
        ("analyses:LeavesOutOnePair", PARTLY),
    ],
)
def test_a_report_of_other_pairs_than_the_wire_has_is_noticed(
    judge: Judge, name: str, at: str
) -> None:
    assert "bytes and messages per pair" in judge.violation(name, "ANALYZE-WIRE", at)
    assert judge.outcome("reference", "ANALYZE-WIRE", at) is Outcome.CONFORMANT


def event(kind: str, peer: int | None = None, sent: int = 0, **facts: object) -> WireEvent:
    values: dict[str, object] = {
        "kind": kind,
        "group": "0",
        "group_ranks": (0, 1, 2),
        "peer": peer,
        "num_bytes": sent,
        "dtype": "uint8",
        "tag": 0,
        "sequence": 0,
        "index": 0,
        "started": 0.0,
        "sent_bytes": sent,
        **facts,
    }
    return WireEvent(**values)  # type: ignore[arg-type]


def payload_of(*events: WireEvent, exchange: tuple[WireEvent, ...] = ()) -> object:
    """What process 0 sent with these, of three processes."""
    return payload([exchange, (), ()], [events, (), ()])


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([event("send", 1, 8), event("send", 1, 4)], {(0, 1): (12, 2)}),
        ([event("send", 2, 0)], {(0, 2): (0, 1)}),
        ([event("recv", 1, 0, received_bytes=8)], {}),
        ([event("broadcast", 0, 8)], {(0, 1): (8, 1), (0, 2): (8, 1)}),
        ([event("broadcast", 1, 0, num_bytes=8)], {}),
        ([event("scatter", 0, 24, num_bytes=8)], {(0, 1): (8, 1), (0, 2): (8, 1)}),
        ([event("gather", 2, 8)], {(0, 2): (8, 1)}),
        ([event("gather", 0, 8)], {}),
        ([event("all_gather", None, 8)], {(0, 1): (8, 1), (0, 2): (8, 1)}),
        ([event("all_to_all", None, 15, sent_parts=(4, 0, 11))], {(0, 2): (11, 1)}),
        ([event("barrier")], {}),
    ],
)
def test_bytes_are_told_by_pair(
    events: list[WireEvent], wanted: dict[tuple[int, int], tuple[int, int]]
) -> None:
    assert payload_of(*events) == wanted


@pytest.mark.parametrize(
    "unclear", [event("all_reduce", None, 8), event("all_to_all_single", None, 8)]
)
def test_bytes_of_no_pair_are_not_observable(unclear: WireEvent) -> None:
    with pytest.raises(NotObservable, match=f"to whom the bytes of one {unclear.kind} went"):
        payload_of(unclear)


def test_what_the_exchange_has_too_is_no_payload() -> None:
    flags, hello = event("all_reduce", None, 1), event("send", 1, 8)
    assert payload_of(flags, hello, hello, exchange=(flags, hello)) == {(0, 1): (8, 1)}
    assert payload_of(flags, exchange=(flags, hello)) == {(0, 1): (-8, -1)}


def test_more_than_the_exchange_is_counted_by_kind_and_peer() -> None:
    seen = [event("all_gather", None, 4), event("send", 1, 4), event("send", 1, 5)]
    exchanges = [[event("barrier")], [event("all_gather", None, 99), event("send", 1, 1)]]
    assert surplus(seen, exchanges) == "1 send to 1"
    assert surplus(seen[:2], exchanges) == ""


def test_messages_without_their_other_end_are_named() -> None:
    assert unreceived([[event("send", 1)], [event("recv", 0)], []]) == ""
    assert unreceived([[event("send", 1)], [], []]) == (
        "process 0 sent 1 messages to process 1, which received 0"
    )
    assert unreceived([[event("recv", 2)], [], []]) == (
        "process 2 sent 0 messages to process 0, which received 1"
    )
