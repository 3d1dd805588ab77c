"""A sync: what is moved at one time, as plain JSON with an id that is a digest of its content."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pytest_affine.errors import InvalidMapError
from pytest_affine.layouts import Layout, Parameter
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.values import integer, json_field, location_key, pairs_by_location

__all__ = ["Sync", "SyncParameter", "canonical_json", "content_id"]


def canonical_json(value: object) -> str:
    """One spelling per value: keys sorted, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def content_id(value: object) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncParameter:
    """One parameter of a sync; what says where its maps come from may be absent.

    Attributes:
        name: of the logical parameter.
        source: map of the shards that are read.
        target: map of the shards that are written.
        source_dtype: a torch attribute name, such as "bfloat16".
        target_dtype: the same.
        source_parameter: how the source cuts it, for the sync's `source_layout`.
        target_parameter: the same for the target.
        source_names: by location, the name that its shard has there.
        target_names: the same for the target.

    Raises:
        InvalidMapError: local names that are no mapping by location of strings.
    """

    name: str
    source: ParamAffineMap
    target: ParamAffineMap
    source_dtype: str = "float32"
    target_dtype: str = "float32"
    source_parameter: Parameter | None = None
    target_parameter: Parameter | None = None
    source_names: tuple[tuple[int, str], ...] | None = None
    target_names: tuple[tuple[int, str], ...] | None = None

    def __post_init__(self) -> None:
        """Sort local names by location; they may be given as a mapping."""
        for field_ in NAMES:
            if (names := getattr(self, field_)) is not None:
                object.__setattr__(self, field_, _local_names(names, field_))

    def to_dict(self) -> dict[str, Any]:
        """The parameter as JSON-ready values; absent keys are left out."""
        entry = {
            "name": self.name,
            "source": self.source.to_dict(),
            "target": self.target.to_dict(),
            "source_dtype": self.source_dtype,
            "target_dtype": self.target_dtype,
        }
        for field_ in PARAMETERS:
            if (parameter := getattr(self, field_)) is not None:
                entry[field_] = parameter.to_dict()
        for field_ in NAMES:
            if (names := getattr(self, field_)) is not None:
                entry[field_] = {str(location): name for location, name in names}
        return entry

    @classmethod
    def from_dict(cls, entry: object, where: str = "parameter") -> SyncParameter:
        """Read what `to_dict` writes; `InvalidMapError` names the field at `where`."""
        read = cls(
            name=json_field(entry, "name", str, where),
            source=_side(entry, "source", where),
            target=_side(entry, "target", where),
            source_dtype=json_field(entry, "source_dtype", str, where),
            target_dtype=json_field(entry, "target_dtype", str, where),
            **_parameters(entry, where),
            **_names(entry, where),
        )
        _refuse_unknown_keys(entry, [field_.name for field_ in fields(cls)], where)
        return read


PARAMETERS = ("source_parameter", "target_parameter")
NAMES = ("source_names", "target_names")
LAYOUTS = ("source_layout", "target_layout")


def _local_names(names: Any, field_: str) -> tuple[tuple[int, str], ...]:
    pairs = pairs_by_location(names, field_)
    for location, name in pairs:
        if not isinstance(name, str):
            raise InvalidMapError(f"{field_}[{location}] must be a string, got {name!r}")
    return pairs


def _objects(entry: object, keys: Sequence[str], where: str) -> dict[str, Mapping[str, Any]]:
    """The JSON objects of those keys that are there."""
    there = [key for key in keys if isinstance(entry, Mapping) and key in entry]
    return {key: json_field(entry, key, dict, where) for key in there}


def _parameters(entry: object, where: str) -> dict[str, Any]:
    return {
        key: Parameter.from_dict(found, f"{where}.{key}")
        for key, found in _objects(entry, PARAMETERS, where).items()
    }


def _names(entry: object, where: str) -> dict[str, Any]:
    return {
        key: _local_names(
            [(location_key(at, f"{where}.{key}"), name) for at, name in found.items()],
            f"{where}.{key}",
        )
        for key, found in _objects(entry, NAMES, where).items()
    }


def _side(entry: object, side: str, where: str) -> ParamAffineMap:
    map_ = json_field(entry, side, dict, where)
    try:
        return ParamAffineMap.from_dict(map_)
    except InvalidMapError as error:
        raise InvalidMapError(f"{where}.{side}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Named parameters in order, with maps and dtypes, and how they are bound to processes.

    Attributes:
        parameters: what is moved, in the batch's order; names are unique.
        endpoints: source and target location to process.
        num_processes: size of the transport group.
        budget: staging budget.
        source_layout: the layout whose ranks are the source's locations, if it is known.
        target_layout: the same for the target.

    Raises:
        InvalidMapError: two parameters of one name, or fewer than one process.
    """

    parameters: tuple[SyncParameter, ...]
    endpoints: TransferEndpoints
    num_processes: int
    budget: StagingBudget = field(default_factory=StagingBudget)
    source_layout: Layout | None = None
    target_layout: Layout | None = None

    def __post_init__(self) -> None:
        """Check what every later stage relies on: unique names, at least one process."""
        object.__setattr__(self, "parameters", tuple(self.parameters))
        names = [parameter.name for parameter in self.parameters]
        if twice := sorted(name for name, times in Counter(names).items() if times > 1):
            raise InvalidMapError(f"sync.parameters names {twice} more than once")
        num_processes = integer(self.num_processes, "sync.num_processes")
        if num_processes < 1:
            raise InvalidMapError(f"sync.num_processes must be 1 or more, got {num_processes}")
        object.__setattr__(self, "num_processes", num_processes)

    @property
    def id(self) -> str:
        """Digest of the sync's JSON: equal syncs have equal ids, in every process."""
        return content_id(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The sync as JSON-ready values; absent keys are left out."""
        entry: dict[str, Any] = {
            "parameters": [parameter.to_dict() for parameter in self.parameters],
            "endpoints": self.endpoints.to_dict(),
            "num_processes": self.num_processes,
            "budget": self.budget.bytes_per_peer,
        }
        for field_ in LAYOUTS:
            if (layout := getattr(self, field_)) is not None:
                entry[field_] = layout.to_dict()
        return entry

    @classmethod
    def from_dict(cls, entry: object) -> Sync:
        """Read what `to_dict` writes.

        Raises:
            InvalidMapError: a missing key, an unknown key or a wrong type; names the field.
        """
        parameters = json_field(entry, "parameters", list, "sync")
        endpoints = json_field(entry, "endpoints", dict, "sync")
        _refuse_unknown_keys(entry, [field_.name for field_ in fields(cls)], "sync")
        return cls(
            parameters=tuple(
                SyncParameter.from_dict(parameter, f"sync.parameters[{index}]")
                for index, parameter in enumerate(parameters)
            ),
            endpoints=TransferEndpoints.from_dict(endpoints),
            num_processes=json_field(entry, "num_processes", int, "sync"),
            budget=StagingBudget(json_field(entry, "budget", int, "sync")),
            **{
                key: Layout.from_dict(found, f"sync.{key}")
                for key, found in _objects(entry, LAYOUTS, "sync").items()
            },
        )


def _refuse_unknown_keys(entry: object, known: Sequence[str], where: str) -> None:
    unknown = sorted(set(entry) - set(known)) if isinstance(entry, Mapping) else []
    if unknown:
        raise InvalidMapError(f"{where} has unknown keys {unknown}; the known ones: {known}")
