"""Every parameter of a model, planned in one batch from one sharding to another."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from pytest_affine.commands.progress import Bar
from pytest_affine.maps import ParamAffineMap
from pytest_affine.models import Model, describe_all, parse_sharding
from pytest_affine.plans import PlanBudget, ReplicaRequest, TransferEndpoints, TransferPlan
from pytest_affine.reference.policies import ReplicaAnswer, local_first_least_loaded
from pytest_affine.reference.replicas import plan_transfers

__all__ = ["ModelBatch", "plan_batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBatch:
    """What was planned.

    Attributes:
        model: its name.
        degrees: of the source and of the target.
        pairs: by parameter, its source and its target map.
        plans: by parameter.
        endpoints: which process holds which location.
        element_size: bytes per element by parameter.
        describe_seconds: what the maps took.
        plan_seconds: what the plans took.
    """

    model: str
    degrees: tuple[str, str]
    pairs: Mapping[str, tuple[ParamAffineMap, ParamAffineMap]]
    plans: Mapping[str, TransferPlan]
    endpoints: TransferEndpoints
    element_size: Mapping[str, int]
    describe_seconds: float
    plan_seconds: float


def plan_batch(
    model: Model, source: str, target: str, *, apart: bool, limits: PlanBudget
) -> ModelBatch:
    """Plan all of a model, with a progress bar.

    Args:
        model: whose parameters.
        source: degrees of the source.
        target: degrees of the target.
        apart: whether the processes of the target come after those of the source; if not, rank r of
            either side is process r.
        limits: what planning one parameter may take.

    Raises as `parse_sharding`, `Model.parameters_on`, `describe` and `plan_transfers` do.
    """
    ends = [parse_sharding(degrees) for degrees in (source, target)]
    parameters = [model.parameters_on(end) for end in ends]
    element_size = {parameter.name: _itemsize(parameter.dtype) for parameter in parameters[0]}
    endpoints = _endpoints(*(end.layout.num_ranks for end in ends), apart=apart)
    start = time.perf_counter()
    with closing(Bar(4 * len(element_size))) as bar:

        def choose_holders(requests: Sequence[ReplicaRequest]) -> Sequence[ReplicaAnswer]:
            bar.advance(len(element_size))  # all regions are known
            bar.begin("segments")
            return local_first_least_loaded(requests)

        bar.begin("maps")
        maps = [
            describe_all(end.layout, bar.over(own))
            for end, own in zip(ends, parameters, strict=True)
        ]
        described = time.perf_counter()
        bar.begin("regions")
        pairs = {name: (map_, maps[1][name]) for name, map_ in maps[0].items()}
        plans = plan_transfers(
            pairs,
            limits=limits,
            endpoints=endpoints,
            element_size=element_size,
            replica_policy=choose_holders,
        )
        bar.advance(len(plans))
    return ModelBatch(
        model=model.name,
        degrees=(source, target),
        pairs=pairs,
        plans=plans,
        endpoints=endpoints,
        element_size=element_size,
        describe_seconds=described - start,
        plan_seconds=time.perf_counter() - described,
    )


def _itemsize(dtype: str) -> int:
    import torch

    size: int = getattr(torch, dtype).itemsize
    return size


def _endpoints(num_sources: int, num_targets: int, *, apart: bool) -> TransferEndpoints:
    first = num_sources if apart else 0
    return TransferEndpoints(
        {rank: rank for rank in range(num_sources)},
        {rank: first + rank for rank in range(num_targets)},
    )
