"""What a sync's shards hold, and what its plan moves, as values that are easily drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pytest_affine.contract.cases import Case
from pytest_affine.errors import AffineTransferError, UnsupportedLayoutError
from pytest_affine.geometry import unravel
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import TransferEndpoints, TransferPlan
from pytest_affine.proof import Unplaced, place_map
from pytest_affine.reference.replicas import plan_transfers
from pytest_affine.sync import Sync, SyncParameter
from pytest_affine.truth.elements import holders

__all__ = [
    "Explained",
    "ExplainedParameter",
    "Move",
    "Region",
    "Shard",
    "Side",
    "element_bytes",
    "explain",
]

MAX_ELEMENTS = 2**10
"""Up to so many elements are told one by one where a map's pieces are no boxes."""


class Region(NamedTuple):
    """A box of the full tensor, and the locations that hold it, in order."""

    origin: tuple[int, ...]
    shape: tuple[int, ...]
    locations: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One location's shard.

    Attributes:
        location: whose it is.
        process: who holds that location; None if no endpoint says so.
        shape: of the shard.
        num_padding: elements that stand for nothing.
        name: what the parameter is called there, if it has a name of its own.
    """

    location: int
    process: int | None
    shape: tuple[int, ...]
    num_padding: int
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """All shards of one side of a parameter.

    Attributes:
        title: "source" or "target".
        dtype: of the shards' elements.
        shards: by location.
        regions: disjoint boxes that fill the full tensor; none where they are not known.
        trouble: why the regions are not known, if so.
    """

    title: str
    dtype: str
    shards: tuple[Shard, ...]
    regions: tuple[Region, ...]
    trouble: str | None = None

    @property
    def process_of(self) -> Mapping[int, int | None]:
        """Process by location."""
        return {shard.location: shard.process for shard in self.shards}


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What one process copies to another, or within itself; bytes in the smaller dtype."""

    sender: int
    receiver: int
    num_bytes: int
    num_segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedParameter:
    """One parameter: both sides, and the moves between ordered pairs of processes.

    Attributes:
        name: of the parameter.
        shape: of the source's full tensor.
        sides: source and target.
        moves: from one process to another.
        stays: within a process.
    """

    name: str
    shape: tuple[int, ...]
    sides: tuple[Side, Side]
    moves: tuple[Move, ...]
    stays: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """A sync, drawn: its parameters in order, and why it has no plan, if it has none."""

    parameters: tuple[ExplainedParameter, ...]
    refusal: str | None


def explain(case: Case) -> Explained:
    """What a case's sync holds and, as the reference plans it, moves; pure, for any one process.

    Raises:
        AffineTransferError: the case has no sync, or one of an unknown dtype.
    """
    if case.sync is None:
        raise AffineTransferError(f"a case of the kind {case.kind!r} has no sync to be drawn")
    sizes = {each.name: _wire_bytes(each) for each in case.sync.parameters}
    try:
        plans = _plans(case.sync, sizes)
        refusal = None
    except AffineTransferError as error:
        plans, refusal = {}, str(error)
    parameters = (
        _parameter(each, case.sync.endpoints, plans.get(each.name), sizes[each.name])
        for each in case.sync.parameters
    )
    return Explained(tuple(parameters), refusal)


def element_bytes(dtype: str) -> int:
    """Bytes per element of a torch dtype by its name; `AffineTransferError` if it says none."""
    if dtype in NAMED_BYTES:
        return NAMED_BYTES[dtype]
    if bits := re.fullmatch(r"[a-z]+(\d+)([a-z]\w*|_\w+)?", dtype):
        return -(-int(bits[1]) // 8)
    raise AffineTransferError(
        f"the dtype {dtype!r} has no known size; those that have: names with a number of bits, "
        f"such as float32, and {', '.join(NAMED_BYTES)}"
    )


NAMED_BYTES = {
    "bool": 1,
    "bit": 1,
    "short": 2,
    "int": 4,
    "long": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "chalf": 4,
    "cfloat": 8,
    "cdouble": 16,
}


def _wire_bytes(parameter: SyncParameter) -> int:
    return min(map(element_bytes, (parameter.source_dtype, parameter.target_dtype)))


def _plans(sync: Sync, sizes: Mapping[str, int]) -> dict[str, TransferPlan]:
    pairs = {each.name: (each.source, each.target) for each in sync.parameters}
    return plan_transfers(pairs, endpoints=sync.endpoints, element_size=sizes)


def _parameter(
    parameter: SyncParameter,
    endpoints: TransferEndpoints,
    plan: TransferPlan | None,
    element_size: int,
) -> ExplainedParameter:
    moves = () if plan is None else _moves(plan, endpoints, element_size)
    sides = (
        _side(
            title,
            dtype=getattr(parameter, f"{title}_dtype"),
            map_=getattr(parameter, title),
            process_of=dict(getattr(endpoints, title)),
            names=dict(getattr(parameter, f"{title}_names") or ()),
        )
        for title in ("source", "target")
    )
    source, target = sides
    return ExplainedParameter(
        name=parameter.name,
        shape=parameter.source.logical_shape,
        sides=(source, target),
        moves=tuple(move for move in moves if move.sender != move.receiver),
        stays=tuple(move for move in moves if move.sender == move.receiver),
    )


def _moves(plan: TransferPlan, endpoints: TransferEndpoints, element_size: int) -> tuple[Move, ...]:
    sources, targets = dict(endpoints.source), dict(endpoints.target)
    found: dict[tuple[int, int], list[int]] = {}
    for segment in plan.segments:
        pair = sources[segment.source_location], targets[segment.target_location]
        found.setdefault(pair, []).append(segment.num_elements)
    return tuple(
        Move(
            sender=sender,
            receiver=receiver,
            num_bytes=sum(found[sender, receiver]) * element_size,
            num_segments=len(found[sender, receiver]),
        )
        for sender, receiver in sorted(found)
    )


def _side(
    title: str,
    *,
    dtype: str,
    map_: ParamAffineMap,
    process_of: Mapping[int, int],
    names: Mapping[int, str],
) -> Side:
    regions: tuple[Region, ...] = ()
    trouble = None
    try:
        regions = _regions(map_)
    except AffineTransferError as error:
        trouble = str(error)
    shards = (
        Shard(
            location=location,
            process=process_of.get(location),
            shape=shape,
            num_padding=sum(block.num_elements for block in map_.padding(location)),
            name=names.get(location),
        )
        for location, shape in map_.shard_shapes
    )
    return Side(title=title, dtype=dtype, shards=tuple(shards), regions=regions, trouble=trouble)


def _regions(map_: ParamAffineMap) -> tuple[Region, ...]:
    """The boxes of a valid map; single elements where a small one has none."""
    map_.validate()
    placed = place_map(map_)
    if not isinstance(placed, Unplaced):
        return tuple(
            sorted(Region(box.origin, box.shape, piece.locations) for box, piece in placed.first)
        )
    if map_.num_elements > MAX_ELEMENTS:
        raise UnsupportedLayoutError(
            f"pieces that are no boxes are drawn up to {MAX_ELEMENTS:,} elements, "
            f"and there are {map_.num_elements:,}"
        )
    element = (1,) * len(map_.logical_shape)
    return tuple(
        Region(unravel(address, map_.logical_shape), element, tuple(at for at, _, _ in held))
        for address, held in enumerate(holders(map_))
    )
