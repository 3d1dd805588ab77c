"""Answers that break the rule BATCH-ANSWER in one way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pytest_affine.plans import ReplicaPart, ReplicaRequest
from pytest_affine.strategies.answering import answers, least_rows, rows_of

__all__ = ["ANSWER_FAULTS", "InvalidAnswers", "invalid_answers"]


@dataclass(frozen=True, slots=True)
class InvalidAnswers:
    """What a policy must not return.

    Attributes:
        answers: what it returns.
        fault: what is wrong, one of `ANSWER_FAULTS`.
        index: which answer it is that is wrong; None where their number is.
    """

    answers: tuple[Any, ...]
    fault: str
    index: int | None


def _no_candidates(request: ReplicaRequest) -> Iterator[object]:
    for other in (max(request.holders) + 1, -1):
        yield other
        yield (_whole(request, source_location=other),)


def _no_locations(request: ReplicaRequest) -> Iterator[object]:
    holder = request.holders[0]
    for value in (None, bool(holder), float(holder), str(holder)):
        yield value
        yield (_whole(request, source_location=value),)


def _gaps(request: ReplicaRequest) -> Iterator[object]:
    yield ()
    num_rows = request.shape[0] if request.shape else 1
    holder = request.holders[0]
    if num_rows > 1:
        yield (rows_of(request, 1, num_rows - 1, holder),)
        yield (rows_of(request, 0, num_rows - 1, holder),)
    if num_rows > 2:
        yield (rows_of(request, 0, 1, holder), rows_of(request, 2, num_rows - 2, holder))


def _overlaps(request: ReplicaRequest) -> Iterator[object]:
    whole = _whole(request)
    yield (whole, whole)
    if request.shape:
        yield (whole, rows_of(request, request.shape[0] - 1, 1, request.holders[-1]))


def _outside(request: ReplicaRequest) -> Iterator[object]:
    if request.shape:
        holder, num_rows = request.holders[0], request.shape[0]
        yield (rows_of(request, -1, num_rows + 1, holder),)
        yield (rows_of(request, 0, num_rows + 1, holder),)


def _other_axes(request: ReplicaRequest) -> Iterator[object]:
    for axis, extent in enumerate(request.shape):
        if axis and extent > 1:
            cut = ((0, extent // 2), (extent // 2, extent - extent // 2))
            yield tuple(
                _whole(
                    request,
                    logical_origin=_with(request.logical_origin, axis, start),
                    shape=(*request.shape[:axis], width, *request.shape[axis + 1 :]),
                )
                for start, width in cut
            )


def _with(origin: tuple[int, ...], axis: int, start: int) -> tuple[int, ...]:
    return (*origin[:axis], origin[axis] + start, *origin[axis + 1 :])


def _empty_parts(request: ReplicaRequest) -> Iterator[object]:
    if request.shape:
        whole, holder = _whole(request), request.holders[-1]
        yield (whole, rows_of(request, request.shape[0], 0, holder))
        yield (rows_of(request, 0, 0, holder), whole)


def _wrong_axes(request: ReplicaRequest) -> Iterator[object]:
    origin, shape = request.logical_origin, request.shape
    yield (_whole(request, logical_origin=(*origin, 0), shape=(*shape, 1)),)
    yield (_whole(request, shape=(*shape, 1)),)
    if shape:
        yield (_whole(request, logical_origin=origin[:-1], shape=shape[:-1]),)


def _no_integers(request: ReplicaRequest) -> Iterator[object]:
    origin, shape = request.logical_origin, request.shape
    yield (_whole(request, logical_origin=None, shape=None),)
    yield (_whole(request, shape=len(shape)),)
    if shape:
        yield (_whole(request, logical_origin=(float(origin[0]), *origin[1:])),)
        yield (_whole(request, shape="".join(map(str, shape))),)
        yield (_whole(request, shape=(str(shape[0]), *shape[1:])),)
    if 1 in shape:
        yield (_whole(request, shape=tuple(True if extent == 1 else extent for extent in shape)),)


def _whole(request: ReplicaRequest, **fields: Any) -> ReplicaPart:
    """The whole region from its first holder, but for these fields."""
    part = ReplicaPart(request.holders[0], request.logical_origin, request.shape)
    return replace(part, **fields)


def _small_parts(request: ReplicaRequest, min_split_bytes: int) -> Iterator[object]:
    least = least_rows(request, min_split_bytes)
    num_rows = request.shape[0] if request.shape else 1
    if least > 1 and num_rows > 1:
        first = min(least, num_rows) - 1
        holder = request.holders[0]
        yield (
            rows_of(request, 0, first, holder),
            rows_of(request, first, num_rows - first, holder),
        )


_FAULTS = {
    "a location that is no candidate": _no_candidates,
    "no location": _no_locations,
    "a gap": _gaps,
    "an overlap": _overlaps,
    "a part outside": _outside,
    "a cut along another axis": _other_axes,
    "an empty part": _empty_parts,
    "a wrong number of axes": _wrong_axes,
    "no sequence of integers": _no_integers,
}

TOO_FEW, TOO_MANY, TOO_SMALL = "too few answers", "too many answers", "a part that is too small"

ANSWER_FAULTS = (TOO_FEW, TOO_MANY, *_FAULTS, TOO_SMALL)
"""What is wrong with answers, as BATCH-ANSWER lists it."""


def _wrong_answers(request: ReplicaRequest, min_split_bytes: int) -> Mapping[str, list[object]]:
    """By fault, every wrong answer to a request."""
    wrong = {fault: list(answers_of(request)) for fault, answers_of in _FAULTS.items()}
    wrong[TOO_SMALL] = list(_small_parts(request, min_split_bytes))
    return wrong


def invalid_answers(
    requests: Sequence[ReplicaRequest],
    *,
    faults: Sequence[str] = ANSWER_FAULTS,
    min_split_bytes: int = 0,
) -> SearchStrategy[InvalidAnswers]:
    """Answers of a policy that must be refused for one reason, and which.

    One answer too few or too many, or one that is wrong among valid ones. They shrink to the first
    fault, in the answer to the first request, all others being first holders.

    Args:
        requests: what the policy is asked, one request at least.
        faults: which of `ANSWER_FAULTS`. Some need a region of more than one row or column.
        min_split_bytes: that given to `plan_transfers`; a part can be too small only where it is
            more than a row.

    Raises:
        ValueError: no requests, an unknown fault, or none that these requests allow for.
    """
    unknown = [fault for fault in faults if fault not in ANSWER_FAULTS]
    if unknown:
        raise ValueError(f"faults must be some of {', '.join(ANSWER_FAULTS)}, got {unknown}")
    if not requests:
        raise ValueError("there must be a request, or no answer can be wrong")
    places: dict[str, list[tuple[int, object]]] = {fault: [] for fault in ANSWER_FAULTS}
    for index, request in enumerate(requests):
        for fault, wrong in _wrong_answers(request, min_split_bytes).items():
            places[fault] += [(index, answer) for answer in wrong]
    possible = [fault for fault in faults if fault in (TOO_FEW, TOO_MANY) or places[fault]]
    if not possible:
        raise ValueError(f"no answer to these requests can have {' or '.join(faults)}")
    right = answers(requests, min_split_bytes=min_split_bytes)
    return _mistaken(right, {fault: places[fault] for fault in possible})


@st.composite
def _mistaken(
    draw: DrawFn,
    right: SearchStrategy[tuple[Any, ...]],
    places: Mapping[str, Sequence[tuple[int, object]]],
) -> InvalidAnswers:
    fault, answered = draw(st.sampled_from(list(places))), draw(right)
    if fault == TOO_FEW:
        return InvalidAnswers(answered[:-1], fault, None)
    if fault == TOO_MANY:
        return InvalidAnswers((*answered, answered[-1]), fault, None)
    index, wrong = draw(st.sampled_from(places[fault]))
    return InvalidAnswers((*answered[:index], wrong, *answered[index + 1 :]), fault, index)
