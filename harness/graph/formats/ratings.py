"""MovieLens ratings: `user,movie,rating[,time]`, with or without a header, also separated by `::`, tabs or `;`.

F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and Context", ACM TiiS 5(4), 2015.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from harness.graph.adjacency import Array
from harness.graph.errors import GraphError
from harness.graph.formats.compaction import compact
from harness.graph.formats.header import is_header, kind_of, split_header
from harness.graph.formats.rows import Column, Edges, Layout, read_rows
from harness.graph.formats.source import Block, Source, TextStream
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions

RATING = (Column("user", "id"), Column("item", "id"), Column("rating", "number"))
TIMED = (*RATING, Column("time", "number"))


def read(source: Source, options: ReadOptions) -> Graph:
    """Read the bipartite graph users | items; each rating is the weight of an edge user -> item.

    Users, then items, are numbered by ascending id; vertex_data["original_id"] holds the ids, int64[V]. Raises
    GraphError for a faulty file.
    """
    edges = Edges()
    with TextStream(source) as text:
        layout, double = _layout(text)
        blocks = _single_colons(text) if double else text.blocks()
        for rows in read_rows(source.path, blocks, layout):
            edges.add(rows["user"], rows["item"], rows["rating"])
    weights = edges.take("weights")
    user_ids, users = _side(edges.take("sources"))
    item_ids, items = _side(edges.take("destinations"))
    items += np.asarray(user_ids.size, dtype=items.dtype)
    return Graph.from_edges(
        users,
        items,
        num_vertices=user_ids.size + item_ids.size,
        weights=weights,
        name=options.name,
        duplicates=options.duplicates,
        symmetrize=options.symmetrize,
        vertex_data={"original_id": np.concatenate([user_ids, item_ids])},
        bipartite=(user_ids.size, item_ids.size),
        meta={"origin": source.path.name, "format": "ratings"},
    )


def _side(ids: Array) -> tuple[Array, Array]:
    """Return the ids of one side, int64 ascending, and the number of each edge's end among them."""
    original, (numbers,) = compact(ids)
    if original is None:
        original = np.arange(int(ids.max()) + 1 if ids.size else 0, dtype=np.int64)
    return original, numbers


def _layout(text: TextStream) -> tuple[Layout, bool]:
    """Return the layout of the first line behind comments and whether `::` separates its fields. The line remains to be
    read unless it is a header."""
    while (line := text.readline() or "").startswith("#"):
        pass
    double = "::" in line
    delimiter = ":" if double else next((mark for mark in (",", "\t", ";") if mark in line), None)
    fields = line.split("::" if double else delimiter)
    if len(fields) not in (3, 4):
        raise GraphError.in_file(
            text.source.path, f"{len(fields)} fields", "a line must be: user,item,rating[,time]", line=text.line
        )
    names = split_header(line, "::" if double else delimiter)
    if not is_header(names):
        text.unread()
    elif kind_of(names) == "edge_list":
        met = f"the header {line[:80]} names edges, not ratings"
        raise GraphError.in_file(text.source.path, met, "give graph.format=edge_list", line=text.line)
    layout = Layout(RATING if len(fields) == 3 else TIMED, comment="#", delimiter=delimiter, row="rating")
    return layout, double


def _single_colons(text: TextStream) -> Iterator[Block]:
    for block in text.blocks():
        yield replace(block, data=block.data.replace(b"::", b":"))
