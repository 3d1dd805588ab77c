from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from pytest_affine.plans import ReplicaPart, ReplicaRequest
from pytest_affine.reference.balancing import balanced_split
from pytest_affine.reference.policies import first_holder, local_first_least_loaded, per_request


def request(holders, num_rows=10, *, to=None, on=None, row_bytes=1, first_row=0):
    """Rows of a matrix with `row_bytes` columns, 1 byte an element.

    The target is on process `to`, the holders on the processes `on`.
    """
    return ReplicaRequest(
        parameter="w",
        target_location=0,
        logical_origin=(first_row, 0),
        shape=(num_rows, row_bytes),
        holders=holders,
        element_size=1,
        num_bytes=num_rows * row_bytes,
        target_process=to,
        holder_processes=on,
    )


def scalar(holders, num_bytes):
    return ReplicaRequest(
        parameter="w",
        target_location=0,
        logical_origin=(),
        shape=(),
        holders=holders,
        element_size=num_bytes,
        num_bytes=num_bytes,
    )


def part(location, first_row, num_rows, row_bytes=1):
    return ReplicaPart(location, (first_row, 0), (num_rows, row_bytes))


def test_the_first_holder_is_the_lowest_location():
    assert first_holder((request((2, 5)), request((1,)))) == (2, 1)


def test_a_selector_is_asked_where_there_is_a_choice_and_in_order():
    asked = []

    def selector(request):
        asked.append(request.num_bytes)
        return request.holders[-1]

    requests = (request((0, 1), 3), request((4,), 5), request((2, 3), 7))
    assert per_request(selector)(requests) == (1, 4, 3)
    assert asked == [3, 7]


def test_without_endpoints_each_location_is_its_own_process_and_nothing_is_local():
    # The target's location 0 is not the source's: 0 is taken once, and not because it is near.
    assert local_first_least_loaded((request((0, 1)), request((0, 1)))) == (0, 1)


def test_a_local_holder_comes_first_though_it_sends_most():
    requests = (request((3,), 99, to=1, on=(0,)), request((2, 3), to=0, on=(1, 0)))
    assert local_first_least_loaded(requests) == (3, 3)


def test_the_lowest_of_several_local_holders_is_read():
    assert local_first_least_loaded((request((1, 2, 3), to=7, on=(0, 7, 7)),)) == (2,)


def test_a_local_copy_adds_nothing_to_what_its_process_sends():
    # 0 is local to process 5, which then has sent nothing, as has process 6: a tie.
    requests = (request((0, 1), to=5, on=(5, 6)), request((0, 1), to=7, on=(5, 6)))
    assert local_first_least_loaded(requests) == (0, 0)


def test_bytes_of_a_single_holder_count_at_their_turn():
    choice, fixed = request((0, 1), 4, to=9, on=(5, 6)), request((0,), 3, to=9, on=(5,))
    assert local_first_least_loaded((fixed, choice)) == (0, 1)
    assert local_first_least_loaded((choice, fixed)) == (0, 0)


def test_the_process_with_fewest_bytes_so_far_sends_next():
    # Bytes so far: process 5 has 4; 5 has 4 and 6 has 3; 6 has 3 + 5 = 8, so 5 is next.
    requests = [request((0, 1), size, to=9, on=(5, 6)) for size in (4, 3, 5, 1)]
    assert local_first_least_loaded(requests) == (0, 1, 1, 0)


def test_bytes_are_counted_by_process_and_not_by_location():
    # Location 2 has sent nothing, but its process has.
    requests = [request(holders, to=9, on=(5, 6)) for holders in ((0, 1), (2, 3))]
    assert local_first_least_loaded(requests) == (0, 3)


def test_bytes_and_not_regions_are_counted():
    # 10 bytes against three times 2: all three small ones go to location 1.
    requests = [request((0, 1), size) for size in (10, 2, 2, 2)]
    assert local_first_least_loaded(requests) == (0, 1, 1, 1)


def test_a_region_is_split_evenly_over_its_holders():
    assert balanced_split((request((0, 1), 10),)) == ((part(0, 0, 5), part(1, 5, 5)),)


def test_a_split_makes_up_for_what_a_holder_must_send_anyway():
    # Process 0 sends 4 bytes of its own; with 10 more to share, both can end at 7.
    requests = (request((0, 1), 10, first_row=20), request((0,), 4))
    assert balanced_split(requests) == ((part(0, 20, 3), part(1, 23, 7)), 0)


def test_a_holder_that_sends_too_much_already_gets_no_part():
    requests = (request((0, 1, 2), 4), request((0,), 9))
    assert balanced_split(requests) == ((part(1, 0, 2), part(2, 2, 2)), 0)


def test_regions_are_dealt_out_whole_where_that_is_even():
    requests = [request((0, 1), 4)] * 4
    # The default is as even, 0, 1, 0, 1, and so it is kept.
    assert balanced_split(requests) == (0, 1, 0, 1)


def test_only_the_region_in_which_a_share_ends_is_split():
    # 18 bytes, 9 each: the first two and half of the third.
    requests = [request((0, 1), size) for size in (4, 4, 2, 4, 4)]
    assert local_first_least_loaded(requests) == (0, 1, 0, 1, 0)
    assert balanced_split(requests) == (0, 0, (part(0, 0, 1), part(1, 1, 1)), 1, 1)


def test_groups_that_share_a_process_are_poured_until_they_are_even():
    # 12 bytes on 0 or 1, and 12 on 1 or 2: 8 bytes each, so that 1 gets 4 of both.
    requests = (request((0, 1), 12), request((1, 2), 12))
    assert balanced_split(requests) == (
        (part(0, 0, 8), part(1, 8, 4)),
        (part(1, 0, 4), part(2, 4, 8)),
    )


def test_pouring_goes_on_until_nothing_changes():
    # 5 bytes on 0 or 2, and 6 on 0 or 1. Shares of 0 and 2, then of 0 and 1, each time round:
    # 3 2, 1 5; 2 3, 2 4; 1 4, 2 4; and so they stay. Rows of the second have 3 bytes.
    requests = (request((0, 2), 5), request((0, 1), 2, row_bytes=3))
    assert balanced_split(requests) == (
        (part(0, 0, 1), part(2, 1, 4)),
        (part(0, 0, 1, 3), part(1, 1, 1, 3)),
    )


def test_a_group_that_is_poured_again_does_not_weigh_on_itself():
    # Round 1 puts the two bytes on 0 and 1, and then comes the byte that only 0 can send.
    requests = (request((0, 1, 2), 2), request((0,), 1))
    assert balanced_split(requests) == ((part(1, 0, 1), part(2, 1, 1)), 0)


def test_a_share_that_ends_inside_a_row_is_rounded_to_the_nearest():
    # 9 bytes: 4 for location 0, which must send 1 anyway, and 5 for location 1; 3 of 0's are 1.5
    # rows, for which 2 rows make 5 and 4, and 1 row would make 3 and 6.
    requests = (request((0,), 1), request((0, 1), 4, row_bytes=2))
    assert balanced_split(requests) == (0, (part(0, 0, 2, 2), part(1, 2, 2, 2)))


def test_what_rounding_keeps_from_one_process_is_left_to_the_next():
    # Shares: 1 byte each on 0 and 1, then 1, 1 and 2 on all three. The first region, a row of 2
    # bytes, goes to 0 whole. No row of the second is as near as none to the 1 byte of 0, which
    # then is left to 1: a row of 2.
    requests = (request((0, 1), 1, row_bytes=2), request((0, 1, 2), 2, row_bytes=2))
    assert balanced_split(requests) == (0, (part(1, 0, 1, 2), part(2, 1, 1, 2)))


def test_a_part_smaller_than_asked_is_not_made():
    requests = (request((0, 1), 10), request((0,), 6))
    # 8 bytes each would be 2 rows of the first at location 0, and 8 at location 1.
    assert balanced_split(requests) == ((part(0, 0, 2), part(1, 2, 8)), 0)
    at_least_3 = partial(balanced_split, min_part_bytes=3)
    assert at_least_3(requests) == ((part(0, 0, 3), part(1, 3, 7)), 0)
    assert partial(balanced_split, min_part_bytes=6)(requests) == (1, 0)


def test_a_region_without_axes_is_not_split():
    assert balanced_split((scalar((0, 1), 8), scalar((0, 1), 8))) == (0, 1)


def test_a_local_region_is_neither_split_nor_counted():
    requests = (request((0, 1), to=5, on=(5, 6)), request((0, 1), 2, to=7, on=(5, 6)))
    assert balanced_split(requests) == (0, (part(0, 0, 1), part(1, 1, 1)))
    # Nor does it hide that a split is better elsewhere.
    requests = (request((3,), 99, to=7, on=(7,)), request((0, 1), 2, to=9, on=(5, 6)))
    assert balanced_split(requests) == (3, (part(0, 0, 1), part(1, 1, 1)))


def test_of_two_holders_on_one_process_the_lower_is_read():
    (answer,) = balanced_split((request((0, 1, 2), 4, to=9, on=(6, 6, 5)),))
    assert answer == (part(2, 0, 2), part(0, 2, 2))


def test_a_batch_without_requests_has_no_answers():
    for policy in (first_holder, local_first_least_loaded, per_request(min), balanced_split):
        assert policy(()) == ()


def busiest_bytes(requests, answers):
    """The most bytes that one process sends to others, one part at a time."""
    sent = {}
    for asked, answer in zip(requests, answers, strict=True):
        rows = {answer: asked.shape[0]} if isinstance(answer, int) else {}
        if not isinstance(answer, int):
            for each in answer:
                rows[each.source_location] = rows.get(each.source_location, 0) + each.shape[0]
        for location, num_rows in rows.items():
            process = location
            if asked.holder_processes is not None:
                process = asked.holder_processes[asked.holders.index(location)]
            if process != asked.target_process:
                num_bytes = num_rows * asked.num_bytes // asked.shape[0]
                sent[process] = sent.get(process, 0) + num_bytes
    return max(sent.values(), default=0)


@st.composite
def batches(draw):
    """Requests of up to 6 source locations, on up to 4 processes or without endpoints."""
    on = draw(st.one_of(st.none(), st.lists(st.integers(0, 3), min_size=6, max_size=6)))
    requests = []
    for _ in range(draw(st.integers(0, 8))):
        holders = tuple(sorted(draw(st.sets(st.integers(0, 5), min_size=1))))
        requests.append(
            request(
                holders,
                draw(st.integers(1, 12)),
                row_bytes=draw(st.integers(1, 5)),
                to=None if on is None else draw(st.integers(0, 4)),
                on=None if on is None else tuple(on[holder] for holder in holders),
            )
        )
    return tuple(requests)


@given(batches(), st.integers(0, 20))
def test_splitting_is_never_worse_than_the_default_and_keeps_to_its_least_part(requests, least):
    answers = balanced_split(requests, min_part_bytes=least)
    usual = local_first_least_loaded(requests)
    assert busiest_bytes(requests, answers) <= busiest_bytes(requests, usual)
    assert answers == balanced_split(requests, min_part_bytes=least)
    for asked, answer in zip(requests, answers, strict=True):
        if not isinstance(answer, int):
            sizes = [each.shape[0] * each.shape[1] for each in answer]
            assert len(sizes) > 1
            assert min(sizes) >= max(least, 1)
            assert sum(sizes) == asked.num_bytes


@given(batches())
def test_splitting_ends_within_a_row_per_group_of_the_least_possible_maximum(requests):
    # No set of processes can send less than all that only it holds.
    remote = [r for r in requests if r.target_process not in (r.holder_processes or ())]
    held_by = [frozenset(r.holder_processes or r.holders) for r in remote]
    senders = frozenset().union(*held_by)
    bound = max(
        (
            -(
                -sum(r.num_bytes for r, on in zip(remote, held_by, strict=True) if on <= some)
                // len(some)
            )
            for some in subsets(senders)
        ),
        default=0,
    )
    slack = 5 * (1 + len(set(held_by)))
    assert busiest_bytes(requests, balanced_split(requests)) <= bound + slack


def subsets(values):
    """Every set of these values but the empty one."""
    found = [frozenset()]
    for value in sorted(values):
        found += [some | {value} for some in found]
    return found[1:]
