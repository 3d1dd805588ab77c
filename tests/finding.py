"""Whether a strategy can draw something, and what the smallest such thing is."""

from random import Random

from hypothesis import Phase, find, settings

MOST = 10_000
"""What is drawn depends on the environment, and something rare may take this many examples."""

EXAMPLES = settings(deadline=None, database=None, derandomize=True, max_examples=25)


def found(strategy, condition):
    """Something drawn that meets a condition; raises `NoSuchExample` if there is none."""
    looking = settings(EXAMPLES, max_examples=MOST, phases=(Phase.generate,))
    return find(strategy, condition, settings=looking, random=Random(0))


def smallest(strategy, condition):
    """The simplest of what meets a condition."""
    looking = settings(EXAMPLES, max_examples=MOST, phases=(Phase.generate, Phase.shrink))
    return find(strategy, condition, settings=looking, random=Random(0))
