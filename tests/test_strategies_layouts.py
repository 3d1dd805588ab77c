"""What is drawn of layouts, parameters and names: all that is promised, and nothing too large."""

import pytest
from finding import EXAMPLES, found, smallest
from hypothesis import given, settings

from pytest_affine.layouts import Expert, Inventory, Layout, Parameter, Split, Whole
from pytest_affine.strategies import (
    LAYOUT_KINDS,
    layout_cases,
    layout_sequences,
    layouts,
    name_cases,
    parameters,
    wrong_name_cases,
)

LAYOUTS = {
    "one rank": lambda layout: layout.num_ranks == 1,
    "16 ranks": lambda layout: layout.num_ranks == 16,
    "etp other than tp": lambda layout: layout.etp != layout.tp,
    "several of ep, etp and edp": lambda layout: layout.ep > 1 < layout.etp and layout.edp > 1,
    "stages first": lambda layout: layout.order.startswith("pp") and layout.pp > 1,
    "ep before tp": lambda layout: layout.order.index("ep") < layout.order.index("tp"),
    "context-parallel ranks": lambda layout: layout.cp > 1,
}


@pytest.mark.parametrize("promise", LAYOUTS)
def test_layouts_draw_every_degree_and_order(promise):
    assert found(layouts(), LAYOUTS[promise])


@EXAMPLES
@given(layouts(max_ranks=4))
def test_a_layout_has_no_more_ranks_than_asked_for(layout):
    assert layout.num_ranks <= 4


def test_layouts_shrink_to_one_rank_in_the_usual_order():
    assert smallest(layouts(), lambda layout: True) == Layout()
    assert smallest(layouts(), lambda layout: layout.ep > 1).num_ranks == 2


@pytest.mark.parametrize("kind", LAYOUT_KINDS)
def test_parameters_are_of_the_kinds_that_are_asked_for(kind):
    drawn = found(parameters(Layout(tp=2, dp=2), kinds=[kind], name="up"), lambda _: True)
    assert type(drawn.kind).__name__.lower() == kind
    assert drawn.name == "up"


PARAMETERS = {
    "on two stages": lambda drawn: len(drawn.stages) == 2,
    "experts by a table": lambda drawn: isinstance(drawn.kind, Expert) and drawn.kind.table,
    "experts that etp cuts": lambda drawn: (
        isinstance(drawn.kind, Expert) and drawn.kind.etp_dim is not None
    ),
    "uneven": lambda drawn: isinstance(drawn.kind, Split) and drawn.kind.uneven,
    "strided": lambda drawn: (
        isinstance(drawn.kind, Split) and any(cut.strided for cut in drawn.kind.cuts)
    ),
    "a scalar": lambda drawn: isinstance(drawn.kind, Whole) and drawn.shape == (),
    "without elements": lambda drawn: drawn.num_elements == 0,
}


@pytest.mark.parametrize("promise", PARAMETERS)
def test_parameters_draw_what_is_easily_forgotten(promise):
    layout = Layout(tp=2, dp=2, pp=2, ep=2, etp=1)
    assert found(parameters(layout), PARAMETERS[promise])


@settings(EXAMPLES)
@given(layout_sequences(max_ranks=2, kinds=["whole"]))
def test_a_sequence_is_of_two_or_three_parameters_of_one_name(case):
    sequence = case.detail["sequence"]
    assert len(sequence) in (2, 3)
    assert {entry["parameter"]["name"] for entry in sequence} == {"weight"}


def test_a_case_of_a_layout_shrinks_to_a_scalar_on_one_rank():
    case = smallest(layout_cases(), lambda case: True)
    assert Layout.from_dict(case.detail["layout"]) == Layout()
    drawn = Parameter.from_dict(case.detail["parameter"])
    assert (drawn.kind, drawn.shape) == (Whole(), ())


def inventory(case, side):
    return Inventory.from_dict(case.detail[side])


NAMES = {
    "experts that are not contiguous": lambda case: inventory(case, "source").expert_table,
    "two spellings": lambda case: (
        "local_experts" in str(case.detail["source"])
        and "local_experts" not in str(case.detail["target"])
        and "experts" in str(case.detail["target"])
    ),
    "other local numbers": lambda case: any(
        len({name for _, name in held + parts}) > 1 for held, parts in case.detail["matches"]
    ),
    "two dtypes": lambda case: (
        "bfloat16" in str(case.detail["source"]) and "bfloat16" not in str(case.detail["target"])
    ),
    "a rank without tensors": lambda case: (
        not all(held for _, held in inventory(case, "target").tensors)
    ),
}


@pytest.mark.parametrize("promise", NAMES)
def test_names_draw_what_local_names_hide(promise):
    assert found(name_cases(), NAMES[promise])


@pytest.mark.parametrize("wrong", ["source location", "target location", "lacks", "too many"])
def test_wrong_names_say_which_side_has_what_too_few_or_too_many(wrong):
    assert found(wrong_name_cases(), lambda case: wrong in case.detail["wrong"])


def test_options_that_mean_nothing_are_refused_when_the_strategy_is_made():
    with pytest.raises(ValueError, match="max_ranks must be 1 or more, got 0"):
        layouts(max_ranks=0)
    with pytest.raises(ValueError, match=r"kinds must be among \('whole', .*, got \['split_up'\]"):
        parameters(Layout(), kinds=["split_up"])
