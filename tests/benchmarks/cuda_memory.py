"""The model of memory transactions against a GPU's counters: ``python -m tests.benchmarks.cuda_memory [COLUMN ...]``.

Label propagation on a symmetric R-MAT graph of 2^18 vertices: one superstep in which every vertex is active, at k = 4,
32 and 128, of Onyx with features across lanes (FA) and in a loop (NFA), pushing and pulling, and of the baselines.
Global-load efficiency and atomic transactions as modelled on a sample of the graph, as counted by ``ncu``, and their
ratio; ``--algorithm belief_propagation``: of that. Counting needs a GPU and ``ncu``, whose log it leaves in the folder
given; with such a log it needs neither.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.campaign.cell import Cell, Limits, Measure, load
from harness.campaign.ncu_child import PROFILER_LOG, counted
from harness.contract import Device, No, schedule_from_options
from harness.graph import Graph
from harness.graph.named import open_graph
from harness.language import trace
from harness.plugins import Registry, load_plugins
from harness.transactions import Behaviour, KernelBehaviour
from harness.transactions.profiler import read_counters

NCD = {"change_driven": False}
PUSH = {**NCD, "direction": "push"}
COLUMNS: dict[str, tuple[str, dict[str, Any]]] = {
    "onyx FA push": ("onyx", PUSH),
    "onyx NFA push": ("onyx", {**PUSH, "feature_aware": False}),
    "onyx FA push, warp": ("onyx", {**PUSH, "balance": "warp"}),
    "onyx FA pull": ("onyx", NCD),
    "onyx FA pull, warp": ("onyx", {**NCD, "balance": "warp"}),
    "onyx NFA pull": ("onyx", {**NCD, "feature_aware": False}),
    "onyx FA CD pull": ("onyx", {}),
    "onyx FA CD push": ("onyx", {"direction": "push"}),
    "tigr": ("tigr", {}),
    "gunrock": ("gunrock", {}),
    "gunrock, merge path": ("gunrock", {"balance": "merge_path"}),
    "simdx": ("simdx", {}),
}
FEATURES = (4, 32, 128)
GRAPH: dict[str, Any] = {"scale": 18, "symmetric": True, "max_weight": 8}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "label_propagation": {"seeds": "random"},
    "belief_propagation": {"vertices": "drawn"},
}


def cells(algorithm: str, columns: list[str], features: list[int]) -> Iterator[tuple[str, Cell]]:
    """The cells of the table, each with its name."""
    for k in features:
        for name in columns:
            engine, schedule = COLUMNS[name]
            yield name, Cell(
                engine, schedule, algorithm, ALGORITHMS[algorithm], "rmat", GRAPH, k, None, Device("cuda"), False,
                Measure(), Limits(), (), 1, None, "off", labels={}, sources="", graph_sources="",
            )  # fmt: skip


def modelled(cell: Cell, registry: Registry, graph: Graph) -> Behaviour:
    """The model's answer for a cell."""
    engine, algorithm = made(cell, registry)
    found = engine.memory_model(trace(algorithm), algorithm.prepare_graph(graph), cell.features)
    assert isinstance(found, Behaviour), found
    return found


def refusal(cell: Cell, registry: Registry, graph: Graph) -> str:
    """Why an engine does not run a cell; empty where it does."""
    engine, algorithm = made(cell, registry)
    answer = engine.supports(trace(algorithm), algorithm.prepare_graph(graph), cell.features, Device("cuda"))
    return answer.reason if isinstance(answer, No) else ""


def made(cell: Cell, registry: Registry) -> tuple[Any, Any]:
    """The engine and the algorithm of a cell."""
    spec = registry.engine(cell.engine)
    engine = load(spec.factory)(schedule_from_options(spec, cell.schedule))
    return engine, load(registry.algorithm(cell.algorithm).factory)(**cell.parameters)


def line(name: str, k: str, model: KernelBehaviour, counters: KernelBehaviour) -> str:
    """A line of the table."""
    efficiencies = [100 * (one.loads.efficiency or 0.0) for one in (model, counters)]
    sectors = [one.loads.sectors for one in (model, counters)]
    atomics = [one.atomics.transactions for one in (model, counters)]
    cells = [f"{a:>11.5g} {b:>11.5g} {a / b if b else float('nan'):>6.3f}" for a, b in (efficiencies, sectors, atomics)]
    return f"{name:<24} {k:>4}  {' | '.join(cells)}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("columns", nargs="*", default=list(COLUMNS), help="those of them (default: all)")
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), default="label_propagation")
    parser.add_argument("--features", type=int, nargs="+", default=list(FEATURES))
    parser.add_argument("--folder", type=Path, help="of the profiler's log, which is read if it is there")
    parser.add_argument("--count-only", action="store_true", help="leave the log and model nothing")
    parser.add_argument("--kernels", action="store_true", help="tell kernels apart")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / PROFILER_LOG
    registry = load_plugins(())
    graph = open_graph(registry.graph("rmat"), GRAPH)
    asked = list(cells(given.algorithm, given.columns, given.features))
    refused = {number: reason for number, (_, cell) in enumerate(asked) if (reason := refusal(cell, registry, graph))}
    for number, reason in refused.items():
        print(f"{asked[number][0]}, k = {asked[number][1].features}: unsupported: {reason}")
    asked = [one for number, one in enumerate(asked) if number not in refused]
    if log.exists():
        found = read_counters(log.read_text(encoding="utf-8"))
    else:
        found = counted([cell for _, cell in asked], folder)
    if not given.count_only:
        show(asked, found, registry, graph, kernels=given.kernels)


def show(
    asked: list[tuple[str, Cell]], found: list[Behaviour], registry: Registry, graph: Graph, *, kernels: bool
) -> None:
    """Print the counters of every cell beside the model."""
    print(f"{graph.num_vertices:,} vertices, {graph.num_edges:,} arcs; model, counters and their ratio:")
    print(f"{'':30}load efficiency, %              | sectors loaded                 | atomic transactions")
    for (name, cell), counters in zip(asked, found, strict=True):
        model = modelled(cell, registry, graph)
        print(line(name, str(cell.features), model.whole, counters.whole))
        for kernel in counters.kernels if kernels else ():
            one = model.kernels.get(kernel, KernelBehaviour())
            print(line(f"    {kernel}", "", one, counters.kernels[kernel]))


if __name__ == "__main__":
    main()
