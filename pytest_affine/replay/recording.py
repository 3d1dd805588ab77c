"""In a rank: the calls that an adapter makes into the package behind it, as lines of a script."""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pytest_affine.ranks import current_rank
from pytest_affine.replay.spelling import NotSpelledError, Speller

__all__ = ["Call", "read_calls", "record_calls"]

PASSED_OVER = ("torch", "numpy", *sys.stdlib_module_names)
"""Packages whose functions may stand between an adapter and what it calls, as decorators do."""

PROJECT = "pytest_affine"
REFERENCE = "pytest_affine.reference"
"""The package behind the adapter of the reference; nothing else of the project is a package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that an adapter made.

    Attributes:
        lines: of a script, which make the tensors that are new and then the call.
        shown: the variable that has the result, for what is no constructor.
        tensors: the variables of the tensors that are new.
        modules: that the lines need.
    """

    lines: tuple[str, ...]
    shown: str | None
    tensors: tuple[str, ...]
    modules: tuple[str, ...]


def record_calls(adapter_file: str, folder: str) -> None:
    """Write each call from the adapter's file into another package to a file of this rank.

    What a generator or a function of C does is not seen. Called on every rank.
    """
    sys.setprofile(_Recorder(adapter_file, _path(folder, current_rank())))


def read_calls(folder: str, rank: int) -> list[Call]:
    """Read what `record_calls` has written; in any process."""
    path = _path(folder, rank)
    lines = path.read_text().splitlines() if path.exists() else []
    return [Call(**json.loads(line)) for line in lines]


def _path(folder: str, rank: int) -> Path:
    return Path(folder, f"{rank}.jsonl")


class _Recorder:
    """A profile function; it spells arguments at once, as what is called may change them."""

    def __init__(self, adapter_file: str, path: Path) -> None:
        self._adapter_file = adapter_file
        self._path = path
        self._speller = Speller()
        self._num_calls = 0
        self._running: dict[int, tuple[str, FrameType, object]] = {}

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        if event == "return" and id(frame) in self._running:
            name, _, made = self._running.pop(id(frame))
            self._speller.name(value if made is None else made, name)
        elif event == "call" and self._is_seen(frame):
            sys.setprofile(None)  # spelling calls functions too
            try:
                self._record(frame)
            finally:
                sys.setprofile(self)

    def _is_seen(self, frame: FrameType) -> bool:
        code, module = frame.f_code, _module(frame)
        if code.co_name.startswith("<") or code.co_flags & inspect.CO_GENERATOR:
            return False
        if code.co_filename == self._adapter_file or not _is_judged(module):
            return False
        caller = frame.f_back
        while caller is not None and _package(_module(caller)) in PASSED_OVER:
            if _package(_module(caller)) == "importlib":
                return False
            caller = caller.f_back
        return caller is not None and caller.f_code.co_filename == self._adapter_file

    def _record(self, frame: FrameType) -> None:
        self._num_calls += 1
        name, known = f"value_{self._num_calls}", len(self._speller.tensors)
        made = _made(frame)
        self._speller.modules.clear()
        try:
            line, shown = f"{name} = {self._call(frame, made)}", None if made is not None else name
            self._running[id(frame)] = name, frame, made
        except NotSpelledError as error:
            line, shown = f"# {_qualified_name(frame)} was called with {error}", None
        tensors = dict([*self._speller.tensors.items()][known:])
        call = Call(
            lines=(*(f"{key} = {made}" for key, made in tensors.items()), line),
            shown=shown,
            tensors=tuple(tensors),
            modules=tuple(sorted(self._speller.modules)),
        )
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(call)) + "\n")

    def _call(self, frame: FrameType, made: object) -> str:
        spell = self._speller.spell
        positional, keyword = _arguments(frame)
        name = _qualified_name(frame)
        if made is not None:
            callee, positional = self._speller.global_(type(made)), positional[1:]
        elif frame.f_code.co_varnames[:1] in (("self",), ("cls",)):
            callee, positional = f"{spell(positional[0])}.{frame.f_code.co_name}", positional[1:]
        else:
            callee = self._speller.member(_module(frame), name)
        parts = [spell(value) for value in positional]
        parts += [f"{key}={spell(value)}" for key, value in keyword.items()]
        return f"{callee}({', '.join(parts)})"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_judged(module: str) -> bool:
    return module.startswith(REFERENCE) or _package(module) not in (PROJECT, *PASSED_OVER)


def _made(frame: FrameType) -> object:
    """The object that a constructor is to fill, or None for any other function."""
    code = frame.f_code
    return frame.f_locals[code.co_varnames[0]] if code.co_name == "__init__" else None


def _qualified_name(frame: FrameType) -> str:
    code: CodeType = frame.f_code
    return str(getattr(code, "co_qualname", code.co_name))  # Python 3.10 has the name alone


def _arguments(frame: FrameType) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of a call that has just begun."""
    found = inspect.getargvalues(frame)
    num_keyword = frame.f_code.co_kwonlyargcount
    names = found.args[: len(found.args) - num_keyword]
    keywords = found.args[len(names) :]
    positional = [found.locals[name] for name in names]
    positional += found.locals[found.varargs] if found.varargs else ()
    keyword = {name: found.locals[name] for name in keywords}
    return positional, keyword | (found.locals[found.keywords] if found.keywords else {})
