"""The reference: a program evaluated in float64 with NumPy, stage by stage, superstep by superstep.

It is the oracle for every engine and is written for clarity. No stages are fused. Edges are processed in blocks of
whole destinations, which bounds the memory.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self, assert_never

import numpy as np
from numpy.typing import NDArray

from harness.contract import RunStatistics, Superstep
from harness.language.algorithm import Inputs
from harness.language.analysis import Watched, watched
from harness.language.arrays import NUMPY
from harness.language.criterion import Criterion
from harness.language.edge_steps import levels
from harness.language.errors import InvalidInput, LanguageError
from harness.language.evaluation import At, Evaluator, Read, Without, concrete
from harness.language.initial_state import State, initial_values
from harness.language.named_vertices import named_vertices
from harness.language.products import LogProduct
from harness.language.program import (
    IDENTITY,
    SUPERSTEP,
    EdgeReduce,
    EdgeStep,
    EdgeUpdate,
    GraphReduce,
    Program,
    Reducer,
    Stage,
    VertexReduce,
    VertexStep,
    edge_steps,
    reads,
)
from harness.language.segments import segment_product, segment_reduce, segment_sums

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
moved = NUMPY.moved
# Message elements in flight: 0.5 MB of float64, which stays in the cache of a core. Measured against 1 << 22 on a Xeon,
# in ms a superstep: PageRank, k = 8, 425,594 edges 31 against 38; belief propagation, 21,026 edges 17 against 38.
BLOCK_ELEMENTS = 1 << 16
_OVER_EDGES = (EdgeReduce, EdgeUpdate, EdgeStep)


class ReferenceRun:
    """One run of a program on a graph, in float64, with the same reset/run/values protocol as an engine.

    Raises InvalidInput if the program alternates sides and the graph is not bipartite, or updates both ends of edges
    and the graph has self-loops; GraphError if the program reads ``edge.reverse`` and an edge has no reverse.

    ``orders``: for steps that update both ends of edges, by name, the order of the edges in the next superstep: CSR
    positions [E]. Other steps run in the order of the CSR.
    """

    def __init__(self, program: Program, graph: Graph, features: int) -> None:
        if program.control.alternate and graph.bipartite is None:
            raise InvalidInput(
                f"{program.name} alternates the sides of a bipartite graph; graph {graph.name!r} has none"
            )
        if edge_steps(program) and graph.has_self_loops:
            raise InvalidInput(
                f"{program.name} updates both ends of an edge; graph {graph.name!r} has self-loops: remove them"
            )
        self.program, self.graph, self.features = program, graph, features
        self.orders: Mapping[str, NDArray[np.integer[Any]]] = {}
        self._watched = watched(program)
        self._criterion = Criterion.of(program)
        self._before: dict[str, Array] = {}
        self._reverse = graph.reverse_edges if reads_reverse(program) else None
        self._destinations = np.repeat(np.arange(graph.num_vertices), np.diff(graph.csc.offsets))
        self._edge = _csr_positions(graph)
        self._superstep = 0
        self._active = 0
        self._value: dict[str, Array] = {}
        self._product: dict[str, LogProduct] = {}
        self._parameters: Mapping[str, float] = {}

    # protocol ---------------------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set every property to its start, or to ``state``. Raises InvalidInput for a missing or misshapen input.

        ``state`` maps names of properties to values, shaped as :meth:`values` returns them.
        """
        self._superstep = 0
        self._active = self.graph.num_vertices
        self._parameters = dict(self.program.parameters) | dict(inputs.parameters)
        self._product = {}
        self._value = {}
        self._value = self._initial(inputs, state or {})
        for stage in self.program.stages:
            if isinstance(stage, EdgeReduce) and stage.reducer == "prod":
                self._product[stage.into] = LogProduct.of(self._value[stage.into])

    def _initial(self, inputs: Inputs, state: State) -> dict[str, Array]:
        """Return the values of all properties at the start."""
        return initial_values(self.program, self.graph, self.features, inputs, state)

    def change_parameters(self, parameters: Mapping[str, float]) -> None:
        """Change run-time parameters for the following supersteps."""
        self._parameters = {**self._parameters, **parameters}

    def fork(self) -> Self:
        """Return an independent run in the same state; arrays are shared, since no superstep changes one in place."""
        other = copy.copy(self)
        other._value, other._product, other._before = dict(self._value), dict(self._product), dict(self._before)
        return other

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps."""
        statistics = RunStatistics(settled=False)
        for _ in range(max_supersteps):
            before, self._active = self._active, self.superstep()
            visited = self.graph.num_edges * sum(isinstance(s, _OVER_EDGES) for s in self.program.stages)
            statistics.supersteps.append(Superstep(before, visited, "pull"))
            if self._still() or self._within():
                statistics.settled = True
                break
        return statistics

    def _still(self) -> bool:
        """Return whether no entry moved by more than the tolerance."""
        return self._active == 0 and self.program.control.settles and self._both_sides_updated()

    def _within(self) -> bool:
        """Return whether the movement is measured in this superstep and meets the program's criterion."""
        if self._criterion is None or not self._criterion.ends(self._superstep - 1):
            return False
        return self._criterion.met(self._before, self._value, self._parameters)

    def _both_sides_updated(self) -> bool:
        """Return whether every source has been propagated: one quiet superstep does not cover the side not yet
        updated."""
        return not self.program.control.alternate or self._superstep >= 2

    def values(self, name: str) -> Array:
        """Return a copy of the property in float64 (bool for bool properties), ``[V, ...]`` or ``[E, ...]``."""
        return self._value[name].copy()

    def superstep(self) -> int:
        """Run one superstep; return the number of sources that moved by more than the tolerance."""
        before = {name: self._value[name] for _, name in self._watched}
        if self._criterion is not None and self._criterion.begins(self._superstep):
            self._before = before
        if SUPERSTEP in self._value:
            self._value[SUPERSTEP] = np.array([float(self._superstep)])
        self.run_stages()
        self._superstep += 1
        return self._moved(before)

    def run_stages(self) -> None:
        """Run the stages of one superstep, without counting what moved."""
        for stage in self.program.stages:
            match stage:
                case EdgeReduce():
                    self._reduce_edges(stage)
                case EdgeUpdate():
                    self._update_edges(stage)
                case VertexStep():
                    self._step_vertices(stage)
                case VertexReduce():
                    self._reduce_at(stage)
                case GraphReduce():
                    self._reduce_graph(stage)
                case EdgeStep():
                    self._step_edges(stage)
                case _:
                    assert_never(stage)
            self._check_promises(stage)

    # properties -------------------------------------------------------------------------------------------------
    def _check_promises(self, stage: Stage) -> None:
        for name in stage.writes:
            if self.program.properties[name].nonnegative and (self._value[name] < 0).any():
                raise LanguageError(
                    f"{stage.name} writes values below zero to {name!r}, which is declared nonnegative", stage.line
                )

    def _moved(self, before: Mapping[str, Array]) -> int:
        """Count the vertices (and edges) that have a watched property which moved by more than the tolerance."""
        control = self.program.control
        tolerance = self._parameters[control.tolerance] if control.tolerance else 0.0
        total = 0
        for place in ("vertex", "edge"):
            flags = [
                moved(before[name], self._value[name], tolerance, control.relative)
                for where, name in self._watched
                if where == place
            ]
            total += int(np.logical_or.reduce(flags).sum()) if flags else 0
        return total

    def _vertices_of(self, stage: Stage) -> slice:
        """Return the vertices that a stage updates in this superstep, or whose in-edges it updates."""
        if not self.program.control.alternate or isinstance(stage, (EdgeUpdate, GraphReduce)):
            return slice(0, self.graph.num_vertices)
        assert self.graph.bipartite is not None
        left = self.graph.bipartite[0]
        return slice(0, left) if self._superstep % 2 == 0 else slice(left, self.graph.num_vertices)

    # stages -----------------------------------------------------------------------------------------------------
    def _evaluator(self, edges: slice | Array) -> Evaluator:
        """Return an evaluator of edge functions on some edges: a range of positions in the CSC, or an array of them."""
        sources, destinations = self.graph.csc.neighbours[edges], self._destinations[edges]
        positions = self._edge[edges]
        index = {"src": sources, "dst": destinations, "edge": positions}

        def read(space: str, name: str) -> Array:
            if space == "graph":
                return self._value[name]
            if space == "reverse":
                assert self._reverse is not None
                return self._value[name].take(self._reverse[positions], axis=0)
            if space == "src":
                return self._sent(name, sources)
            return self._value[name].take(index[space], axis=0)  # twice as fast as an index

        def without(space: str, name: str, factor: Array) -> Array:
            if name not in self._product:
                return np.asarray(read(space, name) - factor)
            return self._product[name].at(index[space]).without(factor).value()

        return self._evaluates(read, without)

    def _evaluates(self, read: Read, without: Without | None = None, at: At | None = None) -> Evaluator:
        """Return an evaluator for this run; overridden by runs that model another arithmetic."""
        return Evaluator(read, self._parameters, self.features, np.float64, without, at=at)

    def _sent(self, name: str, sources: Array) -> Array:
        """Return the values of a vertex property that edges read from their sources."""
        return self._value[name].take(sources, axis=0)

    def _first_factor(self, name: str, vertices: slice) -> Array:
        """Return the values that products over in-edges start with."""
        return self._value[name][vertices]

    def _received(self, stage: EdgeReduce, messages: Array, edges: slice) -> Array:
        """Return the messages as they enter a reduction."""
        return messages

    def _reduced(self, messages: Array, offsets: Array, reducer: Reducer) -> Array:
        """Reduce messages over ranges of edges."""
        return segment_sums(messages, offsets) if reducer == "sum" else segment_reduce(messages, offsets, reducer)

    def _blocks(self, elements_per_edge: int, first: int, last: int) -> Iterator[tuple[slice, slice]]:
        """Yield ranges of whole destinations in ``first..last``, each with the range of its in-edges."""
        offsets = self.graph.csc.offsets
        limit = max(1, BLOCK_ELEMENTS // max(1, elements_per_edge))
        while first < last:
            end = int(np.searchsorted(offsets, offsets[first] + limit, side="right")) - 1
            end = min(max(end, first + 1), last)
            yield slice(first, end), slice(int(offsets[first]), int(offsets[end]))
            first = end

    def _reduce_edges(self, stage: EdgeReduce) -> None:
        shape = concrete(stage.message.shape, self.features)
        side = self._vertices_of(stage)
        result = self._value[stage.into].copy()
        product = self._product[stage.into].copy() if stage.reducer == "prod" else None
        for vertices, edges in self._blocks(int(np.prod(shape, dtype=int)), side.start, side.stop):
            offsets = self.graph.csc.offsets[vertices.start : vertices.stop + 1] - edges.start
            messages = self._evaluator(edges)(stage.message)
            messages = np.broadcast_to(messages, (edges.stop - edges.start, *shape))
            messages = self._received(stage, messages, edges)
            if product is None:
                result[vertices] = self._reduced(messages, offsets, stage.reducer)
                continue
            found = segment_product(messages, offsets)
            if stage.initial is not None:
                found = found.times(self._first_factor(stage.initial.attribute[1], vertices))
            product.set(vertices, found)
        if product is not None:
            self._product[stage.into] = product
            result[side] = product.value()[side]
        self._value[stage.into] = result

    def _update_edges(self, stage: EdgeUpdate) -> None:
        side = self._vertices_of(stage)
        result = self._value[stage.updates].copy()
        elements = int(np.prod(result.shape[1:], dtype=int))
        for _, edges in self._blocks(elements, side.start, side.stop):
            result[self._edge[edges]] = self._evaluator(edges)(stage.value)
        self._value[stage.updates] = result

    def _step_edges(self, stage: EdgeStep) -> None:
        """Update both ends of every edge, in the order of :attr:`orders`."""
        sources, destinations = self.graph.csr.row_of_edge, self.graph.csr.neighbours
        order = np.asarray(self.orders.get(stage.name, np.arange(self.graph.num_edges)), np.int64)
        for name in stage.writes:
            self._value[name] = self._value[name].copy()
        for edges in levels(sources, destinations, order):
            rows = {"src": sources[edges], "dst": destinations[edges], "edge": edges}
            evaluate = self._evaluates(partial(self._read_rows, rows))
            fresh = [(rows[end], name, evaluate(value)) for end, name, value in stage.values]
            for at, name, value in fresh:
                self._value[name][at] = value

    def _read_rows(self, rows: Mapping[str, Array], space: str, name: str) -> Array:
        return self._value[name] if space == "graph" else self._value[name].take(rows[space], axis=0)

    def _vertex_evaluator(self, vertices: slice, stage: Stage) -> Evaluator:
        """Return an evaluator of the functions of a vertex stage on a range of vertices."""

        def at(name: str, numbers: Array) -> Array:
            index, known = self._named(stage, numbers)
            return self._value[name].take(np.where(known, index, np.arange(vertices.start, vertices.stop)), axis=0)

        return self._evaluates(
            lambda space, name: self._value[name] if space == "graph" else self._value[name][vertices], at=at
        )

    def _named(self, stage: Stage, numbers: Array) -> tuple[Array, Array]:
        """Return the vertices that numbers name, and which of them name one. Raises LanguageError."""
        return named_vertices(numbers, self.graph.num_vertices, stage)

    def _reduce_at(self, stage: VertexReduce) -> None:
        count = self.graph.num_vertices
        evaluate = self._vertex_evaluator(slice(0, count), stage)
        message, numbers = (np.broadcast_to(evaluate(one), (count,)) for one in (stage.message, stage.at))
        index, known = self._named(stage, numbers)
        result = np.full(count, IDENTITY[stage.reducer])
        (np.fmin if stage.reducer == "min" else np.fmax).at(result, index[known], message[known])
        self._value[stage.into] = result

    def _step_vertices(self, stage: VertexStep) -> None:
        side = self._vertices_of(stage)
        evaluate = self._vertex_evaluator(side, stage)
        fresh = {name: evaluate(value) for name, value in stage.values}
        for name, value in fresh.items():
            result = self._value[name].copy()
            result[side] = value
            self._value[name] = result

    def _reduce_graph(self, stage: GraphReduce) -> None:
        values = self._vertex_evaluator(self._vertices_of(stage), stage)(stage.value)
        values = np.broadcast_to(values, (self.graph.num_vertices, *values.shape[1:]))
        whole = np.asarray([0, len(values)])
        if stage.reducer == "prod":
            self._value[stage.into] = segment_product(values, whole).value()
        else:
            self._value[stage.into] = segment_reduce(values, whole, stage.reducer)


def _csr_positions(graph: Graph) -> Array:
    edge_ids = graph.csc.edge_ids
    assert edge_ids is not None
    return np.asarray(edge_ids)


def reads_reverse(program: Program) -> bool:
    """Return whether a program reads ``edge.reverse`` and therefore needs paired edges."""
    return any(space == "reverse" for stage in program.stages for space, _ in reads(stage))


__all__ = ["ReferenceRun", "Watched", "moved", "reads_reverse", "segment_reduce"]
