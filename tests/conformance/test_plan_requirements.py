"""Faulty planners violate the requirement that their fault is about; the reference none."""

import pytest
from judging import Judge

from pytest_affine.contract.outcomes import Outcome

EVEN = "even split, same processes"
COPIES = "split shards under one name (F19)"
PADDED = "a vocabulary of 5 rows, padded to 6 and to 8 (F15)"
REPLICAS = "replicas to split"
CORE = "the core layouts in one sync (F04, F23)"
BACK = "from locations 0 and 1 to 2 and 3, and back (F23)"
SYMBOLIC = "rows to columns of 2^10 and of 2^60 elements"

FAULTS = [
    ("plans:RepeatsTheFirstSegment", "PLAN-TILE", COPIES),
    ("layouts:TreatsPaddingAsData", "PLAN-TILE", "padding between two pieces"),
    ("layouts:JoinsPieces", "PLAN-SOURCE", "a shard stored transposed (F28)"),
    ("plans:WritesPartsEndToEnd", "PLAN-SOURCE", "blocks out of order"),
    ("plans:SaysLargerTargets", "PLAN-BOUNDS", EVEN),
    ("plans:LeavesOutEmptySources", "PLAN-BOUNDS", "the only row moves (F32)"),
    ("plans:FlattensLogicalShapes", "PLAN-BOUNDS", EVEN),
    ("plans:CountsTargetsFromOne", "PLAN-BOUNDS", EVEN),
    ("plans:CopiesFromTheEnd", "PLAN-BOUNDS", EVEN),
    ("extremes:WritesOneFurther", "PLAN-BOUNDS", COPIES),
    ("extremes:WritesOneEarlier", "PLAN-BOUNDS", COPIES),
    ("choices:IgnoresSelectors", "PLAN-HOLDER", REPLICAS),
    ("choices:IgnoresSelectors", "PLAN-HOLDER", "holders that change inside a run (F02)"),
    ("choices:ReadsTheHolderBehind", "PLAN-HOLDER", REPLICAS),
    ("choices:AsksOnce", "PLAN-HOLDER", "replicas cut in different places"),
    ("choices:KeepsTheFirstAnswer", "PLAN-HOLDER", REPLICAS),
    ("choices:AsksWithoutNeed", "PLAN-HOLDER", REPLICAS),
    ("choices:TakesAnyAnswer", "PLAN-HOLDER", REPLICAS),
    ("choices:RefusesAnswersOtherwise", "PLAN-HOLDER", REPLICAS),
    ("choices:CrashesOnBadAnswers", "PLAN-HOLDER", REPLICAS),
    ("plans:CountsBytes", "PLAN-ONCE", EVEN),
    ("plans:CountsPadding", "PLAN-ONCE", PADDED),
    ("plans:AddsAnEmptySegment", "PLAN-ONCE", EVEN),
    ("lenient:IgnoresScalesOfMaps", "PLAN-SCALE", "unequal scales"),
    ("lenient:TakesNoScaleForAny", "PLAN-SCALE", "a scaled source for an unscaled target"),
    ("lenient:RefusesScalesAsInvalid", "PLAN-SCALE", "unequal scales"),
    ("lenient:PlansHalfOfWhatIsScaled", "PLAN-SCALE", "equal scales"),
    ("memories:OrdersByHash", "PLAN-DETERMINISTIC", CORE),
    ("memories:TurnsWhereHashesAreFixed", "PLAN-DETERMINISTIC", BACK),
    ("memories:OrdersByProcess", "PLAN-DETERMINISTIC", CORE),
    ("memories:TurnsEverySecondPlan", "PLAN-DETERMINISTIC", EVEN),
    ("memories:RefusesKnownPlans", "PLAN-DETERMINISTIC", EVEN),
    ("lenient:ChecksTargetsOnly", "PLAN-REFUSE", "the last element is missing"),
    ("lenient:ChecksSourcesOnly", "PLAN-REFUSE", "a middle element is missing, in the target"),
    ("lenient:PlansWhatIsNotTiled", "PLAN-REFUSE", "a gap at the end of the shard"),
    ("lenient:PlansWhatIsNotTiled", "PLAN-REFUSE", "a piece that starts outside the shard"),
    ("lenient:PlansWhatIsNotTiled", "PLAN-REFUSE", "padding over a piece"),
    ("lenient:PlansWhatIsMisheld", "PLAN-REFUSE", "a holder that holds nothing"),
    ("lenient:PlansWhatIsMisheld", "PLAN-REFUSE", "a replica that no piece names"),
    ("lenient:PlansWhatIsMisheld", "PLAN-REFUSE", "one location holds an element twice"),
    ("lenient:PlansWhatIsMisheld", "PLAN-REFUSE", "holders of one element with two scales"),
    ("lenient:PlansWhatIsMisscaled", "PLAN-REFUSE", "a negative shard offset"),
    ("lenient:PlansWhatIsMisscaled", "PLAN-REFUSE", "a scale of zero"),
    ("lenient:PlansWhatIsMisscaled", "PLAN-REFUSE", "an infinite scale"),
    ("lenient:PlansWhatIsMisscaled", "PLAN-REFUSE", "a scale that is no number"),
    ("lenient:ComparesSizes", "PLAN-REFUSE", "equal sizes, transposed shapes"),
    ("lenient:ComparesSizes", "PLAN-REFUSE", "an axis of extent 1 more"),
    ("lenient:TakesLargerSources", "PLAN-REFUSE", "one row more in the source"),
    ("lenient:CrashesOnBadMapsToPlan", "PLAN-REFUSE", "a piece that ends outside the full tensor"),
    ("unchecked:TakesFlatPiecesForIntervals", "PLAN-HONEST", "even elements, then odd ones"),
    (
        "unchecked:TakesFlatPiecesForIntervals",
        "PLAN-HONEST",
        "rows to even elements, then odd ones",
    ),
    ("unchecked:TakesFlatPiecesForIntervals", "PLAN-HONEST", "a diagonal, and what is beside it"),
    ("layouts:JoinsPieces", "PLAN-HONEST", "pieces interleaved in the shard"),
    ("layouts:NeedsAxesOfTheTensor", "PLAN-HONEST", "a piece of more axes than the tensor"),
    ("layouts:NeedsAxesOfTheTensor", "PLAN-HONEST", "a piece of fewer axes than the tensor"),
    ("unchecked:TakesShardsForPacked", "PLAN-HONEST", "a piece transposed in the full tensor"),
    (
        "unchecked:TakesShardsForPacked",
        "PLAN-HONEST",
        "an axis of extent 1 with a stride of its own",
    ),
    ("choices:IgnoresTheAxesLimit", "PLAN-LIMIT", EVEN),
    ("choices:IgnoresThePiecesLimit", "PLAN-LIMIT", EVEN),
    ("choices:IgnoresTheSegmentsLimit", "PLAN-LIMIT", EVEN),
    ("choices:AllowsOneSegmentMore", "PLAN-LIMIT", EVEN),
    ("choices:ShortensPlans", "PLAN-LIMIT", EVEN),
    ("choices:PlansOtherwiseWithinLimits", "PLAN-LIMIT", EVEN),
    ("choices:CrashesAtLimits", "PLAN-LIMIT", EVEN),
    ("plans:CopiesEachElement", "PLAN-TOPOLOGY", COPIES),
    ("extremes:KeepsOneByteOfOffsets", "PLAN-TOPOLOGY", "split to whole, same processes"),
    ("extremes:RefusesManyElements", "PLAN-TOPOLOGY", EVEN),
    ("plans:CopiesEachElement", "PLAN-MERGED", COPIES),
    ("plans:CutsInHalves", "PLAN-MERGED", "column blocks, 4 to 2 (F45)"),
    ("extremes:NeedsLongAxes", "PLAN-EDGE", "extents of 1"),
    ("extremes:NeedsFullShards", "PLAN-EDGE", "more locations than rows"),
    ("extremes:NeedsSeveralLocations", "PLAN-EDGE", "one location"),
    ("extremes:TakesSevenAxes", "PLAN-EDGE", "8 axes"),
    ("extremes:RoundsOffsets", "PLAN-EDGE", "offsets beyond 2^53"),
    ("extremes:WrapsOffsets", "PLAN-EDGE", "rows to columns of 2^60 elements"),
    ("extremes:MarksElements", "PLAN-SYMBOLIC", SYMBOLIC),
    ("documents:DropsShardSizes", "PLAN-TRIP", EVEN),
    ("documents:SortsSegments", "PLAN-TRIP", "blocks out of order"),
    ("documents:ForgetsMovedElements", "PLAN-TRIP", EVEN),
    ("documents:RoundsNumbersOfPlans", "PLAN-TRIP", "offsets beyond 2^53"),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_planner_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    judge.assert_notices(name, requirement, case)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("TakesNoAnswer", None),
        ("TakesTrueForOne", True),
        ("TakesFractions", 0.0),
        ("TakesWords", "0"),
        ("CountsFromTheEnd", -1),
        ("TakesUnknownLocations", 99),
    ],
)
def test_an_answer_that_is_no_holder_must_be_refused(
    judge: Judge, name: str, answer: object
) -> None:
    text = judge.violation(f"choices:{name}", "PLAN-HOLDER", REPLICAS)
    said = f"the answer {answer!r} must raise InvalidReplicaPolicyError, got a plan"
    assert text.startswith(said)


@pytest.mark.parametrize(
    ("name", "requirement", "case", "said"),
    [
        ("layouts:TreatsPaddingAsData", "PLAN-TILE", PADDED, "PLAN-TILE padding written: "),
        ("layouts:TreatsPaddingAsData", "PLAN-SOURCE", PADDED, "PLAN-SOURCE padding read: "),
        ("plans:RepeatsTheFirstSegment", "PLAN-TILE", COPIES, "PLAN-TILE written twice: "),
        ("unchecked:KeepsRowStrides", "PLAN-BOUNDS", "uneven on both axes", "outside the source"),
        ("extremes:WritesOneEarlier", "PLAN-BOUNDS", COPIES, "at address -1: written by segment 0"),
        ("plans:CountsTargetsFromOne", "PLAN-BOUNDS", EVEN, "writes target location 4; "),
        ("plans:CopiesFromTheEnd", "PLAN-BOUNDS", EVEN, "PLAN-BOUNDS malformed segment: "),
        (
            "choices:ReadsTheHolderBehind",
            "PLAN-HOLDER",
            "only one of two replicas is read (F26)",
            "element 0 of target location 0 is read from location 0, the selector named 1",
        ),
        (
            "choices:AsksWithoutNeed",
            "PLAN-HOLDER",
            REPLICAS,
            "the selector was asked where there is no choice: [(3,), ",
        ),
        (
            "lenient:IgnoresScalesOfMaps",
            "PLAN-SCALE",
            "unequal scales",
            "unequal scales: must be refused with UnsupportedLayoutError, but was accepted, "
            "giving a TransferPlan",
        ),
        (
            "memories:TurnsKnownPlans",
            "PLAN-DETERMINISTIC",
            BACK,
            "planned again, parameter 'there' has another plan:",
        ),
        (
            "memories:RefusesKnownPlans",
            "PLAN-DETERMINISTIC",
            BACK,
            "planned once, and then refused with PlanLimitError: planned before",
        ),
        (
            "extremes:RefusesManyElements",
            "PLAN-TOPOLOGY",
            EVEN,
            "planned with extents multiplied by 8, and then refused with PlanLimitError: too many",
        ),
        (
            "memories:RemembersBlocks",
            "PLAN-DETERMINISTIC",
            "three blocks, then 12 rows over 4 (F04)",
            "planned in reverse order, parameter 'rows' has another plan:",
        ),
        (
            "memories:CachesWithoutLocations",
            "PLAN-DETERMINISTIC",
            BACK,
            "planned in another process, hash seed 1, in reverse order, "
            "parameter 'there' has another plan:",
        ),
        (
            "memories:TurnsEverySecondPlan",
            "PLAN-DETERMINISTIC",
            EVEN,
            "mappings filled in reverse order give another plan: TransferPlan(",
        ),
        (
            "lenient:ChecksSourcesOnly",
            "PLAN-REFUSE",
            "padding over a piece",
            "padding over a piece (MAP-TILE, target): must be refused with InvalidMapError or ",
        ),
        (
            "choices:ShortensPlans",
            "PLAN-LIMIT",
            EVEN,
            "max_segments=3 where 4 are needed: must be refused with AffineTransferError, but",
        ),
        (
            "choices:PlansOtherwiseWithinLimits",
            "PLAN-LIMIT",
            EVEN,
            "max_ndim=2 gives another plan than the default limits",
        ),
        (
            "plans:CutsTheOuterAxis",
            "PLAN-TOPOLOGY",
            "columns to rows (F43)",
            "32 segments with extents multiplied by 8, 256 by 64",
        ),
        (
            "plans:CopiesEachElement",
            "PLAN-MERGED",
            COPIES,
            ", shape=()) continues TransferSegment(",
        ),
        ("extremes:MarksElements", "PLAN-SYMBOLIC", SYMBOLIC, " bytes for 2^60, "),
        ("documents:DropsShardSizes", "PLAN-TRIP", EVEN, " comes back as TransferPlan("),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(
    judge: Judge, name: str, requirement: str, case: str, said: str
) -> None:
    assert said in judge.violation(name, requirement, case)


@pytest.mark.parametrize(
    ("name", "requirement", "case"),
    [
        ("allowed:SaysNoSizes", "PLAN-BOUNDS", EVEN),
        ("allowed:TakesBoxesOnly", "PLAN-SCALE", "equal scales"),
        ("allowed:TakesBoxesOnly", "PLAN-SCALE", "unequal scales"),
        ("allowed:TakesBoxesOnly", "PLAN-HONEST", "a piece of more axes than the tensor"),
        ("allowed:RefusesAsUnsupported", "PLAN-REFUSE", "the last element is missing"),
        ("allowed:RefusesAsUnsupported", "PLAN-REFUSE", "equal sizes, transposed shapes"),
    ],
)
def test_what_a_planner_may_do_is_no_violation(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    assert judge.outcome(name, requirement, case) is Outcome.CONFORMANT


@pytest.mark.parametrize(("requirement", "case"), [("PLAN-HOLDER", REPLICAS), ("PLAN-LIMIT", EVEN)])
def test_an_option_is_judged_only_where_it_is_claimed(
    judge: Judge, requirement: str, case: str
) -> None:
    outcome = judge.outcome("allowed:NoOptions", requirement, case)
    assert outcome is Outcome.NOT_CLAIMED


@pytest.mark.parametrize(
    "case", ["fused q, k, v of unequal heights (F10)", "torch's strided shard, uneven (F06)"]
)
def test_segments_that_continue_each_other_on_one_side_only_may_stay_apart(
    judge: Judge, case: str
) -> None:
    assert judge.outcome("reference", "PLAN-MERGED", case) is Outcome.CONFORMANT


def test_a_planner_that_visits_every_element_runs_past_its_deadline(judge: Judge) -> None:
    name = "extremes:VisitsElements"
    text = judge.violation(name, "PLAN-SYMBOLIC", SYMBOLIC, deadline=2.0)
    assert "no answer within 2.0 s" in text
