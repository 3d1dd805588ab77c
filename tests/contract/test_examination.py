"""Examination, with a stand-in for the ranks: what becomes of each way in which a test can end."""

from collections import Counter

import pytest
from hypothesis import strategies as st

from pytest_affine.contract.cases import Case
from pytest_affine.contract.examination import Examination, examine
from pytest_affine.contract.implementation import NotClaimedError
from pytest_affine.contract.outcomes import (
    AdapterFault,
    Death,
    ImplementationFault,
    Measured,
    NotObservable,
    NotRun,
    Outcome,
    Withheld,
)
from pytest_affine.contract.suite import SuiteTest, restricted
from pytest_affine.errors import InvalidMapError

HOW = Examination(num_examples=50, seed=0)
CASE = Case(name="one", kind="document", detail={"number": 1}, core="identity")


class Ranks:
    """What `examine` asks of an implementation."""

    def __init__(self, num_ranks=2, claims=("plan_transfer",), withheld=None):
        self.num_ranks = num_ranks
        self.claims = dict.fromkeys(claims, ())
        self.deaths = Counter()
        self.withheld = withheld
        self.num_discarded = 0

    def require_support(self, sync):
        if self.withheld:
            raise Withheld(self.withheld)

    def discard_ranks(self):
        self.num_discarded += 1


def suite_test(function, *, requirement="PLAN-TILE", fixed=(CASE,), strategy=None):
    return SuiteTest(function, requirement, ("plan_transfer",), fixed, strategy)


def raising(error):
    def test_it(implementation, case):
        raise error

    return suite_test(test_it)


def passing(implementation, case):
    pass


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (InvalidMapError("too odd"), Outcome.REFUSED, "InvalidMapError: too odd"),
        (AssertionError("two\nlines"), Outcome.VIOLATED, "two"),
        (ImplementationFault("KeyError: 3"), Outcome.VIOLATED, "KeyError: 3"),
        (Death("no answer"), Outcome.VIOLATED, "no answer"),
        (AdapterFault("a slip"), Outcome.ADAPTER_ERROR, "a slip"),
        (NotRun("3 processes"), Outcome.NOT_RUN, "3 processes"),
        (NotObservable("a store"), Outcome.NOT_OBSERVABLE, "a store"),
        (NotClaimedError("path_of"), Outcome.NOT_CLAIMED, "path_of"),
        (Measured("1.25 of the least"), Outcome.CONFORMANT, "1.25 of the least"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_way_to_end_has_its_outcome(error, outcome, reason):
    record = examine(raising(error), CASE, Ranks(), HOW).record
    assert (record.outcome, record.reason) == (outcome, reason)
    assert (record.requirement, record.case, record.core) == ("PLAN-TILE", "it[one]", "identity")


def test_a_test_that_passes_is_conformant():
    finding = examine(suite_test(passing), CASE, Ranks(), HOW)
    assert finding.record.outcome is Outcome.CONFORMANT
    assert finding.text == ""


def test_a_bare_assert_is_told_by_its_line():
    def test_it(implementation, case):
        raise AssertionError

    assert "raise AssertionError" in examine(suite_test(test_it), CASE, Ranks(), HOW).text


def test_an_error_of_the_suite_itself_is_no_outcome():
    with pytest.raises(KeyError):
        examine(raising(KeyError("mistake")), CASE, Ranks(), HOW)


def test_a_case_that_the_adapter_withholds_does_not_run():
    record = examine(raising(KeyError()), CASE, Ranks(withheld="too wide"), HOW).record
    assert (record.outcome, record.reason) == (Outcome.WITHHELD, "too wide")


def test_a_method_that_is_not_claimed_is_not_called():
    record = examine(raising(KeyError()), CASE, Ranks(claims=()), HOW).record
    assert (record.outcome, record.reason) == (Outcome.NOT_CLAIMED, "plan_transfer")


def test_too_few_ranks_is_not_run():
    test = suite_test(passing, requirement="EXEC-ENDPOINTS")
    record = examine(test, CASE, Ranks(num_ranks=1), HOW).record
    assert (record.outcome, record.reason) == (Outcome.NOT_RUN, "needs 2 ranks, there are 1")


def test_two_deaths_in_a_method_block_what_else_needs_it():
    ranks = Ranks()
    ranks.deaths["plan_transfer"] = 1
    assert examine(suite_test(passing), CASE, ranks, HOW).record.outcome is Outcome.CONFORMANT
    ranks.deaths["plan_transfer"] = 2
    assert examine(suite_test(passing), CASE, ranks, HOW).record.outcome is Outcome.BLOCKED


def test_ranks_that_saw_a_violation_are_not_used_again():
    ranks = Ranks()
    examine(raising(AssertionError("x")), CASE, ranks, HOW)
    assert ranks.num_discarded == 1
    examine(raising(InvalidMapError("x")), CASE, ranks, HOW)
    assert ranks.num_discarded == 1


def numbers(num_ranks):
    return st.integers(0, 1000).map(
        lambda n: Case(name="drawn", kind="document", detail={"number": n})
    )


def drawn(function):
    return suite_test(function, fixed=(), strategy=numbers)


def test_drawn_cases_are_counted_and_those_turned_away_named():
    def test_it(implementation, case):
        if case.detail["number"] % 2:
            raise InvalidMapError("odd")

    record = examine(drawn(test_it), None, Ranks(), HOW).record
    assert record.outcome is Outcome.CONFORMANT
    assert record.num_examples == 50
    assert 0 < record.num_refused < 50


def test_a_drawn_violation_comes_with_the_smallest_case():
    def test_it(implementation, case):
        if case.detail["number"] >= 137:
            raise AssertionError(f"{case.detail['number']} is too much")

    finding = examine(drawn(test_it), None, Ranks(), HOW)
    assert finding.record.outcome is Outcome.VIOLATED
    assert finding.case.detail == {"number": 137}
    assert finding.text == "137 is too much"


def test_a_death_in_a_drawn_case_is_not_repeated_to_shrink_it():
    seen = []

    def test_it(implementation, case):
        seen.append(case)
        if case.detail["number"] > 100:
            raise Death("no answer")

    finding = examine(drawn(test_it), None, Ranks(), HOW)
    assert finding.record.outcome is Outcome.VIOLATED
    assert [case.detail["number"] > 100 for case in seen].count(True) == 1
    assert finding.case == seen[-1]


def test_drawn_cases_of_which_all_are_refused_are_refused():
    record = examine(raising_when_drawn(InvalidMapError("no")), None, Ranks(), HOW).record
    assert (record.outcome, record.reason) == (Outcome.REFUSED, "every drawn case")


def test_drawn_cases_of_which_all_are_withheld_are_withheld():
    record = examine(drawn(passing), None, Ranks(withheld="all"), HOW).record
    assert (record.outcome, record.reason) == (Outcome.WITHHELD, "every drawn case")


def raising_when_drawn(error):
    return drawn(raising(error).function)


def test_the_same_seed_draws_the_same_cases():
    def seen(seed):
        cases = []
        test = drawn(lambda implementation, case: cases.append(case.detail["number"]))
        examine(test, None, Ranks(), Examination(num_examples=20, seed=seed))
        return cases

    assert seen(1) == seen(1) != seen(2)


def test_one_case_restricts_the_suite_to_the_tests_that_take_its_like():
    other = Case(name="two", kind="document", detail={"field": "x"})
    tests = {"module": (suite_test(passing, strategy=numbers), suite_test(passing, fixed=(other,)))}
    replayed = Case(name="replayed", kind="document", detail={"number": 3})
    (left,) = restricted(tests, replayed)["module"]
    assert (left.fixed, left.strategy) == ((replayed,), None)


def test_a_violation_that_does_not_come_back_is_one_all_the_same():
    calls = []

    def test_it(implementation, case):
        calls.append(case)
        if len(calls) == 7:
            raise AssertionError("the seventh call is wrong")

    finding = examine(drawn(test_it), None, Ranks(), HOW)
    assert finding.record.outcome is Outcome.VIOLATED
    assert finding.text.startswith("the seventh call is wrong\nthe same case was right when")


def test_two_deaths_in_supports_block_everything():
    ranks = Ranks()
    ranks.deaths["supports"] = 2
    assert examine(suite_test(passing), CASE, ranks, HOW).record.outcome is Outcome.BLOCKED


def test_two_tests_draw_different_cases_from_one_seed():
    def seen(name):
        numbers_seen = []

        def test_it(implementation, case):
            numbers_seen.append(case.detail["number"])

        test_it.__name__ = name
        examine(drawn(test_it), None, Ranks(), HOW)
        return numbers_seen

    assert seen("test_one") != seen("test_other")
