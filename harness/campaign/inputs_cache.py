"""Inputs on disk, for the other cells of a problem: inputs that take long to make are made once and then mapped.

    CACHE/inputs/KEY/   inputs.json, with a digest of each array and of itself, and one .npy file per array

Inputs are a function of the algorithm with its parameters, of its source, of the graph and of k; together these are the
key. The process that computes a reference makes the inputs again, so that inputs that differ each time are noticed.
Folders are written under temporary names and renamed. Nothing is unpickled. Everything may be deleted at any time.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.cache import cache_folder, filling_cache
from harness.campaign.cell import digest
from harness.graph.adjacency import frozen
from harness.graph.digest import array_digests, text_digest
from harness.language import Inputs

LAYOUT = 4  # incremented whenever the format of the folders changes
LEAST_S = 0.5  # inputs that are made faster are not stored: reading and checking them takes about as long
MOST_BYTES = 20_000_000_000  # of all folders; the least recently used ones are removed
MOST_SHARE = 0.25  # of the free space of the disk, for new inputs
_HEAD = "inputs.json"
logger = logging.getLogger(__name__)


Hashed = tuple[Inputs, str]  # inputs with their hash (:func:`with_hash`)


def inputs_for(key_parts: Sequence[object], make: Callable[[], Inputs]) -> Hashed:
    """Return the inputs with the key ``key_parts`` and their hash: mapped from the cache, else those of ``make``.

    These are stored if making them takes long, and copied otherwise. All arrays are read-only. The digests of mapped
    arrays are checked. Raises CacheError if the cache cannot be written. A damaged folder is made again, with a warning
    in the log.
    """
    folder = cache_folder() / "inputs" / digest([LAYOUT, np.__version__, *key_parts])[:32]
    found = _known(folder)
    if found is not None:
        return found
    with filling_cache():
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_suffix(".lock").open("a")
    with lock:  # other processes that need the same inputs wait, then find them
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _known(folder)
        if found is not None:
            return found
        began = time.perf_counter()
        made = make()
        if time.perf_counter() - began >= LEAST_S and _storable(made, folder.parent):
            with filling_cache():
                _store(made, folder)
                _remove_old(folder.parent, folder)
            found = _known(folder)
        return found or with_hash(read_only(made))


def read_only(inputs: Inputs) -> Inputs:
    """Return inputs with read-only copies of the arrays, in read-only mappings."""
    properties = {name: frozen(np.array(array)) for name, array in inputs.properties.items()}
    return Inputs(MappingProxyType(properties), MappingProxyType(dict(inputs.parameters)))


def with_hash(inputs: Inputs) -> Hashed:
    """Return inputs with the hash of their names, dtypes, shapes and values."""
    return inputs, _hash(inputs, _digests(inputs))


def _digests(inputs: Inputs) -> dict[str, str]:
    return array_digests({name: np.asarray(array) for name, array in inputs.properties.items()})


def _hash(inputs: Inputs, digests: Mapping[str, str]) -> str:
    return text_digest([sorted(digests.items()), sorted(inputs.parameters.items())])


def _known(folder: Path) -> Hashed | None:
    """Return the inputs in a folder, or None if it is missing or damaged."""
    if not (folder / _HEAD).is_file():
        return None
    try:
        found = _opened(folder)
        os.utime(folder)  # the time of the last use
        return found
    except FileNotFoundError:
        return None  # removed by another process
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s: the cached inputs cannot be opened (%s); making them again", folder, error)
        return None


def _opened(folder: Path) -> Hashed:
    head = json.loads((folder / _HEAD).read_text(encoding="utf-8"))
    if head.pop("digest") != text_digest(head):
        raise ValueError(f"{folder / _HEAD} has changed since it was written")
    arrays = {name: np.load(folder / file["file"], mmap_mode="r") for name, file in head["arrays"].items()}
    digests = array_digests(arrays)
    for name, found in digests.items():
        if found != head["arrays"][name]["digest"]:
            raise ValueError(f"{folder / head['arrays'][name]['file']} ({name}) has changed since it was written")
    properties: dict[str, NDArray[Any]] = {name: frozen(array) for name, array in arrays.items()}
    inputs = Inputs(MappingProxyType(properties), MappingProxyType(head["parameters"]))
    return inputs, _hash(inputs, digests)


def _storable(inputs: Inputs, folder: Path) -> bool:
    """Return whether parameters keep their values in JSON, and the arrays fit the cache."""
    size = sum(np.asarray(array).nbytes for array in inputs.properties.values())
    if size > min(MOST_BYTES, MOST_SHARE * shutil.disk_usage(folder).free):
        return False
    plain = dict(inputs.parameters)
    return all(isinstance(value, (bool, int, float)) for value in plain.values()) and json.loads(_text(plain)) == plain


def _text(data: object) -> str:
    return json.dumps(data, sort_keys=True)


def _store(inputs: Inputs, folder: Path) -> None:
    temporary = Path(tempfile.mkdtemp(prefix="writing-", dir=folder.parent))
    try:
        arrays = {name: np.asarray(array) for name, array in inputs.properties.items()}
        digests = _digests(inputs)
        files = {}
        for number, (name, array) in enumerate(arrays.items()):
            np.save(temporary / f"{number}.npy", array, allow_pickle=False)
            files[name] = {"file": f"{number}.npy", "digest": digests[name]}
        head: dict[str, Any] = {"layout": LAYOUT, "parameters": dict(inputs.parameters), "arrays": files}
        (temporary / _HEAD).write_text(_text(head | {"digest": text_digest(head)}), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_old(parent: Path, kept: Path) -> None:
    """Remove the least recently used folders beyond ``MOST_BYTES``; processes that have mapped them keep the data.

    Other processes may remove folders at the same time.
    """
    found = []
    for folder in parent.iterdir():
        with suppress(FileNotFoundError, NotADirectoryError):
            used = folder.stat().st_mtime, sum(file.stat().st_size for file in folder.iterdir())
            if (folder / _HEAD).is_file():
                found.append((folder == kept, *used, folder))
    total = 0
    for _, _, size, folder in sorted(found, reverse=True):
        total += size
        if total > MOST_BYTES and folder != kept:
            shutil.rmtree(folder, ignore_errors=True)
