"""What buffers hold, byte by byte, before and after a batch was moved; no tensors.

The values of a full tensor are bits that count on from element to element, from parameter to
parameter and from run to run. Every run's targets start from bits that are wrong at every element,
so that neither an element that was never written nor one of the last run can pass.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pytest_affine import truth
from pytest_affine.conformance._batches import ITEM_BYTES
from pytest_affine.maps import ParamAffineMap
from pytest_affine.sync import Sync, SyncParameter
from pytest_affine.truth.problems import Problem, index_at

__all__ = ["GUARD", "Cast", "Shard", "changed_elsewhere", "shards_of", "wrong_elements"]

Cast: TypeAlias = Callable[[bytes, str, str], bytes]
"""What elements of one dtype are in another: (bytes, dtype, other dtype) to bytes."""

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


PACKED = {"float64": "<d", "float32": "<f", "bfloat16": "<f", "float16": "<e"}
"""How `struct` calls a dtype; a bfloat16 is the upper half of a float32."""

SPECIAL = (float("nan"), float("-inf"), -0.0)

LARGEST = {**NANS, "float8_e5m2": 0x7C, "float8_e4m3fn": 0x7E}
"""Bits of the largest magnitude that is a number; what is beyond is a NaN."""


def number_bytes(dtype: str, count: int, run: int) -> bytes:
    """The bytes of one element that is to be cast.

    Numbers of floating dtypes are such that every floating dtype has one near, to which more than
    one rounds; in every second run NaN, infinity and -0.0 too.
    """
    if dtype not in PACKED:
        return element_bytes(dtype, count, run)
    bits = count * SPREAD % 2**64
    number = (1 + (bits >> 44) / 2**20) * 2.0 ** (count % 13 - 6) * (-1) ** (count // 13)
    if run % 2 and count % 5 < len(SPECIAL):
        number = SPECIAL[count % 5]
    return struct.pack(PACKED[dtype], number)[-ITEM_BYTES[dtype] :]


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
        return _dtype_of(self.parameter, self.side)

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
        wanted = self.after[run]
        return [
            at
            for at in self.addresses
            if self.at(at, landed) != self.at(at, wanted)
            and not (self.is_cast(at) and self.is_nan(at, landed) and self.is_nan(at, wanted))
        ]

    def is_cast(self, address: int) -> bool:
        """Whether what belongs at this address was cast; of a NaN that leaves any NaN."""
        is_cast = self.parameter.source_dtype != self.parameter.target_dtype
        return is_cast and self.side == "target" and self.holds(address)

    def is_nan(self, address: int, contents: bytes) -> bool:
        """Whether there is a NaN at an address of these contents."""
        sign = 1 << 8 * ITEM_BYTES[self.dtype] - 1
        bits = int(self.at(address, contents), 16)
        return self.dtype in LARGEST and bits & ~sign > LARGEST[self.dtype]

    def __str__(self) -> str:
        return f"{self.side} shard {self.location} of {self.name!r} on process {self.process}"


def shards_of(sync: Sync, num_runs: int = 1, cast: Cast | None = None) -> Iterator[Shard]:
    """Every shard of a sync that is bound to a process, as it is in so many runs.

    `cast` is asked for what elements are in the target where its dtype is another.
    """
    start, total = 1, sum(parameter.source.num_elements for parameter in sync.parameters)
    for parameter in sync.parameters:
        counts = range(start, start + parameter.source.num_elements)
        dtypes = parameter.source_dtype, parameter.target_dtype
        bits = element_bytes if dtypes[0] == dtypes[1] else number_bytes
        full = [
            [bits(dtypes[0], run * total + count, run) for count in counts]
            for run in range(num_runs)
        ]
        values = {"source": full, "target": full}
        if dtypes[0] != dtypes[1]:
            assert cast is not None, f"{parameter.name!r} is cast"
            values["target"] = [_cast_elements(run, *dtypes, cast) for run in full]
        start = counts.stop
        for side, bound in (("source", sync.endpoints.source), ("target", sync.endpoints.target)):
            for location, process in bound:
                if location in _map_of(parameter, side).locations:
                    yield _shard(parameter, side, location, process, values[side])


def _cast_elements(elements: list[bytes], source: str, target: str, cast: Cast) -> list[bytes]:
    size = ITEM_BYTES[target]
    after = cast(b"".join(elements), source, target)
    return [after[start : start + size] for start in range(0, len(after), size)]


def _dtype_of(parameter: SyncParameter, side: str) -> str:
    return parameter.source_dtype if side == "source" else parameter.target_dtype


def _map_of(parameter: SyncParameter, side: str) -> ParamAffineMap:
    return parameter.source if side == "source" else parameter.target


def _shard(
    parameter: SyncParameter, side: str, location: int, process: int, full: list[list[bytes]]
) -> Shard:
    """A shard whose values are cut from the full tensors, one per run.

    Scales play no part: a plan copies bits, and is made only where they are equal.
    """
    elements = truth.element_at(_map_of(parameter, side), location)
    dtype = _dtype_of(parameter, side)
    size = ITEM_BYTES[dtype]
    padding = (UNDEFINED if side == "source" else NOTHING) * size
    flip = 0x01 if dtype == "bool" else 0x5A
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
