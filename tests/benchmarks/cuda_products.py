"""One weighted aggregation beside cuSPARSE: the same matrix times the same rows, in turns, with the same answer.

cuSPARSE through PyTorch, which takes its faster road (row-major features, an output that is there already): a CSR
matrix of float32 with int32 indices. The weights into a vertex sum to 1, so every value is an average of others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from harness.graph import Graph
from tests.benchmarks.cuda_cells import (
    CHUNK,
    Cell,
    Timed,
    Unsupported,
    compile_ahead,
    prepared,
    release,
    side_by_side,
)
from tests.benchmarks.cuda_groups import Found, Table, guarded
from tests.benchmarks.workloads import SparseProduct

LABEL = "cuSPARSE"
SCHEDULES: dict[str, dict[str, Any]] = {
    "pull": {"balance": "warp"},
    "pull over tiles": {"balance": "edge"},
    "push over tiles": {"direction": "push", "balance": "edge"},
}
# How many times as fast the best of Onyx has to be at least, by kind of graph and k.
AT_LEAST: dict[str, Mapping[int, float]] = {
    "rmat": {4: 3.0, 8: 3.0, 16: 3.0, 32: 3.0, 64: 1.7, 128: 1.2},
    "grid": {4: 3.0, 8: 3.0, 16: 3.0, 32: 1.5, 64: 1.5, 128: 1.5},
}
FEATURES = (32, 128, 8, 64, 4, 16)  # what matters most first
HUBS, OTHERS = 8, 56  # vertices whose rows are held against float64: the largest, and any
BOUND = 1e-4  # relative error that an answer may have


class Averages:
    """A graph's matrix of in-edges on the device, its rows summing to 1, in both orders of the edges."""

    def __init__(self, graph: Graph) -> None:
        import cupy

        assert graph.in_weights is not None
        self.graph = graph
        self.offsets = cupy.asarray(graph.csc.offsets.astype(np.int32))
        self.columns = cupy.asarray(graph.csc.neighbours.view(np.int32))
        rows = cupy.asarray(graph.csc.row_of_arc.view(np.int32))
        weights = cupy.asarray(graph.in_weights)
        sums = cupy.bincount(rows, weights, graph.num_vertices).astype(np.float32)
        self.inwards = weights / sums[rows]
        self.outwards = cupy.asarray(graph.weights) / sums[cupy.asarray(graph.csr.neighbours.view(np.int32))]

    def rows(self, values: Any, vertices: Any) -> Any:
        """What the product has at some vertices, in float64 ``[len(vertices), k]``; ``values``: float32 ``[V, k]``."""
        import cupy

        found = []
        for vertex in vertices:
            edges = slice(*(int(offset) for offset in self.graph.csc.offsets[vertex : vertex + 2]))
            weights = self.inwards[edges].astype(cupy.float64)
            found.append((weights[:, None] * values[self.columns[edges]].astype(cupy.float64)).sum(axis=0))
        return cupy.stack(found)

    def sample(self) -> Any:
        """The vertices to look at: the largest, and any."""
        degrees = np.diff(self.graph.csc.offsets)
        any_of = np.random.default_rng(5).choice(len(degrees), min(OTHERS, len(degrees)), replace=False)
        return np.union1d(np.argpartition(-degrees, min(HUBS, len(degrees) - 1))[:HUBS], any_of)


class CuSparse:
    """``y = A x`` by PyTorch, in memory of CuPy's pool. Raises Unsupported."""

    def __init__(self, matrix: Averages, features: int) -> None:
        try:
            import torch
        except ImportError as error:
            raise Unsupported(f"PyTorch is not installed ({error})") from error
        if not torch.cuda.is_available():
            raise Unsupported(f"PyTorch {torch.__version__} finds no CUDA device")
        import cupy

        self.matrix = matrix
        shape = (matrix.graph.num_vertices, features)
        self.x, self.y = cupy.empty(shape, np.float32), cupy.empty(shape, np.float32)
        fill(self.x)
        self.csr = csr_of(matrix, torch)
        self.tensors = torch.from_dlpack(self.x), torch.from_dlpack(self.y)

    def run(self, times: int) -> None:
        """Queue the product so many times; nothing is allocated for the answer."""
        x, y = self.tensors
        for _ in range(times):
            y.addmm_(self.csr, x, beta=0)

    def run_anew(self, times: int) -> None:
        """The same by ``torch.mm``, which makes an answer of zeros first."""
        for _ in range(times):
            _ = self.csr.mm(self.tensors[0])


def csr_of(matrix: Averages, torch: Any) -> Any:
    """The matrix as PyTorch's, in the same memory: float32, indices int32."""
    shape = (matrix.graph.num_vertices, matrix.graph.num_vertices)
    torch.sparse.check_sparse_tensor_invariants.disable()  # the graph's structure was checked when it was made
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        parts = (torch.from_dlpack(part) for part in (matrix.offsets, matrix.columns, matrix.inwards))
        return torch.sparse_csr_tensor(*parts, shape)


def fill(values: Any, seed: int = 7) -> None:
    """Random values in [0, 1), the same for the same length."""
    import cupy

    random, flat = cupy.random.default_rng(seed), values.reshape(-1)
    for first in range(0, len(flat), CHUNK):
        part = flat[first : first + CHUNK]
        part[:] = random.random(len(part), dtype=cupy.float32)


def farthest(found: Any, expected: Any) -> float:
    """The largest difference of non-negative values, relative to the expected one; infinite where one is no number."""
    import cupy

    most = 0.0
    found, expected = found.reshape(-1), expected.reshape(-1)
    for first in range(0, len(found), CHUNK):
        one, other = found[first : first + CHUNK], expected[first : first + CHUNK]
        apart = cupy.abs(one - other) / cupy.maximum(cupy.abs(other), np.float32(1e-6))
        most = max(most, float(cupy.where(cupy.isnan(apart), np.inf, apart).max()))
    return most


@dataclass
class Duel:
    """One schedule of Onyx and cuSPARSE: times of both in turns; how far their answers are from each other (nan where
    one has none) and that of Onyx from float64."""

    onyx: Found
    cusparse: Found
    apart: float = float("nan")
    error: float = float("nan")


def duel(cell: Cell, matrix: Averages, other: CuSparse | str) -> Duel:
    """Answers held against each other, then times."""
    import cupy

    engine = prepared(cell, matrix.graph)
    try:
        arrays, k, count = engine.memory.arrays, cell.features, matrix.graph.num_vertices
        for name, weights in (("csc_weight", matrix.inwards), ("csr_weight", matrix.outwards)):
            if name in arrays:
                arrays[name][: len(weights)] = weights
        x, y = (arrays[f"vertex_{name}"][: count * k].reshape(count, k) for name in "xy")
        fill(x)
        y.fill(np.nan)
        cupy.cuda.Device().synchronize()  # the engine's stream waits for nobody
        engine.run(1)
        runners: dict[str, Any] = {"onyx": engine}
        apart = float("nan")
        if isinstance(other, CuSparse):
            other.y.fill(np.nan)
            other.run(1)
            apart = farthest(y, other.y)
            runners["cusparse"] = other
        vertices = matrix.sample()
        error = farthest(y[cupy.asarray(vertices)], matrix.rows(x, vertices))
        times = side_by_side(runners)
        return Duel(times["onyx"], times.get("cusparse", str(other)), apart, error)
    finally:
        release([engine])


def _anew(other: CuSparse) -> Timed:
    return side_by_side({LABEL: SimpleNamespace(run=other.run_anew)})[LABEL]


def against_cusparse(table: Table, graph: Graph, features: tuple[int, ...]) -> None:
    """The best of Onyx's schedules over cuSPARSE."""
    title = f"one weighted aggregation on {graph.name}, beside cuSPARSE"
    matrix = None
    table.title(title)
    for k in features:
        if not table.budget.allows(title, f"k={k}", 6.0):
            continue
        matrix = matrix or guarded(lambda: Averages(graph))
        if isinstance(matrix, str):
            table.row(graph, Cell(LABEL, SparseProduct(), k), matrix)
            return
        _at(table, matrix, k)


def _at(table: Table, matrix: Averages, k: int) -> None:
    graph, duels = matrix.graph, {}
    cells = [Cell(label, SparseProduct(), k, options) for label, options in SCHEDULES.items()]
    compile_ahead(cells, graph)
    other = guarded(lambda: CuSparse(matrix, k))
    for cell in cells:
        fought = guarded(lambda c=cell: duel(c, matrix, other))
        duels[cell.label] = Duel(fought, "") if isinstance(fought, str) else fought
        wrong = max(duels[cell.label].error, duels[cell.label].apart / 2)
        if wrong > BOUND:
            duels[cell.label].onyx = f"wrong: off by {wrong:.1e}"
        release([])
        table.row(graph, cell, duels[cell.label].onyx)
    best = min(duels, key=lambda label: duels[label].onyx.ms if isinstance(duels[label].onyx, Timed) else np.inf)
    anew = other if isinstance(other, str) else guarded(lambda: _anew(other))
    other = None
    release([])
    table.row(graph, Cell(LABEL, SparseProduct(), k), duels[best].cusparse)
    table.row(graph, Cell(f"{LABEL}, torch.mm", SparseProduct(), k), anew)
    kind = graph.name.partition("_")[0]
    words = f"best of Onyx over cuSPARSE ({best}; answers within {duels[best].apart:.0e})"
    table.ratio(graph, k, words, duels[best].cusparse, duels[best].onyx, AT_LEAST.get(kind, {}).get(k))
