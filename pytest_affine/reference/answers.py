"""What a policy answered, checked: for every request a holder, or parts that tile its region.

Everything is read once, and nothing before its length is known to be right, for an answer may be
lazy, or huge, or change while it is looked at.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from itertools import islice
from typing import Any, NoReturn, TypeAlias

from pytest_affine.errors import InvalidMapError, InvalidReplicaPolicyError
from pytest_affine.plans import ReplicaPart, ReplicaRequest
from pytest_affine.values import integers

__all__ = ["Choice", "checked_answers", "checked_choices"]

Choice: TypeAlias = int | tuple[ReplicaPart, ...]
"""A checked answer: a holder's location, or two or more parts in the order of their rows."""


def checked_answers(num_requests: int, answers: Any) -> tuple[object, ...]:
    """Return the answers of a policy, one per request and none of them looked at.

    Raises:
        InvalidReplicaPolicyError: no sequence, or not as many answers as there are requests.
    """
    length = _length(answers)
    if length == num_requests and (read := _read(answers, length)) is not None:
        return read
    got = _shown(answers) if length is None else f"{length} in {_shown(answers)}"
    raise InvalidReplicaPolicyError(
        f"a policy must return a sequence of {num_requests} answers, one per request, got {got}"
    )


def checked_choices(
    requests: Sequence[ReplicaRequest],
    answers: Sequence[object],
    *,
    spare_pairs: int,
    min_split_bytes: int,
) -> tuple[Choice, ...]:
    """Check the answers to the requests of one parameter.

    Args:
        requests: what was asked.
        answers: what was answered, one answer per request.
        spare_pairs: how many parts beyond one per region the limit on pair checks allows.
        min_split_bytes: bytes that each part of a split must have.

    Raises:
        InvalidReplicaPolicyError: a location that is no holder; parts that do not tile their
            region along axis 0, or are too small; more parts than `spare_pairs` allows, which is
            decided from their number before one of them is read.
    """
    choices: list[Choice] = []
    for request, answer in zip(requests, answers, strict=True):
        if (holder := _holder(request, answer)) is not None:
            choices.append(holder)
            continue
        length = _num_parts(request, answer)
        spare_pairs -= length - 1
        if spare_pairs < 0:
            _refuse(
                request,
                f"has {length} parts, with which this parameter takes {-spare_pairs} pair checks "
                "more than PlanBudget.max_pair_checks allows; answer with fewer parts, or pass "
                "limits=PlanBudget(max_pair_checks=...) with more",
            )
        choices.append(_choice(request, answer, length, min_split_bytes))
    return tuple(choices)


def _holder(request: ReplicaRequest, location: object) -> int | None:
    """A holder's location as a plain int; None for anything else."""
    if isinstance(location, int) and not isinstance(location, bool):
        return int(location) if location in request.holders else None
    return None


def _num_parts(request: ReplicaRequest, answer: Any) -> int:
    """Number of parts of an answer that is not the location of a holder."""
    length = _length(answer)
    if not length:
        _refuse(
            request,
            f"is {_shown(answer)}; it must be the location of a holder, one of "
            f"{request.holders}, or a sequence of ReplicaParts that cut the region along axis 0",
        )
    return length


def _choice(request: ReplicaRequest, answer: Any, length: int, min_split_bytes: int) -> Choice:
    read = _read(answer, length)
    if read is None:
        _refuse(request, f"says that it has {length} parts, and has another number of them")
    parts = [_part(request, index, part) for index, part in enumerate(read)]
    if len(parts) > 1 and not request.shape:
        _refuse(request, f"has {length} parts; a region without axes is read in one")
    parts.sort(key=lambda part: tuple(part.logical_origin))
    _check_tiling(request, parts)
    if len(parts) == 1:
        return parts[0].source_location
    for part in parts:
        num_bytes = math.prod(part.shape) * request.element_size
        if num_bytes < min_split_bytes:
            _refuse(
                request,
                f"has a part at {part.logical_origin} of shape {part.shape}, which is {num_bytes} "
                f"bytes; each part of a split must have min_split_bytes={min_split_bytes} or more",
            )
    return tuple(parts)


def _part(request: ReplicaRequest, index: int, part: object) -> ReplicaPart:
    """A part whose fields are plain and that differs from its region along axis 0 at most."""
    if not isinstance(part, ReplicaPart):
        _refuse(request, f"has as part {index} {_shown(part)}; it must be a ReplicaPart")
    if (holder := _holder(request, part.source_location)) is None:
        _refuse(
            request,
            f"reads part {index} from {_shown(part.source_location)}; it must be the location of "
            f"a holder, one of {request.holders}",
        )
    origin = _axes(request, index, "logical_origin", part.logical_origin)
    shape = _axes(request, index, "shape", part.shape)
    if (origin[1:], shape[1:]) != (request.logical_origin[1:], request.shape[1:]):
        _refuse(
            request,
            f"has part {index} at {origin} of shape {shape}; a region is cut along axis 0 only",
        )
    if min(shape, default=1) < 1:
        _refuse(request, f"has part {index} at {origin} of shape {shape}; no part may be empty")
    return ReplicaPart(holder, origin, shape)


def _axes(request: ReplicaRequest, index: int, field: str, values: Any) -> tuple[int, ...]:
    num_axes, length = len(request.shape), _length(values)
    read = _read(values, length) if length == num_axes else None
    if read is None:
        _refuse(
            request,
            f"has as {field} of part {index} {_shown(values)}; it must be a sequence of "
            f"{num_axes} integers, one per axis of the region",
        )
    try:
        return integers(read, f"{field} of part {index}")
    except InvalidMapError as error:
        _refuse(request, f"has no integers there: {error}")


def _check_tiling(request: ReplicaRequest, parts: Sequence[ReplicaPart]) -> None:
    """Refuse gaps, overlaps, and parts outside; the parts are sorted."""
    if not request.shape:
        return
    first = request.logical_origin[0]
    row, end = first, first + request.shape[0]
    for part in parts:
        start, stop = part.logical_origin[0], part.logical_origin[0] + part.shape[0]
        if start < first or stop > end:
            _refuse(
                request, f"has a part of rows {start}:{stop} outside the region's {first}:{end}"
            )
        if start < row:
            _refuse(request, f"reads rows {start}:{min(row, stop)} twice, so that parts overlap")
        if start > row:
            _refuse(request, f"leaves a gap: no part has rows {row}:{start}")
        row = stop
    if row < end:
        _refuse(request, f"leaves a gap: no part has rows {row}:{end}")


def _length(values: Any) -> int | None:
    """Length of a sequence; None for what is none, or says no usable length."""
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes, bytearray)):
        return None
    try:
        return len(values)
    except (OverflowError, ValueError):  # beyond sys.maxsize, or negative
        return None


def _read(values: Sequence[Any], length: int) -> tuple[Any, ...] | None:
    """What a sequence holds; None if that is not as many as it says."""
    read = tuple(islice(iter(values), length + 1))
    return read if len(read) == length else None


_repr = reprlib.Repr()
_repr.maxother = 120


def _shown(value: object) -> str:
    return _repr.repr(value)


def _refuse(request: ReplicaRequest, problem: str) -> NoReturn:
    raise InvalidReplicaPolicyError(
        f"the answer for the region at {request.logical_origin} of shape {request.shape} of "
        f"parameter {request.parameter!r} that target location {request.target_location} needs "
        f"{problem}"
    )
