"""Which mutants there are, and which are asked for."""

import re

import pytest

from pytest_affine.mutants import Mutant
from pytest_affine.mutants.catalogue import CATALOGUE
from pytest_affine.mutants.listing import MutantListError, chosen_mutants, known_mutants

LISTS = """
from pytest_affine.mutants import Mutant

def mutant(id, requirement="PLAN-TILE", **more):
    return Mutant(id=id, requirement=requirement, sentence="Wrong.", fault="m:F", **more)

GOOD = [mutant("mine-drops-one"), mutant("mine-drops-two")]
TWICE = [mutant("mine-drops-one"), mutant("mine-drops-one")]
STRANGE = [mutant("mine-drops-one", "PLAN-TIDY")]
ALSO_STRANGE = [mutant("mine-drops-one", also=("PLAN-TIDY",))]
ROWS = ["mine-drops-one"]
NUMBER = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with lists of mutants, as the search path."""
    (tmp_path / "mutant_lists.py").write_text(LISTS)
    monkeypatch.syspath_prepend(tmp_path)
    yield [str(tmp_path)]
    import sys

    sys.modules.pop("mutant_lists", None)


def ids(mutants):
    return [mutant.id for mutant in mutants]


def test_the_catalogue_is_known():
    assert known_mutants([], [])[: len(CATALOGUE)] == CATALOGUE


def test_a_list_that_is_asked_for_is_known_after_the_catalogue(folder):
    known = known_mutants(folder, ["mutant_lists:GOOD", "mutant_lists:GOOD"])
    assert ids(known[-2:]) == ["mine-drops-one", "mine-drops-two"]
    assert known[:-2] == known_mutants([], [])


def test_what_an_installed_package_registers_is_known(folder, tmp_path):
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pytest_affine.mutants]\nmine = mutant_lists:GOOD\n")
    assert ids(known_mutants([], []))[-2:] == ["mine-drops-one", "mine-drops-two"]
    # The same list, asked for by its name, is not taken twice.
    assert known_mutants(folder, ["mutant_lists:GOOD"]) == known_mutants([], [])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:GOOD", "mutants 'nowhere:GOOD' (nowhere:GOOD) cannot be had: ModuleNotFound"),
        ("mutant_lists:NUMBER", "cannot be had: TypeError: 'int' object is not iterable"),
        ("mutant_lists:ROWS", "must hold values of pytest_affine.mutants.Mutant, got 'mine-drops"),
        ("mutant_lists:TWICE", "2 mutants have the id 'mine-drops-one'; each needs its own"),
        ("mutant_lists:STRANGE", "mutant 'mine-drops-one' names 'PLAN-TIDY', which is no requi"),
        ("mutant_lists:ALSO_STRANGE", "names 'PLAN-TIDY', which is no requirement of the manif"),
    ],
)
def test_a_list_that_is_wrong_is_refused(folder, name, message):
    with pytest.raises(MutantListError, match=re.escape(message)):
        known_mutants(folder, [name])


KNOWN = [
    Mutant(id=id_, requirement="PLAN-TILE", sentence="Wrong.", fault="m:F")
    for id_ in ("plan-drops-one", "plan-drops-two", "wire-is-slow")
]


def test_all_are_chosen_where_none_is_asked_for():
    assert chosen_mutants(KNOWN, []) == {id_: id_ for id_ in ids(KNOWN)}


def test_those_that_are_asked_for_are_chosen_with_what_asks_for_them(folder):
    known = [*KNOWN, *known_mutants(folder, ["mutant_lists:GOOD"])[-2:]]
    assert chosen_mutants(known, ["plan-drops-two", "mutant_lists:GOOD"]) == {
        "plan-drops-two": "plan-drops-two",
        "mine-drops-one": "mutant_lists:GOOD",
        "mine-drops-two": "mutant_lists:GOOD",
    }


def test_an_unknown_id_is_refused_with_the_closest_ones():
    message = (
        "unknown mutant 'plan-drop-two'; there are 3, of which the closest are plan-drops-two, "
        "plan-drops-one; or give module:attribute"
    )
    with pytest.raises(MutantListError, match=message):
        chosen_mutants(KNOWN, ["plan-drop-two"])


def test_an_id_like_no_other_is_refused_without_a_hint():
    with pytest.raises(MutantListError, match="'xyz'; there are 3; or give module:attribute"):
        chosen_mutants(KNOWN, ["xyz"])
