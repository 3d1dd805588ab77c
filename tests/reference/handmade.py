"""Plans written down by hand."""

from collections import deque
from collections.abc import Mapping

from pytest_affine.plans import TransferPlan, TransferSegment


def block(source, target, shape):
    """A segment; each end is (location, offset, strides)."""
    return TransferSegment(
        source_location=source[0],
        source_offset=source[1],
        source_strides=source[2],
        target_location=target[0],
        target_offset=target[1],
        target_strides=target[2],
        shape=shape,
    )


def run(source, target, length):
    """A segment of consecutive elements; each end is (location, offset)."""
    return block((*source, (1,)), (*target, (1,)), (length,))


def plan(*segments, source_sizes=None, target_sizes=None, logical_shape=()):
    moved = sum(segment.num_elements for segment in segments)
    return TransferPlan(segments, logical_shape, source_sizes, target_sizes, moved)


class MadeAnew(Mapping):
    """Plans that are made when asked for, each where the last but one was, if that is not kept."""

    def __init__(self, lengths):
        self._lengths = lengths
        self._made = deque()

    def __getitem__(self, name):
        segment = run((0, 0), (0, 0), self._lengths[name])
        if len(self._made) == 2:
            self._made.popleft()
        self._made.append(plan(segment))
        return self._made[-1]

    def __iter__(self):
        return iter(self._lengths)

    def __len__(self):
        return len(self._lengths)
