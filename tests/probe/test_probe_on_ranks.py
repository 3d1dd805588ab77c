"""The probe on ranks: through the fixture, and in the body of a marked test."""

import pytest
import torch
import torch.distributed as dist

from pytest_affine import Probe
from pytest_affine.builders import contiguous_split_map, flat_map, replicated_map
from pytest_affine.probe import Side
from pytest_affine.probe.wire import needed_bytes

ROWS = contiguous_split_map((4, 6), [2, 2], 0)
COLUMNS = contiguous_split_map((4, 6), [3, 3], 1)


def build(rank, mistake):
    """Rows to columns on two ranks, moved by all-gather; with a mistake on rank 1."""
    source, target = torch.zeros(2, 6), torch.zeros(4, 3)

    def refit():
        rows = [torch.zeros(2, 6), torch.zeros(2, 6)]
        dist.all_gather(rows, source)
        if rank == 1 and mistake == "raises":
            raise RuntimeError("rank 1 has no plan")
        first = 0 if mistake == "first columns" else 3 * rank
        target.copy_(torch.cat(rows)[:, first : first + 3])

    probe = Probe(
        source=Side(maps={"w": ROWS}, tensors={rank: {"w": source}}),
        target=Side(maps={"w": COLUMNS}, tensors={rank: {"w": target}}),
    )
    return probe, refit


@pytest.mark.affine_ranks(2)
def test_the_report_of_all_ranks_is_one(affine_probe, affine_rank):
    report = affine_probe.run(build, affine_rank, None)
    report.check()
    assert report.judged == (("w", 0), ("w", 1))
    # Each rank takes 4 * 3 elements of 4 bytes, half of which it has; all-gather brings 2 * 6.
    found = [(each.rank, each.needed_bytes, each.seen_bytes) for each in report.sightings]
    assert found == [(0, 24, 48), (1, 24, 48)]
    assert report.wire == "observed"


@pytest.mark.affine_ranks(2)
def test_a_copy_on_another_rank_is_seen_as_one(affine_probe, affine_rank):
    report = affine_probe.run(build, affine_rank, mistake="first columns")
    assert [(each.location, each.kind) for each in report.faults] == [(1, "replicated")]


@pytest.mark.affine_ranks(2)
def test_a_refusal_of_one_rank_is_told_and_the_others_are_judged(affine_probe, affine_rank):
    report = affine_probe.run(build, affine_rank, "raises")
    assert report.refusals == ((1, "run 0: RuntimeError: rank 1 has no plan"),)
    assert report.judged == (("w", 0),)
    assert (report.outcome, report.outcomes) == ("refused", {"w": "refused"})


def test_the_fixture_has_as_many_ranks_as_the_session(affine_probe, affine_world_size):
    def build_one(world_size):
        held, map_ = torch.zeros(2), replicated_map((2,), world_size)
        side = Side(maps={"w": map_}, tensors={dist.get_rank(): {"w": held}})
        return Probe(source=side, target=side), lambda: None

    report = affine_probe.run(build_one, affine_world_size)
    report.check()
    assert len(report.judged) == 4


@pytest.mark.affine_ranks(2)
def test_in_a_body_on_ranks_each_judges_what_came_to_itself(affine_rank):
    probe, refit = build(affine_rank, "first columns")
    report = probe.run(refit)
    assert report.judged == (("w", affine_rank),)
    assert [fault.kind for fault in report.faults] == ["another shard"] * affine_rank


def test_what_no_one_watches_is_not_watched_and_what_nobody_needs_is_not_needed():
    source, target = {"w": torch.zeros(2, 6)}, {"w": torch.zeros(4, 3)}
    probe = Probe(
        source=Side(maps={"w": ROWS}, tensors={0: source}),
        target=Side(maps={"w": COLUMNS}, tensors={0: target}),
    )
    assert probe.run(lambda: None).wire == "not watched"
    whole = {"w": torch.zeros(4, 6)}
    side = Side(maps={"w": replicated_map((4, 6), 1)}, tensors=[whole])
    assert Probe(source=side, target=side).run(lambda: None).wire == "not needed"


def shards(side_map, locations):
    tensors = {at: {"w": torch.zeros(side_map.shard_shape(at))} for at in locations}
    return list(Side(maps={"w": side_map}, tensors=tensors).shards())


@pytest.mark.parametrize(
    ("held", "taken", "num_missing"),
    [
        ([(ROWS, 0)], [(COLUMNS, 0)], 6),
        ([(ROWS, 0), (ROWS, 1)], [(COLUMNS, 0)], 0),
        ([], [(COLUMNS, 0), (COLUMNS, 1)], 24),
        ([(flat_map({"w": (4, 6)}, {0: (0, 9), 1: (9, 24)})["w"], 0)], [(COLUMNS, 1)], 9),
    ],
)
def test_elements_that_a_process_lacks_are_counted_by_hand(held, taken, num_missing):
    # The first 9 elements are row 0 and half of row 1, so of the last columns 3 are among them.
    sources = [shard for map_, at in held for shard in shards(map_, [at])]
    targets = [shard for map_, at in taken for shard in shards(map_, [at])]
    assert needed_bytes(sources, targets, {"w": 2}) == 2 * num_missing
