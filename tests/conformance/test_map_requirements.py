"""Faulty maps, builders and shards violate the requirement that their fault is about."""

import pytest
from judging import Judge

from pytest_affine.contract.outcomes import Outcome

PADDED = "a vocabulary of 5 rows, padded to 6 and to 8 (F15)"
EVEN = "even split, same processes"
ONE = "one location"
NARROW = "a narrow column shard that keeps the full row stride (F08)"
READ = "only one of two replicas is read (F26)"

FAULTS = [
    ("maps:SeesNoGapsInTheTensor", "MAP-COVER", "the last element is missing"),
    ("maps:SeesNoGapsInTheTensor", "MAP-COVER", "a middle element is missing, in the target"),
    ("maps:SeesNoEndOfTheTensor", "MAP-COVER", "a piece that ends outside the full tensor"),
    ("maps:LooksAtOneAxis", "MAP-COVER", "the last element is missing, an axis more"),
    ("maps:RefusesWithAnotherError", "MAP-COVER", "the last element is missing"),
    ("maps:CrashesOnEmptyShards", "MAP-COVER", "more locations than rows"),
    ("maps:CrashesFrom31Bits", "MAP-COVER", "rows to columns of 2^60 elements"),
    ("maps:SeesNoGapsInShards", "MAP-TILE", "a gap at the end of the shard"),
    ("maps:SeesNoEndOfShards", "MAP-TILE", "a piece that starts outside the shard"),
    ("maps:SeesNoOverlap", "MAP-TILE", "padding over a piece"),
    (
        "maps:AddsUpPieceSizes",
        "MAP-TILE",
        "a narrow column shard that keeps the full row stride (F08)",
    ),
    ("maps:SeesNoEndOfShards", "MAP-TILE", "padding that ends outside the shard"),
    ("maps:SeesNoOverlap", "MAP-TILE", "padding over padding"),
    ("maps:SeesNoGapsInShards", "MAP-TILE", "a gap beside padding"),
    ("maps:CrashesOnPadding", "MAP-TILE", PADDED),
    ("maps:LooksAtOneAxis", "MAP-TILE", "a gap at the end of the shard, an axis more"),
    ("maps:LooksAtOneAxis", "MAP-HOLD", "a holder that holds nothing, an axis more"),
    ("maps:LooksAtOneAxis", "MAP-SCALE", "a scale of zero, an axis more"),
    ("maps:LetsIdleLocationsBeNamed", "MAP-HOLD", "a holder that holds nothing"),
    ("maps:LetsHoldersGoUnnamed", "MAP-HOLD", "a replica that no piece names"),
    ("maps:LetsALocationHoldTwice", "MAP-HOLD", "one location holds an element twice"),
    ("maps:ComparesNoScales", "MAP-HOLD", "holders of one element with two scales"),
    ("maps:AllowsScalesOfZero", "MAP-SCALE", "a scale of zero"),
    ("maps:AllowsInfiniteScales", "MAP-SCALE", "an infinite scale"),
    ("maps:AllowsScalesThatAreNoNumbers", "MAP-SCALE", "a scale that is no number"),
    ("maps:ClipsShardOffsets", "MAP-SCALE", "a negative shard offset"),
    ("maps:ClipsFullOffsets", "MAP-SCALE", "a negative offset in the full tensor"),
    ("documents:TruncatesFractions", "MAP-SCALE", "a fraction in the logical shape"),
    ("documents:TruncatesFractions", "MAP-SCALE", "a fraction as offset"),
    ("documents:TruncatesFractions", "MAP-SCALE", "a fraction as location"),
    ("documents:TakesBooleansForNumbers", "MAP-SCALE", "a boolean in the shard shape"),
    ("documents:TakesBooleansForNumbers", "MAP-SCALE", "a boolean as stride"),
    ("documents:TakesBooleansForNumbers", "MAP-SCALE", "a boolean as scale"),
    ("shards:ComparesValues", "MAP-REPLICA", f"{READ}, 0.0 and -0.0"),
    ("shards:ComparesRoughly", "MAP-REPLICA", f"{READ}, neighbouring values"),
    ("shards:ComparesFloats", "MAP-REPLICA", f"{READ}, neighbouring integers beyond 2^53"),
    ("shards:ComparesNoPayloads", "MAP-REPLICA", f"{READ}, NaNs of two payloads"),
    ("shards:ComparesNoBooleans", "MAP-REPLICA", f"{READ}, True and False"),
    ("shards:ComparesTwoReplicas", "MAP-REPLICA", "replicas to split, other values"),
    ("shards:LetsNansPass", "MAP-REPLICA", f"{READ}, 1.0 and a NaN"),
    (
        "shards:ComparesLikePieces",
        "MAP-REPLICA",
        "replicas cut in different places, other values",
    ),
    ("documents:DropsPadding", "MAP-TRIP", PADDED),
    ("documents:DropsScales", "MAP-TRIP", "equal scales"),
    ("documents:DropsEmptyLocations", "MAP-TRIP", "more locations than rows"),
    ("documents:SortsPieces", "MAP-TRIP", "blocks out of order"),
    ("documents:RoundsNumbersOfMaps", "MAP-TRIP", "offsets beyond 2^53"),
    ("documents:WritesMapsAsObjects", "MAP-TRIP", ONE),
    ("documents:ReadsAnyVersion", "MAP-TRIP", "an envelope of version 2"),
    ("documents:ReadsAnyVersion", "MAP-TRIP", "an envelope without version"),
    ("documents:SortsNames", "MAP-TRIP", "an empty parameter between others (F17)"),
    ("documents:DropsPaddingInEnvelopes", "MAP-TRIP", PADDED),
    ("documents:CrashesOnBadDocuments", "MAP-TRIP", "no ranks"),
    ("shards:CutsThroughFloats", "MAP-INV", ONE),
    ("shards:LosesSignsOfZeros", "MAP-INV", ONE),
    ("shards:QuietsNansOfShards", "MAP-INV", ONE),
    ("shards:LosesImaginaryParts", "MAP-INV", ONE),
    ("shards:CutsAsIfPacked", "MAP-INV", EVEN),
    ("shards:RebuildsAsIfPacked", "MAP-INV", EVEN),
    ("shards:CutsFlat", "MAP-INV", ONE),
    ("shards:RebuildsFlat", "MAP-INV", ONE),
    ("shards:RebuildsScaled", "MAP-INV", READ),
    ("shards:IgnoresScalesOfShards", "MAP-INV", READ),
    ("builders:IgnoresScale", "MAP-BUILD", "a tensor times 0.5"),
    ("builders:FindsNoReplicas", "MAP-BUILD", "the full tensor at both locations"),
    ("builders:FlattensShards", "MAP-BUILD", "uneven columns (F08)"),
    ("builders:CutsFusedInEqualChunks", "MAP-BUILD", "fused along the columns"),
    ("builders:SortsBlocks", "MAP-BUILD", "blocks of two, out of order"),
    ("builders:TakesSlotsForBlocks", "MAP-BUILD", "a block at two locations"),
    ("builders:ChunksEvenly", "MAP-BUILD", "5 rows over 4, as torch chunks them"),
    (
        "builders:NumbersMeshesByColumns",
        "MAP-BUILD",
        "rows by the first mesh axis, columns by the second",
    ),
    (
        "builders:NumbersMeshesByColumns",
        "MAP-BUILD",
        "replicas by the first mesh axis, rows by the second",
    ),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_map_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    judge.assert_notices(name, requirement, case)


DOCUMENTS = {
    "no logical shape": "logical_shape",
    "no ranks": "ranks",
    "no shard shape": "shard_shape",
    "no pieces": "pieces",
    "no source of a piece": "source",
    "no holders of a piece": "locations",
    "ranks in a list": "ranks",
    "a word as logical shape": "logical_shape",
    "a word as location": "ranks",
    "an offset without strides": "dest",
    "an envelope of version 2": "version",
    "an envelope without version": "version",
    "an envelope without maps": "params",
    "an envelope with a list of maps": "params",
}


@pytest.mark.parametrize(("case", "field"), DOCUMENTS.items())
def test_a_document_must_be_refused_by_the_name_of_its_field(
    judge: Judge, case: str, field: str
) -> None:
    envelope = "envelope" in case
    name = "documents:ReadsAnyEnvelope" if envelope else "documents:ReadsAnyDocument"
    text = judge.violation(name, "MAP-TRIP", case)
    assert text.startswith(f"{case}: must be refused with AffineTransferError, but was accepted")
    name = f"documents:NamesNoFieldOf{'Envelopes' if envelope else 'Maps'}"
    text = judge.violation(name, "MAP-TRIP", case)
    assert text.startswith(f"{case}: the error does not name {field!r}: InvalidMapError: ")
    assert judge.outcome("reference", "MAP-TRIP", case) is Outcome.CONFORMANT


def test_a_refusal_of_equal_replicas_that_are_no_numbers_is_shown(judge: Judge) -> None:
    assert judge.outcome("allowed:RefusesNans", "MAP-REPLICA", READ) is Outcome.REFUSED


@pytest.mark.parametrize(
    ("name", "requirement", "case", "said"),
    [
        (
            "maps:SeesNoGapsInTheTensor",
            "MAP-COVER",
            "the last element is missing",
            "the last element is missing: must be refused with InvalidMapError or "
            "UnsupportedLayoutError, but was accepted",
        ),
        (
            "maps:RefusesWithAnotherError",
            "MAP-COVER",
            "the last element is missing",
            "or UnsupportedLayoutError, got PlanLimitError: ",
        ),
        ("maps:CrashesOnEmptyShards", "MAP-COVER", "no rows (F17)", "rank 0 of 4: TypeError: "),
        (
            "shards:LastReplicaWins",
            "MAP-REPLICA",
            f"{READ}, 0.0 and -0.0",
            "element 0 of replicas holds 0.0 and -0.0: must be refused with AffineTransferError",
        ),
        ("documents:WritesMapsAsObjects", "MAP-TRIP", ONE, " is not ready for JSON: "),
        ("documents:DropsPadding", "MAP-TRIP", PADDED, " comes back as ParamAffineMap("),
        ("documents:DropsPaddingInEnvelopes", "MAP-TRIP", PADDED, " comes back as {'weight': "),
        (
            "shards:QuietsNansOfShards",
            "MAP-INV",
            ONE,
            "tensors of their own: the shard of location 0 in float32 holds other elements; "
            "rebuilding from extracted shards in float32 gives tensor([[",
        ),
        (
            "shards:CutsFlat",
            "MAP-INV",
            ONE,
            "tensors of their own: the shard of location 0 has the shape (6,)",
        ),
        (
            "shards:CutsFromTheStoragesStart",
            "MAP-INV",
            EVEN,
            "inside a larger tensor (F44): the shard",
        ),
        ("shards:CutsAsIfPacked", "MAP-INV", EVEN, "tensors whose elements are apart in memory: "),
        ("builders:IgnoresScale", "MAP-BUILD", "a tensor times 0.5", "[1.0], wanted 0.5"),
        (
            "builders:LeavesOutEmptyParameters",
            "MAP-BUILD",
            "an empty parameter between others (F17)",
            "built ['first', 'last'], wanted ['empty', 'first', 'last']",
        ),
        (
            "builders:FlattensShards",
            "MAP-BUILD",
            "uneven columns (F08)",
            "by location the shards hold {'0': [0, 1, 3, 4], '1': [2, 5]}, "
            "wanted {'0': [[0, 1], [3, 4]], '1': [[2], [5]]}",
        ),
        (
            "builders:FindsNoReplicas",
            "MAP-BUILD",
            "the full tensor at both locations",
            "the map breaks MAP-HOLD:",
        ),
    ],
)
def test_what_is_wrong_with_a_map_is_said(
    judge: Judge, name: str, requirement: str, case: str, said: str
) -> None:
    assert said in judge.violation(name, requirement, case)
