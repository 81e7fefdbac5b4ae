"""DIMACS shortest-path graphs: `c` comments, one `p sp VERTICES EDGES`, lines `a SOURCE DESTINATION LENGTH`, 1-based.

C. Demetrescu, A. V. Goldberg and D. S. Johnson (editors), "The Shortest Path Problem: Ninth DIMACS Implementation
Challenge", 2009.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.graph.errors import GraphError
from harness.graph.formats.rows import Column, Edges, Layout, read_rows
from harness.graph.formats.source import Block, Source, TextStream, non_negative_integer
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions

STRANGE_LINE = re.compile(rb"^(?!a[ \t]|c|[ \t\r]*$)", re.MULTILINE)


def read(source: Source, options: ReadOptions) -> Graph:
    """Read the listed edges with their lengths as weights. Raises GraphError for a faulty file."""
    edges = Edges()
    with TextStream(source) as text:
        num_vertices, num_edges, line = _problem(text)
        columns = (
            Column("a", "word"),
            Column("source", "id", 1, num_vertices),
            Column("destination", "id", 1, num_vertices),
        )
        layout = Layout((*columns, Column("length", "number")), comment="c", row="line")
        for rows in read_rows(source.path, _edge_lines(source, text), layout):
            rows["source"] -= 1
            rows["destination"] -= 1
            edges.add(rows["source"], rows["destination"], rows["length"])
        source.refuse_vertices(num_vertices, text.bytes_read, line)
    if edges.count != num_edges:
        raise GraphError.in_file(
            source.path, f"the p line announces {num_edges} edges, the file has {edges.count}",
            "correct it, or fetch the file again if it was cut short", line=line,
        )  # fmt: skip
    weights = edges.take("weights")
    return Graph.from_edges(
        edges.take("sources"),
        edges.take("destinations"),
        num_vertices=num_vertices,
        weights=weights,
        name=options.name,
        duplicates=options.duplicates,
        symmetrize=options.symmetrize,
        meta={"origin": source.path.name, "format": "dimacs"},
    )


def _problem(text: TextStream) -> tuple[int, int, int]:
    """Return the numbers of vertices and edges in the problem line, and its line number."""
    mend = "the first line that is not a comment must be: p sp VERTICES EDGES"
    while (line := text.readline()) is not None:
        if not line.strip() or line.startswith("c"):
            continue
        fields = line.split()
        sizes = [number for field in fields[2:] if (number := non_negative_integer(field)) is not None]
        if len(fields) != 4 or fields[:2] != ["p", "sp"] or len(sizes) != 2:
            raise GraphError.in_file(text.source.path, f"{line[:60]!r} is not a problem line", mend, line=text.line)
        text.source.refuse_promise(sizes[1], "edges", 8, text.line)
        return sizes[0], sizes[1], text.line
    raise GraphError.in_file(text.source.path, "the problem line is missing", mend)


def _edge_lines(source: Source, text: TextStream) -> Iterator[Block]:
    for block in text.blocks():
        strange = STRANGE_LINE.search(block.data)
        if strange is not None and strange.start() < len(block.data):
            line = block.line + block.data.count(b"\n", 0, strange.start())
            raise GraphError.in_file(
                source.path,
                "the line begins with neither a nor c",
                "a line must be: a SOURCE DESTINATION LENGTH",
                line=line,
            )
        yield block
