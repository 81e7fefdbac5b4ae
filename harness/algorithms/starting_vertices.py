"""Starting vertices of a run: one for each feature, named or drawn; the same for every engine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.language import InvalidInput

if TYPE_CHECKING:
    from harness.graph import Graph

DRAWN = "drawn"
_BY_NAME = "id:"


def starting_vertices(given: str, graph: Graph, count: int, seed: int) -> NDArray[np.int64]:
    """Return ``count`` vertices, int64[count]: numbers in ``given``, separated by blanks or commas, or ``drawn``.

    ``id:NAME`` is the vertex called NAME in the graph's own data: an id of its file, or a name of another library.
    *drawn*: with ``seed``, from the vertices with out-edges (from all if none has any), without repetition if there are
    enough. Raises InvalidInput if the number of vertices is not ``count`` or a vertex is out of range.
    """
    if given == DRAWN:
        if not graph.num_vertices:
            raise InvalidInput(f"graph {graph.name!r} has no vertices to start from")
        candidates = np.flatnonzero(graph.out_degrees > 0)
        candidates = candidates if len(candidates) else np.arange(graph.num_vertices)
        return np.random.default_rng(seed).choice(candidates, count, replace=count > len(candidates))
    words = [word for word in re.split(r"[\s,]+", given) if word]
    words = [str(_called(word[len(_BY_NAME) :], graph)) if word.startswith(_BY_NAME) else word for word in words]
    for word in words:
        if not word.isascii() or not word.isdigit():
            raise InvalidInput(
                f"{word!r} is not a vertex; give vertex numbers or {_BY_NAME}NAME, separated by blanks, or {DRAWN}"
            )
        if int(word) >= graph.num_vertices:
            raise InvalidInput(
                f"vertex {word} is out of range: graph {graph.name!r} has the vertices 0 to {graph.num_vertices - 1}"
            )
    if len(words) != count:
        raise InvalidInput(
            f"the number of vertices given is {len(words)}, and these features need {count}; give that many, or change "
            "features"
        )
    return np.array([int(word) for word in words], np.int64)


def _called(name: str, graph: Graph) -> int:
    """Return the number of the vertex called ``name``. Raises InvalidInput if not exactly one is."""
    names = graph.vertex_names
    if names is None:
        raise InvalidInput(
            f"{_BY_NAME}{name}: the vertices of graph {graph.name!r} have no names; give numbers from 0 to "
            f"{graph.num_vertices - 1}"
        )
    if names.dtype.kind == "U":
        found = np.flatnonzero(names == name)
    else:
        found = np.flatnonzero(names == int(name)) if re.fullmatch(r"-?\d{1,18}", name, re.ASCII) else np.array([])
    if len(found) != 1:
        met = "no vertex" if not len(found) else f"{len(found)} vertices"
        raise InvalidInput(f"{_BY_NAME}{name}: {met} of graph {graph.name!r} have this name; give vertex numbers")
    return int(found[0])


def zero_at(vertices: NDArray[np.int64], graph: Graph) -> NDArray[np.float32]:
    """Return ``[V, k]``: column f is 0 at ``vertices[f]`` and infinity elsewhere."""
    start = np.full((graph.num_vertices, len(vertices)), np.inf, np.float32)
    start[vertices, np.arange(len(vertices))] = 0.0
    return start


def reached(distance: NDArray[np.generic]) -> dict[str, float]:
    """Return ``reached``, the share of (vertex, source) pairs at a finite ``distance``, and ``farthest``, the largest
    one.

    Unreachable vertices are at infinity and excluded from ``farthest``.
    """
    finite = distance[np.isfinite(distance)]
    return {"reached": finite.size / max(distance.size, 1), "farthest": float(finite.max(initial=0.0))}
