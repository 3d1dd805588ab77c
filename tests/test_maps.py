import copy
import dataclasses
import json
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_affine import validation
from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import (
    MAP_FORMAT_VERSION,
    AffinePiece,
    Padding,
    ParamAffineMap,
    maps_from_dict,
    maps_to_dict,
)

unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

# Columns 0 and 1 of a (2, 3) tensor at location 0; column 2 and a padding column at location 1.
COLUMNS = ParamAffineMap(
    (2, 3),
    {0: (2, 2), 1: (2, 2)},
    {
        0: [AffinePiece((2, 2), 0, (3, 1), 0, (2, 1), (0,))],
        1: [AffinePiece((2, 1), 2, (3, 1), 0, (2, 1), (1,), 0.5)],
    },
    {1: [Padding((2, 1), 1, (2, 1))]},
)
COLUMNS_DICT: dict[str, Any] = {
    "logical_shape": [2, 3],
    "ranks": {
        "0": {
            "shard_shape": [2, 2],
            "pieces": [
                {"shape": [2, 2], "source": [0, [3, 1]], "dest": [0, [2, 1]], "locations": [0]}
            ],
        },
        "1": {
            "shard_shape": [2, 2],
            "pieces": [
                {
                    "shape": [2, 1],
                    "source": [2, [3, 1]],
                    "dest": [0, [2, 1]],
                    "locations": [1],
                    "scale": 0.5,
                }
            ],
            "padding": [{"shape": [2, 1], "dest": [1, [2, 1]]}],
        },
    },
}


def refuses(message: str) -> Any:
    return pytest.raises(InvalidMapError, match=f"^{re.escape(message)}$")


def piece(**changes: Any) -> AffinePiece:
    fields: dict[str, Any] = {
        "shape": (2,),
        "full_offset": 0,
        "full_strides": (1,),
        "shard_offset": 0,
        "shard_strides": (1,),
        "locations": (0,),
    }
    return AffinePiece(**{**fields, **changes})


def test_a_piece_stores_plain_tuples_with_its_locations_sorted_and_once() -> None:
    made = AffinePiece([2], 0, [1], 0, [1], [2, 0, 2], 1)  # type: ignore[arg-type]
    assert made == AffinePiece((2,), 0, (1,), 0, (1,), (0, 2), 1.0)
    assert type(made.scale) is float
    assert hash(made) == hash(piece(locations=(0, 2)))


@pytest.mark.parametrize(("shape", "count"), [((2, 3), 6), ((), 1), ((4, 0), 0)])
def test_blocks_count_their_elements(shape: tuple[int, ...], count: int) -> None:
    strides = (1,) * len(shape)
    assert piece(shape=shape, full_strides=strides, shard_strides=strides).num_elements == count
    assert Padding(shape, 0, strides).num_elements == count


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": [2.5]}, "shape[0] must be an integer, got 2.5"),
        ({"shape": 2}, "shape must be a sequence of integers, got 2"),
        ({"full_offset": True}, "full_offset must be an integer, got True"),
        ({"full_offset": 0.0}, "full_offset must be an integer, got 0.0"),
        ({"shard_offset": "0"}, "shard_offset must be an integer, got '0'"),
        ({"full_strides": [None]}, "full_strides[0] must be an integer, got None"),
        ({"shard_strides": "1"}, "shard_strides must be a sequence of integers, got '1'"),
        ({"locations": [0, False]}, "locations[1] must be an integer, got False"),
        ({"scale": True}, "scale must be a number, got True"),
        ({"scale": "2"}, "scale must be a number, got '2'"),
        (
            {"full_strides": (1, 1)},
            "full_strides must have one stride per axis of shape (2,), got (1, 1)",
        ),
        (
            {"shard_strides": ()},
            "shard_strides must have one stride per axis of shape (2,), got ()",
        ),
    ],
)
def test_a_piece_refuses_a_field_of_the_wrong_type_or_length(
    changes: dict[str, Any], message: str
) -> None:
    with refuses(message):
        piece(**changes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (((1.5,), 0, (1,)), "shape[0] must be an integer, got 1.5"),
        (((1,), None, (1,)), "shard_offset must be an integer, got None"),
        (((1,), 0, 1), "shard_strides must be a sequence of integers, got 1"),
        (((1,), 0, ()), "shard_strides must have one stride per axis of shape (1,), got ()"),
    ],
)
def test_padding_refuses_a_field_of_the_wrong_type_or_length(
    fields: tuple[Any, Any, Any], message: str
) -> None:
    with refuses(message):
        Padding(*fields)


def test_constructors_leave_the_rules_of_a_map_to_validate() -> None:
    bad = piece(full_offset=-1, scale=0.0, locations=())
    assert ParamAffineMap((-4,), {0: (9,)}, {0: [bad]}).pieces(0) == (bad,)


def test_equal_maps_are_equal_whatever_the_order_and_kind_of_their_mappings() -> None:
    shapes, pieces = {0: (2,), 1: (2,)}, {0: [piece()], 1: [piece(full_offset=2)]}
    one = ParamAffineMap((4,), shapes, pieces, {1: [Padding((0,), 0, (1,))]})
    other = ParamAffineMap(
        [4],
        [(1, [2]), (0, [2])],
        dict(reversed(pieces.items())),
        [(1, (Padding((0,), 0, (1,)),)), (0, ())],
    )
    assert one == other
    assert hash(one) == hash(other)


def test_locations_without_pieces_are_part_of_a_map() -> None:
    map_ = ParamAffineMap((2,), {3: (2,), 1: (0,)}, {3: [piece()]})
    assert map_.locations == (1, 3)
    assert map_.pieces_by_location == ((1, ()), (3, (piece(),)))
    assert map_ == ParamAffineMap((2,), {3: (2,), 1: (0,)}, {3: [piece()], 1: []})


def test_a_map_answers_what_each_location_holds() -> None:
    assert COLUMNS.num_elements == 6
    assert COLUMNS.shard_shape(1) == (2, 2)
    assert COLUMNS.shard_size(1) == 4
    assert COLUMNS.pieces(0) == (AffinePiece((2, 2), 0, (3, 1), 0, (2, 1), (0,)),)
    assert COLUMNS.padding(0) == ()
    assert COLUMNS.padding(1) == (Padding((2, 1), 1, (2, 1)),)


def test_an_unknown_location_is_refused_with_the_known_ones() -> None:
    with refuses("no location 2 in this map; it has [0, 1]"):
        COLUMNS.shard_size(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, {}, {}), "logical_shape must be a sequence of integers, got 4"),
        (((4.0,), {}, {}), "logical_shape[0] must be an integer, got 4.0"),
        (((4,), {0: (True,)}, {}), "shard_shapes[0][0] must be an integer, got True"),
        (((4,), {"0": (4,)}, {}), "a location of shard_shapes must be an integer, got '0'"),
        (((4,), [(0, (4,)), (0, (4,))], {}), "shard_shapes names location 0 twice"),
        (
            ((4,), 0, {}),
            "shard_shapes must be a mapping by location or (location, value) pairs, got 0",
        ),
        (
            ((4,), {1: (4,), 0: ()}, {2: []}),
            "pieces_by_location names location 2, which has no shard shape; "
            "those that have one: [0, 1]",
        ),
        (
            ((4,), {0: (4,)}, {}, {7: []}),
            "padding_by_location names location 7, which has no shard shape; "
            "those that have one: [0]",
        ),
        (((4,), {0: (4,)}, {0: ["p"]}), "pieces_by_location[0] must hold AffinePieces, got 'p'"),
        (((4,), {0: (4,)}, {0: None}), "pieces_by_location[0] must hold AffinePieces, got None"),
        (
            ((4,), {0: (4,)}, {}, {0: [piece()]}),
            f"padding_by_location[0] must hold Paddings, got {piece()!r}",
        ),
    ],
)
def test_a_map_refuses_a_field_of_the_wrong_type(arguments: tuple[Any, ...], message: str) -> None:
    with refuses(message):
        ParamAffineMap(*arguments)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda map_: pickle.loads(pickle.dumps(map_))])
def test_a_map_survives_copying_and_pickling(copied: Callable[[Any], Any]) -> None:
    assert copied(COLUMNS) == COLUMNS


def test_a_map_is_frozen_and_can_be_replaced_field_by_field() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        COLUMNS.logical_shape = (6,)  # type: ignore[misc]
    assert dataclasses.replace(COLUMNS, padding_by_location=()).padding(1) == ()


def test_validate_hands_the_map_to_the_validator(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[ParamAffineMap] = []
    monkeypatch.setattr(validation, "validate_map", judged.append)
    COLUMNS.validate()
    assert judged == [COLUMNS]


def test_a_map_with_padding_and_scale_is_written_as_json_says() -> None:
    assert COLUMNS.to_dict() == COLUMNS_DICT
    assert ParamAffineMap.from_dict(COLUMNS_DICT) == COLUMNS


def test_integer_location_keys_are_read_too() -> None:
    ranks = {int(location): rank for location, rank in COLUMNS_DICT["ranks"].items()}
    assert ParamAffineMap.from_dict({**COLUMNS_DICT, "ranks": ranks}) == COLUMNS


def test_a_scale_of_one_may_be_written_out() -> None:
    entry = copy.deepcopy(COLUMNS_DICT)
    entry["ranks"]["0"]["pieces"][0]["scale"] = 1
    assert ParamAffineMap.from_dict(entry) == COLUMNS


def without(entry: Any, *path: Any) -> Any:
    changed = copy.deepcopy(entry)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return changed


def with_value(entry: Any, value: Any, *path: Any) -> Any:
    changed = copy.deepcopy(entry)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return changed


PIECE = ("ranks", "1", "pieces", 0)
PADDING = ("ranks", "1", "padding", 0)


@pytest.mark.parametrize(
    ("path", "where", "others"),
    [
        (("logical_shape",), "map", ["ranks"]),
        (("ranks",), "map", ["logical_shape"]),
        (("ranks", "1", "shard_shape"), "map.ranks['1']", ["padding", "pieces"]),
        (("ranks", "1", "pieces"), "map.ranks['1']", ["padding", "shard_shape"]),
        ((*PIECE, "shape"), "map.ranks['1'].pieces[0]", ["dest", "locations", "scale", "source"]),
        ((*PIECE, "source"), "map.ranks['1'].pieces[0]", ["dest", "locations", "scale", "shape"]),
        ((*PIECE, "dest"), "map.ranks['1'].pieces[0]", ["locations", "scale", "shape", "source"]),
        ((*PIECE, "locations"), "map.ranks['1'].pieces[0]", ["dest", "scale", "shape", "source"]),
        ((*PADDING, "shape"), "map.ranks['1'].padding[0]", ["dest"]),
        ((*PADDING, "dest"), "map.ranks['1'].padding[0]", ["shape"]),
    ],
)
def test_a_missing_key_is_named(path: tuple[Any, ...], where: str, others: list[str]) -> None:
    with refuses(f"{where} lacks the key {path[-1]!r}; it has {others}"):
        ParamAffineMap.from_dict(without(COLUMNS_DICT, *path))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("logical_shape",), 6, "map.logical_shape must be a JSON array, got 6"),
        (("logical_shape",), [2, "3"], "logical_shape[1] must be an integer, got '3'"),
        (("ranks",), [], "map.ranks must be a JSON object, got []"),
        (("ranks", "1"), 5, "map.ranks['1'] must be a JSON object, got 5"),
        (("ranks", "x"), {}, "map.ranks must have locations (0, 1, ...) as keys, got 'x'"),
        (("ranks", -1), {}, "map.ranks must have locations (0, 1, ...) as keys, got -1"),
        (("ranks", 1), COLUMNS_DICT["ranks"]["1"], "map.ranks names location 1 twice"),
        (
            ("ranks", "1", "shard_shape"),
            "2",
            "map.ranks['1'].shard_shape must be a JSON array, got '2'",
        ),
        (("ranks", "1", "shard_shape"), [2.0], "shard_shapes[1][0] must be an integer, got 2.0"),
        (("ranks", "1", "pieces"), {}, "map.ranks['1'].pieces must be a JSON array, got {}"),
        (PIECE, 3, "map.ranks['1'].pieces[0] must be a JSON object, got 3"),
        (
            (*PIECE, "shape"),
            [2, True],
            "map.ranks['1'].pieces[0]: shape[1] must be an integer, got True",
        ),
        (
            (*PIECE, "source"),
            [2],
            "map.ranks['1'].pieces[0].source must be [offset, [strides]], got [2]",
        ),
        (
            (*PIECE, "source"),
            [2.0, [3, 1]],
            "map.ranks['1'].pieces[0]: full_offset must be an integer, got 2.0",
        ),
        (
            (*PIECE, "dest"),
            [0, [2]],
            "map.ranks['1'].pieces[0]: "
            "shard_strides must have one stride per axis of shape (2, 1), got (2,)",
        ),
        ((*PIECE, "dest"), 0, "map.ranks['1'].pieces[0].dest must be a JSON array, got 0"),
        (
            (*PIECE, "locations"),
            1,
            "map.ranks['1'].pieces[0].locations must be a JSON array, got 1",
        ),
        ((*PIECE, "scale"), None, "map.ranks['1'].pieces[0]: scale must be a number, got None"),
        (("ranks", "1", "padding"), None, "map.ranks['1'].padding must be a JSON array, got None"),
        (
            (*PADDING, "dest"),
            [1, 2],
            "map.ranks['1'].padding[0]: shard_strides must be a sequence of integers, got 2",
        ),
    ],
)
def test_a_wrong_type_in_json_is_named(path: tuple[Any, ...], value: Any, message: str) -> None:
    with refuses(message):
        ParamAffineMap.from_dict(with_value(COLUMNS_DICT, value, *path))


def test_json_that_is_no_map_is_refused() -> None:
    with refuses("map must be a JSON object, got None"):
        ParamAffineMap.from_dict(None)


ENVELOPE = {"version": MAP_FORMAT_VERSION, "params": {"weight": COLUMNS_DICT}}


def test_an_envelope_holds_its_version_and_the_maps_by_name() -> None:
    assert ENVELOPE["version"] == 1
    assert maps_to_dict({"weight": COLUMNS}) == ENVELOPE
    assert maps_from_dict(ENVELOPE) == {"weight": COLUMNS}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], "envelope must be a JSON object, got []"),
        ({"params": {}}, "envelope lacks the key 'version'; it has ['params']"),
        ({"version": 1}, "envelope lacks the key 'params'; it has ['version']"),
        ({"version": 2, "params": {}}, "envelope.version is 2; the only known version is 1"),
        ({"version": 0, "params": {}}, "envelope.version is 0; the only known version is 1"),
        ({"version": "1", "params": {}}, "envelope.version must be an integer, got '1'"),
        ({"version": 1.0, "params": {}}, "envelope.version must be an integer, got 1.0"),
        ({"version": True, "params": {}}, "envelope.version must be an integer, got True"),
        ({"version": 1, "params": []}, "envelope.params must be a JSON object, got []"),
        ({"version": 1, "params": {5: {}}}, "envelope.params must have names as keys, got 5"),
        (
            {"version": 1, "params": {"w": {"ranks": {}}}},
            "envelope.params['w']: map lacks the key 'logical_shape'; it has ['ranks']",
        ),
    ],
)
def test_a_wrong_envelope_is_refused(entry: object, message: str) -> None:
    with refuses(message):
        maps_from_dict(entry)


numbers = st.integers(0, 2**60)


@st.composite
def any_blocks(draw: st.DrawFn, kind: str) -> Any:
    shape = draw(st.lists(numbers, max_size=3))
    strides = st.lists(numbers, min_size=len(shape), max_size=len(shape))
    if kind == "padding":
        return Padding(tuple(shape), draw(numbers), tuple(draw(strides)))
    scale = draw(st.floats(allow_nan=False, allow_infinity=False))
    holders = draw(st.lists(st.integers(0, 5)))
    full, shard = (draw(numbers), draw(strides)), (draw(numbers), draw(strides))
    return AffinePiece(shape, *full, *shard, holders, scale)  # type: ignore[arg-type]


@st.composite
def any_maps(draw: st.DrawFn) -> ParamAffineMap:
    """Maps of the right types, most of which break every rule."""
    locations = draw(st.lists(st.integers(0, 12), max_size=3, unique=True))
    shapes = st.lists(numbers, max_size=3)
    pieces, padding = (st.lists(any_blocks(kind), max_size=2) for kind in ("piece", "padding"))
    return ParamAffineMap(
        draw(shapes),
        {location: draw(shapes) for location in locations},
        {location: draw(pieces) for location in locations},
        {location: draw(padding) for location in locations},
    )


@unhurried
@given(any_maps(), any_maps())
def test_json_and_back_is_the_identity(one: ParamAffineMap, other: ParamAffineMap) -> None:
    maps = {"one": one, "other": other}
    assert maps_from_dict(json.loads(json.dumps(maps_to_dict(maps)))) == maps
