import inspect
from dataclasses import asdict

import pytest
import torch
import torch.distributed as dist
from handmade import block, plan, run
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_affine.errors import TransferRefusedError
from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferStats
from pytest_affine.ranks import RankPool
from pytest_affine.reference import executor
from pytest_affine.reference.analyzer import analyze_transfers, expected_stats
from pytest_affine.reference.executor import execute_transfers

POISON = -7.0


@pytest.fixture(scope="module")
def ranks():
    with RankPool(4) as pool:
        yield pool


def held(values, bound, process, dtype=torch.float32):
    """The buffers of one process: of {parameter: {location: list}} what is bound to it."""
    return {
        name: {
            location: torch.tensor(shard, dtype=dtype)
            for location, shard in shards.items()
            if dict(bound)[location] == process
        }
        for name, shards in values.items()
    }


def poisoned(plans, bound, process, dtype=torch.float32):
    return {
        name: {
            location: torch.full((size,), POISON, dtype=dtype)
            for location, size in each.target_sizes
            if dict(bound)[location] == process
        }
        for name, each in plans.items()
    }


def lists(buffers):
    return {
        (name, location): tensor.tolist()
        for name, shards in buffers.items()
        for location, tensor in shards.items()
    }


def moved(plans, sources, endpoints, members=None, budget=2**20):
    """On every rank: run the batch; return {(parameter, target location): values} and statistics.

    `members` are the global ranks of the transport group, in its order.
    """
    options = {"sort_ranks": False} if members != sorted(members or []) else {}
    group = members and dist.new_group(members, **options)
    if members and dist.get_rank() not in members:
        return None
    process = dist.get_rank(group)
    targets = poisoned(plans, endpoints.target, process)
    stats = execute_transfers(
        plans,
        held(sources, endpoints.source, process),
        targets,
        endpoints,
        dtype=torch.float32,
        budget=StagingBudget(budget),
        group=group,
    )
    return lists(targets), stats


def targets_of(outcomes):
    """What all ranks hold in the end, by parameter and target location."""
    return {key: values for targets, _ in outcomes for key, values in targets.items()}


SHIFT = plan(
    run((0, 0), (0, 0), 2),
    run((1, 0), (0, 2), 1),
    run((1, 1), (1, 0), 1),
    source_sizes={0: 2, 1: 2},
    target_sizes={0: 3, 1: 1},
)
SHIFT_ENDPOINTS = TransferEndpoints({0: 0, 1: 1}, {0: 0, 1: 1})
SHIFT_SOURCES = {"w": {0: [10.0, 11.0], 1: [12.0, 13.0]}}
SHIFT_TARGETS = {("w", 0): [10.0, 11.0, 12.0], ("w", 1): [13.0]}


def test_what_stays_is_copied_and_what_moves_is_sent_with_its_statistics(ranks):
    outcomes = ranks.run(moved, {"w": SHIFT}, SHIFT_SOURCES, SHIFT_ENDPOINTS)
    assert targets_of(outcomes) == SHIFT_TARGETS
    none = {"local_copy_bytes": 0, "sent_bytes": 0, "received_bytes": 0}
    assert [asdict(own) for _, own in outcomes] == [
        {"segments": 3, "chunks": 3, "rounds": rounds, **none, **own}
        for rounds, own in (
            (1, {"local_copy_bytes": 8, "received_bytes": 4}),
            (1, {"local_copy_bytes": 4, "sent_bytes": 4}),
            (0, {}),
            (0, {}),
        )
    ]


def test_an_idle_holder_takes_part(ranks):
    one_read = plan(run((0, 0), (2, 0), 2), source_sizes={0: 2, 1: 2}, target_sizes={2: 2})
    endpoints = TransferEndpoints({0: 0, 1: 1}, {2: 2})
    outcomes = ranks.run(moved, {"w": one_read}, {"w": {0: [1.0, 2.0], 1: [1.0, 2.0]}}, endpoints)
    assert targets_of(outcomes) == {("w", 2): [1.0, 2.0]}


@pytest.mark.parametrize("budget", [4, 8, 12, 64])
@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        (block((0, 1, (4, 1)), (0, 0, (2, 1)), (2, 2)), [1.0, 2.0, 5.0, 6.0]),
        (block((0, 1, (1, 4)), (0, 0, (2, 1)), (2, 2)), [1.0, 5.0, 2.0, 6.0]),
        (block((0, 1, (4, 1)), (0, 0, (1, 2)), (2, 2)), [1.0, 5.0, 2.0, 6.0]),
    ],
)
def test_strided_blocks_arrive_in_order_under_every_budget(ranks, segment, expected, budget):
    plans = {"w": plan(segment, source_sizes={0: 8}, target_sizes={0: 4})}
    sources = {"w": {0: [float(value) for value in range(8)]}}
    endpoints = TransferEndpoints({0: 0}, {0: 1})
    assert targets_of(ranks.run(moved, plans, sources, endpoints, budget=budget)) == {
        ("w", 0): expected
    }


UNSORTED = pytest.mark.skipif(
    "sort_ranks" not in inspect.signature(dist.new_group).parameters,
    reason="this torch sorts the ranks of every group",
)


@pytest.mark.parametrize(
    "members",
    [[1, 3], pytest.param([3, 1], marks=UNSORTED), pytest.param([2, 0, 3], marks=UNSORTED)],
)
def test_processes_are_ranks_of_the_group_in_its_own_order(ranks, members):
    pair = plan(run((0, 0), (0, 0), 2), source_sizes={0: 2}, target_sizes={0: 2})
    endpoints = TransferEndpoints({0: 0}, {0: 1})
    outcomes = ranks.run(moved, {"w": pair}, {"w": {0: [1.0, 2.0]}}, endpoints, members)
    assert outcomes[members[1]][0] == {("w", 0): [1.0, 2.0]}
    assert outcomes[members[0]][0] == {("w", 0): []} or outcomes[members[0]][0] == {}


@pytest.mark.parametrize(
    ("accelerator", "backends", "device"),
    [
        (None, "cpu:gloo", "cpu"),
        ("meta", "cpu:gloo", "cpu"),
        ("meta", "cpu:gloo,meta:gloo", "cpu"),
        ("meta", "cpu:gloo,meta:nccl", "meta"),
        ("meta", "meta:nccl", "meta"),
    ],
)
def test_a_group_moves_what_is_on_its_accelerator(monkeypatch, accelerator, backends, device):
    # The meta device plays the accelerator.
    found = accelerator and torch.device(accelerator)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: found is not None)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: found)
    monkeypatch.setattr(dist, "get_backend_config", lambda group: backends)
    assert executor._device(None) == torch.device(device)


def called_outside_its_group():
    group = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        return None
    with pytest.raises(TransferRefusedError) as refusal:
        execute_transfers({}, {}, {}, TransferEndpoints({}, {}), dtype=torch.int8, group=group)
    return str(refusal.value)


def test_a_process_outside_the_group_is_refused(ranks):
    message = "this process is no rank of the group, so it takes no part"
    assert ranks.run(called_outside_its_group) == [None, None, message, message]


def test_empty_shards_are_neither_sent_nor_awaited(ranks):
    filled = plan(run((0, 0), (1, 0), 1), source_sizes={0: 1, 1: 0}, target_sizes={0: 0, 1: 1})
    empty = plan(
        block((0, 0, (1,)), (1, 0, (1,)), (0,)),
        source_sizes={0: 0, 1: 0},
        target_sizes={0: 0, 1: 0},
    )
    sources = {"w": {0: [5.0], 1: []}, "v": {}}
    outcomes = ranks.run(moved, {"v": empty, "w": filled}, sources, SHIFT_ENDPOINTS)
    assert targets_of(outcomes)["w", 1] == [5.0]
    assert [own.rounds for _, own in outcomes] == [1, 1, 0, 0]


RING = plan(
    *(run((p, 0), ((p + 1) % 4, 1), 2) for p in range(4)),
    *(run((p, 2), (p, 0), 1) for p in range(4)),
    source_sizes=dict.fromkeys(range(4), 3),
    target_sizes=dict.fromkeys(range(4), 3),
)
RING_ENDPOINTS = TransferEndpoints({p: 3 - p for p in range(4)}, {p: (p + 1) % 4 for p in range(4)})


def test_all_processes_send_and_receive_at_once_under_permuted_bindings(ranks):
    sources = {"w": {p: [10.0 * p, 10.0 * p + 1, 10.0 * p + 2] for p in range(4)}}
    outcomes = ranks.run(moved, {"w": RING}, sources, RING_ENDPOINTS, budget=4)
    assert targets_of(outcomes) == {
        ("w", 0): [2.0, 30.0, 31.0],
        ("w", 1): [12.0, 0.0, 1.0],
        ("w", 2): [22.0, 10.0, 11.0],
        ("w", 3): [32.0, 20.0, 21.0],
    }


def test_many_locations_on_one_process_need_no_message(ranks):
    endpoints = TransferEndpoints(dict.fromkeys(range(4), 2), dict.fromkeys(range(4), 2))
    sources = {"w": {p: [10.0 * p, 10.0 * p + 1, 10.0 * p + 2] for p in range(4)}}
    outcomes = ranks.run(moved, {"w": RING}, sources, endpoints)
    assert targets_of(outcomes)["w", 0] == [2.0, 30.0, 31.0]
    assert outcomes[2][1] == TransferStats(
        segments=8, chunks=8, rounds=0, local_copy_bytes=48, sent_bytes=0, received_bytes=0
    )


DTYPES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "complex128",
]


def bits_moved(name, budget):
    """Every bit of a random pattern, sent in strided blocks, and back again in one call."""
    dtype = getattr(torch, name)
    pattern = torch.randint(0, 256, (8 * dtype.itemsize,), dtype=torch.uint8)
    if dtype == torch.bool:
        pattern %= 2
    dist.broadcast(pattern, 0)
    there = block((0, 0, (4, 1)), (0, 0, (1, 2)), (2, 4))
    back = block((0, 0, (4, 1)), (1, 0, (4, 1)), (2, 4))
    source, target = pattern.view(dtype), torch.zeros(8, dtype=dtype)
    process = dist.get_rank()
    execute_transfers(
        {"w": plan(there, back)},
        {"w": {0: source} if process == 0 else {}},
        {"w": {process: target} if process < 2 else {}},
        TransferEndpoints({0: 0}, {0: 1 - 1, 1: 1}),
        dtype=dtype,
        budget=StagingBudget(budget),
    )
    got = target.view(torch.uint8).view(8, dtype.itemsize)
    rows = pattern.view(8, dtype.itemsize)
    expected = {0: rows.view(2, 4, -1).transpose(0, 1).reshape(8, -1), 1: rows}
    return process > 1 or torch.equal(got, expected[process])


@pytest.mark.parametrize("budget", [16, 2**20])
@pytest.mark.parametrize("name", DTYPES)
def test_every_bit_of_every_dtype_arrives(ranks, name, budget):
    assert ranks.run(bits_moved, name, budget) == [True] * 4


def mixed_dtypes():
    dtypes = {"a": torch.bfloat16, "b": torch.float16, "c": torch.int64, "d": torch.bfloat16}
    process = dist.get_rank()
    sent_and_kept = plan(run((0, 0), (1, 1), 2), run((0, 2), (1, 0), 1), run((0, 1), (0, 0), 1))
    source = {n: {0: torch.tensor([1, 2, 3]).to(dtypes[n])} for n in dtypes} if process == 0 else {}
    target = {n: {process: torch.zeros(3, dtype=dtypes[n])} for n in dtypes} if process < 2 else {}
    stats = execute_transfers(
        dict.fromkeys(dtypes, sent_and_kept),
        source,
        target,
        TransferEndpoints({0: 0}, {0: 0, 1: 1}),
        dtype=dtypes,
    )
    return lists(target), stats.local_copy_bytes, stats.sent_bytes, stats.rounds


def test_parameters_of_different_dtypes_share_a_run(ranks):
    first, second, *_ = ranks.run(mixed_dtypes)
    assert first[0] == {(name, 0): [2.0, 0.0, 0.0] for name in "abcd"}
    assert second[0] == {(name, 1): [3.0, 1.0, 2.0] for name in "abcd"}
    assert first[1:] == (2 + 2 + 8 + 2, 3 * (2 + 2 + 8 + 2), 3)


GUARD = 5.0


def windows_moved(budget):
    """Shards in the middle of larger buffers; what lies around them comes back too."""
    process = dist.get_rank()
    columns = plan(
        block((0, 1, (4, 1)), (1, 0, (2, 1)), (2, 2)),
        run((0, 4), (0, 1), 1),
        source_sizes={0: 8},
        target_sizes={0: 3, 1: 4},
    )
    around = torch.full((16,), GUARD)
    source, sources, targets = around.chunk(2)[1], {}, {}
    if process == 0:
        source.copy_(torch.arange(8.0))
        sources = {"w": {0: source.view(2, 4)}}
    else:
        targets = {"w": {1: around[3:7]}} if process == 1 else {"w": {0: around[6:9]}}
    execute_transfers(
        {"w": columns},
        sources,
        targets if process < 3 else {},
        TransferEndpoints({0: 0}, {0: 2, 1: 1}),
        dtype=torch.float32,
        budget=StagingBudget(budget),
    )
    return around.tolist()


@pytest.mark.parametrize("budget", [4, 64])
def test_windows_work_and_nothing_around_them_changes(ranks, budget):
    source, first, second, _ = ranks.run(windows_moved, budget)
    assert source == [GUARD] * 8 + [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert first == [GUARD] * 3 + [1.0, 2.0, 5.0, 6.0] + [GUARD] * 9
    assert second == [GUARD] * 7 + [4.0] + [GUARD] * 8


def repeated():
    """Two plans in turn, an empty batch between them, values changed for every run."""
    process = dist.get_rank()
    seen = []
    for step in range(3):
        for plans in ({"w": SHIFT}, {}, {"w": RING}):
            endpoints = RING_ENDPOINTS if plans.get("w") == RING else SHIFT_ENDPOINTS
            sizes = dict(plans["w"].source_sizes) if plans else {}
            values = {p: [100.0 * step + 10 * p + i for i in range(n)] for p, n in sizes.items()}
            sources = held({"w": values} if plans else {}, endpoints.source, process)
            targets = poisoned(plans, endpoints.target, process)
            execute_transfers(plans, sources, targets, endpoints, dtype=torch.float32)
            seen.append(lists(targets))
    return seen


def test_runs_can_be_repeated_and_alternated(ranks):
    outcomes = ranks.run(repeated)
    for step in range(3):
        base = 100.0 * step
        shift = {k: v for seen in outcomes for k, v in seen[3 * step].items()}
        assert shift == {("w", 0): [base, base + 1, base + 10], ("w", 1): [base + 11]}
        assert [seen[3 * step + 1] for seen in outcomes] == [{}] * 4
        ring = {k: v for seen in outcomes for k, v in seen[3 * step + 2].items()}
        assert ring["w", 1] == [base + 12, base, base + 1]


def seen_on_the_wire(plans, sources, endpoints, budget):
    """Every batch that this rank posted, as (operation, peer, bytes), and its statistics."""
    batches, batch = [], dist.batch_isend_irecv

    def post(operations):
        batches.append([(each.op.__name__, each.peer, each.tensor.nbytes) for each in operations])
        return batch(operations)

    dist.batch_isend_irecv = post
    try:
        return batches, moved(plans, sources, endpoints, budget=budget)[1]
    finally:
        dist.batch_isend_irecv = batch


def test_the_wire_and_the_statistics_are_what_the_analysis_expects(ranks):
    columns = plan(
        block((0, 0, (6, 1)), (1, 0, (2, 1)), (3, 2)),
        block((0, 2, (6, 1)), (2, 0, (1, 3)), (3, 4)),
        run((1, 0), (1, 6), 3),
        run((0, 0), (0, 0), 1),
        source_sizes={0: 18, 1: 3},
        target_sizes={0: 1, 1: 9, 2: 12},
    )
    plans = {"w": columns, "v": columns}
    endpoints = TransferEndpoints({0: 0, 1: 1}, {0: 0, 1: 1, 2: 3})
    values = {0: [float(value) for value in range(18)], 1: [1.0, 2.0, 3.0]}
    report = analyze_transfers(plans, endpoints, element_size=4, budget=StagingBudget(24))
    outcomes = ranks.run(seen_on_the_wire, plans, {"w": values, "v": values}, endpoints, 24)
    sent, received = {}, {}
    for process, (batches, stats) in enumerate(outcomes):
        assert len(batches) == stats.rounds
        if process != 2:
            assert stats == expected_stats(report, process)
        for operations in batches:
            assert operations == sorted(operations)
            for operation, peer, num_bytes in operations:
                if operation == "isend":
                    sent.setdefault((process, peer), []).append(num_bytes)
                else:
                    received.setdefault((peer, process), []).append(num_bytes)
    assert sent == received
    assert {pair: (sum(sizes), len(sizes)) for pair, sizes in sent.items()} == report.pairs
    assert set(report.pairs) == {(0, 1), (0, 3)}


class Allocations(TorchDispatchMode):
    """Adds up the bytes of every tensor that is made, views and in-place results apart."""

    def __init__(self):
        super().__init__()
        self.num_bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and not function.is_view:
            given = [each.data_ptr() for each in args if isinstance(each, torch.Tensor)]
            self.num_bytes += 0 if made.data_ptr() in given else made.nbytes
        return made


STAGED = plan(
    block((0, 0, (4, 1)), (0, 0, (1, 8)), (8, 4)),
    run((0, 0), (0, 32), 16),
    source_sizes={0: 32},
    target_sizes={0: 48},
)


def bytes_taken(budget):
    """Bytes that a run allocates beyond those of a run of the empty batch."""
    process, endpoints = dist.get_rank(), TransferEndpoints({0: 0}, {0: 1})
    taken = []
    for batch in ({}, {"w": STAGED}):
        sources = {name: {0: torch.ones(32)} for name in batch} if process == 0 else {}
        targets = poisoned(batch, endpoints.target, process) if process == 1 else {}
        with Allocations() as allocations:
            execute_transfers(
                batch,
                sources,
                targets,
                endpoints,
                dtype=torch.float32,
                budget=StagingBudget(budget),
            )
        taken.append(allocations.num_bytes)
    return taken[1] - taken[0]


def test_nothing_but_arenas_is_allocated(ranks):
    # 40 bytes: two rows of the block at a time, direct where they leave, staged where they land;
    # then 40 + 24 bytes of the run, direct on both sides. 256 bytes: both in one staged message.
    assert ranks.run(bytes_taken, 40) == [0, 32, 0, 0]
    assert ranks.run(bytes_taken, 256) == [192, 192, 0, 0]


def into_odd_tensors():
    process = dist.get_rank()
    plans = {"w": SHIFT, "v": SHIFT}
    sources = (
        held({"w": SHIFT_SOURCES["w"], "v": SHIFT_SOURCES["w"]}, SHIFT_ENDPOINTS.source, process)
        if process < 2
        else {}
    )
    targets = poisoned(plans, SHIFT_ENDPOINTS.target, process) if process < 2 else {}
    for location, tensor in targets.get("w", {}).items():
        targets["w"][location] = torch.nn.Parameter(tensor)
    with torch.inference_mode():
        for location, tensor in targets.get("v", {}).items():
            targets["v"][location] = tensor.clone()
    execute_transfers(plans, sources, targets, SHIFT_ENDPOINTS, dtype=torch.float32)
    return lists(targets)


def test_targets_may_require_gradients_or_be_inference_tensors(ranks):
    first, second, *_ = ranks.run(into_odd_tensors)
    assert first == {("w", 0): [10.0, 11.0, 12.0], ("v", 0): [10.0, 11.0, 12.0]}
    assert second == {("w", 1): [13.0], ("v", 1): [13.0]}


def refused(process, change):
    """Run the shift with one rank's arguments changed; return the error and the target after it."""
    own = dist.get_rank()
    arguments = {
        "plans": {"w": SHIFT},
        "source_buffers": held(SHIFT_SOURCES, SHIFT_ENDPOINTS.source, own) if own < 2 else {},
        "target_buffers": poisoned({"w": SHIFT}, SHIFT_ENDPOINTS.target, own) if own < 2 else {},
        "endpoints": SHIFT_ENDPOINTS,
        "dtype": torch.float32,
    }
    before = dict(arguments["target_buffers"].get("w", {}))
    if process in (own, "all"):
        change(arguments)
    try:
        execute_transfers(**arguments)
    except TransferRefusedError as error:
        return str(error), [tensor.tolist() for tensor in before.values() if not tensor.is_meta]
    return "not refused", None


def assert_refused_everywhere(ranks, process, change, *expected):
    outcomes = ranks.run(refused, process, change)
    texts = {text for text, _ in outcomes}
    assert len(texts) == 1, texts
    for part in expected:
        assert part in texts.copy().pop()
    left = [values for _, targets in outcomes for values in targets]
    assert left == [[POISON] * 3, [POISON]]
    again = ranks.run(moved, {"w": SHIFT}, SHIFT_SOURCES, SHIFT_ENDPOINTS)
    assert targets_of(again) == SHIFT_TARGETS


def source_is(make):
    """On process 1: its source buffer is what `make` makes of it."""

    def change(arguments):
        shards = arguments["source_buffers"]["w"]
        shards[1] = make(shards[1])

    return change


def target_is(make):
    def change(arguments):
        shards = arguments["target_buffers"]["w"]
        shards[1] = make(shards[1])

    return change


def freed(tensor):
    tensor = tensor.clone()
    tensor.untyped_storage().resize_(0)
    return tensor


WRONG_SOURCES = {
    "dtype": (
        lambda tensor: tensor.to(torch.bfloat16),
        "source buffer 'w'[1] has dtype torch.bfloat16, but torch.float32 is to be moved",
    ),
    "device": (
        lambda tensor: tensor.to("meta"),
        "source buffer 'w'[1] is on device meta, but the group moves what is on cpu",
    ),
    "short": (lambda tensor: tensor[:1], "source buffer 'w'[1] has 1 elements, its shard has 2"),
    "long": (
        lambda tensor: torch.zeros(3),
        "source buffer 'w'[1] has 3 elements, its shard has 2",
    ),
    "stride": (
        lambda tensor: torch.zeros(4)[::2],
        "source buffer 'w'[1] is not packed (row-major contiguous): shape (2,)",
    ),
    "transposed": (
        lambda tensor: torch.zeros(1, 2).expand(2, 2).T[:1],
        "source buffer 'w'[1] is not packed (row-major contiguous): shape (1, 2)",
    ),
    "sparse": (lambda tensor: tensor.to_sparse(), "source buffer 'w'[1] is not packed"),
    "freed": (freed, "source buffer 'w'[1] reaches beyond its storage of 0 bytes"),
    "list": (lambda tensor: [1.0, 2.0], "source buffer 'w'[1] must be a tensor, got list"),
    "none": (lambda tensor: None, "source buffer 'w'[1] is missing"),
}


@pytest.mark.parametrize(("make", "message"), WRONG_SOURCES.values(), ids=WRONG_SOURCES)
def test_a_wrong_source_on_one_rank_is_refused_on_every_rank(ranks, make, message):
    assert_refused_everywhere(
        ranks, 1, source_is(make), f"nothing was moved: process 1 refuses: {message}"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda tensor: tensor.double(), "target buffer 'w'[1] has dtype torch.float64"),
        (lambda tensor: tensor.to("meta"), "target buffer 'w'[1] is on device meta"),
        (lambda tensor: torch.zeros(2), "target buffer 'w'[1] has 2 elements, its shard has 1"),
        (lambda tensor: torch.zeros(0), "target buffer 'w'[1] has 0 elements, its shard has 1"),
    ],
)
def test_a_wrong_target_on_one_rank_is_refused_on_every_rank(ranks, make, message):
    assert_refused_everywhere(ranks, 1, target_is(make), f"process 1 refuses: {message}")


def test_a_missing_buffer_is_refused(ranks):
    def change(arguments):
        del arguments["target_buffers"]["w"]

    assert_refused_everywhere(
        ranks, 0, change, "process 0 refuses: target buffer 'w'[0] is missing"
    )


def test_a_buffer_for_a_location_of_another_process_is_refused(ranks):
    def change(arguments):
        arguments["source_buffers"]["w"][0] = torch.zeros(2)

    assert_refused_everywhere(
        ranks, 1, change, "source buffer 'w'[0] belongs to process 0, this is process 1"
    )


def test_a_buffer_for_an_unknown_location_is_refused(ranks):
    def change(arguments):
        arguments["source_buffers"]["w"][5] = torch.zeros(2)

    assert_refused_everywhere(ranks, 1, change, "source buffers name 'w'[5]; its locations: [0, 1]")


def test_a_buffer_for_an_unknown_parameter_is_refused_on_an_idle_rank_too(ranks):
    def change(arguments):
        arguments["target_buffers"]["v"] = {}

    message = "process 3 refuses: target buffers name 'v', which no plan has: ['w']"
    assert_refused_everywhere(ranks, 3, change, message)


def overlapping_target(arguments):
    memory = torch.full((4,), POISON)
    arguments["source_buffers"]["w"][0] = memory[:2]
    arguments["target_buffers"]["w"][0] = memory[1:]


def test_a_target_that_overlaps_a_source_in_memory_is_refused(ranks):
    message = "target buffer 'w'[0] overlaps source buffer 'w'[0] in memory"
    assert_refused_everywhere(ranks, 0, overlapping_target, message)


def overlapping_source(arguments):
    memory = torch.full((4,), POISON)
    arguments["source_buffers"]["w"][0] = memory[2:]
    arguments["target_buffers"]["w"][0] = memory[:3]


def test_a_source_that_overlaps_a_target_in_memory_is_refused(ranks):
    message = "source buffer 'w'[0] overlaps target buffer 'w'[0] in memory"
    assert_refused_everywhere(ranks, 0, overlapping_source, message)


def aliased():
    """Process 0 holds everything; returns what targets and sources in one memory give."""
    twice = plan(run((0, 0), (0, 0), 2), run((1, 0), (1, 0), 2))
    endpoints = TransferEndpoints({0: 0, 1: 0}, {0: 0, 1: 0})
    memory, seen = torch.zeros(8), []
    for sources, targets in (
        ((memory[:2], memory[:2]), (memory[2:4], memory[4:6])),
        ((memory[:2], memory[6:]), (memory[2:5], memory[4:6])),
        ((memory[:2], memory[6:]), (memory[2:4], memory[2:4])),
        ((memory[:8], memory[:8]), (torch.zeros(2), memory[4:6])),
    ):
        buffers = [
            {"w": dict(enumerate(each))} if dist.get_rank() == 0 else {}
            for each in (sources, targets)
        ]
        try:
            execute_transfers({"w": twice}, *buffers, endpoints, dtype=torch.float32)
            seen.append("moved")
        except TransferRefusedError as error:
            seen.append(str(error).removeprefix("nothing was moved: process 0 refuses: "))
    return seen


def test_targets_overlap_nothing_but_sources_may_share_memory(ranks):
    assert (
        ranks.run(aliased)
        == [
            [
                "moved",
                "target buffer 'w'[1] overlaps target buffer 'w'[0] in memory",
                "target buffer 'w'[1] overlaps target buffer 'w'[0] in memory",
                "target buffer 'w'[1] overlaps source buffer 'w'[1] in memory",
            ]
        ]
        * 4
    )


def unsized(source_length, target_length):
    """A plan without sizes; target location 1 is bound and named by no segment."""
    bare = plan(block((0, 1, (2,)), (0, 3, (1,)), (2,)))
    endpoints = TransferEndpoints({0: 0}, {0: 1, 1: 1})
    process = dist.get_rank()
    source = {"w": {0: torch.arange(float(source_length))}} if process == 0 else {}
    target = {"w": {0: torch.zeros(target_length), 1: torch.zeros(9)}} if process == 1 else {}
    try:
        execute_transfers({"w": bare}, source, target, endpoints, dtype=torch.float32)
    except TransferRefusedError as error:
        return str(error)
    return lists(target)


def test_a_plan_without_sizes_takes_buffers_that_its_segments_fit_into(ranks):
    assert ranks.run(unsized, 4, 6)[1]["w", 0] == [0.0, 0.0, 0.0, 1.0, 3.0, 0.0]
    short = "process 0 refuses: source buffer 'w'[0] has 3 elements, its shard has 4"
    assert ranks.run(unsized, 3, 6) == ["nothing was moved: " + short] * 4
    short = "process 1 refuses: target buffer 'w'[0] has 4 elements, its shard has 5"
    assert ranks.run(unsized, 4, 4) == ["nothing was moved: " + short] * 4


def test_segments_that_leave_their_shard_are_refused(ranks):
    def change(arguments):
        beyond = plan(run((0, 1), (0, 0), 2), source_sizes={0: 2, 1: 2}, target_sizes={0: 3, 1: 1})
        arguments["plans"] = {"w": beyond}

    message = "source buffer 'w'[0] has 2 elements in its plan, whose segments reach 3"
    assert_refused_everywhere(ranks, "all", change, f"process 0 refuses: {message}")


def test_a_location_that_the_sizes_leave_out_is_refused(ranks):
    def change(arguments):
        partial = plan(run((0, 0), (0, 0), 2), source_sizes={1: 2}, target_sizes={0: 3, 1: 1})
        arguments["plans"] = {"w": partial}

    message = "source buffer 'w'[0] has 0 elements in its plan, whose segments reach 2"
    assert_refused_everywhere(ranks, "all", change, message)


def test_an_unbound_location_is_refused(ranks):
    def change(arguments):
        arguments["endpoints"] = TransferEndpoints({0: 0}, {0: 0, 1: 1})

    assert_refused_everywhere(
        ranks, "all", change, "'w' has source locations [1] without an endpoint"
    )


def test_an_endpoint_outside_the_group_is_refused(ranks):
    def change(arguments):
        arguments["endpoints"] = TransferEndpoints({0: 0, 1: 1, 2: 4}, {0: 0, 1: 1})

    message = "endpoints name processes [4], but the group has 4 ranks"
    assert_refused_everywhere(ranks, "all", change, message)


def test_an_unusable_budget_is_refused_for_an_empty_batch_too(ranks):
    def change(arguments):
        arguments.update(plans={}, source_buffers={}, target_buffers={}, budget=StagingBudget(3))

    assert_refused_everywhere(ranks, "all", change, "holds no element of 4 bytes")


def test_a_dtype_that_is_none_is_refused(ranks):
    def change(arguments):
        arguments["dtype"] = "float32"

    message = "process 2 refuses: dtype must be a torch.dtype, got 'float32'"
    assert_refused_everywhere(ranks, 2, change, message)


def test_a_parameter_without_dtype_is_refused(ranks):
    def change(arguments):
        arguments["dtype"] = {"v": torch.float32}

    assert_refused_everywhere(ranks, 2, change, "process 2 refuses: dtype lacks parameters ['w']")


def test_an_unexpected_error_on_one_rank_is_a_reason_like_any_other(ranks):
    def change(arguments):
        arguments["source_buffers"] = None

    assert_refused_everywhere(ranks, 2, change, "process 2 refuses: AttributeError: 'NoneType'")


def test_a_reason_that_no_encoding_can_write_still_arrives(ranks):
    class Unreadable(dict):
        def items(self):
            raise OSError("\udcff")

    def change(arguments):
        arguments["source_buffers"] = Unreadable()

    assert_refused_everywhere(ranks, 2, change, "process 2 refuses: OSError: \\udcff")


def test_every_refusing_rank_and_reason_is_named(ranks):
    def change(arguments):
        own = dist.get_rank()
        arguments["source_buffers"] = {f"x{own}": {}} if own > 1 else arguments["source_buffers"]

    assert_refused_everywhere(
        ranks, "all", change, "process 2 refuses: source buffers name 'x2'", "; process 3 refuses: "
    )


def test_only_some_of_many_problems_are_listed(ranks):
    def change(arguments):
        arguments["source_buffers"] = {f"x{number}": {} for number in range(8)}

    last = "source buffers name 'x4', which no plan has: ['w']; and 3 more"
    assert_refused_everywhere(ranks, 2, change, last)


def other_plan(arguments):
    arguments["plans"] = {
        "w": plan(
            *SHIFT.segments[:2], source_sizes=SHIFT.source_sizes, target_sizes=SHIFT.target_sizes
        )
    }


def test_ranks_with_different_plans_are_refused_and_named(ranks):
    message = "nothing was moved: processes disagree: processes [0, 1, 3] have plan digest "
    assert_refused_everywhere(ranks, 2, other_plan, message, ", processes [2] have plan digest ")


def test_ranks_with_different_dtypes_of_one_size_are_refused(ranks):
    def change(arguments):
        arguments["dtype"] = torch.int32

    assert_refused_everywhere(
        ranks, 3, change, "and dtype torch.float32, processes [3] have plan digest ", "torch.int32"
    )


def half_and_whole():
    """A source in bfloat16 on 0 and a target in float32 on 1, each rank sure of its dtype."""
    process = dist.get_rank()
    dtype = torch.bfloat16 if process == 0 else torch.float32
    whole = plan(run((0, 0), (0, 0), 4), source_sizes={0: 4}, target_sizes={0: 4})
    source = {"w": {0: torch.ones(4, dtype=dtype)}} if process == 0 else {}
    target = {"w": {0: torch.full((4,), POISON)}} if process == 1 else {}
    try:
        execute_transfers(
            {"w": whole}, source, target, TransferEndpoints({0: 0}, {0: 1}), dtype=dtype
        )
    except TransferRefusedError as error:
        return str(error), lists(target)
    return "not refused", lists(target)


def test_a_source_and_a_target_in_different_dtypes_are_refused_on_both(ranks):
    first, second, *_ = ranks.run(half_and_whole)
    assert first[0] == second[0]
    assert "processes disagree: processes [0] have plan digest" in first[0]
    assert "dtype torch.bfloat16, processes [1, 2, 3] have" in first[0]
    assert second[1] == {("w", 0): [POISON] * 4}


def test_one_dtype_and_the_same_for_every_parameter_agree(ranks):
    def run_shift():
        own = dist.get_rank()
        targets = poisoned({"w": SHIFT}, SHIFT_ENDPOINTS.target, own) if own < 2 else {}
        execute_transfers(
            {"w": SHIFT},
            held(SHIFT_SOURCES, SHIFT_ENDPOINTS.source, own) if own < 2 else {},
            targets,
            SHIFT_ENDPOINTS,
            dtype={"w": torch.float32, "unused": torch.int8} if own % 2 else torch.float32,
        )
        return lists(targets)

    outcomes = ranks.run(run_shift)
    assert {key: values for each in outcomes for key, values in each.items()} == SHIFT_TARGETS


def test_disagreement_is_told_beside_refusals(ranks):
    def change(arguments):
        own = dist.get_rank()
        if own == 0:
            arguments["source_buffers"] = {}
        if own == 1:
            other_plan(arguments)

    assert_refused_everywhere(
        ranks,
        "all",
        change,
        "source buffer 'w'[0] is missing; processes disagree: processes [1] have plan digest",
        ", processes [2, 3] have",
    )
