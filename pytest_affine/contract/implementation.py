"""The seam: what a resharder may offer, one method per thing that the suite can ask of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from pytest_affine.layouts import Inventory, Layout, LocalName, Parameter
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import (
    PlanBudget,
    RankPlan,
    ReplicaSelector,
    Schedule,
    StagingBudget,
    TransferEndpoints,
    TransferPlan,
    TransferReport,
    TransferStats,
)
from pytest_affine.reference.analyzer import default_path_of
from pytest_affine.reference.policies import ReplicaPolicy, local_first_least_loaded
from pytest_affine.sync import Sync

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

    Dtype = torch.dtype | tuple[torch.dtype, torch.dtype]

__all__ = ["METHODS", "Claims", "Implementation", "NotClaimedError", "OpenSync", "claims_of"]

Pairs = Mapping[str, tuple[ParamAffineMap, ParamAffineMap]]
Plans = Mapping[str, TransferPlan]
Buffers = Mapping[str, Mapping[int, "torch.Tensor"]]
ElementSize = int | Mapping[str, int]
ElementSizes = int | tuple[int, int] | Mapping[str, int | tuple[int, int]]


class NotClaimedError(Exception):
    """A method was called that the implementation does not override."""


class Implementation:
    """What a resharder offers; override the methods that it has, and leave the others.

    Overriding a method claims it, and having an option's keyword in its signature claims that
    option, so nobody keeps a list. An instance lives in every rank, is made there without
    arguments, and lives as long as the rank. Methods take and return pytest-affine's values.
    A method refuses by raising `AffineTransferError` or one of its kinds; anything else that it
    raises is judged as a fault.
    """

    version: str = "unknown"

    distribution: str = ""
    """Name of the installed package behind the adapter, for certificates, where it isn't the one
    that the adapter is in."""

    def start(self, group: ProcessGroup) -> None:
        """Make groups, buffers and caches; called once on every rank, collectively."""

    def stop(self) -> None:
        """Give back what `start` made; called once on every rank, collectively."""

    def supports(self, sync: Sync) -> str | None:
        """Say why this adapter withholds a sync, or None to take it.

        Called on rank 0. Decide from the sync alone, never from the name of a case.
        """
        return None

    def build_map(
        self, builder: str, **arguments: Any
    ) -> ParamAffineMap | dict[str, ParamAffineMap]:
        """Build a map with a named builder of `pytest_affine.builders`. Called on rank 0.

        `flat_map` gives a map for each of its parameters, by name.
        """
        _not_claimed(self, "build_map")

    def check_map(self, map_: ParamAffineMap) -> None:
        """Refuse an invalid map with `InvalidMapError`. Called on rank 0."""
        _not_claimed(self, "check_map")

    def extract(self, map_: ParamAffineMap, full: torch.Tensor, location: int) -> torch.Tensor:
        """Cut the shard of `location` out of the full tensor. Called on rank 0."""
        _not_claimed(self, "extract")

    def rebuild(self, map_: ParamAffineMap, shards: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Put the full tensor together from every location's shard. Called on rank 0."""
        _not_claimed(self, "rebuild")

    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        """The map as JSON-ready values. Called on rank 0."""
        _not_claimed(self, "map_to_dict")

    def map_from_dict(self, entry: Mapping[str, Any]) -> ParamAffineMap:
        """Read what `map_to_dict` writes; refuse what is no map. Called on rank 0."""
        _not_claimed(self, "map_from_dict")

    def maps_to_dict(self, maps: Mapping[str, ParamAffineMap]) -> dict[str, Any]:
        """Several maps by name as one JSON-ready envelope. Called on rank 0."""
        _not_claimed(self, "maps_to_dict")

    def maps_from_dict(self, envelope: Mapping[str, Any]) -> dict[str, ParamAffineMap]:
        """Read what `maps_to_dict` writes; refuse unknown versions. Called on rank 0."""
        _not_claimed(self, "maps_from_dict")

    def plan_transfer(
        self,
        source: ParamAffineMap,
        target: ParamAffineMap,
        *,
        endpoints: TransferEndpoints | None = None,
        limits: PlanBudget = PlanBudget(),  # noqa: B008 - frozen
        replica_selector: ReplicaSelector | None = None,
    ) -> TransferPlan:
        """Plan one parameter. Options: endpoints, limits, replica_selector. Called on rank 0."""
        _not_claimed(self, "plan_transfer")

    def plan_transfers(
        self,
        pairs: Pairs,
        *,
        limits: PlanBudget = PlanBudget(),  # noqa: B008 - frozen
        endpoints: TransferEndpoints | None = None,
        element_size: ElementSize = 1,
        min_split_bytes: int = 0,
        replica_policy: ReplicaPolicy = local_first_least_loaded,
    ) -> dict[str, TransferPlan]:
        """Plan a sync: by parameter, a source and a target map. Called on rank 0, or on every rank.

        Options: limits, endpoints, element_size, min_split_bytes, replica_policy. The policy is
        called once, with a request for every region of every parameter.
        """
        _not_claimed(self, "plan_transfers")

    def plan_to_dict(self, plan: TransferPlan) -> dict[str, Any]:
        """The plan as JSON-ready values. Called on rank 0."""
        _not_claimed(self, "plan_to_dict")

    def plan_from_dict(self, entry: Mapping[str, Any]) -> TransferPlan:
        """Read what `plan_to_dict` writes. Called on rank 0."""
        _not_claimed(self, "plan_from_dict")

    def schedule_transfers(
        self,
        plans: Plans,
        endpoints: TransferEndpoints,
        *,
        element_size: ElementSizes,
        budget: StagingBudget,
        process: int | None = None,
        cast: bool = False,
    ) -> Schedule:
        """What `execute_transfers` would run. Options: process, cast. Called on rank 0.

        With `cast` an element size may be a pair, of source and target, where dtypes differ.
        """
        _not_claimed(self, "schedule_transfers")

    def plan_digest(
        self,
        plans: Plans,
        endpoints: TransferEndpoints,
        *,
        element_size: ElementSizes,
        budget: StagingBudget,
        cast: bool = False,
    ) -> str:
        """A digest of all that ranks must agree on. Option: cast. Called on every rank."""
        _not_claimed(self, "plan_digest")

    def execute_transfers(
        self,
        plans: Plans,
        source_buffers: Buffers,
        target_buffers: Buffers,
        endpoints: TransferEndpoints,
        *,
        dtype: Dtype | Mapping[str, Dtype],
        budget: StagingBudget = StagingBudget(),  # noqa: B008 - frozen
        group: ProcessGroup | None = None,
        cast: bool = False,
    ) -> TransferStats:
        """Move a batch from source to target buffers. Called on every rank of `group`.

        Buffers are keyed by parameter, then location, and hold only what this process has.
        Options: budget, group, cast; with `cast` a dtype may be a pair, of source and target.
        """
        _not_claimed(self, "execute_transfers")

    def analyze_transfers(
        self,
        plans: Plans,
        endpoints: TransferEndpoints,
        *,
        element_size: ElementSizes,
        budget: StagingBudget,
        path_of: Callable[[int, int], str] = default_path_of,
        cast: bool = False,
    ) -> TransferReport:
        """What a batch will cost. Options: path_of, cast. Called on rank 0."""
        _not_claimed(self, "analyze_transfers")

    def expected_stats(self, report: TransferReport, process: int) -> TransferStats:
        """What `execute_transfers` will return on `process`. Called on rank 0."""
        _not_claimed(self, "expected_stats")

    def report_to_dict(self, report: TransferReport) -> dict[str, Any]:
        """The report as JSON-ready values. Called on rank 0."""
        _not_claimed(self, "report_to_dict")

    def reshard(
        self,
        sync: Sync,
        source_buffers: Buffers,
        target_buffers: Buffers,
        *,
        group: ProcessGroup,
    ) -> None:
        """Do everything: plan a sync and move it. Called on every rank of `group`.

        Buffers are keyed by parameter, then location, and hold what this process has, each of its
        shard's shape; dtypes are the sync's. The sync's processes are ranks of `group`. If one rank
        can't go on, every rank raises `AffineTransferError`.
        """
        _not_claimed(self, "reshard")

    def plan_on_rank(self, sync: Sync, *, group: ProcessGroup) -> RankPlan:
        """What this rank sends and receives of a sync. Called on every rank of `group`."""
        _not_claimed(self, "plan_on_rank")

    def open_sync(
        self,
        sync: Sync,
        source_buffers: Buffers,
        target_buffers: Buffers,
        *,
        group: ProcessGroup,
    ) -> OpenSync:
        """Plan a sync once, to run it often; buffers as in `reshard`. Called on every rank."""
        _not_claimed(self, "open_sync")

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        """The map of a parameter over the ranks of a layout. Called on rank 0.

        Locations are those ranks of the layout that are on a stage of the parameter.
        """
        _not_claimed(self, "describe")

    def match(
        self, source: Inventory, target: Inventory
    ) -> Mapping[LocalName, AbstractSet[LocalName]]:
        """By (location, local name) of the target, those of the source that are parts of the same.

        Refuse what one side has and the other lacks. Called on rank 0.
        """
        _not_claimed(self, "match")


class OpenSync(Protocol):
    """A sync that was planned once and is run often; every rank of its group calls every method."""

    def run(self) -> TransferStats | None:
        """Move what the source buffers hold now; after `close` it raises on every rank."""

    def rebind(
        self,
        *,
        sync: Sync | None = None,
        source_buffers: Buffers | None = None,
        target_buffers: Buffers | None = None,
    ) -> None:
        """Replace what is given, on the ranks that have something to replace."""

    def close(self) -> None:
        """Give back what is held; may be called twice."""


def _not_claimed(implementation: Implementation, method: str) -> NoReturn:
    raise NotClaimedError(f"{type(implementation).__qualname__} does not override {method}")


LIFE = ("start", "stop", "supports")

METHODS: tuple[str, ...] = tuple(
    name
    for name, member in vars(Implementation).items()
    if inspect.isfunction(member) and name not in LIFE and not name.startswith("_")
)

Claims = Mapping[str, Sequence[str]]
"""By claimed method, the keywords of the options that its signature takes."""


def claims_of(implementation: type[Implementation]) -> dict[str, tuple[str, ...]]:
    """What a class claims: its overridden methods, each with the options it takes."""
    return {
        name: _options(name, getattr(implementation, name))
        for name in METHODS
        if getattr(implementation, name) is not getattr(Implementation, name)
    }


def _options(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    contract = inspect.signature(getattr(Implementation, name)).parameters.values()
    options = (p.name for p in contract if p.kind is p.KEYWORD_ONLY and p.default is not p.empty)
    return tuple(option for option in options if takes_any or option in parameters)
