"""Graph files: one module per format, chosen by suffix or name. Files are untrusted; every fault raises GraphError."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.graph.edges import Duplicates
from harness.graph.errors import GraphError
from harness.graph.formats.source import Source, TextStream, text_kind
from harness.graph.graph import Graph


@dataclass(frozen=True)
class Format:
    """A file format; its `module` defines `read(source, options) -> Graph`."""

    name: str
    suffixes: tuple[str, ...]
    help: str
    module: str
    text: bool = True


@dataclass(frozen=True)
class ReadOptions:
    """The options of a loader; `load_graph` documents each."""

    name: str
    duplicates: Duplicates
    symmetrize: bool


FORMATS = {
    entry.name: entry
    for entry in (
        Format("matrix_market", (".mtx",), "MatrixMarket coordinate matrices", "harness.graph.formats.matrix_market"),
        Format("edge_list", (".txt", ".tsv", ".el", ".edges"), "SNAP edge lists", "harness.graph.formats.edge_list"),
        Format("csv", (".csv",), "edges or ratings by the header", "harness.graph.formats.comma_separated"),
        Format("dimacs", (".gr",), "DIMACS shortest paths", "harness.graph.formats.dimacs"),
        Format("metis", (".graph",), "METIS and 10th DIMACS Challenge graphs", "harness.graph.formats.metis"),
        Format("ratings", (".dat", ".data"), "MovieLens ratings", "harness.graph.formats.ratings"),
        Format("uai", (".uai",), "UAI Markov networks", "harness.graph.formats.uai"),
        Format(
            "npz",
            (".npz",),
            "NumPy archives of CSR arrays, scipy.sparse.save_npz",
            "harness.graph.formats.npz",
            text=False,
        ),
    )
}


def load_graph(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word users expect
    duplicates: Duplicates = "error",
    symmetrize: bool = False,
    name: str | None = None,
    max_expansion: float = 100.0,
) -> Graph:
    """Load the graph in the file at `path`.

    format: a name of FORMATS; None selects by the suffix, ignoring .gz.
    duplicates, symmetrize: as in Graph.from_edges. Set symmetrize for files that list each undirected edge once;
        undirected formats (METIS, UAI, symmetric matrices) do not need it.
    name: a display name; None: the file's name without suffixes.
    max_expansion: the largest uncompressed size of a compressed file, as a multiple of its size.

    Uses at most 256 bytes of memory per byte of (uncompressed) text, plus 128 MiB.

    Raises GraphError for any fault of the file, with the file's name and the line, if known.
    """
    path = Path(path).expanduser()
    source = Source(path, max_expansion)
    chosen = FORMATS[format_of(path, format)]
    if chosen.text:
        _check_kind(source, chosen)
    read: Callable[[Source, ReadOptions], Graph] = importlib.import_module(chosen.module).read
    try:
        return read(source, ReadOptions(name or path.name.split(".")[0], duplicates, symmetrize))
    except GraphError as error:
        if str(error).startswith(str(path)):
            raise
        raise GraphError(f"{path}: {error}") from error


def format_of(path: Path, format: str | None = None) -> str:  # noqa: A002
    """Return the name of the format: `format` if given, else by the suffix of `path`. Raises GraphError if unknown."""
    known = ", ".join(f"{entry.name} ({' '.join(entry.suffixes)})" for entry in FORMATS.values())
    if format is not None:
        if format not in FORMATS:
            raise GraphError(f"format={format!r} is unknown; choose one of {known}")
        return format
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    for entry in FORMATS.values():
        if suffixes and suffixes[-1] in entry.suffixes:
            return entry.name
    raise GraphError.in_file(path, "the suffix names no known format", f"give format=, one of {known}")


def _check_kind(source: Source, chosen: Format) -> None:
    """Refuse a file whose first lines announce another format."""
    if source.path.suffix.lower() == ".npz":
        raise GraphError.in_file(source.path, f"an .npz cannot be read as {chosen.name}", "omit format=")
    with TextStream(source) as text:
        start = next((block.data for block in text.blocks()), b"")
    announced = text_kind(start[:4096])
    if announced is not None and announced != chosen.name:
        raise GraphError.in_file(
            source.path,
            f"the file begins as {announced} but is read as {chosen.name}",
            f"give format={announced}",
            line=1,
        )


__all__ = ["FORMATS", "Format", "ReadOptions", "format_of", "load_graph"]
