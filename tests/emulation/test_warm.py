"""Warm starts on changed graphs, emulated: the answer equals that of a cold run."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph.generators import rmat
from harness.lowering.buffers import Holds
from tests.engines import test_cuda, test_warm
from tests.engines.problems import ALGORITHMS, program

NAMES = ("label_propagation", "pagerank", "sssp", "components", "manifold_ranking")
SCHEDULES = ("pull", "changes-pull", "changes-pull-edges-sparse", "changes-push", "changes-push-edges")
TODAY = {
    ("sssp", "changes-push", "lighter"), ("pagerank", "changes-pull-edges-sparse", "insert"),
    ("label_propagation", "changes-pull", "lighter"), ("components", "changes-push-edges", "insert"),
    ("sssp", "pull", "insert"), ("manifold_ranking", "changes-pull-edges-sparse", "lighter"),
}  # fmt: skip


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(
    ("name", "schedule", "kind"),
    [
        pytest.param(name, schedule, kind, marks=() if (name, schedule, kind) in TODAY else (pytest.mark.full,))
        for name in NAMES
        for schedule in SCHEDULES
        for kind in ("insert", "lighter")
    ],
)
def test_warm_starts(name, schedule, kind, emulated, monkeypatch):
    monkeypatch.setattr(test_warm, "graph_of", lambda *_: rmat(8, max_weight=8, seed=2))
    monkeypatch.setattr(test_warm, "SHARE", 1e-3)
    test_cuda.test_warm_starts(schedule, name, kind, emulated, monkeypatch)


def test_the_first_superstep_counts_what_is_stale_or_sends_and_the_edges_of_what_sends(emulated):
    traced, graph = program("sssp"), rmat(6, max_weight=8, seed=2)
    engine = test_cuda.prepared("changes-push", traced, graph, 3, emulated)
    engine.reset(ALGORITHMS["sssp"].inputs(graph, 3))
    stale, senders = (np.isin(np.arange(graph.num_vertices), some) for some in ([1, 2, 3], [3, 4]))
    engine.executor.begin_with(stale, senders)
    edges, state = graph.out_degrees[senders].sum(), engine.executor.state
    assert state.array.get()[len(state.names)] == edges != graph.in_degrees[senders].sum()
    assert engine.run(1).supersteps[0].active == 4
    for senders[:] in (False, np.arange(graph.num_vertices) % 3 == 0):  # in the same array
        engine.executor.begin_with(stale, senders)
        assert state.array.get()[len(state.names)] == graph.out_degrees[senders].sum()
        for buffer in engine.planned.buffers:
            if buffer.holds is Holds.ACTIVE:
                assert np.array_equal(engine.executor.arrays[buffer.name].get()[: len(senders)], senders)
    for _ in range(2):
        engine.close()
