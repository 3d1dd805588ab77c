"""Element sizes and dtypes of source and target: what is refused, counted, staged and digested."""

import re

import pytest
import torch
from handmade import plan, run

from pytest_affine.errors import AffineTransferError, TransferRefusedError
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.reference.analyzer import analyze_transfers
from pytest_affine.reference.digest import plan_digest
from pytest_affine.reference.dtypes import Dtypes, dtypes_of
from pytest_affine.reference.schedule import schedule_transfers

APART = TransferEndpoints({0: 0}, {0: 1})
TOGETHER = TransferEndpoints({0: 0}, {0: 0})
PLANS = {"w": plan(run((0, 0), (0, 0), 6))}


def queues(element_size, budget=64):
    schedule = schedule_transfers(
        PLANS, APART, element_size=element_size, budget=StagingBudget(budget), cast=True
    )
    return schedule.processes[0].sends[1], schedule.processes[1].receives[0]


@pytest.mark.parametrize(
    ("element_size", "direct", "num_bytes"),
    [
        (4, (True, True), 24),
        ((4, 2), (False, True), 12),
        ((2, 4), (True, False), 12),
        ((2, 2), (True, False), 12),
    ],
)
def test_a_cast_is_staged_where_elements_are_larger_or_else_where_they_arrive(
    element_size, direct, num_bytes
):
    sends, receives = queues(element_size)
    (sent,), (received,) = sends.messages, receives.messages
    assert (sent.direct, received.direct) == direct
    assert (sent.num_bytes, received.num_bytes) == (num_bytes, num_bytes)
    assert [queue.arena_bytes for queue in (sends, receives)] == [
        0 if is_direct else num_bytes for is_direct in direct
    ]


def test_the_budget_holds_the_smaller_elements():
    sends, _ = queues((4, 2), budget=4)
    assert [message.num_elements for message in sends.messages] == [2, 2, 2]
    sends, _ = queues((8, 2), budget=3)
    assert [message.num_elements for message in sends.messages] == [1] * 6


def test_parameters_of_one_smaller_size_share_a_message():
    plans = {name: plan(run((0, 0), (0, 0), 1)) for name in ("first", "second", "third")}
    schedule = schedule_transfers(
        plans,
        APART,
        element_size={"first": (4, 2), "second": 2, "third": (2, 8)},
        budget=StagingBudget(),
        cast=True,
    )
    (message,) = schedule.processes[0].sends[1].messages
    assert (message.num_elements, message.num_bytes) == (3, 6)


def test_local_copies_count_the_smaller_elements():
    report = analyze_transfers(
        PLANS, TOGETHER, element_size=(2, 4), budget=StagingBudget(), cast=True
    )
    assert (report.volume.local_bytes, report.segment_sizes) == (12, {12: 1})


@pytest.mark.parametrize(
    ("element_size", "cast", "message"),
    [
        ((4, 2), False, "element_size must be an integer, got (4, 2)"),
        ({"w": (4, 2)}, False, "element_size['w'] must be an integer, got (4, 2)"),
        ((4, 0), True, "element_size[1] must be 1 or more, got 0"),
        (
            {"w": (4, 2, 1)},
            True,
            "element_size['w'] must be an integer, or a source's and a target's, got (4, 2, 1)",
        ),
        ((16, 8), True, "budget.bytes_per_peer is 7, which holds no element of 8 bytes"),
    ],
)
def test_sizes_that_cannot_be_are_refused(element_size, cast, message):
    with pytest.raises(AffineTransferError, match=re.escape(message)):
        schedule_transfers(
            PLANS, APART, element_size=element_size, budget=StagingBudget(7), cast=cast
        )


def digest(element_size, cast=True):
    return plan_digest(PLANS, APART, element_size=element_size, budget=StagingBudget(), cast=cast)


def test_the_digest_knows_casts_apart_and_nothing_else_changes_it():
    assert len({digest(size) for size in (2, (2, 2), (2, 4), (4, 2), 4)}) == 5
    assert digest(4) == digest(4, cast=False) == digest({"w": 4})


@pytest.mark.parametrize(
    ("dtypes", "wire", "element_size", "text"),
    [
        ((torch.float32, torch.float32), torch.float32, 4, "torch.float32"),
        (
            (torch.float32, torch.bfloat16),
            torch.bfloat16,
            (4, 2),
            "torch.float32 to torch.bfloat16",
        ),
        ((torch.int8, torch.float64), torch.int8, (1, 8), "torch.int8 to torch.float64"),
        (
            (torch.float16, torch.bfloat16),
            torch.float16,
            (2, 2),
            "torch.float16 to torch.bfloat16",
        ),
    ],
)
def test_the_smaller_dtype_is_sent(dtypes, wire, element_size, text):
    found = Dtypes(*dtypes)
    assert (found.wire, found.element_size, str(found)) == (wire, element_size, text)


PAIR = (torch.float32, torch.bfloat16)


@pytest.mark.parametrize(
    ("dtype", "cast", "message"),
    [
        (PAIR, False, "dtype must be a torch.dtype, got (torch.float32, torch.bfloat16)"),
        (
            "float32",
            True,
            "dtype must be a torch.dtype, or a source's and a target's, got 'float32'",
        ),
        (
            (*PAIR, torch.int8),
            True,
            "dtype must be a torch.dtype, or a source's and a target's, got",
        ),
        ({"w": (torch.float32, 4)}, True, "or a source's and a target's, got (torch.float32, 4)"),
    ],
)
def test_what_is_no_dtype_is_refused(dtype, cast, message):
    with pytest.raises(TransferRefusedError, match=re.escape(message)):
        dtypes_of(dtype, cast=cast)


def test_dtypes_may_be_given_for_each_parameter():
    assert dtypes_of({"v": PAIR, "w": torch.int8}, cast=True) == {
        "v": Dtypes(*PAIR),
        "w": Dtypes(torch.int8, torch.int8),
    }
