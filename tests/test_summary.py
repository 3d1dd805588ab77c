from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.contract.outcomes import Outcome, Record
from pytest_affine.contract.verdict import Judgement
from pytest_affine.summary import row_of


def test_numbers_that_were_measured_stand_beside_the_counts_each_once():
    records = tuple(
        Record(requirement="LOAD-BALANCE", case=case, outcome=outcome, reason=reason)
        for case, outcome, reason in (
            ("a", Outcome.CONFORMANT, "1.00 of the least"),
            ("b", Outcome.CONFORMANT, "1.25 of the least"),
            ("c", Outcome.CONFORMANT, "1.00 of the least"),
            ("d", Outcome.REFUSED, "too wide"),
        )
    )
    judgement = Judgement(REQUIREMENTS["LOAD-BALANCE"], Outcome.CONFORMANT, records, 4)
    assert row_of(judgement) == (
        "LOAD-BALANCE (should)",
        "conformant",
        "4",
        "4",
        "3 conformant, 1 refused, measured: 1.00 of the least; 1.25 of the least",
    )
