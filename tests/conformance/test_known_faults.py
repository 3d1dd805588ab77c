"""Faults that real resharders had, at the smallest input that shows them and at an easy one.

The ids are those of the page on faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from judging import Judge

from pytest_affine.builders import (
    block_gather_map,
    contiguous_split_map,
    replicated_map,
    sub_param_map,
)
from pytest_affine.contract.cases import Case
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.fixtures.syncs import case
from pytest_affine.maps import AffinePiece, ParamAffineMap

EVEN = "even split, same processes"
ELSEWHERE = "even split, other processes"
IDENTITY = "identity, same processes"
ONE = "one location"
COPIES = "split shards under one name (F19)"
READ = "only one of two replicas is read (F26)"
PADDED = "a vocabulary of 5 rows, padded to 6 and to 8 (F15)"
GRAINS = "sizes rounded to a grain of 4 leave a gap (F03)"
RUNS = "runs merged across a change of holders (F02)"
TWICE = "one address written twice, another never (F01)"
TWICE_IN_STRIDES = "one address written twice, another never, in strides (F01)"
TWO_REPLICAS = "two replicas for a third process"
MIXED = "parameters of several dtypes"
HANDOFF = "an uneven handoff in small messages (F47)"
EXTENT = "an axis of extent 1 between others (F49)"
SIDE_BY_SIDE = "columns side by side in one shard (F43)"


def built(builder: str, elements: Mapping[str, Any], **arguments: Any) -> Case:
    detail = {"builder": builder, "arguments": arguments, "elements": {"weight": elements}}
    return Case(name="easy", kind="builder", detail=detail)


def sync(source: ParamAffineMap, target: ParamAffineMap) -> Case:
    return case("easy", (source, target))


def rows(shape: tuple[int, ...], *widths: int) -> ParamAffineMap:
    return contiguous_split_map(shape, widths, 0)


WHOLE = replicated_map((4, 1), 1)

HALVES = sync(sub_param_map((4,), [2, 2], [[2], [2]], 0), replicated_map((4,), 1))
"""Two pieces, each at an address of its own."""

GRAINS_OF_12 = Case(
    name="4 and 4 of 12",
    kind="invalid map",
    sync=sync(
        ParamAffineMap(
            (12,),
            {0: (4,), 1: (4,), 2: (0,)},
            {at: [AffinePiece((4,), 4 * at, (1,), 0, (1,), (at,))] for at in (0, 1)},
        ),
        replicated_map((12,), 1),
    ).sync,
    detail={"rule": "MAP-COVER", "side": "source"},
)

FAULTS: dict[str, tuple[str, str, str, Case | str | None]] = {
    "F01": ("maps:AddsUpPieceSizes", "MAP-TILE", TWICE, HALVES),
    "F01 in strides": ("maps:AddsUpPieceSizes", "MAP-TILE", TWICE_IN_STRIDES, HALVES),
    "F01 planned": (
        "lenient:PlansWhatAddsUp",
        "PLAN-REFUSE",
        TWICE,
        "a gap at the end of the shard",
    ),
    "F01 in strides, planned": ("lenient:PlansWhatAddsUp", "PLAN-REFUSE", TWICE_IN_STRIDES, None),
    "F02": (
        "builders:MergesAcrossHolders",
        "MAP-BUILD",
        "split queries beside replicated keys (F02)",
        built(
            "segmented_map",
            {"0": [0, 1], "1": [2, 3, 4, 5]},
            shape=[6],
            segments=[[4, False], [2, False]],
            dim=0,
            num_locations=2,
            widths_by_split_block=[[2, 2], [0, 2]],
        ),
    ),
    "F02 checked": ("maps:LooksAtTheLastElement", "MAP-HOLD", RUNS, "a holder that holds nothing"),
    "F02 planned": ("lenient:PlansByTheLastElement", "PLAN-REFUSE", RUNS, None),
    "F03": (
        "builders:RoundsWidthsToGrains",
        "MAP-BUILD",
        "uneven rows, none for the second location",
        built(
            "contiguous_split_map",
            {"0": [0, 1, 2, 3], "1": [4, 5, 6, 7], "2": [8, 9, 10, 11]},
            shape=[12],
            widths=[4, 4, 4],
            dim=0,
        ),
    ),
    "F03 checked": ("maps:CountsInGrains", "MAP-COVER", GRAINS, GRAINS_OF_12),
    "F03 planned": ("lenient:PlansWholeGrains", "PLAN-REFUSE", GRAINS, GRAINS_OF_12),
    "F04": (
        "memories:RemembersBlocks",
        "PLAN-DETERMINISTIC",
        "three blocks, then 12 rows over 4 (F04)",
        sync(rows((12,), 3, 3, 3, 3), replicated_map((12,), 1)),
    ),
    "F04 in a batch": (
        "batches:RemembersBlocksInBatches",
        "BATCH-FIRST",
        "three blocks, then 12 rows over 4 (F04)",
        EVEN,
    ),
    "F05": (
        "builders:AssemblesInRankOrder",
        "MAP-BUILD",
        "intervals that are not in the order of locations (F05)",
        "an empty parameter between others (F17)",
    ),
    "F05 planned": (
        "layouts:TakesSourcesForRows",
        "PLAN-SOURCE",
        "fragments whose locations are not in order (F05)",
        "4 sources to 2 targets (F24)",
    ),
    "F06": (
        "builders:CutsOuterBlocksByTheirOwnSizes",
        "MAP-BUILD",
        "an uneven strided shard (F06)",
        "an even strided shard",
    ),
    "F08": (
        "builders:KeepsRowStridesOfSplits",
        "MAP-BUILD",
        "uneven columns (F08)",
        built(
            "contiguous_split_map",
            {"0": [[0, 1], [4, 5]], "1": [[2, 3], [6, 7]]},
            shape=[2, 4],
            widths=[2, 2],
            dim=1,
        ),
    ),
    "F08 planned": (
        "unchecked:KeepsRowStrides",
        "PLAN-BOUNDS",
        "narrow columns to whole (F08)",
        "columns to rows (F43)",
    ),
    "F09": (
        "layouts:SharesHeadsEvenly",
        "PLAN-TILE",
        "rows of heads q,q,k,v to q, k and v apart (F09)",
        sync(
            rows((8, 1), 4, 4),
            block_gather_map((8, 1), {0: [0, 1, 4, 5], 1: [2, 6], 2: [3, 7]}, 1, 0),
        ),
    ),
    "F10": (
        "builders:CutsFusedInEqualChunks",
        "MAP-BUILD",
        "q, k and v of unequal heights (F10)",
        built(
            "sub_param_map",
            {"0": [0, 1, 2, 3, 4, 5, 6, 7]},
            shape=[8],
            block_sizes=[4, 2, 2],
            widths_by_block=[[4], [2], [2]],
            dim=0,
        ),
    ),
    "F10 planned": (
        "layouts:TakesTargetsForRows",
        "PLAN-SOURCE",
        "fused q, k, v of unequal heights (F10)",
        sync(replicated_map((8,), 1), sub_param_map((8,), [4, 2, 2], [[4], [2], [2]], 0)),
    ),
    "F11": (
        "layouts:TakesSourcesForRows",
        "PLAN-SOURCE",
        "gate and up of 2 to one (F11)",
        sync(sub_param_map((4, 1), [2, 2], [[2], [2]], 0), WHOLE),
    ),
    "F11 where there is none": (
        "layouts:TakesSourcesForGateAndUp",
        "PLAN-SOURCE",
        "plain rows of 2 to one, twin of gate and up (F11)",
        sync(rows((4, 1), 4), WHOLE),
    ),
    "F11 built": (
        "builders:CutsFusedInEqualChunks",
        "MAP-BUILD",
        "gate and up (F11)",
        built(
            "sub_param_map",
            {"0": [0, 1, 2, 3]},
            shape=[4],
            block_sizes=[2, 2],
            widths_by_block=[[2], [2]],
            dim=0,
        ),
    ),
    "F13": (
        "unchecked:TakesSlotsForNumbers",
        "PLAN-TILE",
        "experts in order, 2 to 4 (F13)",
        sync(block_gather_map((4, 1), {0: [0, 1, 2, 3]}, 1, 0), rows((4, 1), 1, 1, 1, 1)),
    ),
    "F13 by table": (
        "layouts:TakesSourcesForRows",
        "PLAN-SOURCE",
        "experts by table, 2 to 4 (F13)",
        "experts in order, 2 to 4 (F13)",
    ),
    "F13 built": (
        "builders:TakesSlotsForBlocks",
        "MAP-BUILD",
        "experts by table (F13)",
        built(
            "block_gather_map",
            {"0": [0, 1, 2, 3]},
            shape=[4],
            block_ids_by_location={"0": [0, 1, 2, 3]},
            block_size=1,
            dim=0,
        ),
    ),
    "F13 by table, built": (
        "builders:CountsBlocksByLocation",
        "MAP-BUILD",
        "experts by table (F13)",
        built(
            "block_gather_map",
            {"0": [0, 1], "1": [2, 3]},
            shape=[4],
            block_ids_by_location={"0": [0, 1], "1": [2, 3]},
            block_size=1,
            dim=0,
        ),
    ),
    "F14": (
        "tolerant:TakesSizesOnTrust",
        "EXEC-REFUSE",
        "shards declared as replicas (F14)",
        None,
    ),
    "F15": (
        "layouts:TreatsPaddingAsData",
        "PLAN-TILE",
        PADDED,
        sync(rows((6, 2), 3, 3), rows((6, 2), 2, 2, 2)),
    ),
    "F15 read": (
        "layouts:TreatsPaddingAsData",
        "PLAN-SOURCE",
        PADDED,
        sync(rows((6, 2), 3, 3), rows((6, 2), 2, 2, 2)),
    ),
    "F17": (
        "extremes:NeedsElements",
        "PLAN-EDGE",
        "an empty parameter between others (F17)",
        ONE,
    ),
    "F17 no axes": ("extremes:NeedsAxes", "PLAN-EDGE", "a scalar (F17)", ONE),
    "F17 no rows": ("extremes:NeedsElements", "PLAN-EDGE", "no rows (F17)", ONE),
    "F17 no axes, built": (
        "builders:NeedsAxesOfReplicas",
        "MAP-BUILD",
        "a scalar",
        "the full tensor at both locations",
    ),
    "F17 built": (
        "builders:LeavesOutEmptyParameters",
        "MAP-BUILD",
        "an empty parameter between others (F17)",
        "intervals that are not in the order of locations (F05)",
    ),
    "F19": ("plans:KeepsOneOfEqualSizes", "PLAN-TILE", COPIES, READ),
    "F21": ("shards:LastReplicaWins", "MAP-REPLICA", f"{READ}, other values", READ),
    "F19 in a batch": ("batches:TakesShardsForCopies", "BATCH-ONCE", COPIES, TWO_REPLICAS),
    "F21 in a batch": ("defaults:ReadsTheLast", "BATCH-BALANCE", READ, MIXED),
    "F22": ("plans:DropsTheLastSegment", "PLAN-TILE", COPIES, None),
    "F23": (
        "memories:CachesWithoutLocations",
        "PLAN-DETERMINISTIC",
        "from locations 0 and 1 to 2 and 3, and back (F23)",
        sync(rows((4,), 2, 2), rows((4,), 2, 2)),
    ),
    "F23 in a batch": (
        "batches:PlansEachShapeOnce",
        "BATCH-FIRST",
        "from locations 0 and 1 to 2 and 3, and back (F23)",
        EVEN,
    ),
    "F24": ("plans:ReadsItsOwnNumberOnly", "PLAN-TILE", "4 sources to 2 targets (F24)", IDENTITY),
    "F28": (
        "executors:ReadsStridedAsPacked",
        "EXEC-EXACT",
        "the middle columns leave (F28)",
        ELSEWHERE,
    ),
    "F28 transposed": (
        "executors:ReadsStridedAsPacked",
        "EXEC-EXACT",
        "a shard stored transposed (F28)",
        ELSEWHERE,
    ),
    "F30": (
        "executors:SkipsLocalCopies",
        "EXEC-EXACT",
        "part of each shard stays (F30)",
        ELSEWHERE,
    ),
    "F30 counted": (
        "statistics:CountsLocalBytesAsSent",
        "STATS-EQUAL",
        "part of each shard stays (F30)",
        ELSEWHERE,
    ),
    "F29": (
        "sequences:SortsTheGroup",
        "EXEC-GROUP",
        "rows to columns, ranks 3 and 1",
        "rows to columns, ranks 1 and 3",
    ),
    "F31": (
        "tolerant:ReinterpretsDtypes",
        "EXEC-REFUSE",
        "a source buffer in bfloat16 (F31)",
        "a source buffer of half the size",
    ),
    "F35": (
        "extremes:WrapsSizes",
        "PLAN-EDGE",
        "bytes beyond 2^31 (F35)",
        "byte offsets beyond 2^31 (F35)",
    ),
    "F35 in bytes": ("extremes:WrapsBytes", "PLAN-EDGE", "byte offsets beyond 2^31 (F35)", ONE),
    "F35 offsets": (
        "extremes:WrapsOffsets",
        "PLAN-EDGE",
        "offsets beyond 2^53",
        "bytes beyond 2^31 (F35)",
    ),
    "F35 in a batch": (
        "batches:CountsBytesIn31Bits",
        "BATCH-EXACT",
        "bytes beyond 2^31 of two replicas (F35)",
        TWO_REPLICAS,
    ),
    "F35 in a batch, by element": (
        "batches:CountsBytesIn31Bits",
        "BATCH-EXACT",
        "byte offsets beyond 2^31 of two replicas (F35)",
        TWO_REPLICAS,
    ),
    "F38": ("digests:DependsOnHashes", "DIGEST-STABLE", "8 names (F38)", MIXED),
    "F41": ("executors:DeliversOnlyOnce", "EXEC-EXACT", EVEN, None),
    "F43": ("layouts:JoinsPieces", "PLAN-SOURCE", SIDE_BY_SIDE, EVEN),
    "F43 written": ("plans:WritesPartsEndToEnd", "PLAN-SOURCE", SIDE_BY_SIDE, EVEN),
    "F43 read": ("layouts:TakesSourcesForRows", "PLAN-SOURCE", "columns to rows (F43)", EVEN),
    "F43 cut": ("shards:JoinsPiecesOfShards", "MAP-INV", SIDE_BY_SIDE, EVEN),
    "F43 rebuilt": ("shards:JoinsShards", "MAP-INV", "columns to rows (F43)", EVEN),
    "F44": ("executors:ReadsFromTheStoragesStart", "EXEC-EXACT", ONE, None),
    "F44 cut": ("shards:CutsFromTheStoragesStart", "MAP-INV", EVEN, COPIES),
    "F44 rebuilt": ("shards:RebuildsFromTheStoragesStart", "MAP-INV", EVEN, COPIES),
    "F45": ("plans:CutsTheOuterAxis", "PLAN-TOPOLOGY", "column blocks, 4 to 2 (F45)", EVEN),
    "F46": ("unchecked:ReadsFullSides", "PLAN-BOUNDS", COPIES, ONE),
    "F46 inside": ("unchecked:ReadsFullSides", "PLAN-SOURCE", "gate and up of 2 to one (F11)", ONE),
    "F47": ("statistics:LeavesOutReceiversRounds", "STATS-EQUAL", HANDOFF, IDENTITY),
    "F47 scheduled": ("messages:RoundsOfSends", "SCHED-ROUNDS", HANDOFF, IDENTITY),
    "F48": (
        "analyses:LeavesLocalBytesOutOfPaths",
        "ANALYZE-SUM",
        "part of each shard stays (F30)",
        ELSEWHERE,
    ),
    "F49": ("messages:StagesEverything", "SCHED-DIRECT", EXTENT, None),
    "F49 extents of 1": (
        "messages:LooksAtStridesOfExtentsOfOne",
        "SCHED-DIRECT",
        "one row of a wide shard (F49)",
        "two rows of a wide shard",
    ),
    "F49 arenas": ("messages:ArenasForAll", "SCHED-ARENA", ELSEWHERE, IDENTITY),
    "F49 counted": (
        "analyses:StagesEveryMessage",
        "ANALYZE-STAGING",
        "part of each shard stays (F30)",
        None,
    ),
    "F50": (
        "schedules:SchedulesEmptyBatches",
        "SCHED-REFUSE",
        "a budget of 0, empty batch (F50)",
        "a budget of 0",
    ),
    "F50 unknown process": (
        "schedules:SchedulesUnknownProcesses",
        "SCHED-REFUSE",
        "process 7 of 2 (F50)",
        "a budget of 0",
    ),
    "F50 analyzed": (
        "analyses:AnalyzesEmptyBatches",
        "ANALYZE-REFUSE",
        "a budget of 0, empty batch (F50)",
        "a budget of 0",
    ),
    "F50 expected": (
        "statistics:ExpectsNothingOfStrangers",
        "ANALYZE-REFUSE",
        "process 7 of 2 (F50)",
        None,
    ),
    "F51": (
        "answers:UnpacksParts",
        "BATCH-ANSWER",
        "a part whose fields are None (F51)",
        "a gap between two parts",
    ),
    "F51 expanded": (
        "answers:ExpandsAnswers",
        "BATCH-LIMIT",
        "a million parts (F51) in one answer",
        "four parameters of one region",
    ),
}
"""By fault: an implementation that has it, a requirement, and the two inputs.

In the names, "planned", "built" and so on is the stage that has the fault.
"""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed_at_its_smallest_input(judge: Judge, fault: str) -> None:
    name, requirement, smallest, _ = FAULTS[fault]
    assert judge.outcome(name, requirement, smallest) is Outcome.VIOLATED


@pytest.mark.parametrize(
    ("requirement", "smallest"), sorted({fault[1:3] for fault in FAULTS.values()})
)
def test_the_reference_has_no_known_fault(judge: Judge, requirement: str, smallest: str) -> None:
    assert judge.outcome("reference", requirement, smallest) is Outcome.CONFORMANT


@pytest.mark.parametrize("fault", [fault for fault, (*_, easy) in FAULTS.items() if easy])
def test_a_fault_is_hidden_by_an_easy_input(judge: Judge, fault: str) -> None:
    name, requirement, _, easy = FAULTS[fault]
    assert judge.outcome(name, requirement, easy) is Outcome.CONFORMANT


def test_sizes_taken_on_trust_are_hidden_by_real_replicas(judge: Judge) -> None:
    """F14."""
    outcome = judge.outcome("tolerant:TakesSizesOnTrust", "EXEC-EXACT", "replicas to split")
    assert outcome is Outcome.CONFORMANT


def test_global_ranks_taken_for_those_of_the_group_are_hidden_by_the_whole_world(
    judge: Judge,
) -> None:
    """F29."""
    name, pair = "sequences:TakesAnyGroupForTheWorld", "2 elements, ranks 1 and 3 (F29)"
    assert "no answer within 4.0 s" in judge.violation(name, "EXEC-GROUP", pair, deadline=4.0)
    easy = "rows to columns, no group is given"
    assert judge.outcome(name, "EXEC-GROUP", easy) is Outcome.CONFORMANT
