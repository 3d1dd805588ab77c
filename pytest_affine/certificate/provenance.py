"""What was judged: the adapter, the package behind it, and the devices."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pytest_affine.certificate.digests import digest_of, file_digest
from pytest_affine.certificate.record import Distribution, Subject
from pytest_affine.certificate.shape import DocumentError
from pytest_affine.contract.resident import Facts
from pytest_affine.ranks import spawn
from pytest_affine.ranks.backends import BACKENDS

__all__ = ["device_names", "subject_of"]

DEVICES_DEADLINE = 120.0


def subject_of(name: str, facts: Facts) -> Subject:
    """What stands behind an implementation's name, as installed here.

    Raises:
        DocumentError: the class names a distribution that is not installed.
    """
    path = Path(facts["file"]) if facts["file"] else None
    return Subject(
        name=name,
        version=facts["version"],
        adapter_file=path.name if path else "",
        adapter_digest=file_digest(path) if path else None,
        distribution=_distribution(facts["distribution"], facts["module"], path),
    )


def _distribution(name: str, module: str, path: Path | None) -> Distribution | None:
    if not name:
        found = _owner(module, path) if path else None
    else:
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise DocumentError(
                f"the implementation's class says distribution = {name!r}, which is not installed"
            ) from None
    if found is None:
        return None
    return Distribution(found.metadata["Name"], found.version, _content_digest(found))


def _owner(module: str, path: Path) -> metadata.Distribution | None:
    """The distribution that a module is from: installed, or editable with its folder around it."""
    for name in metadata.packages_distributions().get(module.partition(".")[0], ()):
        dist = metadata.distribution(name)
        if any(Path(str(dist.locate_file(file))) == path for file in dist.files or ()):
            return dist
    for dist in metadata.distributions():
        root = _editable_root(dist)
        if root is not None and path.resolve().is_relative_to(root):
            return dist
    return None


def _editable_root(dist: metadata.Distribution) -> Path | None:
    text = dist.read_text("direct_url.json")
    origin: dict[str, Any] = json.loads(text) if text else {}
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(url2pathname(urlsplit(origin["url"]).path)).resolve()


def _content_digest(dist: metadata.Distribution) -> str | None:
    """Digest of a distribution's code: Python files as they are, others as they were installed.

    Of an editable one: of every Python file below its source folder. None where nobody can say.
    """
    root = _editable_root(dist)
    files = list(_installed(dist) if root is None else _sources(root))
    return digest_of(sorted(files)) if files else None


def _installed(dist: metadata.Distribution) -> Iterator[tuple[str, str]]:
    for file in dist.files or ():
        # What stands outside, and the metadata, depend on where and how it was installed.
        if ".." in file.parts or file.parts[0].endswith((".dist-info", ".egg-info")):
            continue
        path = Path(str(dist.locate_file(file)))
        if file.suffix == ".py" and path.is_file():
            yield file.as_posix(), file_digest(path)
        elif file.hash is not None:
            yield file.as_posix(), f"{file.hash.mode}={file.hash.value}"


def _sources(root: Path) -> Iterator[tuple[str, str]]:
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if _is_source(Path(folder, name))]
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            yield path.relative_to(root).as_posix(), file_digest(path)


def _is_source(folder: Path) -> bool:
    return not folder.name.startswith(".") and not (folder / "pyvenv.cfg").exists()


def device_names(backend: str) -> tuple[str, ...]:
    """Names of the devices that ranks on this backend can have here, each once."""
    if not BACKENDS[backend].needs_devices:
        return ("cpu",)
    device_type = BACKENDS[backend].device_type
    names = spawn(_named_by_torch, device_type, hash_seed=0, deadline=DEVICES_DEADLINE)
    return _each_once(names)


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _named_by_torch(device_type: str) -> list[str]:
    import torch

    module = torch.get_device_module(device_type)
    return [module.get_device_name(index) for index in range(module.device_count())]
