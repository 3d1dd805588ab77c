import os
import subprocess
import sys
from dataclasses import replace

import pytest
from handmade import MadeAnew, block, plan

from pytest_affine.errors import AffineTransferError
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.reference import digest
from pytest_affine.reference.digest import plan_digest

SEGMENT = block((0, 0, (3, 1)), (0, 0, (3, 1)), (2, 2))
OTHER = block((1, 0, (1,)), (0, 2, (3,)), (2,))
PLAN = plan(SEGMENT, OTHER, logical_shape=(2, 3), source_sizes={0: 6, 1: 2}, target_sizes={0: 6})
ENDPOINTS = TransferEndpoints({0: 0, 1: 1}, {0: 1})
PLANS = {"w": PLAN, "v": PLAN}


def digest_of(plans=PLANS, endpoints=ENDPOINTS, element_size=4, budget=64):
    return plan_digest(plans, endpoints, element_size=element_size, budget=StagingBudget(budget))


def with_segment(**changes):
    changed = replace(PLAN, segments=(replace(SEGMENT, **changes), OTHER))
    return {"plans": {"w": changed, "v": PLAN}}


def with_plan(**changes):
    return {"plans": {"w": replace(PLAN, **changes), "v": PLAN}}


CHANGES = {
    "a name": {"plans": {"w": PLAN, "u": PLAN}},
    "the order of names": {"plans": {"v": PLAN, "w": PLAN}},
    "a parameter less": {"plans": {"w": PLAN}},
    "source location": with_segment(source_location=1),
    "source offset": with_segment(source_offset=1),
    "source strides": with_segment(source_strides=(1, 3)),
    "target location": with_segment(target_location=1),
    "target offset": with_segment(target_offset=1),
    "target strides": with_segment(target_strides=(1, 3)),
    "shape": with_segment(shape=(1, 2)),
    "the order of segments": with_plan(segments=(OTHER, SEGMENT)),
    "a segment less": with_plan(segments=(SEGMENT,)),
    "logical shape": with_plan(logical_shape=(3, 2)),
    "a source size": with_plan(source_sizes={0: 6, 1: 3}),
    "a target size": with_plan(target_sizes={0: 7}),
    "another location": with_plan(target_sizes={1: 6}),
    "absent source sizes": with_plan(source_sizes=None),
    "absent target sizes": with_plan(target_sizes=None),
    "empty source sizes": with_plan(source_sizes={}),
    "empty target sizes": with_plan(target_sizes={}),
    "a source endpoint": {"endpoints": TransferEndpoints({0: 0, 1: 0}, {0: 1})},
    "a target endpoint": {"endpoints": TransferEndpoints({0: 0, 1: 1}, {0: 0})},
    "swapped endpoints": {"endpoints": TransferEndpoints({0: 1}, {0: 0, 1: 1})},
    "an endpoint more": {"endpoints": TransferEndpoints({0: 0, 1: 1, 2: 1}, {0: 1})},
    "budget": {"budget": 65},
    "element size": {"element_size": 8},
    "one element size": {"element_size": {"w": 4, "v": 8}},
    "the other element size": {"element_size": {"w": 8, "v": 4}},
}


def test_every_single_change_gives_another_digest():
    digests = {change: digest_of(**arguments) for change, arguments in CHANGES.items()}
    digests["none"] = digest_of()
    assert len(set(digests.values())) == len(digests)


def test_the_format_version_is_part_of_the_digest(monkeypatch):
    before = digest_of()
    monkeypatch.setattr(digest, "DIGEST_FORMAT_VERSION", 2)
    assert digest_of() != before


def test_names_can_not_run_into_each_other():
    assert digest_of({"a\nb": PLAN}) != digest_of({"a": PLAN, "b": PLAN})
    assert digest_of({'a"': PLAN}) != digest_of({"a": PLAN})


def test_the_order_of_filling_does_not_matter():
    refilled = TransferEndpoints({1: 1, 0: 0}, {0: 1})
    same = replace(PLAN, source_sizes={1: 2, 0: 6})
    assert digest_of({"w": same, "v": PLAN}, refilled) == digest_of()
    assert digest_of(element_size={"v": 4, "w": 4}) == digest_of(element_size={"w": 4, "v": 4})


def test_one_element_size_for_all_is_that_size_for_each():
    assert digest_of(element_size={"w": 4, "v": 4}) == digest_of(element_size=4)


def test_plans_that_are_equal_or_made_when_asked_for_are_as_good_as_one_object():
    again = replace(PLAN, segments=(replace(SEGMENT), OTHER))
    assert digest_of({"w": PLAN, "v": again}) == digest_of()
    lengths = {"a": 3, "b": 4, "c": 5}
    anew = MadeAnew(lengths)
    assert digest_of(anew) == digest_of({name: anew[name] for name in lengths})


def test_planning_statistics_and_moved_elements_are_no_part_of_it():
    assert digest_of({"w": replace(PLAN, moved_elements=5), "v": PLAN}) == digest_of()


PROGRAM = """
from pytest_affine.plans import StagingBudget, TransferEndpoints, TransferPlan
from pytest_affine.reference.digest import plan_digest
names = [f"layers.{number}.weight" for number in range(8)]
plans = {name: TransferPlan((), (0,), {1: 0, 0: 0}, {0: 0}, 0) for name in names}
endpoints = TransferEndpoints({1: 1, 0: 0}, {0: 1})
sizes = dict.fromkeys(set(names), 4)
print(plan_digest(plans, endpoints, element_size=sizes, budget=StagingBudget()))
"""


def digest_under_seed(seed):
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_digest_is_the_same_under_every_string_hash_seed():
    first, second = digest_under_seed("0"), digest_under_seed("1")
    assert len(first) == 64
    assert first == second


def test_the_digest_of_an_empty_batch_is_that_of_its_one_line():
    # sha256 of '[1,64,[[[0,0],[1,1]],[[0,1]]]]' and a line break
    assert digest_of({}) == "a719f70f39895f3a7c9b79918ec4690ea62cbd5b51e18c3e51ee18e80cee0aee"


def test_the_digest_of_a_plan_is_that_of_its_lines():
    # sha256 of '[1,64,[[[0,0]],[[0,1]]]]' and
    # '["w",4,{"logical_shape":[3],"segments":[{"shape":[3],"source":[0,0,[1]],"target":[0,2,[2]]}],
    # "source_sizes":{"0":3},"target_sizes":{"0":7}}]' (one line), a line break after each
    one = plan(
        block((0, 0, (1,)), (0, 2, (2,)), (3,)),
        logical_shape=(3,),
        source_sizes={0: 3},
        target_sizes={0: 7},
    )
    assert (
        digest_of({"w": one}, TransferEndpoints({0: 0}, {0: 1}))
        == "3721983eab000c8137b4e7430caa007bdb733ab21b5319f70e0f5efe423a9f99"
    )


def test_an_unusable_budget_has_no_digest():
    with pytest.raises(AffineTransferError, match=r"budget.bytes_per_peer must be 1 or more"):
        digest_of({}, budget=0)
