"""SciPy as an engine: a reduction whose message is a product with the source is a sparse matrix times dense features.

If every edge has a coefficient for each feature, the matrix consists of blocks. Everything else is NumPy in float32.
Other messages are *unsupported*: SciPy has no operation that gathers messages edge by edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from engines.libraries.array_engine import ArrayEngine
from engines.libraries.blocks import Blocks, as_blocks, block_structure
from engines.libraries.matrix import RUN, Matrix, Pattern
from harness.api import Arrays, Device, EdgeReduce, EdgeUpdate, Expression, Graph, Inputs, Phases, Program, concrete

Array = NDArray[Any]


class ScipyEngine(ArrayEngine):
    """Sparse times dense, on one thread, in float32."""

    library = "scipy.sparse"
    deterministic = True

    def open(self, device: Device) -> None:
        """Use NumPy's arrays."""
        self.arrays = Arrays()

    def csr(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int]) -> Any:
        """Return SciPy's CSR array."""
        return scipy.sparse.csr_array((values, columns, offsets), shape=shape)

    def other_message(self, program: Program, stage: EdgeReduce, reason: str) -> str:
        """Return why a message cannot be reduced; empty if it is a product of blocks."""
        return reason if as_blocks(program, stage) is None else ""

    def bytes_needed(self, program: Program, graph: Graph, features: int) -> int:
        """Return the bytes needed, with a column, a coefficient position and a value for every entry of a block."""
        entries = sum(_entries(found, features) for found in _blocks(program).values())
        return super().bytes_needed(program, graph, features) + 20 * entries * graph.num_edges

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare also the structure of the matrices of blocks."""
        super().prepare(program, graph, features, device, phases)
        with phases("transform"):
            self._blocks = _blocks(self.program)
            self._structures = {name: self._structure(found) for name, found in self._blocks.items()}

    def functions_of_edges(self, stage: EdgeReduce | EdgeUpdate) -> tuple[Expression, ...]:
        """Return what is evaluated at every edge for a stage: of a product with blocks, their coefficient."""
        found = _blocks(self.program).get(stage.name)
        return super().functions_of_edges(stage) if found is None else (found.coefficient,)

    def _structure(self, found: Blocks) -> list[tuple[Pattern, Array]]:
        """Return for each side the matrix without its values, and the positions of these among the coefficients."""
        entries = _entries(found, self.features)
        width = self.graph.num_vertices * (1 if found.outer else entries)
        wide = np.int64 if max(width, self.graph.num_edges * entries) >= 2**31 else np.int32
        made = []
        for side in self.sides:
            sources = self.graph.csc.neighbours[side.edges]
            columns, offsets, order = block_structure(sources, side.offsets, entries, found.outer)
            parts = columns.astype(wide), offsets.astype(wide)
            made.append((Pattern.of(*parts, width, self.arrays, self.csr, RUN), order))
        return made

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset also the values of the matrices of blocks."""
        super().reset(inputs, state)
        self._block_matrices = {name: self._valued(name, found) for name, found in self._blocks.items()}

    def _valued(self, name: str, found: Blocks) -> list[Matrix]:
        made = []
        for side, (pattern, order) in zip(self.sides, self._structures[name], strict=True):
            coefficient = self.edge_evaluator(side.edges)(found.coefficient)
            shape = (side.edges.stop - side.edges.start, _entries(found, self.features))
            made.append(pattern.matrix(np.broadcast_to(coefficient, shape).reshape(-1)[order]))
        return made

    def reduced(self, stage: EdgeReduce, at: int) -> Array:
        """Return the product with a matrix of blocks."""
        found = self._blocks[stage.name]
        dense, entries = self.vertex_evaluator()(found.dense), _entries(found, self.features)
        columns = concrete(found.dense.shape, self.features) if found.outer else (entries,)
        dense = np.broadcast_to(dense, (self.graph.num_vertices, *columns))
        total = self._block_matrices[stage.name][at] @ (dense if found.outer else dense.reshape(-1, 1))
        return np.asarray(total.reshape(-1, entries, *(columns if found.outer else ())))

    def described(self, stage: Any) -> str:
        """Return the implementation of one stage as text."""
        found = self._blocks.get(stage.name)
        if found is None:
            return super().described(stage)
        kind = f"outer({found.coefficient!r}, " if found.outer else f"{found.coefficient!r} times ("
        return f"{self.library} CSR of blocks, {kind}dense {found.dense!r})"

    def close(self) -> None:
        """Release all arrays."""
        super().close()
        self._structures, self._block_matrices = {}, {}


def _blocks(program: Program) -> dict[str, Blocks]:
    """Return the reductions of a program that are products of blocks but not plain products."""
    reductions = [stage for stage in program.stages if isinstance(stage, EdgeReduce)]
    return {s.name: found for s in reductions if (found := as_blocks(program, s)) is not None}


def _entries(found: Blocks, features: int) -> int:
    return concrete(found.coefficient.shape, features)[0]
