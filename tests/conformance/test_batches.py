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
    ("AsksForEachParameter", "BATCH-ONCE", SIZES),
    ("AsksTwice", "BATCH-ONCE", EVEN),
    ("AsksAboutChoicesOnly", "BATCH-ONCE", EVEN),
    ("AsksBackwards", "BATCH-ONCE", EVEN),
    ("AsksByName", "BATCH-ONCE", ELEMENTS),
    ("NamesTwoHoldersAtMost", "BATCH-ONCE", SENDERS),
    ("CountsElementsForBytes", "BATCH-ONCE", TWO),
    ("KeepsProcessesToItself", "BATCH-ONCE", TWO),
    ("TakesLocationsForProcesses", "BATCH-ONCE", SENDERS),
    ("MissesTheLastRow", "BATCH-ONCE", TWO),
    ("IgnoresPolicies", "BATCH-EXACT", TWO),
    ("ReadsAllFromTheFirstPart", "BATCH-EXACT", TWO),
    ("ReadsPartsInReverse", "BATCH-EXACT", TWO),
    ("DropsTheLastPart", "BATCH-EXACT", TWO),
    ("OrdersPlansByName", "BATCH-EXACT", SIZES),
    ("PlansEachSizeOnce", "BATCH-EXACT", "an element of 8 bytes between elements of 1 byte"),
    ("CountsBytesIn32Bits", "BATCH-EXACT", BYTES),
    ("ReadsAllFromTheFirstPart", "BATCH-EXACT", BYTES),
    ("FillsUpAnswers", "BATCH-ANSWER", "an answer too few"),
    ("TakesTheFirstOfTooMany", "BATCH-ANSWER", "an answer too many"),
    ("TakesAnyAnswers", "BATCH-ANSWER", "no answers"),
    ("TakesAnyAnswers", "BATCH-ANSWER", "one location for all"),
    ("TakesGenerators", "BATCH-ANSWER", "answers from a generator"),
    ("TakesAnyAnswers", "BATCH-ANSWER", "answers in a mapping"),
    (
        "TakesLocationsOfTheMap",
        "BATCH-ANSWER",
        "a location that the map has and that holds nothing",
    ),
    ("TakesTrueForOneInBatches", "BATCH-ANSWER", "True"),
    ("TakesFractionsInBatches", "BATCH-ANSWER", "a fraction"),
    ("TakesWordsInBatches", "BATCH-ANSWER", "a string"),
    ("TakesNoneInBatches", "BATCH-ANSWER", "None"),
    ("TakesGenerators", "BATCH-ANSWER", "parts from a generator"),
    ("DropsEmptyParts", "BATCH-ANSWER", "an empty part"),
    ("ClipsParts", "BATCH-ANSWER", "a part that begins before the region"),
    ("ClipsParts", "BATCH-ANSWER", "a part that ends behind the region"),
    ("CrashesOnBadParts", "BATCH-ANSWER", "a part whose fields are None (F51)"),
    ("RefusesAnswersInItsOwnWay", "BATCH-ANSWER", "a gap between two parts"),
    ("SplitsIntoAnySize", "BATCH-ANSWER", "parts of 8 bytes where 9 are asked for"),
    ("MeasuresWholeRegions", "BATCH-ANSWER", "parts of 8 bytes where 9 are asked for"),
    ("ReadsBeforeItCounts", "BATCH-LIMIT", "2^60 parts in one answer"),
    ("AllowsAnyNumberOfParts", "BATCH-LIMIT", "a million parts (F51) in one answer"),
    ("CountsEachAnswerAlone", "BATCH-LIMIT", "four regions in one parameter"),
    ("CountsTheWholeBatch", "BATCH-LIMIT", "four parameters of one region"),
    ("CallsItALimit", "BATCH-LIMIT", "one part more than pairs are allowed in one answer"),
    ("AsksForEachParameter", "BATCH-MAPS", "the last element is missing"),
    ("AsksForEachParameter", "BATCH-MAPS", "equal sizes, transposed shapes"),
    ("CopiesBackwardsInBatches", "BATCH-FIRST", EVEN),
    ("PlansEachSizeOnce", "BATCH-FIRST", "from locations 0 and 1 to 2 and 3, and back (F23)"),
    ("ReadsTheLowest", "BATCH-BALANCE", SIZES),
    ("SendsWhatIsLocal", "BATCH-BALANCE", LOCAL),
    ("CountsLocalCopies", "BATCH-BALANCE", LOCAL),
    ("CountsChoicesOnly", "BATCH-BALANCE", BETWEEN),
    ("CountsFixedBytesFirst", "BATCH-BALANCE", BETWEEN),
    ("CountsRegions", "BATCH-BALANCE", SIZES),
    ("CountsElements", "BATCH-BALANCE", ELEMENTS),
    ("CountsByLocation", "BATCH-BALANCE", SENDERS),
    ("BreaksTiesUpwards", "BATCH-BALANCE", TWO),
    ("TakesEqualNumbersForLocal", "BATCH-BALANCE", EQUAL),
    ("StartsAnewForEachParameter", "BATCH-BALANCE", SIZES),
    ("SplitsByDefault", "BATCH-BALANCE", TWO),
]


@pytest.mark.parametrize(("name", "requirement", "case"), FAULTS)
def test_a_faulty_planner_of_batches_is_noticed_in_this_case(
    judge: Judge, name: str, requirement: str, case: str
) -> None:
    assert judge.outcome(f"faulty.batches:{name}", requirement, case) is Outcome.VIOLATED


@pytest.mark.parametrize(("requirement", "case"), sorted({fault[1:] for fault in FAULTS}))
def test_the_reference_has_no_fault_in_this_case(judge: Judge, requirement: str, case: str) -> None:
    assert judge.outcome("reference", requirement, case) is Outcome.CONFORMANT


@pytest.mark.parametrize("fault", BAD_ANSWERS)
def test_a_planner_that_reads_the_lowest_holder_instead_is_noticed(
    judge: Judge, fault: str
) -> None:
    found = judge.outcome("faulty.batches:TakesAnyAnswers", "BATCH-ANSWER", fault)
    assert found is Outcome.VIOLATED


@pytest.mark.parametrize(
    "case",
    ["every rank reads another replica", "every rank reads another replica of the last parameter"],
)
def test_an_executor_that_does_not_compare_plans_is_noticed(judge: Judge, case: str) -> None:
    found = judge.outcome("faulty.refusals:BelievesRankZero", "BATCH-AGREE", case)
    assert found is Outcome.VIOLATED
    assert judge.outcome("reference", "BATCH-AGREE", case) is Outcome.CONFORMANT


def test_a_planner_that_answers_alike_on_every_rank_is_noticed(judge: Judge) -> None:
    text = judge.violation("faulty.batches:IgnoresPolicies", "BATCH-AGREE")
    assert text == "the policy answered otherwise on each rank, and the plans are equal"


def test_every_requirement_of_batches_has_a_fault_that_is_noticed() -> None:
    ids = {id_ for id_ in REQUIREMENTS if id_.startswith("BATCH-")}
    assert {requirement for _, requirement, _ in FAULTS} == ids - {"BATCH-AGREE"}


def test_an_implementation_without_a_replica_policy_is_not_judged_by_one(judge: Judge) -> None:
    for id_ in (id_ for id_ in REQUIREMENTS if id_.startswith("BATCH-")):
        found = judge.outcome("faulty.batches:NoReplicaPolicy", id_)
        assert found is Outcome.NOT_CLAIMED


@pytest.mark.parametrize(
    ("name", "requirement", "case", "said"),
    [
        ("AsksTwice", "BATCH-ONCE", EVEN, "the policy was called 2 times, not once"),
        ("AsksBackwards", "BATCH-ONCE", EVEN, "this request is asked too late: ReplicaRequest("),
        ("CountsElementsForBytes", "BATCH-ONCE", TWO, "the policy was asked\nReplicaRequest("),
        (
            "MissesTheLastRow",
            "BATCH-ONCE",
            TWO,
            "the policy was asked 0 times about element 6 of 'weight' for target location 0, "
            "should be 1",
        ),
        (
            "NamesTwoHoldersAtMost",
            "BATCH-ONCE",
            SENDERS,
            "element 0 of 'first' is held by locations [0, 1, 2, 3], and the policy was told "
            "(0, 1)",
        ),
        (
            "OrdersPlansByName",
            "BATCH-EXACT",
            SIZES,
            "there are plans for ['smaller', 'small', 'large'], wanted ['large', 'small', "
            "'smaller']",
        ),
        (
            "IgnoresPolicies",
            "BATCH-EXACT",
            TWO,
            "the policy was called 0 times, not once",
        ),
        ("DropsTheLastPart", "BATCH-EXACT", TWO, "the plan breaks PLAN-"),
        (
            "ReadsAllFromTheFirstPart",
            "BATCH-EXACT",
            BYTES,
            "each half is to be read from another of the locations (0, 1), the plan reads [1]",
        ),
        (
            "TakesNoneInBatches",
            "BATCH-ANSWER",
            "None",
            "None must raise InvalidReplicaPolicyError, got plans",
        ),
        (
            "RefusesAnswersInItsOwnWay",
            "BATCH-ANSWER",
            "a gap between two parts",
            "a gap between two parts must raise InvalidReplicaPolicyError, got "
            "AffineTransferError: the answer for the region",
        ),
        (
            "ReadsBeforeItCounts",
            "BATCH-LIMIT",
            "2^60 parts in one answer",
            f"an answer of {2**60} parts was refused after 1 were read",
        ),
        (
            "CountsTheWholeBatch",
            "BATCH-LIMIT",
            "four parameters of one region",
            "one parameter was planned alone, and then refused with InvalidReplicaPolicyError",
        ),
        (
            "AsksForEachParameter",
            "BATCH-MAPS",
            "the last element is missing",
            "the last element is missing: the policy was asked before the maps were validated",
        ),
        (
            "CopiesBackwardsInBatches",
            "BATCH-FIRST",
            EVEN,
            "with the policy first_holder the plan of 'weight' is\nTransferPlan(",
        ),
        (
            "CountsRegions",
            "BATCH-BALANCE",
            SIZES,
            "element 0 of target location 0 is read from location 0, the default named 1",
        ),
    ],
)
def test_a_violation_is_explained(
    judge: Judge, name: str, requirement: str, case: str, said: str
) -> None:
    assert judge.violation(f"faulty.batches:{name}", requirement, case).startswith(said)
