"""Digests of values, files, and of the suite that is installed here."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pytest_affine.sync import canonical_json

__all__ = ["digest_of", "file_digest", "suite_digest"]

DECIDING = ("conformance", "contract", "fixtures", "strategies", "truth")
"""Folders of the package that decide what is right."""


def digest_of(value: object) -> str:
    """Digest of a JSON value, however it is written."""
    return _digest(canonical_json(value).encode())


def file_digest(path: Path) -> str:
    """Digest of a file's bytes."""
    return _digest(path.read_bytes())


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def suite_digest() -> str:
    """Digest of what decides: the suite, its cases, the contract, the oracle, what is drawn."""
    root = Path(__file__).parents[1]
    found = (path for name in DECIDING for path in (root / name).rglob("*"))
    files = (path for path in found if path.suffix in (".py", ".json"))
    named = ((path.relative_to(root).as_posix(), file_digest(path)) for path in files)
    return digest_of(sorted(named))
