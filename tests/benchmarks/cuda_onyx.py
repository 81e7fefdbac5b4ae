"""Onyx on a CUDA device, in one command of at most ten minutes: ``python -m tests.benchmarks.cuda_onyx``.

An R-MAT graph of 91 M arcs, a road-like grid of 24 M vertices and a Delaunay graph; every algorithm; k = 1, 2, 4 .. 128
(what does not fit shows *out_of_memory*). Milliseconds of a superstep are medians of rounds in which the cells of a
group take turns (one beyond 4 s is measured once); GB/s counts the bytes that a superstep goes through at least;
*floor* is a lower bound from the device's rates over the time, *replay* the time of a kernel that only gathers the
same rows in the graph's own order and sums them, over the time; the replay is no bound
(:mod:`tests.benchmarks.cuda_floors`).
Values are random where they do not matter.
Below the cells of a group: feature-aware over not (FA, NFA), the best schedule over cuSPARSE, folded over unfolded and
over kernels written by hand, change-driven over full. What did not fit the time is listed at the end.
``--seconds 300`` has room for what ratios are asked of, 560 for everything; ``--only cusparse`` measures a part,
``--graphs delaunay`` a graph; ``--markdown FILE`` writes it all as a page.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.multimodal import Multimodal
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.graph import Graph
from harness.language import Algorithm, Inputs
from harness.lowering.cuda.layout import DeviceLayout, has_matrices
from tests.benchmarks import cuda_runs
from tests.benchmarks.cuda_cells import Cell, Timed, compile_ahead
from tests.benchmarks.cuda_floors import Yardsticks
from tests.benchmarks.cuda_graphs import DelaunayMaker, rmat_graph, road_grid
from tests.benchmarks.cuda_groups import DeviceLost, Table, best, measured
from tests.benchmarks.cuda_products import FEATURES as PRODUCT_FEATURES
from tests.benchmarks.cuda_products import against_cusparse
from tests.benchmarks.cuda_shared import DeviceGraph
from tests.benchmarks.cuda_sheet import Budget, Sheet, device_facts
from tests.benchmarks.hand_written.kernels import BeliefPropagationByHand, HandWritten, LabelPropagationByHand
from tests.benchmarks.workloads import Aggregation

PUSH: dict[str, Any] = {"direction": "push"}
AGGREGATION: dict[str, dict[str, Any]] = {
    "push, NFA": {**PUSH, "balance": "warp", "feature_aware": False},
    "push, FA, single features": {**PUSH, "balance": "warp", "vector_width": 1},
    "push, FA": {**PUSH, "balance": "warp"},
    "push over tiles, NFA": {**PUSH, "balance": "edge", "feature_aware": False},
    "push over tiles, FA, single features": {**PUSH, "balance": "edge", "vector_width": 1},
    "push over tiles, FA": {**PUSH, "balance": "edge"},
    "pull, NFA": {"feature_aware": False, "balance": "warp"},
    "pull, FA": {"balance": "warp"},
    "pull over tiles, FA": {"balance": "edge"},
}
ALGORITHMS: tuple[Algorithm, ...] = (
    LabelPropagation(seeds="random"), PageRank(), BeliefPropagation(), ALS(sides="all"), ManifoldRanking(),
    Multimodal(), BFS(), SSSP(), Components(), KCore(core=16),
)  # fmt: skip
FEATURES = (8, 32, 4, 1, 128, 64, 16, 2)  # what matters most first
ASKED, REST = (4, 32), (8, 1, 128, 64, 16, 2)  # for feature-aware over not
# How many times as fast pushing has to be feature-aware as not on the R-MAT graph, by the words of a ratio and k.
FA_AT_LEAST = {("FA", 4): 2.0, ("FA, single features", 32): 3.0, ("FA", 32): 5.0}
FOLDED_AT_LEAST, BY_HAND_AT_LEAST = 1.2, 0.95  # folded over unfolded, over kernels written by hand
LONGEST_MS = 15_000.0  # of a superstep that is still measured
FOLDED: dict[str, dict[str, Any]] = {
    "pull, unfolded": {"fold": False, "balance": "warp"},
    "pull, folded": {"balance": "warp"},
    "pull over tiles, unfolded": {"fold": False, "balance": "edge"},
    "pull over tiles, folded": {"balance": "edge"},
}


WAYS = ("folded", "unfolded")
PARTS = ("fa", "cusparse", "folding", "cold", "warm", "every", "rest")
GRAPHS = ("rmat", "grid", "delaunay", "changing")  # of Graphs


@dataclass(frozen=True)
class Sizes:
    """How large the graphs are."""

    scale: int = 21
    arcs: int = 91_000_000
    side: int = 4899
    points: int = 1 << 21
    warm_scale: int = 18
    warm_arcs: int = 4_000_000


QUICK = Sizes(scale=14, arcs=400_000, side=200, points=20_000, warm_scale=12, warm_arcs=60_000)


def aggregation(table: Table, graph: Graph, features: tuple[int, ...]) -> None:
    """One weighted aggregation with normalisation: what each part of a schedule is good for."""
    table.title(f"weighted aggregation on {graph.name}")
    asked = FA_AT_LEAST if graph.name.startswith("rmat") else {}
    cells = {k: [Cell(label, Aggregation(), k, options) for label, options in AGGREGATION.items()] for k in features}
    compile_ahead([cell for group in cells.values() for cell in group], graph)
    for k, group in cells.items():
        if not table.budget.allows(f"aggregation on {graph.name}", f"k={k}", 6.0):
            continue
        found = measured(table, graph, group)
        for form in ("push", "push over tiles"):
            for fast in ("FA, single features", "FA"):
                words = f"{form}, {fast} over {form}, NFA"
                slow, quick = found[f"{form}, NFA"], found[f"{form}, {fast}"]
                table.ratio(graph, k, words, slow, quick, asked.get((fast, k)))
        table.ratio(graph, k, "pull, FA over pull, NFA", found["pull, NFA"], found["pull, FA"])


def folding(table: Table, graph: Graph, algorithm: Algorithm, features: tuple[int, ...], *, asked: bool = True) -> None:
    """Folded kernels against unfolded ones and against those written by hand; ``asked``: how well, is told."""
    table.title(f"folding of {algorithm.name} on {graph.name}")
    for k in features:
        if not table.budget.allows(f"folding of {algorithm.name} on {graph.name}", f"k={k}", 6.0):
            continue
        cells = [Cell(label, algorithm, k, options) for label, options in FOLDED.items()]
        others = {Cell(label, algorithm, k): make for label, make in by_hand(algorithm, graph, k).items()}
        found = measured(table, graph, cells, others)
        for form in ("pull", "pull over tiles"):
            folded = found[f"{form}, folded"]
            table.ratio(graph, k, f"{form}: folded over unfolded", found[f"{form}, unfolded"], folded)
        folded, unfolded = (best(found, [name for name in FOLDED if name.endswith(f", {word}")]) for word in WAYS)
        at_least = FOLDED_AT_LEAST if asked else None
        table.ratio(graph, k, "best: folded over unfolded", unfolded, folded, at_least)
        for cell in others:
            at_least = BY_HAND_AT_LEAST if asked else None
            table.ratio(graph, k, f"best: folded over {cell.label}", found[cell.label], folded, at_least)


def by_hand(algorithm: Algorithm, graph: Graph, k: int) -> dict[str, Callable[[], HandWritten]]:
    """The kernels written by hand for an algorithm, where there are some."""
    import cupy

    def rows() -> Any:
        return cupy.random.random((graph.num_vertices, k), dtype=cupy.float32) + np.float32(0.1)

    if isinstance(algorithm, LabelPropagation):

        def labels(skip: bool) -> HandWritten:
            known = cupy.random.random(graph.num_vertices, dtype=cupy.float32) < algorithm.fraction
            inputs = Inputs({"seed": rows(), "labelled": known}, algorithm.parameter_values())
            return LabelPropagationByHand(graph, inputs, k, skip=skip)

        return {"by hand": lambda: labels(False), "by hand, clamped ones skipped": lambda: labels(True)}
    if isinstance(algorithm, BeliefPropagation):

        def beliefs() -> HandWritten:
            psi = cupy.random.random((k, k), dtype=cupy.float32) + np.float32(0.1)
            inputs = Inputs({"phi": rows(), "psi": psi}, algorithm.parameter_values())
            return BeliefPropagationByHand(graph, inputs, k)

        return {"by hand": beliefs}
    return {}


def every_algorithm(table: Table, graph: Graph, features: tuple[int, ...]) -> None:
    """A superstep of every algorithm at every k, pulled and folded."""
    table.title(f"every algorithm on {graph.name}, pull, FA, folded")
    known: dict[str, dict[int, float]] = {algorithm.name: {} for algorithm in ALGORITHMS}
    every = (Cell(algorithm.name, algorithm, k) for k in features for algorithm in ALGORITHMS)
    cells = [cell for cell in every if cell.features == 1 or depends_on_features(cell)]
    compile_ahead(cells, graph)
    on_device = DeviceGraph(graph)
    for cell in cells:
        what, k = f"{cell.label} on {graph.name}", cell.features
        expected = predicted_ms(cell, known[cell.label])
        if expected > LONGEST_MS:
            table.budget.leave_out(what, f"k={k} (about {expected / 1000:.0f} s a superstep)")
        elif table.budget.allows(what, f"k={k}", 1.0 + k / 32 + 5 * expected / 1000):
            found = measured(table, on_device, [cell])[cell.label]
            if isinstance(found, Timed):
                known[cell.label][k] = found.ms


def predicted_ms(cell: Cell, known: dict[int, float]) -> float:
    """What a superstep may take, from that of fewer features: the cube of their ratio where there are matrices."""
    fewer = max((k for k in known if k < cell.features), default=0)
    if not fewer:
        return 0.0
    return known[fewer] * (cell.features / fewer) ** (3 if has_matrices(cell.program) else 1)


def depends_on_features(cell: Cell) -> bool:
    """Whether a program has values of k features at all."""
    shapes = {prop.shape for prop in cell.program.properties.values()}
    return any(DeviceLayout(1).dims(shape) != DeviceLayout(2).dims(shape) for shape in shapes)


class Graphs:
    """The graphs, each made when it is first asked for, and then described."""

    def __init__(self, sizes: Sizes, sheet: Sheet) -> None:
        self.sizes, self.sheet = sizes, sheet

    @cached_property
    def triangulated(self) -> DelaunayMaker:
        """Begins to triangulate."""
        return DelaunayMaker(self.sizes.points)

    @cached_property
    def rmat(self) -> Graph:
        """With hubs."""
        return self._described(rmat_graph(self.sizes.scale, self.sizes.arcs))

    @cached_property
    def grid(self) -> Graph:
        """As road networks are."""
        return self._described(road_grid(self.sizes.side))

    @cached_property
    def delaunay(self) -> Graph:
        """As meshes are."""
        return self._described(self.triangulated.graph())

    @cached_property
    def changing(self) -> Graph:
        """A small one with hubs, for warm starts."""
        return self._described(rmat_graph(self.sizes.warm_scale, self.sizes.warm_arcs))

    def _described(self, graph: Graph) -> Graph:
        self.sheet.graph(repr(graph))
        return graph


Part = tuple[str, float, str, Callable[[Graph], None]]


def parts(table: Table, sizes: Sizes) -> Iterator[Part]:
    """The parts: a name, the share of the time that it may take, a graph of :class:`Graphs`, and what is done with it.
    What ratios are asked of comes first."""
    labels, factors = LabelPropagation(seeds="random"), ALS(sides="all")
    features, rest = (FEATURES, REST) if sizes != QUICK else (FEATURES[:2], REST[:1])
    yield "fa", 0.1, "rmat", lambda g: aggregation(table, g, ASKED)
    yield "cusparse", 0.14, "rmat", lambda g: against_cusparse(table, g, PRODUCT_FEATURES)
    yield "folding", 0.1, "rmat", lambda g: folding(table, g, BeliefPropagation(), (8, 16))
    yield "cusparse", 0.14, "grid", lambda g: against_cusparse(table, g, PRODUCT_FEATURES)
    yield "folding", 0.08, "grid", lambda g: folding(table, g, labels, (8, 32))
    yield "folding", 0.06, "delaunay", lambda g: folding(table, g, labels, (8, 32))
    yield "cold", 0.26, "rmat", lambda g: cuda_runs.cold(table, g, 200)
    yield "warm", 0.14, "changing", lambda g: cuda_runs.warm(table, g)
    yield "cold", 0.12, "delaunay", lambda g: cuda_runs.cold(table, g, 1000)
    yield "every", 0.14, "rmat", lambda g: every_algorithm(table, g, features)
    yield "every", 0.16, "grid", lambda g: every_algorithm(table, g, features)
    yield "every", 0.1, "delaunay", lambda g: every_algorithm(table, g, features)
    yield "rest", 0.05, "rmat", lambda g: folding(table, g, factors, (8, 16), asked=False)
    yield "rest", 0.1, "rmat", lambda g: aggregation(table, g, rest)
    yield "rest", 0.1, "grid", lambda g: aggregation(table, g, (*ASKED, *rest))
    yield "rest", 1.0, "delaunay", lambda g: aggregation(table, g, (*ASKED, *rest))


def measure(table: Table, sizes: Sizes, only: Collection[str] = (), on: Collection[str] = ()) -> None:
    """All parts in their order, or those named, on all graphs, or those named; these may take as long as there is."""
    every = parts(table, sizes)
    chosen = [part for part in every if (not only or part[0] in only) and (not on or part[2] in on)]
    graphs = Graphs(sizes, table.sheet)
    if any(graph == "delaunay" for _, _, graph, _ in chosen):
        _ = graphs.triangulated  # takes a processor some time, while the device has other things to do
    for _, share, name, work in chosen:
        graph = getattr(graphs, name)
        with table.budget.at_most(1.0 if only or on else share):
            work(graph)


def main() -> None:
    """Read the arguments, describe the device, measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cuda_onyx", description=__doc__)
    parser.add_argument("--seconds", type=float, default=560.0, help="for everything (default 560)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[], help="these parts alone")
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=[], help="these graphs alone")
    parser.add_argument("--quick", action="store_true", help="small graphs, to try the script itself")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write a page (docs/onyx-on-cuda-measured.md)"
    )
    given = parser.parse_args()
    command = [*parser.prog.split(), "--seconds", f"{given.seconds:g}"]
    command += ["--only", *given.only] if given.only else []
    command += ["--graphs", *given.graphs] if given.graphs else []
    command += ["--quick"] * given.quick
    sheet = Sheet(command, given.markdown)
    sheet.describe(**device_facts())
    budget = Budget(given.seconds, 0.2 if given.quick else 1.0)
    note = ""
    try:
        measure(Table(sheet, budget, Yardsticks()), QUICK if given.quick else Sizes(), given.only, given.graphs)
    except DeviceLost as error:
        note = f"the device is lost, the rest is left out: {error}"
    sheet.close(budget.left_out, note)


if __name__ == "__main__":
    main()
