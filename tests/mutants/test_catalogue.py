import ast
import inspect
import re
from importlib.metadata import EntryPoint
from pathlib import Path

from pytest_affine.adapters.reference import Reference
from pytest_affine.contract.implementation import METHODS, Implementation
from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.mutants.catalogue import CATALOGUE
from pytest_affine.mutants.gate import NUMBERS
from pytest_affine.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]

FAMILIES = {
    "MAP": "map",
    "PLAN": "plan",
    "BATCH": "batch",
    "SCHED": "schedule",
    "DIGEST": "digest",
    "EXEC": "execute",
    "STATS": "stats",
    "ANALYZE": "analyze",
    "LAYOUT": "layout",
    "NAME": "name",
    "RESHARD": "reshard",
    "WIRE": "wire",
}
"""By family of requirements, the first word of its mutants' ids."""

FOR_THE_REFERENCE = ("internals", "unchecked")
"""Modules whose faults need internals of the reference; all others go with any implementation."""


def fault_of(mutant: Mutant) -> type[Implementation]:
    found: type[Implementation] = EntryPoint(mutant.id, mutant.fault, "").load()
    return found


def module_of(mutant: Mutant) -> str:
    return mutant.fault.partition(":")[0].rpartition(".")[2]


def test_ids_are_unique_and_begin_with_the_family_of_their_requirement() -> None:
    assert len({mutant.id for mutant in CATALOGUE}) == len(CATALOGUE)
    for mutant in CATALOGUE:
        first = FAMILIES[mutant.requirement.partition("-")[0]]
        assert re.fullmatch(rf"{first}(-[a-z0-9]+)+", mutant.id)


def test_mutants_are_in_the_order_of_the_manifest() -> None:
    order = [*REQUIREMENTS]
    places = [order.index(mutant.requirement) for mutant in CATALOGUE]
    assert places == sorted(places)


def test_every_requirement_but_those_that_are_numbers_has_a_mutant() -> None:
    assert {*REQUIREMENTS} - {*NUMBERS} == {mutant.requirement for mutant in CATALOGUE}


def test_the_origins_are_the_known_faults_and_all_of_them() -> None:
    page = (ROOT / "docs" / "faults.md").read_text("utf-8")
    known = re.findall(r"^\| (F\d\d) ", page, re.MULTILINE)
    assert len(known) > 30
    assert {mutant.origin for mutant in CATALOGUE} - {""} == {*known}


def test_no_fault_is_there_twice_for_one_requirement() -> None:
    assert len({(mutant.requirement, mutant.fault) for mutant in CATALOGUE}) == len(CATALOGUE)


def test_a_fault_is_a_class_whose_docstring_begins_with_the_sentence() -> None:
    for mutant in CATALOGUE:
        first = (inspect.getdoc(fault_of(mutant)) or "").partition("\n\n")[0]
        assert " ".join(first.split()) == mutant.sentence
        assert mutant.sentence.endswith(".")


def test_a_fault_goes_with_any_implementation_or_is_in_a_module_for_the_reference() -> None:
    for mutant in CATALOGUE:
        fault = fault_of(mutant)
        assert issubclass(fault, Implementation), mutant.id
        is_for_reference = module_of(mutant) in FOR_THE_REFERENCE
        assert issubclass(fault, Reference) == is_for_reference, mutant.id


def test_a_fault_that_goes_with_any_implementation_overrides_a_method_of_the_contract() -> None:
    for mutant in CATALOGUE:
        own = [kind for kind in fault_of(mutant).__mro__ if kind not in Reference.__mro__]
        is_for_reference = module_of(mutant) in FOR_THE_REFERENCE
        overridden = any(name in vars(kind) for kind in own for name in METHODS)
        assert overridden or is_for_reference, mutant.id


def test_faults_that_go_with_any_implementation_use_nothing_inside_the_reference() -> None:
    for module in {module_of(mutant) for mutant in CATALOGUE} - {*FOR_THE_REFERENCE}:
        text = (ROOT / f"pytest_affine/mutants/faults/{module}.py").read_text("utf-8")
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        imports = {node.module or "" for node in nodes}
        inside = {name for name in imports if name.startswith("pytest_affine.reference")}
        assert inside <= {"pytest_affine.reference.policies"}, module


def test_few_mutants_hang_as_each_takes_seconds() -> None:
    assert [mutant.id for mutant in CATALOGUE if mutant.hangs] == [
        "plan-visits-elements",
        "digest-refuses-before-the-exchange",
        "execute-skips-idle-ranks",
        "execute-loses-a-message",
        "execute-skips-ranks-without-elements",
        "execute-takes-any-group-for-the-world",
    ]
