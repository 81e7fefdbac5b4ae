"""SciPy as an engine: a reduction whose message is a product with the source is a sparse matrix times dense features.

A sum of ``c(dst, edge) * f(src)`` is ``A @ F``: A is the CSR matrix of in-edges that holds c, made once when c is
constant, and F is f of every vertex. Everything else is NumPy in float32. A message that is no such product is
*unsupported*: gathering messages edge by edge in Python is not what anybody would use SciPy for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.libraries.matrix import Matrix
from engines.libraries.products import Product, as_product
from harness.api import (
    Device,
    EdgeReduce,
    EdgeUpdate,
    Engine,
    Evaluator,
    Graph,
    GraphReduce,
    Inputs,
    No,
    Phases,
    Program,
    RunStatistics,
    Superstep,
    VertexStep,
    Yes,
    concrete,
    initial_values,
    moved,
    segment_reduce,
    watched,
)

Array = NDArray[Any]


@dataclass
class Matrices:
    """A product's sparse matrix for each side that supersteps update."""

    product: Product
    sides: list[Matrix]


class ScipyEngine(Engine):
    """Sparse times dense, on one thread, in float32."""

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Products only; needs the dense operand of every product at once."""
        if device.kind != "cpu":
            return No("SciPy runs on the CPU only")
        if program.control.alternate and graph.bipartite is None:
            return No("the program alternates sides and the graph is not bipartite")
        elements = 0
        for stage in program.stages:
            if isinstance(stage, EdgeUpdate):
                return No(f"{stage.name} updates an edge property, which is no sparse product")
            if isinstance(stage, EdgeReduce):
                product = as_product(program, stage)
                if isinstance(product, str):
                    return No(product)
                elements += int(np.prod(concrete(product.dense.shape, features), dtype=np.int64))
        sparse = 8 * graph.num_edges + 8 * graph.num_vertices
        dense = sum(int(np.prod(concrete(p.shape, features), dtype=np.int64)) for p in program.properties.values())
        return Yes(sparse + 4 * graph.num_vertices * (dense + 2 * elements))

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Nothing is compiled; the structure of the matrices is the graph's own CSC."""
        self.program, self.graph, self.features = program, graph, features
        self.products: dict[str, Product] = {}
        with phases("transform"):
            for stage in program.stages:
                if isinstance(stage, EdgeReduce):
                    product = as_product(program, stage)
                    assert isinstance(product, Product)
                    self.products[stage.name] = product
            self._watched = [name for _, name in watched(program)]

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Everything to its start; matrices are made of the inputs."""
        self._parameters = dict(self.program.parameters) | dict(inputs.parameters)
        self._value = initial_values(self.program, self.graph, self.features, inputs, state or {}, np.float32)
        self._matrices = {name: Matrices(p, self._sparse(p)) for name, p in self.products.items()}
        self._superstep, self._active, self._settled = 0, self.graph.num_vertices, False

    def _sides(self) -> list[slice]:
        count = self.graph.num_vertices
        if not self.program.control.alternate or self.graph.bipartite is None:
            return [slice(0, count)]
        left = self.graph.bipartite[0]
        return [slice(0, left), slice(left, count)]

    def _sparse(self, product: Product) -> list[Matrix]:
        csc = self.graph.csc

        def read(space: str, name: str) -> Array:
            value = self._value[name]
            if space == "edge":
                return np.asarray(value[csc.edge_ids])
            return (
                value if space == "graph" else np.asarray(value[np.repeat(np.arange(len(value)), np.diff(csc.offsets))])
            )

        evaluate = Evaluator(read, self._parameters, self.features, np.float32)
        coefficient = np.broadcast_to(evaluate(product.coefficient), csc.neighbours.shape).astype(np.float32)
        narrow = self.graph.num_edges < 2**31 and self.graph.num_vertices < 2**31
        dtype = np.int32 if narrow else np.int64
        offsets, sources = csc.offsets.astype(dtype), csc.neighbours.astype(dtype)
        count = self.graph.num_vertices
        made = []
        for side in self._sides():
            cuts = offsets[side.start : side.stop + 1]
            arcs = slice(cuts[0], cuts[-1])
            made.append(Matrix.of(coefficient[arcs], sources[arcs], cuts - cuts[0], count))
        return made

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps."""
        statistics = RunStatistics(settled=self._settled)
        control = self.program.control
        tolerance = self._parameters[control.tolerance] if control.tolerance else 0.0
        for _ in range(0 if self._settled else max_supersteps):
            before = {name: self._value[name] for name in self._watched}
            statistics.supersteps.append(Superstep(self._active, self._step(), "pull"))
            flags = [moved(old, self._value[name], tolerance, control.relative) for name, old in before.items()]
            self._active = int(np.logical_or.reduce(flags).sum()) if flags else 0
            self._superstep += 1
            if control.settles and self._active == 0 and self._superstep >= len(self._sides()):
                self._settled = statistics.settled = True
                break
        return statistics

    def _step(self) -> int:
        sides = self._sides()
        at = self._superstep % len(sides)
        side, edges = sides[at], 0
        for stage in self.program.stages:
            match stage:
                case EdgeReduce():
                    edges += self._multiply(stage, at, side)
                case VertexStep():
                    self._vertices(stage, side)
                case GraphReduce():
                    values = self._evaluator()(stage.value)
                    values = np.broadcast_to(values, (self.graph.num_vertices, *values.shape[1:]))
                    self._value[stage.into] = segment_reduce(values, np.array([0, len(values)]), stage.reducer)
        return edges

    def _evaluator(self) -> Evaluator:
        def read(space: str, name: str) -> Array:
            return self._value[name]

        def without(space: str, name: str, factor: Array) -> Array:  # of a sum: a product over edges is refused
            return np.asarray(self._value[name] - factor)

        return Evaluator(read, self._parameters, self.features, np.float32, without)

    def _multiply(self, stage: EdgeReduce, at: int, side: slice) -> int:
        matrices = self._matrices[stage.name]
        dense = self._evaluator()(matrices.product.dense)
        dense = np.broadcast_to(dense, (self.graph.num_vertices, *dense.shape[1:]))
        sparse = matrices.sides[at]
        total = (sparse @ dense.reshape(len(dense), -1)).reshape(-1, *dense.shape[1:])
        if side == slice(0, len(dense)):
            self._value[stage.into] = total
        else:
            result = self._value[stage.into].copy()
            result[side] = total
            self._value[stage.into] = result
        return sparse.nnz

    def _vertices(self, stage: VertexStep, side: slice) -> None:
        value = {name: array if self._is_graph(name) else array[side] for name, array in self._value.items()}
        evaluate = Evaluator(lambda space, name: value[name], self._parameters, self.features, np.float32)
        fresh = {name: evaluate(expression) for name, expression in stage.values}
        for name, array in fresh.items():
            if array.shape == self._value[name].shape:  # every vertex
                self._value[name] = array
                continue
            result = np.empty_like(self._value[name])
            result[: side.start], result[side.stop :] = self._value[name][: side.start], self._value[name][side.stop :]
            result[side] = array
            self._value[name] = result

    def _is_graph(self, name: str) -> bool:
        return self.program.properties[name].place != "vertex"

    def values(self, name: str) -> Array:
        """A property in float32."""
        return self._value[name].copy()

    def explain(self) -> str:
        """Which path each stage takes."""
        lines = [f"{type(self).__name__} {self.schedule!r}"]
        for name, p in self.products.items():
            lines.append(f"  {name}: scipy.sparse CSR of {p.coefficient!r} times dense {p.dense!r}")
        return "\n".join(lines)

    def close(self) -> None:
        """Drop all arrays."""
        self._value, self._matrices = {}, {}
