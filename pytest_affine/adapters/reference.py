"""The reference as an implementation: each stage's own function, under its name in the contract.

Also a complete example: an adapter takes and returns pytest-affine's values, and keeps the
signatures of `Implementation` for what it claims.
"""

from __future__ import annotations

from typing import Any

from pytest_affine import __version__, layouts
from pytest_affine.builders import BUILDERS
from pytest_affine.contract.implementation import Implementation
from pytest_affine.layouts import Inventory, Layout, Parameter
from pytest_affine.maps import ParamAffineMap, maps_from_dict, maps_to_dict
from pytest_affine.plans import RankPlan, TransferPlan
from pytest_affine.reference import analyzer, digest, planner, replicas, schedule

__all__ = ["Reference"]


class Reference(Implementation):
    """The oracle, certified like any other resharder."""

    version = __version__

    def build_map(self, builder: str, **arguments: Any) -> Any:
        """Build with `pytest_affine.builders`."""
        return BUILDERS[builder](**arguments)

    def check_map(self, map_: ParamAffineMap) -> None:
        """Validate."""
        map_.validate()

    def extract(self, map_: ParamAffineMap, full: Any, location: int) -> Any:
        """Extract a shard."""
        return map_.extract(full, location)

    def rebuild(self, map_: ParamAffineMap, shards: Any) -> Any:
        """Rebuild the full tensor."""
        return map_.rebuild(shards)

    def map_to_dict(self, map_: ParamAffineMap) -> dict[str, Any]:
        """Write a map."""
        return map_.to_dict()

    def map_from_dict(self, entry: Any) -> ParamAffineMap:
        """Read a map."""
        return ParamAffineMap.from_dict(entry)

    def maps_to_dict(self, maps: Any) -> dict[str, Any]:
        """Write an envelope."""
        return maps_to_dict(maps)

    def maps_from_dict(self, envelope: Any) -> dict[str, ParamAffineMap]:
        """Read an envelope."""
        return maps_from_dict(envelope)

    def plan_transfer(self, source: Any, target: Any, **options: Any) -> TransferPlan:
        """Plan one parameter."""
        return planner.plan_transfer(source, target, **options)

    def plan_transfers(self, pairs: Any, **options: Any) -> dict[str, TransferPlan]:
        """Plan a sync."""
        return replicas.plan_transfers(pairs, **options)

    def plan_to_dict(self, plan: TransferPlan) -> dict[str, Any]:
        """Write a plan."""
        return plan.to_dict()

    def plan_from_dict(self, entry: Any) -> TransferPlan:
        """Read a plan."""
        return TransferPlan.from_dict(entry)

    def schedule_transfers(self, plans: Any, endpoints: Any, **options: Any) -> Any:
        """Schedule a batch."""
        return schedule.schedule_transfers(plans, endpoints, **options)

    def plan_digest(self, plans: Any, endpoints: Any, **options: Any) -> str:
        """Digest a batch."""
        return digest.plan_digest(plans, endpoints, **options)

    def execute_transfers(
        self, plans: Any, source_buffers: Any, target_buffers: Any, endpoints: Any, **options: Any
    ) -> Any:
        """Execute a batch; the executor is imported only where there are tensors."""
        from pytest_affine.reference.executor import execute_transfers

        return execute_transfers(plans, source_buffers, target_buffers, endpoints, **options)

    def analyze_transfers(self, plans: Any, endpoints: Any, **options: Any) -> Any:
        """Analyze a batch."""
        return analyzer.analyze_transfers(plans, endpoints, **options)

    def expected_stats(self, report: Any, process: int) -> Any:
        """Expect the executor's statistics."""
        return analyzer.expected_stats(report, process)

    def report_to_dict(self, report: Any) -> dict[str, Any]:
        """Write a report."""
        return analyzer.report_to_dict(report)

    def describe(self, layout: Layout, parameter: Parameter) -> ParamAffineMap:
        """Describe a parameter."""
        return layouts.describe(layout, parameter)

    def match(self, source: Inventory, target: Inventory) -> Any:
        """Match local names."""
        return layouts.match(source, target)

    def reshard(self, sync: Any, source_buffers: Any, target_buffers: Any, *, group: Any) -> None:
        """Plan and move a sync."""
        from pytest_affine.reference.resharding import reshard

        reshard(sync, source_buffers, target_buffers, group=group)

    def plan_on_rank(self, sync: Any, *, group: Any) -> RankPlan:
        """Plan this rank's part of a sync."""
        from pytest_affine.reference.resharding import plan_on_rank

        return plan_on_rank(sync, group=group)

    def open_sync(self, sync: Any, source_buffers: Any, target_buffers: Any, *, group: Any) -> Any:
        """Open a sync."""
        from pytest_affine.reference.resharding import open_sync

        return open_sync(sync, source_buffers, target_buffers, group=group)
