"""Judging by boxes: the same answers as element by element, at any size."""

import contextlib
import itertools
import time
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from truth_cases import copy, map_of, plan_of, run, split_map

from pytest_affine.errors import UnsupportedLayoutError
from pytest_affine.geometry import row_major_strides
from pytest_affine.maps import AffinePiece, Padding, ParamAffineMap
from pytest_affine.truth import element_at, map_problems, plan_problems
from pytest_affine.truth.blocks import Affine, Block, cut_by_element
from pytest_affine.truth.cutting import cut_by_box
from pytest_affine.truth.digits import Axis, axes_of, grid_for
from pytest_affine.truth.problems import Finding, located

BY_BOX = {"max_enumerated": 0}


def dot(index, strides):
    return sum(step * stride for step, stride in zip(index, strides, strict=True))


def claims(groups):
    """{address: everything claimed about it}; no address may be in two groups."""
    found = {}
    for group in groups:
        for index in itertools.product(*map(range, group[0].shape)):
            address = group[0].near.at(index)
            assert address not in found
            assert all(block.near.at(index) == address for block in group)
            found[address] = Counter(
                (block.tag, *(far.at(index) for far in block.far)) for block in group
            )
    return found


def random_block(random, tag):
    shape = tuple(random.choice([0, 1, 2, 3, 4, 5, 8]) for _ in range(random.randint(0, 3)))

    def affine():
        return Affine(random.randint(-5, 20), tuple(random.choice(range(13)) for _ in shape))

    near = affine()
    # Packed blocks are what maps have; the others are what a wrong one may have.
    if random.random() < 0.5:
        near = Affine(near.offset, row_major_strides(shape))
    return Block(shape=shape, near=near, far=(affine(), affine()), tag=tag)


@pytest.mark.parametrize("seed", range(8))
def test_boxes_claim_of_every_address_what_elements_claim(seed):
    random = Random(seed)
    for _ in range(40):
        blocks = [random_block(random, tag) for tag in range(random.randint(0, 4))]
        by_element = claims(cut_by_element(blocks))
        assert list(by_element) == sorted(by_element)
        assert claims(cut_by_box(blocks)) == by_element


def test_axes_whose_order_changes_when_they_are_stepped_through_are_placed():
    long = Block(shape=(9,), near=Affine(0, (12,)), tag="long")
    both = Block(shape=(5, 7), near=Affine(0, (2, 3)), tag="both")
    assert claims(cut_by_box([long, both])) == claims(cut_by_element([long, both]))


def test_axes_that_continue_each_other_on_all_sides_are_one():
    near, far = Affine(7, (1, 3, 6)), Affine(0, (2, 6, 99))
    assert axes_of(Block(shape=(3, 2, 5), near=near)) == [Axis(30, 1, ())]
    assert axes_of(Block(shape=(3, 2, 5), near=near, far=(far,))) == [
        Axis(6, 1, (2,)),
        Axis(5, 6, (99,)),
    ]


@pytest.mark.parametrize(
    ("axes", "grid"),
    [
        ([(100, 6), (5, 2)], (1, 2, 6)),
        ([(100, 7), (7, 5)], (1, 7)),
        ([(100, 7), (8, 5)], (1, 7, 35)),
        ([(100, 4), (9, 6), (2, 0)], (1, 4, 12)),
    ],
)
def test_a_grid_takes_a_common_multiple_where_that_saves_boxes(axes, grid):
    assert grid_for(Axis(extent, stride, ()) for extent, stride in axes) == grid


def random_box_axis(random, extent):
    """One axis cut into ranges, of neighbours or of every second or third."""
    if extent > 1 and random.random() < 0.3:
        step = random.randint(2, 3)
        return [range(first, extent, step) for first in range(min(step, extent))]
    cuts = sorted({0, extent, *(random.randint(0, extent) for _ in range(2))})
    return [range(*cut) for cut in itertools.pairwise(cuts)]


def random_map(random, shape):
    """A valid map of boxes in any order and orientation, and {box: its (location, piece)s}."""
    locations = range(random.randint(1, 3))
    axes = [random_box_axis(random, extent) for extent in shape]
    held = {box: [] for box in itertools.product(*axes)}
    shapes, pieces, padding = {}, {}, {}
    holders = {
        box: sorted(random.sample(locations, random.choice([1, 1, len(locations)]))) for box in held
    }
    for location in locations:
        pieces[location], padding[location], size = [], [], 0
        boxes = [box for box in held if location in holders[box]]
        for box in random.sample(boxes, len(boxes)):
            if random.random() < 0.3:
                padding[location].append(Padding((2,), size, (1,)))
                size += 2
            piece = random_piece(random, box, shape, size, holders[box])
            pieces[location].append(piece)
            held[box].append((location, piece))
            size += piece.num_elements
        rows = random.choice([rows for rows in (1, 2, 3, 4) if size % rows == 0])
        shapes[location] = (rows, size // rows) if rows > 1 else (size,)
    return ParamAffineMap(shape, shapes, pieces, padding), held


def random_piece(random, box, shape, offset, holders):
    """The box as a packed block of a shard, its axes in any order."""
    extents, strides, size = tuple(map(len, box)), [0] * len(box), 1
    for axis in random.sample(range(len(box)), len(box)):
        strides[axis], size = size, size * extents[axis]
    full = row_major_strides(shape)
    first = dot((steps.start for steps in box), full)
    steps = tuple(steps.step * stride for steps, stride in zip(box, full, strict=True))
    return AffinePiece(extents, first, steps, offset, strides, holders)


def exact_segments(random, source, target):
    """Copies of what each target box shares with each source box, from any holder."""
    for target_box, holders in target.items():
        for (source_box, sources), (location, piece) in itertools.product(source.items(), holders):
            common = [sorted({*a} & {*b}) for a, b in zip(source_box, target_box, strict=True)]
            if all(common):
                holder, held = random.choice(sources)
                yield copy(
                    tuple(map(len, common)),
                    (holder, *side(common, source_box, held)),
                    (location, *side(common, target_box, piece)),
                )


def side(common, box, piece):
    indices = [
        [steps.index(place) for place in places] for steps, places in zip(box, common, strict=True)
    ]
    offset = piece.shard_offset + dot((steps[0] for steps in indices), piece.shard_strides)
    steps = [steps[1] - steps[0] if len(steps) > 1 else 1 for steps in indices]
    return offset, [a * b for a, b in zip(steps, piece.shard_strides, strict=True)]


def random_case(seed):
    random = Random(seed)
    shape = tuple(random.randint(1, 6) for _ in range(random.randint(0, 3)))
    (source, held), (target, wanted) = random_map(random, shape), random_map(random, shape)
    return random, source, target, list(exact_segments(random, held, wanted))


def nudged(random, value):
    """A number, or one of a tuple's, changed a little."""
    if isinstance(value, int):
        return max(0, value + random.choice([-2, -1, 1, 2, 7]))
    if not value:
        return value
    place = random.randrange(len(value))
    return (*value[:place], nudged(random, value[place]), *value[place + 1 :])


def corrupted(random, things):
    """Two of the segments or pieces dropped, doubled, or changed in one field."""
    things = list(things)
    for _ in range(min(2, len(things))):
        at = random.randrange(len(things))
        thing = things.pop(at)
        fields = [name for name in thing.__dataclass_fields__ if name not in ("scale", "locations")]
        name = random.choice([None, *fields])
        if name is None:
            things += [thing] * random.choice([0, 2])
        else:
            things.insert(at, replace(thing, **{name: nudged(random, getattr(thing, name))}))
    return things


def is_exact_when_carried_out(source, target, segments):
    shards = {location: element_at(source, location) for location in source.locations}
    wanted = {location: element_at(target, location) for location in target.locations}
    written = []
    for segment in segments:
        if 0 in segment.shape:
            return False
        for index in itertools.product(*map(range, segment.shape)):
            read = segment.source_offset + dot(index, segment.source_strides)
            shard = dict(enumerate(shards.get(segment.source_location, ())))
            address = segment.target_offset + dot(index, segment.target_strides)
            written.append((segment.target_location, address, shard.get(read)))
    return Counter(written) == Counter(
        (location, address, element)
        for location, shard in wanted.items()
        for address, element in enumerate(shard)
        if element is not None
    )


def affected(problems, shape_of):
    """{(rule, kind, location): addresses}, and the problems that are about no element."""
    found, rest = {}, []
    for problem in problems:
        if not problem.num_elements:
            rest.append(problem)
            continue
        box = zip(problem.origin, problem.shape, strict=True)
        strides = row_major_strides(shape_of(problem.location))
        key = (problem.rule, problem.kind, problem.location)
        found.setdefault(key, set()).update(
            dot(index, strides)
            for index in itertools.product(*(range(low, low + extent) for low, extent in box))
        )
    return found, rest


def assert_alike(by_element, by_box, shape_of):
    """Equal but for the wrong elements, whose boxes may be larger."""
    (elements, others), (boxes, same_others) = (
        affected(problems, shape_of) for problems in (by_element, by_box)
    )
    assert others == same_others
    assert elements.keys() == boxes.keys()
    for key, addresses in elements.items():
        assert addresses <= boxes[key]
        assert addresses == boxes[key] or key[1] == "wrong element"


@pytest.mark.parametrize("seed", range(80))
def test_random_exact_plans_are_exact_either_way(seed):
    _, source, target, segments = random_case(seed)
    plan = plan_of(source, target, *segments)
    for how in ({}, BY_BOX):
        assert map_problems(source, **how) == ()
        assert plan_problems(plan, source, target, **how) == ()


@pytest.mark.parametrize("seed", range(80))
def test_corrupted_plans_are_judged_alike_and_as_carrying_them_out_shows(seed):
    random, source, target, segments = random_case(seed)
    for _ in range(3):
        wrong = corrupted(random, segments)
        plan = plan_of(source, target, *wrong)
        by_element = plan_problems(plan, source, target)
        assert (by_element == ()) == is_exact_when_carried_out(source, target, wrong)
        assert_alike(by_element, plan_problems(plan, source, target, **BY_BOX), target.shard_shape)


@pytest.mark.parametrize("seed", range(80))
def test_corrupted_maps_are_judged_alike(seed):
    random, map_, _, _ = random_case(seed)
    location = random.choice(map_.locations)
    pieces = dict(map_.pieces_by_location) | {location: corrupted(random, map_.pieces(location))}
    wrong = ParamAffineMap(map_.logical_shape, map_.shard_shapes, pieces, map_.padding_by_location)

    def shape_of(location):
        return wrong.logical_shape if location is None else wrong.shard_shape(location)

    assert_alike(map_problems(wrong), map_problems(wrong, **BY_BOX), shape_of)


def grid_plan(num_locations, extent):
    """Rows to columns: every source location sends a block to every target location."""
    rows, columns = (split_map((extent, extent), num_locations, dim) for dim in (0, 1))
    width = extent // num_locations
    segments = [
        copy(
            (width, width),
            (sender, receiver * width, (extent, 1)),
            (receiver, sender * width * width, (width, 1)),
        )
        for receiver in range(num_locations)
        for sender in range(num_locations)
    ]
    return rows, columns, segments


@contextlib.contextmanager
def within(seconds):
    """A deadline in this process's own time, generous since others may use the machine."""
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds


def test_thousands_of_segments_of_2_to_the_40_elements_are_judged_in_seconds():
    rows, columns, segments = grid_plan(64, 2**20)
    plan = plan_of(rows, columns, *segments)
    with within(seconds=6):
        assert plan_problems(plan, rows, columns) == ()
    one_left_out = plan_of(rows, columns, *segments[:-1])
    (problem,) = plan_problems(one_left_out, rows, columns)
    assert (problem.kind, problem.location) == ("never written", 63)
    assert (problem.origin, problem.shape) == ((2**20 - 2**14, 0), (2**14, 2**14))


def test_a_few_segments_are_judged_well_under_a_second_whatever_their_extents():
    rows, columns, segments = grid_plan(4, 2**60)
    plan = plan_of(rows, columns, *segments)
    with within(seconds=0.5):
        assert plan_problems(plan, rows, columns) == ()


def test_a_thousand_replicas_are_judged_in_seconds():
    everyone = range(1000)
    piece = AffinePiece((2**40,), 0, (1,), 0, (1,), everyone)
    map_ = ParamAffineMap(
        (2**40,), dict.fromkeys(everyone, (2**40,)), {location: [piece] for location in everyone}
    )
    with within(seconds=6):
        assert map_problems(map_) == ()


@pytest.mark.parametrize("exponent", [31, 53, 60])
def test_an_offset_wrong_by_one_is_seen_beyond(exponent):
    rows, columns, segments = grid_plan(2, 2**exponent)
    half = 2 ** (exponent - 1)
    segments[1] = replace(segments[1], source_offset=segments[1].source_offset + 1)
    problems = plan_problems(plan_of(rows, columns, *segments), rows, columns)
    assert [str(problem) for problem in problems] == [
        f"PLAN-SOURCE wrong element: location 0 [{half}:{2 * half}, 0:{half}], {half * half} "
        f"elements; ({half}, 0) at address {half * half}: segment 1 reads logical ({half}, 1) "
        f"instead of ({half}, 0), address 1 of source location 1"
    ]


@pytest.mark.parametrize("size", [2**31 + 8, 2**29 + 8])
def test_f35_halving_beyond_32_bits_is_exact_and_a_wrapped_count_is_not(size):
    whole, halves, half = split_map((size,), 1, 0), split_map((size,), 2, 0), size // 2
    segments = (run(half, (0, 0), (0, 0)), run(half, (0, half), (1, 0)))
    assert plan_problems(plan_of(whole, halves, *segments), whole, halves) == ()
    wrapped = plan_of(whole, halves, *segments, moved_elements=size - 2**32)
    assert [str(problem) for problem in plan_problems(wrapped, whole, halves)] == [
        f"PLAN-ONCE wrong moved_elements: {size - 2**32} instead of {size}"
    ]


def test_a_transposed_square_is_wrong_and_the_example_is_not_on_the_diagonal():
    size = 2**40
    square = split_map((size, size), 1, 0)
    transposed = copy((size, size), (0, 0, (1, size)), (0, 0, (size, 1)))
    (problem,) = plan_problems(plan_of(square, square, transposed), square, square)
    assert str(problem) == (
        f"PLAN-SOURCE wrong element: location 0 [0:{size}, 0:{size}], {size * size} elements; "
        f"(0, 1) at address 1: segment 0 reads logical (1, 0) instead of (0, 1), "
        f"address {size} of source location 0"
    )


def test_strides_that_do_not_divide_each_other_are_judged_by_a_common_multiple():
    rows = 2**30
    triples = split_map((rows, 3), 1, 0)
    stretched = copy((rows, 3), (0, 0, (3, 1)), (0, 0, (4, 1)))
    problems = plan_problems(plan_of(triples, triples, stretched), triples, triples)
    num_elements = Counter()
    for problem in problems:
        num_elements[problem.kind] += problem.num_elements
    # Of every 4 addresses in the shard the last is left out. The first three elements are right,
    # and counted with the box that they are in.
    quadruples = 3 * rows // 4
    assert num_elements["never written"] == quadruples
    assert num_elements["outside the target"] == 3 * (rows - quadruples)
    assert num_elements["wrong element"] == 3 * quadruples


def test_an_interleaved_column_shard_whose_rows_are_no_multiple_of_its_groups_is_judged():
    rows, location = 2**40, (0,)
    groups = AffinePiece((rows, 3, 2), 0, (10, 4, 1), 0, (7, 2, 1), location)
    rest = AffinePiece((rows,), 2, (10,), 6, (7,), location)
    others = [
        AffinePiece((rows,), 3, (10,), 0, (3,), (1,)),
        AffinePiece((rows, 2), 6, (10, 1), 1, (3, 1), (1,)),
    ]
    map_ = ParamAffineMap((rows, 10), {0: (rows, 7), 1: (rows, 3)}, {0: [groups, rest], 1: others})
    assert map_problems(map_) == ()


def test_a_region_of_many_boxes_is_told_by_the_box_around_it():
    rows = 2**20
    columns = split_map((rows, 12), 2, 1)
    flat = ParamAffineMap(
        (rows, 12), {0: (rows * 12,)}, {0: [AffinePiece((rows * 12,), 0, (1,), 0, (1,), (0,))]}
    )
    left = copy((rows, 6), (0, 0, (6, 1)), (0, 0, (12, 1)))
    (problem,) = plan_problems(plan_of(columns, flat, left), columns, flat)
    assert not problem.is_exact
    assert str(problem) == (
        "PLAN-TILE never written: location 0 [6:12582912], some 6291456 elements; "
        "(6,) at address 6: written by no segment"
    )


def test_a_box_that_is_affected_in_part_is_not_joined_with_one_that_is_affected_whole():
    partly = Block(shape=(100,), near=Affine(0, (2,)))
    wholly = Block(shape=(2,), near=Affine(199, (1,)))
    findings = [Finding(rule="R", kind="k", block=block, example="e") for block in (partly, wholly)]
    assert [(p.origin, p.shape, p.is_exact) for p in located(findings, 0, (1000,))] == [
        ((0,), (199,), False),
        ((199,), (2,), True),
    ]


def test_what_is_outside_a_scalar_is_counted():
    scalar = map_of((), {0: 0})
    plan = plan_of(scalar, scalar, run(3, (0, 0), (0, 0)))
    assert [str(problem) for problem in plan_problems(plan, scalar, scalar, **BY_BOX)] == [
        "PLAN-BOUNDS outside the source: location 0 [], some 2 elements; "
        "() at address 1: segment 0 reads outside the shard, address 1 of source location 0",
        "PLAN-BOUNDS outside the target: location 0 [], some 2 elements; "
        "() at address 1: written by segment 0",
    ]


def test_a_block_that_is_no_union_of_few_boxes_is_refused_by_name():
    line = split_map((2**40,), 1, 0)
    repeated = copy((2**40,), (0, 0, (0,)), (0, 0, (1,)))
    with pytest.raises(
        UnsupportedLayoutError,
        match=r"the block of shape \(1099511627776,\) at address 0 with strides \(0,\) is too "
        r"large to enumerate, and it takes more than 1024 boxes of an array of strides \(1,\)",
    ):
        plan_problems(plan_of(line, line, repeated), line, line)


def test_a_block_that_carries_too_often_is_refused_too():
    square = split_map((2**20, 2**20), 1, 0)
    slanted = copy((2**20, 2**20), (0, 0, (2**20, 1)), (0, 0, (1, 1)))
    with pytest.raises(UnsupportedLayoutError, match=r"with strides \(1, 1\) is too large"):
        plan_problems(plan_of(square, square, slanted), square, square)
