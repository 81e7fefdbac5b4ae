"""A graph file of the user, parsed again only when it changes."""

from __future__ import annotations

from pathlib import Path

from harness.graph.cache import cached
from harness.graph.edges import Duplicates
from harness.graph.errors import GraphError
from harness.graph.formats import format_of, load_graph
from harness.graph.formats.source import Source
from harness.graph.graph import Graph
from harness.graph.named import caches_itself, source_digest

_NO_PATH = "no path is given; set graph.path to a graph file"


@caches_itself
def file(
    path: str,
    format: str | None = None,  # noqa: A002 - the word users expect
    duplicates: Duplicates = "error",
    symmetrize: bool = False,
    max_expansion: float = 100.0,
) -> Graph:
    """Load a graph file through the cache; `load_graph` documents the arguments.

    A file with the same path, modification time, size and options is not parsed again. The evidence file of a UAI
    network counts as part of it. Raises GraphError for an empty path and for a faulty file.
    """
    if not path:
        raise GraphError(_NO_PATH)
    source = Path(path).expanduser().absolute()
    kind = format_of(source, format)
    stamps = [_stamp(source)]
    if kind == "uai":
        stem = source.with_suffix("") if source.suffix.lower() == ".gz" else source
        stamps.append(_stamp(stem.with_name(stem.name + ".evid")))
    options = {"format": kind, "duplicates": duplicates, "symmetrize": symmetrize}
    key = ["file", *stamps, options, source_digest(load_graph)]
    return cached(key, lambda: load_graph(source, max_expansion=max_expansion, **options))  # type: ignore[arg-type]


def check_file(path: str, format: str | None, max_expansion: float) -> None:  # noqa: A002
    """Raise GraphError if the file is not readable or its format is unknown. The file is not parsed."""
    if not path:
        raise GraphError(_NO_PATH)
    source = Path(path).expanduser().absolute()
    format_of(source, format)
    Source(source, max_expansion)


def _stamp(path: Path) -> list[object]:
    """Return path, modification time (ns) and size (bytes); None for a missing file, which the loader reports."""
    if not path.is_file():
        return [str(path), None, None]
    status = path.stat()
    return [str(path), status.st_mtime_ns, status.st_size]
