"""Aggregation over out-edges: a graph of both directions, the traced reductions, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from harness.algorithms.hits import HITS
from harness.graph import Graph, GraphError
from harness.graph.changes import change_graph
from harness.graph.graph import FORWARD
from harness.language import Inputs, InvalidInput, LanguageError, minimum, trace, where
from harness.language.expressions import walk
from harness.language.initial_state import check_inputs
from harness.language.program import REDUCERS
from tests.language.programs import edges, graphs, program_of, run

COMBINED = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max}
EMPTY = {"sum": 0.0, "prod": 1.0, "min": np.inf, "max": -np.inf}


def both_ways(reducer):
    """Return a program that reduces the same message over in-edges and over out-edges, some of them guarded."""

    def build(p, self):
        p.edge("weight")
        p.vertex("x")
        for name in ("over_in", "over_out", "guarded"):
            p.vertex(name, start=0.0)

        @p.over_edges(into="a", reduce=reducer)
        def inwards(src, dst, edge):
            return edge.weight * src.x - dst.x

        @p.over_edges(into="b", reduce=reducer, along="out")
        def outwards(src, dst, edge):
            return edge.weight * src.x - dst.x

        @p.over_edges(into="c", reduce=reducer, along="out", when=lambda dst: dst.x > 0)
        def chosen(dst):
            return dst.x

        @p.over_vertices
        def keep(v):
            return {"over_in": v.a, "over_out": v.b, "guarded": v.c}

        p.repeat(1)
        for name in ("over_in", "over_out", "guarded"):
            p.output(name, bound=1e-5)

    return program_of(build)


PROGRAMS = {reducer: both_ways(reducer) for reducer in REDUCERS}


def by_loops(graph, x, reducer):
    """Return both aggregates and the guarded one, from the definition."""
    found = {"over_in": {}, "over_out": {}, "guarded": {}}
    weights = np.ones(graph.num_edges) if graph.weights is None else graph.weights
    for u, v, e in edges(graph):
        message = float(weights[e]) * x[u] - x[v]
        found["over_in"].setdefault(v, []).append(message)
        found["over_out"].setdefault(u, []).append(message)
        if x[v] > 0:
            found["guarded"].setdefault(u, []).append(x[v])
    return {
        name: [COMBINED[reducer](at[v]) if v in at else EMPTY[reducer] for v in range(graph.num_vertices)]
        for name, at in found.items()
    }


@pytest.mark.parametrize("reducer", REDUCERS)
@settings(max_examples=15)
@given(graph=graphs())
def test_both_directions_aggregate_as_defined(reducer, graph):
    x = np.random.default_rng(graph.num_edges).integers(-4, 5, graph.num_vertices) / 4
    done = run(PROGRAMS[reducer], graph.both_directions(), x=x.astype(np.float32))
    for name, expected in by_loops(graph, x, reducer).items():
        np.testing.assert_allclose(done.values(name), expected, rtol=1e-6, atol=1e-9, err_msg=name)


@given(graphs())
@settings(max_examples=20)
def test_conditions_vectors_and_edges_are_read_at_the_other_end_too(graph):
    def build(p, self):
        p.edge("open", dtype=bool)
        p.vertex("on", dtype=bool)
        p.vertex("x", 2)
        for name in ("count", "far"):
            p.vertex(name, start=0.0)
        p.over_edges(into="a", reduce="sum", along="out")(lambda dst, edge: where(dst.on & edge.open, 1.0, 0.0))
        p.over_edges(into="b", reduce="sum", along="out")(lambda src, dst: dst.x * where(src.on, 2.0, 1.0))
        p.over_vertices(lambda v: {"count": v.a, "far": v.b[1]})
        p.repeat(1)
        p.output("count", bound=0.0)

    both = graph.both_directions()
    on, x = np.arange(graph.num_vertices) % 2 == 0, np.arange(2.0 * graph.num_vertices).reshape(-1, 2)
    opened = np.arange(both.num_edges) % 3 > 0
    found = run(program_of(build), both, on=on, x=x, open=opened)
    known = found.program.properties
    nodes = [node for stage in found.program.stages for node in walk(*stage.expressions()) if node.op == "read"]
    for node in nodes:
        prop = known[node.attribute[1]]
        assert (node.dtype, node.shape) == (prop.dtype, prop.shape)
    count, far = np.zeros(graph.num_vertices), np.zeros(graph.num_vertices)
    forward = both.edge_data[FORWARD]
    for source, destination, place in edges(both):
        if not forward[place]:  # the copy of an out-edge of its destination
            count[destination] += on[source] and opened[place]
            far[destination] += x[source, 1] * (2 if on[destination] else 1)
    assert found.values("count").tolist() == count.tolist()
    assert found.values("far").tolist() == far.tolist()


def test_the_graph_of_both_directions_keeps_weights_and_data():
    graph = Graph.from_edges(
        [0, 1, 1], [1, 0, 1], weights=[1, 2, 3], name="pair", edge_data={"kind": np.array([5, 6, 7])},
        vertex_data={"original_id": np.array(["a", "b"])},
    )  # fmt: skip
    both = graph.both_directions()
    both.validate()
    assert both.has_reverse_edges
    assert both.vertex_names.tolist() == ["a", "b"]
    stored = [(u, v, float(both.weights[e]), int(both.edge_data["kind"][e])) for u, v, e in edges(both)]
    forward = both.edge_data[FORWARD]
    given = [(u, v, float(graph.weights[e]), int(graph.edge_data["kind"][e])) for u, v, e in edges(graph)]
    assert [row for row, kept in zip(stored, forward, strict=True) if kept] == given
    assert sorted((v, u, *rest) for (u, v, *rest), kept in zip(stored, forward, strict=True) if not kept) == given


def test_the_graph_of_both_directions_is_neither_doubled_again_nor_changed():
    both = Graph.from_edges([0], [1], name="edge").both_directions()
    with pytest.raises(GraphError, match="has edge data 'forward' already"):
        both.both_directions()
    with pytest.raises(GraphError, match="changes of its edges are not supported"):
        change_graph(both, 0.5)


def test_a_graph_of_one_direction_is_refused_with_the_remedy():
    graph = Graph.from_edges([0], [1], name="edge")
    with pytest.raises(InvalidInput, match=r"return graph\.both_directions\(\)"):
        check_inputs(PROGRAMS["sum"], graph, 1, Inputs({"x": np.zeros(2, np.float32)}))


def test_an_author_cannot_take_the_name_of_the_direction():
    def build(p, self):
        p.edge("forward", dtype=bool)
        outward_sum(p)

    with pytest.raises(LanguageError, match="'forward' is already a property of the edge"):
        program_of(build)


def outward_sum(p, message=lambda dst: dst.x, **options):
    p.vertex("x", start=0.0)
    p.over_edges(into="sum", reduce="sum", along="out", **options)(message)
    p.over_vertices(lambda v: {"x": v.sum})
    p.repeat(1)
    p.output("x", bound=1e-5)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (lambda dst: dst.x / dst.in_degree, r"dst\.in_degree counts every edge twice; aggregate a degree"),
        (lambda src: src.x / src.out_degree, r"src\.out_degree counts every edge twice"),
        (lambda graph: graph.num_edges, r"graph\.num_edges counts every edge twice"),
        (lambda edge: edge.reverse.weight, r"edge\.reverse pairs an edge with its copy"),
    ],
)
def test_values_that_mean_something_else_there_are_refused_at_the_line(message, words):
    def build(p, self):
        p.edge("weight")
        outward_sum(p, message)

    with pytest.raises(LanguageError, match=words) as met:
        program_of(build)
    assert met.value.where.file == __file__


def test_updates_of_edges_are_refused():
    def build(p, self):
        p.edge("message", start=1.0)
        p.over_edges(updates="message")(lambda edge: minimum(edge.message, 0.5))
        outward_sum(p)

    with pytest.raises(LanguageError, match="updates edges, but .* aggregates over out-edges"):
        program_of(build)


@pytest.mark.parametrize("options", [{"along": "sideways"}, {"along": "out", "updates": "x", "reduce": None}])
def test_other_directions_are_refused(options):
    def build(p, self):
        p.edge("x", start=0.0)
        given = {"into": "sum", "reduce": "sum", **options}
        p.over_edges(**{**given, "into": None} if "updates" in options else given)(lambda edge: edge.x)

    with pytest.raises(LanguageError, match="a reduction runs along="):
        program_of(build)


def test_explain_names_the_edges_of_each_reduction():
    from harness.language.program import describe

    text = describe(trace(HITS()))
    assert "pointed_at(v) = sum over in-edges where edge.forward of (edge.weight * src.pointing)" in text
    assert "pointing_at(v) = sum over in-edges where ~edge.forward of (edge.weight * src.pointed)" in text
