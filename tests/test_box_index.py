from itertools import product
from random import Random

import pytest

from pytest_affine.box_index import BoxIndex
from pytest_affine.geometry import PlacedBox, overlap


def box(origin, shape):
    return PlacedBox(origin, shape, 0, (0,) * len(shape))


def pieces_of(random, origin, shape):
    """A box cut in two again and again, at random."""
    wide = [axis for axis, extent in enumerate(shape) if extent > 1]
    if not wide or random.random() < 0.1:
        return [box(origin, shape)]
    axis = random.choice(wide)
    at = random.randint(1, shape[axis] - 1)
    halves = ((0, at), (at, shape[axis] - at))
    return [
        part
        for start, extent in halves
        for part in pieces_of(
            random,
            (*origin[:axis], origin[axis] + start, *origin[axis + 1 :]),
            (*shape[:axis], extent, *shape[axis + 1 :]),
        )
    ]


def grid(*lengths):
    return [box(index, (1,) * len(lengths)) for index in product(*map(range, lengths))]


def staircase(length):
    """Strips of ever shorter rows and columns: every cut sets only one of them apart."""
    for at in range(length):
        yield box((at, at), (1, length - at))
        if at + 1 < length:
            yield box((at + 1, at), (length - at - 1, 1))


def pinwheels(length):
    """Four boxes around a fifth, which no cut sets apart, side by side in both directions."""
    for row, column in product(range(0, 3 * length, 3), repeat=2):
        for (down, right), shape in (
            ((0, 0), (1, 2)),
            ((0, 2), (2, 1)),
            ((2, 1), (1, 2)),
            ((1, 0), (2, 1)),
            ((1, 1), (1, 1)),
        ):
            yield box((row + down, column + right), shape)


def brickwork(length):
    """Rows of bricks, each half a brick further along than the one before."""
    for row in range(length):
        for column in range(length):
            yield box((row, 2 * column + row % 2), (1, 2))


def pinwheel(length):
    """Four arms around a grid: no cut sets anything apart."""
    arms = [((0, 0), (1, length + 1)), ((0, length + 1), (length + 1, 1))]
    arms += [((length + 1, 1), (1, length + 1)), ((1, 0), (length + 1, 1))]
    inner = [box((row + 1, column + 1), (1, 1)) for row, column in product(range(length), repeat=2)]
    return [*(box(*arm) for arm in arms), *inner]


TILINGS = {
    "none": [],
    "a scalar": [box((), ())],
    "a grid of 3 axes": grid(4, 3, 5),
    "a staircase": list(staircase(20)),
    "pinwheels": list(pinwheels(4)),
    "a large pinwheel": pinwheel(10),
    "brickwork": list(brickwork(8)),
    **{f"random, {seed}": pieces_of(Random(seed), (0, 0, 0), (6, 6, 6)) for seed in range(20)},
}


@pytest.mark.parametrize("boxes", TILINGS.values(), ids=TILINGS)
def test_every_box_that_meets_another_is_found(boxes):
    index, random = BoxIndex(boxes), Random(0)
    for _ in range(30 if boxes else 0):
        first, second = random.choice(boxes), random.choice(boxes)
        origin = tuple(map(min, first.origin, second.origin))
        stop = map(max, first.stop, second.stop)
        wanted = box(origin, tuple(a - b for a, b in zip(stop, origin, strict=True)))
        met = {at for at, other in enumerate(boxes) if overlap(wanted, other)}
        found = index.find(wanted.origin, wanted.shape)
        assert met <= set(found)
        assert len(found) == len(set(found))


@pytest.mark.parametrize("boxes", TILINGS.values(), ids=TILINGS)
def test_boxes_that_touch_are_disjoint_and_one_more_anywhere_overlaps(boxes):
    assert BoxIndex(boxes).is_disjoint()
    for other in Random(0).sample(boxes, min(len(boxes), 10)):
        assert not BoxIndex([*boxes, other]).is_disjoint()


RANGES = ((0, 6), (1, 3))


def test_overlaps_are_seen_as_by_comparing_all_pairs():
    random, answers = Random(0), []
    for _ in range(500):
        boxes = [
            box(*(tuple(random.randint(least, most) for _ in range(2)) for least, most in RANGES))
            for _ in range(random.randint(2, 9))
        ]
        pairs = [(a, b) for at, a in enumerate(boxes) for b in boxes[:at]]
        answers.append(BoxIndex(boxes).is_disjoint())
        assert answers[-1] == (not any(overlap(*pair) for pair in pairs))
    assert 50 < sum(answers) < 450


LARGE = {
    "a line": grid(4096),
    "a grid": grid(64, 64),
    "a cube": grid(16, 16, 16),
    "a staircase": list(staircase(2048)),
    "pinwheels": list(pinwheels(28)),
    "a large pinwheel": pinwheel(64),
    "brickwork": list(brickwork(64)),
}


@pytest.mark.parametrize("boxes", LARGE.values(), ids=LARGE)
def test_a_query_looks_at_few_boxes_that_it_does_not_meet(boxes):
    index = BoxIndex(boxes)
    assert index.is_disjoint()
    found = [len(index.find(each.origin, each.shape)) for each in boxes]
    assert sum(found) <= 6 * len(boxes)
