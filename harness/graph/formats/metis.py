"""METIS graphs, including those of the 10th DIMACS Challenge: line i lists the neighbours of vertex i.

G. Karypis and V. Kumar, "METIS: A Software Package for Partitioning Unstructured Graphs", manual, section 4.1.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.graph.adjacency import Array
from harness.graph.errors import GraphError
from harness.graph.formats.rows import Edges
from harness.graph.formats.source import Block, Source, TextStream, non_negative_integer
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions

COMMENT = re.compile(rb"^[ \t]*%[^\n]*\n?", re.MULTILINE)
DIGITS_AND_BLANKS = b"0123456789 \t\r\n"
LONGEST_NUMBER = re.compile(rb"\d{19}")


@dataclass(frozen=True)
class Header:
    """Numbers of vertices and edges, and the numbers that a line holds in addition to the neighbours."""

    num_vertices: int
    num_edges: int
    line: int
    has_sizes: bool
    vertex_weights: int
    has_edge_weights: bool

    @property
    def leading(self) -> int:
        """Count of numbers before the first neighbour of a line."""
        return self.has_sizes + self.vertex_weights


def read(source: Source, options: ReadOptions) -> Graph:
    """Read the graph, which is undirected. Raises GraphError for a faulty file.

    vertex_data, if the file has them: "vertex_size" int64[V], "vertex_weight" int64[V] or [V, n].
    """
    edges = Edges()
    leads: list[Array] = []
    first_vertex = 0
    with TextStream(source) as text:
        header = _header(text)
        source.refuse_promise(header.num_vertices, "vertices", 1, header.line)
        source.refuse_promise(2 * header.num_edges, "neighbours", 2, header.line)
        for block in text.blocks():
            numbers, counts = _numbers(source, block)
            first_vertex += _add_lines(source, header, block, numbers, counts, first_vertex, edges, leads)
    _check_totals(source, header, first_vertex, edges.count)
    graph = Graph.from_edges(
        edges.take("sources"),
        edges.take("destinations"),
        num_vertices=header.num_vertices,
        weights=edges.take("weights") if header.has_edge_weights else None,
        name=options.name,
        directed=False,
        duplicates=options.duplicates,
        vertex_data=_vertex_data(header, leads),
        meta={"origin": source.path.name, "format": "metis"},
    )
    if not graph.has_reverse_edges or (
        graph.weights is not None and (graph.weights != graph.weights[graph.reverse_edges]).any()
    ):
        raise GraphError.in_file(
            source.path,
            "an edge is listed at only one of its ends, or with two different weights",
            "list every edge at both ends with the same weight",
        )
    return graph


def _header(text: TextStream) -> Header:
    mend = "the first line that is not a comment must be: VERTICES EDGES [FORMAT [VERTEX_WEIGHTS]]"
    while (line := text.readline()) is not None and (not line.strip() or line.lstrip().startswith("%")):
        pass
    fields = (line or "").split()
    numbers = [number for field in fields if (number := non_negative_integer(field)) is not None]
    if not 2 <= len(numbers) <= 4 or len(numbers) < len(fields):
        raise GraphError.in_file(text.source.path, f"the header is {(line or '')[:60]!r}", mend, line=text.line)
    kind = fields[2].zfill(3) if len(fields) > 2 else "000"
    if len(kind) != 3 or set(kind) - {"0", "1"}:
        raise GraphError.in_file(
            text.source.path,
            f"format {kind} is invalid",
            "it must be three digits 0 or 1: vertex sizes, vertex weights, edge weights",
            line=text.line,
        )
    weights = numbers[3] if len(numbers) > 3 else 1
    if weights > 1000:
        raise GraphError.in_file(
            text.source.path, f"{weights} weights for each vertex", "at most 1000 are read", line=text.line
        )
    return Header(numbers[0], numbers[1], text.line, kind[0] == "1", weights if kind[1] == "1" else 0, kind[2] == "1")


def _numbers(source: Source, block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all numbers of a block and the count per line, without comments."""
    data = COMMENT.sub(b"", block.data) if b"%" in block.data else block.data
    if data.translate(None, DIGITS_AND_BLANKS) or LONGEST_NUMBER.search(data):
        for number, line in enumerate(block.data.split(b"\n"), start=block.line):
            faulty = not COMMENT.match(line) and line.translate(None, DIGITS_AND_BLANKS)
            if faulty or LONGEST_NUMBER.search(line):
                met = (faulty or line)[:20].decode("latin-1")
                raise GraphError.in_file(
                    source.path, f"{met!r} is not an integer", "METIS files contain only integers", line=number
                )
    letters = np.frombuffer(data, dtype=np.uint8)
    digit = letters >= ord("0")
    starts = np.flatnonzero(digit & ~np.concatenate([[False], digit[:-1]]))
    ends = np.flatnonzero(letters == ord("\n"))
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, letters.size)
    counts = np.diff(np.searchsorted(starts, ends), prepend=0)
    return np.fromstring(data.decode("ascii"), dtype=np.int64, sep=" ") if starts.size else np.empty(
        0, np.int64
    ), counts


def _add_lines(
    source: Source,
    header: Header,
    block: Block,
    numbers: NDArray[np.int64],
    counts: NDArray[np.int64],
    first_vertex: int,
    edges: Edges,
    leads: list[Array],
) -> int:
    """Add the edges of the vertices from first_vertex on to `edges`, their leading numbers to `leads`.

    Returns the number of vertices added.
    """
    stride = 2 if header.has_edge_weights else 1
    left = header.num_vertices - first_vertex
    _check_counts(source, header, block, counts, left, stride)
    counts = counts[:left]
    lead = (np.cumsum(counts) - counts)[:, None] + np.arange(header.leading)
    leads.append(numbers[lead])
    listed = np.ones(numbers.size, dtype=bool)
    listed[lead.ravel()] = False
    entries = numbers[listed].reshape(-1, stride)
    degrees = (counts - header.leading) // stride
    neighbours = entries[:, 0]
    stray = (neighbours < 1) | (neighbours > header.num_vertices)
    if stray.any():
        entry = int(np.argmax(stray))
        index = int(np.searchsorted(np.cumsum(degrees), entry, side="right"))
        raise _line_fault(source, block, index, f"neighbour {neighbours[entry]} is outside 1..{header.num_vertices}")
    vertices = np.arange(first_vertex, first_vertex + counts.size)
    edges.add(np.repeat(vertices, degrees), neighbours - 1, entries[:, 1] if header.has_edge_weights else None)
    return int(counts.size)


def _check_counts(
    source: Source, header: Header, block: Block, counts: NDArray[np.int64], left: int, stride: int
) -> None:
    """Raise GraphError for a line beyond the `left` remaining vertices, or with a wrong count of numbers."""
    if counts[left:].any():
        index = left + int(np.argmax(counts[left:] > 0))
        raise _line_fault(source, block, index, f"there are more lines than the {header.num_vertices} vertices")
    counts = counts[:left]
    wrong = (counts < header.leading) | ((counts - header.leading) % stride != 0)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise _line_fault(source, block, index, f"{counts[index]} numbers do not form complete entries of this format")


def _line_fault(source: Source, block: Block, index: int, what: str) -> GraphError:
    """Return the error for the index-th line of `block` that is not a comment."""
    lines = block.data.split(b"\n")
    numbers = [block.line + place for place, raw in enumerate(lines) if COMMENT.match(raw) is None]
    return GraphError.in_file(source.path, what, "correct the line or the header", line=numbers[index])


def _check_totals(source: Source, header: Header, vertices: int, entries: int) -> None:
    if vertices != header.num_vertices or entries != 2 * header.num_edges:
        raise GraphError.in_file(
            source.path,
            f"the header announces {header.num_vertices} vertices and {header.num_edges} edges, "
            f"the file has {vertices} lines and {entries} neighbours",
            "there must be a line for each vertex and two neighbours for each edge",
            line=header.line,
        )


def _vertex_data(header: Header, leads: list[Array]) -> dict[str, Array]:
    data: dict[str, Array] = {}
    if header.leading:
        table = np.concatenate(leads) if leads else np.empty((0, header.leading), dtype=np.int64)
        if header.has_sizes:
            data["vertex_size"] = table[:, 0]
        if header.vertex_weights:
            weights = table[:, header.has_sizes :]
            data["vertex_weight"] = weights[:, 0] if header.vertex_weights == 1 else weights
    return data
