"""MatrixMarket coordinate matrices as graphs: entry (i, j) is the edge i -> j.

R. F. Boisvert, R. Pozo and K. A. Remington, "The Matrix Market Exchange Formats: Initial Design", NISTIR 5935, 1996.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.graph.adjacency import Array
from harness.graph.errors import GraphError
from harness.graph.formats.rows import Column, Edges, Layout, read_rows
from harness.graph.formats.source import Source, TextStream, non_negative_integer
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions

FIELDS = ("real", "double", "integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
BANNER = "the first line must be: %%MatrixMarket matrix coordinate FIELD SYMMETRY"


@dataclass(frozen=True)
class Header:
    """The contents of the banner and the size line."""

    field: str
    symmetry: str
    rows: int
    columns: int
    entries: int
    line: int  # of the size line

    @property
    def layout(self) -> Layout:
        """Layout of an entry: 1-based row and column, and a value unless the field is `pattern`."""
        value = () if self.field == "pattern" else (Column("value", "number"),)
        ends = (Column("row", "id", 1, self.rows), Column("column", "id", 1, self.columns))
        return Layout((*ends, *value), comment="%", row=f"{self.field} entry")


def read(source: Source, options: ReadOptions) -> Graph:
    """Read the matrix as a graph with its values as weights (none for `pattern`). Raises GraphError for a faulty file.

    In symmetric matrices every entry off the diagonal gives two edges; if skew-symmetric, the reverse edge has the
    negated value. A rectangular matrix gives a bipartite graph, rows | columns.
    """
    edges = Edges()
    with TextStream(source) as text:
        header = _header(text)
        for rows in read_rows(source.path, text.blocks(), header.layout):
            rows["row"] -= 1
            rows["column"] -= 1
            edges.add(rows["row"], rows["column"], None if header.field == "pattern" else rows["value"])
        source.refuse_vertices(header.rows + header.columns, text.bytes_read, header.line)
    if edges.count != header.entries:
        raise GraphError.in_file(
            source.path, f"the header announces {header.entries} entries, the file has {edges.count}",
            "correct the header, or fetch the file again if it was cut short", line=header.line,
        )  # fmt: skip
    weights = None if header.field == "pattern" else edges.take("weights")
    return _graph(header, edges.take("sources"), edges.take("destinations"), weights, source, options)


def _graph(header: Header, u: Array, v: Array, weights: Array | None, source: Source, options: ReadOptions) -> Graph:
    square = header.rows == header.columns
    symmetric = header.symmetry != "general"
    if not square:
        v += np.asarray(header.rows, dtype=v.dtype)
    if header.symmetry == "skew-symmetric":
        diagonal = u == v
        if diagonal.any():
            raise GraphError.in_file(
                source.path,
                f"entry {int(np.argmax(diagonal)) + 1} of a skew-symmetric matrix is on the diagonal",
                "remove it",
            )
        u, v = np.concatenate([u, v]), np.concatenate([v, u])
        weights = None if weights is None else np.concatenate([weights, -weights])
        symmetric = False
    return Graph.from_edges(
        u,
        v,
        num_vertices=header.rows if square else header.rows + header.columns,
        weights=weights,
        name=options.name,
        duplicates=options.duplicates,
        symmetrize=symmetric or options.symmetrize,
        bipartite=None if square else (header.rows, header.columns),
        meta={
            "origin": source.path.name,
            "format": "matrix_market",
            "field": header.field,
            "symmetry": header.symmetry,
        },
    )


def _header(text: TextStream) -> Header:
    path = text.source.path
    banner = (text.readline() or "").split()
    if len(banner) != 5 or banner[0] != "%%MatrixMarket" or banner[1].lower() != "matrix":
        raise GraphError.in_file(path, "this is not a MatrixMarket matrix", BANNER, line=1)
    layout, field, symmetry = (word.lower() for word in banner[2:])
    if layout != "coordinate":
        raise GraphError.in_file(
            path, f"the matrix is stored as {layout}, not by coordinates", "save it as a sparse matrix", line=1
        )
    if field == "complex" or field not in FIELDS or symmetry not in SYMMETRIES:
        mend = f"weights are real: use one of {', '.join(FIELDS)} and one of {', '.join(SYMMETRIES)}"
        raise GraphError.in_file(path, f"a {field} {symmetry} matrix is not supported", mend, line=1)
    if field == "pattern" and symmetry == "skew-symmetric":
        raise GraphError.in_file(
            path, "a pattern has no signs, so it cannot be skew-symmetric", "correct the header", line=1
        )
    while (line := text.readline()) is not None and (not line.strip() or line.lstrip().startswith("%")):
        pass
    sizes = [non_negative_integer(size) for size in (line or "").split()]
    if len(sizes) != 3 or None in sizes:
        raise GraphError.in_file(
            path, f"the size line is {(line or '')[:60]!r}", "it must be: rows columns entries", line=text.line
        )
    rows, columns, entries = (size for size in sizes if size is not None)
    text.source.refuse_promise(entries, "entries", 4 if field == "pattern" else 6, text.line)
    if symmetry != "general" and rows != columns:
        raise GraphError.in_file(
            path, f"a {symmetry} matrix of {rows} x {columns} is not square", "correct the header", line=text.line
        )
    return Header(field, symmetry, rows, columns, entries, text.line)
