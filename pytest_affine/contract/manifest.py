"""The manifest: every requirement that has a test, in one table.

The reference page of the docs, the collection of the suite and the verdict all read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_affine.contract.implementation import Claims

__all__ = ["REQUIREMENTS", "UPCOMING", "Requirement", "unclaimed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One rule that a resharder is judged by.

    Attributes:
        id: such as "PLAN-TILE".
        sentence: the rule in one sentence.
        profile: the profile whose verdict it belongs to.
        stage: what part of a resharder it judges.
        must: whether it decides the verdict; a SHOULD is only shown.
        ranks: fewest ranks that it needs.
        methods: methods, or "method[option]", that must be claimed for it to be judged.
        needs: requirements whose violation leaves this one without evidence.
    """

    id: str
    sentence: str
    profile: str
    stage: str
    must: bool
    ranks: int
    methods: tuple[str, ...]
    needs: tuple[str, ...]


def _requirement(
    id_: str,
    sentence: str,
    methods: str,
    *,
    needs: str = "",
    ranks: int = 1,
    must: bool = True,
    profile: str = "affine",
) -> Requirement:
    return Requirement(
        id=id_,
        sentence=sentence,
        profile=profile,
        stage=STAGES[id_.partition("-")[0]],
        must=must,
        ranks=ranks,
        methods=tuple(methods.split()),
        needs=tuple(needs.split()),
    )


STAGES = {
    "MAP": "maps",
    "PLAN": "plan",
    "BATCH": "plan",
    "SCHED": "schedule",
    "DIGEST": "digest",
    "EXEC": "execute",
    "STATS": "analyze",
    "ANALYZE": "analyze",
    "LAYOUT": "layouts",
    "NAME": "names",
    "RESHARD": "reshard",
    "WIRE": "reshard",
    "LOAD": "reshard",
}

_ROWS = (
    _requirement(
        "MAP-COVER",
        "A map whose pieces leave an element of the full tensor uncovered is refused.",
        "check_map",
    ),
    _requirement(
        "MAP-TILE",
        "A map whose pieces and padding do not fill each shard exactly once, judged by address, "
        "is refused.",
        "check_map",
    ),
    _requirement(
        "MAP-HOLD",
        "A map is refused when a piece's locations are not exactly the holders of each of its "
        "elements, when a location holds an element twice, or when holders differ in scale.",
        "check_map",
    ),
    _requirement(
        "MAP-SCALE",
        "Zero and non-finite scales, negative numbers, and fractions or booleans where integers "
        "belong are refused.",
        "check_map map_from_dict",
    ),
    _requirement(
        "MAP-REPLICA",
        "Rebuilding from replicas that differ in any bit is refused, whatever their piece "
        "boundaries.",
        "rebuild",
    ),
    _requirement(
        "MAP-TRIP",
        "To JSON and back is the identity, for a map and for an envelope; unknown versions, "
        "missing keys and wrong types are refused by an error that names the field.",
        "map_to_dict map_from_dict",
    ),
    _requirement(
        "MAP-INV",
        "Rebuilding what was extracted gives back the full tensor, bit for bit, for scale 1 and "
        "for power-of-two scales of floating types.",
        "extract rebuild",
    ),
    _requirement(
        "MAP-BUILD",
        "Each builder's map places every element where the builder's definition places it.",
        "build_map",
    ),
    _requirement(
        "PLAN-TILE",
        "Every element of every target shard that is not padding is written exactly once, and "
        "padding never.",
        "plan_transfer",
    ),
    _requirement(
        "PLAN-SOURCE",
        "Each write reads a source shard element that holds the same logical element; padding is "
        "never read.",
        "plan_transfer",
    ),
    _requirement("PLAN-BOUNDS", "No segment addresses outside either shard.", "plan_transfer"),
    _requirement(
        "PLAN-HOLDER",
        "The holder that the replica selector names is the one that is read, and an answer that "
        "is no holder is refused.",
        "plan_transfer[replica_selector]",
        needs="PLAN-SOURCE",
    ),
    _requirement(
        "PLAN-ONCE",
        "`moved_elements` is the sum of the segments' sizes, and no segment is empty.",
        "plan_transfer",
    ),
    _requirement(
        "PLAN-SCALE",
        "Where source and target scale differ, the plan is refused; where they are equal it is "
        "exact or refused.",
        "plan_transfer",
    ),
    _requirement(
        "PLAN-DETERMINISTIC",
        "Equal maps give equal plans: whatever the order of the mappings, the process, the "
        "string-hash seed, and what was planned before.",
        "plan_transfer",
    ),
    _requirement(
        "PLAN-REFUSE",
        "Maps that break a rule, and maps of unequal logical shapes, are never planned.",
        "plan_transfer",
    ),
    _requirement(
        "PLAN-HONEST",
        "A layout that is not supported is refused; a wrong plan is never the answer.",
        "plan_transfer",
    ),
    _requirement(
        "PLAN-LIMIT",
        "Exceeding a limit raises; a plan is never shortened.",
        "plan_transfer[limits]",
    ),
    _requirement(
        "PLAN-TOPOLOGY",
        "The number of segments does not grow with the extents of the parameter.",
        "plan_transfer",
    ),
    _requirement(
        "PLAN-MERGED",
        "No two segments of a plan continue each other on both sides along one axis.",
        "plan_transfer",
        must=False,
    ),
    _requirement(
        "PLAN-EDGE",
        "Scalars, extents of 1, empty shards and parameters, more locations than rows, one "
        "location, 8 axes and offsets beyond 2^53 are planned exactly.",
        "plan_transfer",
    ),
    _requirement(
        "PLAN-SYMBOLIC",
        "A plan for extents of 2^60 peaks within twice the memory of one for 2^10, inside the "
        "deadline.",
        "plan_transfer",
    ),
    _requirement(
        "PLAN-TRIP", "A plan to JSON and back is the identity.", "plan_to_dict plan_from_dict"
    ),
    _requirement(
        "BATCH-ONCE",
        "The replica policy is called exactly once, with a request for every region of every "
        "parameter in order, each with exactly its holders.",
        "plan_transfers[replica_policy] plan_transfers[endpoints] plan_transfers[element_size]",
    ),
    _requirement(
        "BATCH-EXACT",
        "Whatever a policy answers, the plans are exact and read what it says, or the answer is "
        "refused.",
        "plan_transfers[replica_policy] plan_transfers[endpoints] plan_transfers[element_size]",
    ),
    _requirement(
        "BATCH-ANSWER",
        "An answer that is no holder, and parts that do not tile their region along its first "
        "axis or are smaller than asked for, are refused.",
        "plan_transfers[replica_policy]",
    ),
    _requirement(
        "BATCH-LIMIT",
        "Parts count against the limit on pairs, together for one parameter, and an answer of too "
        "many is refused before one of them is read.",
        "plan_transfers[replica_policy] plan_transfers[limits]",
    ),
    _requirement(
        "BATCH-MAPS",
        "Maps are validated before the policy runs.",
        "plan_transfers[replica_policy]",
    ),
    _requirement(
        "BATCH-FIRST",
        "The policies `first_holder` and `per_request` reproduce `plan_transfer` exactly.",
        "plan_transfers[replica_policy] plan_transfer[replica_selector]",
    ),
    _requirement(
        "BATCH-BALANCE",
        "By default a local holder is read, or else that whose process sends the fewest bytes so "
        "far.",
        "plan_transfers[replica_policy] plan_transfers[endpoints] plan_transfers[element_size]",
        needs="BATCH-ONCE",
    ),
    _requirement(
        "BATCH-AGREE",
        "A policy that answers differently on different ranks is caught before any payload moves.",
        "plan_transfers[replica_policy] execute_transfers",
        ranks=2,
    ),
    _requirement(
        "SCHED-AGREE",
        "Both ends of every message have the same number, order, elements and chunks.",
        "schedule_transfers",
    ),
    _requirement("SCHED-BUDGET", "No message exceeds the budget.", "schedule_transfers"),
    _requirement(
        "SCHED-DIRECT",
        "A side of a message is direct exactly when the message is one chunk whose region in the "
        "shard is packed, as `Tensor.is_contiguous()` has it.",
        "schedule_transfers",
    ),
    _requirement(
        "SCHED-ARENA",
        "The arena of a peer and direction holds its largest staged message, and nothing where "
        "all are direct.",
        "schedule_transfers",
    ),
    _requirement(
        "SCHED-ROUNDS",
        "A process has as many rounds as its longest queue has messages, and running rounds in "
        "order can't deadlock.",
        "schedule_transfers",
    ),
    _requirement(
        "SCHED-VOLUME",
        "Bytes sent equal bytes received; sent plus local is what the plans move.",
        "schedule_transfers",
    ),
    _requirement(
        "SCHED-ONE",
        "The schedule for one process is that process's entry in the schedule for all.",
        "schedule_transfers[process]",
    ),
    _requirement(
        "SCHED-REFUSE",
        "An unusable budget, a process that no endpoint names, a location without endpoint and a "
        "process that is no rank are refused, for an empty batch too.",
        "schedule_transfers",
    ),
    _requirement(
        "SCHED-PURE",
        "Scheduling creates no tensor and communicates nothing.",
        "schedule_transfers",
    ),
    _requirement(
        "SCHED-SHARED",
        "One plan object that stands for two parameters is moved, and counted, twice.",
        "schedule_transfers",
    ),
    _requirement(
        "DIGEST-STABLE",
        "The digest is the same in every process and run, and under every string-hash seed.",
        "plan_digest",
    ),
    _requirement(
        "DIGEST-SENSITIVE",
        "Any one change to what ranks must agree on changes the digest; absent sizes differ from "
        "any sizes.",
        "plan_digest",
        needs="DIGEST-STABLE",
    ),
    _requirement(
        "DIGEST-CANONICAL",
        "The order in which the mappings of endpoints were filled does not change the digest.",
        "plan_digest",
        needs="DIGEST-STABLE",
    ),
    _requirement(
        "DIGEST-AGREE",
        "If ranks disagree on digest or dtype, every rank raises before any payload moves, naming "
        "which ranks disagree, and no rank hangs.",
        "execute_transfers",
        ranks=2,
    ),
    _requirement(
        "DIGEST-REJECT",
        "If one rank must refuse, every rank raises, and every rank's error carries the refusing "
        "ranks and their reasons.",
        "execute_transfers",
        ranks=2,
    ),
    _requirement(
        "EXEC-EXACT",
        "Every target shard equals what is extracted from the full tensor, bit for bit, also when "
        "values change between runs.",
        "execute_transfers",
    ),
    _requirement(
        "EXEC-GUARD",
        "Nothing outside the planned regions changes: guard bands, padding and source elements.",
        "execute_transfers",
    ),
    _requirement(
        "EXEC-ENDPOINTS",
        "Disjoint, shared, idle, crowded and permuted processes all receive what is theirs.",
        "execute_transfers",
        ranks=2,
    ),
    _requirement(
        "EXEC-DTYPE",
        "Elements of every dtype arrive bit for bit, NaN payloads and -0.0 included.",
        "execute_transfers",
        ranks=2,
    ),
    _requirement(
        "EXEC-VIEW",
        "A shard that is a window into a larger buffer works, and one that is not packed is "
        "refused.",
        "execute_transfers",
        ranks=2,
    ),
    _requirement(
        "EXEC-REFUSE",
        "Buffers, dtypes, locations and endpoints that do not fit are refused on every rank before "
        "any payload moves, and no target element has changed.",
        "execute_transfers",
    ),
    _requirement(
        "EXEC-GROUP",
        "Processes are ranks of the group that is given, sorted or not, or of the default group.",
        "execute_transfers[group]",
        ranks=2,
    ),
    _requirement(
        "EXEC-BUDGET",
        "Every budget from the batch's largest element up gives the same result.",
        "execute_transfers[budget]",
        needs="EXEC-EXACT",
    ),
    _requirement(
        "EXEC-REPEAT",
        "Repeated runs, alternating plans and an empty batch work, and no run receives the "
        "messages of another.",
        "execute_transfers",
        ranks=2,
    ),
    _requirement(
        "EXEC-STAGING",
        "Memory that is taken while executing stays within the schedule's arenas, the exchange "
        "apart.",
        "execute_transfers",
        needs="EXEC-EXACT",
        ranks=2,
    ),
    _requirement(
        "EXEC-STATS",
        "The statistics are what was seen on the wire and in the buffers, the exchange apart.",
        "execute_transfers",
        needs="EXEC-EXACT",
    ),
    _requirement(
        "STATS-EQUAL",
        "`expected_stats` equals the statistics that the executor returns, for every field and "
        "process.",
        "execute_transfers[budget] analyze_transfers expected_stats",
        needs="EXEC-EXACT",
    ),
    _requirement(
        "ANALYZE-SUM",
        "Totals per process, pair and path agree with each other and with the volume; local bytes "
        "are in their path.",
        "analyze_transfers",
    ),
    _requirement(
        "ANALYZE-WIRE",
        "Bytes and messages of each pair are what was seen on the wire, the exchange apart.",
        "analyze_transfers execute_transfers[budget]",
        needs="EXEC-EXACT",
    ),
    _requirement(
        "ANALYZE-STAGING",
        "`staging_bytes` is what the executor allocates; what is packed and unpacked are the "
        "staged messages.",
        "analyze_transfers",
    ),
    _requirement(
        "ANALYZE-JSON",
        "`json.dumps` takes the report's dict as it is; its keys are strings, and it survives a "
        "round trip.",
        "analyze_transfers report_to_dict",
    ),
    _requirement(
        "ANALYZE-PURE",
        "The analysis creates no tensor and communicates nothing.",
        "analyze_transfers",
    ),
    _requirement(
        "ANALYZE-REFUSE",
        "What the schedule refuses the analysis refuses, and `expected_stats` an unknown process.",
        "analyze_transfers",
    ),
    _requirement(
        "LAYOUT-DERIVE",
        "A layout and a parameter give the map that the definition of its kind gives, element by "
        "element; what does not divide or contradicts itself is refused.",
        "describe",
        profile="layout",
    ),
    _requirement(
        "LAYOUT-STATELESS",
        "What was described before changes nothing.",
        "describe",
        profile="layout",
    ),
    _requirement(
        "LAYOUT-SELF",
        "A sync of a layout onto itself changes no element.",
        "reshard",
        profile="layout",
    ),
    _requirement(
        "LAYOUT-SHAPE",
        "A shard whose shape is not the declared one is refused on every rank; it is never "
        "broadcast, cut or filled.",
        "reshard",
        ranks=2,
        profile="layout",
    ),
    _requirement(
        "NAME-ONE",
        "Each target tensor is matched with every part of one logical tensor, whatever local "
        "numbers its names have; a missing or surplus name is refused.",
        "match",
        profile="layout",
    ),
    _requirement(
        "RESHARD-EXACT",
        "Every target element of a sync is the right source element, bit for bit, in every dtype, "
        "also when values change between runs.",
        "reshard",
        profile="reshard",
    ),
    _requirement(
        "RESHARD-GUARD",
        "Sources and everything outside the targets stay as they were.",
        "reshard",
        profile="reshard",
    ),
    _requirement(
        "RESHARD-REFUSE",
        "If one rank can't go on, every rank raises before its deadline, and the group is usable.",
        "reshard",
        ranks=2,
        profile="reshard",
    ),
    _requirement(
        "RESHARD-DTYPE",
        "Where dtypes differ each element is what `Tensor.to` makes of it, local or sent, or every "
        "rank refuses; bits are never reinterpreted.",
        "reshard",
        profile="reshard",
    ),
    _requirement(
        "RESHARD-FRESH",
        "After new values, replaced buffers or another sync, a run gives what a fresh "
        "implementation gives, or every rank refuses.",
        "reshard",
        needs="RESHARD-EXACT",
        ranks=2,
        profile="reshard",
    ),
    _requirement(
        "WIRE-SEEN",
        "All bytes that change hands between processes are seen on the wire; where they are not, "
        "rules about the wire are not observable.",
        "reshard",
        needs="RESHARD-EXACT",
        ranks=2,
        profile="reshard",
    ),
    _requirement(
        "LOAD-BALANCE",
        "A number: the busiest sender's bytes over the best possible, and the share of bytes with "
        "a local holder that are copied locally.",
        "plan_on_rank",
        needs="PLAN-LOCAL",
        ranks=2,
        must=False,
        profile="reshard",
    ),
    _requirement(
        "PLAN-LOCAL",
        "The parts of all ranks are one plan: each send has one receive of the same segment at its "
        "peer, in the same order, and the receives keep PLAN-TILE and PLAN-SOURCE.",
        "plan_on_rank",
        profile="reshard",
    ),
)

REQUIREMENTS: dict[str, Requirement] = {row.id: row for row in _ROWS}

UPCOMING: dict[str, tuple[str, ...]] = {
    "calibration": (
        "CAL-LABEL",
        "CAL-FIT",
        "CAL-SYMMETRIC",
        "CAL-FAN",
        "CAL-SCHEMA",
        "CAL-GROUP",
        "CAL-JSON",
        "CAL-WARM",
    ),
}
"""By profile, the ids of the contract that have no test yet."""


def unclaimed(methods: Iterable[str], claims: Claims) -> tuple[str, ...]:
    """Those of a requirement's methods ("method" or "method[option]") that are not claimed."""
    missing = []
    for method in methods:
        name, _, option = method.rstrip("]").partition("[")
        if name not in claims or (option and option not in claims[name]):
            missing.append(method)
    return tuple(missing)
