"""Onyx with edge properties that change, emulated: every schedule, after every superstep of two runs."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph.generators import grid
from harness.language import minimum
from harness.language.reference import ReferenceRun
from tests.engines import test_changing_edges_on_cuda as on_cuda
from tests.engines.changing_edges import check_readers_of_reverse_edges, lone_speakers
from tests.engines.edge_programs import unread
from tests.engines.programs import edges_and_loops, inputs_for, traced
from tests.engines.test_cuda import check_every_superstep

EVERY = 13  # of the cases, one is not marked as full
TWO_LANES = 5  # features: lane groups of two lanes, the second of which is partly idle


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize(
    ("schedule", "case", "features"),
    [pytest.param(*row, marks=() if i % EVERY == 0 else (pytest.mark.full,)) for i, row in enumerate(on_cuda.CASES)],
)
def test_programs_that_update_edges(schedule, case, features, emulated):
    on_cuda.test_programs_that_update_edges(schedule, case, features, emulated)


def test_an_edge_sends_a_number_that_all_lanes_have_read(emulated):
    on_cuda.test_programs_that_update_edges("changes-push-edges", "two updates", TWO_LANES, emulated)


def backwards(p, self):
    """Compute shortest paths along edges with the weights of the reverse edges."""
    p.edge("weight")
    p.vertex("x0")
    p.vertex("x", start="x0")

    @p.over_edges(into="near", reduce="min")
    def offer(src, edge):
        return src.x + edge.reverse.weight

    @p.over_vertices
    def step(v):
        return {"x": minimum(v.x, v.near)}

    p.until_settled(at_most=30)
    p.output("x", bound=1e-5)


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize("schedule", ["changes-push", "gunrock", "gunrock-merge-path", "tigr-short", "simdx-lists"])
def test_active_sources_send_the_reverse_edges_value(schedule, emulated):
    program, graph, k = traced(backwards, "backwards"), grid(rows=5, columns=7), 3
    graph = graph.with_weights(np.random.default_rng(1).uniform(0.5, 2.0, graph.num_edges).astype(np.float32))
    inputs = inputs_for(program, graph, k, seed=2)
    engine, run = on_cuda.prepared(schedule, program, graph, k, emulated), ReferenceRun(program, graph, k)
    engine.reset(inputs)
    run.reset(inputs)
    assert engine.run(30).settled
    run.run(30)
    np.testing.assert_allclose(engine.values("x"), run.values("x"), rtol=1e-5)
    engine.close()


@pytest.mark.parametrize("schedule", ["tigr-short", "simdx-lists"])
def test_a_thread_reads_the_reverse_edge(schedule, emulated):
    on_cuda.test_programs_that_update_edges(schedule, "reads back", TWO_LANES, emulated)


@pytest.mark.parametrize("schedule", ["changes-pull", "changes-push"])
def test_readers_of_a_reverse_edge_follow_it_where_its_source_stays(schedule, emulated):
    program, graph, inputs = lone_speakers(3)
    engine = on_cuda.prepared(schedule, program, graph, 3, emulated)
    check_readers_of_reverse_edges(engine, program, graph, inputs, 3)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("case", ["both ends", "reads back", "overwritten", "products"])
@pytest.mark.parametrize("schedule", on_cuda.TRACKED)
def test_hubs_loops_and_parallel_edges(schedule, case, emulated):
    on_cuda.test_hubs_loops_and_parallel_edges(schedule, case, emulated)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("rule", ["sum", "max"])
@pytest.mark.parametrize("case", on_cuda.NETWORKS)
@pytest.mark.parametrize("schedule", on_cuda.TRACKED)
def test_beliefs_and_messages_are_those_of_full_propagation(schedule, case, rule, emulated):
    on_cuda.test_beliefs_and_messages_are_those_of_full_propagation(schedule, case, rule, emulated)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("schedule", on_cuda.TRACKED)
def test_settled_vertices_are_not_visited(schedule, emulated):
    on_cuda.test_settled_vertices_are_not_visited_and_the_answer_is_within_the_bound(schedule, emulated)


@pytest.mark.parametrize("schedule", ["changes-pull", "changes-push-loops"])
def test_evidence_that_activates_no_vertex_costs_nothing(schedule, emulated):
    on_cuda.test_evidence_that_activates_no_vertex_costs_nothing(schedule, emulated)


@pytest.mark.parametrize("schedule", ["tigr", "simdx-lists", "pull-edges", "push", "changes-pull"])
def test_an_update_that_is_never_read(schedule, emulated):
    program, graph = traced(unread, "unread"), edges_and_loops()
    inputs = inputs_for(program, graph, 3)
    check_every_superstep(schedule, program, graph, inputs, 3, emulated, 3)
