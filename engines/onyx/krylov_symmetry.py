"""The inner product in which a program's matrix is symmetric, computed from its inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from harness.api import EdgeReduce, Evaluator, Graph, GraphFacts, Inputs, Program, concrete, segment_reduce
from harness.api.linear import GATHERED, Start, Symmetry

Array = NDArray[Any]
Read = Callable[[str, str], Array]
_FLOATS_OF_EDGES: Final = 4  # of each entry
_FLOATS_OF_VERTICES: Final = 12


def weights(form: Symmetry, program: Program, graph: Graph, features: int, inputs: Inputs) -> NDArray[np.float32] | str:
    """Return the weights of the inner product, float32[V, k] or [V], or why A is not symmetric on this graph.

    ``form``: of the program (:func:`harness.language.affine.symmetry`). The weight of a vertex is the inverse of the
    number that its vertex steps multiply its sum with. It is 1 where that number is 0 and no edge has a coefficient.
    """
    start = Start(program, graph, features, inputs, {})
    if not graph.has_reverse_edges:
        return "some edges have no reverse edge"
    ids = graph.csc.edge_ids
    for name in form.edges:
        values = start.of(program.properties[name])
        if not np.array_equal(values, values[ids]):
            return f"{name!r} differs between the two directions of an edge"
    gain = _gain(form, program, graph, features, start)
    if not np.isfinite(gain).all() or (gain < 0).any():
        return f"{program.name} multiplies the sum of a vertex by a number that is negative or not finite"
    if (gain == 0).any() and (_sizes(form, graph, start, features)[gain == 0] > 0).any():
        return f"{program.name} multiplies the sum of a vertex that has edges by 0"
    return np.divide(1.0, gain, out=np.ones_like(gain), where=gain > 0).astype(np.float32)


def bytes_needed(form: Symmetry, program: Program, graph: GraphFacts, features: int) -> int:
    """Return the bytes that :func:`weights` allocates, at most.

    An edge has its value in the other order, and in float64 those of a message and of its parts; a vertex has float64
    values of the update and its parts.
    """
    shapes = [program.properties[name].shape for name in form.edges] + [one.message.shape for one in form.constant]
    entries = max((math.prod(concrete(shape, features)) for shape in shapes), default=1)
    return _FLOATS_OF_EDGES * 8 * entries * graph.num_edges + _FLOATS_OF_VERTICES * 8 * features * graph.num_vertices


def _gain(form: Symmetry, program: Program, graph: Graph, features: int, start: Start) -> Array:
    """Return the number of every vertex and feature that its sum is multiplied with, float64."""
    prop = program.properties[form.state]
    shape = (graph.num_vertices, *((features,) if prop.shape else ()))
    edge = Evaluator(_edges(program, graph, start), _parameters(program, start), features)
    sums = {s.into: segment_reduce(_on(edge(s.message), graph), graph.in_offsets, s.reducer) for s in form.constant}

    def value(gathered: float) -> Array:
        def read(space: str, name: str) -> Array:
            if name == GATHERED:
                return np.full((1, *shape[1:]), gathered)
            if name == form.state:
                return np.zeros((1, *shape[1:]))
            return sums[name] if name in sums else np.asarray(start.of(program.properties[name]))

        return np.asarray(Evaluator(read, _parameters(program, start), features)(form.update))

    return np.array(np.broadcast_to(value(1.0) - value(0.0), shape), np.float64)


def _sizes(form: Symmetry, graph: Graph, start: Start, features: int) -> Array:
    """Return the sum of the magnitudes of the coefficients of every vertex and feature, float64."""
    program = start.program
    if form.coefficient is None:
        size: Array = graph.in_degrees.astype(np.float64)
    else:
        edge = Evaluator(_edges(program, graph, start), _parameters(program, start), features)
        size = segment_reduce(np.abs(_on(edge(form.coefficient), graph)), graph.in_offsets, "sum")
    if not program.properties[form.state].shape:
        return np.asarray(size.reshape(graph.num_vertices, -1).sum(axis=1))
    (message,) = (s.message for s in program.stages if isinstance(s, EdgeReduce) and s not in form.constant)
    each = size.ndim == 2 and len(message.shape) == 1  # of an outer product, every feature has all coefficients
    size = size if each else size.reshape(graph.num_vertices, -1).sum(axis=1)[:, None]
    return np.broadcast_to(size, (graph.num_vertices, features))


def _edges(program: Program, graph: Graph, start: Start) -> Read:
    """Return a reader at the in-edges of all vertices, in the order of the CSC."""

    def read(space: str, name: str) -> Array:
        values = np.asarray(start.of(program.properties[name]))
        if space == "edge":
            return values[graph.csc.edge_ids]
        if program.properties[name].place == "graph":
            return values
        return values[graph.csc.neighbours if space == "src" else graph.csc.row_of_edge]

    return read


def _on(values: Array, graph: Graph) -> Array:
    """Return values with a row for every edge."""
    return np.broadcast_to(values, (graph.num_edges, *values.shape[1:]))


def _parameters(program: Program, start: Start) -> dict[str, float]:
    return {**program.parameters, **start.inputs.parameters}
