"""The values that pass between stages; no logic beyond their JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pytest_affine.errors import InvalidMapError
from pytest_affine.values import integer, integers, json_field, pairs_by_location

__all__ = [
    "Chunk",
    "Message",
    "PlanBudget",
    "PlanStatistics",
    "ProcessReport",
    "ProcessSchedule",
    "Queue",
    "RankPlan",
    "RankTransfer",
    "ReplicaPart",
    "ReplicaRequest",
    "Schedule",
    "StagingBudget",
    "TransferEndpoints",
    "TransferPlan",
    "TransferReport",
    "TransferSegment",
    "TransferStats",
    "Volume",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBudget:
    """Limits on planning one parameter, counted on the work really done.

    Fields and defaults are DeepSpeed's. Exceeding one raises `PlanLimitError`.
    """

    max_ndim: int = 8
    max_pieces_per_map: int = 2**12
    max_pair_checks: int = 2**18
    max_segments: int = 2**16
    max_merge_passes: int = 8
    max_plan_bytes: int = 2**24
    max_merge_checks: int = 2**18


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatistics:
    """What planning one parameter took; every field a count, `plan_bytes` in bytes of JSON."""

    source_pieces: int
    target_pieces: int
    pair_checks: int
    segments_before_merge: int
    segments: int
    plan_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSegment:
    """One strided copy from a source shard into a target shard; offsets and strides in elements."""

    source_location: int
    source_offset: int
    source_strides: tuple[int, ...]
    target_location: int
    target_offset: int
    target_strides: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def num_elements(self) -> int:
        """Number of elements copied."""
        return math.prod(self.shape)

    def to_dict(self) -> dict[str, Any]:
        """The segment as JSON-ready values."""
        return {
            "shape": list(self.shape),
            "source": [self.source_location, self.source_offset, list(self.source_strides)],
            "target": [self.target_location, self.target_offset, list(self.target_strides)],
        }

    @classmethod
    def from_dict(cls, entry: object, where: str = "segment") -> TransferSegment:
        """Read what `to_dict` writes; `InvalidMapError` names the field at `where`."""
        source = _endpoint(entry, "source", where)
        target = _endpoint(entry, "target", where)
        return cls(
            source_location=source[0],
            source_offset=source[1],
            source_strides=source[2],
            target_location=target[0],
            target_offset=target[1],
            target_strides=target[2],
            shape=integers(json_field(entry, "shape", list, where), f"{where}.shape"),
        )


def _endpoint(entry: object, key: str, where: str) -> tuple[int, int, tuple[int, ...]]:
    value, where = json_field(entry, key, list, where), f"{where}.{key}"
    if len(value) != 3:
        raise InvalidMapError(f"{where} must be [location, offset, [strides]], got {value!r}")
    location, offset = integer(value[0], f"{where}[0]"), integer(value[1], f"{where}[1]")
    return location, offset, integers(value[2], f"{where}[2]")


Sizes: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """The copies that turn source shards of one parameter into target shards. Checks nothing.

    Attributes:
        segments: the copies, in order.
        logical_shape: shape of the full tensor.
        source_sizes: (location, elements of its shard) of the source map, sorted; a mapping is
            taken too; None where a plan from elsewhere lacks them.
        target_sizes: the same of the target map.
        moved_elements: sum of the segments' sizes.
        statistics: what planning took; no part of equality.
    """

    segments: tuple[TransferSegment, ...]
    logical_shape: tuple[int, ...]
    source_sizes: Sizes | None
    target_sizes: Sizes | None
    moved_elements: int
    statistics: PlanStatistics | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Store sequences as tuples and sizes as pairs sorted by location."""
        object.__setattr__(self, "segments", tuple(self.segments))
        object.__setattr__(self, "logical_shape", tuple(self.logical_shape))
        for name in ("source_sizes", "target_sizes"):
            if (sizes := getattr(self, name)) is not None:
                object.__setattr__(self, name, pairs_by_location(sizes, name))

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready values; sizes that are absent are left out."""
        entry: dict[str, Any] = {
            "logical_shape": list(self.logical_shape),
            "segments": [segment.to_dict() for segment in self.segments],
        }
        for name in ("source_sizes", "target_sizes"):
            if (sizes := getattr(self, name)) is not None:
                entry[name] = {str(location): size for location, size in sizes}
        return entry

    @classmethod
    def from_dict(cls, entry: object) -> TransferPlan:
        """Read what `to_dict` writes, or a plan without sizes.

        Raises:
            InvalidMapError: a missing key or a wrong type; the message names the field.
        """
        segments = tuple(
            TransferSegment.from_dict(segment, f"plan.segments[{index}]")
            for index, segment in enumerate(json_field(entry, "segments", list, "plan"))
        )
        logical_shape = json_field(entry, "logical_shape", list, "plan")
        return cls(
            segments,
            integers(logical_shape, "plan.logical_shape"),
            _read_sizes(entry, "source_sizes"),
            _read_sizes(entry, "target_sizes"),
            sum(segment.num_elements for segment in segments),
        )


def _read_sizes(entry: object, key: str) -> Sizes | None:
    if isinstance(entry, Mapping) and key not in entry:
        return None
    sizes = json_field(entry, key, dict, "plan")
    return integers_by_location(sizes, f"plan.{key}")


def integers_by_location(entry: Mapping[Any, object], where: str) -> Sizes:
    """Read a JSON object of integers by location (str or int keys) as sorted pairs."""
    pairs = []
    for key, value in entry.items():
        decimal = isinstance(key, str) and key.isascii() and key.isdecimal()
        location = int(key) if decimal else integer(key, f"a key of {where}")
        pairs.append((location, integer(value, f"{where}[{key!r}]")))
    return pairs_by_location(pairs, where)


RankTransfer: TypeAlias = tuple[str, int, TransferSegment]
"""Parameter, peer process and segment of one copy that a process takes part in."""


@dataclass(frozen=True, slots=True)
class RankPlan:
    """One process's part of the plan of a sync; a local copy stands in both lists.

    Attributes:
        sends: what leaves its source shards, in order; the peer is who receives it.
        receives: what its target shards get, in order; the peer is who sends it.
    """

    sends: tuple[RankTransfer, ...]
    receives: tuple[RankTransfer, ...]

    def __init__(self, sends: Iterable[RankTransfer], receives: Iterable[RankTransfer]) -> None:
        object.__setattr__(self, "sends", tuple(map(tuple, sends)))
        object.__setattr__(self, "receives", tuple(map(tuple, receives)))

    def to_dict(self) -> dict[str, Any]:
        """The part as JSON-ready values."""
        return {
            side: [
                {"parameter": parameter, "peer": peer, "segment": segment.to_dict()}
                for parameter, peer, segment in getattr(self, side)
            ]
            for side in ("sends", "receives")
        }

    @classmethod
    def from_dict(cls, entry: object) -> RankPlan:
        """Read what `to_dict` writes; `InvalidMapError` names a bad field."""
        sends, receives = (
            [
                _rank_transfer(transfer, f"rank_plan.{side}[{index}]")
                for index, transfer in enumerate(json_field(entry, side, list, "rank_plan"))
            ]
            for side in ("sends", "receives")
        )
        return cls(sends, receives)


def _rank_transfer(entry: object, where: str) -> RankTransfer:
    return (
        json_field(entry, "parameter", str, where),
        json_field(entry, "peer", int, where),
        TransferSegment.from_dict(json_field(entry, "segment", dict, where), f"{where}.segment"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRequest:
    """One region that a target needs, and the source locations that hold it.

    Attributes:
        parameter: its name; None in `plan_transfer`.
        target_location: who needs it.
        logical_origin: coordinates of the region's first element in the full tensor.
        shape: extents of the region.
        holders: source locations that hold all of it, sorted.
        element_size: bytes per element.
        num_bytes: bytes of the region.
        target_process: process of the target location; None without endpoints.
        holder_processes: process of each holder, in their order; None without endpoints.
    """

    parameter: str | None
    target_location: int
    logical_origin: tuple[int, ...]
    shape: tuple[int, ...]
    holders: tuple[int, ...]
    element_size: int
    num_bytes: int
    target_process: int | None = None
    holder_processes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ReplicaPart:
    """Part of a region, cut along axis 0, and the holder to read it from. Checks nothing."""

    source_location: int
    logical_origin: Sequence[int]
    shape: Sequence[int]


ReplicaSelector: TypeAlias = Callable[[ReplicaRequest], int]


@dataclass(frozen=True, slots=True)
class TransferEndpoints:
    """Which process (rank of the transport group) holds which location. Checks nothing.

    Attributes:
        source: (source location, process), sorted by location; a mapping is taken too.
        target: the same for target locations.
    """

    source: tuple[tuple[int, int], ...]
    target: tuple[tuple[int, int], ...]

    def __init__(
        self,
        source: Mapping[int, int] | Iterable[tuple[int, int]],
        target: Mapping[int, int] | Iterable[tuple[int, int]],
    ) -> None:
        object.__setattr__(self, "source", pairs_by_location(source, "endpoints.source"))
        object.__setattr__(self, "target", pairs_by_location(target, "endpoints.target"))

    @property
    def processes(self) -> tuple[int, ...]:
        """Every process that an endpoint names, in order."""
        return tuple(sorted({process for _, process in self.source + self.target}))

    def to_dict(self) -> dict[str, dict[str, int]]:
        """The endpoints as JSON-ready values; location keys are strings."""
        return {
            "source": {str(location): process for location, process in self.source},
            "target": {str(location): process for location, process in self.target},
        }

    @classmethod
    def from_dict(cls, entry: object) -> TransferEndpoints:
        """Read what `to_dict` writes; `InvalidMapError` names a bad field."""
        return cls(
            *(
                integers_by_location(
                    json_field(entry, side, dict, "endpoints"), f"endpoints.{side}"
                )
                for side in ("source", "target")
            )
        )


@dataclass(frozen=True, slots=True)
class StagingBudget:
    """Bytes staged per peer and direction at one time. Checks nothing."""

    bytes_per_peer: int = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A sub-box of a segment that fits the staging budget.

    Attributes:
        parameter: name of the parameter.
        segment: index of the segment in that parameter's plan.
        origin: first index of the chunk in the segment's own axes.
        shape: extents of the chunk.
    """

    parameter: str
    segment: int
    origin: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def num_elements(self) -> int:
        """Number of elements of the chunk."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The chunks that one process sends to one peer in one round.

    `direct` says that this side of the message is the shard itself, with no staging buffer.
    """

    chunks: tuple[Chunk, ...]
    num_elements: int
    num_bytes: int
    direct: bool


@dataclass(frozen=True, slots=True)
class Queue:
    """The messages of one peer and direction, in order, and the bytes of their arena."""

    messages: tuple[Message, ...]
    arena_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSchedule:
    """What one process does.

    Attributes:
        sends: by peer process, what is sent to it.
        receives: by peer process, what comes from it.
        local_copies: chunks whose two ends are this process, in order.
        num_rounds: length of the longest queue.
    """

    sends: Mapping[int, Queue]
    receives: Mapping[int, Queue]
    local_copies: tuple[Chunk, ...]
    num_rounds: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """What `execute_transfers` runs, by process."""

    processes: Mapping[int, ProcessSchedule]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferStats:
    """What one process did. Segments and chunks are the batch's, the rest is this process's."""

    segments: int
    chunks: int
    rounds: int
    local_copy_bytes: int
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """Elements and bytes that a batch moves, within processes and between them."""

    local_elements: int
    remote_elements: int
    local_bytes: int
    remote_bytes: int

    @property
    def elements(self) -> int:
        """Elements moved in all."""
        return self.local_elements + self.remote_elements

    @property
    def num_bytes(self) -> int:
        """Bytes moved in all."""
        return self.local_bytes + self.remote_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """What one process will do: bytes, counts of peers, messages and rounds."""

    sent_bytes: int
    received_bytes: int
    local_copy_bytes: int
    num_peers: int
    num_sent_messages: int
    num_received_messages: int
    pack_bytes: int
    unpack_bytes: int
    staging_bytes: int
    num_rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """What a batch will cost, before it runs.

    Attributes:
        num_segments: segments of the batch, a plan used twice counting twice.
        num_chunks: chunks of the batch, local ones included.
        volume: elements and bytes, local and remote.
        segment_sizes: {bytes of a segment: how many}.
        message_sizes: {bytes of a message: how many}.
        num_rounds: the largest number of rounds of any process.
        processes: by process.
        pairs: {(sender, receiver): (bytes, messages)}; never a process with itself.
        paths: {label: (bytes, messages)}; local copies add bytes and no message.
        process_numbering: what the process numbers are.
    """

    num_segments: int
    num_chunks: int
    volume: Volume
    segment_sizes: Mapping[int, int]
    message_sizes: Mapping[int, int]
    num_rounds: int
    processes: Mapping[int, ProcessReport]
    pairs: Mapping[tuple[int, int], tuple[int, int]]
    paths: Mapping[str, tuple[int, int]]
    process_numbering: str = "transport group ranks"
