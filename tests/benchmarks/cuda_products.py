"""One weighted aggregation beside cuSPARSE: the same matrix times the same features, in turns, with the same answer.

cuSPARSE multiplies a CSR matrix of float32 with int32 indices into an output that is allocated already. It runs in all
ways that it offers (algorithm, dense arrays by rows or by columns, with and without preprocessing; for one feature SpMV
as well), each in its own layout without conversions. All ways are timed in the same run; the fastest is the one that
Onyx is compared with, and its name is part of the ratio. The weights into a vertex sum to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.graph import Graph
from tests.benchmarks.cuda_cells import (
    CHUNK,
    Cell,
    Timed,
    compile_ahead,
    prepared,
    release,
    side_by_side,
)
from tests.benchmarks.cuda_groups import Found, Table, guarded
from tests.benchmarks.workloads import SparseProduct

if TYPE_CHECKING:
    from engines.libraries.cusparse_matrix import CsrMatrix
    from engines.libraries.cusparse_ways import Way

LABEL = "cuSPARSE"
SCHEDULES: dict[str, dict[str, Any]] = {
    "pull": {"balance": "warp"},
    "pull over tiles": {"balance": "edge"},
    "push over tiles": {"direction": "push", "balance": "edge"},
}
AT_LEAST = 1.0  # times as fast as cuSPARSE that the best of Onyx has to be
FEATURES = (32, 128, 8, 64, 4, 16, 1)  # the most important first
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
    """``y = A x`` by cuSPARSE in one way, in the layout of that way."""

    def __init__(self, matrix: CsrMatrix, features: int, way: Way) -> None:
        import cupy

        self.matrix, self.way = matrix, way
        order = "F" if way.order == "column" else "C"
        self.x = cupy.empty((matrix.shape[1], features), np.float32, order=order)
        self.y = cupy.empty((matrix.shape[0], features), np.float32, order=order)

    def run(self, times: int) -> None:
        """Queue the product ``times`` times; nothing is allocated or converted."""
        for _ in range(times):
            self.matrix.multiply(self.x, self.y, self.way)


def every_way(averages: Averages, features: int) -> tuple[dict[Way, Timed | str], CuSparse | str]:
    """The times of all ways, one after another, and the fastest one, ready to run again beside others.

    A way has a text in the place of its time where cuSPARSE does not support it or its answer is wrong.
    """
    from engines.libraries.cusparse_matrix import UNSUPPORTED, CsrMatrix
    from engines.libraries.cusparse_ways import all_ways

    shape = (averages.graph.num_vertices,) * 2
    matrix = CsrMatrix(averages.inwards, averages.columns, averages.offsets, shape)
    found: dict[Way, Timed | str] = {}
    for way in all_ways(features):
        try:
            found[way] = _timed_way(averages, CuSparse(matrix, features, way))
        except UNSUPPORTED as error:
            found[way] = f"unsupported: {str(error).splitlines()[0]}"
        release([])
    times = {way: timed.ms for way, timed in found.items() if isinstance(timed, Timed)}
    if not times:
        return found, "cuSPARSE supports no way"
    best = CuSparse(matrix, features, min(times, key=times.__getitem__))
    fill_rows(best.x)
    return found, best


def _timed_way(averages: Averages, product: CuSparse) -> Timed | str:
    """The median time of a way; its answer is held against float64 before."""
    import cupy

    fill_rows(product.x)
    product.y.fill(np.nan)
    product.run(1)
    vertices = averages.sample()
    error = farthest(product.y[cupy.asarray(vertices)], averages.rows(product.x, vertices))
    if bool(cupy.isnan(product.y).any()) or error > BOUND:
        return f"wrong: off by {error:.1e}"
    return side_by_side({LABEL: product})[LABEL]


def fill_rows(values: Any, seed: int = 7) -> None:
    """Random values in [0, 1) by rows ``[V, k]``, the same whatever order the array is stored in."""
    import cupy

    if values.flags.c_contiguous:
        fill(values, seed)
        return
    rows = cupy.empty(values.shape, np.float32)
    fill(rows, seed)
    values[...] = rows


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
        arrays, k, count = engine.executor.arrays, cell.features, matrix.graph.num_vertices
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
            apart = farthest(y, cupy.ascontiguousarray(other.y))
            runners["cusparse"] = other
        vertices = matrix.sample()
        error = farthest(y[cupy.asarray(vertices)], matrix.rows(x, vertices))
        times = side_by_side(runners)
        return Duel(times["onyx"], times.get("cusparse", str(other)), apart, error)
    finally:
        release([engine])


def guarded_ways(matrix: Averages, k: int) -> tuple[dict[Way, Timed | str], CuSparse | str]:
    """:func:`every_way`, or in words why cuSPARSE has no time."""
    found = guarded(lambda: every_way(matrix, k))
    return ({}, found) if isinstance(found, str) else found


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
    ways, other = guarded_ways(matrix, k)
    for cell in cells:
        fought = guarded(lambda c=cell: duel(c, matrix, other))
        duels[cell.label] = Duel(fought, "") if isinstance(fought, str) else fought
        wrong = max(duels[cell.label].error, duels[cell.label].apart / 2)
        if wrong > BOUND:
            duels[cell.label].onyx = f"wrong: off by {wrong:.1e}"
        release([])
        table.row(graph, cell, duels[cell.label].onyx)
    best = min(duels, key=lambda label: duels[label].onyx.ms if isinstance(duels[label].onyx, Timed) else np.inf)
    other_name = str(other.way) if isinstance(other, CuSparse) else ""
    other = ""
    release([])
    for way, timed in ways.items():
        table.row(graph, Cell(f"{LABEL}, {way}", SparseProduct(), k), timed)
    table.row(graph, Cell(f"{LABEL} at its best", SparseProduct(), k), duels[best].cusparse)
    words = f"best of Onyx ({best}) over best of cuSPARSE ({other_name}; answers within {duels[best].apart:.0e})"
    table.ratio(graph, k, words, duels[best].cusparse, duels[best].onyx, AT_LEAST)
