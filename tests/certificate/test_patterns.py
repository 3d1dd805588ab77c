import pytest

from pytest_affine.certificate.patterns import matches


@pytest.mark.parametrize(
    ("pattern", "text", "is_matched"),
    [
        ("PLAN-TILE", "PLAN-TILE", True),
        ("PLAN-TILE", "PLAN-TILES", False),
        ("", "", True),
        ("*", "", True),
        ("*", "anything [at all]\n", True),
        ("PLAN-*", "PLAN-TILE", True),
        ("PLAN-*", "MAP-TILE", False),
        ("*-TILE", "MAP-TILE", True),
        ("*-TILE", "MAP-TILES", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("a*bc*c", "abc", False),
        ("a.c", "abc", False),
        ("[a]*", "[a] b", True),
    ],
)
def test_a_star_stands_for_any_characters(pattern, text, is_matched):
    assert matches(pattern, text) is is_matched


def test_many_stars_take_no_time():
    assert not matches("*a" * 40 + "Z", "a" * 5000)
