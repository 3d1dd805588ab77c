"""A probe on the ranks of a test: each has its own tensors, the controller has the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_affine.probe.probing import Probe
from pytest_affine.probe.report import ProbeReport

if TYPE_CHECKING:
    from pytest_affine.multirank.launcher import AffineRanks

__all__ = ["ProbeOnRanks"]


class ProbeOnRanks:
    """Probes a refit on ranks.

    Args:
        ranks: the ranks of a test.
    """

    def __init__(self, ranks: AffineRanks) -> None:
        self._ranks = ranks

    def run(
        self,
        build: Callable[..., tuple[Probe, Callable[[], object]]],
        /,
        *args: Any,
        **kwargs: Any,
    ) -> ProbeReport:
        """Call `build(*args, **kwargs)` on every rank, and there run the probe on the refit.

        Args:
            build: gives a probe, with the tensors of its rank, and the refit to be probed.
            args: what it is called with, as `affine_ranks.run` sends it.
            kwargs: the same by name.

        Returns:
            What was found on all ranks.

        Raises:
            RankFailure: a rank died, hung, or raised outside of the refit.
        """
        __tracebackhide__ = True
        return ProbeReport.merge(self._ranks.run(_probe, build, *args, **kwargs))


def _probe(
    build: Callable[..., tuple[Probe, Callable[[], object]]], /, *args: Any, **kwargs: Any
) -> ProbeReport:
    __tracebackhide__ = True
    probe, refit = build(*args, **kwargs)
    return probe.run(refit)
