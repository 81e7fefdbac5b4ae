"""Cache of built graphs on disk: folders of .npy files that a process memory-maps in milliseconds.

    CACHE/graphs/CONTENT_HASH/   graph.json and one .npy file per array: CSR, CSC, weights, labels, data; graph.json
                                 holds facts of the graph, and a digest of each array and of itself, which are checked
                                 whenever the graph is opened
    CACHE/entries/KEY.json       requested key -> content hash, name and meta

CACHE is `harness.cache.cache_folder()`. Folders and entries are written under temporary names and renamed, so a reader
finds a complete one or none. Nothing is ever unpickled. Everything in CACHE may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.atomic_write import write_whole
from harness.cache import cache_folder, filling_cache
from harness.facts import Degrees
from harness.graph.adjacency import Adjacency, Array, frozen
from harness.graph.digest import array_digests, text_digest
from harness.graph.errors import GraphError
from harness.graph.graph import Graph

LAYOUT = 4  # incremented whenever the format of the folders changes
_DEGREES = ("in_degrees", "out_degrees")  # summaries of them, in graph.json
logger = logging.getLogger(__name__)


def cached(key_parts: Sequence[object], builder: Callable[[], Graph]) -> Graph:
    """Return the graph with the key `key_parts` (plain JSON data), mapped from the cache; else build it with `builder`.

    Raises CacheError if the cache cannot be written, and GraphError if the key is not plain JSON data. A damaged entry
    is rebuilt, with a warning in the log.
    """
    entry = _entry(key_parts)
    found = _known(entry)
    if found is not None:
        return found
    with _building(entry):  # other processes that need it wait, then find it
        return _known(entry) or _built(entry, key_parts, builder)


def fill(key_parts: Sequence[object], builder: Callable[[], Graph]) -> None:
    """Build the graph and store it like :func:`cached`, unless the cache has an entry, which is not opened."""
    if not _entry(key_parts).is_file():
        cached(key_parts, builder)


def _entry(key_parts: Sequence[object]) -> Path:
    """Return the file of the entry with a key. Raises GraphError if the key is not plain JSON data."""
    try:
        text = json.dumps([LAYOUT, _code_digest(), list(key_parts)], sort_keys=True)
    except TypeError as error:
        raise GraphError(f"{key_parts!r} cannot be a cache key ({error}); give plain numbers and text") from error
    return cache_folder() / "entries" / f"{hashlib.blake2b(text.encode(), digest_size=20).hexdigest()}.json"


def _known(entry: Path) -> Graph | None:
    """Return the graph of an entry, or None if it is missing or damaged."""
    if not entry.is_file():
        return None
    try:
        return _open_entry(entry)
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s: the cached graph cannot be opened (%s); building it again", entry, error)
        return None


def _built(entry: Path, key_parts: Sequence[object], builder: Callable[[], Graph]) -> Graph:
    """Build a graph and store it in the cache. Raises CacheError if the cache cannot be written."""
    graph = builder()
    with filling_cache():
        store(graph)
        described = {"key": list(key_parts), "content_hash": graph.content_hash, "name": graph.name, "meta": graph.meta}
        _write_entry(entry, described)
        return _open_entry(entry)


@functools.cache
def _code_digest() -> str:
    """Hash the modules that build every graph, so that a change of them invalidates cached graphs."""
    digest = hashlib.blake2b(digest_size=16)
    for name in ("adjacency.py", "edges.py", "graph.py"):
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()


def store(graph: Graph) -> Path:
    """Write `graph` with its CSC under its content hash and return the folder; an intact folder is kept."""
    folder = cache_folder() / "graphs" / graph.content_hash
    if folder.is_dir() and _is_whole(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix="writing-", dir=folder.parent))
    try:
        _write_arrays(graph, temporary)
        with _turn():
            if not _is_whole(folder):  # otherwise another process has just written it and may be reading it
                if folder.exists():
                    os.rename(folder, temporary / "damaged")
                os.rename(temporary, folder)
                shutil.rmtree(folder / "damaged", ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def open_stored(folder: Path, *, name: str, meta: Mapping[str, Any]) -> Graph:
    """Map the graph that `store` wrote to `folder`. Raises OSError, ValueError or KeyError if it is damaged."""
    head = json.loads((folder / "graph.json").read_text())
    if head["layout"] != LAYOUT:
        raise ValueError(f"layout {head['layout']}, not {LAYOUT}")
    if head.pop("digest") != text_digest(head):
        raise ValueError(f"{folder / 'graph.json'} has changed since it was written")
    arrays = {place: _map(folder / file["file"], file) for place, file in head["arrays"].items()}
    for place, digest in array_digests(arrays).items():
        if digest != head["arrays"][place]["digest"]:
            raise ValueError(f"{folder / head['arrays'][place]['file']} ({place}) has changed since it was written")
    groups: dict[str, dict[str, Array]] = {"vertex_data": {}, "edge_data": {}}
    for place, array in arrays.items():
        group, _, key = place.partition("/")
        if group in groups:
            groups[group][key] = array
    graph = Graph(
        Adjacency(arrays["offsets"], arrays["neighbours"]),
        name=name,
        directed=head["directed"],
        weights=arrays.get("weights"),
        labels=arrays.get("labels"),
        bipartite=head["bipartite"],
        meta=meta,
        **groups,
    )
    known = graph.__dict__
    known["csc"] = Adjacency(*(frozen(arrays[f"csc.{part}"]) for part in ("offsets", "neighbours", "edge_ids")))
    if graph.weights is not None:
        known["in_weights"] = frozen(arrays["csc.weights"])
    known["has_reverse_edges"] = head["has_reverse_edges"]
    known["has_self_loops"] = head["has_self_loops"]
    known["facts"] = graph.facts_with(*(Degrees(tuple(map(tuple, head[part]))) for part in _DEGREES))
    known["content_hash"] = folder.name
    return graph


def _open_entry(entry: Path) -> Graph:
    described = json.loads(entry.read_text())
    if described.pop("digest") != text_digest(described):
        raise ValueError("it has changed since it was written")
    content = described["content_hash"]
    if not isinstance(content, str) or not content.isalnum():
        raise ValueError(f"{content!r} is not a content hash")
    return open_stored(cache_folder() / "graphs" / content, name=described["name"], meta=described["meta"])


def _write_arrays(graph: Graph, folder: Path) -> None:
    arrays = dict(graph.arrays())
    arrays |= {
        "csc.offsets": graph.csc.offsets,
        "csc.neighbours": graph.csc.neighbours,
        "csc.edge_ids": graph.in_edge_ids,
    }
    if graph.in_weights is not None:
        arrays["csc.weights"] = graph.in_weights
    files = {}
    digests = array_digests(arrays)
    for number, (place, array) in enumerate(arrays.items()):
        file = f"{number}.npy"  # numbered, because names of data may contain any character
        np.save(folder / file, array, allow_pickle=False)
        files[place] = {"file": file, "dtype": array.dtype.str, "shape": list(array.shape), "digest": digests[place]}
    head: dict[str, Any] = {
        "layout": LAYOUT,
        "directed": graph.directed,
        "bipartite": graph.bipartite,
        "has_reverse_edges": graph.has_reverse_edges,
        "has_self_loops": graph.has_self_loops,
        **{part: getattr(graph.facts, part).counts for part in _DEGREES},
        "arrays": files,
    }
    (folder / "graph.json").write_text(json.dumps(head | {"digest": text_digest(head)}))


def _write_entry(entry: Path, described: Mapping[str, object]) -> None:
    plain = json.loads(json.dumps(described))
    write_whole(entry, json.dumps(plain | {"digest": text_digest(plain)}, indent=1))


def _map(path: Path, expected: Mapping[str, Any]) -> Array:
    array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype.str != expected["dtype"] or list(array.shape) != expected["shape"]:
        raise ValueError(
            f"{path}: {array.dtype.str}{list(array.shape)} instead of {expected['dtype']}{expected['shape']}"
        )
    return array


@contextlib.contextmanager
def _building(entry: Path) -> Iterator[None]:
    """Hold the lock for building the graph of this entry. Raises CacheError if the lock file cannot be written."""
    with filling_cache():
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle = entry.with_suffix(".lock").open("a")
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Hold the lock for adding graphs to the cache and removing them."""
    with (cache_folder() / "graphs.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _is_whole(folder: Path) -> bool:
    try:
        open_stored(folder, name="", meta={})
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True
