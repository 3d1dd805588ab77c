"""A sync: what is moved at one time, as plain JSON with an id that is a digest of its content."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_affine.errors import InvalidMapError
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.values import integer, json_field

__all__ = ["Sync", "SyncParameter", "canonical_json", "content_id"]


def canonical_json(value: object) -> str:
    """One spelling per value: keys sorted, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def content_id(value: object) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncParameter:
    """One parameter of a sync; dtypes are torch attribute names, such as "bfloat16"."""

    name: str
    source: ParamAffineMap
    target: ParamAffineMap
    source_dtype: str = "float32"
    target_dtype: str = "float32"

    def to_dict(self) -> dict[str, Any]:
        """The parameter as JSON-ready values."""
        return {
            "name": self.name,
            "source": self.source.to_dict(),
            "target": self.target.to_dict(),
            "source_dtype": self.source_dtype,
            "target_dtype": self.target_dtype,
        }

    @classmethod
    def from_dict(cls, entry: object, where: str = "parameter") -> SyncParameter:
        """Read what `to_dict` writes; `InvalidMapError` names the field at `where`."""
        return cls(
            name=json_field(entry, "name", str, where),
            source=_side(entry, "source", where),
            target=_side(entry, "target", where),
            source_dtype=json_field(entry, "source_dtype", str, where),
            target_dtype=json_field(entry, "target_dtype", str, where),
        )


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

    Raises:
        InvalidMapError: two parameters of one name, or fewer than one process.
    """

    parameters: tuple[SyncParameter, ...]
    endpoints: TransferEndpoints
    num_processes: int
    budget: StagingBudget = field(default_factory=StagingBudget)

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
        """The sync as JSON-ready values."""
        return {
            "parameters": [parameter.to_dict() for parameter in self.parameters],
            "endpoints": self.endpoints.to_dict(),
            "num_processes": self.num_processes,
            "budget": self.budget.bytes_per_peer,
        }

    @classmethod
    def from_dict(cls, entry: object) -> Sync:
        """Read what `to_dict` writes.

        Raises:
            InvalidMapError: a missing key, an unknown key or a wrong type; names the field.
        """
        parameters = json_field(entry, "parameters", list, "sync")
        endpoints = json_field(entry, "endpoints", dict, "sync")
        _refuse_unknown_keys(entry)
        return cls(
            parameters=tuple(
                SyncParameter.from_dict(parameter, f"sync.parameters[{index}]")
                for index, parameter in enumerate(parameters)
            ),
            endpoints=TransferEndpoints.from_dict(endpoints),
            num_processes=json_field(entry, "num_processes", int, "sync"),
            budget=StagingBudget(json_field(entry, "budget", int, "sync")),
        )


SYNC_KEYS = ("parameters", "endpoints", "num_processes", "budget")


def _refuse_unknown_keys(entry: object) -> None:
    unknown = sorted(set(entry) - set(SYNC_KEYS)) if isinstance(entry, Mapping) else []
    if unknown:
        raise InvalidMapError(f"sync has unknown keys {unknown}; the known ones: {SYNC_KEYS}")
