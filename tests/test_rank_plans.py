import json
import re

import pytest

from pytest_affine.errors import InvalidMapError
from pytest_affine.plans import RankPlan, TransferSegment

SEGMENT = TransferSegment(
    source_location=1,
    source_offset=2,
    source_strides=(3, 1),
    target_location=0,
    target_offset=5,
    target_strides=(2, 1),
    shape=(2, 2),
)
PART = RankPlan(sends=[], receives=[("w", 3, SEGMENT)])
ENTRY = {
    "sends": [],
    "receives": [
        {
            "parameter": "w",
            "peer": 3,
            "segment": {"shape": [2, 2], "source": [1, 2, [3, 1]], "target": [0, 5, [2, 1]]},
        }
    ],
}


def test_a_part_is_written_and_read_as_json():
    assert json.loads(json.dumps(PART.to_dict())) == ENTRY
    assert RankPlan.from_dict(ENTRY) == PART


def test_lists_become_tuples_and_equal_parts_have_equal_hashes():
    other = RankPlan((), (["w", 3, SEGMENT],))
    assert (other, hash(other)) == (PART, hash(PART))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"sends": []}, "rank_plan lacks the key 'receives'"),
        (
            {"sends": [{"parameter": "w", "peer": "1"}], "receives": []},
            "rank_plan.sends[0].peer must be an integer, got '1'",
        ),
        (
            {"sends": [], "receives": [{"parameter": "w", "peer": 1, "segment": {"shape": []}}]},
            "rank_plan.receives[0].segment lacks the key 'source'",
        ),
    ],
)
def test_what_is_no_part_is_refused_by_its_field(entry, message):
    with pytest.raises(InvalidMapError, match=re.escape(message)):
        RankPlan.from_dict(entry)
