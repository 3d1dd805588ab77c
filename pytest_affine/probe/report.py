"""What a probe found: verdicts by parameter, in names and coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

__all__ = ["Fault", "ProbeReport", "Sighting"]

MAX_DRAWN = 4
MAX_FAULTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something wrong with one shard.

    Attributes:
        parameter: whose shard.
        location: the location that has it; a target location but for the kind "source changed".
        name: the local name of its tensor.
        kind: what happened, in a word or two.
        text: the same in a sentence, with one element as an example.
        origin: index, in the shard, of the first element of the box around the affected ones.
        shape: extents of that box.
        num_elements: how many elements are affected.
        holder: of a shard that belongs to another location, that location.
        drawing: the shard, one character per element.
    """

    parameter: str
    location: int
    name: str
    kind: str
    text: str
    origin: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    num_elements: int = 0
    holder: int | None = None
    drawing: str = ""

    def __str__(self) -> str:
        """One line: where, how many, kind and text."""
        local = "" if self.name == self.parameter else f" ({self.name})"
        ends = (f"{low}:{low + n}" for low, n in zip(self.origin, self.shape, strict=True))
        noun = "element" if self.num_elements == 1 else "elements"
        where = f" [{', '.join(ends)}], {self.num_elements} {noun}" if self.num_elements else ""
        return f"location {self.location}{local}{where}: {self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one rank got in one run: bytes it could only have from others, and bytes seen to come.

    Attributes:
        rank: which rank.
        needed_bytes: size of what its targets take that none of its sources has.
        seen_bytes: what came over the wire; None where nobody watched.
    """

    rank: int
    needed_bytes: int
    seen_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What a probe found.

    Attributes:
        num_runs: how often the refit ran.
        shards: (parameter, location) of every target shard that there is.
        judged: those that were judged.
        faults: what is wrong, by parameter and location.
        refusals: (rank, text) where the refit raised.
        sightings: what ranks got over the wire.
    """

    num_runs: int
    shards: tuple[tuple[str, int], ...]
    judged: tuple[tuple[str, int], ...]
    faults: tuple[Fault, ...]
    refusals: tuple[tuple[int, str], ...]
    sightings: tuple[Sighting, ...]

    @classmethod
    def merge(cls, reports: Sequence[ProbeReport]) -> ProbeReport:
        """The report of all ranks from that of each."""
        return cls(
            num_runs=reports[0].num_runs,
            shards=reports[0].shards,
            judged=tuple(sorted({shard for report in reports for shard in report.judged})),
            faults=_settled([fault for report in reports for fault in report.faults], reports),
            refusals=tuple(refusal for report in reports for refusal in report.refusals),
            sightings=tuple(sighting for report in reports for sighting in report.sightings),
        )

    @property
    def unjudged(self) -> tuple[tuple[str, int], ...]:
        """Target shards that no process of this report has judged."""
        return tuple(sorted({*self.shards} - {*self.judged}))

    @property
    def outcomes(self) -> dict[str, str]:
        """By parameter: violated, refused, not judged (in part) or conformant."""
        violated = {fault.parameter for fault in self.faults}
        unjudged = {name for name, _ in self.unjudged}
        missing = "refused" if self.refusals else "not judged"
        return {
            name: "violated" if name in violated else missing if name in unjudged else "conformant"
            for name, _ in self.shards
        }

    @property
    def outcome(self) -> str:
        """The worst of all: violated, refused, not judged or conformant."""
        found = {*self.outcomes.values(), *(["refused"] if self.refusals else [])}
        order = ("violated", "refused", "not judged")
        return next((outcome for outcome in order if outcome in found), "conformant")

    @property
    def wire(self) -> str:
        """Whether what changed hands was seen: observed, not observed, not watched or not needed.

        Moves through files or shared memory are not observed, and what is right stays right.
        """
        if not any(sighting.needed_bytes for sighting in self.sightings):
            return "not needed"
        if any(sighting.seen_bytes is None for sighting in self.sightings):
            return "not watched"
        seen = all((each.seen_bytes or 0) >= each.needed_bytes for each in self.sightings)
        return "observed" if seen else "not observed"

    def check(self) -> None:
        """Raise `AssertionError`, with everything that was found, unless all is conformant."""
        __tracebackhide__ = True
        if self.outcome != "conformant":
            raise AssertionError(str(self))

    def __str__(self) -> str:
        """The outcome, the refusals, and the faults by parameter with a few drawings."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        outcomes = self.outcomes
        numbers = (
            f"{found} {outcome}"
            for outcome in ("violated", "refused", "not judged", "conformant")
            if (found := [*outcomes.values()].count(outcome))
        )
        yield f"probe: {self.outcome}; parameters: {', '.join(numbers)}"
        yield f"the refit ran {self.num_runs} times; wire {self.wire}"
        yield from (f"rank {rank} refused: {text}" for rank, text in self.refusals)
        for name, location in self.unjudged if not self.refusals else ():
            yield f"{name}: location {location} was not judged"
        drawings = MAX_DRAWN
        for name in [name for name, outcome in outcomes.items() if outcome == "violated"]:
            faults = [fault for fault in self.faults if fault.parameter == name]
            yield f"{name}:"
            yield from (f"  {fault}" for fault in faults[:MAX_FAULTS])
            if len(faults) > MAX_FAULTS:
                yield f"  and {len(faults) - MAX_FAULTS} more"
            if drawings and faults[0].drawing:
                drawings -= 1
                yield from (f"    {line}" for line in faults[0].drawing.splitlines())


def _settled(faults: Iterable[Fault], reports: Sequence[ProbeReport]) -> tuple[Fault, ...]:
    """In order; a shard that its own location has too is one that was replicated."""
    judged = {shard for report in reports for shard in report.judged}
    faulty = {(fault.parameter, fault.location) for fault in faults}
    settled = []
    for fault in faults:
        if (fault.parameter, fault.holder) in judged - faulty:
            fault = replace(fault, kind="replicated")
        settled.append(fault)
    return tuple(sorted(settled, key=lambda fault: (fault.parameter, fault.location)))
