"""Documents that a parser gives up on, or that hold what can't be printed, are told as such."""

import pytest

from pytest_affine.certificate.files import read_toml
from pytest_affine.certificate.shape import DocumentError, check_shape, read_json


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 100_000, '{"a": ' * 100_000])
def test_numbers_and_levels_beyond_all_limits_are_no_json(text):
    with pytest.raises(DocumentError, match=r"^c\.json is no whole JSON document: "):
        read_json(text, "c.json")


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = " + "[" * 100_000])
def test_numbers_and_levels_beyond_all_limits_are_no_toml(tmp_path, text):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(DocumentError, match=r"policy\.toml is no TOML: "):
        read_toml(path)


def test_half_a_character_is_refused():
    with pytest.raises(DocumentError, match="version holds half a character"):
        check_shape("1.0\ud800", {"type": "string"}, "version")


def test_what_is_no_number_is_within_no_bounds():
    with pytest.raises(DocumentError, match="max_refused must be 0 or more, got nan"):
        check_shape(float("nan"), {"type": "number", "minimum": 0, "maximum": 1}, "max_refused")
