"""Pushed changes of integers: sums that need no rebuilding settle in as many supersteps as full propagation."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from harness.language import integer_ranges, where
from tests.engines.problems import prepared, problem, program
from tests.engines.programs import inputs_for, traced

GRAPHS = ("hub", "scattered", "one vertex", "chain", "grid", "rmat", "ratings")
FULL = ("onyx", {"direction": "push", "change_driven": False})
PUSHED = {"push": ("onyx", {"direction": "push"}), "gunrock": ("gunrock", {})}


def settled(strategy, graph, *, inputs=None, of=None, state=None):
    """Return the statistics and the values of ``alive`` of a complete run."""
    chosen = program("kcore") if of is None else of
    engine = prepared(*strategy, chosen, graph, 1)
    engine.reset(inputs, state)
    statistics = engine.run(1000)
    assert statistics.settled
    alive = engine.values("alive")
    engine.close()
    return statistics, alive


@functools.cache
def in_full(graph_name):
    """Run full propagation."""
    graph, inputs = problem("kcore", graph_name, 1)
    return settled(FULL, graph, inputs=inputs)


@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("strategy", PUSHED)
@pytest.mark.short_run(rows=50)  # a row takes milliseconds
def test_a_core_takes_as_many_supersteps_as_in_full(strategy, graph_name):
    graph, inputs = problem("kcore", graph_name, 1)
    (full, wanted), (taken, alive) = in_full(graph_name), settled(PUSHED[strategy], graph, inputs=inputs)
    assert len(taken.supersteps) == len(full.supersteps)
    assert np.array_equal(alive, wanted)
    assert sum(step.edges for step in taken.supersteps) <= sum(step.edges for step in full.supersteps)


@pytest.mark.parametrize("strategy", PUSHED)
def test_a_sum_beyond_what_float32_counts_is_confirmed(strategy, monkeypatch):
    graph, inputs = problem("kcore", "grid", 1)
    monkeypatch.setattr(integer_ranges, "MOST", int(graph.in_degrees.max()) - 1)
    (full, wanted), (taken, alive) = in_full("grid"), settled(PUSHED[strategy], graph, inputs=inputs)
    assert len(taken.supersteps) == len(full.supersteps) + 1
    assert taken.supersteps[-1].edges == graph.num_edges
    assert np.array_equal(alive, wanted)


@pytest.mark.parametrize(("number", "more"), [(1.0, 0), (0.5, 1)])
@pytest.mark.parametrize("strategy", PUSHED)
def test_a_state_of_other_numbers_is_confirmed(strategy, number, more):
    graph, inputs = problem("kcore", "grid", 1)
    state = {"alive": np.ones(graph.num_vertices, np.float32)}
    state["alive"][-10:] = number  # few enough that the following superstep does not rebuild sums
    full, wanted = settled(FULL, graph, inputs=inputs, state=state)
    taken, alive = settled(PUSHED[strategy], graph, inputs=inputs, state=state)
    assert len(taken.supersteps) == len(full.supersteps) + more
    assert np.array_equal(alive, wanted)


def thirds(p, self):
    """Peel vertices, where each removed one counts for a third."""
    p.vertex("alive", start=1.0)

    @p.over_edges(into="neighbours", reduce="sum")
    def count(src):
        return src.alive

    @p.over_vertices
    def peel(v):
        return {"alive": where(v.neighbours >= 3.0, v.alive, 1.0 / 3.0)}

    p.until_settled(at_most=1000)
    p.output("alive", bound=1e-6)


@pytest.mark.parametrize("strategy", PUSHED)
def test_sums_of_other_numbers_are_confirmed(strategy):
    program_, graph = traced(thirds, "thirds"), problem("kcore", "grid", 1)[0]
    inputs = inputs_for(program_, graph, 1, seed=1)
    full, wanted = settled(FULL, graph, inputs=inputs, of=program_)
    taken, alive = settled(PUSHED[strategy], graph, inputs=inputs, of=program_)
    assert len(taken.supersteps) == len(full.supersteps) + 1
    assert np.array_equal(alive, wanted)
