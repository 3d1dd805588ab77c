"""Whole syncs, and the cases of the suite that they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pytest_affine.contract.cases import Case
from pytest_affine.maps import ParamAffineMap
from pytest_affine.strategies.batches import (
    EVERYDAY_DTYPES,
    dtypes,
    endpoints,
    staging_budgets,
)
from pytest_affine.strategies.extents import MAX_ELEMENTS
from pytest_affine.strategies.valid import (
    MAP_KINDS,
    MAX_LOCATIONS,
    check_map_options,
    map_pairs,
)
from pytest_affine.sync import Sync, SyncParameter

__all__ = ["sync_cases", "syncs"]


def syncs(
    *,
    num_processes: int,
    max_parameters: int = 3,
    dtype_names: Sequence[str] = EVERYDAY_DTYPES,
    kinds: Sequence[str] = MAP_KINDS,
    max_locations: int = MAX_LOCATIONS,
    max_elements: int = MAX_ELEMENTS,
) -> SearchStrategy[Sync]:
    """Valid syncs on `num_processes` processes: any maps, any binding, any usable budget.

    Parameters are called p0, p1, ...; each has one dtype on both sides. Endpoints are those of
    `endpoints`; they may bind locations that no map has. Half of the syncs have no padding
    anywhere, since not every resharder knows it. They shrink to one small parameter, with
    everything on process 0.

    Args:
        num_processes: size of the transport group.
        max_parameters: 1 or more.
        dtype_names: torch attribute names of up to 8 bytes.
        kinds: as in `maps`.
        max_locations: as in `maps`.
        max_elements: as in `maps`, for each parameter.

    Raises:
        ValueError: no process, no parameter, or what `maps` refuses.
    """
    check_map_options(kinds, max_locations)
    for field, value in (("num_processes", num_processes), ("max_parameters", max_parameters)):
        if value < 1:
            raise ValueError(f"{field} must be 1 or more, got {value}")
    pairs = partial(map_pairs, kinds=kinds, max_locations=max_locations, max_elements=max_elements)
    plain, padded = (
        st.lists(
            st.tuples(pairs(padding=padding), dtypes(names=dtype_names)),
            min_size=1,
            max_size=max_parameters,
        )
        for padding in (False, True)
    )
    return _syncs(plain | padded, num_processes, range(max_locations))


@st.composite
def _syncs(
    draw: DrawFn,
    parameters: SearchStrategy[list[tuple[tuple[ParamAffineMap, ParamAffineMap], str]]],
    num_processes: int,
    all_locations: Sequence[int],
) -> Sync:
    drawn = draw(parameters)
    bound = [all_locations, all_locations]
    if not draw(st.booleans()):
        used = zip(*(pair for pair, _ in drawn), strict=True)
        bound = [sorted({at for map_ in maps for at in map_.locations}) for maps in used]
    source, target = bound
    return Sync(
        parameters=tuple(
            SyncParameter(
                name=f"p{index}",
                source=pair[0],
                target=pair[1],
                source_dtype=dtype,
                target_dtype=dtype,
            )
            for index, (pair, dtype) in enumerate(drawn)
        ),
        endpoints=draw(endpoints(source=source, target=target, num_processes=num_processes)),
        num_processes=num_processes,
        budget=draw(staging_budgets()),
    )


def sync_cases(num_processes: int) -> SearchStrategy[Case]:
    """Drawn syncs, as cases of the suite."""
    return syncs(num_processes=num_processes).map(
        lambda sync: Case(name="drawn", kind="sync", sync=sync)
    )
