"""A mutant's trial, with a stand-in for the ranks."""

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import strategies as st

from pytest_affine.contract.cases import Case
from pytest_affine.contract.examination import Examination
from pytest_affine.contract.outcomes import (
    AdapterFault,
    Death,
    ImplementationFault,
    NotRun,
    Withheld,
)
from pytest_affine.contract.suite import SuiteTest
from pytest_affine.errors import AffineTransferError
from pytest_affine.mutants import Mutant
from pytest_affine.mutants.gate import Bucket
from pytest_affine.mutants.trial import ruled_out, try_mutant

HOW = Examination(num_examples=5, seed=0, shrink=False)
SMALL, LARGE = (
    Case(name=name, kind="document", detail={"number": number})
    for name, number in (("small", 1), ("large", 9))
)
CLAIMS = ("plan_transfer", "plan_transfers")


class Ranks:
    """An implementation that raises `acts[test, number]`; the numbers of drawn cases are 0 here."""

    def __init__(self, acts=(), death=""):
        self.acts = dict(acts)
        self.num_ranks = 2
        self.claims = dict.fromkeys(CLAIMS, ())
        self.deaths = Counter()
        self.latest_death = ""
        self.death = death
        self.calls = []
        self.pool = SimpleNamespace(discard=lambda: self.calls.append("discard"))

    def require_support(self, sync):
        pass

    def discard_ranks(self):
        pass

    def act(self, test, number):
        number = number if number < 10 else 0
        self.calls.append((test, number))
        error = self.acts.get((test, number)) or self.acts.get(test)
        if isinstance(error, Death):
            self.latest_death = self.death
        if error is not None:
            raise error


def numbers(num_ranks):
    return st.integers(10, 99).map(lambda n: Case(name="n", kind="document", detail={"number": n}))


def suite_test(name, requirement, fixed=(SMALL, LARGE), strategy=None):
    def function(implementation, case):
        implementation.act(name, case.detail["number"])

    function.__name__ = f"test_{name}"
    return SuiteTest(function, requirement, ("plan_transfer",), fixed, strategy)


TESTS = (
    suite_test("once", "PLAN-ONCE"),
    suite_test("tile", "PLAN-TILE", strategy=numbers),
    suite_test("tile_again", "PLAN-TILE"),
    suite_test("edge", "PLAN-EDGE", strategy=numbers),
)


def mutant(**more):
    fixed = {"id": "one", "requirement": "PLAN-TILE", "sentence": "Wrong.", "fault": "m:F"}
    return Mutant(**{**fixed, **more})


def tried(faulty, control=None, tests=TESTS, **more):
    return try_mutant(mutant(**more), tests, faulty, control or Ranks(), HOW)


WRONG = AssertionError("two writes\nof one element")


def test_a_violation_of_its_own_requirement_is_a_kill_as_intended():
    trial = tried(Ranks({("tile", 9): WRONG}))
    result = trial.result
    assert (result.bucket, result.killed_by) == (Bucket.KILLED, "PLAN-TILE")
    assert (result.case, result.reason) == ("tile[large]", "two writes")
    assert trial.text == "two writes\nof one element"
    assert (trial.requirements, trial.num_inputs) == (("PLAN-TILE",), 2)


def test_a_deadline_that_the_control_does_not_keep_either_is_no_kill():
    def slow(**more):
        return Ranks({("tile", 9): Death("no answer")}, "deadline", **more)

    trial = tried(slow(), slow(), hangs=True)
    assert trial.result.bucket is Bucket.NOT_JUDGED
    assert trial.result.reason == "without the mutant too, a call ran past this deadline"
    assert tried(slow(), Ranks(), hangs=True).result.bucket is Bucket.KILLED


def test_the_fixed_cases_of_its_own_requirement_run_first_and_nothing_after_the_kill():
    faulty = Ranks({("tile_again", 1): WRONG})
    tried(faulty)
    assert faulty.calls == [("tile", 1), ("tile", 9), ("tile_again", 1)]


def test_drawn_cases_find_it_where_no_fixed_case_does_and_are_not_shrunk():
    faulty = Ranks({("tile", 0): WRONG})
    result = tried(faulty).result
    assert (result.bucket, result.case) == (Bucket.KILLED, "tile[drawn]")
    # The one that is found, and once more to see it again.
    assert faulty.calls.count(("tile", 0)) <= 2


def test_another_requirement_is_asked_last():
    faulty = Ranks({("once", 9): WRONG})
    result = tried(faulty).result
    assert (result.bucket, result.killed_by) == (Bucket.BY_ANOTHER, "PLAN-ONCE")
    assert faulty.calls.index(("once", 1)) > faulty.calls.index(("tile_again", 9))


def test_a_requirement_that_may_notice_it_too_is_asked_before_the_others():
    faulty = Ranks({("edge", 1): WRONG, ("once", 1): WRONG})
    result = tried(faulty, also=("PLAN-EDGE",)).result
    assert (result.bucket, result.killed_by) == (Bucket.KILLED, "PLAN-EDGE")


def test_what_no_test_notices_survives_and_the_trial_says_what_ran():
    trial = tried(Ranks())
    assert trial.result.bucket is Bucket.SURVIVED
    assert trial.result.reason == "no test noticed it"
    assert sorted(trial.requirements) == ["PLAN-EDGE", "PLAN-ONCE", "PLAN-TILE"]
    assert trial.num_inputs == 8 + 2 * HOW.num_examples


def test_an_equivalent_mutant_is_asked_of_its_own_requirement_only():
    faulty = Ranks({"once": WRONG})
    result = tried(faulty, equivalent="it changes nothing").result
    assert (result.bucket, result.reason) == (Bucket.EQUIVALENT, "it changes nothing")
    assert ("once", 1) not in faulty.calls


def test_an_equivalent_mutant_that_is_noticed_is_none():
    result = tried(Ranks({"tile": WRONG}), equivalent="it changes nothing").result
    assert (result.bucket, result.killed_by) == (Bucket.NOT_EQUIVALENT, "PLAN-TILE")


def test_what_the_mutants_own_file_raises_is_a_broken_mutant():
    result = tried(Ranks({"tile": AdapterFault("KeyError: 3")})).result
    assert (result.bucket, result.reason) == (
        Bucket.BROKEN,
        "its own code is at fault: KeyError: 3",
    )


def test_what_is_raised_behind_the_mutant_is_a_kill():
    assert tried(Ranks({"tile": ImplementationFault("IndexError")})).result.bucket is Bucket.KILLED


@pytest.mark.parametrize(
    ("death", "declared", "bucket"),
    [
        ("deadline", {}, Bucket.TIMED_OUT),
        ("deadline", {"raises": True}, Bucket.TIMED_OUT),
        ("deadline", {"hangs": True}, Bucket.KILLED),
        ("signal", {}, Bucket.BROKEN),
        ("exit", {"hangs": True}, Bucket.BROKEN),
        ("exit", {"raises": True}, Bucket.KILLED),
    ],
)
def test_a_death_is_a_kill_only_if_the_mutant_declares_it(death, declared, bucket):
    faulty = Ranks({"tile": Death("rank 0")}, death=death)
    result = tried(faulty, **declared).result
    assert result.bucket is bucket
    assert result.reason.endswith("rank 0")


def test_an_error_of_the_suite_itself_is_a_broken_mutant_and_names_the_error():
    trial = tried(Ranks({"tile": ZeroDivisionError("of the suite")}))
    assert trial.result.bucket is Bucket.BROKEN
    assert trial.result.reason == "the suite itself raised ZeroDivisionError: of the suite"
    assert "Traceback" in trial.text


@pytest.mark.parametrize("outcome", [Withheld("no"), NotRun("3 processes"), AffineTransferError()])
def test_what_can_not_be_judged_without_the_mutant_either_is_not_judged(outcome):
    acts = {("tile", 9): outcome}
    faulty, control = Ranks(acts), Ranks(acts)
    result = tried(faulty, control).result
    assert result.bucket is Bucket.NOT_JUDGED
    assert result.reason.startswith("nothing noticed it, but PLAN-TILE[tile[large]] is ")
    assert control.calls == ["discard", ("tile", 9)]
    assert ("once", 1) not in faulty.calls


def test_a_mutant_that_refuses_where_nothing_else_does_has_survived():
    faulty, control = Ranks({("tile", 9): AffineTransferError("no")}), Ranks()
    assert tried(faulty, control).result.bucket is Bucket.SURVIVED
    assert control.calls == ["discard", ("tile", 9)]


def test_where_no_case_of_its_requirement_was_chosen_it_is_not_judged():
    result = tried(Ranks(), tests=TESTS[:1]).result
    assert (result.bucket, result.reason) == (
        Bucket.NOT_JUDGED,
        "no case of PLAN-TILE was chosen",
    )


FACTS = {"methods": ["plan_transfer"], "files": [], "belongs_to": "", "error": ""}


@pytest.mark.parametrize(
    ("facts", "bucket", "reason"),
    [
        ({"error": "no such class"}, Bucket.BROKEN, "no such class"),
        ({"belongs_to": "reference"}, Bucket.NOT_APPLICABLE, "it is for reference alone"),
        (
            {"methods": ["plan_digest", "check_map"]},
            Bucket.NOT_APPLICABLE,
            "not claimed: plan_digest, check_map",
        ),
    ],
)
def test_a_mutant_that_can_not_be_tried_is_told_why(facts, bucket, reason):
    result = ruled_out(mutant(), {**FACTS, **facts}, dict.fromkeys(CLAIMS, ()))
    assert (result.bucket, result.reason) == (bucket, reason)


def test_a_mutant_of_a_requirement_that_is_not_claimed_does_not_apply():
    result = ruled_out(mutant(requirement="PLAN-HOLDER"), FACTS, {"plan_transfer": ()})
    assert result.bucket is Bucket.NOT_APPLICABLE
    assert result.reason == "not claimed: plan_transfer[replica_selector]"


@pytest.mark.parametrize("methods", [[], ["plan_transfer"], ["plan_digest", "plan_transfers"]])
def test_a_mutant_that_changes_something_that_is_claimed_is_tried(methods):
    facts = {**FACTS, "methods": methods}
    assert ruled_out(mutant(), facts, dict.fromkeys(CLAIMS, ())) is None
