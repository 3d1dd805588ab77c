"""What `invalid_maps` draws: maps that break the rule that they name, and no other."""

import math
import pickle
import re

import pytest
from finding import EXAMPLES, found, smallest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_affine import truth
from pytest_affine.builders import contiguous_split_map
from pytest_affine.errors import InvalidMapError, UnsupportedLayoutError
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.reference.planner import plan_transfer
from pytest_affine.strategies import MAP_RULES, InvalidMap, invalid_maps, maps
from pytest_affine.strategies.damages import DAMAGES


def rules_broken(map_):
    return {problem.rule for problem in truth.map_problems(map_)}


@pytest.mark.parametrize("rule", MAP_RULES)
@settings(EXAMPLES)
@given(data=st.data())
def test_the_rule_that_is_named_is_broken_and_no_other(rule, data):
    invalid = data.draw(invalid_maps(rules=[rule]))
    assert invalid.rule == rule
    assert rules_broken(invalid.map_) == {rule}
    with pytest.raises(InvalidMapError, match=rule):
        invalid.map_.validate()


@settings(EXAMPLES)
@given(st.data())
def test_an_invalid_map_is_never_planned_whichever_side_it_is(data):
    invalid = data.draw(invalid_maps(max_elements=60)).map_
    good = data.draw(maps(logical_shape=[max(0, extent) for extent in invalid.logical_shape]))
    for pair in ((invalid, good), (good, invalid)):
        with pytest.raises((InvalidMapError, UnsupportedLayoutError)):
            plan_transfer(*pair)


# Rows 0 and 1 on location 0, row 2 on location 2, which has a row of padding too.
PADDED = ParamAffineMap(
    (3, 2),
    {0: (2, 2), 2: (2, 2)},
    {
        0: [AffinePiece((2, 2), 0, (2, 1), 0, (2, 1), (0,))],
        2: [AffinePiece((1, 2), 4, (2, 1), 0, (2, 1), (2,))],
    },
    {2: [Padding((1, 2), 2, (2, 1))]},
)
SHARED = ParamAffineMap(
    (2,), {0: (2,), 1: (2,)}, {at: [AffinePiece((2,), 0, (1,), 0, (1,), (0, 1))] for at in (0, 1)}
)


def damages(map_, rule):
    return [damage.text for way in DAMAGES[rule] for damage in way(map_)]


def test_the_ways_to_break_map_cover():
    assert damages(PADDED, "MAP-COVER") == [
        "the full tensor is (4, 2), was (3, 2)",
        "the full tensor is (2, 2), was (3, 2)",
        "what exactly the locations (0,) hold has become padding",
        "what exactly the locations (2,) hold has become padding",
    ]


def test_the_ways_to_break_map_tile():
    assert damages(PADDED, "MAP-TILE") == [
        "the shard of location 0 has 5 elements, had 4",
        "the shard of location 0 has 3 elements, had 4",
        "the shard of location 2 has 5 elements, had 4",
        "the shard of location 2 has 3 elements, had 4",
        "piece 0 of location 0 is at 1, was at 0",
        "piece 0 of location 2 is at 1, was at 0",
        "piece 0 of location 0 has the strides (3, 1) in its shard, had (2, 1)",
        "piece 0 of location 0 has the strides (1, 1) in its shard, had (2, 1)",
        "piece 0 of location 0 has the strides (2, 2) in its shard, had (2, 1)",
        "piece 0 of location 0 has the strides (2, 0) in its shard, had (2, 1)",
        "piece 0 of location 2 has the strides (2, 2) in its shard, had (2, 1)",
        "piece 0 of location 2 has the strides (2, 0) in its shard, had (2, 1)",
        "the first element of piece 0 of location 0 is padding too",
        "the first element of piece 0 of location 2 is padding too",
        "padding 0 of location 2 is gone",
        "padding 0 of location 2 is at 3, was at 2",
    ]


def test_the_ways_to_break_map_hold():
    assert damages(SHARED, "MAP-HOLD") == [
        "piece 0 of location 0 names the locations (1,), named (0, 1)",
        "piece 0 of location 0 names the locations (0,), named (0, 1)",
        "piece 0 of location 0 names the locations (0, 1, 2), named (0, 1)",
        "piece 0 of location 1 names the locations (1,), named (0, 1)",
        "piece 0 of location 1 names the locations (0,), named (0, 1)",
        "piece 0 of location 1 names the locations (0, 1, 2), named (0, 1)",
        "location 0 holds what is in its piece 0 once more, behind the rest",
        "location 1 holds what is in its piece 0 once more, behind the rest",
        "location 2 holds what is in piece 0 of location 0 too, which no other piece says",
        "location 2 holds what is in piece 0 of location 1 too, which no other piece says",
        "piece 0 of location 0, which others hold too, has the scale 2.0, had 1.0",
        "piece 0 of location 1, which others hold too, has the scale 2.0, had 1.0",
    ]


def test_the_ways_to_break_map_scale():
    assert damages(contiguous_split_map((2,), [2], 0), "MAP-SCALE") == [
        "what exactly the locations (0,) hold has the scale 0.0",
        "what exactly the locations (0,) hold has the scale inf",
        "what exactly the locations (0,) hold has the scale -inf",
        "what exactly the locations (0,) hold has the scale nan",
        "full_offset of piece 0 of location 0 is -1, was 0",
        "shard_offset of piece 0 of location 0 is -1, was 0",
        "shape of piece 0 of location 0 is (-3,), was (2,)",
        "full_strides of piece 0 of location 0 is (-2,), was (1,)",
        "shard_strides of piece 0 of location 0 is (-2,), was (1,)",
        "the full tensor is (-2,), was (2,)",
        "the shard of location 0 is (-3,), was (2,)",
    ]


@pytest.mark.parametrize("map_", [PADDED, SHARED], ids=["padded", "shared"])
@pytest.mark.parametrize("rule", MAP_RULES)
def test_every_way_breaks_the_rule_and_no_other(map_, rule):
    for way in DAMAGES[rule]:
        for damage in way(map_):
            assert rules_broken(damage.make()) == {rule}, damage.text


def test_what_was_done_is_what_the_words_say():
    moved, *_ = [d for d in DAMAGES["MAP-TILE"][1](PADDED) if "location 2 is at 1" in d.text]
    (piece,) = moved.make().pieces(2)
    assert piece == AffinePiece((1, 2), 4, (2, 1), 1, (2, 1), (2,))
    copied = next(DAMAGES["MAP-HOLD"][1](SHARED)).make()
    assert copied.shard_shape(0) == (4,)
    assert copied.pieces(0)[1] == AffinePiece((2,), 0, (1,), 2, (1,), (0, 1))


WORDS = {
    "MAP-COVER": ("^the full tensor is", "has become padding$"),
    "MAP-TILE": (
        r"^the shard of .* elements, had",
        r"^piece .* is at \d+, was",
        r"in its shard, had",
        r"is padding too$",
        r"^padding .* is gone$",
        r"^padding .* is at",
    ),
    "MAP-HOLD": (r"names the locations", r"once more", r"which no other piece says$", r"others"),
    "MAP-SCALE": (r"has the scale", r"^(shape|full_|shard_)", r"^the (full tensor|shard of) .*-"),
}


@pytest.mark.parametrize("rule", MAP_RULES)
def test_every_way_is_drawn(rule):
    assert len(WORDS[rule]) == len(DAMAGES[rule])
    for words in WORDS[rule]:
        assert found(invalid_maps(rules=[rule]), lambda bad, w=words: re.search(w, bad.change))


def test_maps_that_no_builder_makes_are_broken_too():
    assert found(
        invalid_maps(kinds=["tiled_boxes"], rules=["MAP-HOLD"]),
        lambda bad: any(
            block.shard_offset == 0 for _, held in bad.map_.padding_by_location for block in held
        ),
    )


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("MAP-COVER", "the full tensor is (2,), was ()"),
        ("MAP-TILE", "the shard of location 0 has 2 elements, had 1"),
        ("MAP-HOLD", "piece 0 of location 0 names the locations (), named (0,)"),
        ("MAP-SCALE", "what exactly the locations (0,) hold has the scale 0.0"),
    ],
)
def test_invalid_maps_shrink_to_a_scalar_on_one_location(rule, change):
    invalid = smallest(invalid_maps(), lambda bad: bad.rule == rule)
    assert invalid.change == change
    assert [len(held) for _, held in invalid.map_.pieces_by_location] == [1]


@settings(EXAMPLES)
@given(invalid_maps(logical_shape=[2, 3], max_locations=2, padding=False, rules=["MAP-HOLD"]))
def test_invalid_maps_keep_to_the_options(invalid):
    assert invalid.rule == "MAP-HOLD"
    assert invalid.map_.logical_shape == (2, 3)
    assert set(invalid.map_.locations) <= {0, 1, 2}
    assert invalid.map_.padding_by_location == ()


def test_an_invalid_map_is_a_value():
    invalid = InvalidMap(SHARED, "MAP-HOLD", "nothing")
    assert pickle.loads(pickle.dumps(invalid)) == invalid


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rules": ["MAP-TRIP"]}, r"rules must be some of MAP-COVER, .*, got \['MAP-TRIP'\]"),
        ({"rules": []}, r"rules must be some of MAP-COVER, .*, got \[\]"),
        ({"logical_shape": [2, 0]}, r"logical_shape must have an element, got \(2, 0\)"),
        ({"kinds": ["split"]}, r"kinds must be some of"),
        ({"max_locations": 0}, r"max_locations must be 1 or more, got 0"),
    ],
)
def test_bad_options_are_refused_before_anything_is_drawn(options, message):
    with pytest.raises(ValueError, match=message):
        invalid_maps(**options)


def test_no_number_is_among_the_bad_scales_only_where_one_location_holds():
    scales = {
        piece.scale
        for damage in DAMAGES["MAP-SCALE"][0](SHARED)
        for _, held in damage.make().pieces_by_location
        for piece in held
    }
    assert scales == {0.0, math.inf, -math.inf}
