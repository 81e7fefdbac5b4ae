"""Float64 runs in random orders, on copies of a graph or one after another: both are runs on the graph itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from harness.campaign import random_orders
from harness.campaign.random_orders import RUNS, copies_of, metrics_in_random_orders
from harness.graph import Graph
from harness.language import Algorithm, Inputs, K, trace
from harness.language.reference import ReferenceRun

V, E = 7, 16


def graph(weighted):
    draw = np.random.default_rng(5)
    weights = draw.random(E).astype(np.float32) if weighted else None
    rows = draw.integers(0, V, E)
    columns = (rows + draw.integers(1, V, E)) % V  # no self-loops
    return Graph.from_edges(rows, columns, num_vertices=V, weights=weights, duplicates="keep", name="few")


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_copies_of_a_graph_are_its_edges_with_their_weights_side_by_side(count, weighted):
    """Vertex v of copy c is c V + v."""
    given = graph(weighted)
    made = copies_of(given, count)
    assert (made.num_vertices, made.num_edges) == (count * V, count * E)
    rows, columns = given.csr.row_of_edge.astype(np.int64), given.csr.neighbours.astype(np.int64)
    assert made.csr.row_of_edge.tolist() == np.concatenate([rows + copy * V for copy in range(count)]).tolist()
    assert made.csr.neighbours.tolist() == np.concatenate([columns + copy * V for copy in range(count)]).tolist()
    if weighted:
        assert made.weights.tolist() == given.weights.tolist() * count
    else:
        assert made.weights is None


def test_the_ids_of_copies_are_wide_enough_for_all_vertices_of_all_copies(monkeypatch):
    monkeypatch.setattr(random_orders, "id_dtype", lambda vertices: np.int64 if vertices > 3 * V - 1 else np.int32)
    assert [copies_of(graph(False), count).csr.neighbours.dtype for count in (1, 2, 3)] == [
        np.int32,
        np.int32,
        np.int64,
    ]


class Mixing(Algorithm):
    """Steps in place along edges, and a superstep that may depend on the whole graph."""

    name: ClassVar[str] = "mixing"
    whole: str = "nothing"

    def build(self, p):
        p.edge("pull")
        p.vertex("start", K)
        p.vertex("x", K, start="start")
        p.graph("gain")

        @p.over_edges(update="both")
        def step(src, dst, edge, graph):
            apart = graph.gain * edge.pull * (dst.x - src.x)
            return {"src": {"x": src.x + apart}, "dst": {"x": dst.x - 0.5 * apart}}

        if self.whole == "a sum":

            @p.over_graph(into="most", reduce="max")
            def largest(v):
                return v.x

        @p.over_vertices
        def after(v, graph):
            if self.whole == "a sum":
                return {"x": v.x + 0.1 * graph.most}
            if self.whole == "its size":
                return {"x": v.x + 1.0 / graph.num_vertices}
            return {"x": 0.9 * v.x}

        p.repeat(3)
        p.output("x", bound=1e-4)

    def metrics(self, graph, values):
        return {"first": float(values["x"][0, 0]), "norm": float(np.linalg.norm(values["x"]))}


@pytest.mark.parametrize("whole", ["nothing", "a sum", "its size"])
def test_every_run_is_one_on_the_graph_itself(whole, monkeypatch):
    """A program that reads the whole graph would read that of all copies."""
    algorithm, given, draw = Mixing(whole=whole), graph(weighted=False), np.random.default_rng(6)
    pull, start = draw.random(E, np.float32) / 4, draw.random((V, 2), np.float32)
    inputs = Inputs({"pull": pull, "start": start, "gain": np.array(0.75, np.float32)})
    program, copied = trace(algorithm), []
    problem = SimpleNamespace(
        algorithm=algorithm, program=program, given=given, graph=given, inputs=inputs, features=2, max_supersteps=3,
        carried={},
    )  # fmt: skip
    made = random_orders.copies_of
    monkeypatch.setattr(random_orders, "copies_of", lambda graph, count: copied.append(count) or made(graph, count))
    found = metrics_in_random_orders(problem).values
    assert copied == ([RUNS] if whole == "nothing" else [1] * RUNS)
    assert {name: one.shape for name, one in found.items()} == {"first": (RUNS, 3), "norm": (RUNS, 3)}
    for seed in range(RUNS):
        random, run = np.random.default_rng(seed), ReferenceRun(program, given, 2)
        run.reset(inputs)
        for superstep in range(3):
            run.orders = {"step": random.permutation(E)}
            run.superstep()
            wanted = algorithm.metrics(given, {"x": run.values("x")})
            assert {name: one[seed, superstep] for name, one in found.items()} == pytest.approx(wanted, rel=1e-12)
