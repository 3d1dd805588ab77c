"""One mutant: a fault, and the requirement whose tests must notice it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Mutant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A fault that the suite must notice.

    The fault is a subclass of `Implementation` that calls `super()` and gets something wrong.
    One that derives from `Implementation` itself is laid over whatever is certified: it stands
    before that class in the method resolution order, so that `super()` is the implementation. One
    that derives from `pytest_affine.adapters.reference.Reference` is for the reference alone; it
    may also replace internals of the reference in its `__init__`, as ranks do not outlive it.

    Attributes:
        id: words with hyphens, such as "plan-drops-the-last-segment".
        requirement: id of the requirement whose tests must notice it.
        sentence: what it gets wrong.
        fault: `module:class`, imported in the ranks.
        origin: where the fault is from: an id of the table of known faults, or a link.
        hangs: it is noticed by the deadline of a call.
        raises: it is noticed by what it raises, or by the end of a rank.
        also: requirements that may notice it where its own does not.
        equivalent: why no test can tell it from what is right, as reviewed; empty for all others.
    """

    id: str
    requirement: str
    sentence: str
    fault: str
    origin: str = ""
    hangs: bool = False
    raises: bool = False
    also: tuple[str, ...] = ()
    equivalent: str = ""
