import re
from pathlib import Path

import pytest

from pytest_affine.contract.implementation import METHODS
from pytest_affine.contract.manifest import REQUIREMENTS, UPCOMING, unclaimed
from pytest_affine.contract.suite import cases, planned_cases, requirement, suite_tests
from pytest_affine.fixtures.syncs import CORE


def test_every_requirement_has_a_case_and_every_test_a_requirement():
    planned = planned_cases(suite_tests())
    assert [id_ for id_, names in planned.items() if not names] == []
    assert set(planned) == set(REQUIREMENTS)


def test_the_case_names_of_a_requirement_are_distinct():
    for id_, names in planned_cases(suite_tests()).items():
        assert len(names) == len(set(names)), id_


def test_every_function_of_the_suite_named_test_is_marked():
    import pytest_affine.conformance as package

    marked = {test.name for tests in suite_tests().values() for test in tests}
    for path in Path(package.__path__[0]).glob("*.py"):
        written = set(re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE))
        assert written <= marked, path.name


def test_no_requirement_needs_more_than_4_ranks():
    assert max(row.ranks for row in REQUIREMENTS.values()) <= 4


def test_requirements_name_methods_of_the_contract_and_each_other():
    for row in REQUIREMENTS.values():
        assert row.methods
        assert {name.partition("[")[0] for name in row.methods} <= set(METHODS)
        assert set(row.needs) <= set(REQUIREMENTS)


def test_upcoming_ids_have_no_row_yet():
    upcoming = [id_ for ids in UPCOMING.values() for id_ in ids]
    assert not set(upcoming) & set(REQUIREMENTS)
    assert len(upcoming) == len(set(upcoming))


def test_a_method_is_unclaimed_without_its_option():
    needed = ("plan_transfer[limits]", "check_map")
    assert unclaimed(needed, {"plan_transfer": ("limits",), "check_map": ()}) == ()
    assert unclaimed(needed, {"plan_transfer": ()}) == needed


def test_an_unknown_requirement_can_not_be_marked():
    with pytest.raises(ValueError, match="'PLAN-TYLE' is no requirement of the manifest: MAP-CO"):
        requirement("PLAN-TYLE")


def test_two_cases_of_one_name_are_refused():
    one, other = CORE[:2]
    renamed = type(one)(name=one.name, kind=other.kind, sync=other.sync)
    with pytest.raises(ValueError, match=f"two cases are called '{one.name}'"):
        cases([one], [renamed])
