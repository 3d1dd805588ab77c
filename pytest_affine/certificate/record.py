"""The values of a certificate, and the one JSON form that they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

from pytest_affine.certificate.waivers import Waiver
from pytest_affine.contract.implementation import Claims
from pytest_affine.contract.outcomes import Outcome, Record
from pytest_affine.contract.verdict import WORST_FIRST

__all__ = ["Certificate", "Distribution", "Run", "Subject"]


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed package: its name, its version, and a digest of its code if one can be had."""

    name: str
    version: str
    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What was judged.

    Attributes:
        name: as given to `--affine-certify`.
        version: as the adapter says.
        adapter_file: name of the file that defines the class; empty if there is none.
        adapter_digest: digest of that file.
        distribution: the package behind the adapter, if any.
    """

    name: str
    version: str
    adapter_file: str
    adapter_digest: str | None
    distribution: Distribution | None

    def to_dict(self) -> dict[str, Any]:
        """The subject as JSON-ready values."""
        return {
            "name": self.name,
            "version": self.version,
            "adapter": {"file": self.adapter_file, "digest": self.adapter_digest},
            "distribution": None if self.distribution is None else asdict(self.distribution),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Subject:
        """Read what `to_dict` writes."""
        behind = entry["distribution"]
        return cls(
            name=entry["name"],
            version=entry["version"],
            adapter_file=entry["adapter"]["file"],
            adapter_digest=entry["adapter"]["digest"],
            distribution=None if behind is None else Distribution(**behind),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One session: what it judged with, and what it found.

    Attributes:
        backend: backend of the process group.
        num_ranks: its size.
        devices: names of the devices that ranks could have.
        versions: of pytest, python and torch.
        date: day of the session, in UTC.
        seed: seed of everything that was drawn.
        num_examples: how many cases each property test draws.
        case: id of the one case that was judged, where one was chosen.
        claims: what the implementation claims.
        planned: by requirement, the names of its cases, sorted.
        records: one for each case that ran.
        num_deselected: how many tests of the suite were deselected.
        incomplete: why the session was not a whole one.
        waivers: those in its scope.
        gate: what became of the mutants, as JSON-ready values, if that was asked.
    """

    backend: str
    num_ranks: int
    devices: tuple[str, ...]
    versions: Mapping[str, str]
    date: date
    seed: int
    num_examples: int
    case: str | None
    claims: Claims
    planned: Mapping[str, tuple[str, ...]]
    records: tuple[Record, ...]
    num_deselected: int
    incomplete: tuple[str, ...]
    waivers: tuple[Waiver, ...]
    gate: Mapping[str, Any] | None

    @property
    def title(self) -> str:
        """How a person tells it from others."""
        return f"{self.backend}, {self.num_ranks} rank{'s' * (self.num_ranks > 1)}"

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON-ready values."""
        return {
            "backend": self.backend,
            "ranks": self.num_ranks,
            "devices": [*self.devices],
            "versions": {**self.versions},
            "date": self.date.isoformat(),
            "seed": self.seed,
            "num_examples": self.num_examples,
            "case": self.case,
            "claims": {method: [*options] for method, options in self.claims.items()},
            "requirements": _by_requirement(self.planned, self.records),
            "num_deselected": self.num_deselected,
            "incomplete": [*self.incomplete],
            "waivers": [waiver.to_dict() for waiver in self.waivers],
            "gate": self.gate,
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Run:
        """Read what `to_dict` writes.

        Raises:
            DocumentError: a date of no calendar.
        """
        found = entry["requirements"]
        return cls(
            backend=entry["backend"],
            num_ranks=entry["ranks"],
            devices=tuple(entry["devices"]),
            versions=entry["versions"],
            date=date.fromisoformat(entry["date"]),
            seed=entry["seed"],
            num_examples=entry["num_examples"],
            case=entry["case"],
            claims=entry["claims"],
            planned={id_: tuple(sorted(cases)) for id_, cases in found.items()},
            records=tuple(
                _read_record(id_, case, kept)
                for id_, cases in found.items()
                for case, kept in cases.items()
                if kept is not None
            ),
            num_deselected=entry["num_deselected"],
            incomplete=tuple(entry["incomplete"]),
            waivers=tuple(map(Waiver.from_dict, entry["waivers"])),
            gate=entry["gate"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What the suite of one version of pytest-affine found out about one implementation.

    Attributes:
        pytest_affine: version of pytest-affine.
        suite: digest of what decides.
        subject: what was judged.
        runs: one for each session.
    """

    pytest_affine: str
    suite: str
    subject: Subject
    runs: tuple[Run, ...]


KEYS = ("requirement", "case")
DEFAULTS = {
    field.name: field.default for field in fields(Record) if field.name not in (*KEYS, "outcome")
}


def _by_requirement(
    planned: Mapping[str, Sequence[str]], records: Iterable[Record]
) -> dict[str, dict[str, Any]]:
    """By requirement and planned case, what is kept of its record; of several the worst counts."""
    kept: dict[str, dict[str, Any]] = {id_: dict.fromkeys(cases) for id_, cases in planned.items()}
    best_first = sorted(records, key=lambda record: -WORST_FIRST.index(record.outcome))
    for record in best_first:
        kept[record.requirement][record.case] = _kept(record)
    return kept


def _kept(record: Record) -> str | dict[str, Any]:
    entry = record.to_dict()
    told = {key: entry[key] for key, default in DEFAULTS.items() if entry[key] != default}
    if not told and record.outcome is Outcome.CONFORMANT:
        return "conformant"
    return {"outcome": entry["outcome"], **told}


def _read_record(requirement: str, case: str, kept: str | Mapping[str, Any]) -> Record:
    told = {"outcome": kept} if isinstance(kept, str) else kept
    return Record.from_dict({"requirement": requirement, "case": case, **told})
