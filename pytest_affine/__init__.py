"""Certify any resharder: a pytest plugin and a distributed conformance suite.

What users import from here is loaded when it is first used (PEP 562), so that loading the pytest
plugin imports neither torch nor hypothesis.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_affine.contract.implementation import Implementation
    from pytest_affine.errors import (
        AffineTransferError,
        InvalidMapError,
        InvalidReplicaPolicyError,
        PlanLimitError,
        TransferRefusedError,
        UnsupportedLayoutError,
    )
    from pytest_affine.maps import (
        AffinePiece,
        Padding,
        ParamAffineMap,
        maps_from_dict,
        maps_to_dict,
    )
    from pytest_affine.plans import (
        PlanBudget,
        RankPlan,
        ReplicaPart,
        ReplicaRequest,
        StagingBudget,
        TransferEndpoints,
        TransferPlan,
        TransferReport,
        TransferSegment,
        TransferStats,
    )
    from pytest_affine.probe import Probe
    from pytest_affine.reference.balancing import balanced_split
    from pytest_affine.reference.planner import plan_transfer
    from pytest_affine.reference.policies import (
        ReplicaPolicy,
        first_holder,
        local_first_least_loaded,
        per_request,
    )
    from pytest_affine.reference.replicas import plan_transfers
    from pytest_affine.sync import Sync, SyncParameter

_HOMES = {
    "contract.implementation": ("Implementation",),
    "errors": (
        "AffineTransferError",
        "InvalidMapError",
        "InvalidReplicaPolicyError",
        "PlanLimitError",
        "TransferRefusedError",
        "UnsupportedLayoutError",
    ),
    "maps": ("AffinePiece", "Padding", "ParamAffineMap", "maps_from_dict", "maps_to_dict"),
    "plans": (
        "PlanBudget",
        "RankPlan",
        "ReplicaPart",
        "ReplicaRequest",
        "StagingBudget",
        "TransferEndpoints",
        "TransferPlan",
        "TransferReport",
        "TransferSegment",
        "TransferStats",
    ),
    "probe": ("Probe",),
    "reference.balancing": ("balanced_split",),
    "reference.planner": ("plan_transfer",),
    "reference.policies": (
        "ReplicaPolicy",
        "first_holder",
        "local_first_least_loaded",
        "per_request",
    ),
    "reference.replicas": ("plan_transfers",),
    "sync": ("Sync", "SyncParameter"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AffinePiece",
    "AffineTransferError",
    "Implementation",
    "InvalidMapError",
    "InvalidReplicaPolicyError",
    "Padding",
    "ParamAffineMap",
    "PlanBudget",
    "PlanLimitError",
    "Probe",
    "RankPlan",
    "ReplicaPart",
    "ReplicaPolicy",
    "ReplicaRequest",
    "StagingBudget",
    "Sync",
    "SyncParameter",
    "TransferEndpoints",
    "TransferPlan",
    "TransferRefusedError",
    "TransferReport",
    "TransferSegment",
    "TransferStats",
    "UnsupportedLayoutError",
    "balanced_split",
    "first_holder",
    "local_first_least_loaded",
    "maps_from_dict",
    "maps_to_dict",
    "per_request",
    "plan_transfer",
    "plan_transfers",
]

__version__ = version("pytest-affine")


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
