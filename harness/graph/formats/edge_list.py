"""SNAP edge lists: `source destination [weight]`, blanks or tabs, `#` comments, ids with gaps.

J. Leskovec and A. Krevl, "SNAP Datasets: Stanford Large Network Dataset Collection", 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.graph.errors import GraphError
from harness.graph.formats.compaction import compact
from harness.graph.formats.rows import Arcs, Column, Layout, read_rows
from harness.graph.formats.source import Source, TextStream
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions

ENDS = (Column("source", "id"), Column("destination", "id"))
UNWEIGHTED = Layout(ENDS, row="line")
WEIGHTED = Layout((*ENDS, Column("weight", "number")), row="line")


def read(source: Source, options: ReadOptions) -> Graph:
    """The listed arcs. Ids with gaps are renumbered in ascending order; vertex_data["original_id"] then keeps them."""
    arcs = Arcs()
    with TextStream(source) as text:
        layout = _layout(text)
        for rows in read_rows(source.path, text.blocks(), layout):
            arcs.add(rows["source"], rows["destination"], rows["weight"] if layout is WEIGHTED else None)
    weights = arcs.take("weights") if layout is WEIGHTED else None
    original, (sources, destinations) = compact(arcs.take("sources"), arcs.take("destinations"))
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
    """The layout by the number of fields of the first arc, which stays to be read."""
    while (line := text.readline()) is not None:
        fields = line.partition("#")[0].split()
        if fields:
            if len(fields) not in (2, 3):
                raise GraphError.in_file(
                    text.source.path,
                    f"{len(fields)} fields",
                    "a line must be: source destination [weight]",
                    line=text.line,
                )
            text.unread()
            return UNWEIGHTED if len(fields) == 2 else WEIGHTED
    raise GraphError.in_file(text.source.path, "there are no arcs in it", "a line must be: source destination [weight]")
