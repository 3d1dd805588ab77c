import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from pytest_affine.builders import contiguous_split_map, replicated_map
from pytest_affine.errors import InvalidMapError
from pytest_affine.layouts import Expert, Layout, Parameter
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.sync import Sync, SyncParameter, canonical_json, content_id

SPLIT = contiguous_split_map((4,), [2, 2], 0)
WHOLE = replicated_map((4,), 1)
WEIGHT = SyncParameter(
    name="weight", source=SPLIT, target=WHOLE, source_dtype="bfloat16", target_dtype="float16"
)
BIAS = SyncParameter(name="bias", source=WHOLE, target=SPLIT)
SYNC = Sync(
    parameters=(WEIGHT, BIAS),
    endpoints=TransferEndpoints({0: 0, 1: 1}, {0: 2, 1: 0}),
    num_processes=3,
    budget=StagingBudget(64),
)
SYNC_DICT: dict[str, Any] = {
    "parameters": [
        {
            "name": "weight",
            "source": SPLIT.to_dict(),
            "target": WHOLE.to_dict(),
            "source_dtype": "bfloat16",
            "target_dtype": "float16",
        },
        {
            "name": "bias",
            "source": WHOLE.to_dict(),
            "target": SPLIT.to_dict(),
            "source_dtype": "float32",
            "target_dtype": "float32",
        },
    ],
    "endpoints": {"source": {"0": 0, "1": 1}, "target": {"0": 2, "1": 0}},
    "num_processes": 3,
    "budget": 64,
}


def refuses(message: str) -> Any:
    return pytest.raises(InvalidMapError, match=f"^{re.escape(message)}$")


def changed(**changes: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(SYNC_DICT)), **changes}


def changed_weight(**changes: Any) -> dict[str, Any]:
    parameters = json.loads(json.dumps(SYNC_DICT["parameters"]))
    parameters[0] = {**parameters[0], **changes}
    return changed(parameters=parameters)


def test_canonical_json_has_one_spelling_per_value() -> None:
    assert canonical_json({"b": [1, 2.5], "ä": None}) == r'{"b":[1,2.5],"\u00e4":null}'
    assert canonical_json({"b": 1, "a": 2}) == canonical_json({"a": 2, "b": 1})


def test_a_content_id_is_the_start_of_the_sha_256_of_the_canonical_json() -> None:
    # echo -n '{"a":1}' | sha256sum
    assert content_id({"a": 1}) == "015abd7f5cc5"


def test_a_sync_is_written_as_plain_json_and_read_back() -> None:
    assert SYNC.to_dict() == SYNC_DICT
    assert Sync.from_dict(json.loads(json.dumps(SYNC_DICT))) == SYNC


EXPERTS = Parameter(
    name="weight", shape=(4,), dtype="bfloat16", kind=Expert(num_experts=2, table=(1, 0))
)
KNOWN: dict[str, Any] = {
    "source_parameter": EXPERTS,
    "target_parameter": EXPERTS,
    "source_names": {1: "experts.0", 0: "experts.0"},
    "target_names": {0: "experts.1"},
}


@pytest.mark.parametrize("field", KNOWN)
def test_a_parameter_can_say_where_a_map_comes_from(field: str) -> None:
    parameter = replace(WEIGHT, **{field: KNOWN[field]})
    sync = replace(SYNC, parameters=(parameter, BIAS))
    entry = json.loads(json.dumps(sync.to_dict()))
    assert set(entry["parameters"][0]) == {*SYNC_DICT["parameters"][0], field}
    assert Sync.from_dict(entry) == sync
    assert sync.id != SYNC.id


@pytest.mark.parametrize("field", ["source_layout", "target_layout"])
def test_a_sync_can_say_which_layouts_its_locations_are_of(field: str) -> None:
    layouts: dict[str, Any] = {field: Layout(tp=2)}
    sync = replace(SYNC, **layouts)
    entry = json.loads(json.dumps(sync.to_dict()))
    assert set(entry) == {*SYNC_DICT, field}
    assert Sync.from_dict(entry) == sync
    assert sync.id != SYNC.id


def test_the_order_in_which_local_names_were_filled_does_not_matter() -> None:
    either = [{0: "a", 1: "b"}, {1: "b", 0: "a"}]
    one, other = (replace(WEIGHT, source_names=names) for names in either)  # type: ignore[arg-type]
    assert one == other
    assert hash(one) == hash(other)


def test_local_names_that_are_no_strings_are_refused() -> None:
    names: Any = {0: None}
    with refuses("target_names[0] must be a string, got None"):
        replace(WEIGHT, target_names=names)


def test_the_id_of_a_sync_that_says_no_more_is_as_before() -> None:
    # sha256sum of SYNC_DICT with its keys sorted and no spaces
    assert SYNC.id == "bf9be3b5eebf"


def test_the_id_of_a_sync_is_the_digest_of_its_json() -> None:
    assert SYNC.id == content_id(SYNC_DICT)
    assert Sync.from_dict(changed()).id == SYNC.id


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_id_does_not_depend_on_the_string_hash_seed(seed: str) -> None:
    program = (
        "import json, sys; from pytest_affine.sync import Sync; "
        "print(Sync.from_dict(json.load(sys.stdin)).id)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(SYNC_DICT),
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == SYNC.id


@pytest.mark.parametrize(
    "entry",
    [
        changed(parameters=SYNC_DICT["parameters"][::-1]),
        changed(parameters=SYNC_DICT["parameters"][:1]),
        changed(endpoints={"source": {"0": 0, "1": 1}, "target": {"0": 0, "1": 2}}),
        changed(num_processes=4),
        changed(budget=65),
        changed_weight(name="weights"),
        changed_weight(source_dtype="float16"),
        changed_weight(target_dtype="bfloat16"),
        changed_weight(source=contiguous_split_map((4,), [3, 1], 0).to_dict()),
        changed_weight(target=replicated_map((4,), 2).to_dict()),
    ],
    ids=lambda entry: content_id(entry),
)
def test_every_change_to_a_sync_changes_its_id(entry: dict[str, Any]) -> None:
    assert Sync.from_dict(entry).id != SYNC.id


def test_the_order_of_the_endpoints_does_not_change_the_id() -> None:
    endpoints = {"target": {"1": 0, "0": 2}, "source": {"1": 1, "0": 0}}
    assert Sync.from_dict(changed(endpoints=endpoints)).id == SYNC.id


def test_a_list_of_parameters_makes_an_equal_sync_with_the_default_budget() -> None:
    either: list[Any] = [[WEIGHT], (WEIGHT,)]
    made = [
        Sync(parameters=parameters, endpoints=SYNC.endpoints, num_processes=3)
        for parameters in either
    ]
    assert made[0] == made[1]
    assert made[0].budget == StagingBudget()
    assert hash(made[0]) == hash(made[1])


def test_two_parameters_of_one_name_are_refused() -> None:
    with refuses("sync.parameters names ['bias'] more than once"):
        Sync.from_dict(changed_weight(name="bias"))


@pytest.mark.parametrize(
    ("num_processes", "message"),
    [
        (0, "sync.num_processes must be 1 or more, got 0"),
        (-1, "sync.num_processes must be 1 or more, got -1"),
        (True, "sync.num_processes must be an integer, got True"),
        (2.0, "sync.num_processes must be an integer, got 2.0"),
    ],
)
def test_a_sync_needs_a_whole_number_of_processes(num_processes: Any, message: str) -> None:
    with refuses(message):
        Sync(parameters=(), endpoints=TransferEndpoints({}, {}), num_processes=num_processes)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (None, "sync must be a JSON object, got None"),
        (changed(parameters={}), "sync.parameters must be a JSON array, got {}"),
        (changed(parameters=[1]), "sync.parameters[0] must be a JSON object, got 1"),
        (changed(endpoints=[]), "sync.endpoints must be a JSON object, got []"),
        (changed(endpoints={"source": {}}), "endpoints lacks the key 'target'; it has ['source']"),
        (changed(num_processes="3"), "sync.num_processes must be an integer, got '3'"),
        (changed(budget=6.4), "sync.budget must be an integer, got 6.4"),
        (
            changed(bugdet=64),
            "sync has unknown keys ['bugdet']; the known ones: "
            "['parameters', 'endpoints', 'num_processes', 'budget', 'source_layout', "
            "'target_layout']",
        ),
        (changed_weight(name=1), "sync.parameters[0].name must be a string, got 1"),
        (changed_weight(source=1), "sync.parameters[0].source must be a JSON object, got 1"),
        (
            changed_weight(target={"ranks": {}}),
            "sync.parameters[0].target: map lacks the key 'logical_shape'; it has ['ranks']",
        ),
        (
            changed_weight(source_dtype=None),
            "sync.parameters[0].source_dtype must be a string, got None",
        ),
        (changed_weight(target_dtype=3), "sync.parameters[0].target_dtype must be a string, got 3"),
        (
            changed_weight(source_name={}),
            "sync.parameters[0] has unknown keys ['source_name']; the known ones: ['name', "
            "'source', 'target', 'source_dtype', 'target_dtype', 'source_parameter', "
            "'target_parameter', 'source_names', 'target_names']",
        ),
        (
            changed_weight(source_names=["w"]),
            "sync.parameters[0].source_names must be a JSON object, got ['w']",
        ),
        (
            changed_weight(target_names={"0": 3}),
            "sync.parameters[0].target_names[0] must be a string, got 3",
        ),
        (
            changed_weight(target_names={"first": "w"}),
            "sync.parameters[0].target_names must have locations (0, 1, ...) as keys, got 'first'",
        ),
        (
            changed_weight(source_parameter={"name": "w"}),
            "sync.parameters[0].source_parameter lacks the key 'shape'; it has ['name']",
        ),
        (changed(source_layout={"tp": 0}), "sync.source_layout: tp must be 1 or more, got 0"),
        (changed(target_layout=2), "sync.target_layout must be a JSON object, got 2"),
    ],
)
def test_a_wrong_sync_is_refused_with_the_field_named(entry: object, message: str) -> None:
    with refuses(message):
        Sync.from_dict(entry)


@pytest.mark.parametrize("key", list(SYNC_DICT))
def test_a_missing_key_of_a_sync_is_named(key: str) -> None:
    entry = changed()
    del entry[key]
    with refuses(f"sync lacks the key {key!r}; it has {sorted(entry)}"):
        Sync.from_dict(entry)


@pytest.mark.parametrize("key", list(SYNC_DICT["parameters"][0]))
def test_a_missing_key_of_a_parameter_is_named(key: str) -> None:
    entry = changed()
    del entry["parameters"][0][key]
    others = sorted(entry["parameters"][0])
    with refuses(f"sync.parameters[0] lacks the key {key!r}; it has {others}"):
        Sync.from_dict(entry)
