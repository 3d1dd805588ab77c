import json

import pytest
from handmade import block, plan, run

from pytest_affine.errors import AffineTransferError
from pytest_affine.plans import (
    ProcessReport,
    StagingBudget,
    TransferEndpoints,
    TransferStats,
    Volume,
)
from pytest_affine.reference.analyzer import (
    analyze_transfers,
    expected_stats,
    node_path_of,
    report_to_dict,
)

# Process 0 hands 7 elements to 1, which hands 5 to 2 and keeps 2: messages of 3, 3, 1 and 3, 2.
HANDOFF = plan(run((0, 0), (0, 0), 7), run((1, 0), (1, 0), 5), run((1, 5), (0, 7), 2))
ENDPOINTS = TransferEndpoints({0: 0, 1: 1}, {0: 1, 1: 2})


def analyzed(plans=None, endpoints=ENDPOINTS, *, element_size=4, budget=12, **options):
    return analyze_transfers(
        {"w": HANDOFF} if plans is None else plans,
        endpoints,
        element_size=element_size,
        budget=StagingBudget(budget),
        **options,
    )


def own(**fields):
    return ProcessReport(**{**dict.fromkeys(ProcessReport.__slots__, 0), **fields})


def test_the_batch_is_counted():
    report = analyzed()
    assert (report.num_segments, report.num_chunks, report.num_rounds) == (3, 6, 3)
    assert report.volume == Volume(
        local_elements=2, remote_elements=12, local_bytes=8, remote_bytes=48
    )
    assert report.segment_sizes == {8: 1, 20: 1, 28: 1}
    assert report.message_sizes == {4: 1, 8: 1, 12: 3}
    assert report.pairs == {(0, 1): (28, 3), (1, 2): (20, 2)}
    assert report.process_numbering == "transport group ranks"


def test_sizes_and_pairs_are_in_ascending_order():
    swapped = TransferEndpoints({0: 1, 1: 0}, {0: 0, 1: 2})
    report = analyzed(endpoints=swapped)
    assert list(report.pairs) == [(0, 2), (1, 0)]
    assert list(report.segment_sizes) == [8, 20, 28]
    assert list(report.message_sizes) == [4, 8, 12]


def test_every_process_has_its_own_rounds_also_a_receiver():
    assert analyzed().processes == {
        0: own(sent_bytes=28, num_peers=1, num_sent_messages=3, num_rounds=3),
        1: own(
            sent_bytes=20,
            received_bytes=28,
            local_copy_bytes=8,
            num_peers=2,
            num_sent_messages=2,
            num_received_messages=3,
            num_rounds=3,
        ),
        2: own(received_bytes=20, num_peers=1, num_received_messages=2, num_rounds=2),
    }


def test_a_peer_in_both_directions_is_one_peer():
    both = plan(run((0, 0), (0, 0), 1), run((1, 0), (1, 0), 1))
    report = analyzed({"w": both}, TransferEndpoints({0: 0, 1: 1}, {0: 1, 1: 0}))
    assert [process.num_peers for process in report.processes.values()] == [1, 1]


def test_local_bytes_are_in_their_path_and_are_no_message():
    assert analyzed().paths == {"local": (8, 0), "remote": (48, 5)}


def test_a_path_without_bytes_is_left_out():
    report = analyzed({"w": plan(run((0, 0), (0, 0), 1))})
    assert report.paths == {"remote": (4, 1)}


def test_pairs_add_up_on_their_path():
    labels = {(0, 1): "fast", (1, 1): "fast", (1, 2): "slow"}
    report = analyzed(path_of=lambda *pair: labels[pair])
    assert report.paths == {"fast": (36, 3), "slow": (20, 2)}


def test_nodes_tell_apart_three_paths():
    for nodes in (["a", "a", "b"], {0: "a", 1: "a", 2: "b"}):
        path_of = node_path_of(nodes)
        assert [path_of(2, 2), path_of(0, 1), path_of(1, 2)] == [
            "local",
            "intra_node",
            "inter_node",
        ]
        assert analyzed(path_of=path_of).paths == {
            "intra_node": (28, 3),
            "local": (8, 0),
            "inter_node": (20, 2),
        }


def test_a_process_without_node_is_refused():
    message = r"no node is given for process 2; those given: \[0, 1\]"
    with pytest.raises(AffineTransferError, match=message):
        analyzed(path_of=node_path_of(["a", "b"]))


def test_a_path_that_is_no_string_is_refused():
    with pytest.raises(AffineTransferError, match=r"path_of\(0, 1\) must be a string, got 7"):
        analyzed(path_of=lambda sender, receiver: 7)


@pytest.mark.parametrize(
    ("budget", "sender", "receiver"),
    [
        # Two rows of the block at a time leave directly and are staged where they land.
        (40, (0, 0), (128, 32)),
        (256, (192, 192), (192, 192)),
    ],
)
def test_packing_and_arenas_are_those_of_the_staged_messages(budget, sender, receiver):
    staged = plan(block((0, 0, (4, 1)), (0, 0, (1, 8)), (8, 4)), run((0, 0), (0, 32), 16))
    report = analyzed({"w": staged}, TransferEndpoints({0: 0}, {0: 1}), budget=budget)
    first, second = report.processes.values()
    assert (first.pack_bytes, first.staging_bytes, first.unpack_bytes) == (*sender, 0)
    assert (second.unpack_bytes, second.staging_bytes, second.pack_bytes) == (*receiver, 0)


def test_arenas_of_all_peers_and_directions_are_added():
    twisted = [block((p, 0, (1, 2)), (p, 0, (1, 2)), (2, 2)) for p in range(3)]
    endpoints = TransferEndpoints({0: 0, 1: 0, 2: 1}, {0: 1, 1: 2, 2: 0})
    report = analyzed({"w": plan(*twisted)}, endpoints, element_size=2, budget=8)
    assert [process.staging_bytes for process in report.processes.values()] == [24, 16, 8]


def test_a_chunk_that_joins_a_message_is_none_itself():
    # 2 elements and 2 of 3 rows, then the last row; all of it is staged where it lands.
    joined = plan(run((0, 0), (0, 0), 2), block((0, 2, (3, 1)), (0, 2, (1, 3)), (3, 3)))
    report = analyzed({"w": joined}, TransferEndpoints({0: 0}, {0: 1}), element_size=1, budget=8)
    assert report.message_sizes == {3: 1, 8: 1}
    assert report.num_chunks == 3


def test_very_many_chunks_are_counted_without_making_them():
    # Rows of 3 are cut into 2 and 1, which is too much for one message; the last 1 has company.
    rows = block((0, 0, (3, 1)), (0, 0, (3, 1)), (2**60, 3))
    many = plan(rows, run((0, 3 * 2**60), (0, 3 * 2**60), 1))
    report = analyzed({"w": many}, TransferEndpoints({0: 0}, {0: 1}), element_size=1, budget=2)
    assert (report.num_chunks, report.num_rounds) == (2**61 + 1, 2**61)
    assert report.message_sizes == {1: 2**60 - 1, 2: 2**60 + 1}
    assert report.pairs == {(0, 1): (3 * 2**60 + 1, 2**61)}
    assert (report.processes[0].pack_bytes, report.processes[0].staging_bytes) == (2, 2)


def test_element_sizes_may_differ_by_parameter():
    report = analyzed({"w": HANDOFF, "v": HANDOFF}, element_size={"w": 4, "v": 2}, budget=40)
    assert report.segment_sizes == {4: 1, 8: 1, 10: 1, 14: 1, 20: 1, 28: 1}
    assert report.message_sizes == {10: 1, 14: 1, 20: 1, 28: 1}
    assert report.processes[1].local_copy_bytes == 12
    assert report.volume.elements == 28
    assert report.volume.num_bytes == 84


def test_a_plan_used_for_two_parameters_counts_twice():
    report = analyzed({"w": HANDOFF, "v": HANDOFF})
    assert (report.num_segments, report.num_chunks) == (6, 12)
    assert report.segment_sizes == {8: 2, 20: 2, 28: 2}


def test_an_empty_batch_moves_nothing():
    report = analyzed({})
    assert report.processes == {0: own(), 1: own(), 2: own()}
    assert (report.num_segments, report.num_chunks, report.num_rounds) == (0, 0, 0)
    assert report.pairs == report.paths == report.segment_sizes == report.message_sizes == {}


@pytest.mark.parametrize(
    ("process", "expected"), [(0, (3, 0, 28, 0)), (1, (3, 8, 20, 28)), (2, (2, 0, 0, 20))]
)
def test_expected_statistics_are_the_processes_and_the_batchs(process, expected):
    rounds, local, sent, received = expected
    assert expected_stats(analyzed(), process) == TransferStats(
        segments=3,
        chunks=6,
        rounds=rounds,
        local_copy_bytes=local,
        sent_bytes=sent,
        received_bytes=received,
    )


@pytest.mark.parametrize("process", [3, -1])
def test_an_unknown_process_has_no_expected_statistics(process):
    message = rf"process {process} is not in the report; those in it: \[0, 1, 2\]"
    with pytest.raises(AffineTransferError, match=message):
        expected_stats(analyzed(), process)


@pytest.mark.parametrize("process", [True, 1.0])
def test_a_process_that_is_no_integer_has_no_expected_statistics(process):
    with pytest.raises(AffineTransferError, match="process must be an integer"):
        expected_stats(analyzed(), process)


def test_what_the_schedule_refuses_is_refused():
    with pytest.raises(AffineTransferError, match=r"budget.bytes_per_peer must be 1 or more"):
        analyzed({}, budget=0)
    with pytest.raises(AffineTransferError, match=r"target locations \[1\] without an endpoint"):
        analyzed(endpoints=TransferEndpoints({0: 0, 1: 1}, {0: 1}))


def test_the_report_is_plain_json_with_schema_and_numbering():
    entry = report_to_dict(analyzed())
    assert json.loads(json.dumps(entry, allow_nan=False)) == entry
    processes = entry.pop("processes")
    assert entry == {
        "schema": 1,
        "process_numbering": "transport group ranks",
        "num_segments": 3,
        "num_chunks": 6,
        "num_rounds": 3,
        "volume": {
            "elements": 14,
            "bytes": 56,
            "local_elements": 2,
            "remote_elements": 12,
            "local_bytes": 8,
            "remote_bytes": 48,
        },
        "segment_sizes": {"8": 1, "20": 1, "28": 1},
        "message_sizes": {"4": 1, "8": 1, "12": 3},
        "pairs": {"0": {"1": [28, 3]}, "1": {"2": [20, 2]}},
        "paths": {"local": [8, 0], "remote": [48, 5]},
    }
    assert list(processes) == ["0", "1", "2"]
    assert processes["2"] == {
        "sent_bytes": 0,
        "received_bytes": 20,
        "local_copy_bytes": 0,
        "num_peers": 1,
        "num_sent_messages": 0,
        "num_received_messages": 2,
        "pack_bytes": 0,
        "unpack_bytes": 0,
        "staging_bytes": 0,
        "num_rounds": 2,
    }
