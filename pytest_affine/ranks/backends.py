"""The backends that ranks can use, and what each needs of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_affine.ranks.failures import RankSetupError
from pytest_affine.ranks.hosts import Host, hosts_for, launched_hosts
from pytest_affine.ranks.processes import START_SECONDS

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Device:
    """A device that one rank can have.

    `id` is its index in torch, which depends on what this process may see of the machine; `key`
    is the same in all processes of the machine.
    """

    id: int
    key: str


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend of torch.distributed and the type of device that each of its ranks has alone."""

    name: str
    device_type: str

    @property
    def needs_devices(self) -> bool:
        """Whether each rank needs a device of its own."""
        return self.device_type != "cpu"

    def find_devices(self) -> tuple[Device, ...]:
        """The devices that ranks could have; touches the device runtime. A helper calls it."""
        import torch
        import torch.distributed as dist

        if not dist.is_backend_available(self.name):
            return ()
        module = torch.get_device_module(self.device_type)
        return tuple(
            Device(index, self._key(getattr(module.get_device_properties(index), "uuid", index)))
            for index in range(module.device_count())
        )

    def named_device(self, index: int) -> Device:
        """A device that is no more than a name."""
        return Device(index, self._key(index))

    def bind(self, index: int | None) -> torch.device:
        """Make a device this process's current one; each rank calls it before anything else."""
        import torch

        if index is None or not self.needs_devices:
            return torch.device("cpu")
        torch.get_device_module(self.device_type).set_device(index)
        return torch.device(self.device_type, index)

    def _key(self, identity: object) -> str:
        return f"{self.device_type}-{identity}"


BACKENDS = {
    row.name: row
    for row in (Backend("gloo", "cpu"), Backend("nccl", "cuda"), Backend("xccl", "xpu"))
}


def check_backend(
    backend: str, num_ranks: int, device_ids: Sequence[int] | None = None
) -> tuple[Device, ...]:
    """The devices that the ranks may have, by id; none where the ranks need none.

    With `device_ids` they are those, one of which each rank has on gloo too, where they are only
    names. Raises RankSetupError unless this machine can run so many ranks on this backend.
    """
    if backend not in BACKENDS:
        raise RankSetupError(f"unknown backend {backend!r}; choices: {', '.join(BACKENDS)}")
    if not isinstance(num_ranks, int) or isinstance(num_ranks, bool) or num_ranks < 1:
        raise RankSetupError(f"the number of ranks must be an integer >= 1, not {num_ranks!r}")
    row = BACKENDS[backend]
    if launched_hosts():
        _check_launched(row, hosts_for(num_ranks), device_ids)
        return ()
    if device_ids is None:
        return _enough(row, num_ranks, _found(row)) if row.needs_devices else ()
    return _chosen(row, num_ranks, device_ids)


def listed(ids: Sequence[int]) -> str:
    """Ids as a person reads them; `none` if there are none."""
    return ", ".join(map(str, ids)) or "none"


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else f"{number} ranks"


def _found(row: Backend) -> tuple[Device, ...]:
    from pytest_affine.ranks.calls import run_alone

    # Counting may initialise the device runtime, after which neither we nor the server could fork.
    return run_alone(row.find_devices, name=f"counting {row.device_type} devices")


def _check_launched(row: Backend, hosts: Sequence[Host], ids: Sequence[int] | None) -> None:
    """Raise RankSetupError unless each host has the device that its launcher has counted out."""
    if ids is not None:
        raise RankSetupError(
            f"device ids (--affine-devices {listed(ids)}) can't be chosen where a launcher has "
            "shared the devices out; choices: CUDA_VISIBLE_DEVICES or its like for the launcher"
        )
    if not row.needs_devices:
        return
    num_found: dict[str, int] = {}
    for rank, host in enumerate(hosts):
        if host.node not in num_found:
            num_found[host.node] = len(host.run(_found, row, seconds=START_SECONDS))
        index, found = host.device_index or 0, num_found[host.node]
        if index >= found:
            raise RankSetupError(
                f"rank {rank} on {row.name} needs {row.device_type.upper()} device {index} of its "
                f"node (LOCAL_RANK); found {found} there; "
                "choices: fewer processes per node, --affine-backend=gloo"
            )


def _enough(row: Backend, num_ranks: int, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    found = len(devices)
    if found < num_ranks:
        fewer = f"at most {_ranks(found)}, " if found else ""
        raise RankSetupError(
            f"asked for {_ranks(num_ranks)} on {row.name}, which needs one "
            f"{row.device_type.upper()} device per rank; found {found}; "
            f"choices: {fewer}--affine-backend=gloo"
        )
    return devices


def _chosen(row: Backend, num_ranks: int, ids: Sequence[int]) -> tuple[Device, ...]:
    if len({*ids}) < len(ids) or not ids or min(ids) < 0:
        raise RankSetupError(
            f"device ids (--affine-devices) must be different integers from 0 on, got {listed(ids)}"
        )
    if len(ids) < num_ranks:
        raise RankSetupError(
            f"asked for {_ranks(num_ranks)} on {row.name}, each with a device id of its own; "
            f"--affine-devices has {listed(ids)}; "
            f"choices: at most {_ranks(len(ids))}, more ids in --affine-devices"
        )
    if not row.needs_devices:
        return tuple(map(row.named_device, sorted(ids)))
    by_id = {device.id: device for device in _found(row)}
    if missing := sorted({*ids} - {*by_id}):
        raise RankSetupError(
            f"--affine-devices has {listed(missing)}, but the {row.device_type.upper()} devices "
            f"of {row.name} here are {listed([*by_id])}"
        )
    return tuple(by_id[each] for each in sorted(ids))
