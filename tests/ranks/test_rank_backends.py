"""Which ranks can be had on this machine."""

import re
from collections.abc import Callable

import pytest
import torch

from pytest_affine.ranks import RankPool, RankSetupError, check_backend
from pytest_affine.ranks.backends import BACKENDS, Backend


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the helper that counts devices find so many."""

    def pretend(count: int) -> None:
        def run_alone(function: Callable[[], int], *, name: str) -> int:
            return count

        monkeypatch.setattr("pytest_affine.ranks.calls.run_alone", run_alone)

    return pretend


def test_gloo_needs_no_devices() -> None:
    check_backend("gloo", 64)


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


def test_as_many_ranks_as_devices_are_allowed(devices: Callable[[int], None]) -> None:
    devices(4)
    check_backend("nccl", 4)


@pytest.mark.parametrize("backend", ["nccl", "xccl"])
def test_devices_are_really_counted_by_a_helper(backend: str) -> None:
    """One rank more than there can be devices."""
    with pytest.raises(RankSetupError, match=f"asked for 1000 ranks on {backend}, .*; found [0-9]"):
        check_backend(backend, 1000)


def test_devices_count_only_if_torch_has_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert Backend("gloo", "cuda").count_devices() == 3
    assert Backend("no such backend", "cuda").count_devices() == 0


def test_gloo_binds_no_device() -> None:
    assert BACKENDS["gloo"].bind(3) == torch.device("cpu")


def test_a_rank_with_devices_takes_the_one_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", bound.append)
    assert BACKENDS["nccl"].bind(2) == torch.device("cuda", 2)
    assert bound == [2]
