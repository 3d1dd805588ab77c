"""Several certificates as one: the runs of one suite on one implementation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_affine.certificate.record import Certificate, Run
from pytest_affine.certificate.shape import DocumentError

__all__ = ["merge"]


def merge(certificates: Sequence[tuple[str, Certificate]]) -> Certificate:
    """The runs of all certificates in one, each once, in the order of backends and ranks.

    Each run keeps a verdict of its own, and the worst of them is the merged one's.

    Args:
        certificates: (name of the file, what it holds), two or more.

    Raises:
        DocumentError: they are of different suites or implementations; names what differs.
    """
    name, first = certificates[0]
    for other_name, other in certificates[1:]:
        for what, one, another in _differences(first, other):
            raise DocumentError(
                f"{name} and {other_name} differ in {what}: {one}, {another}; only runs of one "
                "suite on one implementation can be merged"
            )
    runs: list[Run] = []
    for run in (run for _, certificate in certificates for run in certificate.runs):
        runs += [] if run in runs else [run]
    return replace(first, runs=tuple(sorted(runs, key=_order)))


def _differences(one: Certificate, other: Certificate) -> Iterator[tuple[str, object, object]]:
    behind, beside = one.subject.distribution, other.subject.distribution
    pairs = {
        "the version of pytest-affine": (one.pytest_affine, other.pytest_affine),
        "the digest of the suite": (one.suite, other.suite),
        "the name of the implementation": (one.subject.name, other.subject.name),
        "the version of the implementation": (one.subject.version, other.subject.version),
        "the digest of the adapter": (one.subject.adapter_digest, other.subject.adapter_digest),
        "the package behind the adapter": (
            behind and f"{behind.name} {behind.version}",
            beside and f"{beside.name} {beside.version}",
        ),
        "the digest of the package behind the adapter": (
            behind and behind.digest,
            beside and beside.digest,
        ),
    }
    for what, (left, right) in pairs.items():
        if left != right:
            yield what, left, right


def _order(run: Run) -> tuple[str, int, int, int]:
    return run.backend, run.num_ranks, run.seed, run.num_examples
