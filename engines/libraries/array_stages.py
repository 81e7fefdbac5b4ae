"""A superstep over whole arrays of a library: the stages of a program in order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from engines.libraries.matrix import Matrix
from engines.libraries.products import Product
from harness.api import (
    Arrays,
    EdgeReduce,
    EdgeUpdate,
    Evaluator,
    Graph,
    GraphReduce,
    Program,
    VertexStep,
)
from harness.api.library import VertexReduce

Array = Any  # of the library


@dataclass(frozen=True)
class Side:
    """The vertices that a superstep updates, and their in-edges (in CSC order).

    Supersteps update the sides in turn. ``vertices`` and ``edges`` are ranges; ``offsets`` are the CSC offsets of these
    vertices, relative to the first of these edges.
    """

    vertices: slice
    edges: slice
    offsets: NDArray[Any]


def sides_of(program: Program, graph: Graph) -> list[Side]:
    """Return one side with all vertices, or both sides of a bipartite graph if the program alternates them."""
    count, offsets = graph.num_vertices, graph.csc.offsets
    cuts = [0, count]
    if program.control.alternate and graph.bipartite is not None:
        cuts = [0, graph.bipartite[0], count]
    sides = []
    for first, last in itertools.pairwise(cuts):
        own = offsets[first : last + 1]
        sides.append(Side(slice(first, last), slice(int(own[0]), int(own[-1])), own - own[0]))
    return sides


class ArrayStages:
    """Runs the stages of a superstep over all vertices (of a side); see :class:`ArrayEngine`.

    ``_value``: every property; edge properties are in CSC order. ``products``: the reductions that are sparse products;
    ``_matrices`` holds their matrices for each side. A subclass implements other reductions (:meth:`reduced`).
    ``_constant``: the names of reductions with the same result in every superstep.
    """

    library: ClassVar[str]
    dtype: type[np.floating[Any]] = np.float32

    arrays: Arrays
    program: Program
    graph: Graph
    features: int
    sides: list[Side]
    products: dict[str, Product]
    ends: dict[str, Array]  # of edges: sources, destinations and reverse edges, as far as they are read

    _value: dict[str, Array]
    _matrices: dict[str, list[Matrix]]
    _constant: set[str]
    _parameters: dict[str, Any]
    _superstep: int

    def step(self) -> int:
        """Run one superstep and return the number of edges visited."""
        at = self._superstep % len(self.sides)
        edges = 0
        for stage in self.program.stages:
            match stage:
                case EdgeReduce():
                    edges += self._reduce(stage, at)
                case EdgeUpdate():
                    self.update(stage)
                    edges += self.graph.num_edges
                case VertexStep():
                    self._vertices(stage, self.sides[at].vertices)
                case VertexReduce():
                    self._value[stage.into] = self.reduced_at(stage)
                case GraphReduce():
                    self._reduce_graph(stage)
        return edges

    def after(self, state: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return every property one superstep after ``state``, which is not written."""
        self._value |= state
        self.step()
        self._superstep += 1
        return self._value

    def vertex_evaluator(self) -> Evaluator:
        """Return an evaluator of functions of a vertex, or of the source of an edge, over all vertices."""

        def read(space: str, name: str) -> Array:
            return self._value[name]

        def without(space: str, name: str, factor: Array) -> Array:  # of a sum
            return self._value[name] - factor

        return Evaluator(read, self._parameters, self.features, self.dtype, without, self.arrays, at=self.at)

    def edge_evaluator(self, edges: slice) -> Evaluator:
        """Return an evaluator of functions of an edge over a range of edges in CSC order."""

        def read(space: str, name: str) -> Array:
            if space == "graph":
                return self._value[name]
            if space == "edge":
                return self._value[name][edges]
            # The reverse of the j-th edge of the CSC is the j-th of the CSR, which is edge in_edge_ids[j] of the CSC.
            return self.gather(self._value[name], self.ends[space][edges])

        def without(space: str, name: str, factor: Array) -> Array:  # of a sum
            return read(space, name) - factor

        return Evaluator(read, self._parameters, self.features, self.dtype, without, self.arrays)

    def gather(self, values: Array, index: Array) -> Array:
        """Return the rows with the given numbers."""
        return values[index]

    def _reduce(self, stage: EdgeReduce, at: int) -> int:
        if stage.name in self._constant and self._superstep >= len(self.sides):
            return 0  # the result would be the same again
        side = self.sides[at]
        total = self._multiplied(stage, at) if stage.name in self.products else self.reduced(stage, at)
        if len(self.sides) > 1:
            total = self._replaced(self._value[stage.into], side.vertices, total)
        self._value[stage.into] = total
        return side.edges.stop - side.edges.start

    def _multiplied(self, stage: EdgeReduce, at: int) -> Array:
        dense = self.vertex_evaluator()(self.products[stage.name].dense)
        dense = self.arrays.broadcast(dense, (self.graph.num_vertices, *dense.shape[1:]))
        total = self._matrices[stage.name][at] @ dense.reshape(len(dense), math.prod(dense.shape[1:]))
        return total.reshape(len(total), *dense.shape[1:])

    def reduced(self, stage: EdgeReduce, at: int) -> Array:
        """Return the result of a reduction that is not a product, for the vertices of a side."""
        raise NotImplementedError(f"{self.library} has no path for {stage.name}")

    def update(self, stage: EdgeUpdate) -> None:
        """Compute the new values of an edge property."""
        raise NotImplementedError(f"{self.library} has no path for {stage.name}")

    def _replaced(self, whole: Array, rows: slice, values: Array) -> Array:
        """Return a copy of an array with the given rows replaced."""
        result = self.arrays.copy(whole)
        result[rows] = values
        return result

    def _vertices(self, stage: VertexStep, rows: slice) -> None:
        places = self.program.properties
        value = self._value
        if len(self.sides) > 1:
            value = {n: array[rows] if places[n].place == "vertex" else array for n, array in value.items()}
        evaluate = Evaluator(
            lambda space, name: value[name], self._parameters, self.features, self.dtype, arrays=self.arrays, at=self.at
        )
        fresh = {name: evaluate(expression) for name, expression in stage.values}
        for name, values in fresh.items():
            old = self._value[name]
            whole = len(self.sides) == 1 and values.shape == old.shape
            self._value[name] = values if whole else self._replaced(old, rows, values)

    def at(self, name: str, numbers: Array) -> Array:
        """Return a property at the vertices that numbers name, ``[V]`` or ``[1]``; a vertex's own where none is."""
        raise NotImplementedError(f"{self.library} has no path for reads at named vertices")

    def reduced_at(self, stage: VertexReduce) -> Array:
        """Return the result of a reduction at named vertices."""
        raise NotImplementedError(f"{self.library} has no path for {stage.name}")

    def _reduce_graph(self, stage: GraphReduce) -> None:
        values = self.vertex_evaluator()(stage.value)
        values = self.arrays.broadcast(values, (self.graph.num_vertices, *values.shape[1:]))
        self._value[stage.into] = self.arrays.over_rows(stage.reducer, values)[None]

    def described(self, stage: Any) -> str:
        """Return the implementation of one stage as text."""
        if stage.name in self.products:
            product = self.products[stage.name]
            return f"{self.library} CSR of {product.coefficient!r} times dense {product.dense!r}"
        return f"{self.library} array functions over all vertices"
