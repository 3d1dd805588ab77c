"""RESHARD-*, PLAN-LOCAL, WIRE-SEEN, and what of LAYOUT-* is about whole syncs."""

from __future__ import annotations

from pytest_affine.mutants.catalogue.rows import mutant

__all__ = ["LAYOUT_SYNCS", "RESHARDS"]

LAYOUT_SYNCS = (
    mutant(
        "LAYOUT-SELF",
        "layout-turns-what-stays",
        "reshards:TurnsWhatStays",
        "Turns the first axis of each target shard around where nothing has to change.",
    ),
    mutant(
        "LAYOUT-SELF",
        "layout-exchanges-twins-that-stay",
        "reshards:ExchangesTwinsThatStay",
        "Exchanges two parameters of one layout whose layout does not change.",
    ),
    mutant(
        "LAYOUT-SHAPE",
        "layout-takes-other-shapes",
        "reshards:TakesOtherShapes",
        "Takes shards of the right size for those of the declared shape.",
    ),
    mutant(
        "LAYOUT-SHAPE",
        "layout-broadcasts-shards",
        "reshards:BroadcastsShards",
        "Repeats the rows that a shard has.",
    ),
    mutant(
        "LAYOUT-SHAPE",
        "layout-cuts-shards",
        "reshards:CutsShards",
        "Leaves out the rows that a shard has too many.",
    ),
    mutant(
        "LAYOUT-SHAPE",
        "layout-fills-shards",
        "reshards:FillsShards",
        "Fills up what a shard has too few with zeros.",
        origin="F14",
    ),
)

RESHARDS = (
    mutant(
        "RESHARD-EXACT",
        "reshard-exchanges-twins",
        "reshards:ExchangesTwins",
        "Takes one of two parameters of one layout for the other.",
    ),
    mutant(
        "RESHARD-EXACT",
        "reshard-sorts-names",
        "reshards:SortsNames",
        "Takes source tensors in their order for those of the names in alphabetical order.",
        origin="F05",
    ),
    mutant(
        "RESHARD-EXACT",
        "reshard-reads-from-the-storages-start",
        "reshards:ReadsSourcesFromTheStoragesStart",
        "Takes the beginning of the storage for the first element of a source shard.",
        origin="F44",
    ),
    mutant(
        "RESHARD-EXACT",
        "reshard-quiets-nans",
        "reshards:QuietsNansOfSyncs",
        "Casts elements on their way to float64 and back.",
    ),
    mutant(
        "RESHARD-EXACT",
        "reshard-moves-a-sync-once",
        "reshards:MovesASyncOnce",
        "Moves nothing when a sync comes again.",
        origin="F41",
    ),
    mutant(
        "RESHARD-GUARD",
        "reshard-writes-behind-targets",
        "reshards:WritesBehindTargetsOfSyncs",
        "Clears the element behind each target shard.",
    ),
    mutant(
        "RESHARD-GUARD",
        "reshard-clears-sources",
        "reshards:ClearsSourcesOfSyncs",
        "Clears source shards when they were moved.",
    ),
    mutant(
        "RESHARD-GUARD",
        "reshard-clears-padding",
        "reshards:ClearsTargetsOfSyncs",
        "Clears target shards before they are filled, with their padding.",
        origin="F15",
    ),
    mutant(
        "RESHARD-REFUSE",
        "reshard-refuses-for-itself",
        "reshards:RefusesForItself",
        "Raises where a shard is missing or of another dtype, and lets the other ranks wait.",
    ),
    mutant(
        "RESHARD-REFUSE",
        "reshard-leaves-out-what-one-rank-lacks",
        "reshards:LeavesOutWhatOneRankLacks",
        "Moves nothing, and says nothing, where a rank can't go on.",
    ),
    mutant(
        "RESHARD-REFUSE",
        "reshard-refuses-with-another-error",
        "reshards:RefusesWithAnotherError",
        "Raises what is no `AffineTransferError` where it must refuse.",
    ),
    mutant(
        "RESHARD-REFUSE",
        "reshard-refuses-ever-after",
        "reshards:RefusesEverAfter",
        "Refuses all syncs once it has refused one.",
    ),
    mutant(
        "RESHARD-REFUSE",
        "reshard-runs-when-closed",
        "sessions:RunsWhenClosed",
        "Says nothing when a sync that is closed is run.",
    ),
    mutant(
        "RESHARD-REFUSE",
        "reshard-closes-once",
        "sessions:ClosesOnce",
        "Raises when a sync is closed for a second time.",
    ),
    mutant(
        "RESHARD-DTYPE",
        "reshard-truncates",
        "casts:TruncatesSyncs",
        "Cuts bits off where elements of a sync must be rounded.",
    ),
    mutant(
        "RESHARD-DTYPE",
        "reshard-casts-through-halves",
        "casts:CastsThroughHalves",
        "Casts to float16 first.",
    ),
    mutant(
        "RESHARD-DTYPE",
        "reshard-reinterprets-bits",
        "casts:ReinterpretsBits",
        "Puts the bytes of sources into targets of another dtype, as far as they go.",
        origin="F31",
    ),
    mutant(
        "RESHARD-DTYPE",
        "reshard-refuses-casts-on-one-rank",
        "casts:RefusesCastsOnOneRank",
        "Refuses to cast on the first rank alone, when the others have what they waited for.",
    ),
    mutant(
        "RESHARD-FRESH",
        "reshard-knows-syncs-by-shapes",
        "sessions:KnowsSyncsByShapes",
        "Knows a plan by names, dtypes and the shapes of shards.",
        origin="F13",
    ),
    mutant(
        "RESHARD-FRESH",
        "reshard-knows-syncs-by-maps",
        "sessions:KnowsSyncsByMaps",
        "Knows a plan by names and maps, wherever locations are.",
        origin="F23",
    ),
    mutant(
        "RESHARD-FRESH",
        "reshard-knows-syncs-by-targets",
        "sessions:KnowsSyncsByTargets",
        "Knows a plan by its target layout.",
        origin="F23",
    ),
    mutant(
        "RESHARD-FRESH",
        "reshard-keeps-sources",
        "sessions:KeepsSourcesOfSyncs",
        "Delivers the values of the first time when a sync comes again.",
        origin="F41",
    ),
    mutant(
        "RESHARD-FRESH",
        "reshard-keeps-targets",
        "sessions:KeepsTargetsOfSyncs",
        "Fills the targets of the first time when a sync comes again.",
    ),
    mutant(
        "RESHARD-FRESH",
        "reshard-keeps-its-targets-open",
        "sessions:KeepsItsTargets",
        "Goes on with the target buffers that it had.",
    ),
    mutant(
        "RESHARD-FRESH",
        "reshard-keeps-its-sync-open",
        "sessions:KeepsItsSync",
        "Goes on with the sync that it had.",
    ),
    mutant(
        "RESHARD-FRESH",
        "reshard-keeps-its-values-open",
        "sessions:KeepsItsValues",
        "Moves the values that were there when buffers were bound.",
        origin="F41",
    ),
    mutant(
        "WIRE-SEEN",
        "wire-moves-nothing",
        "reshards:MovesNothing",
        "Returns at once.",
        origin="F41",
    ),
    mutant(
        "PLAN-LOCAL",
        "plan-forgets-a-last-receive",
        "rank_plans:ForgetsALastReceive",
        "Leaves out the last segment that a rank receives.",
        origin="F22",
    ),
    mutant(
        "PLAN-LOCAL",
        "plan-receives-backwards",
        "rank_plans:ReceivesBackwards",
        "Receives in the reverse order.",
    ),
    mutant(
        "PLAN-LOCAL",
        "plan-sends-no-local-copies",
        "rank_plans:SendsNoLocalCopies",
        "Leaves local copies out of what is sent.",
    ),
    mutant(
        "PLAN-LOCAL",
        "plan-names-locations-for-peers",
        "rank_plans:NamesLocationsForPeers",
        "Takes the number of a location for that of its process.",
    ),
    mutant(
        "PLAN-LOCAL",
        "plan-moves-twice",
        "rank_plans:MovesTwice",
        "Plans every segment twice.",
    ),
    mutant(
        "PLAN-LOCAL",
        "plan-leaves-out-last-rows",
        "rank_plans:LeavesOutLastRows",
        "Moves one element less along the first axis of each segment.",
    ),
    mutant(
        "PLAN-LOCAL",
        "plan-reads-first-elements",
        "rank_plans:ReadsFirstElements",
        "Reads each segment from the beginning of its source shard.",
        origin="F46",
    ),
)
