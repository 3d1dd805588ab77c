"""What else a sync needs: processes, bytes, limits, policies, answers; and whole syncs."""

import pickle
from functools import partial

import pytest
from finding import EXAMPLES, found, smallest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_affine import truth
from pytest_affine.builders import contiguous_split_map, replicated_map
from pytest_affine.errors import InvalidReplicaPolicyError, PlanLimitError
from pytest_affine.plans import PlanBudget, ReplicaPart, ReplicaRequest, StagingBudget
from pytest_affine.reference.balancing import balanced_split
from pytest_affine.reference.planner import plan_transfer
from pytest_affine.reference.policies import first_holder, local_first_least_loaded
from pytest_affine.reference.replicas import plan_transfers
from pytest_affine.strategies import (
    ANSWER_FAULTS,
    DTYPES,
    TablePolicy,
    answers,
    dtypes,
    element_sizes,
    endpoints,
    invalid_answers,
    map_pairs,
    plan_budgets,
    replica_policies,
    staging_budgets,
    sync_cases,
    syncs,
)

# So many locations that no binding of a kind comes about by chance.
ON_FOUR = partial(endpoints, source=range(1, 9), target=range(3, 11), num_processes=4)


def processes(side):
    return [process for _, process in side]


@pytest.mark.parametrize(
    "condition",
    [
        lambda ends: ends.processes == (2,),
        lambda ends: (
            processes(ends.source) == [0, 1, 2, 3] * 2
            and processes(ends.target) == [3, 0, 1, 2] * 2
        ),
        lambda ends: (
            set(processes(ends.source)) == {0, 1, 2} == {*range(4)} - set(processes(ends.target))
        ),
        lambda ends: (
            set(processes(ends.source)) == set(processes(ends.target)) == {0, 1, 3}
            and processes(ends.source) != processes(ends.target)
        ),
    ],
    ids=["all on one", "in turn", "senders apart from receivers", "any"],
)
def test_endpoints_bind_every_location_in_every_way(condition):
    drawn = found(ON_FOUR(), condition)
    assert [location for location, _ in drawn.source] == list(range(1, 9))
    assert [location for location, _ in drawn.target] == list(range(3, 11))
    assert set(drawn.processes) <= {0, 1, 2, 3}


def test_endpoints_shrink_to_process_0():
    assert smallest(ON_FOUR(), lambda _: True).processes == (0,)


def test_one_process_takes_everything():
    drawn = found(endpoints(source=[5], target=[6], num_processes=1), lambda _: True)
    assert drawn.processes == (0,)


def test_endpoints_need_a_process():
    with pytest.raises(ValueError, match=r"num_processes must be 1 or more, got 0"):
        endpoints(source=[0], target=[0], num_processes=0)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_drawn(name):
    assert found(dtypes(), lambda drawn: drawn == name)


def test_element_sizes_are_one_number_or_one_per_parameter():
    sizes = element_sizes(parameters=["a", "b"])
    assert found(sizes, lambda size: size == 16)
    assert found(sizes, lambda size: size == {"a": 2, "b": 8})
    assert smallest(element_sizes(), lambda _: True) == 1


def test_staging_budgets_are_small_or_the_default():
    budgets = staging_budgets(min_bytes=3, max_bytes=5)
    assert found(budgets, lambda budget: budget == StagingBudget(5))
    assert found(budgets, lambda budget: budget == StagingBudget())
    assert smallest(budgets, lambda _: True) == StagingBudget(3)


def test_staging_budgets_need_bounds():
    with pytest.raises(ValueError, match=r"1 <= min_bytes <= max_bytes must hold, got 9 and 8"):
        staging_budgets(min_bytes=9, max_bytes=8)


def test_plan_budgets_tighten_some_limits():
    assert found(plan_budgets(), lambda budget: budget.max_segments < 3 < budget.max_ndim == 8)
    assert smallest(plan_budgets(), lambda _: True) == PlanBudget()
    only = plan_budgets(limits=["max_ndim"])
    assert found(only, lambda budget: budget == PlanBudget(max_ndim=1))


def test_an_unknown_limit_is_refused():
    with pytest.raises(ValueError, match=r"limits must be some of max_ndim, .*, got \['pieces'\]"):
        plan_budgets(limits=["pieces"])


@settings(EXAMPLES)
@given(map_pairs(max_elements=40, max_locations=4), plan_budgets(limits=["max_segments"]))
def test_under_any_limit_a_plan_is_whole_or_refused(pair, limits):
    try:
        plan = plan_transfer(*pair, limits=limits)
    except PlanLimitError:
        return
    assert truth.plan_problems(plan, *pair) == ()


def request(num_rows=10, holders=(2, 5), element_size=1):
    """Rows from row 3 on, of 4 columns."""
    return ReplicaRequest(
        parameter="w",
        target_location=0,
        logical_origin=(3, 0),
        shape=(num_rows, 4),
        holders=holders,
        element_size=element_size,
        num_bytes=num_rows * 4 * element_size,
    )


def scalar(holders=(2, 5)):
    return ReplicaRequest(
        parameter="w",
        target_location=0,
        logical_origin=(),
        shape=(),
        holders=holders,
        element_size=1,
        num_bytes=1,
    )


def part(location, first_row, num_rows):
    return ReplicaPart(location, (first_row, 0), (num_rows, 4))


def test_a_table_is_read_round_and_round():
    policy = TablePolicy(holders=(0, 3), num_parts=(1, 1, 2))
    assert policy([request(), request(), request(3), scalar()]) == (
        2,
        5,
        (part(2, 3, 1), part(5, 4, 2)),
        5,
    )


def test_a_table_splits_no_further_than_rows_and_bytes_allow():
    many = TablePolicy(num_parts=(4,))
    assert many([request(2), request(1)]) == ((part(2, 3, 1), part(5, 4, 1)), 2)
    large = TablePolicy(num_parts=(4,), min_split_bytes=13)  # 4 rows
    assert large([request(9), request(7)]) == ((part(2, 3, 4), part(5, 7, 5)), 2)


@pytest.mark.parametrize(
    "condition",
    [
        lambda policy: policy is first_holder,
        lambda policy: policy is local_first_least_loaded,
        lambda policy: policy is balanced_split,
        lambda policy: (
            isinstance(policy, TablePolicy)
            and len(policy.holders) == 2
            and max(policy.num_parts) > min(policy.num_parts)
        ),
    ],
    ids=["first holder", "least loaded", "balanced", "table"],
)
def test_every_kind_of_policy_is_drawn(condition):
    assert found(replica_policies(), condition)


@settings(EXAMPLES)
@given(replica_policies(min_split_bytes=2))
def test_a_policy_that_knows_no_least_bytes_is_not_drawn_where_there_are_some(policy):
    assert policy is not balanced_split


def test_policies_shrink_to_the_first_holder_and_to_the_smallest_table():
    assert smallest(replica_policies(), lambda _: True) is first_holder
    table = smallest(replica_policies(), lambda policy: isinstance(policy, TablePolicy))
    assert repr(table) == "TablePolicy(holders=(0,), num_parts=(1,), min_split_bytes=0)"


@settings(EXAMPLES)
@given(st.data(), syncs(num_processes=3, max_elements=60), st.sampled_from([0, 5]))
def test_whatever_a_drawn_policy_answers_is_right_and_it_is_the_same_after_a_journey(
    data, sync, min_split_bytes
):
    policy = data.draw(replica_policies(min_split_bytes=min_split_bytes))
    pairs = {each.name: (each.source, each.target) for each in sync.parameters}
    options = {"endpoints": sync.endpoints, "min_split_bytes": min_split_bytes}
    plans = plan_transfers(pairs, replica_policy=policy, **options)
    for name, pair in pairs.items():
        assert truth.plan_problems(plans[name], *pair) == ()
    sent = pickle.loads(pickle.dumps(policy))
    assert sent == policy
    assert plan_transfers(pairs, replica_policy=sent, **options) == plans


@settings(EXAMPLES)
@given(st.data(), map_pairs(max_elements=60), st.sampled_from([0, 5]))
def test_valid_answers_are_never_refused(data, pair, min_split_bytes):
    plans = plan_transfers(
        {"w": pair},
        replica_policy=lambda asked: data.draw(answers(asked, min_split_bytes=min_split_bytes)),
        min_split_bytes=min_split_bytes,
    )
    assert truth.plan_problems(plans["w"], *pair) == ()


@pytest.mark.parametrize(
    "condition",
    [
        lambda answer: answer == 5,
        lambda answer: answer == (part(5, 3, 4),),
        lambda answer: heights_of(answer) == (3, 1) and answer[0].shape == (1, 4),
        lambda answer: heights_of(answer) == (1, 1, 1, 1),
        lambda answer: len({each.source_location for each in parts_of(answer)}) == 2,
    ],
    ids=["a holder", "one part", "the last part first", "four parts", "two holders"],
)
def test_every_kind_of_answer_is_drawn(condition):
    assert found(answers([request(4), scalar()]), lambda drawn: condition(drawn[0]))


def parts_of(answer):
    return () if isinstance(answer, int) else answer


def heights_of(answer):
    parts = sorted(parts_of(answer), key=lambda each: each.logical_origin)
    return tuple(each.shape[0] for each in parts)


def test_a_split_has_the_least_bytes_and_no_rows_too_many():
    drawn = answers([request(9)], min_split_bytes=13)  # 4 rows
    heights = [(4, 5), (5, 4)]
    for wanted in heights:
        assert found(drawn, lambda got, w=wanted: heights_of(got[0]) == w)
    assert smallest(drawn, lambda got: len(heights_of(got[0])) > 1) == (
        (part(2, 3, 4), part(2, 7, 5)),
    )


def test_answers_shrink_to_first_holders():
    assert smallest(answers([request(), scalar()]), lambda _: True) == (2, 2)


FOUR_COPIES = replicated_map((6, 2), 4)
SPLIT = contiguous_split_map((6, 2), [3, 3], 0)
MESSAGES = {
    "too few answers": "must return a sequence of 2 answers, one per request, got 1 in",
    "too many answers": "must return a sequence of 2 answers, one per request, got 3 in",
    "a location that is no candidate": "must be the location of a holder",
    "no location": "must be the location of a holder",
    "a gap": r"leaves a gap|needs is \(\)",
    "an overlap": "so that parts overlap",
    "a part outside": "outside the region",
    "a cut along another axis": "a region is cut along axis 0 only",
    "an empty part": "no part may be empty",
    "a wrong number of axes": "one per axis of the region",
    "no sequence of integers": "integers",
    "a part that is too small": "each part of a split must have min_split_bytes=9 or more",
}


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
def test_answers_with_a_fault_are_refused_for_it(fault):
    @settings(EXAMPLES, max_examples=15)
    @given(st.data())
    def is_refused(data):
        with pytest.raises(InvalidReplicaPolicyError, match=MESSAGES[fault]):
            plan_transfers(
                {"w": (FOUR_COPIES, SPLIT)},
                min_split_bytes=9 * (fault == ANSWER_FAULTS[-1]),
                element_size=4,
                replica_policy=lambda asked: (
                    data.draw(
                        invalid_answers(
                            asked,
                            faults=[fault],
                            min_split_bytes=9 * (fault == ANSWER_FAULTS[-1]),
                        )
                    ).answers
                ),
            )

    is_refused()


@settings(EXAMPLES)
@given(st.data(), map_pairs(max_elements=60).filter(lambda pair: pair[0].num_elements))
def test_no_invalid_answers_are_ever_planned(data, pair):
    with pytest.raises(InvalidReplicaPolicyError):
        plan_transfers(
            {"w": pair}, replica_policy=lambda asked: data.draw(invalid_answers(asked)).answers
        )


@pytest.mark.parametrize("index", [0, 1])
def test_any_answer_may_be_the_wrong_one_and_the_others_are_right(index):
    wrong = found(
        invalid_answers([request(), request()], faults=["a gap"]), lambda bad: bad.index == index
    )
    assert wrong.fault == "a gap"
    assert wrong.answers[1 - index] in (2, 5) or len(wrong.answers[1 - index]) > 0


def test_invalid_answers_shrink_to_one_wrong_answer_beside_first_holders():
    asked = [request(), request()]
    few = smallest(invalid_answers(asked), lambda _: True)
    assert (few.answers, few.fault, few.index) == ((2,), "too few answers", None)
    gap = smallest(invalid_answers(asked), lambda bad: bad.fault == "a gap")
    assert (gap.answers, gap.index) == (((), 2), 0)


def test_a_part_is_too_small_by_a_row():
    drawn = invalid_answers(
        [request(9)], faults=["a part that is too small"], min_split_bytes=13
    )  # 4 rows
    assert heights_of(found(drawn, lambda _: True).answers[0]) == (3, 6)


@pytest.mark.parametrize(
    ("requests", "options", "message"),
    [
        ([], {}, r"there must be a request"),
        ([scalar()], {"faults": ["a hole"]}, r"faults must be some of .*, got \['a hole'\]"),
        (
            [scalar()],
            {"faults": ["an empty part", "a part outside"]},
            r"no answer to these requests can have an empty part or a part outside",
        ),
    ],
)
def test_invalid_answers_that_can_not_be_are_refused(requests, options, message):
    with pytest.raises(ValueError, match=message):
        invalid_answers(requests, **options)


@settings(EXAMPLES)
@given(syncs(num_processes=3))
def test_syncs_are_valid(sync):
    sources = dict(sync.endpoints.source)
    targets = dict(sync.endpoints.target)
    assert set(sync.endpoints.processes) <= {0, 1, 2}
    assert sync.budget.bytes_per_peer >= 8
    assert len({parameter.name for parameter in sync.parameters}) == len(sync.parameters)
    for each in sync.parameters:
        assert truth.map_problems(each.source) == truth.map_problems(each.target) == ()
        assert each.source.logical_shape == each.target.logical_shape
        assert each.source_dtype == each.target_dtype
        assert set(each.source.locations) <= set(sources)
        assert set(each.target.locations) <= set(targets)


@pytest.mark.parametrize(
    "condition",
    [
        lambda sync: len(sync.parameters) == 3,
        lambda sync: len({each.source_dtype for each in sync.parameters}) == 2,
        lambda sync: len(sync.endpoints.source) > len(sync.parameters[0].source.locations),
        lambda sync: len(sync.endpoints.source) == len(sync.parameters[0].source.locations) < 3,
        lambda sync: sync.budget == StagingBudget(),
        lambda sync: any(each.source.padding_by_location for each in sync.parameters),
    ],
    ids=["parameters", "dtypes", "more is bound", "no more is bound", "a large budget", "padding"],
)
def test_syncs_include(condition):
    assert found(syncs(num_processes=4), condition)


def test_syncs_keep_to_the_options():
    drawn = syncs(
        num_processes=2,
        max_parameters=1,
        dtype_names=["complex64"],
        kinds=["flat_map"],
        max_locations=3,
        max_elements=5,
    )

    @settings(EXAMPLES)
    @given(drawn)
    def keeps(sync):
        (parameter,) = sync.parameters
        assert parameter.source_dtype == "complex64"
        assert parameter.source.num_elements <= 5
        assert dict(sync.endpoints.source).keys() <= {0, 1, 2}

    keeps()


def test_syncs_shrink_to_a_scalar_on_one_process():
    sync = smallest(syncs(num_processes=4), lambda _: True)
    (parameter,) = sync.parameters
    assert parameter.source == parameter.target == replicated_map((), 1)
    assert sync.endpoints.processes == (0,)
    assert sync.budget == StagingBudget(8)


def test_drawn_cases_are_syncs():
    case = found(sync_cases(4), lambda case: len(case.sync.parameters) == 2)
    assert (case.name, case.kind, case.sync.num_processes) == ("drawn", "sync", 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_processes": 0}, r"num_processes must be 1 or more, got 0"),
        ({"num_processes": 2, "max_parameters": 0}, r"max_parameters must be 1 or more, got 0"),
        ({"num_processes": 2, "kinds": ["split"]}, r"kinds must be some of"),
    ],
)
def test_bad_options_of_syncs_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        syncs(**options)
