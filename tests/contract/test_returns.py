import re
from types import MappingProxyType

import pytest

from pytest_affine.contract.returns import WrongReturnError, check_return
from pytest_affine.maps import ParamAffineMap
from pytest_affine.plans import (
    ProcessSchedule,
    Queue,
    RankPlan,
    Schedule,
    TransferPlan,
    TransferSegment,
    TransferStats,
)


def segment(**changes):
    fields = {
        "source_location": 0,
        "source_offset": 0,
        "source_strides": (1,),
        "target_location": 0,
        "target_offset": 0,
        "target_strides": (1,),
        "shape": (2,),
    }
    return TransferSegment(**{**fields, **changes})


def plan(*segments, **changes):
    fields = {
        "logical_shape": (2,),
        "source_sizes": {0: 2},
        "target_sizes": None,
        "moved_elements": 2,
    }
    return TransferPlan(segments, **{**fields, **changes})


STATS = dict.fromkeys(TransferStats.__dataclass_fields__, 1)


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("plan_transfer", plan(segment())),
        ("plan_transfers", {"weight": plan(segment())}),
        ("check_map", None),
        ("supports", None),
        ("supports", "too wide"),
        ("plan_digest", "00"),
        ("build_map", {"weight": ParamAffineMap((), {0: ()}, {})}),
        ("execute_transfers", TransferStats(**STATS)),
        ("execute_transfers", TransferStats(**{**STATS, "rounds": None})),
        ("schedule_transfers", Schedule(MappingProxyType({}))),
        ("extract", object()),
        ("describe", ParamAffineMap((), {0: ()}, {})),
        ("match", {(0, "w"): {(1, "w")}, (1, "w"): frozenset()}),
    ],
)
def test_what_the_contract_says_is_accepted(method, value):
    check_return(method, value)


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("plan_transfer", [], "plan_transfer must be TransferPlan, got list []"),
        ("plan_transfer", plan(None), "plan_transfer.segments[0] must be TransferSegment, got"),
        (
            "plan_transfer",
            plan(segment(shape=[2])),
            "plan_transfer.segments[0].shape must be a tuple, got list [2]",
        ),
        (
            "plan_transfer",
            plan(segment(target_offset=0.0)),
            "plan_transfer.segments[0].target_offset must be int, got float 0.0",
        ),
        (
            "plan_transfer",
            plan(segment(source_location=True)),
            "plan_transfer.segments[0].source_location must be int, got bool True",
        ),
        ("plan_transfer", plan(moved_elements=2.0), "plan_transfer.moved_elements must be int"),
        (
            "plan_transfers",
            {"weight": plan(segment(source_offset=True))},
            "plan_transfers['weight'].segments[0].source_offset must be int, got bool True",
        ),
        ("plan_transfers", [plan()], "plan_transfers must be a mapping, got list"),
        ("plan_digest", b"00", "plan_digest must be str, got bytes b'00'"),
        ("check_map", True, "check_map must be None, got bool True"),
        ("supports", 3, "supports must be str | None, got int 3"),
        ("schedule_transfers", Schedule(None), "schedule_transfers.processes must be a mapping"),
        (
            "schedule_transfers",
            Schedule(
                {
                    0: ProcessSchedule(
                        sends={1: Queue((), 0.5)}, receives={}, local_copies=(), num_rounds=0
                    )
                }
            ),
            "schedule_transfers.processes[0].sends[1].arena_bytes must be int, got float 0.5",
        ),
        ("maps_from_dict", {0: None}, "a key of maps_from_dict must be str, got int 0"),
        ("execute_transfers", TransferStats(**{**STATS, "rounds": "1"}), "rounds must be int | N"),
        ("describe", None, "describe must be ParamAffineMap, got NoneType None"),
        ("match", {"w": {(0, "w")}}, "a key of match must be a tuple, got str 'w'"),
        ("match", {(0, "w"): [(0, "w")]}, "match[(0, 'w')] must be a set, got list [(0, 'w')]"),
        (
            "match",
            {(0, "w"): {(True, "w")}},
            "an element of match[(0, 'w')][0] must be int, got bool True",
        ),
    ],
)
def test_what_it_does_not_say_is_told_by_its_field(method, value, message):
    with pytest.raises(WrongReturnError, match=re.escape(message)):
        check_return(method, value)


class Handle:
    run = rebind = close = print


def test_a_handle_has_three_methods():
    check_return("open_sync", Handle())
    message = "open_sync must return a handle that has the methods ['rebind'], got NoRebind "
    with pytest.raises(WrongReturnError, match=re.escape(message)):
        check_return("open_sync", type("NoRebind", (Handle,), {"rebind": None})())


def test_what_a_rank_plans_is_checked_down_to_its_segments():
    check_return("plan_on_rank", RankPlan([("w", 0, segment())], []))
    message = "plan_on_rank.receives[0][1] must be int, got str '0'"
    with pytest.raises(WrongReturnError, match=re.escape(message)):
        check_return("plan_on_rank", RankPlan([], [("w", "0", segment())]))
