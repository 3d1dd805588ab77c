"""The mutants that there are, and those that were asked for."""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points

from pytest_affine.contract.manifest import REQUIREMENTS
from pytest_affine.mutants.mutant import Mutant

__all__ = ["GROUP", "MutantListError", "chosen_mutants", "known_mutants"]

GROUP = "pytest_affine.mutants"


class MutantListError(ValueError):
    """Mutants can't be had as they are registered or asked for; says why."""


def known_mutants(search_path: Sequence[str], asked: Iterable[str]) -> tuple[Mutant, ...]:
    """The catalogue, what installed packages register, and each `module:attribute` of `asked`.

    Raises:
        MutantListError: what is registered can't be imported or is no list of mutants; two mutants
            have one id; or one names a requirement that there isn't.
    """
    from pytest_affine.mutants.catalogue import CATALOGUE

    sys.path.extend(folder for folder in search_path if folder not in sys.path)
    entries = {entry.value: entry for entry in sorted(entry_points(group=GROUP))}
    entries |= {name: _entry(name) for name in asked if ":" in name}
    mutants = (*CATALOGUE, *(mutant for entry in entries.values() for mutant in _held(entry)))
    _check(mutants)
    return mutants


def chosen_mutants(mutants: Sequence[Mutant], asked: Sequence[str]) -> dict[str, str]:
    """By id of each mutant that is asked for, what asks for it; all of them if nothing is asked.

    Raises:
        MutantListError: an unknown id, with the closest ones.
    """
    ids = [mutant.id for mutant in mutants]
    chosen = {} if asked else {id_: id_ for id_ in ids}
    for name in asked:
        if ":" in name:
            chosen |= {mutant.id: name for mutant in _held(_entry(name))}
        elif name in ids:
            chosen[name] = name
        else:
            close = difflib.get_close_matches(name, ids, n=5, cutoff=0.4)
            hint = f", of which the closest are {', '.join(close)}" * bool(close)
            raise MutantListError(
                f"unknown mutant {name!r}; there are {len(ids)}{hint}; or give module:attribute"
            )
    return chosen


def _entry(name: str) -> EntryPoint:
    return EntryPoint(name=name, value=name, group=GROUP)


def _held(entry: EntryPoint) -> Iterator[Mutant]:
    try:
        held = tuple(entry.load())
    except Exception as error:
        raise MutantListError(
            f"mutants {entry.name!r} ({entry.value}) cannot be had: {type(error).__name__}: {error}"
        ) from error
    for mutant in held:
        if not isinstance(mutant, Mutant):
            raise MutantListError(
                f"mutants {entry.name!r} ({entry.value}) must hold values of "
                f"pytest_affine.mutants.Mutant, got {mutant!r}"
            )
        yield mutant


def _check(mutants: Sequence[Mutant]) -> None:
    for id_, count in Counter(mutant.id for mutant in mutants).items():
        if count > 1:
            raise MutantListError(f"{count} mutants have the id {id_!r}; each needs its own")
    for mutant in mutants:
        for id_ in (mutant.requirement, *mutant.also):
            if id_ not in REQUIREMENTS:
                raise MutantListError(
                    f"mutant {mutant.id!r} names {id_!r}, which is no requirement of the manifest: "
                    f"{', '.join(REQUIREMENTS)}"
                )
