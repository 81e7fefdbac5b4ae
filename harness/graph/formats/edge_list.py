"""SNAP edge lists: `source destination [weight]`, separated by spaces, tabs or commas; ids with gaps.

Comments begin with `#`, or with `%` as in Network Repository and KONECT, if the file begins with one.

J. Leskovec and A. Krevl, "SNAP Datasets: Stanford Large Network Dataset Collection", 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.graph.errors import GraphError
from harness.graph.formats.compaction import compact
from harness.graph.formats.header import is_header, kind_of, split_header
from harness.graph.formats.rows import Column, Edges, Layout, read_rows
from harness.graph.formats.source import Source, TextStream
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions

ENDS = (Column("source", "id"), Column("destination", "id"))
WEIGHT = Column("weight", "number")
_ALLOWED = "a line must be: source destination [weight], separated by spaces, tabs or commas"


def read(source: Source, options: ReadOptions) -> Graph:
    """Read the listed edges. Raises GraphError for a faulty file.

    Ids with gaps are renumbered in ascending order; vertex_data["original_id"] then holds the original ids.
    """
    edges = Edges()
    with TextStream(source) as text:
        layout = _layout(text)
        weighted = WEIGHT in layout.columns
        for rows in read_rows(source.path, text.blocks(), layout):
            edges.add(rows["source"], rows["destination"], rows["weight"] if weighted else None)
    weights = edges.take("weights") if weighted else None
    original, (sources, destinations) = compact(edges.take("sources"), edges.take("destinations"))
    return Graph.from_edges(
        sources,
        destinations,
        num_vertices=None if original is None else original.size,
        weights=weights,
        name=options.name,
        duplicates=options.duplicates,
        symmetrize=options.symmetrize,
        vertex_data=None if original is None else {"original_id": original},
        meta={"origin": source.path.name, "format": "edge_list"},
    )


def _layout(text: TextStream) -> Layout:
    """Return the layout of the first edge, which remains to be read; skip a header in front of it."""
    headed, comment = False, ""
    while (line := text.readline()) is not None:
        if not comment and line.strip():
            comment = "%" if line.lstrip().startswith("%") else "#"
        line = line.partition(comment or "#")[0]
        delimiter = "," if "," in line else None
        fields = split_header(line, delimiter) if line.strip() else []
        if not fields:
            continue
        if not headed and is_header(fields):
            _check_header(text, fields)
            headed = True
            continue
        if len(fields) not in (2, 3):
            raise GraphError.in_file(text.source.path, f"{len(fields)} fields", _ALLOWED, line=text.line)
        text.unread()
        return Layout((*ENDS, WEIGHT)[: len(fields)], comment=comment, delimiter=delimiter, row="line")
    raise GraphError.in_file(text.source.path, "it contains no edges", _ALLOWED)


def _check_header(text: TextStream, names: list[str]) -> None:
    """Raise GraphError for a header that names columns other than source, destination and weight."""
    kind = kind_of(names)
    line = " ".join(names)[:80]
    if kind == "ratings":
        met, mend = f"the header {line!r} names ratings", "give graph.format=ratings"
        raise GraphError.in_file(text.source.path, met, mend, line=text.line)
    if kind is None:
        met = f"the first line, {line!r}, is neither a header such as source destination weight nor numbers"
        names_hint = "; for names instead of integers, give a data frame to onyx_harness.as_graph"
        raise GraphError.in_file(text.source.path, met, _ALLOWED + names_hint, line=text.line)
