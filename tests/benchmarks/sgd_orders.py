"""Measure all orders of steps in place in processor time: ``python -m tests.benchmarks.sgd_orders FOLDER``.

On one thread, in rounds in which the orders alternate, so that a machine with other work gives usable times. FOLDER
receives records with the fields that ``python -m engines.lonestar.training`` reads. The graphs and numbers of features
are those of the preset ``sgd_predictor``.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from engines.lonestar.choice import candidates
from engines.lonestar.cpu_engine import LonestarCpuEngine
from engines.lonestar.schedule import LonestarSchedule
from harness import clock
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import Device, Phases
from harness.device.figures import cpu_model
from harness.graph import Graph, open_graph
from harness.graph.generators import random_ratings
from harness.language import trace
from harness.plugins import load_plugins

CONFIGURATION = Path(__file__).parents[2] / "conf"
EPOCHS, ROUNDS, SAMPLE_S = 5, 3, 0.02
DEVICE = Device(threads=1)


def problems() -> list[tuple[str, Graph, SGDMatrixFactorisation, int]]:
    """Return label, graph, algorithm and k of the problems of the preset."""
    whole = yaml.safe_load((CONFIGURATION / "experiment/sgd_predictor.yaml").read_text())
    preset, graphs = whole["hydra"]["sweeper"], whole["paper_graphs"]["small"]
    doubled = {one["when"]["graph"] for one in preset["linked"]}
    found, registry = [], load_plugins()
    for name in graphs.split(","):
        file = CONFIGURATION / f"graph/{name}.yaml"
        parameters = yaml.safe_load(file.read_text()) if file.exists() else {"name": name}
        given = open_graph(registry.graph(parameters.pop("name")), parameters)
        options = {"sides": "double", "ratings": "drawn"} if name in doubled else {}
        algorithm = SGDMatrixFactorisation(epochs=EPOCHS, **options)
        graph = algorithm.prepare_graph(given)
        found += [(name, graph, algorithm, int(k)) for k in preset["params"]["features"].split(",")]
    return found


def measured(graph: Graph, algorithm: SGDMatrixFactorisation, features: int) -> dict[str, dict[str, Any]]:
    """Return schedule, fastest run of EPOCHS supersteps and phases of every order, and of auto."""
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    engines, phases = {}, {}
    for order in ("auto", *candidates(program, LonestarSchedule(), graph.facts)):
        engine, spent = LonestarCpuEngine(LonestarSchedule(order=order)), Phases()
        engine.prepare(program, copy.copy(graph), features, DEVICE, spent)  # engines share the tables of one graph
        engine.reset(inputs)
        engine.run(1)
        engines[order], phases[order] = engine, spent.seconds
    best = dict.fromkeys(engines, float("inf"))
    for _ in range(ROUNDS):
        for order, engine in engines.items():
            supersteps, began = 0, time.process_time()
            while supersteps < 1 or time.process_time() - began < SAMPLE_S:
                engine.run(1)
                supersteps += 1
            best[order] = min(best[order], EPOCHS * (time.process_time() - began) / supersteps)
    return {
        order: {
            "schedule": engine.resolved_options(), "solve": {"minimum": best[order]}, "phases": phases[order],
            "supersteps": [[graph.num_vertices, graph.num_edges, "dense"]] * EPOCHS,
        } for order, engine in engines.items()
    }  # fmt: skip


def write(folder: Path, label: str, graph: Graph, features: int, orders: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a record for each order."""
    common = {
        "outcome": "ok", "features": features, "labels": {"graph": label}, "program": {"fingerprint": ""},
        "graph": {"content_hash": graph.content_hash}, "environment": {"cpu": cpu_model(), "threads": DEVICE.threads},
        "config": {"engine": "lonestar", "device": {"kind": "cpu"}},
    }  # fmt: skip
    for order, fields in orders.items():
        place = folder / f"{label}-k{features}-{order}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "record.json").write_text(json.dumps({**common, **fields}))


def _load_compiled_functions() -> None:
    """Order the edges of a small graph in every way, so that no measured preparation includes compilation."""
    algorithm = SGDMatrixFactorisation(epochs=1)
    graph = algorithm.prepare_graph(random_ratings(users=200, items=100, num_ratings=2000))
    measured(graph, algorithm, 16)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all problems."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sgd_orders", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the records; those that it has are kept")
    folder = parser.parse_args(arguments).folder
    clock.perf_counter = time.process_time  # of phases
    _load_compiled_functions()
    for label, graph, algorithm, features in problems():
        if (folder / f"{label}-k{features}-auto").exists():
            continue  # measured by an interrupted run
        orders = measured(graph, algorithm, features)
        write(folder, label, graph, features, orders)
        ranked = sorted(orders, key=lambda order: orders[order]["solve"]["minimum"])
        shown = ", ".join(f"{order} {1e3 * orders[order]['solve']['minimum'] / EPOCHS:.2f}" for order in ranked)
        print(f"{label}, k = {features}, ms a superstep: {shown}", flush=True)


if __name__ == "__main__":
    main()
