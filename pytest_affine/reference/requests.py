"""What a replica policy is asked: a request for a region that a target needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pytest_affine.errors import AffineTransferError
from pytest_affine.plans import ReplicaRequest, TransferEndpoints
from pytest_affine.reference.batch import bound_processes
from pytest_affine.reference.regions import Region

__all__ = ["BoundRegion", "Processes", "region_request"]


class BoundRegion(NamedTuple):
    """A region, the process of its target, and those of its holders; None without endpoints."""

    region: Region
    target_process: int | None
    holder_processes: tuple[int, ...] | None


class Processes:
    """The processes of locations; looked up once for each set of holders."""

    def __init__(self, endpoints: TransferEndpoints | None) -> None:
        self._bound = None if endpoints is None else bound_processes(endpoints)
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def bind(self, region: Region) -> BoundRegion:
        """The region with its processes.

        Raises:
            AffineTransferError: the endpoints name no process for one of its locations.
        """
        if self._bound is None:
            return BoundRegion(region, None, None)
        sources, targets = self._bound
        if (holders := self._known.get(region.holders)) is None:
            holders = _processes("source", sources, region.holders)
            self._known[region.holders] = holders
        (target,) = _processes("target", targets, (region.target_location,))
        return BoundRegion(region, target, holders)


def _processes(
    side: str, processes: Mapping[int, int], locations: Sequence[int]
) -> tuple[int, ...]:
    if unbound := [location for location in locations if location not in processes]:
        raise AffineTransferError(
            f"endpoints.{side} names no process for locations {unbound}; "
            f"those bound: {sorted(processes)}"
        )
    return tuple(processes[location] for location in locations)


def region_request(
    bound: BoundRegion, *, parameter: str | None = None, element_size: int = 1
) -> ReplicaRequest:
    """What a selector or policy is asked about one region."""
    region, target_process, holder_processes = bound
    return ReplicaRequest(
        parameter=parameter,
        target_location=region.target_location,
        logical_origin=region.origin,
        shape=region.shape,
        holders=region.holders,
        element_size=element_size,
        num_bytes=math.prod(region.shape) * element_size,
        target_process=target_process,
        holder_processes=holder_processes,
    )
