"""What several modules of the suite judge alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pytest_affine import truth
from pytest_affine.contract.cases import Case
from pytest_affine.contract.implementation import NotClaimedError
from pytest_affine.errors import AffineTransferError, InvalidMapError, UnsupportedLayoutError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferPlan
from pytest_affine.sync import SyncParameter

__all__ = [
    "assert_equal_statistics",
    "assert_exact_or_refused",
    "assert_keeps_rule",
    "assert_refused",
    "assert_same",
    "distinct_maps",
    "no_more_refusals",
    "parameters_of",
    "through_json",
]


def assert_refused(
    call: Callable[[], Any],
    what: str,
    *,
    kinds: tuple[type[AffineTransferError], ...] = (InvalidMapError, UnsupportedLayoutError),
    naming: str = "",
) -> None:
    """Fail unless `call` raises one of `kinds`, with `naming` in its text."""
    __tracebackhide__ = True
    wanted = " or ".join(kind.__name__ for kind in kinds)
    try:
        value = call()
    except kinds as refusal:
        if naming not in str(refusal):
            text = f"{type(refusal).__name__}: {refusal}"
            raise AssertionError(f"{what}: the error does not name {naming!r}: {text}") from None
    except AffineTransferError as refusal:
        text = f"{type(refusal).__name__}: {refusal}"
        raise AssertionError(f"{what}: must be refused with {wanted}, got {text}") from None
    else:
        got = "" if value is None else f", giving a {type(value).__name__}"
        raise AssertionError(f"{what}: must be refused with {wanted}, but was accepted{got}")


def assert_keeps_rule(
    rule: str, plan: TransferPlan, source: ParamAffineMap, target: ParamAffineMap
) -> None:
    """Fail if a plan breaks this one rule, with a drawing of the first shard that shows it."""
    __tracebackhide__ = True
    truth.assert_exact(plan, source, target, rules=(rule,))


def assert_exact_or_refused(
    call: Callable[[], TransferPlan], source: ParamAffineMap, target: ParamAffineMap
) -> None:
    """Fail if `call` returns a wrong plan; an exact one and a refusal are both honest."""
    __tracebackhide__ = True
    try:
        plan = call()
    except AffineTransferError:
        return
    truth.assert_exact(plan, source, target)


def parameters_of(case: Case) -> tuple[SyncParameter, ...]:
    """The parameters of a case that has a sync."""
    assert case.sync is not None, f"case {case.name!r} has no sync"
    return case.sync.parameters


@contextmanager
def no_more_refusals(since: str) -> Iterator[None]:
    """Fail if what was not refused before, under other circumstances, is refused now."""
    try:
        yield
    except AffineTransferError as refusal:
        text = f"{type(refusal).__name__}: {refusal}"
        raise AssertionError(f"{since}, and then refused with {text}") from None


def distinct_maps(case: Case) -> Iterator[ParamAffineMap]:
    """The maps of both sides of a sync, each once."""
    sides = ((parameter.source, parameter.target) for parameter in parameters_of(case))
    yield from dict.fromkeys(map_ for pair in sides for map_ in pair)


def through_json(document: object) -> Any:
    """What is read of a document that was written as JSON; fail if it can't be."""
    __tracebackhide__ = True
    try:
        return json.loads(json.dumps(document, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{document!r} is not ready for JSON: {error}") from None


def assert_equal_statistics(
    wanted: Mapping[str, int | None], returned: Mapping[str, int | None], what: str
) -> None:
    """Fail if a field of `wanted` differs; one that an implementation does not have is None."""
    __tracebackhide__ = True
    both = {name: (want, returned[name]) for name, want in wanted.items()}
    pairs = {name: values for name, values in both.items() if None not in values}
    if not pairs:
        raise NotClaimedError("a field of TransferStats that both have")
    wrong = [f"{name} {want}, got {got}" for name, (want, got) in pairs.items() if want != got]
    if wrong:
        raise AssertionError(f"{what} {', '.join(wrong)}")


def assert_same(said: Mapping[Any, object], wanted: Mapping[Any, object], what: str) -> None:
    """Fail where two tables differ; an entry of zeros is the same as none."""
    __tracebackhide__ = True
    empty = (None, 0, (0, 0))
    wrong = [
        f"{key}: {said.get(key)}, should be {wanted.get(key)}"
        for key in sorted(said.keys() | wanted.keys())
        if said.get(key) != wanted.get(key)
        and not (said.get(key) in empty and wanted.get(key) in empty)
    ]
    if wrong:
        raise AssertionError(f"{what}: {'; '.join(wrong)}")
