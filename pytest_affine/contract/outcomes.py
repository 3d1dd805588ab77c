"""The outcome of one requirement in one case, and the exceptions that carry one."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_affine.ranks.wire import MissingMessage

__all__ = [
    "AdapterFault",
    "ImplementationFault",
    "Measured",
    "NotObservable",
    "NotRun",
    "Outcome",
    "Record",
    "Withheld",
]


class Outcome(enum.Enum):
    """What became of one requirement in one case."""

    CONFORMANT = "conformant"
    VIOLATED = "violated"
    REFUSED = "refused"
    WITHHELD = "withheld"
    ADAPTER_ERROR = "adapter error"
    NOT_CLAIMED = "not claimed"
    NOT_OBSERVABLE = "not observable"
    NOT_RUN = "not run"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One requirement judged in one case.

    Attributes:
        requirement: its id.
        case: name of the case; "drawn" for cases that Hypothesis drew.
        outcome: what became of it.
        reason: why, where it is not conformant; else a number that was measured, if any.
        core: name of the core shape that the case shows, if it is a core case.
        num_examples: how many inputs stand behind it; more than one for drawn cases.
        num_refused: how many of them were refused.
        num_withheld: how many of them were withheld.
    """

    requirement: str
    case: str
    outcome: Outcome
    reason: str = ""
    core: str | None = None
    num_examples: int = 1
    num_refused: int = 0
    num_withheld: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {**asdict(self), "outcome": self.outcome.value}

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Record:
        """Read what `to_dict` writes."""
        return cls(**{**entry, "outcome": Outcome(entry["outcome"])})


class Withheld(Exception):  # noqa: N818 - an outcome, not an error
    """The adapter withholds this case; the message is its reason."""


class NotRun(Exception):  # noqa: N818 - an outcome, not an error
    """The case can't run here; the message says why."""


class Measured(Exception):  # noqa: N818 - an outcome, not an error
    """The case is conformant, and the message tells a number of it."""


class NotObservable(Exception):  # noqa: N818 - an outcome, not an error
    """What the rule is about left no trace here; the message says what is out of sight."""


class ImplementationFault(AssertionError):  # noqa: N818 - an outcome, not an error
    """The implementation raised what it must not raise; the text holds its traceback."""


class AdapterFault(ImplementationFault):
    """The adapter's own file raised; the resharder behind it was not judged."""


class Death(BaseException):
    """A rank died or ran past its deadline: the test ends here, unshrunk.

    Not an `Exception`, since Hypothesis would run the case over and over to shrink it. `missing`
    are the messages that ranks wait for and that the rank at their other end has not begun.
    """

    def __init__(self, text: str, missing: Sequence[MissingMessage] = ()) -> None:
        super().__init__(text)
        self.missing = missing
