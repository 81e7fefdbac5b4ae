"""Differences between two graphs for a program: edges, inputs of edges and vertices, and messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.graph.changes import correspondence
from harness.language.algorithm import Inputs
from harness.language.analysis import mutable
from harness.language.evaluation import Evaluator
from harness.language.expressions import Expression
from harness.language.initial_state import State, initial_values
from harness.language.program import EdgeReduce, EdgeUpdate, Program, reads

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Posed:
    """A program on a graph, with its inputs and the values of all properties, float64 ``[V, ...]`` or ``[E, ...]``."""

    program: Program
    graph: Graph
    features: int
    parameters: Mapping[str, float]
    values: dict[str, Array]
    sources: Array  # [E]

    @classmethod
    def of(cls, program: Program, graph: Graph, features: int, inputs: Inputs, state: State | None = None) -> Posed:
        """Bind the program to a graph at its start, or at ``state``. Raises InvalidInput."""
        parameters = dict(program.parameters) | dict(inputs.parameters)
        values = initial_values(program, graph, features, inputs, state or {})
        return cls(program, graph, features, parameters, values, graph.csr.row_of_edge)

    def messages(self, message: Expression, edges: Array, replaced: Mapping[str, Array] | None = None) -> Array:
        """Evaluate a message on ``edges``; the result is ``[len(edges), ...]``.

        ``replaced``: other values for some properties.
        """
        values = {**self.values, **(replaced or {})}
        index = {"src": self.sources[edges], "dst": self.graph.csr.neighbours[edges], "edge": edges}
        reverse = self.graph.reverse_edges[edges] if any(space == "reverse" for space, _ in reads(message)) else edges

        def read(space: str, name: str) -> Array:
            if space == "graph":
                return values[name]
            return np.asarray(values[name][reverse if space == "reverse" else index[space]])

        found = Evaluator(read, self.parameters, self.features)(message)
        return np.broadcast_to(found, (len(edges), *found.shape[1:]))

    def out_edges(self, vertices: Array) -> NDArray[np.int64]:
        """Return the CSR positions of all edges that leave the given vertices."""
        offsets = self.graph.csr.offsets
        first, count = offsets[vertices], offsets[vertices + 1] - offsets[vertices]
        start = np.repeat(first - (np.cumsum(count) - count), count)
        return np.asarray(start + np.arange(len(start)), np.int64)


@dataclass(frozen=True, eq=False)
class Differences:
    """The differences, for a program, between two graphs with the same vertices.

    ``removed``: edges of the old graph only. ``added``: edges of the new graph only. ``old``, ``new``: the common
    edges, by their positions in each graph. ``changed``: common edges on which a stage reads a different input, bool.
    ``vertices``: vertices at which a different input is read, bool[V]. ``everywhere``: True if an input of the whole
    graph, of reverse edges, or that is read at named vertices, differs.
    """

    removed: Array
    added: Array
    old: Array
    new: Array
    changed: Array
    vertices: Array
    everywhere: bool

    @classmethod
    def between(cls, before: Posed, after: Posed) -> Differences:
        """Compare the inputs and degrees that the program reads, exactly."""
        edges = correspondence(before.graph, after.graph)
        program = before.program
        at = {space: np.zeros(before.graph.num_vertices, np.bool_) for space in ("src", "dst", "v")}
        on_edges = np.zeros(len(edges.old), np.bool_)
        everywhere = dict(before.parameters) != dict(after.parameters)
        for space, name in {read for stage in program.stages for read in reads(stage) if not mutable(program, read[1])}:
            x, y = before.values[name], after.values[name]
            if space in at:
                at[space] |= differ(x, y)
            elif space == "edge":
                on_edges |= differ(x[edges.old], y[edges.new])
            elif space in ("graph", "at"):
                everywhere |= bool(differ(x, y).any())
            else:
                everywhere |= bool(len(edges.removed) or len(edges.added) or differ(x[edges.old], y[edges.new]).any())
        edge_stages = any(isinstance(stage, (EdgeReduce, EdgeUpdate)) for stage in program.stages)
        on_edges |= edge_stages & at["src"][before.sources[edges.old]]
        vertices = at["v"] | at["dst"]
        return cls(edges.removed, edges.added, edges.old, edges.new, on_edges, vertices, everywhere)


def differ(x: Array, y: Array) -> NDArray[np.bool_]:
    """Return the rows that differ in some feature, bool[N]."""
    return in_any_feature(x != y)


def in_any_feature(flags: Array) -> NDArray[np.bool_]:
    """Return the rows of ``[N, ...]`` that are true in some feature, bool[N]."""
    return np.asarray(flags.any(axis=tuple(range(1, flags.ndim))))
