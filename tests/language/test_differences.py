"""Differences of two graphs for a program: what changed where, which edges are worse, and what a warm start redoes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.graph import Graph
from harness.language import Inputs, K, maximum, minimum
from harness.language.differences import Differences, Posed
from harness.language.invalidation import unsupported, worse_edges
from harness.language.monotone import one_way
from harness.language.warm import warm_start
from tests.language.programs import program_of, run

PATHS = Graph.from_edges([0, 0, 1, 2, 3], [1, 2, 3, 3, 0], num_vertices=4, name="paths")  # CSR order


def reading(p, self):
    """Read inputs at sources, at destinations, at vertices, on edges, of the graph, and one that no stage reads."""
    p.edge("w")
    p.graph("shift")
    for name in ("sent", "met", "own", "first", "unread"):
        p.vertex(name)
    p.vertex("x", start="first")
    p.over_edges(into="y", reduce="sum")(lambda src, dst, edge: edge.w * src.x * src.sent + dst.met)
    p.over_vertices(lambda v, graph: {"x": 0.01 * v.y + v.own + graph.shift * self.rate})
    p.until_settled(self.tolerance, at_most=50)
    p.output("x", bound=1e-4)


def read_inputs(graph, **changes):
    values = {name: np.arange(1.0, 5.0) for name in ("sent", "met", "own", "first", "unread")}
    values |= {"w": np.arange(1.0, 1 + graph.num_edges), "shift": np.float64(0.5)}
    return Inputs(
        {name: np.asarray(changes.get(name, one), np.float32) for name, one in values.items()},
        {"tolerance": 1e-6, "rate": changes.get("rate", 0.5)},
    )


OTHER = np.array([1.0, 2.0, 9.0, 4.0])  # vertex 2 differs


@pytest.mark.parametrize(
    ("changes", "edges", "vertices", "everywhere"),
    [
        ({}, [], [], False),
        ({"sent": OTHER}, [3], [], False),  # the edge 2 -> 3
        ({"met": OTHER}, [], [2], False),
        ({"own": OTHER}, [], [2], False),
        ({"sent": OTHER, "own": OTHER + 1}, [3], [0, 1, 2, 3], False),
        ({"unread": OTHER}, [], [], False),
        ({"first": OTHER}, [], [], False),
        ({"w": np.array([1.0, 7.0, 3.0, 4.0, 6.0])}, [1, 4], [], False),
        ({"shift": 0.25}, [], [], True),
        ({"rate": 0.25}, [], [], True),
    ],
)  # fmt: skip
def test_an_input_that_differs_is_found_where_it_is_read(changes, edges, vertices, everywhere):
    program = program_of(reading)
    before, after = (Posed.of(program, PATHS, 1, read_inputs(PATHS, **one)) for one in ({}, changes))
    for found in (Differences.between(before, after), Differences.between(after, before)):
        assert np.flatnonzero(found.changed).tolist() == edges
        assert np.flatnonzero(found.vertices).tolist() == vertices
        assert found.everywhere is everywhere
        assert (len(found.removed), len(found.added)) == (0, 0)
        assert found.old.tolist() == found.new.tolist() == list(range(5))


@pytest.mark.parametrize(("changes", "narrow"), [({}, True), ({"own": OTHER}, True), ({"rate": 0.25}, False)], ids=str)
def test_every_vertex_is_computed_again_where_an_input_of_the_whole_graph_differs(changes, narrow):
    program = program_of(reading)
    old, new = read_inputs(PATHS), read_inputs(PATHS, **changes)
    settled = run(program, PATHS, 1, 50, **old.properties).values("x")
    start = warm_start(program, 1, (PATHS, old), (PATHS, new), {"x": settled}, fixed_points="one")
    assert not start.restarted
    assert (start.stale is not None, start.senders is not None) == (narrow, narrow)
    np.testing.assert_array_equal(start.state["x"], settled.astype(np.float32))
    if narrow:
        assert np.flatnonzero(start.stale).tolist() == ([2] if changes else [])
        assert not start.senders.any()


def test_edges_that_store_values_are_all_computed_again():
    def build(p, self):
        p.vertex("first", K)
        p.vertex("x", K, start="first")
        p.edge("m", K, start=0.0)
        p.over_edges(updates="m")(lambda src: 0.25 * src.x)
        p.over_edges(into="y", reduce="sum")(lambda edge: edge.m)
        p.over_vertices(lambda v: {"x": v.y + v.first})
        p.until_settled(self.tolerance, at_most=50)
        p.output("x", bound=1e-4)

    more = Graph.from_edges([0, 0, 1, 1, 2, 3], [1, 2, 2, 3, 3, 0], num_vertices=4, name="one more")
    first, program = np.arange(8.0).reshape(4, 2).astype(np.float32), program_of(build)
    given, old = Inputs({"first": first}, {"tolerance": 1e-6}), run(program, PATHS, 2, 50, first=first)
    kept = {name: old.values(name) for name in ("x", "m")}
    start = warm_start(program, 2, (PATHS, given), (more, given), kept, fixed_points="one")
    assert (start.stale, start.senders, start.restarted) == (None, None, False)
    np.testing.assert_array_equal(start.state["x"], kept["x"].astype(np.float32))
    wanted = kept["m"].astype(np.float32)[[0, 1, 0, 2, 3, 4]]
    wanted[2] = 0.0  # the new edge 1 -> 2 is at its start
    np.testing.assert_array_equal(start.state["m"], wanted)


def paths(reducer):
    """Return shortest paths, or widest paths for *max*, from given values."""

    def build(p, self):
        better = {"min": minimum, "max": maximum}[reducer]
        p.edge("w")
        p.vertex("own", K)
        p.vertex("x", K, start="own")
        p.over_edges(into="best", reduce=reducer)(
            lambda src, edge: src.x + edge.w if reducer == "min" else minimum(src.x, edge.w)
        )
        p.over_vertices(lambda v: {"x": better(v.x, v.best)})
        p.until_settled(at_most=100)
        p.output("x", bound=0.0)

    return program_of(build)


WAYS = {reducer: paths(reducer) for reducer in ("min", "max")}


@given(
    st.sampled_from(["min", "max"]),
    st.lists(st.integers(1, 5), min_size=5, max_size=5),
    st.lists(st.integers(1, 5), min_size=5, max_size=5),
)
@settings(max_examples=30, deadline=None)
def test_an_edge_is_worse_if_its_message_was_better(reducer, was, now):
    program, sign = WAYS[reducer], {"min": 1, "max": -1}[reducer]
    own = np.array([[0, 3], [9, 9], [9, 9], [9, 0]], np.float32) * sign
    old, new = (Inputs({"own": own, "w": np.array(one, np.float32)}) for one in (was, now))
    settled = {"x": run(program, PATHS, 2, 100, **old.properties).values("x")}
    before, after = Posed.of(program, PATHS, 2, old, settled), Posed.of(program, PATHS, 2, new)
    differences = Differences.between(before, after)
    x, sources = settled["x"], PATHS.csr.row_of_edge
    messages = [
        x[sources] + np.array(one)[:, None] if reducer == "min" else np.minimum(x[sources], np.array(one)[:, None])
        for one in (was, now)
    ]
    expected = np.flatnonzero((sign * messages[1] > sign * messages[0]).any(axis=1))
    assert worse_edges(one_way(program), before, after, differences).tolist() == expected.tolist()
    lost, looked = unsupported(one_way(program), before, after, differences)
    assert looked >= len(expected)
    assert len(expected) or not lost.any()
    start = warm_start(program, 2, (PATHS, old), (PATHS, new), settled)
    warm = run(program, PATHS, 2, 100, start.state, **new.properties).values("x")
    assert np.array_equal(warm, run(program, PATHS, 2, 100, **new.properties).values("x"))
