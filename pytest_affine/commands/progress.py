"""A progress bar, where there is a terminal to show it and tqdm to draw it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, TypeVar

__all__ = ["Bar"]

Item = TypeVar("Item")


class Bar:
    """Counts on stderr what is done of `total`; without terminal or tqdm it shows nothing."""

    def __init__(self, total: int) -> None:
        self._bar: Any = None
        if sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                self._bar = import_module("tqdm").tqdm(total=total, leave=False)

    def begin(self, what: str) -> None:
        """Say what is done next."""
        if self._bar is not None:
            self._bar.set_description(what)

    def advance(self, count: int = 1) -> None:
        """Count what has been done."""
        if self._bar is not None:
            self._bar.update(count)

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, each counted when the next one is asked for."""
        for item in items:
            yield item
            self.advance()

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._bar is not None:
            self._bar.close()
