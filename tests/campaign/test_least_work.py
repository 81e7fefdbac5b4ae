"""The least bytes of supersteps, counted by hand."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from harness.algorithms.bfs import BFS
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.algorithms.sssp import SSSP
from harness.campaign.least_work import alike, edge_needs, least_bytes
from harness.contract import Superstep
from harness.graph import Graph
from harness.language import Algorithm, Inputs, K, normalize, total, trace, where
from tests.engines.problems import program as program_of

# Vertex 0 has edges to the three others, vertex 1 to vertex 2; 2 and 3 have no out-edges.
GRAPH = Graph.from_edges([0, 0, 0, 1], [1, 2, 3, 2], weights=[1.0, 2.0, 3.0, 4.0], name="four")
E, V, SENDERS = 4, 4, 2


class Product(Algorithm):
    """``x(v) = sum of weight * x(u)``, in a given number of supersteps."""

    name: ClassVar[str] = "product"

    def build(self, p):
        self.declare(p)
        self.control(p)

    def declare(self, p):
        p.edge("weight")
        p.vertex("start", K)
        p.vertex("x", K, start="start")

        @p.over_edges(into="total", reduce="sum")
        def gather(src, edge):
            return edge.weight * src.x

        @p.over_vertices
        def step(v):
            return {"x": normalize(v.total)}

    def control(self, p):
        p.repeat(5)
        p.output("x", bound=1e-4)


class Masked(Product):
    """Reads rows of sources under a condition, and one float that can be computed at each source."""

    def build(self, p):
        p.vertex("start", K)
        p.vertex("x", K, start="start")
        p.vertex("on", start=1.0)

        @p.over_edges(into="total", reduce="sum")
        def gather(src, dst):
            return where(dst.on > 0.5, src.x, 0.0) * total(src.x)

        @p.over_vertices
        def step(v):
            return {"x": normalize(v.total), "on": v.on}

        p.repeat(5)
        p.output("x", bound=1e-4)


def steps(*visited, active=V, direction="pull"):
    return [Superstep(active, edges, direction) for edges in visited]


@pytest.mark.parametrize("k", [1, 4, 33])
def test_a_full_superstep_of_a_product(k):
    """Id and weight of every edge, the row of every source with edges, and each that moves until the next superstep."""
    read = 8 * E + 4 * k * SENDERS
    found = least_bytes(trace(Product()), GRAPH.facts, k, steps(E, E))
    assert found == [read + 4 * k * SENDERS, read]


@pytest.mark.parametrize("k", [1, 16])
def test_steps_in_place_read_and_write_the_rows_of_both_ends(k):
    """Ids and ratings of all edges; on the graph with both directions, rows of destinations may be those of sources."""
    graph = Graph.from_edges([0, 0, 1], [3, 4, 3], num_vertices=6, name="ratings", bipartite=(3, 3))
    program, supersteps = trace(SGDMatrixFactorisation(epochs=2)), steps(3, 3)
    assert least_bytes(program, graph.facts, k, supersteps) == [3 * 8 + 2 * 4 * k * (2 + 2)] * 2
    assert least_bytes(program, graph.facts, k, supersteps, {"rating"}) == [3 * 4 + 2 * 4 * k * (2 + 2)] * 2
    both = graph.with_reverse_edges()
    assert least_bytes(program, both.facts, k, steps(6)) == [6 * 8 + 2 * 4 * k * 4]


def test_full_propagation_reads_everything_whatever_moved():
    supersteps = [Superstep(V, E, "push"), Superstep(1, E, "push"), Superstep(0, E, "push")]
    read = 8 * E + 4 * SENDERS
    assert least_bytes(trace(Product()), GRAPH.facts, 1, supersteps) == [read + 4, read, read]


def test_a_superstep_that_visits_some_edges_moves_their_ids_only():
    supersteps = [Superstep(V, E, "push"), Superstep(1, 3, "push"), Superstep(1, 1, "push")]
    assert least_bytes(trace(Product()), GRAPH.facts, 8, supersteps)[1:] == [12, 4]


def test_a_change_driven_pull_that_follows_and_visits_as_many_edges_as_there_are_is_not_a_full_superstep():
    supersteps = [Superstep(V, 2 * E, "pull"), Superstep(2, E, "pull"), Superstep(2, E, "dense")]
    whole = 8 * E + 4 * SENDERS
    assert least_bytes(trace(Product()), GRAPH.facts, 1, supersteps) == [whole + 2 * 4, 4 * E, whole]


def test_a_push_of_minima_need_not_visit_the_edges_of_sources_that_did_not_move():
    supersteps = [Superstep(V, E, "push"), Superstep(1, E, "push"), Superstep(1, E, "pull")]
    program = trace(SSSP())
    assert least_bytes(program, GRAPH.facts, 1, supersteps) == [8 * E + 4 * SENDERS + 4, 0, 4 * E]


def test_two_passes_over_the_same_edges_read_them_once():
    class Two(Product):
        def build(self, p):
            self.declare(p)

            @p.over_edges(into="most", reduce="max")
            def largest(src):
                return src.x

            self.control(p)

    found = edge_needs(trace(Two()), 4)
    assert (found.stages, found.most_visits, found.extrema) == (2, 2, False)
    assert least_bytes(trace(Two()), GRAPH.facts, 4, [Superstep(1, 6, "push"), Superstep(0, 0, "push")]) == [12, 0]


def test_what_a_condition_masks_does_not_count_and_a_part_computed_at_the_source_counts_by_its_size():
    assert edge_needs(trace(Masked()), 8).row == 4


def test_inputs_of_vertices_and_equal_weights_do_not_count():
    program = trace(LabelPropagation())
    needs = edge_needs(program, 8), edge_needs(program, 8, {"weight"})
    assert [one.edge for one in needs] == [4, 0]
    inputs = Inputs({}, {})
    even = GRAPH.with_weights(np.full(E, 2.0, np.float32))
    plain = Graph.from_edges([0], [1], name="plain")
    assert [alike(program, inputs, graph) for graph in (GRAPH, even, plain)] == [set(), {"weight"}, {"weight"}]


@pytest.mark.parametrize("program", [BFS, SSSP, LabelPropagation, Product])
def test_without_edges_or_supersteps_there_are_no_bytes(program):
    lonely = Graph.from_edges([], [], num_vertices=3, name="lonely")
    assert least_bytes(trace(program()), lonely.facts, 2, steps(0, 0)) == [0, 0]
    assert least_bytes(trace(program()), GRAPH.facts, 2, []) == []


def test_a_program_without_edges_needs_no_bytes_of_them():
    class Alone(Product):
        def build(self, p):
            p.vertex("start", K)
            p.vertex("x", K, start="start")

            @p.over_vertices
            def step(v):
                return {"x": 0.5 * v.x}

            self.control(p)

    program = trace(Alone())
    found = edge_needs(program, 4)
    assert (found.row, found.edge, found.most_visits, found.stages) == (0, 0, 0, 0)
    assert least_bytes(program, GRAPH.facts, 4, steps(0, 0)) == [0, 0]


@pytest.mark.parametrize(
    ("algorithm", "row", "edge", "visits", "stages"),
    [
        ("label_propagation", 4, 1, 1, 1), ("pagerank", 4, 0, 1, 1), ("als", 4, 1, 2, 2), ("sssp", 4, 1, 1, 1),
        ("bfs", 4, 0, 1, 1), ("components", 1, 0, 1, 1), ("manifold_ranking", 4, 4, 2, 2),
        ("belief_propagation", 0, 4, 4, 2),  # a product may take three sums, and the update is a visit
        ("hits", 0, 0, 2, 2),  # directions of edges are conditions
    ],
)  # fmt: skip
def test_the_floats_that_messages_of_four_features_need(algorithm, row, edge, visits, stages):
    found = edge_needs(program_of(algorithm), 4)
    assert (found.row, found.edge, found.most_visits, found.stages) == (4 * row, 4 * edge, visits, stages)
    assert found.keeps == (algorithm != "belief_propagation")


class Reverse(Product):
    """Reads only values of reverse edges, which change."""

    def build(self, p):
        p.edge("flow", start=1.0)
        p.vertex("x", start=1.0)

        @p.over_edges(into="total", reduce="sum")
        def gather(edge):
            return edge.reverse.flow

        @p.over_edges(updates="flow")
        def replace(src):
            return src.x

        @p.over_vertices
        def step(v):
            return {"x": v.total}

        p.repeat(5)
        p.output("x", bound=1e-4)


class Sides(Product):
    def control(self, p):
        p.alternate_sides()
        p.repeat(5)
        p.output("x", bound=1e-4)


def test_values_of_reverse_edges_are_read():
    assert edge_needs(trace(Reverse()), 8).edge == 4


def test_a_superstep_of_one_side_is_no_full_one():
    sides = Graph.from_edges([0, 0, 1], [2, 3, 2], weights=[1.0, 2.0, 3.0], name="sides", symmetrize=True)
    edges = sides.num_edges
    for supersteps in (
        [Superstep(4, edges, "pull"), Superstep(4, edges // 2, "pull")],
        [Superstep(4, edges, "dense"), Superstep(4, edges // 2, "dense")],
    ):
        assert least_bytes(trace(Sides()), sides.facts, 1, supersteps) == [4 * edges, 4 * (edges // 2)]
        whole = 8 * edges + 4 * 4 + 4 * 4
        assert least_bytes(trace(Product()), sides.facts, 1, supersteps)[0] == whole
