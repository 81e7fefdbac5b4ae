"""Hashes of source files, so that a record says which code it measured."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.campaign.errors import CampaignError

# Every engine is built on these.
FOUNDATION = ("harness.contract", "harness.language", "harness.lowering", "harness.device")
_SUFFIXES = {".py", ".cu", ".cuh", ".h", ".hpp", ".c", ".cpp"}


def source_hash(factories: Iterable[str]) -> str:
    """Return a hash of the source files of the foundation and of the packages that contain the ``package.module:name``.

    Only parent packages are imported. Raises CampaignError for a factory whose module does not exist.
    """
    digest = hashlib.sha256()
    packages = {_package_of(factory.partition(":")[0]) for factory in factories}
    for package in sorted({*packages, *FOUNDATION}):
        digest.update(_hash_of(package).encode())
    return digest.hexdigest()[:32]


def _package_of(module: str) -> str:
    """Return the package to hash for a module: its own, unless it is top-level or directly below one of the
    harness's."""
    parent = module.rpartition(".")[0]
    return module if parent in ("", "harness", "engines", "harness.algorithms") else parent


@functools.cache
def _hash_of(package: str) -> str:
    digest = hashlib.sha256(package.encode())
    for path in _files(package):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(package: str) -> Iterator[Path]:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        if package not in FOUNDATION:
            raise CampaignError(f"module {package!r}, which a plugin names, does not exist; reinstall that plugin")
        return
    for folder in spec.submodule_search_locations or ():
        yield from sorted(path for path in Path(folder).rglob("*") if path.suffix in _SUFFIXES)
    if spec.submodule_search_locations is None and spec.origin is not None:
        yield Path(spec.origin)
