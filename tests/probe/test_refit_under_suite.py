"""The suite on the refit of the example: as it is, and with faults that real resharders had.

What the refit has is judged through an adapter over its own code. It has nothing that compares the
holders of a map or the contents of replicas, so F02 and F21 are judged over the reference.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from refit_adapter import ROLLOUT, TRAINER, Refit
from refit_faults import FAULTS, load

from pytest_affine.contract.cases import Case
from pytest_affine.contract.examination import Examination, examine
from pytest_affine.contract.outcomes import Outcome
from pytest_affine.contract.proxy import ImplementationProxy
from pytest_affine.contract.resident import read_facts
from pytest_affine.contract.suite import restricted, suite_tests
from pytest_affine.contract.verdict import outcome_of
from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.layouts import describe
from pytest_affine.plans import TransferEndpoints
from pytest_affine.ranks import RankPool
from pytest_affine.sync import Sync, SyncParameter

pytestmark = pytest.mark.long

FOLDERS = [str(Path(__file__).parent)]
EXAMPLE = load()
SOURCES, TARGETS = (
    {each.name: each for each in EXAMPLE.parameters(on_trainer=on_trainer)}
    for on_trainer in (True, False)
)


def parameter(name):
    source, target = SOURCES[name], TARGETS[name]
    return SyncParameter(
        name=name,
        source=describe(TRAINER, source),
        target=describe(ROLLOUT, target),
        source_dtype=source.dtype,
        target_dtype=target.dtype,
        source_parameter=source,
        target_parameter=target,
        source_names={rank: EXAMPLE.trainer_name(name, rank) for rank in range(4)},
    )


def layout_case(layout, name):
    known = SOURCES if layout == TRAINER else TARGETS
    detail = {"layout": layout.to_dict(), "parameter": known[name].to_dict()}
    return Case(name=name, kind="layout", detail=detail)


SYNC = Sync(
    parameters=tuple(map(parameter, SOURCES)),
    endpoints=TransferEndpoints({rank: rank for rank in range(4)}, {r: r for r in range(4)}),
    num_processes=4,
    source_layout=TRAINER,
    target_layout=ROLLOUT,
)
TURNED = replace(
    SYNC, endpoints=TransferEndpoints(SYNC.endpoints.source, {r: 3 - r for r in range(4)})
)

MODEL = Case(name="the model", kind="sync", sync=SYNC)
TWO_ENGINES = replace(MODEL, name="two engines", detail={"other": TURNED.to_dict()})
POSITIONS = "positions.weight"
QKV = layout_case(ROLLOUT, "layers.0.qkv.weight")

FOUND = {
    "F01": ("Check", "MAP-TILE", "one address written twice, another never (F01)"),
    "F03": ("Refit", "LAYOUT-DERIVE", layout_case(ROLLOUT, POSITIONS)),
    "F04": ("Refit", "RESHARD-EXACT", MODEL),
    "F05": ("Refit", "RESHARD-EXACT", MODEL),
    "F06": ("Refit", "LAYOUT-DERIVE", layout_case(TRAINER, POSITIONS)),
    "F08": ("Refit", "RESHARD-EXACT", MODEL),
    "F09": ("Refit", "LAYOUT-DERIVE", QKV),
    "F10": ("Refit", "LAYOUT-DERIVE", QKV),
    "F11": ("Refit", "LAYOUT-DERIVE", layout_case(ROLLOUT, "layers.0.gate_up.weight")),
    "F13": ("Refit", "LAYOUT-DERIVE", layout_case(TRAINER, "layers.1.experts.2.up.weight")),
    "F14": ("Refit", "LAYOUT-DERIVE", layout_case(ROLLOUT, "layers.1.experts.0.up.bias")),
    "F15": ("Refit", "RESHARD-EXACT", MODEL),
    "F19": ("Refit", "RESHARD-EXACT", MODEL),
    "F23": ("Refit", "RESHARD-FRESH", TWO_ENGINES),
    "F31": ("Refit", "RESHARD-EXACT", MODEL),
}
"""By fault, an adapter over the refit, a requirement that it violates, and a case that shows it."""

TOLD = {
    "F01": "must be refused with InvalidMapError or UnsupportedLayoutError, but was accepted",
    "F03": "rank 0 has a shard of (3, 6), not of (2, 6)",
    "F04": "target shard 0 of 'layers.0.scale.weight' on process 0, run 0: 2 of 4 elements",
    "F05": "target shard 1 of 'positions.weight' on process 1, run 0: 18 of 18 elements",
    "F06": "rank 1 has a shard of (3, 6), not of (2, 6)",
    "F08": "target shard 0 of 'layers.0.down.weight' on process 0, run 0: 10 of 12 elements",
    "F09": "rank 0 has a shard of (6, 6), not of (4, 6)",
    "F10": "rank 0 has a shard of (6, 6), not of (4, 6)",
    "F11": "at (2, 0) of its shard rank 0 has element (8, 0), the map says element (2, 0)",
    "F13": "rank 0 has a shard of (0, 6), not of (4, 6)",
    "F14": "rank 0 has a shard of (2,), not of (8,)",
    "F15": "target shard 1 of 'embed.weight' on process 1, run 0: 18 of 18 elements",
    "F19": "target shard 0 of 'layers.1.experts.2.up.weight' on process 0, run 0: 12 of 12",
    "F23": "turn 4, with another sync: target shard 3 of 'embed.weight' on process 0, run 0: 6 of",
    "F31": "has the bits c13fc0ef and should have c0ef0000",
}
"""By fault, what a person is told of it."""

OVER_THE_REFERENCE = {
    "F02": (
        "maps:LooksAtTheLastElement",
        "MAP-HOLD",
        "runs merged across a change of holders (F02)",
    ),
    "F21": (
        "shards:LastReplicaWins",
        "MAP-REPLICA",
        "only one of two replicas is read (F26), other values",
    ),
}
"""By fault in what the refit lacks, a mutant of the catalogue, its requirement and a case."""


@pytest.fixture(scope="module")
def pool():
    with RankPool(4, deadline=30.0) as running:
        yield running


suite = cache(suite_tests)


def judged_by(requirement, case):
    """The suite's tests of a requirement that take a case, and the case."""
    tests = suite() if isinstance(case, str) else restricted(suite(), case)
    found = [
        (test, fixed)
        for held in tests.values()
        for test in held
        if test.requirement == requirement
        for fixed in test.fixed
        if case in (fixed, fixed.name)
    ]
    assert found
    return found


def findings(pool, requirement, case, name, fault=None):
    facts = read_facts(name, FOLDERS)
    implementation = ImplementationProxy(pool, name, facts, FOLDERS, fault=fault)
    how = Examination(num_examples=1, seed=0)
    found = [examine(*each, implementation, how) for each in judged_by(requirement, case)]
    implementation.close()
    return found


def outcome(*judged):
    found = findings(*judged)
    return outcome_of([each.record for each in found], len(found))


def test_every_fault_of_the_refit_is_judged():
    assert {*FOUND} | {*OVER_THE_REFERENCE} == {*FAULTS} - {"none"}


@pytest.mark.parametrize("fault", FOUND)
def test_the_fault_of_the_refit_violates_its_requirement_and_is_told(pool, fault):
    adapter, *judged = FOUND[fault]
    found = findings(pool, *judged, f"refit_adapter:{adapter}_{fault}")
    (text,) = (each.text for each in found if each.record.outcome is Outcome.VIOLATED)
    assert TOLD[fault] in text


DIFFERENT = {getattr(case, "id", case): fault for fault, (*_, case) in reversed(FOUND.items())}


@pytest.mark.parametrize("fault", DIFFERENT.values())
def test_the_right_refit_is_conformant_in_the_case_of_the_fault(pool, fault):
    adapter, *judged = FOUND[fault]
    assert outcome(pool, *judged, f"refit_adapter:{adapter}_none") is Outcome.CONFORMANT


@pytest.mark.parametrize("fault", OVER_THE_REFERENCE)
def test_the_fault_in_what_the_refit_lacks_is_found_over_the_reference(pool, fault):
    mutant, requirement, case = OVER_THE_REFERENCE[fault]
    name = f"pytest_affine.mutants.faults.{mutant}"
    assert outcome(pool, requirement, case, "reference", name) is Outcome.VIOLATED
    assert outcome(pool, requirement, case, "reference") is Outcome.CONFORMANT


def changed(**fields):
    """The sync of the model with something else about its first parameter."""
    first, *others = SYNC.parameters
    return replace(SYNC, parameters=(replace(first, **fields), *others))


ENDS = SYNC.endpoints


@pytest.mark.parametrize(
    ("sync", "reason"),
    [
        (replace(SYNC, source_layout=None), "goes from tp 2, dp 2, ep 2 to tp 4"),
        (changed(source_parameter=None), "trainer has another model"),
        (changed(target_parameter=None), "rollout engine has another model"),
        (changed(source_names=None), "asked for its tensors by their local names"),
        (
            replace(SYNC, endpoints=TransferEndpoints(TURNED.endpoints.target, ENDS.target)),
            "ranks of the refit's trainer are its processes",
        ),
        (
            replace(SYNC, endpoints=TransferEndpoints(ENDS.source, dict.fromkeys(range(4), 0))),
            "each process has one rank",
        ),
    ],
)
def test_a_sync_that_the_refit_can_not_express_is_withheld(sync, reason):
    assert reason in Refit().supports(sync)


@pytest.mark.parametrize(
    ("layout", "name", "reason"),
    [
        (ROLLOUT, POSITIONS, "the refit has no 'positions.weight' like this"),
        (TRAINER, "embed.weight", "indices of a vocabulary leave out padding"),
    ],
)
def test_a_parameter_that_the_refit_can_not_describe_is_refused(layout, name, reason):
    with pytest.raises(UnsupportedLayoutError, match=reason):
        Refit().describe(layout, SOURCES[name])
