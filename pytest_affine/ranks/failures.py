"""What went wrong on ranks: one exception that holds every rank's failure and names the first."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal

from pytest_affine.ranks.wire import MissingMessage

Kind = Literal[
    "exception", "exit", "signal", "deadline", "stopped", "lost", "unpicklable", "left behind"
]
"""How a rank failed.

`exception`: the function raised. `exit`: the process exited, or `sys.exit` was called. `signal`: a
signal killed it. `deadline`: no answer in time. `stopped`: busy when another rank had failed, so
that it was killed. `lost`: its fork server went away. `unpicklable`: function or result could not
cross between processes. `left behind`: the function succeeded, but left the rank in another state
than it found it in.
"""

_LINE_LENGTH = 200


class RankSetupError(ValueError):
    """The ranks that were asked for cannot be had here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankError:
    """How one rank failed.

    `exception` is the original one if it pickles both ways, else None. `current_call` is the
    message or collective that the rank was in, or that raised. `left_behind` tells what the
    function left in the rank, if it answered.
    """

    kind: Kind
    message: str
    type_name: str = ""
    traceback: str = ""
    innermost_file: str = ""
    output: str = ""
    current_call: str = ""
    left_behind: tuple[str, ...] = ()
    exception: BaseException | None = field(default=None, compare=False)

    @property
    def summary(self) -> str:
        """One line: what happened, without the rank."""
        text = self.message
        if self.kind == "exception":
            text = f"{self.type_name}: {text}" if text else self.type_name
        line = text.partition("\n")[0]
        if self.kind == "left behind":
            return line
        return line if len(line) <= _LINE_LENGTH else line[: _LINE_LENGTH - 3] + "..."

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle everything, the exception only if that goes well."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["exception"] = _picklable(self.exception)
        return partial(RankError, **values), ()


class RankFailure(Exception):  # noqa: N818
    """A call that did not succeed on every rank.

    `failures` holds the ranks that failed, `first` is the rank of the first bad event, which made
    the others fail or wait; `names` says what each rank is called in the message; `waits` are lines
    that tell who waits for whom; `missing` are the messages that ranks wait for and that the rank
    at their other end has not begun.
    """

    def __init__(
        self,
        failures: dict[int, RankError],
        first: int,
        names: dict[int, str],
        waits: Sequence[str] = (),
        missing: Sequence[MissingMessage] = (),
    ) -> None:
        super().__init__(failures, first, names, waits, missing)
        self.failures = failures
        self.first = first
        self.names = names
        self.waits = waits
        self.missing = missing

    @property
    def cause(self) -> RankError:
        """The failure of the rank that failed first."""
        return self.failures[self.first]

    def __str__(self) -> str:
        """The first rank and its cause at length, who waits, and a line for each other rank."""
        name, cause = self.names[self.first], self.cause
        parts = [f"{name}: {cause.summary}"]
        if cause.traceback:
            parts.append(cause.traceback.rstrip())
        if cause.output.strip():
            parts.append(f"output of {name}:\n{cause.output.rstrip()}")
        if self.waits:
            parts.append("\n  ".join(["on the wire:", *self.waits]))
        others = [rank for rank in sorted(self.failures) if rank != self.first]
        if others:
            parts.append("\n".join(["consequences:", *map(self._line, others)]))
        return "\n\n".join(parts)

    def _line(self, rank: int) -> str:
        error = self.failures[rank]
        call = f", in {error.current_call}" if error.current_call else ""
        return f"  {self.names[rank]}: {error.summary}{call}"


def type_name(kind: type) -> str:
    """The qualified name of a class; builtins go without their module."""
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def text_of(error: BaseException) -> str:
    """The text of an exception, whatever its `__str__` does."""
    try:
        return str(error)
    except Exception:
        return "(it cannot be printed)"


def describe(error: BaseException) -> str:
    """An exception with its type, as the last line of a traceback has it."""
    return f"{type_name(type(error))}: {text_of(error)}"


def _picklable(exception: BaseException | None) -> BaseException | None:
    try:
        pickle.loads(pickle.dumps(exception))
    except Exception:
        return None
    return exception
