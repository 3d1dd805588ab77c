"""Whether a function left its rank as it found it: what the rank knows of that."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed import distributed_c10d

from pytest_affine.ranks import tap
from pytest_affine.ranks.idle import Leftovers

_Surroundings = tuple[tuple[str, ...], dict[str, object]]


class Watch:
    """Begun in a rank before each call, it tells after it what was left behind."""

    def __init__(self) -> None:
        self._record = tap.record()
        self.begin()

    def begin(self) -> None:
        """A call begins."""
        self._record.begin()
        self._before = _surroundings()

    def idle_problems(self) -> list[str]:
        """What the call left behind, as far as this rank alone can know."""
        events = self._record.left_unfinished()
        found = [
            f"nobody waited for the end of {event}" for event in events if event.kind != "send"
        ]
        after = _surroundings()
        return found if after == self._before else found + _changes(self._before, after)

    def leftovers(self) -> Leftovers | None:
        """What the controller needs in order to say what was left behind; None if nothing was done.

        That is so after most calls, and spares them the pickling.
        """
        problems, collectives = self.idle_problems(), self._record.collectives()
        if not problems and not collectives and not any(self._record.page.counts()):
            return None
        traffic = self._record.traffic()
        return Leftovers(
            problems=tuple(problems),
            sent=tuple(each.sent_messages for each in traffic),
            asked=tuple(each.asked_messages for each in traffic),
            sent_bytes=tuple(each.sent_bytes for each in traffic),
            asked_bytes=tuple(each.received_bytes for each in traffic),
            collectives=collectives,
        )


def _surroundings() -> _Surroundings:
    """The names of the process groups, and what else a function must not change."""
    modules: tuple[Any, ...] = (torch.cuda, torch.xpu)
    in_use = [module for module in modules if module.is_initialized()]
    return tuple(distributed_c10d._world.pg_names.values()), {
        "current device": in_use[0].current_device() if in_use else 0,
        "default device": torch.get_default_device(),
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
    }


def _changes(before: _Surroundings, after: _Surroundings) -> list[str]:
    (names_before, before_values), (names, values) = before, after
    ranks: dict[str, list[int]] = {
        name: [*distributed_c10d._world.pg_group_ranks[group]]
        for group, name in distributed_c10d._world.pg_names.items()
    }
    found = [
        f"process group {name} of ranks {ranks[name]} was not destroyed"
        for name in names
        if name not in names_before
    ]
    found += [f"process group {name} was destroyed" for name in names_before if name not in names]
    return found + [
        f"the {what} was changed from {before_values[what]} to {value}"
        for what, value in values.items()
        if value != before_values[what]
    ]
