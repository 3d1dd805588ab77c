"""The backends that ranks can use, and what each needs of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_affine.ranks.failures import RankSetupError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend of torch.distributed and the type of device that each of its ranks has alone."""

    name: str
    device_type: str

    @property
    def needs_devices(self) -> bool:
        """Whether each rank needs a device of its own."""
        return self.device_type != "cpu"

    def count_devices(self) -> int:
        """How many ranks could have a device; touches the device runtime. A helper calls it."""
        import torch
        import torch.distributed as dist

        if not dist.is_backend_available(self.name):
            return 0
        count: int = torch.get_device_module(self.device_type).device_count()
        return count

    def bind(self, index: int) -> torch.device:
        """Make a device this process's current one; each rank calls it before anything else."""
        import torch

        if not self.needs_devices:
            return torch.device("cpu")
        torch.get_device_module(self.device_type).set_device(index)
        return torch.device(self.device_type, index)


BACKENDS = {
    row.name: row
    for row in (Backend("gloo", "cpu"), Backend("nccl", "cuda"), Backend("xccl", "xpu"))
}


def check_backend(backend: str, num_ranks: int) -> None:
    """Raise RankSetupError unless this machine can run so many ranks on this backend."""
    if backend not in BACKENDS:
        raise RankSetupError(f"unknown backend {backend!r}; choices: {', '.join(BACKENDS)}")
    if not isinstance(num_ranks, int) or isinstance(num_ranks, bool) or num_ranks < 1:
        raise RankSetupError(f"the number of ranks must be an integer >= 1, not {num_ranks!r}")
    row = BACKENDS[backend]
    if row.needs_devices:
        _check_devices(row, num_ranks)


def _check_devices(row: Backend, num_ranks: int) -> None:
    from pytest_affine.ranks.calls import run_alone

    # Counting may initialise the device runtime, after which neither we nor the server could fork.
    found = run_alone(row.count_devices, name=f"counting {row.device_type} devices")
    if found < num_ranks:
        fewer = f"at most {found} ranks, " if found else ""
        raise RankSetupError(
            f"asked for {num_ranks} ranks on {row.name}, which needs one "
            f"{row.device_type.upper()} device per rank; found {found}; "
            f"choices: {fewer}--affine-backend=gloo"
        )
