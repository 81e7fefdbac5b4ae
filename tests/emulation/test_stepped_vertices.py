"""Pushes of extrema step only the vertices whose extremum a message has improved, on the emulated device."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from harness.graph.generators import rmat
from harness.language import trace
from tests.emulation.device import THREADS
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import algorithms, prepared

PUSH = {"direction": "push", "block_size": THREADS}
ROWS = {
    "emogi": ("emogi", {}),
    "emogi by tiles": ("emogi", {"access": "tiled"}),
    "onyx": ("onyx", {**PUSH, "balance": "warp"}),
    "onyx by tiles": ("onyx", {**PUSH, "balance": "edge"}),
}


def improved(graph, start, supersteps):
    """Yield, for each superstep, the number of vertices whose shortest offer of any feature becomes shorter."""
    sources = np.repeat(np.arange(graph.num_vertices), np.diff(graph.csr.offsets))
    distance, best = start.astype(np.float64), np.full(start.shape, np.inf)
    for _ in range(supersteps):
        offers = np.full(start.shape, np.inf)
        np.minimum.at(offers, graph.csr.neighbours.astype(np.int64), distance[sources] + graph.weights[:, None])
        yield int((offers < best).any(axis=1).sum())
        best, distance = offers, np.minimum(distance, offers)


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("name", ROWS)
def test_vertices_are_stepped_if_a_message_improved_their_extremum(name, features, emulated, monkeypatch):
    """Counted by their flags, before the kernel that steps them."""
    monkeypatch.setitem(SCHEDULES, name, ROWS[name])
    algorithm = algorithms()["sssp"]
    graph = algorithm.prepare_graph(rmat(scale=6, edge_factor=6, seed=4, max_weight=8))
    inputs = algorithm.inputs(graph, features)
    program = trace(algorithm)
    engine = prepared(name, program, graph, features, emulated)
    steps, found = engine.planned.kernels[-1], []
    (dirty,) = (argument for argument in steps.arguments if argument.startswith("dirty_"))
    function = engine.executor.functions[steps.name]

    def run_at_once(calls):
        """Prepare no CUDA graph: start the calls of every superstep."""

        def launch():
            for call in calls:
                if call.function is function:
                    found.append(int(engine.executor.arrays[dirty].get()[: graph.num_vertices].sum()))
                call.start()

        return SimpleNamespace(launch=launch)

    engine.reset(inputs)
    monkeypatch.setattr(engine.executor.run_in_progress.launcher.place, "replay", run_at_once)
    assert engine.run(100).settled
    (start,) = (inputs.properties[one] for one in inputs.properties if program.properties[one].place == "vertex")
    wanted = list(improved(graph, start, len(found)))
    assert found[0] == graph.num_vertices, "in the first superstep every vertex is stepped"
    assert found[1:] == wanted[1:]
    assert wanted[-1] == 0 < max(wanted[1:])
    engine.close()
