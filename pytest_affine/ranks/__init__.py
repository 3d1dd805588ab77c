"""Functions run on several ranks at once: real processes with a real process group.

Importing this package imports no torch; the ranks have it.
"""

from pytest_affine.ranks.backends import check_backend
from pytest_affine.ranks.failures import RankError, RankFailure, RankSetupError
from pytest_affine.ranks.interpreters import spawn
from pytest_affine.ranks.leases import Lessor
from pytest_affine.ranks.pool import RankPool
from pytest_affine.ranks.processes import shutdown
from pytest_affine.ranks.trouble import Delay, Drop, Reorder, wire_faults
from pytest_affine.ranks.worker import current_rank, device, device_id

__all__ = [
    "Delay",
    "Drop",
    "Lessor",
    "RankError",
    "RankFailure",
    "RankPool",
    "RankSetupError",
    "Reorder",
    "check_backend",
    "current_rank",
    "device",
    "device_id",
    "shutdown",
    "spawn",
    "wire_faults",
]
