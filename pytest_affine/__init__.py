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
        ReplicaPart,
        ReplicaRequest,
        StagingBudget,
        TransferEndpoints,
        TransferPlan,
        TransferReport,
        TransferSegment,
        TransferStats,
    )
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
        "ReplicaPart",
        "ReplicaRequest",
        "StagingBudget",
        "TransferEndpoints",
        "TransferPlan",
        "TransferReport",
        "TransferSegment",
        "TransferStats",
    ),
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
    "ReplicaPart",
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
    "maps_from_dict",
    "maps_to_dict",
]

__version__ = version("pytest-affine")


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
