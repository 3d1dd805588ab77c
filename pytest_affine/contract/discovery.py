"""Finding an implementation by the name it is registered under, or by `module:attribute`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

from pytest_affine.contract.implementation import Implementation

__all__ = ["GROUP", "DiscoveryError", "find_implementation", "known_implementations"]

GROUP = "pytest_affine.implementations"


class DiscoveryError(ValueError):
    """No implementation could be had under a name; says why, and what the choices are."""


def known_implementations() -> tuple[str, ...]:
    """The names that installed packages register, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def find_implementation(name: str, search_path: Sequence[str] = ()) -> type[Implementation]:
    """Import the implementation called `name`.

    Args:
        name: a registered name, or `module:attribute`.
        search_path: folders to look in for modules, after those already known.

    Raises:
        DiscoveryError: unknown name, failing import, or not a subclass of `Implementation`.
    """
    sys.path.extend(folder for folder in search_path if folder not in sys.path)
    entry = _entry_point(name)
    try:
        found = entry.load()
    except Exception as error:
        raise DiscoveryError(
            f"implementation {name!r} ({entry.value}) cannot be imported: "
            f"{type(error).__name__}: {error}{_hint(entry)}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Implementation)):
        raise DiscoveryError(
            f"implementation {name!r} ({entry.value}) must be a subclass of "
            f"pytest_affine.Implementation, got {found!r}"
        )
    return found


def _entry_point(name: str) -> EntryPoint:
    registered = list(entry_points(group=GROUP, name=name))
    if registered:
        return registered[0]
    if not re.fullmatch(r"\w+(\.\w+)*:\w+(\.\w+)*", name):
        raise DiscoveryError(
            f"unknown implementation {name!r}; the known ones are "
            f"{', '.join(known_implementations())}; or give module:attribute"
        )
    return EntryPoint(name=name, value=name, group=GROUP)


def _hint(entry: EntryPoint) -> str:
    dist = entry.dist
    if dist is None or entry.name not in (dist.metadata.get_all("Provides-Extra") or ()):
        return ""
    return f'; install it with: pip install "{dist.metadata["Name"]}[{entry.name}]"'
