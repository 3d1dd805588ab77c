"""What the suite puts into buffers and how it reads them, without any rank."""

from dataclasses import replace

import pytest
import torch

from pytest_affine.conformance._batches import ITEM_BYTES
from pytest_affine.conformance._contents import (
    GUARD,
    Shard,
    changed_elsewhere,
    element_bytes,
    shards_of,
    wrong_elements,
)
from pytest_affine.conformance._moves import assert_landed
from pytest_affine.conformance.digests import has_number
from pytest_affine.contract.cases import Case
from pytest_affine.fixtures.batches import MIXED
from pytest_affine.fixtures.syncs import EVERYDAY, PADDED
from pytest_affine.sync import Sync


def sync_of(cases: list[Case], name: str) -> Sync:
    (sync,) = [case.sync for case in cases if case.name == name]
    assert sync is not None
    return sync


def shard_of(sync: Sync, side: str, location: int) -> Shard:
    (shard,) = [s for s in shards_of(sync, 2) if (s.side, s.location) == (side, location)]
    return shard


def bits(shard: Shard, contents: bytes) -> list[str]:
    return [shard.at(address, contents) for address in range(len(shard.elements))]


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_bytes_per_element_are_those_of_torch(dtype: str) -> None:
    assert ITEM_BYTES[dtype] == getattr(torch, dtype).itemsize


@pytest.mark.parametrize(("dtype", "most"), [("int8", 256), ("bfloat16", 5000), ("float32", 5000)])
def test_as_many_elements_differ_as_can(dtype: str, most: int) -> None:
    assert len({element_bytes(dtype, count, 0) for count in range(most)}) == most


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_every_second_run_has_nans_of_many_payloads_and_negative_zeros(dtype: str) -> None:
    values = bytearray(b"".join(element_bytes(dtype, count, 1) for count in range(1, 61)))
    elements = torch.frombuffer(values, dtype=getattr(torch, dtype))
    nans, zeros = elements[0::3], elements[1::3]
    assert nans.isnan().all()
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}[elements.element_size()]
    assert len(set(nans.view(words).tolist())) == 20
    assert (zeros == 0).all()
    assert zeros.signbit().all()


def test_bools_are_0_or_1_without_a_period() -> None:
    values = [element_bytes("bool", count, 0)[0] for count in range(64)]
    assert set(values) == {0, 1}
    assert not any(values[period:] == values[:-period] for period in range(1, 33))


@pytest.mark.parametrize("sync", [case.sync for case in MIXED], ids=lambda sync: sync.id)
def test_targets_are_wrong_at_every_element_before_every_run(sync: Sync) -> None:
    for shard in shards_of(sync, 2):
        for before, after in zip(shard.before, shard.after, strict=True):
            pairs = list(zip(bits(shard, before), bits(shard, after), strict=True))
            assert all((start != end) == (shard.side == "target") for start, end in pairs)


def test_no_element_has_the_value_of_another_parameter_or_run() -> None:
    sync = sync_of(EVERYDAY, "the second process is idle in the first parameter (F32)")
    values = [
        (held, element, run, shard.name)
        for shard in shards_of(sync, 2)
        if shard.side == "source"
        for run in (0, 1)
        for held, element in zip(bits(shard, shard.before[run]), shard.elements, strict=True)
        if held != "80000000"
    ]
    assert len({held for held, *_ in values}) == len(values)


def test_a_shard_holds_its_elements_between_two_guards() -> None:
    sync = sync_of(EVERYDAY, "narrow columns to whole (F08)")
    whole, narrow = shard_of(sync, "target", 0), shard_of(sync, "source", 1)
    right = bits(whole, whole.after[0])
    assert narrow.elements == (2, 5)
    assert bits(narrow, narrow.before[0]) == [right[2], right[5]]
    assert len(narrow.before[0]) == 4 * (2 + 2 * GUARD)
    assert narrow.before[0][: 4 * GUARD] == narrow.before[0][-4 * GUARD :] == b"\xa5" * 4 * GUARD


def test_source_padding_is_nan_and_target_padding_stays() -> None:
    sync = sync_of(PADDED, "a vocabulary of 5 rows, padded to 6 and to 8 (F15)")
    source, target = shard_of(sync, "source", 1), shard_of(sync, "target", 2)
    assert bits(source, source.before[0])[4:] == ["ffffffff"] * 2
    assert target.elements == (8, 9, None, None)
    assert bits(target, target.before[0])[2:] == bits(target, target.after[0])[2:]
    assert "ffffffff" not in bits(target, target.after[0])


def changed(contents: bytes, *addresses: int) -> bytes:
    out = bytearray(contents)
    for address in addresses:
        out[4 * (GUARD + address)] ^= 0xFF
    return bytes(out)


def test_elements_guards_and_padding_are_told_apart() -> None:
    sync = sync_of(PADDED, "a vocabulary of 5 rows, padded to 6 and to 8 (F15)")
    target = shard_of(sync, "target", 2)
    right = target.after[1]
    assert wrong_elements(target, 1, right) == changed_elsewhere(target, 1, right) == ""
    assert "1 of 2 elements are wrong; the first, at [0, 1]," in wrong_elements(
        target, 1, changed(right, 1)
    )
    assert changed_elsewhere(target, 1, changed(right, 1)) == ""
    assert wrong_elements(target, 1, changed(right, -1, 2, 4)) == ""
    for address, place in ((-2, "2 before the shard"), (3, "padding [1, 1]"), (5, "2 behind the")):
        text = changed_elsewhere(target, 1, changed(right, address))
        assert f"1 elements changed that must not; the first, {place}" in text


def test_any_change_of_a_source_is_one_too_many() -> None:
    sync = sync_of(PADDED, "a vocabulary of 5 rows, padded to 6 and to 8 (F15)")
    source = shard_of(sync, "source", 0)
    landed = changed(source.after[0], 2)
    assert wrong_elements(source, 0, landed) == ""
    assert "element [1, 0], has the bits" in changed_elsewhere(source, 0, landed)


@pytest.mark.parametrize(("num_problems", "end"), [(4, "wrong"), (6, "and 2 more")])
def test_four_problems_are_shown_and_the_others_counted(num_problems: int, end: str) -> None:
    shard = shard_of(sync_of(EVERYDAY, "one location"), "target", 0)
    with pytest.raises(AssertionError) as failure:
        assert_landed([(shard, 0, b"")] * num_problems, lambda *each: "wrong")
    assert str(failure.value).splitlines() == ["wrong"] * 4 + [end] * (num_problems > 4)


def test_an_unbound_location_has_no_buffer() -> None:
    sync = sync_of(EVERYDAY, "one location")
    unbound = replace(sync, endpoints=replace(sync.endpoints, source=()))
    assert [shard.side for shard in shards_of(unbound)] == ["target"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("process 3 refuses", True),
        ("ranks [1, 3] disagree", True),
        ("rank3: no buffer", True),
        ("it was process 3.", True),
        ("13 or 31 elements", False),
        ("digest 0ab3 or ab3c", False),
        ("3.5 seconds, version 1.3", False),
        ("location_3", False),
    ],
)
def test_a_number_is_found_as_a_word_of_its_own(text: str, named: bool) -> None:
    assert has_number(text, 3) is named
