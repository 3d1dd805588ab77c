"""A case: the input of one test of the suite, as plain JSON that can be replayed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_affine.errors import InvalidMapError
from pytest_affine.sync import Sync, canonical_json, content_id
from pytest_affine.values import json_field

__all__ = ["KINDS", "Case"]

KINDS = {
    "sync": "a valid sync, which must be planned and moved",
    "invalid map": "a sync of which one map breaks a rule, or whose two maps do not fit",
    "builder": "a builder's name and arguments",
    "segment": "shape, offsets and strides of one segment, which must be scheduled",
    "document": "a JSON document that must be refused",
    "refusal": "a sync, and what is wrong with the call that plans, schedules or executes it",
    "layout": "a layout and a parameter, which must be described or refused",
    "names": "the inventories of both sides, whose names must be matched or refused",
}
"""What a case can be, by the kind that its JSON names."""

WITHOUT_SYNC = ("builder", "document", "layout", "names", "segment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One input: a kind, a sync where the kind has one, and further JSON values.

    Attributes:
        name: what a person reads; no part of its content.
        kind: one of `KINDS`.
        sync: the sync, if any.
        detail: further JSON values, such as the rule that an invalid map breaks.
        core: name of the core shape that it shows, for core cases.
    """

    name: str
    kind: str
    sync: Sync | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    core: str | None = None

    @property
    def id(self) -> str:
        """Digest of its content."""
        return content_id(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The case as JSON-ready values; absent keys are left out."""
        entry: dict[str, Any] = {"kind": self.kind}
        if self.sync is not None:
            entry["sync"] = self.sync.to_dict()
        if self.detail:
            entry["detail"] = dict(self.detail)
        return entry

    def to_line(self) -> str:
        """The case as one line of JSON."""
        return canonical_json(self.to_dict())

    @classmethod
    def from_line(cls, line: str, name: str = "replayed") -> Case:
        """Read what `to_line` writes.

        Raises:
            InvalidMapError: no JSON, an unknown kind, or a bad field, which it names.
        """
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidMapError(f"a case must be one JSON object: {error}") from None
        kind = json_field(entry, "kind", str, "case")
        if kind not in KINDS:
            raise InvalidMapError(f"case.kind is {kind!r}; the known ones: {', '.join(KINDS)}")
        sync = None
        if kind not in WITHOUT_SYNC:
            sync = Sync.from_dict(json_field(entry, "sync", dict, "case"))
        detail = json_field(entry, "detail", dict, "case") if "detail" in entry else {}
        return cls(name=name, kind=kind, sync=sync, detail=detail)
