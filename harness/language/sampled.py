"""A check of one superstep in float64 on a sample of vertices, for graphs whose reference run would take hours.

The reference executes the superstep on a subgraph: the sample, its in-neighbours, the edges from these and, if the
program reads ``edge.reverse``, the edges back. The result at the sample equals that on the whole graph, provided that
no output depends on values that sources have received in the same superstep. Whole-graph reductions are computed over
all vertices of the graph, for which no edges are needed, and given to the subgraph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph.adjacency import Adjacency
from harness.graph.graph import Graph
from harness.language.algorithm import Allowance, Inputs
from harness.language.program import (
    SUPERSTEP,
    EdgeReduce,
    GraphReduce,
    Program,
    Stage,
    VertexStep,
    edge_steps,
    reads,
)
from harness.language.reference import ReferenceRun, reads_reverse
from harness.language.residual import Share, at_rest, responses
from harness.language.rounding import RoundedRun
from harness.language.validation import Comparison, compare

Array = NDArray[Any]
Values = Mapping[str, Array]
NOTHING: Values = {}
_OF_THE_GRAPH = ("num_vertices", "num_edges")
EACH, CLASS_EDGES = 256, 1 << 18


def not_sampled(program: Program) -> str:
    """Return why supersteps of a program cannot be checked on a sample; empty if they can."""
    if program.control.alternate:
        return "the program alternates sides"
    for step in edge_steps(program):
        return f"{step.name} updates both ends of an edge in place, so a superstep depends on all edges"
    if SUPERSTEP in program.properties:
        return "the program reads the number of the superstep"
    reduced: set[str] = set()
    for stage, fresh in _with_fresh(program):
        if any(name in _OF_THE_GRAPH for _, name in reads(stage)):
            return f"{stage.name} reads the size of the graph"
        if isinstance(stage, GraphReduce):
            if _reads_any(stage, fresh):
                return f"{stage.name} reduces over the whole graph values received in the same superstep"
            if stage.into in reduced:
                return f"{stage.name} reduces over the whole graph into a property that was reduced before"
            reduced.add(stage.into)
    lost = _lost(program)
    for name in program.outputs:
        if name in lost:
            return f"{lost[name]} reads values that its sources received in the same superstep"
    return ""


def _lost(program: Program) -> dict[str, str]:
    """Return the properties whose values in the subgraph differ from the whole after a superstep, with the stage that
    causes it."""
    lost: dict[str, str] = {}
    for stage, fresh in _with_fresh(program):
        seen = tuple(reads(stage))
        by = [lost[name] for _, name in seen if name in lost]
        by += [stage.name for space, name in seen if space in ("src", "reverse") and name in fresh]
        if by:
            lost |= dict.fromkeys(stage.writes, by[0])
    return lost


def _with_fresh(program: Program) -> Iterator[tuple[Stage, frozenset[str]]]:
    """Yield every stage with the properties that by then depend on messages of the same superstep."""
    fresh: frozenset[str] = frozenset()
    for stage in program.stages:
        yield stage, fresh
        if isinstance(stage, EdgeReduce) or _reads_any(stage, fresh):
            fresh |= frozenset(stage.writes)


def _reads_any(stage: Stage, names: frozenset[str]) -> bool:
    return any(name in names for _, name in reads(stage))


def _without_edges(program: Program) -> Program:
    """Return the part of a program that needs no edges.

    It consists of whole-graph reductions and vertex stages that do not depend on messages of the same superstep.
    """
    stages = tuple(
        stage
        for stage, fresh in _with_fresh(program)
        if isinstance(stage, (GraphReduce, VertexStep)) and not _reads_any(stage, fresh)
    )
    written = {name for stage in stages for name in stage.writes}
    properties = {
        name: prop
        for name, prop in program.properties.items()
        if prop.place != "edge" and (prop.role != "temporary" or name in written)
    }
    return replace(program, properties=properties, stages=stages)


def classes_of(graph: Graph) -> Array:
    """Return the in-degree class of each vertex: in-degrees 0, 1, 2 to 3, 4 to 7, ... are classes 0, 1, 2, 3, ..."""
    return np.asarray(np.frexp(graph.in_degrees)[1])


def of_all_degrees(graph: Graph, each: int = EACH, seed: int = 0, class_edges: int = CLASS_EDGES) -> Array:
    """Draw up to ``each`` vertices from every in-degree class (:func:`classes_of`); returns them sorted.

    The classes are sampled separately, since engines process hubs and other vertices differently. The number of hubs is
    reduced such that a class has about ``class_edges`` in-edges.
    """
    random, classes = np.random.default_rng(seed), classes_of(graph)
    chosen = []
    for number in range(int(classes.min(initial=0)), int(classes.max(initial=-1)) + 1):
        members = np.flatnonzero(classes == number)
        few = min(each, len(members), max(1, class_edges >> number))
        chosen.append(random.choice(members, few, replace=False))
    return np.sort(np.concatenate(chosen))


class PartOfGraph(Graph):
    """A subgraph whose vertices have the degrees of the whole graph; ``whole_degrees``: out-degrees and in-degrees."""

    whole_degrees: tuple[Array, Array]

    @classmethod
    def vertices_of(cls, graph: Graph) -> PartOfGraph:
        """Return all vertices of a graph without its edges."""
        nothing = Adjacency(np.zeros(graph.num_vertices + 1, np.int64), np.empty(0, np.uint32))
        part = cls(nothing, name=f"the vertices of {graph.name}", directed=graph.directed)
        part.whole_degrees = graph.out_degrees, graph.in_degrees
        return part

    @property
    def out_degrees(self) -> Array:
        """Out-degrees in the whole graph, int64[V]."""
        return self.whole_degrees[0]

    @property
    def in_degrees(self) -> Array:
        """In-degrees in the whole graph, int64[V]."""
        return self.whole_degrees[1]


class _PartRun(ReferenceRun):
    """A run on a subgraph that takes the results of whole-graph reductions from ``reduced``, by name."""

    reduced: Values = NOTHING

    def _reduce_graph(self, stage: GraphReduce) -> None:
        self._value[stage.into] = self.reduced[stage.into]


class _RoundedPartRun(RoundedRun, _PartRun):
    """A run on a subgraph with the errors that float32 may have."""


@dataclass(frozen=True)
class Sample:
    """A sample of vertices, and the subgraph that a superstep on them reads.

    ``vertices``: sampled vertices of the whole graph, sorted. ``near``: vertices of the subgraph, by their numbers in
    the whole graph. ``edges``: edges of the subgraph, by their CSR positions in the whole graph. ``graph``: the
    subgraph, its vertices numbered as in ``near``. ``rows``: positions of ``vertices`` in ``near``. ``classes``:
    :func:`classes_of` the whole graph.
    """

    program: Program
    vertices: Array
    near: Array
    edges: Array
    graph: Graph
    rows: Array
    classes: Array

    @classmethod
    def draw(cls, program: Program, graph: Graph, each: int = EACH, seed: int = 0) -> Sample:
        """Sample vertices with :func:`of_all_degrees`."""
        return cls.of(program, graph, of_all_degrees(graph, each, seed))

    @classmethod
    def of(cls, program: Program, graph: Graph, vertices: Array) -> Sample:
        """Return the sample of the given vertices, which must be sorted."""
        entering = _ranges(graph.csc.offsets, vertices)
        edges = graph.in_edge_ids[entering].astype(np.int64)
        if reads_reverse(program):
            edges = np.concatenate([edges, graph.reverse_edges[edges].astype(np.int64)])
        edges = np.unique(edges)
        sources = np.searchsorted(graph.csr.offsets, edges, side="right") - 1
        destinations = graph.csr.neighbours[edges].astype(np.int64)
        near = np.unique(np.concatenate([vertices, sources, destinations]))
        counts = np.bincount(np.searchsorted(near, sources), minlength=len(near))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        part = PartOfGraph(
            Adjacency(offsets, np.searchsorted(near, destinations).astype(np.uint32)),
            name=f"{graph.name} around {len(vertices)} vertices",
            directed=graph.directed,
            weights=None if graph.weights is None else graph.weights[edges],
        )
        part.whole_degrees = graph.out_degrees[near], graph.in_degrees[near]
        return cls(program, vertices, near, edges, part, np.searchsorted(near, vertices), classes_of(graph))

    @property
    def weights(self) -> Array:
        """The number of vertices of the whole graph that each sampled vertex represents: the ratio in its in-degree
        class."""
        chosen = self.classes[self.vertices]
        return np.asarray(np.bincount(self.classes)[chosen] / np.bincount(chosen)[chosen])

    def part_of(self, name: str, values: NDArray[np.generic]) -> Array:
        """Return the subgraph's part of the values of a property."""
        rows = self.part(name)
        return np.asarray(values if rows is None else values[rows])

    def part(self, name: str) -> Array | None:
        """Return the rows of a property in the subgraph, by their numbers in the whole graph; None for a property of
        the graph.
        """
        return {"vertex": self.near, "edge": self.edges}.get(self.program.properties[name].place)

    def results_of(self, name: str, values: NDArray[np.generic]) -> Array:
        """Return the sample's part of the values of an output: at its vertices, or on their in-edges."""
        return np.asarray(values[self.results(name)])

    def results(self, name: str) -> Array:
        """Return the rows of an output that belong to the sample, by their numbers in the whole graph."""
        edge = self.program.properties[name].place == "edge"
        return self.edges[self._entering()] if edge else self.vertices

    def _entering(self) -> Array:
        return np.flatnonzero(np.isin(self.graph.csr.neighbours, self.rows))

    @property
    def reduces(self) -> bool:
        """Whether the program has whole-graph reductions."""
        return any(isinstance(stage, GraphReduce) for stage in self.program.stages)

    @property
    def rests_by_whole(self) -> bool:
        """Whether :meth:`rests` needs the state of the whole graph."""
        return self.reduces or self.program.control.norm == "sum"

    def reduced(self, graph: Graph, inputs: Inputs, features: int, before: Values | None) -> dict[str, Array]:
        """Compute the whole-graph reductions of one superstep on the whole ``graph``, by name, in float64.

        ``before``: all state of the whole graph before the superstep; None: the start.
        """
        if not self.reduces:
            return {}
        program = _without_edges(self.program)
        names = [stage.into for stage in program.stages if isinstance(stage, GraphReduce)]
        run = ReferenceRun(program, PartOfGraph.vertices_of(graph), features)
        run.reset(inputs, {name: values for name, values in (before or {}).items() if name in program.properties})
        run.superstep()
        return {name: run.values(name) for name in names}

    def compared(
        self, inputs: Inputs, features: int, before: Values | None, after: Values, *, reduced: Values = NOTHING
    ) -> Comparison:
        """Compare the sample's values ``after`` a superstep (:meth:`results_of`) with those of the reference.

        ``before``: :meth:`part_of` all state before it; None: the start. ``reduced``: whole-graph reductions of the
        superstep (:meth:`reduced`). ``inputs``: of the whole graph.
        """
        given = {name: self.part_of(name, values) for name, values in inputs.properties.items()}
        return self.judged(Inputs(given, inputs.parameters), features, before, after, reduced=reduced)

    def judged(
        self, inputs: Inputs, features: int, before: Values | None, after: Values, *, reduced: Values = NOTHING
    ) -> Comparison:
        """Compare as :meth:`compared`, with ``inputs`` of the subgraph."""
        exact, response = self._superstep(inputs, features, before, reduced, self.program.outputs)
        allowances = {name: Allowance(entries) for name, entries in response.items()}
        return compare(self.program, after, exact, allowances)

    def rests(
        self, inputs: Inputs, features: int, state: Values, *, whole: Values = NOTHING, reduced: Values = NOTHING
    ) -> Comparison:
        """Compare the final state of a settled run with one more superstep.

        ``state``: :meth:`part_of` the final state. ``whole``: all of it, only if :attr:`rests_by_whole`. ``reduced``:
        the whole-graph reductions of that superstep. State may move by the program's tolerance plus the effect of
        rounding and of unsent values in one superstep.
        """
        given = {name: self.part_of(name, values) for name, values in inputs.properties.items()}
        part = Inputs(given, inputs.parameters)
        lost = _lost(self.program)
        names = tuple(
            prop.name
            for prop in self.program.properties.values()
            if prop.role == "state" and prop.place != "graph" and prop.name not in lost
        )
        after, response = self._superstep(part, features, state, reduced, names)
        before = {name: self._at_sample(name, state[name]) for name in names}
        by_sum = names if self.program.control.norm == "sum" else ()
        sums = {name: np.abs(np.asarray(whole[name], np.float64)).sum(axis=0) for name in by_sum}
        return at_rest(self.program, inputs, before, after, response, Share(self.weights, sums))

    def _superstep(
        self, inputs: Inputs, features: int, before: Values | None, reduced: Values, names: Sequence[str]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the sample's properties after a superstep, and the changes that rounding and lag may cause."""

        def values(run: _PartRun) -> dict[str, Array]:
            run.reduced = reduced
            run.reset(inputs, before or {})
            run.superstep()
            return {name: self._at_sample(name, run.values(name)) for name in names}

        exact = values(_PartRun(self.program, self.graph, features))
        rounded = values(_RoundedPartRun(self.program, self.graph, features, lag=1.0))
        return exact, responses(exact, rounded)

    def _at_sample(self, name: str, values: NDArray[np.generic]) -> Array:
        """Select the sample's rows from those of the subgraph."""
        edge = self.program.properties[name].place == "edge"
        return np.asarray(values[self._entering()] if edge else values[self.rows])


def _ranges(offsets: Array, rows: Array) -> Array:
    """Concatenate all positions in the ranges of the given rows."""
    starts, lengths = offsets[rows], offsets[rows + 1] - offsets[rows]
    ends = np.cumsum(lengths)
    return np.asarray(np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0))
