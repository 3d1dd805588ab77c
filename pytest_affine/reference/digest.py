"""A digest of all that an execution depends on, for ranks to compare before anything moves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferPlan
from pytest_affine.reference.batch import bound_processes
from pytest_affine.reference.widths import ElementSizes, Width, checked_widths
from pytest_affine.sync import canonical_json

__all__ = ["DIGEST_FORMAT_VERSION", "plan_digest"]

DIGEST_FORMAT_VERSION = 1


def plan_digest(
    plans: Mapping[str, TransferPlan],
    endpoints: TransferEndpoints,
    *,
    element_size: ElementSizes,
    budget: StagingBudget,
    cast: bool = False,
) -> str:
    """Return the SHA-256, in hexadecimal, of a batch and of how it is to be run.

    It covers the format version, the parameters in the batch's order with their element sizes,
    segments, logical shapes and shard sizes, the endpoints and the budget. It is the same in every
    process; the order in which mappings other than `plans` were filled does not change it, and one
    element size for all is the same as that size for each. With `cast` an element size may be a
    pair, of source and target.

    Raises:
        AffineTransferError: an unusable budget or element size, or an endpoint that is no process.
    """
    widths, budget_bytes = checked_widths(plans, element_size, budget, cast=cast)
    bindings = [sorted(bound.items()) for bound in bound_processes(endpoints)]
    digest = hashlib.sha256()
    _add(digest, canonical_json([DIGEST_FORMAT_VERSION, budget_bytes, bindings]))
    plans = dict(plans)  # which keeps them alive: they are told apart by identity
    texts: dict[int, str] = {}
    for name, plan in plans.items():
        if id(plan) not in texts:
            texts[id(plan)] = canonical_json(plan.to_dict())
        _add(digest, f"[{canonical_json(name)},{_text(widths[name])},{texts[id(plan)]}]")
    return digest.hexdigest()


def _text(width: Width) -> str:
    return canonical_json([width.source, width.target] if width.is_cast else width.num_bytes)


def _add(digest: hashlib._Hash, text: str) -> None:
    """Add one line; canonical JSON has no line break, so lines can't run into each other."""
    digest.update(text.encode() + b"\n")
