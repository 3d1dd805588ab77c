"""Describers and matchers with one fault each, and what is told of them."""

import pytest
from judging import Judge

from pytest_affine.contract.cases import Case
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.layouts import Cut, Expert, Flat, Fused, Layout, Parameter, Split, Vocab
from pytest_affine.layouts.kinds import Kind, attention_blocks

GRAINS = "10 rows over 3 ranks, unevenly (F03)"
FLAT = "a flat parameter on ranks that are not consecutive (F05)"
STRIDED = "an uneven strided shard (F06)"
COLUMNS = "columns 2 and 1 (F08)"
FEW_HEADS = "fewer KV heads than ranks (F09)"
QKV = "q, k and v of unequal heights (F10)"
GATE_UP = "gate and up (F11)"
NO_GATE_UP = "rows that are no gate and up (F11)"
SLOTS = "experts on the second of two ranks (F13)"
TABLE = "experts 0 and 3, 1 and 2 (F13)"
HALVES = "two halves, not two replicas (F14)"
PADDED = "a vocabulary of 5 rows, padded to 6 (F15)"
PADDED_MORE = "a vocabulary of 5 rows, padded to 8 (F15)"


def easy(layout: Layout, shape: tuple[int, ...], kind: Kind) -> Case:
    parameter = Parameter(name="weight", shape=shape, dtype="float32", kind=kind)
    detail = {"layout": layout.to_dict(), "parameter": parameter.to_dict()}
    return Case(name="easy", kind="layout", detail=detail)


ROWS = Split((Cut("tp", 0),))
HEADS = Fused(attention_blocks(heads=4, kv_heads=2, head_dim=1))

KNOWN = [
    ("RoundsSharesToGrains", GRAINS, easy(Layout(tp=3), (12,), Split(ROWS.cuts, uneven=True))),
    ("AssemblesInRankOrder", FLAT, easy(Layout(dp=2), (4,), Flat(0, 6))),
    (
        "CutsOuterBlocksByTheirOwnSizes",
        STRIDED,
        easy(Layout(tp=2, dp=2), (8,), Split((Cut("dp", 0, strided=True), Cut("tp", 0)))),
    ),
    ("KeepsRowStrides", COLUMNS, easy(Layout(tp=2), (4, 2), ROWS)),
    ("CutsThroughHeads", FEW_HEADS, easy(Layout(tp=2), (8, 1), HEADS)),
    ("CutsFusedInEqualChunks", QKV, easy(Layout(), (8, 1), HEADS)),
    ("ForgetsGateAndUp", GATE_UP, easy(Layout(), (4,), Fused(HEADS.blocks[1:]))),
    ("FindsGateAndUpInRows", NO_GATE_UP, easy(Layout(), (4, 1), ROWS)),
    ("TakesSlotsForExperts", SLOTS, easy(Layout(), (4, 1), Expert(num_experts=4))),
    (
        "IgnoresExpertTables",
        TABLE,
        easy(Layout(dp=2, ep=2), (4, 1), Expert(num_experts=4, table=(0, 0, 1, 1))),
    ),
    ("DeclaresReplicas", HALVES, easy(Layout(), (4,), Split((Cut("dp", 0),)))),
    ("TakesPaddingForRows", PADDED, easy(Layout(tp=2), (6, 1), Vocab(6))),
    ("TakesPaddingForRows", PADDED_MORE, easy(Layout(tp=2), (8, 1), Vocab(8))),
    ("ForgetsPaddingOfRows", PADDED, easy(Layout(tp=2), (6, 1), Vocab(6))),
]
"""A fault that real systems had, the smallest case that shows it, and one that hides it."""


@pytest.mark.parametrize(("fault", "case", "hidden_by"), KNOWN)
def test_a_known_fault_is_noticed_in_its_case_and_hidden_by_an_easy_one(
    judge: Judge, fault: str, case: str, hidden_by: Case
) -> None:
    judge.assert_notices(f"layout_faults:{fault}", "LAYOUT-DERIVE", case)
    outcome = judge.outcome(f"layout_faults:{fault}", "LAYOUT-DERIVE", hidden_by)
    assert outcome is Outcome.CONFORMANT


OTHERS = [
    ("layout_faults:CutsWhatDoesNotDivide", "LAYOUT-DERIVE", "10 rows over 4 ranks, evenly"),
    ("layout_faults:KeepsGroups", "LAYOUT-DERIVE", "groups that become blocks"),
    (
        "layout_faults:StartsFlatGroupsAnew",
        "LAYOUT-DERIVE",
        "a flat group's last parameter, over 2",
    ),
    (
        "layout_faults:IgnoresTheOrder",
        "LAYOUT-DERIVE",
        "experts, etp 2, ep 2, order ep-tp-dp-cp-pp",
    ),
    ("layout_faults:IgnoresTheOrder", "LAYOUT-DERIVE", "rows over dp and tp, order dp-tp-cp-ep-pp"),
    (
        "layout_faults:TakesTensorRanksForExperts",
        "LAYOUT-DERIVE",
        "experts, etp 1, ep 4, order tp-ep-dp-cp-pp",
    ),
    (
        "layout_faults:ForgetsTheSecondStage",
        "LAYOUT-DERIVE",
        "tied embeddings on the first and the last stage",
    ),
    ("layout_faults:GivesHeadsInTurn", "LAYOUT-DERIVE", "3 KV heads on 4 ranks"),
    ("layout_faults:FindsNoReplicas", "LAYOUT-DERIVE", "context-parallel replicas"),
    ("layout_faults:ScalesReplicas", "LAYOUT-DERIVE", "a norm, over 2"),
    (
        "layout_faults:RemembersBlocks",
        "LAYOUT-STATELESS",
        "three blocks, then 12 rows over 4 (F04)",
    ),
    ("layout_faults:RemembersByName", "LAYOUT-STATELESS", "one name, one shape, two kinds"),
    ("layout_faults:ForgetsTheShape", "LAYOUT-STATELESS", "one name, two shapes"),
    (
        "layout_faults:ForgetsTheOrder",
        "LAYOUT-STATELESS",
        "the same degrees in another order (F23)",
    ),
    ("layout_faults:ForgetsStages", "LAYOUT-STATELESS", "the same ranks on other stages (F23)"),
    (
        "layout_faults:RefusesSecondStages",
        "LAYOUT-STATELESS",
        "the same ranks on other stages (F23)",
    ),
    ("names:TakesLocalExpertsForGlobal", "NAME-ONE", "4 experts, 2 sources to 4 targets (F13)"),
    ("names:IgnoresExpertTables", "NAME-ONE", "experts 0 and 3, 1 and 2 (F13)"),
    ("names:TakesLocalLayersForGlobal", "NAME-ONE", "two stages to one"),
    ("names:MatchesByShape", "NAME-ONE", "one name on both sides"),
    ("names:FindsOneHolder", "NAME-ONE", "parts and replicas"),
    ("names:LooksAtItsOwnNumber", "NAME-ONE", "parts and replicas"),
    ("names:ConfusesBiases", "NAME-ONE", "one name on both sides"),
    ("names:IgnoresTheOrderOfRanks", "NAME-ONE", "expert-parallel ranks of another order"),
    ("names:CountsLayersAsStrings", "NAME-ONE", "12 layers, of which strings have another order"),
    ("names:IgnoresSurplus", "NAME-ONE", "the target lacks a bias"),
    ("names:LeavesOutWhatIsMissing", "NAME-ONE", "the source lacks a bias"),
    ("names:LeavesOutWhatIsMissing", "NAME-ONE", "one of two ranks lacks its part"),
    ("names:LeavesOutWhatIsMissing", "NAME-ONE", "a gap between local experts"),
]


@pytest.mark.parametrize(("fault", "requirement", "case"), OTHERS)
def test_a_fault_is_noticed_in_this_case(
    judge: Judge, fault: str, requirement: str, case: str
) -> None:
    judge.assert_notices(fault, requirement, case)


TEXTS = [
    (
        "layout_faults:CutsFusedInEqualChunks",
        "LAYOUT-DERIVE",
        QKV,
        "at (2, 0) of its shard rank 0 has element (4, 0), the map says element (2, 0)",
    ),
    (
        "layout_faults:DeclaresReplicas",
        "LAYOUT-DERIVE",
        HALVES,
        "rank 0 has a shard of (2,), not of (4,)",
    ),
    (
        "layout_faults:TakesPaddingForRows",
        "LAYOUT-DERIVE",
        PADDED,
        "the map is of (6, 1), the parameter of (5, 1)",
    ),
    (
        "layout_faults:ForgetsTheSecondStage",
        "LAYOUT-DERIVE",
        "tied embeddings on the first and the last stage",
        "the parameter is on ranks [0, 1, 6, 7], the map has locations [0, 1]",
    ),
    (
        "layout_faults:ScalesReplicas",
        "LAYOUT-DERIVE",
        "a norm, over 2",
        "pieces have the scales [0.5], wanted 1.0",
    ),
    (
        "layout_faults:CutsWhatDoesNotDivide",
        "LAYOUT-DERIVE",
        "10 rows over 4 ranks, evenly",
        "10 rows over 4 ranks, evenly: must be refused with AffineTransferError, but was accepted, "
        "giving a ParamAffineMap",
    ),
    (
        "names:TakesLocalExpertsForGlobal",
        "NAME-ONE",
        "4 experts, 2 sources to 4 targets (F13)",
        "'experts.0.w1' of target location 0 is a part of the same tensor as 'experts.0.w1' of 0, "
        "it was matched with 'experts.0.w1' of 0, 'experts.0.w1' of 1",
    ),
    (
        "names:LeavesOutWhatIsMissing",
        "NAME-ONE",
        "a gap between local layers",
        "a gap between local layers: must be refused with AffineTransferError, but was accepted, "
        "giving a dict",
    ),
]


@pytest.mark.parametrize(("fault", "requirement", "case", "text"), TEXTS)
def test_a_violation_says_what_is_where(
    judge: Judge, fault: str, requirement: str, case: str, text: str
) -> None:
    assert judge.violation(fault, requirement, case).splitlines()[0] == text


def test_a_map_that_depends_on_what_was_before_is_shown_beside_the_right_one(judge: Judge) -> None:
    name = "the same ranks on other stages (F23)"
    text = judge.violation("layout_faults:ForgetsStages", "LAYOUT-STATELESS", name)
    was, alone = text.splitlines()[0].split("; ")
    assert was.startswith("described after others, it is {'logical_shape': [4], 'ranks': {'0': {")
    assert alone.startswith("alone {'logical_shape': [4], 'ranks': {'2': {")


def test_a_refusal_that_depends_on_what_was_before_is_a_violation(judge: Judge) -> None:
    name = "the same ranks on other stages (F23)"
    text = judge.violation("layout_faults:RefusesSecondStages", "LAYOUT-STATELESS", name)
    refusal = "refused with AffineTransferError: stages must be (0,), got (1,)"
    assert text.startswith(f"described after others, it is {refusal}; alone {{")
