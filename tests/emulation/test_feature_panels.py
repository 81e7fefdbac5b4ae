"""Panels of features on the emulated device: the answers of all features at once in the memory of a panel."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contract import Phases
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda import executor as cuda
from tests.emulation.device import THREADS
from tests.engines.problems import ALGORITHMS, new_engine, program, scattered

FEATURES, PANEL, SUPERSTEPS = 5, 2, 6
SCHEDULES = {
    "onyx": {"direction": "pull", "change_driven": False, "balance": "edge", "block_size": THREADS},
    "onyx streamed": {"change_driven": False, "balance": "warp", "edges": "streamed", "window_mb": 0.002},
    "emogi": {"access": "tiled", "counters": True}, "gunrock": {"edges": "mapped"}, "tigr": {}, "simdx": {},
    "scaph": {},
}  # fmt: skip


def sizes(executor):
    """Return the bytes of the arrays that an executor holds, by name."""
    return {name: array.nbytes for name, array in executor.arrays.items()}


@pytest.mark.short_run(rows=2, always="emogi-bfs")
@pytest.mark.parametrize("algorithm", ["bfs", "pagerank", "feature_diffusion"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_panels_answer_in_the_memory_of_one(name, algorithm, emulated, monkeypatch):
    required = []
    monkeypatch.setattr(cuda, "require_memory", required.append)
    traced_program, kind = program(algorithm), name.split()[0]
    graph = scattered()  # whose arrays no other engine has on the device
    inputs, of_one = (ALGORITHMS[algorithm].inputs(graph, features) for features in (FEATURES, PANEL))
    engine, one = (new_engine(kind, {**SCHEDULES[name], "panel": panel}) for panel in (PANEL, None))
    for each, features, given in ((engine, FEATURES, inputs), (one, PANEL, of_one)):
        each.prepare(traced_program, graph, features, emulated, Phases())
        each.reset(given)
        each.run(SUPERSTEPS)
    assert sizes(engine.prepared.engine.executor) == sizes(one.prepared.executor)
    answer = engine.supports(traced_program, graph, FEATURES, emulated)
    assert answer.bytes_needed == one.supports(traced_program, graph, PANEL, emulated).bytes_needed
    assert required[0] == answer.bytes_needed
    one.close()
    reference = ReferenceRun(traced_program, graph, FEATURES)
    reference.reset(inputs)
    reference.run(SUPERSTEPS)
    engine.reset(inputs)
    statistics = engine.run(SUPERSTEPS)
    found = {output: engine.values(output) for output in traced_program.outputs}
    comparison = compare(traced_program, found, {output: reference.values(output) for output in traced_program.outputs})
    assert comparison.ok, comparison.detail
    for output, values in found.items():
        assert values.shape == (graph.num_vertices, FEATURES)
        np.testing.assert_array_equal(engine.rows(output, np.array([2, 0])), values[[2, 0]])
        assert engine.device_values(output) is None
    assert statistics.edges >= 3 * graph.num_edges if algorithm == "feature_diffusion" else statistics.edges > 0
    assert (statistics.transfers is not None) == (name in ("emogi", "scaph", "onyx streamed"))
    assert engine.resolved_options()["panel"] == PANEL
    assert engine.operations(statistics).launches > 0
    engine.close()
