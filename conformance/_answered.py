"""A batch as `plan_transfers` takes it, and whether its plans are those that a policy answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_affine import truth
from pytest_affine.conformance._batches import ITEM_BYTES
from pytest_affine.conformance._judging import parameters_of
from pytest_affine.conformance._policies import Answer, Asked, Pairs
from pytest_affine.conformance._reading import assert_read_from, elements_of_box
from pytest_affine.contract.cases import Case
from pytest_affine.plans import ReplicaPart, ReplicaRequest

__all__ = ["METHOD", "assert_exact_as_answered", "pairs_of", "sizes_of"]

METHOD = "plan_transfers"


def pairs_of(case: Case) -> Pairs:
    """What `plan_transfers` takes of a case."""
    return {each.name: (each.source, each.target) for each in parameters_of(case)}


def sizes_of(case: Case) -> dict[str, int]:
    """Bytes per element, by parameter."""
    return {each.name: ITEM_BYTES[each.source_dtype] for each in parameters_of(case)}


def assert_exact_as_answered(asked: Asked, pairs: Pairs, chooser: str = "policy") -> None:
    """Fail unless every plan is exact, and reads each element from the holder answered for it.

    The plans are of the batch `pairs`; `chooser` is who answered, for the text.
    """
    __tracebackhide__ = True
    if list(asked.plans) != list(pairs):
        raise AssertionError(f"there are plans for {list(asked.plans)}, wanted {list(pairs)}")
    for name, (source, target) in pairs.items():
        plan = asked.plans[name]
        truth.assert_exact(plan, source, target)
        answered = zip(asked.requests, asked.answers, strict=True)
        own = [(request, answer) for request, answer in answered if request.parameter == name]
        assert_read_from(plan, source, _holders_named(own, plan.logical_shape), chooser)


def _holders_named(
    answered: Sequence[tuple[ReplicaRequest, Answer]], logical_shape: Sequence[int]
) -> dict[tuple[int, int], int]:
    """By target location and logical element, the holder that was answered."""
    named = {}
    for request, answer in answered:
        whole = ReplicaPart(request.holders[0], request.logical_origin, request.shape)
        parts = [replace(whole, source_location=answer)] if isinstance(answer, int) else answer
        for part in parts:
            for element in elements_of_box(part.logical_origin, part.shape, logical_shape):
                named[request.target_location, element] = part.source_location
    return named
