"""Inventories as values, and what `match` tells of names that do not fit."""

import json
import re

import pytest

from pytest_affine.errors import AffineTransferError, InvalidMapError
from pytest_affine.layouts import Inventory, Layout, match

ONE, TWO_GROUPS, TWO_STAGES = Layout(), Layout(dp=2, ep=2), Layout(pp=2)


def inventory(layout, names, table=None):
    tensors = {at: [(name, (2,), "float32") for name in held] for at, held in names.items()}
    return Inventory(layout, tensors, table)


def same(layout, *names):
    return inventory(layout, dict.fromkeys(range(layout.num_ranks), names))


SOME = inventory(TWO_GROUPS, {0: ["experts.0.w1"], 1: ["experts.0.w1"]}, (1, 0))


def test_an_inventory_to_json_and_back_is_the_same():
    entry = json.loads(json.dumps(SOME.to_dict()))
    assert entry == {
        "layout": TWO_GROUPS.to_dict(),
        "tensors": {
            "0": [["experts.0.w1", [2], "float32"]],
            "1": [["experts.0.w1", [2], "float32"]],
        },
        "expert_table": [1, 0],
    }
    assert Inventory.from_dict(entry) == SOME


def test_an_absent_table_is_left_out():
    assert set(same(ONE, "norm").to_dict()) == {"layout", "tensors"}


def test_the_order_in_which_locations_were_filled_does_not_matter():
    one, other = (
        inventory(TWO_STAGES, {at: ["norm"] for at in order}) for order in ([0, 1], [1, 0])
    )
    assert one == other
    assert hash(one) == hash(other)


def test_a_location_that_is_not_listed_has_no_names():
    assert inventory(TWO_STAGES, {0: ["a", "b"]}).names(0) == ("a", "b")
    assert inventory(TWO_STAGES, {0: ["a", "b"]}).names(1) == ()


GOOD = ("norm", (2,), "float32")


@pytest.mark.parametrize(
    ("layout", "tensors", "table", "message"),
    [
        ({}, {}, None, "layout must be a Layout, got {}"),
        (ONE, {0: "norm"}, None, "tensors[0] must be a list of tensors, got 'norm'"),
        (ONE, {0: ["norm"]}, None, "tensors[0][0] must be (local name, shape, dtype), got 'norm'"),
        (
            ONE,
            {0: [GOOD, ("", (2,), "float32")]},
            None,
            "tensors[0][1].name must be a string that is not empty, got ''",
        ),
        (ONE, {0: [("a", 2, "int8")]}, None, "tensors[0][0].shape must be a sequence of integers"),
        (
            ONE,
            {0: [("a", (-1,), "int8")]},
            None,
            "tensors[0][0].shape must hold integers of 0 or more, got (-1,)",
        ),
        (
            ONE,
            {0: [("a", (), None)]},
            None,
            "tensors[0][0].dtype must be a string that is not empty, got None",
        ),
        (ONE, {0: [GOOD, GOOD]}, None, "tensors[0] names ['norm'] more than once"),
        (
            TWO_STAGES,
            {0: [GOOD], 2: [GOOD]},
            None,
            "locations of tensors must be ranks of the layout, 0 to 1, got [2]",
        ),
        (ONE, {0: [GOOD]}, [0.5], "expert_table[0] must be an integer, got 0.5"),
    ],
)
def test_an_inventory_that_is_none_is_refused_by_its_field(layout, tensors, table, message):
    with pytest.raises(InvalidMapError, match=re.escape(message)):
        Inventory(layout, tensors, table)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layout": {"tp": 0}}, "inventory.layout: tp must be 1 or more, got 0"),
        ({"tensors": []}, "inventory.tensors must be a JSON object, got []"),
        ({"tensors": {"first": []}}, "inventory.tensors must have locations (0, 1, ...) as keys"),
        ({"tensors": {"0": [1]}}, "inventory: tensors[0][0] must be (local name, shape, dtype)"),
        ({"table": [0]}, "inventory has unknown keys ['table']; the known ones are ['layout', 'te"),
    ],
)
def test_json_that_is_no_inventory_is_refused_by_its_field(changes, message):
    with pytest.raises(InvalidMapError, match=re.escape(message)):
        Inventory.from_dict({**SOME.to_dict(), **changes})


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            same(ONE, "layers.0.up"),
            same(ONE, "layers.0.up", "layers.1.up", "layers.2.up"),
            "the source lacks 2 of the tensors, such as layers.1.up; each must be on both sides",
        ),
        (
            same(ONE, "experts.0.w1", "experts.1.w1"),
            same(ONE, "experts.0.w1"),
            "the target lacks 1 of the tensors, such as experts.1.w1",
        ),
        (
            inventory(Layout(tp=2), {0: ["up", "down"], 1: ["up"]}),
            same(ONE, "up", "down"),
            "source: ranks 0 and 1 of stage 0 must have the same names, 'down' is on one of them",
        ),
        (
            same(ONE, "norm", "experts.0.w1"),
            inventory(TWO_GROUPS, {0: ["norm", "experts.0.w1"], 1: []}),
            "target: ranks 0 and 1 of stage 0 must have the same names, 'norm' is on one of them",
        ),
        (
            same(ONE, "layers.1.up"),
            same(ONE, "layers.0.up"),
            "source: layers of stage 0 must have local numbers from 0 on, without a gap, got [1]",
        ),
        (
            same(ONE, "a.experts.0.w", "a.experts.2.w"),
            same(ONE, "a.experts.0.w"),
            "source: a.experts.*.w of expert-parallel rank 0 must have local numbers from 0 on, "
            "without a gap, got [0, 2]",
        ),
        (
            inventory(TWO_GROUPS, {0: ["experts.0.w"], 1: ["experts.0.w"]}, (0, 1, 1)),
            same(ONE, "experts.0.w"),
            "source: experts.*.w: expert_table gives expert-parallel rank 1 2 experts, it has 1",
        ),
        (
            same(ONE, "experts.weight0", "local_experts.0.weight"),
            same(ONE, "experts.weight0"),
            "source: 'experts.weight0' and 'local_experts.0.weight' of location 0 are one tensor",
        ),
    ],
)
def test_names_that_do_not_fit_are_refused_with_the_rule(source, target, message):
    with pytest.raises(InvalidMapError, match=re.escape(message)):
        match(source, target)


def test_a_layout_of_which_a_rank_is_on_two_stages_is_refused():
    layout = Layout(tp=2, dp=2, pp=2, ep=2, etp=1, order="tp-pp-cp-ep-dp")
    with pytest.raises(AffineTransferError, match="puts rank 1 on pipeline stage 0 of the dense"):
        match(same(layout, "norm"), same(ONE, "norm"))


@pytest.mark.parametrize(
    "name", ["a.experts.1.w.weight", "a.local_experts.1.w.weight", "a.experts.w.weight1"]
)
def test_an_expert_may_be_spelled_in_several_ways(name):
    first = name.replace("1", "0")
    found = match(same(ONE, "a.experts.0.w.weight", "a.experts.1.w.weight"), same(ONE, first, name))
    assert found[0, name] == {(0, "a.experts.1.w.weight")}


@pytest.mark.parametrize(
    "name", ["conv.1.weight", "w13", "experts.w13", "my_layers.3.up", "shared_experts.2.up"]
)
def test_other_numbers_are_a_part_of_the_name(name):
    assert match(same(TWO_STAGES, name), same(ONE, name))[0, name] == {(0, name), (1, name)}
