"""Which ranks can be had on this machine."""

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
import torch

from pytest_affine.ranks import RankPool, RankSetupError, check_backend
from pytest_affine.ranks.backends import BACKENDS, Backend, Device


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the helper that looks for devices find so many."""

    def pretend(count: int) -> None:
        def run_alone(function: object, *, name: str) -> tuple[Device, ...]:
            return tuple(Device(index, f"card {index}") for index in range(count))

        monkeypatch.setattr("pytest_affine.ranks.calls.run_alone", run_alone)

    return pretend


def test_gloo_needs_no_devices() -> None:
    assert check_backend("gloo", 64) == ()


def test_on_gloo_ids_are_only_names() -> None:
    assert check_backend("gloo", 2, [7, 3]) == (Device(3, "cpu-3"), Device(7, "cpu-7"))


def test_elsewhere_ids_choose_among_the_devices_that_are_there(
    devices: Callable[[int], None],
) -> None:
    devices(4)
    assert check_backend("nccl", 2, [3, 1]) == (Device(1, "card 1"), Device(3, "card 3"))


def test_a_backend_that_nobody_knows_is_refused() -> None:
    with pytest.raises(RankSetupError, match=r"unknown backend 'mpi'; choices: gloo, nccl, xccl"):
        check_backend("mpi", 2)


@pytest.mark.parametrize("num_ranks", [0, -1, True, 2.0, "2"])
def test_a_number_of_ranks_that_is_none_is_refused(num_ranks: int) -> None:
    text = f"the number of ranks must be an integer >= 1, not {num_ranks!r}"
    with pytest.raises(RankSetupError, match=re.escape(text)):
        RankPool(num_ranks)


@pytest.mark.parametrize(
    ("backend", "found", "text"),
    [
        (
            "nccl",
            0,
            "asked for 4 ranks on nccl, which needs one CUDA device per rank; found 0; "
            "choices: --affine-backend=gloo",
        ),
        (
            "nccl",
            3,
            "asked for 4 ranks on nccl, which needs one CUDA device per rank; found 3; "
            "choices: at most 3 ranks, --affine-backend=gloo",
        ),
        (
            "xccl",
            0,
            "asked for 4 ranks on xccl, which needs one XPU device per rank; found 0; "
            "choices: --affine-backend=gloo",
        ),
    ],
)
def test_more_ranks_than_devices_are_refused_before_any_starts(
    devices: Callable[[int], None], backend: str, found: int, text: str
) -> None:
    devices(found)
    with pytest.raises(RankSetupError, match=f"^{re.escape(text)}$"):
        RankPool(4, backend=backend)


@pytest.mark.parametrize(
    ("backend", "ids", "text"),
    [
        (
            backend,
            [5, 0],
            f"asked for 4 ranks on {backend}, each with a device id of its own; --affine-devices "
            "has 5, 0; choices: at most 2 ranks, more ids in --affine-devices",
        )
        for backend in BACKENDS
    ]
    + [
        (
            "xccl",
            [0, 1, 2, 3, 9, 8],
            "--affine-devices has 3, 8, 9, but the XPU devices of xccl here are 0, 1, 2",
        )
    ],
)
def test_ids_that_are_too_few_or_not_there_are_refused_before_any_rank_starts(
    devices: Callable[[int], None], backend: str, ids: Sequence[int], text: str
) -> None:
    devices(3)
    with pytest.raises(RankSetupError, match=f"^{re.escape(text)}$"):
        RankPool(4, backend=backend, device_ids=ids)


def test_ids_without_any_device_are_refused(devices: Callable[[int], None]) -> None:
    devices(0)
    with pytest.raises(RankSetupError, match=r"has 0, but the CUDA devices of nccl here are none$"):
        check_backend("nccl", 1, [0])


@pytest.mark.parametrize("ids", [[-1, 0], [1, 2, 1], []])
def test_ids_that_are_none_are_refused(ids: Sequence[int]) -> None:
    told = ", ".join(map(str, ids)) or "none"
    text = f"device ids (--affine-devices) must be different integers from 0 on, got {told}"
    with pytest.raises(RankSetupError, match=f"^{re.escape(text)}$"):
        check_backend("gloo", 1, ids)


def test_as_many_ranks_as_devices_are_allowed(devices: Callable[[int], None]) -> None:
    devices(4)
    assert len(check_backend("nccl", 4)) == 4


@pytest.mark.parametrize("backend", ["nccl", "xccl"])
def test_devices_are_really_counted_by_a_helper(backend: str) -> None:
    """One rank more than there can be devices."""
    with pytest.raises(RankSetupError, match=f"asked for 1000 ranks on {backend}, .*; found [0-9]"):
        check_backend(backend, 1000)


def test_devices_are_there_only_if_torch_has_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = [SimpleNamespace(uuid="b"), SimpleNamespace(uuid="a"), SimpleNamespace()]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties.__getitem__)
    assert Backend("gloo", "cuda").find_devices() == (
        Device(0, "cuda-b"),
        Device(1, "cuda-a"),
        Device(2, "cuda-2"),
    )
    assert Backend("no such backend", "cuda").find_devices() == ()


def test_gloo_binds_no_device() -> None:
    assert BACKENDS["gloo"].bind(3) == torch.device("cpu")


def test_a_rank_with_devices_takes_the_one_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", bound.append)
    assert BACKENDS["nccl"].bind(2) == torch.device("cuda", 2)
    assert bound == [2]
