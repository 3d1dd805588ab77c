import re
from dataclasses import replace

import pytest
from handmade_certificates import SUBJECT, SUITE, a_certificate, a_record, a_run, text_of

from pytest_affine.certificate.document import to_document
from pytest_affine.certificate.merge import merge
from pytest_affine.certificate.record import Distribution
from pytest_affine.certificate.shape import DocumentError
from pytest_affine.certificate.verify import read_trusted
from pytest_affine.contract.outcomes import Outcome


def merged(*certificates):
    return merge([(f"{index}.json", each) for index, each in enumerate(certificates)])


def test_runs_come_together_in_one_order():
    gloo, two, nccl = a_run(), a_run(num_ranks=2), a_run(backend="nccl")
    wanted = a_certificate(two, gloo, nccl)
    assert merged(a_certificate(nccl), a_certificate(gloo), a_certificate(two)) == wanted
    assert merged(a_certificate(gloo, two), a_certificate(nccl)) == wanted


def test_a_run_that_is_in_both_is_in_it_once():
    assert merged(a_certificate(), a_certificate()) == a_certificate()


def test_a_merged_certificate_is_read_like_any_other_and_the_worst_run_is_its_verdict():
    bad = a_run(a_record("MAP-INV", Outcome.VIOLATED), num_ranks=2)
    found = merged(a_certificate(), a_certificate(bad))
    assert to_document(found)["verdict"] == "violated"
    assert len(read_trusted(text_of(found), "c.json", SUITE).runs) == 2


def test_two_runs_of_one_kind_stay_two():
    assert len(merged(a_certificate(), a_certificate(a_run(seed=1))).runs) == 2


OTHER = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pytest_affine": "0.2"}, "the version of pytest-affine: 0.1.0, 0.2; only runs of one"),
        ({"suite": OTHER}, f"the digest of the suite: {SUITE.digest}, {OTHER}"),
        (
            {"subject": replace(SUBJECT, name="a:B")},
            "the name of the implementation: my_adapter:Mine, a:B",
        ),
        (
            {"subject": replace(SUBJECT, version="2.0")},
            "the version of the implementation: 1.0, 2.0",
        ),
        (
            {"subject": replace(SUBJECT, adapter_digest=OTHER)},
            f"the digest of the adapter: {SUBJECT.adapter_digest}, {OTHER}",
        ),
        (
            {"subject": replace(SUBJECT, distribution=None)},
            "the package behind the adapter: mine 2.1, None",
        ),
        (
            {"subject": replace(SUBJECT, distribution=Distribution("mine", "2.1", OTHER))},
            f"the digest of the package behind the adapter: {SUBJECT.distribution.digest}, {OTHER}",
        ),
    ],
)
def test_certificates_of_different_things_are_refused_by_what_differs(changes, message):
    with pytest.raises(DocumentError, match=re.escape(f"0.json and 1.json differ in {message}")):
        merged(a_certificate(), a_certificate(**changes))
