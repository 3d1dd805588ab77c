"""Faulty planners of batches violate the requirement that their fault is about."""

import pytest
from judging import Judge

from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.fixtures.replicas import BAD_ANSWERS

TWO = "two replicas for a third process"
SIZES = "parameters of unequal sizes"
ELEMENTS = "elements of unequal sizes"
BETWEEN = "one location must send in between"
LOCAL = "a replica in the process of one of two targets"
SENDERS = "two locations on each of two senders"
EQUAL = "a target with the number of a replica elsewhere"
EVEN = "even split, same processes"
BYTES = "bytes beyond 2^31 of two replicas (F35)"

FAULTS = [
    ("batches:AsksForEachParameter", "BATCH-ONCE", SIZES),
    ("batches:AsksTwice", "BATCH-ONCE", EVEN),
    ("batches:AsksAboutChoicesOnly", "BATCH-ONCE", EVEN),
    ("batches:AsksBackwards", "BATCH-ONCE", EVEN),
    ("batches:AsksByName", "BATCH-ONCE", ELEMENTS),
    ("batches:NamesTwoHoldersAtMost", "BATCH-ONCE", SENDERS),
    ("batches:CountsElementsForBytes", "BATCH-ONCE", TWO),
    ("batches:KeepsTheHoldersProcesses", "BATCH-ONCE", TWO),
    ("batches:TakesLocationsForProcesses", "BATCH-ONCE", SENDERS),
    ("batches:MissesTheLastRow", "BATCH-ONCE", TWO),
    ("batches:IgnoresPolicies", "BATCH-EXACT", TWO),
    ("batches:ReadsAllFromTheFirstPart", "BATCH-EXACT", TWO),
    ("batches:ReadsPartsInReverse", "BATCH-EXACT", TWO),
    ("batches:DropsTheLastSegmentInBatches", "BATCH-EXACT", TWO),
    ("batches:OrdersPlansByName", "BATCH-EXACT", SIZES),
    (
        "batches:PlansEachShapeOnce",
        "BATCH-EXACT",
        "an element of 8 bytes between elements of 1 byte",
    ),
    ("batches:CountsBytesIn31Bits", "BATCH-EXACT", BYTES),
    ("batches:ReadsAllFromTheFirstPart", "BATCH-EXACT", BYTES),
    ("answers:FillsUpAnswers", "BATCH-ANSWER", "an answer too few"),
    ("answers:TakesTheFirstOfTooMany", "BATCH-ANSWER", "an answer too many"),
    ("answers:TakesAnyAnswers", "BATCH-ANSWER", "no answers"),
    ("answers:TakesAnyAnswers", "BATCH-ANSWER", "one location for all"),
    ("answers:TakesGenerators", "BATCH-ANSWER", "answers from a generator"),
    ("answers:TakesAnyAnswers", "BATCH-ANSWER", "answers in a mapping"),
    (
        "answers:TakesLocationsOfTheMap",
        "BATCH-ANSWER",
        "a location that the map has and that holds nothing",
    ),
    ("answers:TakesTrueForOneInBatches", "BATCH-ANSWER", "True"),
    ("answers:TakesFractionsInBatches", "BATCH-ANSWER", "a fraction"),
    ("answers:TakesWordsInBatches", "BATCH-ANSWER", "a string"),
    ("answers:TakesNoneInBatches", "BATCH-ANSWER", "None"),
    ("answers:TakesGenerators", "BATCH-ANSWER", "parts from a generator"),
    ("answers:DropsEmptyParts", "BATCH-ANSWER", "an empty part"),
    ("answers:ClipsParts", "BATCH-ANSWER", "a part that begins before the region"),
    ("answers:ClipsParts", "BATCH-ANSWER", "a part that ends behind the region"),
    ("answers:CrashesOnBadParts", "BATCH-ANSWER", "a part whose fields are None (F51)"),
    ("answers:RefusesAnswersInItsOwnWay", "BATCH-ANSWER", "a gap between two parts"),
    ("answers:SplitsIntoAnySize", "BATCH-ANSWER", "parts of 8 bytes where 9 are asked for"),
    ("answers:MeasuresWholeRegions", "BATCH-ANSWER", "parts of 8 bytes where 9 are asked for"),
    ("answers:ReadsBeforeItCounts", "BATCH-LIMIT", "2^60 parts in one answer"),
    ("answers:AllowsAnyNumberOfParts", "BATCH-LIMIT", "a million parts (F51) in one answer"),
    ("answers:CountsEachAnswerAlone", "BATCH-LIMIT", "four regions in one parameter"),
    ("answers:CountsTheWholeBatch", "BATCH-LIMIT", "four parameters of one region"),
    ("answers:CallsItALimit", "BATCH-LIMIT", "one part more than pairs are allowed in one answer"),
    ("batches:AsksForEachParameter", "BATCH-MAPS", "the last element is missing"),
    ("batches:AsksForEachParameter", "BATCH-MAPS", "equal sizes, transposed shapes"),
    ("batches:TurnsPlansOfBatches", "BATCH-FIRST", EVEN),
    (
        "batches:PlansEachShapeOnce",
        "BATCH-FIRST",
        "from locations 0 and 1 to 2 and 3, and back (F23)",
    ),
    ("defaults:ReadsTheLowest", "BATCH-BALANCE", SIZES),
    ("defaults:SendsWhatIsLocal", "BATCH-BALANCE", LOCAL),
    ("defaults:CountsLocalCopies", "BATCH-BALANCE", LOCAL),
    ("defaults:CountsChoicesOnly", "BATCH-BALANCE", BETWEEN),
    ("defaults:CountsFixedBytesFirst", "BATCH-BALANCE", BETWEEN),
    ("defaults:CountsRegions", "BATCH-BALANCE", SIZES),
    ("defaults:CountsElements", "BATCH-BALANCE", ELEMENTS),
    ("defaults:CountsByLocation", "BATCH-BALANCE", SENDERS),
    ("defaults:BreaksTiesUpwards", "BATCH-BALANCE", TWO),
    ("defaults:TakesEqualNumbersForLocal", "BATCH-BALANCE", EQUAL),
    ("defaults:StartsAnewForEachParameter", "BATCH-BALANCE", SIZES),
    ("defaults:SplitsByDefault", "BATCH-BALANCE", TWO),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_planner_of_batches_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    judge.assert_notices(name, requirement, case)


@pytest.mark.parametrize("fault", BAD_ANSWERS)
def test_a_planner_that_reads_the_lowest_holder_instead_is_noticed(
    judge: Judge, fault: str
) -> None:
    found = judge.outcome("answers:TakesAnyAnswers", "BATCH-ANSWER", fault)
    assert found is Outcome.VIOLATED


@pytest.mark.parametrize(
    "case",
    ["every rank reads another replica", "every rank reads another replica of the last parameter"],
)
def test_an_executor_that_does_not_compare_plans_is_noticed(judge: Judge, case: str) -> None:
    found = judge.outcome("refusals:BelievesRankZero", "BATCH-AGREE", case)
    assert found is Outcome.VIOLATED
    assert judge.outcome("reference", "BATCH-AGREE", case) is Outcome.CONFORMANT


def test_a_planner_that_answers_alike_on_every_rank_is_noticed(judge: Judge) -> None:
    text = judge.violation("batches:IgnoresPolicies", "BATCH-AGREE")
    assert text == "the policy answered otherwise on each rank, and the plans are equal"


def test_an_implementation_without_a_replica_policy_is_not_judged_by_one(judge: Judge) -> None:
    for id_ in (id_ for id_ in REQUIREMENTS if id_.startswith("BATCH-")):
        found = judge.outcome("allowed:NoReplicaPolicy", id_)
        assert found is Outcome.NOT_CLAIMED


@pytest.mark.parametrize(
    ("name", "requirement", "case", "said"),
    [
        ("batches:AsksTwice", "BATCH-ONCE", EVEN, "the policy was called 2 times, not once"),
        (
            "batches:AsksBackwards",
            "BATCH-ONCE",
            EVEN,
            "this request is asked too late: ReplicaRequest(",
        ),
        (
            "batches:CountsElementsForBytes",
            "BATCH-ONCE",
            TWO,
            "the policy was asked\nReplicaRequest(",
        ),
        (
            "batches:MissesTheLastRow",
            "BATCH-ONCE",
            TWO,
            "the policy was asked 0 times about element 6 of 'weight' for target location 0, "
            "should be 1",
        ),
        (
            "batches:NamesTwoHoldersAtMost",
            "BATCH-ONCE",
            SENDERS,
            "element 0 of 'first' is held by locations [0, 1, 2, 3], and the policy was told "
            "(0, 1)",
        ),
        (
            "batches:OrdersPlansByName",
            "BATCH-EXACT",
            SIZES,
            "there are plans for ['smaller', 'small', 'large'], wanted ['large', 'small', "
            "'smaller']",
        ),
        (
            "batches:IgnoresPolicies",
            "BATCH-EXACT",
            TWO,
            "the policy was called 0 times, not once",
        ),
        ("batches:DropsTheLastSegmentInBatches", "BATCH-EXACT", TWO, "the plan breaks PLAN-"),
        (
            "batches:ReadsAllFromTheFirstPart",
            "BATCH-EXACT",
            BYTES,
            "each half is to be read from another of the locations (0, 1), the plan reads [1]",
        ),
        (
            "answers:TakesNoneInBatches",
            "BATCH-ANSWER",
            "None",
            "None must raise InvalidReplicaPolicyError, got plans",
        ),
        (
            "answers:RefusesAnswersInItsOwnWay",
            "BATCH-ANSWER",
            "a gap between two parts",
            "a gap between two parts must raise InvalidReplicaPolicyError, got "
            "AffineTransferError: the answer for the region",
        ),
        (
            "answers:ReadsBeforeItCounts",
            "BATCH-LIMIT",
            "2^60 parts in one answer",
            f"an answer of {2**60} parts was refused after 1 were read",
        ),
        (
            "answers:CountsTheWholeBatch",
            "BATCH-LIMIT",
            "four parameters of one region",
            "one parameter was planned alone, and then refused with InvalidReplicaPolicyError",
        ),
        (
            "batches:AsksForEachParameter",
            "BATCH-MAPS",
            "the last element is missing",
            "the last element is missing: the policy was asked before the maps were validated",
        ),
        (
            "batches:TurnsPlansOfBatches",
            "BATCH-FIRST",
            EVEN,
            "with the policy first_holder the plan of 'weight' is\nTransferPlan(",
        ),
        (
            "defaults:CountsRegions",
            "BATCH-BALANCE",
            SIZES,
            "element 0 of target location 0 is read from location 0, the default named 1",
        ),
    ],
)
def test_a_violation_is_explained(
    judge: Judge, name: str, requirement: str, case: str, said: str
) -> None:
    assert judge.violation(name, requirement, case).startswith(said)
