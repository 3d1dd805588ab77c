"""Plans of one sync: every region's holder is chosen with the whole batch in view.

All parameters are drafted, the policy is asked once about all regions, all answers are checked,
and only then are segments made. Parameters of equal maps share the draft, and where they are
answered alike the plan too, so that a sync costs what its distinct parameters cost, apart from
asking about each region of each parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

from pytest_affine.errors import AffineTransferError, InvalidMapError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import (
    PlanBudget,
    ReplicaPart,
    ReplicaRequest,
    TransferEndpoints,
    TransferPlan,
)
from pytest_affine.reference.answers import Choice, checked_answers, checked_choices
from pytest_affine.reference.batch import (
    ElementSize,
    Side,
    at_least,
    checked_sizes,
    per_parameter,
)
from pytest_affine.reference.limits import check_limit
from pytest_affine.reference.planner import finish_plan
from pytest_affine.reference.policies import ReplicaPolicy, local_first_least_loaded
from pytest_affine.reference.regions import PlanDraft, PreparedMap, draft_plan, prepare_map
from pytest_affine.reference.requests import BoundRegion, Processes, region_request

__all__ = ["plan_transfers"]


def plan_transfers(
    pairs: Mapping[str, tuple[ParamAffineMap, ParamAffineMap]],
    *,
    limits: PlanBudget = PlanBudget(),  # noqa: B008 (frozen)
    endpoints: TransferEndpoints | None = None,
    element_size: ElementSize = 1,
    min_split_bytes: int = 0,
    replica_policy: ReplicaPolicy = local_first_least_loaded,
) -> dict[str, TransferPlan]:
    """Plan every parameter of one sync; pure, and the same on every rank if the policy is.

    Args:
        pairs: by parameter, in the batch's order, its source and its target map.
        limits: what planning one parameter may take.
        endpoints: processes to tell the policy; no part of the plans.
        element_size: bytes per element, one for all parameters or one per parameter.
        min_split_bytes: bytes that each part must have where an answer splits a region.
        replica_policy: called once, with a request for every region of every parameter, those of
            one holder included, ordered by parameter, target location and logical origin; answers
            each with a holder's location, or with parts (`ReplicaPart`) that cut the region along
            axis 0.

    Returns:
        The plans, in the order of `pairs`; equal ones may be one object.

    Raises:
        InvalidMapError: a map breaks its rules, or a parameter's logical shapes differ.
        UnsupportedLayoutError: a map that is not planned, or unequal scales.
        InvalidReplicaPolicyError: an answer that is no valid choice, or has more parts than
            `limits` allows pairs.
        PlanLimitError: planning a parameter takes more than `limits` allows.
        AffineTransferError: an unusable size, or `endpoints` lacks a location of a request.
    """
    named = _checked_pairs(pairs)
    sizes = per_parameter(checked_sizes(element_size), named, "element_size")
    min_split_bytes = at_least(0, min_split_bytes, "min_split_bytes")
    drafts = _drafts(named, limits)
    requests = _requests(drafts, sizes, endpoints)
    asked = tuple(request for own in requests.values() for request in own)
    answers = iter(checked_answers(len(asked), replica_policy(asked)))
    choices = {
        name: checked_choices(
            own,
            tuple(islice(answers, len(own))),
            spare_pairs=limits.max_pair_checks - drafts[name].pair_checks - len(own),
            min_split_bytes=min_split_bytes,
        )
        for name, own in requests.items()
    }
    return _finished(drafts, choices)


def _checked_pairs(
    pairs: Mapping[str, tuple[ParamAffineMap, ParamAffineMap]],
) -> dict[str, tuple[ParamAffineMap, ParamAffineMap]]:
    named = dict(pairs)
    for name, pair in named.items():
        is_pair = isinstance(pair, Sequence) and len(pair) == 2
        if not is_pair or not all(isinstance(map_, ParamAffineMap) for map_ in pair):
            raise InvalidMapError(
                f"pairs[{name!r}] must be a source and a target ParamAffineMap, got {pair!r}"
            )
    return named


@contextmanager
def _naming(parameter: str) -> Iterator[None]:
    try:
        yield
    except AffineTransferError as error:
        raise type(error)(f"parameter {parameter!r}: {error}") from None


class _Drafter:
    """Drafts plans: each map is prepared once, and each pair of maps is drafted once.

    Maps are told apart by identity first, so that one object is hashed once however often it
    comes; whoever calls keeps them alive.
    """

    def __init__(self, limits: PlanBudget) -> None:
        self._limits = limits
        self._first: dict[ParamAffineMap, ParamAffineMap] = {}
        self._equal: dict[int, ParamAffineMap] = {}
        self._prepared: dict[int, PreparedMap] = {}
        self._drafts: dict[tuple[int, int], PlanDraft] = {}

    def draft(self, source: ParamAffineMap, target: ParamAffineMap) -> PlanDraft:
        """Draft one pair, or return the draft of an equal one; raises as `plan_transfer` does."""
        prepared = self._prepare("source", source), self._prepare("target", target)
        key = id(prepared[0]), id(prepared[1])
        if key not in self._drafts:
            draft = draft_plan(*prepared, self._limits)
            # Each region takes one pair more at least, whatever is answered.
            num_pairs = draft.pair_checks + len(draft.regions)
            check_limit(self._limits, "max_pair_checks", num_pairs)
            self._drafts[key] = draft
        return self._drafts[key]

    def _prepare(self, side: Side, map_: ParamAffineMap) -> PreparedMap:
        if id(map_) not in self._equal:
            self._equal[id(map_)] = self._first.setdefault(map_, map_)
        key = id(self._equal[id(map_)])
        if key not in self._prepared:
            self._prepared[key] = prepare_map(side, map_, self._limits)
        return self._prepared[key]


def _drafts(
    pairs: Mapping[str, tuple[ParamAffineMap, ParamAffineMap]], limits: PlanBudget
) -> dict[str, PlanDraft]:
    """By parameter, its draft; one object where the maps are equal."""
    drafter = _Drafter(limits)
    drafts = {}
    for name, (source, target) in pairs.items():
        with _naming(name):
            drafts[name] = drafter.draft(source, target)
    return drafts


def _requests(
    drafts: Mapping[str, PlanDraft], sizes: Mapping[str, int], endpoints: TransferEndpoints | None
) -> dict[str, tuple[ReplicaRequest, ...]]:
    processes = Processes(endpoints)
    bound: dict[int, list[BoundRegion]] = {}
    requests = {}
    for name, draft in drafts.items():
        if id(draft) not in bound:
            with _naming(name):
                bound[id(draft)] = [processes.bind(region) for region in draft.regions]
        requests[name] = tuple(
            region_request(region, parameter=name, element_size=sizes[name])
            for region in bound[id(draft)]
        )
    return requests


def _finished(
    drafts: Mapping[str, PlanDraft], choices: Mapping[str, tuple[Choice, ...]]
) -> dict[str, TransferPlan]:
    """By parameter, its plan; one object where draft and choices are equal."""
    finished: dict[tuple[int, tuple[Choice, ...]], TransferPlan] = {}
    plans = {}
    for name, draft in drafts.items():
        key = id(draft), choices[name]
        if key not in finished:
            with _naming(name):
                finished[key] = finish_plan(draft, _parts(draft, choices[name]))
        plans[name] = finished[key]
    return plans


def _parts(draft: PlanDraft, choices: Sequence[Choice]) -> list[tuple[ReplicaPart, ...]] | None:
    """What `finish_plan` takes: the parts of every region, or None for all first holders."""
    chosen = list(zip(draft.regions, choices, strict=True))
    if all(choice == region.holders[0] for region, choice in chosen):
        return None
    return [
        choice if isinstance(choice, tuple) else (ReplicaPart(choice, region.origin, region.shape),)
        for region, choice in chosen
    ]
