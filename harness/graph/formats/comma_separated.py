"""CSV files: ratings or an edge list, depending on the header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.graph.errors import GraphError
from harness.graph.formats import edge_list, ratings
from harness.graph.formats.header import is_header, kind_of, split_header
from harness.graph.formats.source import Source, TextStream
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions

_MEND = "give graph.format=edge_list (source,destination[,weight]) or graph.format=ratings (user,item,rating[,time])"


def read(source: Source, options: ReadOptions) -> Graph:
    """Read the file in the format that its header names. Raises GraphError if it names none."""
    with TextStream(source) as text:
        line = text.readline() or ""
        while line.startswith("#"):
            line = text.readline() or ""
    delimiter = next((mark for mark in (",", "\t", ";") if mark in line), None)
    fields = split_header(line, delimiter)
    if not is_header(fields):
        raise GraphError.in_file(source.path, "a CSV file without a header may hold edges or ratings", _MEND, line=1)
    kind = kind_of(fields)
    if kind is None:
        met = f"the header {', '.join(fields)[:80]} names neither source,target[,weight] nor user,item,rating[,time]"
        raise GraphError.in_file(source.path, met, _MEND, line=1)
    return ratings.read(source, options) if kind == "ratings" else edge_list.read(source, options)
