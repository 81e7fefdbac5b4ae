"""Panels of features on a CUDA device, against float64: cold, continued and warm runs."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contract import Phases, Yes
from harness.graph.generators import rmat
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.fresh import SEED
from tests.engines.problems import ALGORITHMS, new_engine, program

pytestmark = pytest.mark.gpu
FEATURES, SUPERSTEPS = 21, 6
SCHEDULES = {
    "onyx": {}, "onyx streamed": {"edges": "streamed", "window_mb": 0.05}, "onyx mapped": {"edges": "mapped"},
    "onyx persistent": {"persistent": True}, "onyx push": {"direction": "push", "rebuild": 2}, "emogi": {},
    "emogi counted": {"access": "tiled", "counters": True}, "emogi managed": {"edges": "managed"}, "gunrock": {},
    "tigr": {}, "simdx": {}, "scaph": {}, "scaph zero copy": {"low": "zero_copy"},
}  # fmt: skip


@pytest.mark.parametrize("algorithm", ["bfs", "sssp", "pagerank", "feature_diffusion", "hits"])
@pytest.mark.parametrize("panel", [1, 8, 13])
@pytest.mark.parametrize("name", SCHEDULES)
def test_runs_in_panels_are_right(name, panel, algorithm, device):
    print(f"HARNESS_SEED={SEED} repeats the draws")
    traced_program = program(algorithm)
    graph = ALGORITHMS[algorithm].prepare_graph(rmat(scale=9, edge_factor=8, seed=SEED % (1 << 31), max_weight=4))
    inputs = ALGORITHMS[algorithm].inputs(graph, FEATURES)
    engine = new_engine(name.split()[0], {**SCHEDULES[name], "panel": panel})
    answer = engine.supports(traced_program, graph, FEATURES, device)
    assert isinstance(answer, Yes), answer
    engine.prepare(traced_program, graph, FEATURES, device, Phases())
    reference = ReferenceRun(traced_program, graph, FEATURES)
    state = None
    for parts in ((SUPERSTEPS,), (1, SUPERSTEPS - 1), (2,)):  # the last one begins with the state of a run
        engine.reset(inputs, state)
        reference.reset(inputs, state)
        for steps in parts:
            engine.run(steps)
            reference.run(steps)
        wanted = {output: reference.values(output) for output in traced_program.outputs}
        found = {output: engine.values(output) for output in traced_program.outputs}
        comparison = compare(traced_program, found, wanted)
        assert comparison.ok, f"{parts}: {comparison.detail}"
        state = {prop: np.array(engine.values(prop)) for prop in states(traced_program)}
    engine.close()


def states(traced_program):
    """Return the names of the states of a program."""
    return [prop.name for prop in traced_program.properties.values() if prop.role == "state"]
