"""What happens in a rank when a test's function runs there, and the values that travel for it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from pytest_affine.ranks import current_rank, device, device_id
from pytest_affine.ranks.failures import text_of
from pytest_affine.ranks.pickling import REDUCERS

__all__ = ["PER_RANK", "PerRank", "RankWarning", "Scene", "Warned", "perform"]


@dataclass(frozen=True, slots=True)
class Scene:
    """What of the controller's session is in force in the ranks.

    `filters` are its warning filters, as `warnings.filters` has them.
    """

    filters: Sequence[Any]
    verbosity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWarning:
    """A warning that a rank gave: text, category, and where."""

    text: str
    category: type[Warning]
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Warned:
    """The value of a function that gave warnings."""

    value: Any
    warnings: tuple[RankWarning, ...]


def perform(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], scene: Scene
) -> Any:
    """Run the function; its value, which is wrapped in `Warned` if it gave warnings.

    Of a function that raises the warnings are printed, for output is kept whatever happens. Every
    rank calls it.
    """
    __tracebackhide__ = True
    from pytest_affine.multirank.stage import STAGE

    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.filters = scene.filters
            value = STAGE.play(functools.partial(function, *args, **kwargs), scene.verbosity)
    except BaseException:
        for each in caught:
            warnings.showwarning(each.message, each.category, each.filename, each.lineno)
        raise
    return Warned(value, tuple(map(_kept, caught))) if caught else value


def _kept(warning: warnings.WarningMessage) -> RankWarning:
    return RankWarning(
        text=text_of(warning.message) if isinstance(warning.message, Warning) else warning.message,
        category=warning.category,
        file=warning.filename,
        line=warning.lineno,
    )


class PerRank:
    """Stands in the controller for a value that every rank has of its own.

    When it arrives in a rank it becomes that value, be it alone or within another.
    """

    def __init__(self, name: str, source: Callable[[], Any]) -> None:
        self._name = name
        self._source = source

    def __repr__(self) -> str:
        """The name, and that there is no value here."""
        return f"<{self._name}: each rank has its own>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrive as what the source gives there."""
        return self._source, ()


def _world_size() -> int:
    import torch.distributed as dist

    return dist.get_world_size()


def _wire() -> ModuleType:
    from pytest_affine.ranks import tap

    return tap


PER_RANK = {
    "affine_rank": PerRank("affine_rank", current_rank),
    "affine_world_size": PerRank("affine_world_size", _world_size),
    "affine_device": PerRank("affine_device", device),
    "affine_device_id": PerRank("affine_device_id", device_id),
    "affine_wire": PerRank("affine_wire", _wire),
}
"""Values of fixtures, by name."""


def _outcome(name: str, text: str) -> BaseException:
    error: BaseException = getattr(pytest, name).Exception(text)
    return error


def _reduce_outcome(name: str, error: BaseException) -> tuple[Any, ...]:
    return _outcome, (name, text_of(error))


# pytest's outcomes call themselves builtins, where nobody finds them again. And what marks hold
# often can't travel, and is of no use in ranks.
for _name in ("skip", "fail", "xfail", "exit"):
    REDUCERS[getattr(pytest, _name).Exception] = functools.partial(_reduce_outcome, _name)
REDUCERS[pytest.Mark] = lambda mark: (str, (mark.name,))
