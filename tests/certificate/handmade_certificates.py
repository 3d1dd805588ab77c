"""Certificates made by hand: one profile is claimed; a requirement has a case or three."""

import json
from dataclasses import replace
from datetime import date

from pytest_affine.adapters.reference import Reference
from pytest_affine.certificate.digests import digest_of
from pytest_affine.certificate.document import to_document, to_text
from pytest_affine.certificate.record import Certificate, Distribution, Run, Subject
from pytest_affine.certificate.verify import Suite
from pytest_affine.certificate.waivers import Waiver
from pytest_affine.contract.implementation import claims_of
from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.contract.outcomes import Outcome, Record
from pytest_affine.mutants.gate import Bucket, MutantResult, judge_results

DAY = date(2026, 3, 1)
TILE = ("drawn", "even split, other", "even split, same")
AFFINE = [row.id for row in REQUIREMENTS.values() if row.profile == "affine"]
NEEDED = {name.partition("[")[0] for id_ in AFFINE for name in REQUIREMENTS[id_].methods}
CLAIMS = {name: options for name, options in claims_of(Reference).items() if name in NEEDED}
PLANNED = {**{id_: (f"case of {id_}",) for id_ in REQUIREMENTS}, "PLAN-TILE": TILE}
SUITE = Suite("sha256:" + "5" * 64, PLANNED)
SUBJECT = Subject(
    name="my_adapter:Mine",
    version="1.0",
    adapter_file="my_adapter.py",
    adapter_digest="sha256:" + "a" * 64,
    distribution=Distribution("mine", "2.1", "sha256:" + "d" * 64),
)


def conformant(id_, case):
    core = "even split" if case.startswith("even split") else None
    return Record(requirement=id_, case=case, outcome=Outcome.CONFORMANT, core=core)


RECORDS = tuple(conformant(id_, case) for id_, cases in PLANNED.items() for case in cases)


def a_run(*changed, **changes):
    """A run in which all is conformant but for the records that are given."""
    instead = {(record.requirement, record.case): record for record in changed}
    run = Run(
        backend="gloo",
        num_ranks=4,
        devices=("cpu",),
        versions={"pytest": "9.2.0", "python": "3.11.9", "torch": "2.13.0+cpu"},
        date=DAY,
        seed=0,
        num_examples=25,
        case=None,
        claims=CLAIMS,
        planned=PLANNED,
        records=tuple(instead.get((r.requirement, r.case), r) for r in RECORDS),
        num_deselected=0,
        incomplete=(),
        waivers=(),
        gate=None,
    )
    return replace(run, **changes)


def a_record(id_, outcome, case=None, **more):
    """What became of a requirement's case, its first if no other is named."""
    case = PLANNED[id_][0] if case is None else case
    return replace(conformant(id_, case), **{"reason": "why", "outcome": outcome, **more})


def a_waiver(id_, **changes):
    fields = {"kind": "known-bug", "link": "https://bugs.test/7", "expires": date(2026, 6, 1)}
    return Waiver(requirement=id_, **{**fields, **changes})


def a_gate(*survivors):
    """One mutant for each requirement, all killed in its first case but for the survivors."""
    results = [
        MutantResult(
            id=f"mutant-of-{id_.lower()}",
            requirement=id_,
            origin="F01",
            sentence="It drops something.",
            bucket=Bucket.SURVIVED if id_ in survivors else Bucket.KILLED,
            killed_by="" if id_ in survivors else id_,
            case="" if id_ in survivors else PLANNED[id_][0],
            reason="no test noticed it" if id_ in survivors else "something is gone",
        )
        for id_ in AFFINE
    ]
    return judge_results(results, AFFINE, needs_all=False).to_dict()


def a_certificate(*runs, **changes):
    certificate = Certificate(
        pytest_affine="0.1.0", suite=SUITE.digest, subject=SUBJECT, runs=runs or (a_run(),)
    )
    return replace(certificate, **changes)


def text_of(certificate):
    return to_text(to_document(certificate))


def edited(text, edit, *, with_digest=True):
    """A document after an edit by hand, whose digest has been made anew or not."""
    document = json.loads(text)
    edit(document)
    if with_digest:
        del document["digest"]
        document["digest"] = digest_of(document)
    return to_text(document)
