"""What buffers hold, byte by byte, before and after a batch was moved; no tensors.

The values of a full tensor are bits that count on from element to element, from parameter to
parameter and from run to run. Every run's targets start from bits that are wrong at every element,
so that neither an element that was never written nor one of the last run can pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_affine import truth
from pytest_affine.conformance._batches import ITEM_BYTES
from pytest_affine.maps import ParamAffineMap
from pytest_affine.sync import Sync, SyncParameter
from pytest_affine.truth.problems import Problem, index_at

__all__ = ["GUARD", "Shard", "changed_elsewhere", "shards_of", "wrong_elements"]

GUARD = 3
"""Elements before a shard, and as many behind it, that nothing may change."""

NOTHING = b"\xa5"
"""What the bytes of guards and of target padding are."""

UNDEFINED = b"\xff"
"""What the bytes of source padding are: NaN in every floating dtype."""

SPREAD = 0x9E3779B97F4A7C15
"""An odd number: multiplying by it spreads a count over all bits, and keeps counts distinct."""

NANS = {"float64": 0x7FF << 52, "float32": 0xFF << 23, "float16": 0x1F << 10, "bfloat16": 0xFF << 7}
"""Bits of an exponent that makes a NaN of any payload but 0."""

PARTS = {"complex64": "float32", "complex128": "float64"}
"""The dtype of the two parts of an element."""


def element_bytes(dtype: str, count: int, run: int) -> bytes:
    """The bytes of one element; in every second run of a floating dtype, NaNs and -0.0 too.

    Of the float8 dtypes, 256 elements have every pattern of bits once, these included.
    """
    if dtype in PARTS:
        return b"".join(element_bytes(PARTS[dtype], 2 * count + part, run) for part in (0, 1))
    num_bytes = ITEM_BYTES[dtype]
    bits = count * SPREAD
    if dtype == "bool":
        bits = count.bit_count() % 2  # a sequence without a period
    elif dtype in NANS and run % 2 and count % 3:
        exponent = NANS[dtype]
        payload = 1 + count % ((exponent & -exponent) // 2 - 1)
        bits = exponent | payload if count % 3 == 1 else 1 << (8 * num_bytes - 1)
    return (bits % (1 << 8 * num_bytes)).to_bytes(num_bytes, "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The buffer of one shard: guards around it, and what it holds before and after each run.

    Attributes:
        side: "source" or "target".
        parameter: its parameter.
        location: whose shard.
        process: which process has it.
        shape: its shape, without guards.
        elements: the logical element at every address; None for padding.
        before: by run, the bytes from guard to guard that it starts with.
        after: the same when the batch was moved.
    """

    side: str
    parameter: SyncParameter
    location: int
    process: int
    shape: tuple[int, ...]
    elements: tuple[int | None, ...]
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it apart among the shards of a sync."""
        return self.side, self.name, self.location

    @property
    def name(self) -> str:
        """Name of its parameter."""
        return self.parameter.name

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        return self.parameter.source_dtype

    @property
    def map_(self) -> ParamAffineMap:
        """The map that it belongs to."""
        return _map_of(self.parameter, self.side)

    def holds(self, address: int) -> bool:
        """Whether a logical element belongs at this address, which may be a guard's."""
        return 0 <= address < len(self.elements) and self.elements[address] is not None

    def at(self, address: int, contents: bytes) -> str:
        """The bits at an address of these contents, in hexadecimal."""
        size = ITEM_BYTES[self.dtype]
        start = (GUARD + address) * size
        return contents[start : start + size][::-1].hex()

    @property
    def addresses(self) -> range:
        """Every address of the buffer, those of guards included; the shard's begin at 0."""
        return range(-GUARD, len(self.elements) + GUARD)

    def differing(self, run: int, landed: bytes) -> list[int]:
        """The addresses, guards included, that do not hold what they must after a run."""
        return [at for at in self.addresses if self.at(at, landed) != self.at(at, self.after[run])]

    def __str__(self) -> str:
        return f"{self.side} shard {self.location} of {self.name!r} on process {self.process}"


def shards_of(sync: Sync, num_runs: int = 1) -> Iterator[Shard]:
    """Every shard of a sync that is bound to a process, as it is in so many runs."""
    start, total = 1, sum(parameter.source.num_elements for parameter in sync.parameters)
    for parameter in sync.parameters:
        counts = range(start, start + parameter.source.num_elements)
        full = [
            [element_bytes(parameter.source_dtype, run * total + count, run) for count in counts]
            for run in range(num_runs)
        ]
        start = counts.stop
        for side, bound in (("source", sync.endpoints.source), ("target", sync.endpoints.target)):
            for location, process in bound:
                if location in _map_of(parameter, side).locations:
                    yield _shard(parameter, side, location, process, full)


def _map_of(parameter: SyncParameter, side: str) -> ParamAffineMap:
    return parameter.source if side == "source" else parameter.target


def _shard(
    parameter: SyncParameter, side: str, location: int, process: int, full: list[list[bytes]]
) -> Shard:
    """A shard whose values are cut from the full tensors, one per run.

    Scales play no part: a plan copies bits, and is made only where they are equal.
    """
    elements = truth.element_at(_map_of(parameter, side), location)
    size = ITEM_BYTES[parameter.source_dtype]
    padding = (UNDEFINED if side == "source" else NOTHING) * size
    flip = 0x01 if parameter.source_dtype == "bool" else 0x5A
    full_before = full
    if side == "target":
        full_before = [[bytes(byte ^ flip for byte in bits) for bits in values] for values in full]

    def guarded(values: list[bytes]) -> bytes:
        guard = NOTHING * (GUARD * size)
        return guard + b"".join(padding if e is None else values[e] for e in elements) + guard

    return Shard(
        side=side,
        parameter=parameter,
        location=location,
        process=process,
        shape=_map_of(parameter, side).shard_shape(location),
        elements=elements,
        before=tuple(map(guarded, full_before)),
        after=tuple(map(guarded, full)),
    )


def wrong_elements(shard: Shard, run: int, landed: bytes) -> str:
    """What is wrong with the elements of a target shard, and a drawing; empty where nothing is."""
    wrong = [at for at in shard.differing(run, landed) if shard.holds(at)]
    if shard.side == "source" or not wrong:
        return ""
    first = wrong[0]
    return (
        f"{shard}, run {run}: {len(wrong)} of {sum(map(shard.holds, range(len(shard.elements))))} "
        f"elements are wrong; the first, at {list(index_at(first, shard.shape))}, has the bits "
        f"{shard.at(first, landed)} and should have {shard.at(first, shard.after[run])}, those of "
        f"{list(index_at(shard.elements[first] or 0, shard.map_.logical_shape))} of the full tensor"
        f"\n{_drawing(shard, run, landed, wrong)}"
    )


def _drawing(shard: Shard, run: int, landed: bytes, wrong: list[int]) -> str:
    untouched = {at for at in wrong if shard.at(at, landed) == shard.at(at, shard.before[run])}
    problems = [
        Problem(
            rule="EXEC-EXACT",
            kind="never written" if at in untouched else "wrong element",
            location=shard.location,
            origin=index_at(at, shard.shape),
            shape=(1,) * len(shard.shape),
            num_elements=1,
            example="",
        )
        for at in wrong
    ]
    return truth.draw_shard(shard.map_, shard.location, problems)


def changed_elsewhere(shard: Shard, run: int, landed: bytes) -> str:
    """What changed that must not: guards, padding, and all of a source; empty where nothing did."""
    changed = [
        at for at in shard.differing(run, landed) if shard.side == "source" or not shard.holds(at)
    ]
    if not changed:
        return ""
    first = changed[0]
    return (
        f"{shard}, run {run}: {len(changed)} elements changed that must not; the first, "
        f"{_place(shard, first)}, has the bits {shard.at(first, landed)} and should have "
        f"{shard.at(first, shard.after[run])}"
    )


def _place(shard: Shard, address: int) -> str:
    if address < 0:
        return f"{-address} before the shard"
    if address >= len(shard.elements):
        return f"{address - len(shard.elements) + 1} behind the shard"
    what = "element" if shard.holds(address) else "padding"
    return f"{what} {list(index_at(address, shard.shape))}"
