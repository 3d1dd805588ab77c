import pytest

from pytest_affine.contract.cases import Case
from pytest_affine.errors import InvalidMapError
from pytest_affine.fixtures.built import BUILT
from pytest_affine.fixtures.invalid import BAD_MAPS
from pytest_affine.fixtures.syncs import CORE


@pytest.mark.parametrize("case", [CORE[0], BAD_MAPS[0], BUILT[0]], ids=lambda case: case.kind)
def test_a_case_comes_back_from_its_line(case):
    line = case.to_line()
    assert "\n" not in line
    back = Case.from_line(line)
    assert back.to_dict() == case.to_dict()
    assert back.id == case.id


def test_name_and_core_shape_are_no_part_of_the_id():
    one = CORE[0]
    other = Case(name="other", kind=one.kind, sync=one.sync)
    assert other.id == one.id


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "a case must be one JSON object: Expecting"),
        ("[]", "case must be a JSON object, got \\[\\]"),
        ("{}", "case lacks the key 'kind'; it has \\[\\]"),
        ('{"kind": "plan"}', "case.kind is 'plan'; the known ones: sync, invalid map, builder"),
        ('{"kind": "sync", "sync": {}}', "sync lacks the key 'parameters'"),
        ('{"kind": "refusal", "detail": {}}', "case lacks the key 'sync'; it has"),
        ('{"kind": "builder", "detail": 3}', "case.detail must be a JSON object, got 3"),
    ],
)
def test_a_line_that_is_no_case_is_refused(line, message):
    with pytest.raises(InvalidMapError, match=message):
        Case.from_line(line)
