"""What a changed graph changes for a program: arcs, inputs of arcs and vertices, and messages."""

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
from harness.language.program import EdgeReduce, EdgeUpdate, Program, reads
from harness.language.start import State, initial_values

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Posed:
    """A program on a graph with its inputs and values of every property, float64 ``[V, ...]`` or ``[E, ...]``."""

    program: Program
    graph: Graph
    features: int
    parameters: Mapping[str, float]
    values: dict[str, Array]
    sources: Array  # [E]

    @classmethod
    def of(cls, program: Program, graph: Graph, features: int, inputs: Inputs, state: State | None = None) -> Posed:
        """The program at its start, or at ``state``. Raises InvalidInput."""
        parameters = dict(program.parameters) | dict(inputs.parameters)
        values = initial_values(program, graph, features, inputs, state or {})
        return cls(program, graph, features, parameters, values, graph.csr.row_of_arc)

    def messages(self, message: Expression, arcs: Array, replaced: Mapping[str, Array] | None = None) -> Array:
        """A message on some arcs, ``[len(arcs), ...]``; ``replaced`` are other values of some properties."""
        values = {**self.values, **(replaced or {})}
        index = {"src": self.sources[arcs], "dst": self.graph.csr.neighbours[arcs], "edge": arcs}
        reverse = self.graph.reverse_edges[arcs] if any(space == "reverse" for space, _ in reads(message)) else arcs

        def read(space: str, name: str) -> Array:
            if space == "graph":
                return values[name]
            return np.asarray(values[name][reverse if space == "reverse" else index[space]])

        found = Evaluator(read, self.parameters, self.features)(message)
        return np.broadcast_to(found, (len(arcs), *found.shape[1:]))

    def out_arcs(self, vertices: Array) -> NDArray[np.int64]:
        """The CSR positions of all arcs that leave some vertices."""
        offsets = self.graph.csr.offsets
        first, count = offsets[vertices], offsets[vertices + 1] - offsets[vertices]
        start = np.repeat(first - (np.cumsum(count) - count), count)
        return np.asarray(start + np.arange(len(start)), np.int64)


@dataclass(frozen=True, eq=False)
class Differences:
    """From one graph to another of the same vertices, for a program.

    ``removed``: arcs of the old graph; ``added``: of the new one; ``old``, ``new``: the arcs that both have;
    ``changed``: which of these some stage reads another input on, bool. ``vertices``: those at which another input is
    read, bool[V]. ``everywhere``: an input of the whole graph, or of reverse arcs, differs.
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
        arcs = correspondence(before.graph, after.graph)
        program = before.program
        at = {space: np.zeros(before.graph.num_vertices, np.bool_) for space in ("src", "dst", "v")}
        on_arcs = np.zeros(len(arcs.old), np.bool_)
        everywhere = dict(before.parameters) != dict(after.parameters)
        for space, name in {read for stage in program.stages for read in reads(stage) if not mutable(program, read[1])}:
            x, y = before.values[name], after.values[name]
            if space in at:
                at[space] |= differ(x, y)
            elif space == "edge":
                on_arcs |= differ(x[arcs.old], y[arcs.new])
            elif space == "graph":
                everywhere |= bool(differ(x, y).any())
            else:
                everywhere |= bool(len(arcs.removed) or len(arcs.added) or differ(x[arcs.old], y[arcs.new]).any())
        edge_stages = any(isinstance(stage, (EdgeReduce, EdgeUpdate)) for stage in program.stages)
        on_arcs |= edge_stages & at["src"][before.sources[arcs.old]]
        vertices = at["v"] | at["dst"]
        return cls(arcs.removed, arcs.added, arcs.old, arcs.new, on_arcs, vertices, everywhere)


def differ(x: Array, y: Array) -> NDArray[np.bool_]:
    """Which rows differ in some feature, bool[N]."""
    return in_any_feature(x != y)


def in_any_feature(flags: Array) -> NDArray[np.bool_]:
    """Which rows of ``[N, ...]`` hold in some feature, bool[N]."""
    return np.asarray(flags.any(axis=tuple(range(1, flags.ndim))))
