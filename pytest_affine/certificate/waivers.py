"""Waivers: what is known not to hold, why, and until when that is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pytest_affine.certificate.files import read_toml
from pytest_affine.certificate.patterns import matches
from pytest_affine.certificate.shape import DocumentError, check_shape
from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.verdict import Judgement, faults_of

__all__ = [
    "KINDS",
    "WAIVERS_FILE",
    "Waiver",
    "read_waivers",
    "waived_by",
    "waiver_problems",
]

WAIVERS_FILE = "affine-waivers.toml"
"""Name of the file in pytest's root folder that is read where no other is given."""

KINDS = ("unsupported-by-design", "known-bug", "environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One entry: what is waived where, why, and until when.

    Attributes:
        requirement: id of a MUST.
        kind: one of `KINDS`.
        link: where a person reads why.
        expires: the last day on which it counts.
        backend: the backend that it is for; all if None.
        ranks: the number of ranks that it is for; any if None.
        cases: names of cases that it is for, in which `*` stands for anything.
    """

    requirement: str
    kind: str
    link: str
    expires: date
    backend: str | None = None
    ranks: int | None = None
    cases: str = "*"

    def __str__(self) -> str:
        """How messages name it."""
        where = [f"on {self.backend}"] if self.backend is not None else []
        where += [f"with {self.ranks} ranks"] if self.ranks is not None else []
        where += [f"in {self.cases!r}"] if self.cases != "*" else []
        return " ".join([f"waiver of {self.requirement}", *where, f"({self.kind}, {self.link})"])

    def is_in_scope(self, backend: str, num_ranks: int) -> bool:
        """Whether it is for a session on this backend with so many ranks."""
        return self.backend in (None, backend) and self.ranks in (None, num_ranks)

    def covers(self, requirement: str, case: str) -> bool:
        """Whether it is for this requirement in this case."""
        return self.requirement == requirement and matches(self.cases, case)

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON-ready values, without what it leaves open."""
        optional = {"backend": self.backend, "ranks": self.ranks, "cases": self.cases}
        return {
            "requirement": self.requirement,
            "kind": self.kind,
            "link": self.link,
            "expires": self.expires.isoformat(),
            **{key: value for key, value in optional.items() if value not in (None, "*")},
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Waiver:
        """Read what `to_dict` writes."""
        return cls(**{**entry, "expires": date.fromisoformat(entry["expires"])})


TEXT = {"type": "string", "minLength": 1}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "waiver": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["requirement", "kind", "link", "expires"],
                "properties": {
                    "requirement": TEXT,
                    "kind": {"type": "string", "enum": KINDS},
                    "link": TEXT,
                    "expires": {"type": "string", "format": "date"},
                    "backend": TEXT,
                    "ranks": {"type": "integer", "minimum": 1},
                    "cases": TEXT,
                },
            },
        }
    },
}


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """The entries of a file.

    Raises:
        DocumentError: names the file, the entry, the rule and the choices.
    """
    document = _with_days_as_text(read_toml(path))
    check_shape(document, SCHEMA, path.name)
    entries = document.get("waiver", [])
    for index, entry in enumerate(entries):
        _check_requirement(entry["requirement"], f"{path.name}.waiver[{index}].requirement")
    return tuple(map(Waiver.from_dict, entries))


def _with_days_as_text(value: Any) -> Any:
    """TOML has days of its own; schemas know of text only."""
    if isinstance(value, dict):
        return {key: _with_days_as_text(held) for key, held in value.items()}
    if isinstance(value, list):
        return [_with_days_as_text(held) for held in value]
    return value.isoformat() if type(value) is date else value


def _check_requirement(id_: str, where: str) -> None:
    if id_ not in REQUIREMENTS:
        raise DocumentError(
            f"{where} is {id_!r}, which is no requirement; there are {', '.join(REQUIREMENTS)}"
        )
    if not REQUIREMENTS[id_].must:
        raise DocumentError(f"{where} is {id_}, a SHOULD, which needs no waiver")


def waived_by(waivers: Iterable[Waiver], day: date) -> Callable[[str, str], str]:
    """What says, of a requirement and a case, which waiver is in force on that day; "" for none."""
    in_force = [waiver for waiver in waivers if waiver.expires >= day]

    def waived(requirement: str, case: str) -> str:
        covering = (w for w in in_force if w.covers(requirement, case))
        found = next(covering, None)
        return f"waived until {found.expires} as {found.kind}, {found.link}" if found else ""

    return waived


def waiver_problems(
    waivers: Iterable[Waiver],
    judgements: Mapping[str, Judgement],
    planned: Mapping[str, Sequence[str]],
    day: date,
) -> Iterator[str]:
    """What is wrong with the entries that are in a session's scope: expired, unmatched, stale.

    `judgements` are by requirement, and made without waivers.
    """
    for waiver in waivers:
        if waiver.expires < day:
            yield (
                f"{waiver} expired on {waiver.expires}: "
                "remove the entry, or look at the reason again and give it a later day"
            )
        elif waiver.requirement in judgements:
            yield from _at_odds(waiver, judgements[waiver.requirement], planned[waiver.requirement])


def _at_odds(waiver: Waiver, judgement: Judgement, planned: Sequence[str]) -> Iterator[str]:
    matched = {case for case in planned if waiver.covers(waiver.requirement, case)}
    if judgement.outcome is Outcome.NOT_CLAIMED:
        yield f"{waiver} matches nothing, since that is not claimed: remove the entry"
    elif not matched:
        yield f"{waiver} matches no case: correct its cases, or remove the entry"
    elif _holds(judgement, matched):
        yield f"{waiver} is stale, since that holds now: remove the entry"


def _holds(judgement: Judgement, cases: set[str]) -> bool:
    """Whether all these cases were run and there is nothing to waive about them."""
    run = [r for r in judgement.records if r.case in cases and r.outcome is not Outcome.NOT_RUN]
    if len(run) < len(cases) or judgement.outcome is Outcome.BLOCKED:
        return False
    return not faults_of(judgement) or all(r.outcome is Outcome.CONFORMANT for r in run)
