"""Reductions over all vertices by several blocks, on the emulated device: exactly the values of NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from harness.graph import Graph
from harness.language import Inputs, K, where
from tests.emulation.device import POLICY, THREADS
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.programs import traced
from tests.engines.test_cuda import prepared

OUTPUTS = ("sums", "tops", "lows", "chosen")


def summary(p, _):
    """Give every vertex what all vertices have together; values change, so that each superstep has others."""
    p.vertex("first", K)
    p.vertex("level")
    p.vertex("x", K, start="first")
    for name in ("sums", "tops", "chosen"):
        p.vertex(name, K, start=0.0)
    p.vertex("lows", start=0.0)
    p.over_graph(into="total", reduce="sum")(lambda v: v.x)
    p.over_graph(into="top", reduce="max")(lambda v: v.x)
    p.over_graph(into="low", reduce="min")(lambda v: v.level)
    p.over_graph(into="some", reduce="sum")(lambda v: where(v.level > 0.0, v.x, 0.0))

    @p.over_vertices
    def give(v, graph):
        return {
            "sums": graph.total, "tops": graph.top, "lows": graph.low, "chosen": graph.some, "x": v.x + 1.0,
        }  # fmt: skip

    p.repeat(3)
    for name in OUTPUTS:
        p.output(name, bound=0.0)


def by_numpy(first, level, superstep):
    """Return what every vertex is given in a superstep, in float64."""
    x = first.astype(np.float64) + superstep
    return {
        "sums": x.sum(axis=0), "tops": x.max(axis=0), "lows": level.min(), "chosen": x[level > 0].sum(axis=0)
    }  # fmt: skip


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(("features", "persistent"), [(1, False), (3, True), (40, False), (40, True)])
def test_blocks_reduce_together(features, persistent, emulated, monkeypatch):
    """If rows are long, there are more blocks than a block has lane groups; few vertices leave some idle."""
    monkeypatch.setattr(OnyxCudaEngine, "policy", replace(POLICY, blocks_of_reduction=17))
    options = {"change_driven": False, "block_size": THREADS, "persistent": persistent}
    monkeypatch.setitem(SCHEDULES, "together", ("onyx", options))
    rng, program = np.random.default_rng(features), traced(summary, "summary")
    for vertices in (1, 33, 301):
        graph = Graph.from_edges(np.zeros(1, np.int64), np.zeros(1, np.int64), num_vertices=vertices, name="alone")
        engine = prepared("together", program, graph, features, emulated)
        for _ in range(2):
            first = rng.integers(-50, 50, (vertices, features)).astype(np.float32)
            level = rng.integers(-9, 9, vertices).astype(np.float32)
            engine.reset(Inputs({"first": first, "level": level}, {}))
            for superstep in range(3):
                engine.run(1)
                for name, wanted in by_numpy(first, level, superstep).items():
                    found = engine.values(name)
                    np.testing.assert_array_equal(found, np.broadcast_to(wanted, found.shape), f"{name}, {vertices}")
        engine.close()
