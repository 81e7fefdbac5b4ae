"""Whole-graph reductions of one superstep in float64, over blocks of vertices, for which no edges are needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph.graph import Graph
from harness.language.algorithm import Inputs
from harness.language.evaluation import concrete
from harness.language.part_of_graph import PartOfGraph
from harness.language.program import GraphReduce, Program, Reducer
from harness.language.reference import ReferenceRun
from harness.language.sampled_stages import part_for, without_edges

Array = NDArray[Any]
Values = Mapping[str, Array]

_AT_ONCE = 1 << 20  # elements of the largest property of a block: 8 MB
# A product is not divided: of a vector, it is defined up to a factor, and parts of it may underflow.
_COMBINE: dict[Reducer, Callable[[Array, Array], Array]] = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class _BlockRun(ReferenceRun):
    """A run on a block of vertices; ``reduced``: results of earlier reductions over the whole graph, by name."""

    reduced: Values

    def _reduce_graph(self, stage: GraphReduce) -> None:
        if stage.into in self.reduced:
            self._value[stage.into] = self.reduced[stage.into]
        else:
            super()._reduce_graph(stage)


def reduce_whole(program: Program, graph: Graph, features: int, inputs: Inputs, state: Values) -> dict[str, Array]:
    """Return the whole-graph reductions of a superstep by name, ``[1, *shape]`` in float64.

    ``state``: properties ``[V, ...]`` before it that are not at their start. No reduction may depend on messages of the
    same superstep, and each has a property of its own (:func:`harness.language.sampled_stages.not_sampled`).
    """
    reduced: dict[str, Array] = {}
    left = without_edges(program)
    for number, stage in enumerate(left.stages):
        if isinstance(stage, GraphReduce):
            until = part_for(replace(left, stages=left.stages[: number + 1]), (stage.into,))
            reduced[stage.into] = _reduced(until, stage, graph, features, inputs, state, reduced)
    return reduced


def _reduced(
    program: Program, stage: GraphReduce, graph: Graph, features: int, inputs: Inputs, state: Values, reduced: Values
) -> Array:
    """Return one reduction; ``program``: the stages up to it, ``reduced``: those before it."""
    total: Array | None = None
    for vertices in _blocks(program, stage, graph, features):
        run = _BlockRun(program, PartOfGraph.without_edges(graph, vertices), features)
        run.reduced = reduced
        given = {name: values for name, values in inputs.properties.items() if name in program.properties}
        before = {name: values for name, values in state.items() if name in program.properties}
        run.reset(Inputs(_rows(program, given, vertices), inputs.parameters), _rows(program, before, vertices))
        run.run_stages()
        found = run.values(stage.into)
        total = found if total is None else _COMBINE[stage.reducer](total, found)
    assert total is not None
    return total


def _blocks(program: Program, stage: GraphReduce, graph: Graph, features: int) -> Iterator[slice]:
    """Yield ranges of all vertices; at least one, which may be empty."""
    shapes = [prop.shape for prop in program.properties.values() if prop.place == "vertex"]
    elements = max((math.prod(concrete(shape, features)) for shape in (*shapes, stage.value.shape)), default=1)
    rows = max(1, _AT_ONCE // max(1, elements)) if stage.reducer in _COMBINE else graph.num_vertices
    for first in range(0, max(1, graph.num_vertices), max(1, rows)):
        yield slice(first, min(first + rows, graph.num_vertices))


def _rows(program: Program, values: Values, vertices: slice) -> dict[str, Array]:
    """Return the rows of a block of properties of vertices, and all others whole."""
    return {
        name: array[vertices] if program.properties[name].place == "vertex" else array for name, array in values.items()
    }
