"""A check of one superstep in float64 on a sample of vertices, for graphs whose reference run would take hours.

The reference executes the superstep on a subgraph: the sample, its in-neighbours, the edges from these and, if the
check needs ``edge.reverse``, the edges back. The result at the sample equals that on the whole graph, provided that no
output depends on values that sources have received in the same superstep. Stages that no compared property depends on
are left out. Whole-graph reductions are computed over all vertices of the graph, for which no edges are needed, and
given to the subgraph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph.adjacency import compress
from harness.graph.graph import Graph
from harness.language.algorithm import Allowance, Inputs
from harness.language.evaluation import concrete
from harness.language.initial_state import State, initial_values
from harness.language.part_of_graph import PartOfGraph
from harness.language.program import EdgeReduce, EdgeUpdate, GraphReduce, Program, Stage
from harness.language.reference import BLOCK_ELEMENTS, ReferenceRun, reads_reverse
from harness.language.residual import Share, at_rest, responses
from harness.language.rounding import RoundedRun, patterns
from harness.language.sampled_stages import (
    determined,
    leaving,
    lost_properties,
    part_for,
    reads_any,
    state_of,
    with_fresh,
)
from harness.language.validation import Comparison, allowed, compare, within
from harness.language.whole_reductions import reduce_whole

Array = NDArray[Any]
Values = Mapping[str, Array]
NOTHING: Values = {}
EACH, CLASS_EDGES = 256, 1 << 18
HEAVIEST = 1024  # vertices
_AT_ONCE = 1 << 16  # vertices


def classes_of(graph: Graph) -> NDArray[np.int8]:
    """Return the in-degree class of each vertex, int8[V].

    In-degrees 0, 1, 2 to 3, 4 to 7, ... are classes 0, 1, 2, 3, ...
    """
    table = np.frexp(np.arange(graph.facts.max_in_degree + 1))[1].astype(np.int8)
    classes, in_offsets = np.empty(graph.num_vertices, np.int8), graph.in_offsets
    for first in range(0, graph.num_vertices, _AT_ONCE):  # arrays stay in the cache: 24 M vertices take 0.06 s, not 0.4
        offsets = in_offsets[first : first + _AT_ONCE + 1]
        classes[first : first + _AT_ONCE] = table[offsets[1:] - offsets[:-1]]
    return classes


def of_all_degrees(
    classes: NDArray[np.int8], each: int = EACH, seed: int = 0, class_edges: int = CLASS_EDGES
) -> NDArray[np.int64]:
    """Draw up to ``each`` vertices from every in-degree class (:func:`classes_of`); returns them sorted.

    The classes are sampled separately, since engines process hubs and other vertices differently. The number of hubs is
    reduced such that a class has about ``class_edges`` in-edges.
    """
    random = np.random.default_rng(seed)
    chosen = []
    for number in range(int(classes.min(initial=0)), int(classes.max(initial=-1)) + 1):
        members = np.flatnonzero(classes == number)
        few = min(each, len(members), max(1, class_edges >> number))
        chosen.append(random.choice(members, few, replace=False))
    return np.sort(np.concatenate(chosen))


def heaviest(values: Array, most: int = HEAVIEST) -> NDArray[np.int64]:
    """Return the ``most`` vertices with the largest shares of the sum of a feature's magnitudes, sorted.

    ``values``: ``[V]`` or ``[V, ...]``.
    """
    rows = values.reshape(len(values), -1)
    sums = np.zeros(rows.shape[1])
    for first in range(0, len(rows), _AT_ONCE):
        sums += np.abs(rows[first : first + _AT_ONCE]).sum(axis=0, dtype=np.float64)
    factors = (1.0 / np.where(sums > 0, sums, 1.0)).astype(np.float32)
    found, shares = np.zeros(0, np.int64), np.zeros(0, np.float32)
    for first in range(0, len(rows), _AT_ONCE):
        share = (np.abs(rows[first : first + _AT_ONCE]) * factors).max(axis=1)
        above = np.flatnonzero(share > shares.min(initial=np.inf if len(shares) == most else 0.0))
        found, shares = np.append(found, first + above), np.append(shares, share[above])
        if len(found) > most:
            kept = np.argpartition(shares, -most)[-most:]
            found, shares = found[kept], shares[kept]
    return np.sort(found)


class _PartRun(ReferenceRun):
    """A run of one superstep on the subgraph of a sample, whose first vertices are the sample.

    ``sampled``: their number. ``reduced``: the results of whole-graph reductions, by name. Stages that depend on
    messages of the superstep run at the sample only, since the subgraph lacks in-edges of other vertices; temporary
    properties that they write have no rows for these.
    """

    sampled = 0
    reduced: Values = NOTHING

    def _update_edges(self, stage: EdgeUpdate) -> None:
        """Update the edges into the sample, or out of it (:func:`leaving`)."""
        if stage.updates not in leaving(self.program):
            super()._update_edges(stage)
            return
        result = self._value[stage.updates].copy()
        out = np.flatnonzero(self.graph.csc.neighbours < self.sampled)
        elements = max(1, int(np.prod(result.shape[1:], dtype=int)))
        for places in np.array_split(out, 1 + len(out) * elements // BLOCK_ELEMENTS):
            result[self._edge[places]] = self._evaluator(places)(stage.value)
        self._value[stage.updates] = result

    def _initial(self, inputs: Inputs, state: State) -> dict[str, Array]:
        early = {name for stage in self.program.stages if stage.name not in self._late for name in stage.writes}
        known = self.program.properties
        short = {
            name: prop
            for name, prop in known.items()
            if prop.role == "temporary" and prop.place == "vertex" and name not in early
        }
        others = replace(self.program, properties={name: prop for name, prop in known.items() if name not in short})
        values = initial_values(others, self.graph, self.features, inputs, state)
        for name, prop in short.items():
            shape = (self.sampled, *concrete(prop.shape, self.features))
            values[name] = np.zeros(shape, np.bool_) if prop.dtype == "bool" else np.full(shape, np.nan)
        return values

    def _vertices_of(self, stage: Stage) -> slice:
        return slice(0, self.sampled if stage.name in self._late else self.graph.num_vertices)

    @cached_property
    def _late(self) -> frozenset[str]:
        """The stages that depend on messages of the same superstep."""
        late = {
            stage.name
            for stage, fresh in with_fresh(self.program)
            if isinstance(stage, EdgeReduce) or reads_any(stage, fresh)
        }
        return frozenset(late)

    def _reduce_graph(self, stage: GraphReduce) -> None:
        self._value[stage.into] = self.reduced[stage.into]


class _RoundedPartRun(RoundedRun, _PartRun):
    """A run on a subgraph with the errors that float32 may have."""


@dataclass(frozen=True)
class Sample:
    """A sample of vertices, and the subgraph that a superstep on them reads.

    ``vertices``: sampled vertices of the whole graph, sorted. ``near``: vertices of the subgraph, by their numbers in
    the whole graph: the sample, then the others, each sorted. ``edges``: edges of the subgraph, by their CSR positions
    in the whole graph. ``graph``: the subgraph, its vertices numbered as in ``near``. ``classes``: :func:`classes_of`
    the whole graph. ``part``: the stages of ``program`` that the check needs, with their properties.
    """

    program: Program
    vertices: Array
    near: Array
    edges: Array
    graph: Graph
    classes: NDArray[np.int8]
    part: Program

    @classmethod
    def draw(cls, program: Program, graph: Graph, each: int = EACH, seed: int = 0) -> Sample:
        """Sample vertices with :func:`of_all_degrees`."""
        classes = classes_of(graph)
        return cls.of(program, graph, of_all_degrees(classes, each, seed), classes)

    @classmethod
    def of(cls, program: Program, graph: Graph, vertices: Array, classes: NDArray[np.int8]) -> Sample:
        """Return the sample of the given vertices, which must be sorted; ``classes``: :func:`classes_of` the graph."""
        part = part_for(program, (*determined(program), *leaving(program)))
        edges, sources, destinations = graph.edges_into(vertices)
        if reads_reverse(part):
            edges = np.concatenate([edges, graph.reverse_edges[edges]])
            sources, destinations = np.concatenate([sources, destinations]), np.concatenate([destinations, sources])
            edges, first = np.unique(edges, return_index=True)
            sources, destinations = sources[first], destinations[first]
        near, number = _numbered(graph.num_vertices, vertices, sources, destinations)
        csr, kept = compress(number[sources], number[destinations], len(near), edges)
        subgraph = PartOfGraph(
            csr,
            name=f"{graph.name} around {len(vertices)} vertices",
            directed=graph.directed,
            weights=None if graph.weights is None else graph.weights[kept],
        )
        subgraph.whole_degrees = _degrees(graph.csr.offsets, near), _degrees(graph.in_offsets, near)
        return cls(program, vertices, near, np.asarray(kept), subgraph, classes, part)

    def with_heaviest(self, graph: Graph, state: Values) -> Sample:
        """Return the sample and the heaviest vertices of ``state``, of the whole graph, as a class of their own.

        Sums over the vertices are then estimated well where few vertices have most of them, as ranks near a source do.
        The sample itself, if the program's criterion is no sum.
        """
        if self.program.control.norm != "sum":
            return self
        added = np.unique(np.concatenate([heaviest(np.asarray(values)) for values in state.values()]))
        in_edges = np.cumsum(graph.in_degrees[added])
        added = added[in_edges <= 4 * CLASS_EDGES]
        classes = self.classes.copy()
        classes[added] = classes.max(initial=0) + 1
        vertices = np.union1d(self.vertices, added)
        return Sample.of(self.program, graph, vertices, classes)

    @property
    def rows(self) -> Array:
        """Positions of ``vertices`` in ``near``."""
        return np.arange(len(self.vertices))

    @property
    def weights(self) -> Array:
        """The number of vertices of the whole graph that each sampled vertex represents: the ratio in its in-degree
        class."""
        chosen = self.classes[self.vertices]
        return np.asarray(np.bincount(self.classes)[chosen] / np.bincount(chosen)[chosen])

    def part_of(self, name: str, values: NDArray[np.generic]) -> Array:
        """Return the subgraph's part of the values of a property."""
        rows = self.rows_of(name)
        return np.asarray(values if rows is None else values[rows])

    def rows_of(self, name: str) -> Array | None:
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
        return self.edges[self._edges_of(name)] if edge else self.vertices

    def _edges_of(self, name: str) -> Array:
        """Return the edges of the subgraph at which a property is compared: into the sample, or out of it."""
        ends = self.graph.csr.row_of_edge if name in self.leaving else self.graph.csr.neighbours
        return np.flatnonzero(ends < len(self.vertices))

    @cached_property
    def leaving(self) -> tuple[str, ...]:
        """The state that is compared on edges out of the sample."""
        return leaving(self.program)

    @property
    def compared_names(self) -> tuple[str, ...]:
        """The properties that :meth:`compared` compares: outputs, and state of edges out of the sample."""
        return tuple(dict.fromkeys((*self.program.outputs, *self.leaving)))

    @property
    def state(self) -> tuple[str, ...]:
        """The state that the check reads."""
        return tuple(name for name, prop in self.part.properties.items() if prop.role == "state")

    @property
    def reduces(self) -> bool:
        """True if the check needs whole-graph reductions."""
        return any(isinstance(stage, GraphReduce) for stage in self.part.stages)

    @property
    def rests_by_whole(self) -> bool:
        """True if :meth:`rests` needs the state of the whole graph."""
        return self.reduces or self.program.control.norm == "sum"

    def reduced(self, graph: Graph, inputs: Inputs, features: int, before: Values | None) -> dict[str, Array]:
        """Compute the whole-graph reductions of one superstep on the whole ``graph``, by name, in float64.

        ``before``: all state of the whole graph before the superstep; None: the start.
        """
        if not self.reduces:
            return {}
        return reduce_whole(self.part, graph, features, inputs, before or {})

    def compared(
        self, inputs: Inputs, features: int, before: Values | None, after: Values, *, reduced: Values = NOTHING
    ) -> Comparison:
        """Compare the sample's values ``after`` a superstep (:meth:`results_of`) with those of the reference.

        ``before``: :meth:`part_of` all state before it; None: the start. ``reduced``: whole-graph reductions of the
        superstep (:meth:`reduced`). ``inputs``: of the whole graph.
        """
        exact, response = self._superstep(inputs, features, before, reduced, self.compared_names)
        outputs = self.program.outputs
        allowances = {name: Allowance(response[name]) for name in outputs}
        found = compare(self.program, {name: after[name] for name in outputs}, exact, allowances)
        for name in self.leaving:
            if found.ok and name in after:
                limit = allowed(exact[name], response[name])
                found = within(name, "edge", after[name], exact[name], limit)
        return found

    def rests(
        self, inputs: Inputs, features: int, state: Values, *, whole: Values = NOTHING, reduced: Values = NOTHING
    ) -> Comparison:
        """Compare the final state of a settled run with one more superstep.

        ``state``: :meth:`part_of` the final state. ``whole``: all of it, only if :attr:`rests_by_whole`. ``reduced``:
        the whole-graph reductions of that superstep. State may move by the program's tolerance plus the effect of
        rounding and of unsent values in one superstep.
        """
        lost = lost_properties(self.program)
        names = tuple(name for name in state_of(self.program) if name not in lost)
        after, response = self._superstep(inputs, features, state, reduced, names)
        before = {name: self._at_sample(name, state[name]) for name in names}
        by_sum = names if self.program.control.norm == "sum" else ()
        sums = {name: np.abs(np.asarray(whole[name], np.float64)).sum(axis=0) for name in by_sum}
        share = Share(self.weights, self.classes[self.vertices], sums)
        return at_rest(self.program, inputs, before, after, response, share)

    def _superstep(
        self, inputs: Inputs, features: int, before: Values | None, reduced: Values, names: Sequence[str]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the sample's properties after a superstep, and the changes that rounding and lag may cause.

        ``inputs``: of the whole graph.
        """
        known = self.part.properties
        given = {name: self.part_of(name, values) for name, values in inputs.properties.items() if name in known}
        state = {name: values for name, values in (before or {}).items() if name in known}

        def values(run: _PartRun) -> dict[str, Array]:
            run.sampled, run.reduced = len(self.vertices), reduced
            run.reset(Inputs(given, inputs.parameters), state)
            run.run_stages()
            return {name: self._at_sample(name, run.values(name)) for name in names}

        exact = values(_PartRun(self.part, self.graph, features))
        signed = patterns(self.part, features)
        rounded = (values(_RoundedPartRun(self.part, self.graph, features, lag=1.0, pattern=one)) for one in signed)
        return exact, responses(exact, rounded)

    def _at_sample(self, name: str, values: NDArray[np.generic]) -> Array:
        """Select the sample's rows from those of the subgraph."""
        edge = self.program.properties[name].place == "edge"
        return np.asarray(values[self._edges_of(name)] if edge else values[self.rows])


def _degrees(offsets: NDArray[np.int64], vertices: Array) -> Array:
    """Return the degrees of some vertices."""
    return np.asarray(offsets[vertices + 1] - offsets[vertices])


def _numbered(num_vertices: int, vertices: Array, sources: Array, destinations: Array) -> tuple[Array, Array]:
    """Return the distinct vertices, ``vertices`` first, and the number of each among them, uint32[V]."""
    others = np.zeros(num_vertices, np.bool_)
    for ends in (sources, destinations):
        others[ends] = True
    others[vertices] = False
    near = np.concatenate([vertices, np.flatnonzero(others)])
    number = np.zeros(num_vertices, np.uint32)
    number[near] = np.arange(len(near), dtype=np.uint32)
    return near, number
