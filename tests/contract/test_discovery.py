import inspect
import re
import sys

import pytest

from pytest_affine import Implementation
from pytest_affine.contract.discovery import (
    DiscoveryError,
    find_implementation,
    known_implementations,
)
from pytest_affine.contract.implementation import METHODS, NotClaimedError, claims_of


def test_registered_names_are_known():
    assert {"deepspeed", "reference"} <= set(known_implementations())


def test_a_registered_implementation_is_found_by_name():
    from pytest_affine.adapters.reference import Reference

    assert find_implementation("reference") is Reference


def test_an_implementation_is_found_by_module_and_attribute(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "found_here.py").write_text(
        "import pytest_affine\nclass Mine(pytest_affine.Implementation): pass\n"
    )
    assert find_implementation("found_here:Mine", [str(tmp_path)]).__name__ == "Mine"


@pytest.mark.parametrize("name", ["referense", "module:", ":attribute", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    known = ", ".join(known_implementations())
    message = f"unknown implementation {name!r}; the known ones are {known}; or give module:attr"
    with pytest.raises(DiscoveryError, match=re.escape(message)):
        find_implementation(name)


def test_a_failing_import_is_told_with_its_error():
    message = r"'nowhere:Mine' \(nowhere:Mine\) cannot be imported: ModuleNotFoundError: No module"
    with pytest.raises(DiscoveryError, match=message):
        find_implementation("nowhere:Mine")


def test_what_is_no_implementation_is_refused():
    message = r"'json:dumps' \(json:dumps\) must be a subclass of pytest_affine.Implementation"
    with pytest.raises(DiscoveryError, match=message):
        find_implementation("json:dumps")


class Planner(Implementation):
    def plan_transfer(self, source, target, *, limits=None):
        return None

    def execute_transfers(self, *args, **options):
        return None


def test_overriding_claims_a_method_and_its_keywords_claim_options():
    claims = claims_of(Planner)
    assert claims == {
        "plan_transfer": ("limits",),
        "execute_transfers": ("budget", "group", "cast"),
    }


def test_nothing_overridden_claims_nothing():
    assert claims_of(Implementation) == {}


def test_the_life_of_an_implementation_is_no_claim():
    assert not {"start", "stop", "supports"} & set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_is_not_overridden_says_so(method):
    function = getattr(Implementation(), method)
    required = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    args = [None for p in required if p.kind is p.POSITIONAL_OR_KEYWORD]
    options = {p.name: None for p in required if p.kind is p.KEYWORD_ONLY}
    with pytest.raises(NotClaimedError, match=f"Implementation does not override {method}"):
        function(*args, **options)
