"""Whole syncs by the reference: in one call, held open, and as each rank's part."""

import gc
import re
import weakref
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from pytest_affine.builders import contiguous_split_map
from pytest_affine.errors import TransferRefusedError
from pytest_affine.plans import RankPlan, StagingBudget, TransferEndpoints, TransferSegment
from pytest_affine.ranks import RankPool, tap
from pytest_affine.reference.resharding import open_sync, plan_on_rank, reshard
from pytest_affine.sync import Sync, SyncParameter

HERE = {0: 0, 1: 1}


def rows(*widths):
    return contiguous_split_map((sum(widths),), widths, 0)


def sync(source=(2, 2), target=(3, 1), dtypes=("float32", "float32"), **options):
    parameter = SyncParameter(
        name="w",
        source=rows(*source),
        target=rows(*target),
        source_dtype=dtypes[0],
        target_dtype=dtypes[1],
    )
    both = TransferEndpoints(HERE, HERE)
    return Sync(parameters=(parameter,), endpoints=both, num_processes=2, **options)


def sources(start=10.0, dtype=torch.float32):
    """Of rank 0 the elements 0 and 1, of rank 1 the elements 2 and 3, each plus `start`."""
    rank = dist.get_rank()
    return {"w": {rank: torch.arange(2 * rank, 2 * rank + 2).to(dtype) + start}}


def targets(dtype=torch.float32):
    rank = dist.get_rank()
    return {"w": {rank: torch.zeros((3, 1)[rank], dtype=dtype)}}


def values(buffers):
    (tensor,) = buffers["w"].values()
    return tensor.tolist()


@pytest.fixture(scope="module")
def ranks():
    with RankPool(2) as pool:
        yield pool


def moved_once(told):
    given = targets()
    reshard(told, sources(), given, group=dist.group.WORLD)
    return values(given)


def test_a_sync_is_moved_in_one_call(ranks):
    assert ranks.run(moved_once, sync()) == [[10.0, 11.0, 12.0], [13.0]]


def cast(source, target, told):
    given = targets(target)
    reshard(told, sources(0.1, source), given, group=dist.group.WORLD)
    return [str(given["w"][dist.get_rank()].dtype), values(given)]


@pytest.mark.parametrize(
    ("source", "target"),
    [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)],
)
def test_elements_are_cast_at_their_sender_at_their_receiver_and_where_they_stay(
    ranks, source, target
):
    names = tuple(str(dtype).removeprefix("torch.") for dtype in (source, target))
    full = ((torch.arange(4).to(source) + 0.1).to(target)).tolist()
    assert ranks.run(cast, source, target, sync(dtypes=names)) == [
        [f"torch.{names[1]}", full[:3]],
        [f"torch.{names[1]}", full[3:]],
    ]


def cast_stats(source, target, told):
    handle = open_sync(told, sources(0, source), targets(target), group=dist.group.WORLD)
    stats = handle.run()
    return stats.local_copy_bytes, stats.sent_bytes, stats.received_bytes


@pytest.mark.parametrize(("source", "target"), [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_statistics_of_casts_count_the_smaller_elements(ranks, source, target):
    dtypes = getattr(torch, source), getattr(torch, target)
    stats = ranks.run(cast_stats, *dtypes, sync(dtypes=(source, target)))
    assert stats == [(4, 0, 2), (2, 2, 0)]


def refused(told, *, dtype=torch.float32, shape=None):
    """The refusal on every rank, where rank 1 has sources of another dtype or shape."""
    held = sources(dtype=dtype if dist.get_rank() else torch.float32)
    if shape and dist.get_rank():
        held["w"][1] = held["w"][1].view(shape)
    given = targets()
    with pytest.raises(TransferRefusedError) as refusal:
        reshard(told, held, given, group=dist.group.WORLD)
    assert not given["w"][dist.get_rank()].any()
    return str(refusal.value)


def test_a_shard_of_another_shape_is_refused_on_every_rank(ranks):
    assert set(ranks.run(refused, sync(), shape=(1, 2))) == {
        "nothing was moved: process 1 refuses: source buffer 'w'[1] has shape (1, 2), its map says "
        "(2,)"
    }


def test_a_buffer_of_another_dtype_than_the_syncs_is_refused_on_every_rank(ranks):
    (text,) = set(ranks.run(refused, sync(), dtype=torch.float64))
    assert "process 1 refuses: source buffer 'w'[1] has dtype torch.float64, but" in text


def test_an_unknown_dtype_is_refused_on_every_rank(ranks):
    (text,) = set(ranks.run(refused, sync(dtypes=("float32", "float33"))))
    assert "process 0 refuses: torch has no dtype called 'float33'; process 1 refuses: " in text


def test_syncs_that_cannot_be_planned_are_refused(ranks):
    (text,) = set(ranks.run(refused, sync(target=(2, 1))))
    assert "process 0 refuses: parameter 'w': source and target must be of one tensor, but" in text


def held_open(told):
    """What the targets hold after each of several runs of one handle."""
    own, given = sources(), targets()
    handle = open_sync(told, own, given, group=dist.group.WORLD)
    handle.run()
    found = [values(given)]
    own["w"][dist.get_rank()] += 10
    handle.run()
    found.append(values(given))
    given["w"][dist.get_rank()] = given["w"][dist.get_rank()].clone().zero_()
    handle.run()  # which finds another tensor in the mapping
    found.append(values(given))
    fresh = targets()
    handle.rebind(target_buffers=fresh, source_buffers=sources(50.0))
    handle.run()
    found.append(values(fresh))
    handle.close()
    return found


def test_an_open_sync_moves_what_is_there_now(ranks):
    first, second = ranks.run(held_open, sync())
    assert first == [[10, 11, 12], [20, 21, 22], [20, 21, 22], [50, 51, 52]]
    assert second == [[13], [23], [23], [53]]


def moved_in_place(told):
    """Rank 1 lets its source tensor lie elsewhere; every rank sees what is there."""
    own, given = sources(), targets()
    handle = open_sync(told, own, given, group=dist.group.WORLD)
    if dist.get_rank():
        own["w"][1].data = torch.tensor([7.0, 8.0])
    handle.run()
    return values(given)


def test_a_tensor_that_lies_elsewhere_is_bound_anew(ranks):
    assert ranks.run(moved_in_place, sync()) == [[10.0, 11.0, 7.0], [8.0]]


def rebound(told, other):
    given = targets()
    handle = open_sync(told, sources(), given, group=dist.group.WORLD)
    handle.run()
    own = {"w": {dist.get_rank(): torch.tensor([[1.0], [2.0, 3.0, 4.0]][dist.get_rank()])}}
    handle.rebind(sync=other, source_buffers=own)
    stats = handle.run()
    return values(given), stats.local_copy_bytes


def swapped():
    """On every rank: two parameters, whose source tensors change places while they are held."""
    told = sync()
    (first,) = told.parameters
    told = replace(told, parameters=(first, replace(first, name="v")))
    one, other = sources(10.0)["w"], sources(20.0)["w"]
    held, given = {"w": one, "v": other}, {"w": targets()["w"], "v": targets()["w"]}
    handle = open_sync(told, held, given, group=dist.group.WORLD)
    handle.run()
    held.clear()
    held.update({"v": one, "w": other})
    handle.run()
    handle.close()
    return [values({"w": given[name]}) for name in ("w", "v")]


def test_tensors_that_change_places_are_bound_anew(ranks):
    assert ranks.run(swapped) == [
        [[20.0, 21.0, 22.0], [10.0, 11.0, 12.0]],
        [[23.0], [13.0]],
    ]


def conjugated():
    """On every rank: a source tensor is replaced by one that lies there and is read otherwise."""
    told = sync(dtypes=("complex64", "complex64"))
    held, given = sources(1j, torch.complex64), targets(torch.complex64)
    handle = open_sync(told, held, given, group=dist.group.WORLD)
    rank = dist.get_rank()
    held["w"][rank] = held["w"][rank].conj()
    with pytest.raises(TransferRefusedError, match="is not packed"):
        handle.run()
    handle.close()


def test_a_tensor_that_is_now_read_otherwise_is_refused(ranks):
    ranks.run(conjugated)


def test_imaginary_parts_are_not_dropped(ranks):
    def refused():
        given = targets()
        told = sync(dtypes=("complex64", "float32"))
        with pytest.raises(TransferRefusedError) as caught:
            reshard(told, sources(1j, torch.complex64), given, group=dist.group.WORLD)
        return str(caught.value)

    for text in ranks.run(refused):
        assert "torch.complex64 is not cast to torch.float32, which has no imaginary part" in text


def test_another_sync_is_planned_for_the_same_targets(ranks):
    outcomes = ranks.run(rebound, sync(), sync(source=(1, 3)))
    assert outcomes == [([1.0, 2.0, 3.0], 4), ([4.0], 4)]


def disagreeing(told, other, what):
    """How a handle refuses where rank 1 does something else, and what it does then."""
    given = targets()
    handle = open_sync(told, sources(), given, group=dist.group.WORLD)
    call = handle.rebind if what == "another sync" or dist.get_rank() else handle.run
    options = {"sync": other if dist.get_rank() else told} if what == "another sync" else {}
    with pytest.raises(TransferRefusedError) as refusal:
        call(**options)
    untouched = values(given)
    handle.run()
    return str(refusal.value), untouched, values(given)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (
            "another sync",
            r"processes \[0\] have rebind of plan digest .*, processes \[1\] have reb",
        ),
        (
            "a run on one rank",
            r"processes \[0\] have run of plan .*, processes \[1\] have rebind of",
        ),
    ],
)
def test_ranks_that_disagree_all_raise_and_the_handle_is_as_before(ranks, what, text):
    other = sync(budget=StagingBudget(4))
    outcomes = ranks.run(disagreeing, sync(), other, what)
    assert all(re.search(text, refusal) for refusal, _, _ in outcomes)
    assert [after for _, _, after in outcomes] == [[10.0, 11.0, 12.0], [13.0]]
    assert [before for _, before, _ in outcomes] == [[0.0, 0.0, 0.0], [0.0]]


def lost_a_buffer(told):
    own, given = sources(), targets()
    handle = open_sync(told, own, given, group=dist.group.WORLD)
    if dist.get_rank():
        del own["w"][1]
    with pytest.raises(TransferRefusedError) as refusal:
        handle.run()
    return str(refusal.value)


def test_a_buffer_that_is_gone_is_refused_on_every_rank(ranks):
    assert set(ranks.run(lost_a_buffer, sync())) == {
        "nothing was moved: process 1 refuses: source buffer 'w'[1] is missing"
    }


def closed(told):
    own = sources()
    handle = open_sync(told, own, targets(), group=dist.group.WORLD)
    tensor = weakref.ref(own.pop("w")[dist.get_rank()])
    handle.close()
    handle.close()
    gc.collect()
    refusals = []
    for call in (handle.run, handle.rebind):
        with pytest.raises(
            TransferRefusedError, match="process 1 refuses: the sync is closed"
        ) as r:
            call()
        refusals.append(str(r.value))
    return tensor() is None, refusals


def test_a_closed_sync_holds_nothing_and_refuses(ranks):
    outcomes = ranks.run(closed, sync())
    assert [is_gone for is_gone, _ in outcomes] == [True, True]


def exchanges(told):
    """How many all-gathers each call takes."""
    given, counts = targets(), []
    mark = tap.mark()
    reshard(told, sources(), given, group=dist.group.WORLD)
    counts.append(sum(event.kind == "all_gather" for event in tap.events_since(mark)))
    handle = open_sync(told, sources(), given, group=dist.group.WORLD)
    mark = tap.mark()
    handle.run()
    counts.append(sum(event.kind == "all_gather" for event in tap.events_since(mark)))
    return counts


def test_one_exchange_comes_before_each_run(ranks):
    assert ranks.run(exchanges, sync()) == [[1, 1], [1, 1]]


def part(told):
    return plan_on_rank(told, group=dist.group.WORLD)


def segment(source, target, *shape):
    return TransferSegment(
        source_location=source[0],
        source_offset=source[1],
        source_strides=(1,) * len(shape),
        target_location=target[0],
        target_offset=target[1],
        target_strides=(1,) * len(shape),
        shape=shape,
    )


def test_each_rank_plans_its_own_part(ranks):
    stays, moves, last = (
        ("w", 0, segment((0, 0), (0, 0), 2)),
        segment((1, 0), (0, 2)),
        ("w", 1, segment((1, 1), (1, 0))),
    )
    assert ranks.run(part, sync()) == [
        RankPlan(sends=[stays], receives=[stays, ("w", 1, moves)]),
        RankPlan(sends=[("w", 0, moves), last], receives=[last]),
    ]


def test_a_part_of_a_sync_is_the_same_whatever_the_budget(ranks):
    assert ranks.run(part, sync()) == ranks.run(part, replace(sync(), budget=StagingBudget(4)))
