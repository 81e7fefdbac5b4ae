"""The world's highways, derived from OpenStreetMap, as distributed with scgraph_data."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.graph.errors import GraphError
from harness.graph.graph import Graph
from harness.graph.named import uses

PUNCTUATION = bytes.maketrans(b"[]{}:,", b"      ")


@uses("scgraph-data", extra="data")
def highways() -> Graph:
    """Return the world's highways: undirected, weights in km; vertex_data["lat_lon"] in degrees, float32[V, 2].

    Self-loops of the source are dropped. The package's module is read as data, not imported: it contains 36 MB of
    Python literals and requires a release of scgraph that may not be installed. Raises GraphError for unexpected data.
    """
    graph, nodes = _literals()
    rows, numbers = graph.count(b"}"), _numbers(graph)
    degrees = np.array([part.count(b":") for part in graph.split(b"}")[:rows]], dtype=np.int64)
    if numbers.size != 2 * degrees.sum():
        raise GraphError("highways: the edges in scgraph_data are not as expected; use scgraph-data 2.0")
    sources, destinations = np.repeat(np.arange(rows), degrees), numbers[::2].astype(np.int64)
    proper = sources != destinations
    made = Graph.from_edges(
        sources[proper],
        destinations[proper],
        num_vertices=rows,
        weights=numbers[1::2][proper],
        name="highways",
        directed=False,
        vertex_data={"lat_lon": _numbers(nodes).reshape(-1, 2).astype(np.float32)},
        meta={"origin": "scgraph_data world_highways (OpenStreetMap contributors, ODbL 1.0)", "weight": "length in km"},
    )
    made.validate()
    return made


def _literals() -> tuple[bytes, bytes]:
    """Return the text of the two literals: a list of {neighbour: length} and a list of [latitude, longitude]."""
    package = importlib.util.find_spec("scgraph_data")
    folders = list(package.submodule_search_locations or ()) if package is not None else []
    if not folders:
        raise GraphError("highways: scgraph_data cannot be found; pip install 'onyx-harness[data]'")
    path = Path(folders[0]) / "world_highways.py"
    found: dict[bytes, bytes] = {}
    for line in path.read_bytes().split(b"\n"):
        name, equals, _ = line[:80].partition(b"=")
        if equals:
            found[name.strip()] = line[len(name) + 1 :]
    if b"graph" not in found or b"nodes" not in found:
        raise GraphError.in_file(path, "graph or nodes is missing", "use scgraph-data 2.0")
    return found[b"graph"], found[b"nodes"]


def _numbers(literal: bytes) -> NDArray[np.float64]:
    return np.fromstring(literal.translate(PUNCTUATION).decode("ascii"), dtype=np.float64, sep=" ")
