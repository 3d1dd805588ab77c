"""From what a target shard held to its faults, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from pytest_affine.geometry import unravel
from pytest_affine.layouts import Parameter
from pytest_affine.maps import ParamAffineMap
from pytest_affine.probe.elements import Elements, groups_of
from pytest_affine.probe.numbering import Numbering
from pytest_affine.probe.patterns import Places, guess
from pytest_affine.probe.readings import Reading, values_in, wanted_numbers
from pytest_affine.probe.report import Fault
from pytest_affine.probe.sides import Shard
from pytest_affine.probe.wording import difference, kind_of_names, parts_of, place
from pytest_affine.truth.drawing import MAX_COLUMNS, MAX_ROWS, MAX_SLABS, draw_shard
from pytest_affine.truth.problems import Problem

__all__ = ["Judge"]

DRAWN_AS = {"not written": "never written", "cut": "never written", "padding": "padding read"}
NO_SOURCE = (
    "reinterpreted bits",
    "stale",
    "constant",
    "wrong cast",
    "unknown values",
    "not looked at",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a shard, at some addresses.

    `holder` is the location whose shard is there instead, if it is one's.
    """

    kind: str
    addresses: torch.Tensor
    text: str
    holder: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Some elements of a shard: those of its window, their numbers found, and which are meant."""

    shard: Shard
    window: range
    elements: Elements
    found: torch.Tensor
    members: torch.Tensor

    @property
    def addresses(self) -> torch.Tensor:
        """The addresses of those that are meant."""
        return self.members.nonzero().flatten() + self.window.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Who tells what is wrong with shards.

    Attributes:
        sources: the source maps.
        source_dtypes: by parameter, the dtype of its sources.
        parameters: what is known of parameters beyond their maps.
        numbering: the numbers and the runs.
    """

    sources: Mapping[str, ParamAffineMap]
    source_dtypes: Mapping[str, torch.dtype]
    parameters: Mapping[str, Parameter]
    numbering: Numbering

    def faults(self, shard: Shard, reading: Reading) -> list[Fault]:
        """Everything that is wrong with a target shard."""
        findings = list(self._findings(shard, reading))
        addresses = reading.wrong.nonzero().flatten().cpu()
        window = reading.window
        unseen = addresses[(addresses < window.start) | (addresses >= window.stop)]
        if len(unseen):
            text = "there is no room to look at so many elements"
            findings.append(Finding("not looked at", unseen, text))
        return self._faults(shard, findings)

    def changed(self, shard: Shard, reading: Reading) -> list[Fault]:
        """That the refit has written to a source shard."""
        addresses = reading.wrong.nonzero().flatten().cpu()
        text = "the refit has written to the source"
        return self._faults(shard, [Finding("source changed", addresses, text)])

    def _findings(self, shard: Shard, reading: Reading) -> Iterator[Finding]:
        """What is wrong with the elements of the window, each in one finding."""
        if not reading.window:
            return
        start, elements = reading.window.start, self._elements(shard, reading)
        found = elements.found()
        for group in groups_of(elements, found):
            addresses = group.members.nonzero().flatten() + start
            yield _cut(shard, Finding(group.kind, addresses, group.text))
        wrong = elements.wrong & (found >= 0)
        owners, own = self.numbering.owners(found.clamp(min=0)), self._index(shard)
        for owner in torch.unique(owners[wrong]).tolist():
            members = wrong & (owners == owner)
            seen = Seen(shard, reading.window, elements, found, members)
            if owner == own:
                yield from self._misplaced(seen)
            else:
                yield self._foreign(seen, owner)

    def _elements(self, shard: Shard, reading: Reading) -> Elements:
        of, window = self.numbering.of(shard.parameter), reading.window
        wanted = wanted_numbers(shard.map_, shard.location, of.start, window)
        dtype = next(iter(reading.kept.values())).dtype
        return Elements(
            wrong=reading.wrong[window.start : window.stop].cpu(),
            wanted=wanted,
            values=values_in(reading, wanted, dtype, of.width, self.numbering),
            source_dtype=self.source_dtypes[shard.parameter],
            reads_padding=bool(self.sources[shard.parameter].padding_by_location),
            numbering=self.numbering,
            width=of.width,
        )

    def _index(self, shard: Shard) -> int:
        return self.numbering.parameters.index(self.numbering.of(shard.parameter))

    def _foreign(self, seen: Seen, owner: int) -> Finding:
        """Elements of another parameter."""
        wanted, delivered = seen.shard.parameter, self.numbering.parameters[owner].name
        text = f"{difference(wanted, delivered)}: {self._example(seen)}"
        return Finding(kind_of_names(wanted, delivered), seen.addresses, text)

    def _misplaced(self, seen: Seen) -> Iterator[Finding]:
        """Elements of the right parameter from a wrong place: another block, or by a pattern."""
        places = self._places(seen)
        parts = parts_of(self.parameters.get(seen.shard.parameter))
        guessed = guess(places)
        if parts is None or guessed.kind in ("another shard", "transposed", "swapped blocks"):
            text = f"{guessed.text}: {self._example(seen)}"
            yield Finding(guessed.kind, seen.addresses, text, guessed.holder)
            return
        wanted, found = parts.of(places.wanted), parts.of(places.found)
        pairs = torch.where(
            places.members & (wanted != found), wanted * len(parts.names) + found, -1
        )
        for pair in torch.unique(pairs[pairs >= 0]).tolist():
            part = replace(seen, members=pairs == pair)
            names = [parts.names[number] for number in divmod(pair, len(parts.names))]
            text = f"{names[0]} wanted, {names[1]} delivered: {self._example(part)}"
            yield Finding(f"another {parts.noun}", part.addresses, text)
        rest = replace(seen, members=seen.members & (pairs < 0))
        if rest.members.any():
            guessed = guess(replace(places, members=rest.members))
            yield Finding(guessed.kind, rest.addresses, f"{guessed.text}: {self._example(rest)}")

    def _places(self, seen: Seen) -> Places:
        shard, of = seen.shard, self.numbering.of(seen.shard.parameter)
        is_own = (seen.found >= of.start) & (seen.found < of.start + of.num_elements)
        is_own &= (wanted := seen.elements.wanted) >= 0
        own = torch.where(is_own, seen.found - of.start, -1)
        return Places(
            shape=shard.map_.shard_shape(shard.location),
            logical_shape=shard.map_.logical_shape,
            wanted=torch.where(wanted < 0, -1, wanted - of.start),
            found=own,
            members=seen.members,
            others=_others(shard, seen.window, own),
        )

    def _example(self, seen: Seen) -> str:
        """The first of these elements: what was wanted, and what is there."""
        first = int(seen.members.to(torch.uint8).argmax())
        wanted, found = (
            self._place(int(each[first])) for each in (seen.elements.wanted, seen.found)
        )
        return f"{found} is where {wanted} belongs"

    def _place(self, number: int) -> str:
        of = self.numbering.owner(number)
        shape = self.sources[of.name].logical_shape
        return place(of.name, shape, number - of.start)

    def _faults(self, shard: Shard, findings: Sequence[Finding]) -> list[Fault]:
        """The findings in words, the first one with a drawing of all."""
        first = int(findings[0].addresses[0])
        problems = [problem for finding in findings for problem in _problems(shard, finding, first)]
        shape = shard.map_.shard_shape(shard.location)
        faults: list[Fault] = []
        for finding in findings:
            origin, extents = _box(finding.addresses, shape)
            fault = Fault(
                parameter=shard.parameter,
                location=shard.location,
                name=shard.name,
                kind=finding.kind,
                text=finding.text,
                origin=origin,
                shape=extents,
                num_elements=len(finding.addresses),
                holder=finding.holder,
                drawing="" if faults else draw_shard(shard.map_, shard.location, problems),
            )
            faults.append(fault)
        return faults


def _cut(shard: Shard, finding: Finding) -> Finding:
    """What was not written may be the end of a shard."""
    is_end = _is_end(finding.addresses, shard.map_.shard_shape(shard.location))
    if finding.kind != "not written" or not is_end:
        return finding
    return replace(finding, kind="cut", text="nothing was written from there on")


def _others(shard: Shard, window: range, found: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """The locations whose shards are as large, and begin as what was found."""
    map_ = shard.map_
    first = int((found >= 0).to(torch.uint8).argmax())
    at = range(window.start + first, window.start + first + 1)
    for location in map_.locations:
        if location == shard.location or map_.shard_size(location) != window.stop:
            continue
        if torch.equal(wanted_numbers(map_, location, 0, at), found[first : first + 1]):
            yield location, wanted_numbers(map_, location, 0, window)


def _indices(addresses: torch.Tensor, shape: tuple[int, ...]) -> list[torch.Tensor]:
    return list(torch.unravel_index(addresses, shape)) if shape else []


def _box(
    addresses: torch.Tensor, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Origin and extents of the box around some addresses."""
    indices = _indices(addresses, shape)
    origin = tuple(int(index.min()) for index in indices)
    return origin, tuple(
        int(index.max()) + 1 - low for index, low in zip(indices, origin, strict=True)
    )


def _is_end(addresses: torch.Tensor, shape: tuple[int, ...]) -> bool:
    """Whether these are all elements of the shard from some index of one axis on, not from 0."""
    origin, extents = _box(addresses, shape)
    starts = [axis for axis, low in enumerate(origin) if low]
    size = 1
    for low, extent, length in zip(origin, extents, shape, strict=True):
        size *= extent
        if low + extent != length:
            return False
    return len(starts) == 1 and size == len(addresses)


def _problems(shard: Shard, finding: Finding, first: int) -> list[Problem]:
    """The elements that are drawn with the first address of the drawing."""
    shape = shard.map_.shard_shape(shard.location)
    slab_size = math.prod(shape[-2:])
    num_columns = shape[-1] if shape else 1
    slabs, rows, columns = (
        (finding.addresses // step % extent - first // step % extent).abs()
        for step, extent in (
            (slab_size, math.prod(shape[:-2])),
            (num_columns, slab_size // num_columns),
            (1, num_columns),
        )
    )
    near = (slabs < MAX_SLABS) & (rows < MAX_ROWS) & (columns < MAX_COLUMNS)
    return [
        _problem(shard, finding.kind, unravel(address, shape))
        for address in finding.addresses[near].tolist()
    ]


def _problem(shard: Shard, kind: str, origin: tuple[int, ...]) -> Problem:
    unknown = "unknown source" if kind in NO_SOURCE else "wrong element"
    return Problem(
        rule="RESHARD-EXACT",
        kind=DRAWN_AS.get(kind, unknown),
        location=shard.location,
        origin=origin,
        shape=(1,) * len(origin),
        num_elements=1,
        example="",
    )
