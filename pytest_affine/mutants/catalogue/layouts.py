"""Mutants of the profile of layouts: describers and matchers."""

from __future__ import annotations

from pytest_affine.mutants.mutant import Mutant

__all__ = ["LAYOUTS"]

_DESCRIBERS = "pytest_affine.mutants.faults.layout_faults"
_MATCHERS = "pytest_affine.mutants.faults.names"


def _derives(id_: str, fault: str, sentence: str, origin: str = "") -> Mutant:
    return Mutant(
        id=f"layout-{id_}",
        requirement="LAYOUT-DERIVE",
        sentence=sentence,
        fault=f"{_DESCRIBERS}:{fault}",
        origin=origin,
    )


def _remembers(id_: str, fault: str, sentence: str, origin: str = "") -> Mutant:
    return Mutant(
        id=f"layout-{id_}",
        requirement="LAYOUT-STATELESS",
        sentence=sentence,
        fault=f"{_DESCRIBERS}:{fault}",
        origin=origin,
    )


def _matches(id_: str, fault: str, sentence: str, origin: str = "") -> Mutant:
    return Mutant(
        id=f"name-{id_}",
        requirement="NAME-ONE",
        sentence=sentence,
        fault=f"{_MATCHERS}:{fault}",
        origin=origin,
    )


LAYOUTS: tuple[Mutant, ...] = (
    _derives(
        "rounds-shares-to-grains",
        "RoundsSharesToGrains",
        "Rounds uneven shares down to a grain of 4.",
        "F03",
    ),
    _derives(
        "assembles-in-rank-order",
        "AssemblesInRankOrder",
        "Lays the intervals of a flat group end to end in the order of ranks.",
        "F05",
    ),
    _derives(
        "cuts-outer-blocks-by-their-own-sizes",
        "CutsOuterBlocksByTheirOwnSizes",
        "Cuts a strided shard out of each outer block by that block's own size.",
        "F06",
    ),
    _derives(
        "keeps-row-strides",
        "KeepsRowStrides",
        "Gives shards of columns the strides of the full tensor.",
        "F08",
    ),
    _derives(
        "cuts-through-heads",
        "CutsThroughHeads",
        "Cuts a raw interval of rows where there are fewer KV heads than ranks.",
        "F09",
    ),
    _derives(
        "cuts-fused-in-equal-chunks",
        "CutsFusedInEqualChunks",
        "Cuts fused queries, keys and values into equal chunks.",
        "F10",
    ),
    _derives(
        "forgets-gate-and-up",
        "ForgetsGateAndUp",
        "Cuts gate and up together as if they were one block of rows.",
        "F11",
    ),
    _derives(
        "finds-gate-and-up-in-rows",
        "FindsGateAndUpInRows",
        "Cuts plain rows as if they were gate and up.",
        "F11",
    ),
    _derives(
        "takes-slots-for-experts",
        "TakesSlotsForExperts",
        "Takes the number of an expert on its rank for its number in the model.",
        "F13",
    ),
    _derives(
        "ignores-expert-tables",
        "IgnoresExpertTables",
        "Takes experts to be contiguous, whatever the table says.",
        "F13",
    ),
    _derives(
        "declares-replicas",
        "DeclaresReplicas",
        "Declares what data-parallel ranks share to be whole on each.",
        "F14",
    ),
    _derives(
        "takes-padding-for-rows",
        "TakesPaddingForRows",
        "Describes a vocabulary that has its padding for rows.",
        "F15",
    ),
    _derives(
        "forgets-padding-of-rows",
        "ForgetsPaddingOfRows",
        "Leaves the padding of a vocabulary out of its shards.",
        "F15",
    ),
    _derives(
        "cuts-what-does-not-divide",
        "CutsWhatDoesNotDivide",
        "Cuts unevenly where parts must be equal and can't be.",
    ),
    _derives(
        "keeps-groups",
        "KeepsGroups",
        "Keeps the order of groups where a shard has its blocks end to end.",
    ),
    _derives(
        "starts-flat-groups-anew",
        "StartsFlatGroupsAnew",
        "Cuts a flat parameter as if its group began with it.",
    ),
    _derives(
        "ignores-the-order",
        "IgnoresTheOrder",
        "Numbers ranks in the usual order of axes, whatever the layout's.",
    ),
    _derives(
        "takes-tensor-ranks-for-experts",
        "TakesTensorRanksForExperts",
        "Cuts experts over the tensor-parallel ranks of the other parameters.",
    ),
    _derives(
        "forgets-the-second-stage",
        "ForgetsTheSecondStage",
        "Describes tied parameters on their first stage only.",
    ),
    _derives(
        "gives-heads-in-turn",
        "GivesHeadsInTurn",
        "Gives KV heads to ranks in turn where there are fewer heads than ranks.",
    ),
    _derives("finds-no-replicas", "FindsNoReplicas", "Has each rank name itself only as a holder."),
    _derives(
        "scales-replicas", "ScalesReplicas", "Takes what several ranks hold to be parts of a sum."
    ),
    _remembers(
        "remembers-blocks",
        "RemembersBlocks",
        "Cuts rows into the blocks of what was described before.",
        "F04",
    ),
    _remembers(
        "remembers-by-name",
        "RemembersByName",
        "Remembers the map of each name and shape, for one layout alone.",
    ),
    _remembers(
        "forgets-the-shape",
        "ForgetsTheShape",
        "Remembers the map of each layout, name and kind, whatever the shape.",
    ),
    _remembers(
        "forgets-the-order",
        "ForgetsTheOrder",
        "Remembers the map of each parameter and degrees, whatever the order of ranks.",
        "F23",
    ),
    _remembers(
        "forgets-stages",
        "ForgetsStages",
        "Remembers the map of each layout and parameter, whatever its stages.",
        "F23",
    ),
    _remembers(
        "remembers-the-last-order",
        "RemembersTheLastOrder",
        "Numbers ranks in the order of the layout before.",
    ),
    _remembers(
        "refuses-second-stages",
        "RefusesSecondStages",
        "Refuses what is on another stage than the parameter before.",
    ),
    _matches(
        "takes-local-for-global",
        "TakesLocalNamesForGlobal",
        "Matches what has the same local name.",
    ),
    _matches(
        "takes-local-experts-for-global",
        "TakesLocalExpertsForGlobal",
        "Matches experts of the same local number.",
        "F13",
    ),
    _matches(
        "takes-local-layers-for-global",
        "TakesLocalLayersForGlobal",
        "Matches layers of the same local number.",
    ),
    _matches(
        "ignores-expert-tables",
        "IgnoresExpertTables",
        "Takes experts to be contiguous, whatever the table says.",
        "F13",
    ),
    _matches("matches-by-shape", "MatchesByShape", "Matches what has the same shape."),
    _matches(
        "finds-one-holder",
        "FindsOneHolder",
        "Finds the first of the ranks that hold parts of a tensor.",
        "F19",
    ),
    _matches(
        "looks-at-its-own-number",
        "LooksAtItsOwnNumber",
        "Looks for a tensor on the source rank of the same number, where that has it.",
        "F24",
    ),
    _matches("confuses-biases", "ConfusesBiases", "Takes biases for their weights."),
    _matches(
        "ignores-the-order-of-ranks",
        "IgnoresTheOrderOfRanks",
        "Numbers the ranks of both sides in the usual order of axes, whatever the layout's.",
    ),
    _matches(
        "leaves-out-what-is-missing",
        "LeavesOutWhatIsMissing",
        "Matches what has the same name where names are missing or too many.",
    ),
    _matches(
        "ignores-surplus",
        "IgnoresSurplus",
        "Lets be what the source has and the target lacks.",
    ),
    _matches(
        "counts-layers-as-strings",
        "CountsLayersAsStrings",
        "Counts 12 layers of the source in the order of their numbers as strings.",
    ),
)
