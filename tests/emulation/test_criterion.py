"""Emulated CUDA devices stop by the same criterion as the reference: at the same superstep, or a test later."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.als import ALS
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.pagerank import PageRank
from harness.graph.generators import random_ratings, rmat
from harness.language import Inputs, trace
from harness.language.criterion import TEST_EVERY
from harness.language.reference import ReferenceRun
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.programs import traced
from tests.engines.test_cuda import prepared

MEASURED = {
    "pull": 3, "pull-edges": 1, "push-edges": 3, "push-loops-edges": 66, "changes-pull": 3, "changes-pull-edges": 8,
    "changes-push-edges": 3, "gunrock": 1, "tigr": 3, "simdx": 1, "simdx-lists": 3,
}  # fmt: skip
CHANGES = {"changes-pull": 3, "changes-push": 1, "changes-push-edges": 3, "gunrock-merge-path": 1}


def taken(run, inputs, most, *, at_a_time=None):
    """Return the number of supersteps until a run settles, with some of them per call."""
    run.reset(inputs)
    found = 0
    while found < most:
        statistics = run.run(min(at_a_time or most, most - found))
        found += len(statistics.supersteps)
        if statistics.settled:
            return found
    raise AssertionError(f"not settled after {most} supersteps")


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("schedule", MEASURED)
def test_ranks_settle_at_the_same_superstep(schedule, emulated):
    algorithm, features = PageRank(tolerance=1e-3), MEASURED[schedule]
    graph = rmat(scale=6, edge_factor=8, seed=4)
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    wanted = taken(ReferenceRun(program, graph, features), inputs, 100)
    assert wanted % TEST_EVERY == 0
    engine = prepared(schedule, program, graph, features, emulated)
    assert taken(engine, inputs, 100) == wanted
    assert taken(engine, inputs, 100, at_a_time=3) == wanted
    engine.close()


def test_a_program_in_one_kernel_measures_in_it(emulated, monkeypatch):
    monkeypatch.setitem(SCHEDULES, "fused", ("simdx", {"fusion": "push_pull"}))
    algorithm, graph = PageRank(tolerance=1e-3), rmat(scale=6, edge_factor=8, seed=4)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 3)
    engine = prepared("fused", program, graph, 3, emulated)
    assert [kernel.name for kernel in engine.planned.kernels] == ["fused_pull"]
    assert taken(engine, inputs, 100) == taken(ReferenceRun(program, graph, 3), inputs, 100)
    engine.close()


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("schedule", CHANGES)
def test_where_changes_are_propagated_the_largest_movement_is_measured(schedule, emulated):
    algorithm, features = LabelPropagation(tolerance=1e-3, seeds="random"), CHANGES[schedule] + 1
    graph = rmat(scale=6, edge_factor=8, seed=4, max_weight=4)
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    wanted = taken(ReferenceRun(program, graph, features), inputs, 200)
    engine = prepared(schedule, program, graph, features, emulated)
    assert 0 <= taken(engine, inputs, 200) - wanted <= TEST_EVERY
    engine.close()


@pytest.mark.parametrize("schedule", ["changes-pull", "changes-push"])
def test_movement_relative_to_each_entry_is_measured(schedule, emulated):
    algorithm, graph = ManifoldRanking(alpha=0.9, tolerance=1e-3), rmat(scale=6, edge_factor=8, seed=4)
    graph = algorithm.prepare_graph(graph)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 2)
    wanted = taken(ReferenceRun(program, graph, 2), inputs, 300)
    engine = prepared(schedule, program, graph, 2, emulated)
    assert abs(taken(engine, inputs, 300) - wanted) <= TEST_EVERY
    engine.close()


def test_factors_of_both_sides_are_measured(emulated):
    algorithm = ALS(lam=1.0, tolerance=1e-3, supersteps=100)
    graph = algorithm.prepare_graph(random_ratings(users=30, items=20, num_ratings=200))
    program, inputs = trace(algorithm), algorithm.inputs(graph, 2)
    wanted = taken(ReferenceRun(program, graph, 2), inputs, 100)
    engine = prepared("changes-pull", program, graph, 2, emulated)
    assert abs(taken(engine, inputs, 100) - wanted) <= TEST_EVERY
    engine.close()


def test_programs_without_a_tolerance_launch_nothing_more(emulated):
    from harness.algorithms.belief_propagation import BeliefPropagation
    from harness.algorithms.bfs import BFS
    from tests.algorithms.networks import grid_network

    graph = rmat(scale=5, edge_factor=4, seed=1)
    for algorithm, on in ((BFS(), graph), (BeliefPropagation(), grid_network(2))):
        engine = prepared("changes-pull", trace(algorithm), algorithm.prepare_graph(on), 2, emulated)
        assert not engine.planned.measuring.launches
        assert not any(name.startswith(("before_", "movement_")) for name in engine.executor.arrays)
        engine.close()


def test_nan_never_settles(emulated):
    algorithm, graph = PageRank(tolerance=1e-3), rmat(scale=6, edge_factor=8, seed=4)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 1)
    given = np.where(np.arange(graph.num_vertices) == 3, np.nan, 0.1).astype(np.float32)[:, None]
    engine = prepared("tigr", program, graph, 1, emulated)
    engine.reset(inputs, {"rank": given})
    assert not engine.run(3 * TEST_EVERY).settled
    engine.close()


@pytest.mark.parametrize(("growth", "settles"), [(1.1, True), (1.2, False)])
@pytest.mark.parametrize("schedule", ["pull", "changes-push", "gunrock", "simdx"])
def test_relative_movement_is_a_share_of_the_new_value(schedule, growth, settles, emulated):
    """1.1 is 9.1 % above 1 as a share of 1.1, and 10 % as a share of 1; the tolerance is between the two."""

    def grown(p, self):
        p.vertex("x", start=1.0)
        p.over_edges(into="near", reduce="sum")(lambda src: src.x)
        p.over_vertices(lambda v: {"x": growth * v.x + 0.0 * v.near})
        p.until_settled(self.tolerance, relative=True, at_most=9)
        p.output("x", bound=1.0)

    program, graph = traced(grown, "grown", tolerance_value=0.095), rmat(scale=4, edge_factor=4, seed=1)
    engine = prepared(schedule, program, graph, 1, emulated)
    for run in (ReferenceRun(program, graph, 1), engine):
        run.reset(Inputs({}, dict(program.parameters)))
        assert run.run(2 * TEST_EVERY).settled == settles
    engine.close()
