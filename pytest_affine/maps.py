"""Affine maps: how one parameter is spread over the shards of its locations.

The description (pieces with an offset and strides on either side, and their JSON form) is the one
that DeepSpeed's universal checkpoints use, with padding added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_affine.errors import InvalidMapError
from pytest_affine.values import (
    integer,
    integers,
    json_field,
    location_key,
    number,
    pairs_by_location,
)

if TYPE_CHECKING:
    import torch

__all__ = [
    "MAP_FORMAT_VERSION",
    "AffinePiece",
    "Padding",
    "ParamAffineMap",
    "maps_from_dict",
    "maps_to_dict",
]

MAP_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class AffinePiece:
    """A block of elements: where it sits in the full tensor, and where in a shard.

    Offsets and strides are in elements, as `torch.as_strided` takes them; shard offsets count from
    the shard's first element. A piece may have any number of axes, on both sides the same.

    Attributes:
        shape: extents of the block.
        full_offset: address of its first element in the row-major full tensor.
        full_strides: one stride per axis in the full tensor.
        shard_offset: address of its first element in the packed shard.
        shard_strides: one stride per axis in the shard.
        locations: every location that holds these elements, sorted.
        scale: the shard holds `full * scale`.

    Raises:
        InvalidMapError: a field of the wrong type, or strides that do not fit the shape.
    """

    shape: tuple[int, ...]
    full_offset: int
    full_strides: tuple[int, ...]
    shard_offset: int
    shard_strides: tuple[int, ...]
    locations: tuple[int, ...]
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Make every number plain; check types and lengths, not the rules of a map."""
        for name in ("shape", "full_strides", "shard_strides"):
            object.__setattr__(self, name, integers(getattr(self, name), name))
        for name in ("full_offset", "shard_offset"):
            object.__setattr__(self, name, integer(getattr(self, name), name))
        holders = tuple(sorted(set(integers(self.locations, "locations"))))
        object.__setattr__(self, "locations", holders)
        object.__setattr__(self, "scale", number(self.scale, "scale"))
        _check_lengths(self.shape, full_strides=self.full_strides, shard_strides=self.shard_strides)

    @property
    def num_elements(self) -> int:
        """Number of elements of the block."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Padding:
    """A block of shard elements that stand for nothing.

    Raises:
        InvalidMapError: a field of the wrong type, or strides that do not fit the shape.
    """

    shape: tuple[int, ...]
    shard_offset: int
    shard_strides: tuple[int, ...]

    def __post_init__(self) -> None:
        """Make every number plain; check types and lengths."""
        object.__setattr__(self, "shape", integers(self.shape, "shape"))
        object.__setattr__(self, "shard_offset", integer(self.shard_offset, "shard_offset"))
        object.__setattr__(self, "shard_strides", integers(self.shard_strides, "shard_strides"))
        _check_lengths(self.shape, shard_strides=self.shard_strides)

    @property
    def num_elements(self) -> int:
        """Number of elements of the block."""
        return math.prod(self.shape)


def _check_lengths(shape: tuple[int, ...], **strides: tuple[int, ...]) -> None:
    for name, values in strides.items():
        if len(values) != len(shape):
            raise InvalidMapError(
                f"{name} must have one stride per axis of shape {shape}, got {values}"
            )


ByLocation = Mapping[int, Any] | Iterable[tuple[int, Any]]


@dataclass(frozen=True, slots=True)
class ParamAffineMap:
    """How one parameter is sharded: what every location holds, and where.

    Constructing checks types and lengths only, so that a bad map can be built and judged;
    `validate` checks the rules. Mappings are stored as pairs sorted by location, so the order in
    which they were filled affects neither equality nor hash.

    Attributes:
        logical_shape: shape of the full tensor.
        shard_shapes: (location, shape of its shard) for every location.
        pieces_by_location: (location, its pieces) for every location.
        padding_by_location: (location, its padding blocks), where there are any.

    Raises:
        InvalidMapError: a field of the wrong type, or pieces or padding at a location that has
            no shard shape.
    """

    logical_shape: tuple[int, ...]
    shard_shapes: tuple[tuple[int, tuple[int, ...]], ...]
    pieces_by_location: tuple[tuple[int, tuple[AffinePiece, ...]], ...]
    padding_by_location: tuple[tuple[int, tuple[Padding, ...]], ...]

    def __init__(
        self,
        logical_shape: Iterable[int],
        shard_shapes: ByLocation,
        pieces_by_location: ByLocation,
        padding_by_location: ByLocation = (),
    ) -> None:
        shapes = {
            location: integers(shape, f"shard_shapes[{location}]")
            for location, shape in pairs_by_location(shard_shapes, "shard_shapes")
        }
        pieces = _blocks(pieces_by_location, "pieces_by_location", AffinePiece, shapes)
        padding = _blocks(padding_by_location, "padding_by_location", Padding, shapes)
        object.__setattr__(self, "logical_shape", integers(logical_shape, "logical_shape"))
        object.__setattr__(self, "shard_shapes", tuple(shapes.items()))
        filled = tuple((location, pieces.get(location, ())) for location in shapes)
        object.__setattr__(self, "pieces_by_location", filled)
        kept = tuple((location, blocks) for location, blocks in padding.items() if blocks)
        object.__setattr__(self, "padding_by_location", kept)

    @property
    def locations(self) -> tuple[int, ...]:
        """Every location that has a shard, empty ones included, in order."""
        return tuple(location for location, _ in self.shard_shapes)

    @property
    def num_elements(self) -> int:
        """Number of elements of the full tensor."""
        return math.prod(self.logical_shape)

    def shard_shape(self, location: int) -> tuple[int, ...]:
        """Shape of the shard at `location`; `AffineTransferError` names the known ones."""
        shapes = dict(self.shard_shapes)
        if location not in shapes:
            raise InvalidMapError(f"no location {location!r} in this map; it has {list(shapes)}")
        return shapes[location]

    def shard_size(self, location: int) -> int:
        """Number of elements of the shard at `location`, padding included."""
        return math.prod(self.shard_shape(location))

    def pieces(self, location: int) -> tuple[AffinePiece, ...]:
        """The pieces at `location`."""
        return dict(self.pieces_by_location).get(location, ())

    def padding(self, location: int) -> tuple[Padding, ...]:
        """The padding blocks at `location`."""
        return dict(self.padding_by_location).get(location, ())

    def validate(self) -> None:
        """Check the rules MAP-COVER, MAP-TILE, MAP-HOLD and MAP-SCALE.

        Raises:
            InvalidMapError: the map breaks a rule; the message lists what was found.
            UnsupportedLayoutError: too large to enumerate, and not made of boxes.
        """
        from pytest_affine.validation import validate_map

        validate_map(self)

    def extract(self, full: torch.Tensor, location: int) -> torch.Tensor:
        """Cut the shard of `location` out of the full tensor; padding is zero.

        Args:
            full: tensor of `logical_shape`.
            location: whose shard.

        Raises:
            AffineTransferError: the map is invalid, the shape differs, or no such location.
        """
        from pytest_affine.shards import extract_shard

        return extract_shard(self, full, location)

    def rebuild(self, shards: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Put the full tensor together from every location's shard; inverse of `extract`.

        Args:
            shards: for every location a tensor with as many elements as its shard.

        Raises:
            AffineTransferError: the map is invalid, a shard is missing or of another size, or
                replicas differ in any bit (equal NaNs are equal, 0.0 and -0.0 differ).
        """
        from pytest_affine.shards import rebuild_full

        return rebuild_full(self, shards)

    def to_dict(self) -> dict[str, Any]:
        """The map as JSON-ready values; location keys are strings."""
        return {
            "logical_shape": list(self.logical_shape),
            "ranks": {str(location): self._rank_to_dict(location) for location in self.locations},
        }

    def _rank_to_dict(self, location: int) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "shard_shape": list(self.shard_shape(location)),
            "pieces": [_piece_to_dict(piece) for piece in self.pieces(location)],
        }
        if padding := self.padding(location):
            entry["padding"] = [
                {
                    "shape": list(block.shape),
                    "dest": [block.shard_offset, list(block.shard_strides)],
                }
                for block in padding
            ]
        return entry

    @classmethod
    def from_dict(cls, entry: object) -> ParamAffineMap:
        """Read what `to_dict` writes; location keys may be str or int.

        Raises:
            InvalidMapError: a missing key or a wrong type; the message names the field.
        """
        ranks = json_field(entry, "ranks", dict, "map")
        shapes, pieces, padding = {}, {}, {}
        for key, rank in ranks.items():
            location, where = location_key(key, "map.ranks"), f"map.ranks[{key!r}]"
            if location in shapes:
                raise InvalidMapError(f"map.ranks names location {location} twice")
            shapes[location] = json_field(rank, "shard_shape", list, where)
            pieces[location] = _read_blocks(rank, "pieces", _piece_from_dict, where)
            if "padding" in rank:
                padding[location] = _read_blocks(rank, "padding", _padding_from_dict, where)
        return cls(json_field(entry, "logical_shape", list, "map"), shapes, pieces, padding)


def _blocks(
    values: ByLocation, field: str, kind: type, shapes: Mapping[int, object]
) -> dict[int, tuple[Any, ...]]:
    by_location: dict[int, tuple[Any, ...]] = {}
    for location, blocks in pairs_by_location(values, field):
        if location not in shapes:
            raise InvalidMapError(
                f"{field} names location {location}, which has no shard shape; "
                f"those that have one: {sorted(shapes)}"
            )
        if not isinstance(blocks, Iterable):
            raise InvalidMapError(f"{field}[{location}] must hold {kind.__name__}s, got {blocks!r}")
        by_location[location] = tuple(blocks)
        for block in by_location[location]:
            if not isinstance(block, kind):
                raise InvalidMapError(
                    f"{field}[{location}] must hold {kind.__name__}s, got {block!r}"
                )
    return by_location


def _piece_to_dict(piece: AffinePiece) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "shape": list(piece.shape),
        "source": [piece.full_offset, list(piece.full_strides)],
        "dest": [piece.shard_offset, list(piece.shard_strides)],
        "locations": list(piece.locations),
    }
    if piece.scale != 1.0:
        entry["scale"] = piece.scale
    return entry


def _piece_from_dict(entry: object, where: str) -> AffinePiece:
    full_offset, full_strides = _view(entry, "source", where)
    shard_offset, shard_strides = _view(entry, "dest", where)
    scale = entry.get("scale", 1.0) if isinstance(entry, Mapping) else 1.0
    shape: Any = json_field(entry, "shape", list, where)
    locations: Any = json_field(entry, "locations", list, where)
    try:
        return AffinePiece(
            shape, full_offset, full_strides, shard_offset, shard_strides, locations, scale
        )
    except InvalidMapError as error:
        raise InvalidMapError(f"{where}: {error}") from None


def _padding_from_dict(entry: object, where: str) -> Padding:
    offset, strides = _view(entry, "dest", where)
    shape: Any = json_field(entry, "shape", list, where)
    try:
        return Padding(shape, offset, strides)
    except InvalidMapError as error:
        raise InvalidMapError(f"{where}: {error}") from None


def _view(entry: object, key: str, where: str) -> tuple[Any, Any]:
    view = json_field(entry, key, list, where)
    if len(view) != 2:
        raise InvalidMapError(f"{where}.{key} must be [offset, [strides]], got {view!r}")
    return view[0], view[1]


def _read_blocks(rank: object, key: str, read: Any, where: str) -> list[Any]:
    entries = json_field(rank, key, list, where)
    return [read(entry, f"{where}.{key}[{index}]") for index, entry in enumerate(entries)]


def maps_to_dict(maps: Mapping[str, ParamAffineMap]) -> dict[str, Any]:
    """Several maps, by parameter name, as one JSON-ready envelope."""
    return {
        "version": MAP_FORMAT_VERSION,
        "params": {name: map_.to_dict() for name, map_ in maps.items()},
    }


def maps_from_dict(envelope: object) -> dict[str, ParamAffineMap]:
    """Read what `maps_to_dict` writes.

    Raises:
        InvalidMapError: an unknown version, a missing key or a wrong type; names the field.
    """
    version = json_field(envelope, "version", int, "envelope")
    if version != MAP_FORMAT_VERSION:
        raise InvalidMapError(
            f"envelope.version is {version}; the only known version is {MAP_FORMAT_VERSION}"
        )
    params = json_field(envelope, "params", dict, "envelope")
    maps = {}
    for name, entry in params.items():
        if not isinstance(name, str):
            raise InvalidMapError(f"envelope.params must have names as keys, got {name!r}")
        try:
            maps[name] = ParamAffineMap.from_dict(entry)
        except InvalidMapError as error:
            raise InvalidMapError(f"envelope.params[{name!r}]: {error}") from None
    return maps
