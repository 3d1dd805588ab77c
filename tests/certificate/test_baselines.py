from dataclasses import replace

import pytest
from handmade_certificates import AFFINE, PLANNED, RECORDS, a_certificate, a_gate, a_record, a_run

from pytest_affine.certificate.baseline import compare
from pytest_affine.contract.outcomes import Outcome


def changes(old, new):
    """(worse, better), from one run, or certificate, to another."""
    pair = [a_certificate(each) if not hasattr(each, "runs") else each for each in (old, new)]
    found = [*compare(*pair)]
    return tuple([c.text for c in found if c.is_worse is worse] for worse in (True, False))


def test_the_same_is_neither_worse_nor_better():
    assert changes(a_run(), a_run()) == ([], [])


def test_another_day_and_other_versions_are_no_change():
    later = a_run(date=a_run().date.replace(year=2027), devices=("x",), versions={"torch": "3"})
    assert changes(a_run(), later) == ([], [])


@pytest.mark.parametrize(
    "outcome", [outcome for outcome in Outcome if outcome is not Outcome.CONFORMANT]
)
def test_an_outcome_that_is_worse_is_worse_and_back_it_is_better(outcome):
    bad = a_run(a_record("PLAN-MERGED", outcome))
    wanted = f"gloo, 4 ranks: PLAN-MERGED: the outcome was conformant, and is {outcome.value}"
    assert wanted in changes(a_run(), bad)[0]
    assert changes(a_run(), bad)[1] == []
    wanted = f"gloo, 4 ranks: PLAN-MERGED: the outcome was {outcome.value}, and is conformant"
    assert wanted in changes(bad, a_run())[1]
    assert changes(bad, a_run())[0] == []


def test_a_verdict_that_is_worse_is_worse():
    worse, _ = changes(a_run(), a_run(num_deselected=1))
    assert worse == ["gloo, 4 ranks: the verdict was conformant, and is partial"]


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.WITHHELD, Outcome.NOT_RUN])
def test_more_cases_that_were_not_judged_are_worse(outcome):
    worse, better = changes(a_run(), a_run(a_record("PLAN-TILE", outcome)))
    assert f"gloo, 4 ranks: PLAN-TILE: 0 cases were {outcome.value}, now 1" in worse
    assert "gloo, 4 ranks: PLAN-TILE: 3 cases were conformant, now 2" in worse
    assert better == []


def test_drawn_inputs_count_where_the_same_ones_were_drawn():
    refusing = a_record("PLAN-TILE", Outcome.CONFORMANT, num_examples=25, num_refused=4)
    wanted = "gloo, 4 ranks: PLAN-TILE: 0 drawn inputs were refused or withheld, now 4"
    assert changes(a_run(), a_run(refusing)) == ([wanted], [])
    assert changes(a_run(seed=1), a_run(refusing)) == ([], [])
    other = replace(a_certificate(), suite="sha256:" + "6" * 64)
    assert changes(other, a_run(refusing)) == ([], [])


def test_fewer_examples_are_worse():
    wanted = "gloo, 4 ranks: 25 examples were drawn, now 20"
    assert changes(a_run(), a_run(num_examples=20)) == ([wanted], [])
    assert changes(a_run(num_examples=20), a_run())[0] == []


def test_a_run_that_is_gone_is_worse_and_a_new_one_better():
    one, both = a_certificate(a_run()), a_certificate(a_run(), a_run(backend="nccl"))
    assert changes(both, one) == (["nccl, 4 ranks: there is no such run any more"], [])
    assert changes(one, both) == ([], ["nccl, 4 ranks: a new run"])


def test_of_several_runs_of_one_kind_the_worst_counts():
    bad = a_run(a_record("MAP-INV", Outcome.VIOLATED), seed=1)
    worse, _ = changes(a_certificate(a_run()), a_certificate(a_run(), bad))
    assert "gloo, 4 ranks: MAP-INV: the outcome was conformant, and is violated" in worse
    worse, _ = changes(a_certificate(a_run(), bad), a_certificate(bad, a_run()))
    assert worse == []


def test_a_mutant_that_is_not_killed_any_more_is_worse():
    good, bad = a_run(gate=a_gate()), a_run(gate=a_gate("MAP-INV"))
    worse, _ = changes(good, bad)
    assert "gloo, 4 ranks: mutant mutant-of-map-inv was killed, and is not any more" in worse
    worse, better = changes(bad, good)
    assert worse == []
    assert "gloo, 4 ranks: mutant mutant-of-map-inv is killed now" in better


def test_a_mutant_that_is_gone_is_worse():
    gate = a_gate()
    fewer = {**gate, "mutants": gate["mutants"][1:]}
    worse, _ = changes(a_run(gate=gate), a_run(gate=fewer))
    assert "gloo, 4 ranks: mutant mutant-of-map-cover was killed, and is not any more" in worse


def test_a_gate_that_is_gone_is_worse_and_a_new_one_better():
    wanted = "gloo, 4 ranks: the mutants are not run any more"
    assert changes(a_run(gate=a_gate()), a_run()) == ([wanted], [])
    wanted = f"gloo, 4 ranks: {len(AFFINE)} mutants more are killed"
    assert changes(a_run(), a_run(gate=a_gate())) == ([], [wanted])


def test_a_requirement_that_the_older_suite_did_not_have_is_no_change():
    planned = {id_: cases for id_, cases in PLANNED.items() if id_ != "MAP-INV"}
    records = tuple(record for record in RECORDS if record.requirement != "MAP-INV")
    old = a_certificate(a_run(planned=planned, records=records), suite="sha256:" + "6" * 64)
    assert changes(old, a_certificate()) == ([], [])
