"""What a policy may answer, and how everything else is refused."""

import re
from collections.abc import Sequence
from enum import IntEnum

import pytest
from handmade import block

from pytest_affine.builders import contiguous_split_map, replicated_map
from pytest_affine.errors import InvalidReplicaPolicyError, PlanLimitError
from pytest_affine.plans import PlanBudget, ReplicaPart
from pytest_affine.reference import replicas
from pytest_affine.reference.replicas import plan_transfers

WHOLE = replicated_map((4, 2), 1)
COPIES = replicated_map((4, 2), 2)


def part(location, first_row, num_rows):
    return ReplicaPart(location, (first_row, 0), (num_rows, 2))


def planned(answer, pair=(COPIES, WHOLE), **options):
    """The segments of one parameter of 4 x 2 whose only region is answered like this."""
    options = {"element_size": 4, "replica_policy": lambda requests: [answer], **options}
    return list(plan_transfers({"w": pair}, **options)["w"].segments)


def rows(location, first_row, num_rows):
    """A segment of whole rows, at the same place on both sides."""
    at = first_row * 2
    return block((location, at, (2, 1)), (0, at, (2, 1)), (num_rows, 2))


class Number(IntEnum):
    ONE = 1


class Window(Sequence):
    """A sequence that says one length, and holds what it is given."""

    def __init__(self, length, *held):
        self._length, self._held = length, held

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        return self._held[index]

    def __iter__(self):
        return iter(self._held)

    def __repr__(self):
        return "Window"


class Unread(Sequence):
    """A sequence that must not be looked into."""

    def __init__(self, length):
        self._length = length

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        raise AssertionError("read before its length was judged")

    def __repr__(self):
        return "Unread"


class Tuple(tuple):
    """A tuple of a kind of its own."""


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (1, [rows(1, 0, 4)]),
        (Number.ONE, [rows(1, 0, 4)]),
        ([part(1, 0, 4)], [rows(1, 0, 4)]),
        ([part(0, 0, 1), part(1, 1, 3)], [rows(0, 0, 1), rows(1, 1, 3)]),
        ([part(1, 1, 3), part(0, 0, 1)], [rows(0, 0, 1), rows(1, 1, 3)]),
        (Tuple([part(1, 0, 1), part(0, 1, 3)]), [rows(1, 0, 1), rows(0, 1, 3)]),
        ([ReplicaPart(1, [0, 0], Tuple([4, 2]))], [rows(1, 0, 4)]),
        (
            [part(0, 0, 1), part(1, 1, 2), part(0, 3, 1)],
            [
                block((0, 0, (1,)), (0, 0, (1,)), (2,)),
                rows(1, 1, 2),
                block((0, 6, (1,)), (0, 6, (1,)), (2,)),
            ],
        ),
        # Neighbours of one holder are one segment.
        ([part(0, 0, 1), part(0, 1, 3)], [rows(0, 0, 4)]),
    ],
)
def test_a_holder_or_parts_along_axis_0_are_read(answer, expected):
    assert [segment.source_location for segment in planned(answer)] == [
        segment.source_location for segment in expected
    ]
    assert covered(planned(answer)) == covered(expected)


def covered(segments):
    """{address in the target: (source location, source address)}; shards are packed alike here."""
    places = {}
    for segment in segments:
        for offset in range(segment.num_elements):
            address = segment.target_offset + offset
            assert address not in places
            places[address] = (segment.source_location, segment.source_offset + offset)
    return places


def test_locations_in_a_plan_are_plain_integers():
    (segment,) = planned(Number.ONE)
    assert type(segment.source_location) is int


REGION = (
    "the answer for the region at (0, 0) of shape (4, 2) of parameter 'w' that target location 0 "
    "needs "
)
NO_ANSWER = "; it must be the location of a holder, one of (0, 1), or a sequence of ReplicaParts"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (2, f"is 2{NO_ANSWER} that cut the region along axis 0"),
        (-1, f"is -1{NO_ANSWER}"),
        (True, f"is True{NO_ANSWER}"),
        (0.0, f"is 0.0{NO_ANSWER}"),
        (None, f"is None{NO_ANSWER}"),
        ("0", f"is '0'{NO_ANSWER}"),
        (b"\0", f"is b'\\x00'{NO_ANSWER}"),
        (bytearray(1), f"is bytearray(b'\\x00'){NO_ANSWER}"),
        ([], f"is []{NO_ANSWER}"),
        (
            part(0, 0, 4),
            f"is ReplicaPart(source_location=0, logical_origin=(0, 0), shape=(4, 2)){NO_ANSWER}",
        ),
        ({part(0, 0, 4)}, "is {ReplicaPart("),
        ({0: part(0, 0, 4)}, "is {0: ReplicaPart("),
        ((each for each in [part(0, 0, 4)]), "is <generator object"),
        (Window(-1), f"is Window{NO_ANSWER}"),
        (Unread(2**70), f"is Unread{NO_ANSWER}"),
        (Window(1), "says that it has 1 parts, and has another number of them"),
        (Window(1, part(0, 0, 2), part(0, 2, 2)), "says that it has 1 parts, and has another"),
        ([0], "has as part 0 0; it must be a ReplicaPart"),
        ([part(0, 0, 2), None], "has as part 1 None; it must be a ReplicaPart"),
        ([(0, (0, 0), (4, 2))], "has as part 0 (0, (0, 0), (4, 2)); it must be a ReplicaPart"),
        (
            [part(2, 0, 4)],
            "reads part 0 from 2; it must be the location of a holder, one of (0, 1)",
        ),
        ([part(True, 0, 4)], "reads part 0 from True; it must be the location of a holder"),
        ([part(1.0, 0, 4)], "reads part 0 from 1.0; it must be the location of a holder"),
        ([part(None, 0, 4)], "reads part 0 from None; it must be the location of a holder"),
        ([part("1", 0, 4)], "reads part 0 from '1'; it must be the location of a holder"),
        # F51
        (
            [ReplicaPart(0, None, None)],
            "has as logical_origin of part 0 None; it must be a sequence of 2 integers, one per "
            "axis of the region",
        ),
        ([ReplicaPart(0, (0, 0), None)], "has as shape of part 0 None; it must be a sequence of 2"),
        ([ReplicaPart(0, 0, 4)], "has as logical_origin of part 0 0; it must be a sequence"),
        ([ReplicaPart(0, (0, 0), "42")], "has as shape of part 0 '42'; it must be a sequence"),
        ([ReplicaPart(0, {0, 1}, (4, 2))], "has as logical_origin of part 0 {0, 1}; it must be"),
        ([ReplicaPart(0, (0,), (4, 2))], "has as logical_origin of part 0 (0,); it must be a"),
        ([ReplicaPart(0, (0, 0), (4, 2, 1))], "has as shape of part 0 (4, 2, 1); it must be a"),
        ([ReplicaPart(0, Unread(3), (4, 2))], "has as logical_origin of part 0 Unread; it must"),
        ([ReplicaPart(0, Window(2, 0), (4, 2))], "has as logical_origin of part 0 Window; it"),
        (
            [ReplicaPart(0, (0.0, 0), (4, 2))],
            "has no integers there: logical_origin of part 0[0] must be an integer, got 0.0",
        ),
        (
            [ReplicaPart(0, (0, 0), (4, True))],
            "has no integers there: shape of part 0[1] must be an integer, got True",
        ),
        (
            [ReplicaPart(0, (0, 0), (4, 1)), ReplicaPart(1, (0, 1), (4, 1))],
            "has part 0 at (0, 0) of shape (4, 1); a region is cut along axis 0 only",
        ),
        (
            [ReplicaPart(0, (0, 1), (4, 2))],
            "has part 0 at (0, 1) of shape (4, 2); a region is cut along axis 0 only",
        ),
        ([part(0, 0, 4), part(1, 4, 0)], "has part 1 at (4, 0) of shape (0, 2); no part may be"),
        ([part(0, 0, 4), part(1, 4, -1)], "has part 1 at (4, 0) of shape (-1, 2); no part may be"),
        ([part(0, 0, 1), part(1, 2, 2)], "leaves a gap: no part has rows 1:2"),
        ([part(0, 1, 3)], "leaves a gap: no part has rows 0:1"),
        ([part(0, 0, 3)], "leaves a gap: no part has rows 3:4"),
        ([part(0, 0, 3), part(1, 2, 2)], "reads rows 2:3 twice, so that parts overlap"),
        ([part(0, 0, 4), part(1, 0, 4)], "reads rows 0:4 twice, so that parts overlap"),
        ([part(0, 0, 4), part(1, 1, 1)], "reads rows 1:2 twice, so that parts overlap"),
        ([part(0, -1, 5)], "has a part of rows -1:4 outside the region's 0:4"),
        ([part(0, 0, 2), part(1, 2, 3)], "has a part of rows 2:5 outside the region's 0:4"),
    ],
)
def test_anything_else_is_refused_by_an_error_that_says_why(answer, problem):
    with pytest.raises(InvalidReplicaPolicyError, match=re.escape(REGION + problem)):
        planned(answer)


@pytest.mark.parametrize(
    ("answers", "got"),
    [
        ([], "0 in []"),
        ([0, 0], "2 in [0, 0]"),
        (Unread(2**60), f"{2**60} in Unread"),
        (Window(1), "1 in Window"),
        (Window(1, 0, 0), "1 in Window"),
        (None, "None"),
        (0, "0"),
        ("0", "'0'"),
        (b"\0", "b'\\x00'"),
        ({0: 0}, "{0: 0}"),
        ((answer for answer in [0]), "<generator object"),
    ],
)
def test_a_policy_must_return_one_answer_per_request(answers, got):
    said = f"a policy must return a sequence of 1 answers, one per request, got {got}"
    with pytest.raises(InvalidReplicaPolicyError, match=re.escape(said)):
        planned(0, replica_policy=lambda requests: answers)


SCALAR = (replicated_map((), 2), replicated_map((), 1))


def test_a_region_without_axes_takes_a_location_or_one_part():
    expected = [block((1, 0, ()), (0, 0, ()), ())]
    assert planned(1, SCALAR) == expected
    assert planned([ReplicaPart(1, (), ())], SCALAR) == expected


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([ReplicaPart(0, (), ())] * 2, "has 2 parts; a region without axes is read in one"),
        ([ReplicaPart(0, (0,), (1,))], "logical_origin of part 0 (0,); it must be a sequence of 0"),
    ],
)
def test_a_region_without_axes_is_not_cut(answer, problem):
    with pytest.raises(InvalidReplicaPolicyError, match=re.escape(problem)):
        planned(answer, SCALAR)


def test_each_part_of_a_split_has_the_least_bytes_asked_for():
    halves = [part(0, 0, 2), part(1, 2, 2)]
    assert len(planned(halves, min_split_bytes=16)) == 2
    said = (
        "has a part at (0, 0) of shape (2, 2), which is 16 bytes; each part of a split must have "
        "min_split_bytes=17 or more"
    )
    with pytest.raises(InvalidReplicaPolicyError, match=re.escape(REGION + said)):
        planned(halves, min_split_bytes=17)


def test_one_part_is_no_split_and_may_be_smaller():
    assert planned([part(1, 0, 4)], min_split_bytes=2**40) == planned(1)
    assert planned(1, min_split_bytes=2**40) == planned(1)


def test_bytes_of_a_part_are_those_of_its_parameters_elements():
    pair = (COPIES, WHOLE)
    halves = [part(0, 0, 2), part(1, 2, 2)]
    options = {"min_split_bytes": 8, "replica_policy": lambda requests: [halves, halves]}
    assert plan_transfers({"a": pair, "b": pair}, element_size=2, **options)
    with pytest.raises(InvalidReplicaPolicyError, match=r"of parameter 'b' .* which is 4 bytes"):
        plan_transfers({"a": pair, "b": pair}, element_size={"a": 2, "b": 1}, **options)


TALL = (replicated_map((100, 2), 2), replicated_map((100, 2), 1))


def in_rows(first, last):
    """Single rows, from the two holders in turn."""
    return [part(row % 2, row, 1) for row in range(first, last)]


def limited(answers, count, pairs):
    limits = PlanBudget(max_pair_checks=count)
    return plan_transfers(pairs, limits=limits, replica_policy=lambda requests: answers)


def test_the_number_of_parts_counts_against_the_pair_limit():
    # One pair to find the region, and one for each part.
    assert len(limited([in_rows(0, 100)], 101, {"w": TALL})["w"].segments) == 100
    said = (
        "has 100 parts, with which this parameter takes 1 pair checks more than "
        "PlanBudget.max_pair_checks allows; answer with fewer parts, or pass "
        "limits=PlanBudget(max_pair_checks=...) with more"
    )
    with pytest.raises(InvalidReplicaPolicyError, match=re.escape(said)):
        limited([in_rows(0, 100)], 100, {"w": TALL})


@pytest.mark.parametrize("length", [2**18, 2**60])
def test_the_pair_limit_is_decided_before_a_part_is_read(length):
    # F51
    with pytest.raises(InvalidReplicaPolicyError, match=f"has {length} parts, with which"):
        limited([Unread(length)], PlanBudget().max_pair_checks, {"w": TALL})


def test_parts_of_one_parameters_regions_add_up_and_other_parameters_count_for_themselves():
    halves = (TALL[0], contiguous_split_map((100, 2), [50, 50], 0))
    answers = [in_rows(0, 50), in_rows(50, 100)]
    # Two pairs to find the two regions, and 100 parts.
    assert limited(answers, 102, {"w": halves})
    with pytest.raises(InvalidReplicaPolicyError, match=r"region at \(50, 0\) .* takes 1 pair"):
        limited(answers, 101, {"w": halves})
    assert limited(answers * 2, 102, {"a": halves, "b": halves})


def test_what_no_answer_could_keep_within_the_limit_is_refused_before_the_policy_is_asked():
    # Two pairs to find the two regions, and at least one for each of them.
    pair, limits = (COPIES, contiguous_split_map((4, 2), [2, 2], 0)), PlanBudget(max_pair_checks=3)
    said = "parameter 'w': planning takes 4 or more of what PlanBudget.max_pair_checks limits to 3"
    with pytest.raises(PlanLimitError, match=said):
        plan_transfers({"w": pair}, limits=limits, replica_policy=pytest.fail)


def test_a_bad_answer_is_refused_before_any_segment_is_made(monkeypatch):
    monkeypatch.setattr(replicas, "finish_plan", lambda *_: pytest.fail("a plan was made"))
    pair = (COPIES, WHOLE)
    with pytest.raises(InvalidReplicaPolicyError, match="of parameter 'b' that"):
        plan_transfers({"a": pair, "b": pair}, replica_policy=lambda requests: [0, 7])


def test_an_answer_that_changes_afterwards_changes_no_plan():
    origin, parts = [0, 0], []
    parts += [ReplicaPart(0, origin, [2, 2]), part(1, 2, 2)]
    answers = [parts, 1]

    class Spoils(Sequence):
        """The answer to the second request; when it is read, the first is no longer right."""

        def __len__(self):
            parts.clear()
            origin[0] = 99
            return 1

        def __getitem__(self, index):
            return [part(1, 0, 4)][index]

    answers[1] = Spoils()
    pair = (COPIES, WHOLE)
    plans = plan_transfers({"a": pair, "b": pair}, replica_policy=lambda requests: answers)
    assert list(plans["a"].segments) == planned([part(0, 0, 2), part(1, 2, 2)])
    assert list(plans["b"].segments) == planned(1)
