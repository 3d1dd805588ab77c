"""The executor while messages leave late, in another order, or not at all."""

import pytest
import torch
import torch.distributed as dist
from handmade import block, plan, run

from pytest_affine.missing import missing_messages
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.ranks import Delay, Drop, RankFailure, RankPool, Reorder, wire_faults
from pytest_affine.reference.executor import execute_transfers
from pytest_affine.reference.schedule import schedule_transfers


@pytest.fixture(scope="module")
def ranks():
    with RankPool(4) as pool:
        yield pool


SIZE = 8
TRANSPOSED = plan(
    *(block((p, 2 * q, (SIZE, 1)), (q, 8 * p, (1, 4)), (4, 2)) for p in range(4) for q in range(4)),
    source_sizes=dict.fromkeys(range(4), 4 * SIZE),
    target_sizes=dict.fromkeys(range(4), 4 * SIZE),
)
"""Four rows of eight, from every process to every other: two columns, each in one piece."""

SHIFTED = plan(
    *(run((p, 5), ((p + step) % 4, 5 * step), 5) for p in range(4) for step in (1, 2)),
    source_sizes=dict.fromkeys(range(4), 10),
    target_sizes=dict.fromkeys(range(4), 15),
)
"""The same five elements from every process to two others."""

PLANS = {"transposed": TRANSPOSED, "shifted": SHIFTED}
EACH = TransferEndpoints({p: p for p in range(4)}, {p: p for p in range(4)})
CROSSED = TransferEndpoints({p: p for p in range(4)}, {p: 3 - p for p in range(4)})

SYNCS = [
    (("transposed",), EACH, 16),
    (("shifted",), CROSSED, 8),
    (("shifted", "transposed"), CROSSED, 4),
    (("transposed", "shifted"), EACH, 2**20),
]


def moved(faults, *, after=0):
    """Every sync, one right after the other, new values for each: targets and statistics.

    So many syncs are not disturbed.
    """
    outcomes, own = [], dist.get_rank()
    for number, (names, endpoints, budget) in enumerate(SYNCS):
        plans = {name: PLANS[name] for name in names}
        first = 1000.0 * number + 100 * own
        sources = {
            name: {own: first + 50 * index + torch.arange(dict(each.source_sizes)[own])}
            for index, (name, each) in enumerate(plans.items())
        }
        (held,) = (location for location, process in endpoints.target if process == own)
        targets = {
            name: {held: torch.full((dict(each.target_sizes)[held],), -1.0)}
            for name, each in plans.items()
        }
        with wire_faults(*(faults if number >= after else ())):
            stats = execute_transfers(
                plans,
                sources,
                targets,
                endpoints,
                dtype=torch.float32,
                budget=StagingBudget(budget),
            )
        outcomes.append(({name: targets[name][held].tolist() for name in names}, stats))
    return outcomes


def test_the_syncs_have_several_rounds_and_peers(ranks):
    outcomes = ranks.run(moved, ())
    # Rank 0: two columns of rank 1's rows are the second eight of its own target.
    assert outcomes[0][0][0]["transposed"][8:16] == [
        *(100.0, 108.0, 116.0, 124.0),
        *(101.0, 109.0, 117.0, 125.0),
    ]
    assert [stats.rounds for _, stats in outcomes[0]] == [2, 3, 13, 1]


DISTURBANCES = [
    *((Reorder(seed),) for seed in range(4)),
    (Delay(0.01, 0),),
    (Delay(0.01, receiver=3),),
    (Delay(0.02, 1, 2), Delay(0.01, 2, 1)),
    (Delay(0.005), Delay(0.01, 3), Reorder(9)),
]


@pytest.mark.parametrize("faults", DISTURBANCES, ids=str)
def test_nothing_changes_with_delays_and_other_orders(ranks, faults):
    assert ranks.run(moved, faults) == ranks.run(moved, ())


def test_a_lost_message_ends_at_the_deadline_and_is_told_by_the_schedule(ranks):
    schedules = [
        schedule_transfers(
            {name: PLANS[name] for name in names},
            endpoints,
            element_size=4,
            budget=StagingBudget(budget),
        )
        for names, endpoints, budget in SYNCS
    ]
    ranks.run(moved, ())  # so that nothing is left to import
    with pytest.raises(RankFailure) as caught:
        ranks.run(moved, (Drop(0, 2, 1),), after=1, deadline=3.0)
    failure = caught.value
    assert failure.cause.message == "no answer within 3.0 s"
    told = missing_messages(failure.missing, schedules)
    assert (
        "rank 2 waits for message 2 of 3 from rank 0 in batch 2 of 4 (8 bytes, round 2: "
        "parameter 'shifted', segment 0), which rank 0 never sent"
    ) in told
