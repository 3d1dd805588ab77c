"""The edge: reading and writing the files that the rest works on as values."""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from pytest_affine.certificate.shape import DocumentError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["read_text", "read_toml", "remove_old", "today", "write_atomically"]


def today() -> date:
    """The day in UTC, in which all certificates count."""
    return datetime.now(timezone.utc).date()


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        DocumentError: it can't be read, or is no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"{path} can not be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path} is no text in UTF-8: {error}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file says.

    Raises:
        DocumentError: it can't be read, or is no TOML.
    """
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # too many digits or levels too
        raise DocumentError(f"{path} is no TOML: {error}") from None


def remove_old(path: Path) -> None:
    """Make room for a file that will be written later; nobody can take an old one for it.

    Raises:
        DocumentError: no file can be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DocumentError(f"{path} can not be written: {error.strerror}") from None


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is never seen in part.

    Raises:
        DocumentError: it can't be written; what was there before is as it was.
    """
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            Path(beside).chmod(0o666 & ~_umask())
            os.replace(beside, path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise DocumentError(f"{path} can not be written: {error.strerror}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
