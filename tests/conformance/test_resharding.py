"""Faulty resharders of whole syncs violate the requirement that their fault is about."""

import pytest
from judging import Judge

from pytest_affine.contract.outcomes import Outcome
from pytest_affine.mutants.catalogue.reshards import LAYOUT_SYNCS, RESHARDS

EVEN = "even split, same processes"
TWINS = "three parameters of one shape"
SPREAD = "rows to columns"
MOVED = "parameters of several sizes on 2 processes to 2 others"

FAULTS = [
    ("internals:CastsOnTheOtherSide", "SCHED-DIRECT", "bfloat16 to float32, packed on both sides"),
    ("internals:CountsTheLargerElements", "SCHED-VOLUME", f"float32 to bfloat16, {SPREAD}"),
    ("casts:TruncatesOnTheWay", "EXEC-DTYPE", f"float32 to bfloat16, {SPREAD}"),
    ("reshards:ExchangesTwins", "RESHARD-EXACT", TWINS),
    ("reshards:SortsNames", "RESHARD-EXACT", "names that sort otherwise than they come"),
    ("reshards:ReadsSourcesFromTheStoragesStart", "RESHARD-EXACT", "one location"),
    ("reshards:QuietsNansOfSyncs", "RESHARD-EXACT", "elements of bfloat16"),
    ("reshards:MovesASyncOnce", "RESHARD-EXACT", EVEN),
    ("reshards:MovesNothing", "RESHARD-EXACT", "the only row moves (F32)"),
    ("reshards:MovesNothing", "WIRE-SEEN", "columns to rows in messages of 2 KiB"),
    ("reshards:WritesBehindTargetsOfSyncs", "RESHARD-GUARD", EVEN),
    ("reshards:ClearsSourcesOfSyncs", "RESHARD-GUARD", EVEN),
    ("reshards:ClearsTargetsOfSyncs", "RESHARD-GUARD", "padding between two pieces"),
    ("reshards:LeavesOutWhatOneRankLacks", "RESHARD-REFUSE", "a missing source buffer"),
    ("reshards:RefusesWithAnotherError", "RESHARD-REFUSE", "a target buffer in bfloat16 (F31)"),
    ("reshards:RefusesForItself", "RESHARD-REFUSE", "a missing target buffer"),
    ("reshards:RefusesEverAfter", "RESHARD-REFUSE", "process 3 lacks a target buffer"),
    ("sessions:RunsWhenClosed", "RESHARD-REFUSE", EVEN),
    ("sessions:ClosesOnce", "RESHARD-REFUSE", EVEN),
    ("casts:TruncatesSyncs", "RESHARD-DTYPE", f"float32 to bfloat16, {SPREAD}"),
    ("casts:CastsThroughHalves", "RESHARD-DTYPE", f"int64 to float32, {SPREAD}"),
    ("casts:ReinterpretsBits", "RESHARD-DTYPE", "bfloat16 to float32, in place (F31)"),
    ("casts:ReinterpretsBits", "RESHARD-DTYPE", f"float16 to bfloat16, {SPREAD}"),
    ("casts:RefusesCastsOnOneRank", "RESHARD-DTYPE", f"bool to float32, {SPREAD}"),
    (
        "sessions:KnowsSyncsByShapes",
        "RESHARD-FRESH",
        "shards of the same shapes whose blocks are placed otherwise (F13)",
    ),
    (
        "sessions:KnowsSyncsByMaps",
        "RESHARD-FRESH",
        "from processes 0 and 1 to 2 and 3, and back (F23)",
    ),
    ("sessions:KnowsSyncsByTargets", "RESHARD-FRESH", "another source layout"),
    ("sessions:KeepsSourcesOfSyncs", "RESHARD-FRESH", "another parameter"),
    ("sessions:KeepsTargetsOfSyncs", "RESHARD-FRESH", "another order of parameters"),
    ("sessions:KeepsItsTargets", "RESHARD-FRESH", "another source layout"),
    ("sessions:KeepsItsSync", "RESHARD-FRESH", "two parameters that exchange their layouts"),
    ("sessions:KeepsItsValues", "RESHARD-FRESH", "another source layout"),
    ("reshards:TurnsWhatStays", "LAYOUT-SELF", "experts by table over ep 2, same processes"),
    (
        "reshards:ExchangesTwinsThatStay",
        "LAYOUT-SELF",
        "experts over ep 2 and etp 2, other processes",
    ),
    ("reshards:TakesOtherShapes", "LAYOUT-SHAPE", "a source shard with its axes exchanged"),
    ("reshards:TakesOtherShapes", "LAYOUT-SHAPE", "a target shard without its axes"),
    (
        "reshards:BroadcastsShards",
        "LAYOUT-SHAPE",
        "a source shard of one row, which could be broadcast",
    ),
    ("reshards:CutsShards", "LAYOUT-SHAPE", "a source shard with a row too many"),
    ("reshards:CutsShards", "LAYOUT-SHAPE", "a target shard with a row too many"),
    ("reshards:FillsShards", "LAYOUT-SHAPE", "shards declared as replicas (F14)"),
    ("rank_plans:ForgetsALastReceive", "PLAN-LOCAL", "the only row moves (F32)"),
    ("rank_plans:ReceivesBackwards", "PLAN-LOCAL", "16 locations to 12"),
    ("rank_plans:SendsNoLocalCopies", "PLAN-LOCAL", "all on one process"),
    ("rank_plans:NamesLocationsForPeers", "PLAN-LOCAL", "permuted processes"),
    ("rank_plans:MovesTwice", "PLAN-LOCAL", EVEN),
    ("rank_plans:LeavesOutLastRows", "PLAN-LOCAL", EVEN),
    ("rank_plans:ReadsFirstElements", "PLAN-LOCAL", EVEN),
]


WAITED_FOR = [
    ("reshards:MovesInTheWholeWorld", "RESHARD-EXACT", "2 elements, ranks 1 and 3 (F29)"),
]


def test_every_mutant_of_the_catalogue_is_noticed_in_some_case() -> None:
    prefix = "pytest_affine.mutants.faults."
    listed = {
        (each.fault.removeprefix(prefix), each.requirement) for each in LAYOUT_SYNCS + RESHARDS
    }
    assert listed <= {(name, requirement) for name, requirement, _ in FAULTS + WAITED_FOR}


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_resharder_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    judge.assert_notices(name, requirement, case)


@pytest.mark.parametrize(("name", "requirement", "case"), WAITED_FOR)
def test_ranks_that_wait_for_one_that_goes_its_own_way_are_noticed(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    text = judge.violation(name, requirement, case, deadline=4.0)
    assert "no answer within 4.0 s" in text
    assert judge.outcome("reference", requirement, case) is Outcome.CONFORMANT


@pytest.mark.parametrize(
    ("name", "requirement", "case", "text"),
    [
        (
            "sessions:KeepsItsTargets",
            "RESHARD-FRESH",
            "another source layout",
            "turn 3, with new target buffers: target shard 1 of 'weight' on process 0, run 2: 6 of "
            "6 elements are wrong; ",
        ),
        (
            "sessions:KeepsSourcesOfSyncs",
            "RESHARD-FRESH",
            "another source layout",
            "turn 2, with new values: target shard 1 of 'weight' on process 0, run 1: ",
        ),
        (
            "sessions:KnowsSyncsByTargets",
            "RESHARD-FRESH",
            "shards of the same shapes whose blocks are placed otherwise (F13)",
            "turn 4, with another sync: target shard 1 of 'weight' on process 0, run 0: 6 of 12 ",
        ),
        (
            "sessions:RunsWhenClosed",
            "RESHARD-REFUSE",
            EVEN,
            "after close, process 0 ran the sync again",
        ),
        (
            "sessions:ClosesOnce",
            "RESHARD-REFUSE",
            EVEN,
            "after close, process 0 refused to close: closed before",
        ),
        (
            "reshards:RefusesEverAfter",
            "RESHARD-REFUSE",
            "process 3 lacks a target buffer",
            "after a refusal, what is right is refused: refused before",
        ),
        (
            "casts:RefusesCastsOnOneRank",
            "RESHARD-DTYPE",
            f"bool to float32, {SPREAD}",
            "turn 1 of 2: process 0 refused (UnsupportedLayoutError: elements are not cast), and "
            "processes [1, 2, 3] went on",
        ),
        (
            "rank_plans:ForgetsALastReceive",
            "PLAN-LOCAL",
            "the only row moves (F32)",
            "process 0 sends 1 segments to process 1, which receives 0; received and not sent: [], "
            "sent and not received: [('weight', TransferSegment(source_location=0, ",
        ),
        (
            "rank_plans:ReceivesBackwards",
            "PLAN-LOCAL",
            "16 locations to 12",
            "process 0 sends 16 segments to process 0, which receives the same in another order",
        ),
        (
            "rank_plans:NamesLocationsForPeers",
            "PLAN-LOCAL",
            "permuted processes",
            "process 0 receives a segment of 'weight' whose processes are (0, 0), between "
            "locations whose processes are (3, 0): TransferSegment(",
        ),
        (
            "rank_plans:MovesTwice",
            "PLAN-LOCAL",
            EVEN,
            "PLAN-TILE",
        ),
    ],
)
def test_what_is_wrong_is_told(
    judge: Judge, name: str, requirement: str, case: str, text: str
) -> None:
    assert text in judge.violation(name, requirement, case)


def test_what_must_be_refused_and_went_on_is_told(judge: Judge) -> None:
    case = "a source shard with a row too many"
    text = judge.violation("reshards:CutsShards", "LAYOUT-SHAPE", case)
    assert "must be refused, but went on" in text


def test_bytes_that_the_tap_does_not_see_leave_the_wire_not_observable(judge: Judge) -> None:
    case = "columns to rows in messages of 2 KiB"
    name = "resharders:ThroughTheStore"
    (finding,) = judge.findings(name, "WIRE-SEEN", case)
    assert finding.record.outcome is Outcome.NOT_OBSERVABLE
    assert finding.record.reason == (
        "process 0 got at least 8192 bytes from others, of which 0 were seen on the wire"
    )
    assert judge.outcome(name, "RESHARD-EXACT", EVEN) is Outcome.CONFORMANT
    assert judge.outcome("reference", "WIRE-SEEN", case) is Outcome.CONFORMANT


def test_refusing_casts_on_every_rank_is_right(judge: Judge) -> None:
    case = f"float32 to bfloat16, {SPREAD}"
    name = "resharders:CastsNothing"
    assert judge.outcome(name, "RESHARD-DTYPE", case) is Outcome.CONFORMANT
    assert judge.outcome(name, "RESHARD-FRESH", "another source dtype") is Outcome.CONFORMANT


def test_what_is_not_claimed_is_not_judged(judge: Judge) -> None:
    assert judge.outcome("resharders:CastsNothing", "PLAN-LOCAL", EVEN) is Outcome.NOT_CLAIMED
    name = "resharders:ReadsTheLastHolder"
    assert judge.outcome(name, "RESHARD-EXACT", EVEN) is Outcome.NOT_CLAIMED


def test_a_handle_that_lacks_its_methods_is_the_adapters_error(judge: Judge) -> None:
    name, case = "resharders:GivesNoHandle", "another source layout"
    records = [f.record for f in judge.findings(name, "RESHARD-FRESH", case)]
    assert [record.outcome for record in records] == [Outcome.CONFORMANT, Outcome.ADAPTER_ERROR]
    assert "a handle that has the methods ['run', 'rebind', 'close'], got " in records[1].reason


@pytest.mark.parametrize(
    ("name", "case", "number"),
    [
        (
            "reference",
            MOVED,
            "busiest sender 1.00 of the least, local copies none possible",
        ),
        (
            "resharders:ReadsTheLastHolder",
            MOVED,
            "busiest sender 2.00 of the least, local copies none possible",
        ),
        (
            "resharders:ReadsTheLastHolder",
            "replicas on 4 processes to shards on each",
            "busiest sender 72 bytes for none, local copies 25%",
        ),
    ],
)
def test_the_balance_of_a_plan_is_a_number(judge: Judge, name: str, case: str, number: str) -> None:
    (finding,) = judge.findings(name, "LOAD-BALANCE", case)
    assert (finding.record.outcome, finding.record.reason) == (Outcome.CONFORMANT, number)
