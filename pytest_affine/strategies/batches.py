"""What belongs to a batch beside its maps: processes, dtypes, bytes and limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pytest_affine.plans import PlanBudget, StagingBudget, TransferEndpoints

__all__ = [
    "DTYPES",
    "EVERYDAY_DTYPES",
    "dtypes",
    "element_sizes",
    "endpoints",
    "plan_budgets",
    "staging_budgets",
]

EVERYDAY_DTYPES = ("float32", "bfloat16", "int64", "int8", "bool")
"""Those that every resharder has, of 1 to 8 bytes."""

DTYPES = (
    *EVERYDAY_DTYPES,
    "float16",
    "float64",
    "complex64",
    "float8_e4m3fn",
    "float8_e5m2",
)
"""Those that requirement EXEC-DTYPE names, of 1 to 8 bytes; torch attribute names."""

ELEMENT_SIZES = (1, 2, 4, 8, 16)
MAX_LIMIT = 64


def dtypes(*, names: Sequence[str] = DTYPES) -> SearchStrategy[str]:
    """Names of torch's dtypes, such as "bfloat16"; earlier ones count as simpler."""
    return st.sampled_from(names)


def element_sizes(*, parameters: Sequence[str] = ()) -> SearchStrategy[int | dict[str, int]]:
    """Bytes per element, 1 to 16: one number, or else one for each of these parameters.

    They shrink to 1.
    """
    one = st.sampled_from(ELEMENT_SIZES)
    if not parameters:
        return one
    return one | st.fixed_dictionaries(dict.fromkeys(parameters, one))


def endpoints(
    *, source: Iterable[int], target: Iterable[int], num_processes: int
) -> SearchStrategy[TransferEndpoints]:
    """Processes 0 to `num_processes - 1` for these locations.

    All on one process, one after the other in turn, senders apart from receivers (where there are
    two processes), or any, many locations on one process and none on another included. They shrink
    to all on process 0.

    Args:
        source: source locations.
        target: target locations.
        num_processes: 1 or more.

    Raises:
        ValueError: fewer than one process.
    """
    if num_processes < 1:
        raise ValueError(f"num_processes must be 1 or more, got {num_processes}")
    return _endpoints(sorted(source), sorted(target), num_processes)


@st.composite
def _endpoints(
    draw: DrawFn, source: Sequence[int], target: Sequence[int], num_processes: int
) -> TransferEndpoints:
    everyone = range(num_processes)
    how = draw(st.sampled_from(("one process", "in turn", "apart", "any")))
    if how == "one process":
        senders = receivers = st.just(draw(st.sampled_from(everyone)))
    elif how == "in turn":
        sides = (
            {location: (index + first) % num_processes for index, location in enumerate(locations)}
            for locations, first in ((source, 0), (target, draw(st.sampled_from(everyone))))
        )
        return TransferEndpoints(*sides)
    elif how == "apart" and num_processes > 1:
        first = draw(st.integers(1, num_processes - 1))
        senders, receivers = st.sampled_from(everyone[:first]), st.sampled_from(everyone[first:])
    else:
        senders = receivers = st.sampled_from(everyone)
    return TransferEndpoints(
        {location: draw(senders) for location in source},
        {location: draw(receivers) for location in target},
    )


def staging_budgets(*, min_bytes: int = 8, max_bytes: int = 96) -> SearchStrategy[StagingBudget]:
    """Staging budgets from `min_bytes` to `max_bytes`, and the default one.

    A budget must hold an element: 8 bytes are enough for all of `DTYPES`. They shrink to
    `min_bytes`, which gives most messages.

    Raises:
        ValueError: bounds that allow for nothing.
    """
    if not 1 <= min_bytes <= max_bytes:
        raise ValueError(f"1 <= min_bytes <= max_bytes must hold, got {min_bytes} and {max_bytes}")
    return st.builds(StagingBudget, st.integers(min_bytes, max_bytes)) | st.just(StagingBudget())


def plan_budgets(*, limits: Sequence[str] = ()) -> SearchStrategy[PlanBudget]:
    """Limits on planning: some of these from 0 to 64, the others as they are unless given.

    Planning small maps exceeds some of them, and fits others. They shrink to the default.

    Args:
        limits: fields of `PlanBudget`; all of them where none is named.

    Raises:
        ValueError: an unknown limit.
    """
    known = [field.name for field in fields(PlanBudget)]
    if unknown := [limit for limit in limits if limit not in known]:
        raise ValueError(f"limits must be some of {', '.join(known)}, got {unknown}")
    tight = dict.fromkeys(limits or known, st.integers(0, MAX_LIMIT))
    return st.fixed_dictionaries({}, optional=tight).map(lambda given: PlanBudget(**given))
