"""Laying a fault over an implementation."""

import re

import pytest

from pytest_affine import Implementation
from pytest_affine.adapters.reference import Reference
from pytest_affine.builders import replicated_map
from pytest_affine.contract.resident import Origin, make_resident
from pytest_affine.mutants.compose import FaultError, compose, make_faulty, read_faults

FAULTS = """
from pytest_affine import Implementation
from pytest_affine.adapters.reference import Reference
from fault_parts import Doubles

class Wraps(Doubles):
    def plan_digest(self, *args, **options):
        return super().plan_digest(*args, **options) + "!"

class Internal(Reference):
    def plan_digest(self, *args, **options):
        return "always"

class TakesAnyMap(Wraps):
    def check_map(self, map_):
        raise AssertionError("it is not claimed")

class Unmade(Implementation):
    def __init__(self):
        raise RuntimeError("no luck")

class Meta(type): pass
class OtherMeta(type): pass
class Mine(Implementation, metaclass=Meta):
    def plan_digest(self, *args, **options):
        return "mine"
class Clashing(Implementation, metaclass=OtherMeta): pass

nothing = 3
"""

PARTS = """
from pytest_affine import Implementation

class Doubles(Implementation):
    def report_to_dict(self, report):
        return 2 * super().report_to_dict(report)
"""


@pytest.fixture(autouse=True)
def faults(tmp_path, monkeypatch):
    """A folder with faults in it, on the path."""
    (tmp_path / "some_faults.py").write_text(FAULTS)
    (tmp_path / "fault_parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    import sys

    for name in ("some_faults", "fault_parts"):
        sys.modules.pop(name, None)


class Resharder(Implementation):
    def plan_digest(self, *args, **options):
        return "abc"

    def report_to_dict(self, report):
        return [report]


def test_what_a_fault_calls_super_is_the_implementation():
    faulty = make_faulty("some_faults:Wraps", Resharder)
    assert faulty.plan_digest() == "abc!"
    assert faulty.report_to_dict(7) == [7, 7]
    assert isinstance(faulty, Resharder)


def test_what_is_not_claimed_under_a_fault_is_the_references():
    resident = make_resident(Origin("some_faults:Mine", (), "some_faults:TakesAnyMap"))
    assert resident.plan_digest() == "mine!"
    assert resident.check_map(replicated_map((2,), 1)) is None


def test_a_fault_of_the_reference_is_taken_as_it_is():
    assert compose("some_faults:Internal", Reference).__name__ == "Internal"
    assert make_faulty("some_faults:Internal", Reference).plan_digest() == "always"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nowhere:Gone", "'nowhere:Gone' cannot be imported: ModuleNotFoundError"),
        ("some_faults:Gone", "'some_faults:Gone' cannot be imported: AttributeError"),
        ("some_faults:nothing", "must be a subclass of pytest_affine.Implementation, got 3"),
        ("some_faults:Unmade", "'some_faults:Unmade' cannot be made: RuntimeError: no luck"),
    ],
)
def test_a_fault_that_can_not_be_had_is_told(fault, message):
    with pytest.raises(FaultError, match=re.escape(message)):
        make_faulty(fault, Resharder)


def test_a_fault_that_can_not_be_laid_over_a_class_is_told():
    import some_faults

    message = "fault 'some_faults:Clashing' cannot be laid over Mine: metaclass conflict"
    with pytest.raises(FaultError, match=message):
        compose("some_faults:Clashing", some_faults.Mine)


def test_the_facts_of_a_fault_name_what_it_overrides_and_every_file_of_it(faults):
    facts = read_faults("reference", [], ["some_faults:Wraps"])["some_faults:Wraps"]
    assert facts == {
        "methods": ["plan_digest", "report_to_dict"],
        "files": [str(faults / "some_faults.py"), str(faults / "fault_parts.py")],
        "belongs_to": "",
        "error": "",
    }


def test_the_facts_of_a_fault_of_the_reference_are_those_of_the_fault_alone(faults):
    facts = read_faults("reference", [], ["some_faults:Internal"])["some_faults:Internal"]
    assert facts["methods"] == ["plan_digest"]
    assert facts["files"] == [str(faults / "some_faults.py")]
    assert facts["belongs_to"] == ""


def test_a_fault_of_one_implementation_is_not_for_another_one():
    facts = read_faults("some_faults:Mine", [], ["some_faults:Internal"])
    assert facts["some_faults:Internal"]["belongs_to"] == "reference"


def test_the_facts_say_why_a_fault_can_not_be_had():
    facts = read_faults("some_faults:Mine", [], ["some_faults:Gone", "some_faults:Clashing"])
    assert "cannot be imported" in facts["some_faults:Gone"]["error"]
    assert "metaclass conflict" in facts["some_faults:Clashing"]["error"]
