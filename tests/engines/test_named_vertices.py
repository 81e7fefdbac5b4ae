"""Engines on the CPU run programs that name vertices by values, or refuse them with the reason."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

import onyx_harness
from harness.conformance.matrix import schedules
from harness.contract import Device, No
from harness.language.validation import compare
from tests.covering import covering
from tests.engines import named_vertices
from tests.engines.named_vertices import GRAPHS, most_supersteps, problem, program
from tests.engines.problems import SPECS, new_engine, outputs_of, prepared

CPU = Device(threads=2)
COMPILED = ("onyx", "simdx", "tigr", "emogi")
NUMBERS = {"simdx": {"warp_degree": 3, "block_degree": 9}, "tigr": {"degree_bound": 3}}


def of_options():
    """Return every engine with compiled kernels under every schedule that runs such programs."""
    for engine in COMPILED:
        for options in schedules(SPECS[engine]):
            if not options.get("change_driven"):
                yield engine, {**options, **NUMBERS.get(engine, {})}


ROWS = [
    (engine, options, name, features)
    for (engine, options), (name, features) in itertools.product(
        of_options(), [("mst", 1), ("mst-1", 3), ("components", 1), ("hops", 1), ("hops", 5), ("hops", 33)]
    )
]
TODAY = [
    ("onyx", {"direction": "pull"}, "components", 1), ("simdx", NUMBERS["simdx"], "components", 1),
    ("tigr", NUMBERS["tigr"], "mst", 1),
]  # fmt: skip
LONGER = [
    ("onyx", {"direction": "pull"}, "mst", 1), ("onyx", {"direction": "push", "edges": "streamed"}, "components", 1),
    ("onyx", {}, "hops", 5),
]  # fmt: skip


def label(row):
    engine, options, name, features = row
    return "-".join([engine, *(f"{option}={value}" for option, value in options.items()), name, str(features)])


def pairs(row):
    engine, options, name, features = row
    items = [("engine", engine), *options.items()]
    return {*itertools.combinations(items, 2), *((item, name) for item in items), (engine, name, features)}


def check(engine, options, name, features, graph_name):
    graph, inputs, expected, supersteps = problem(name, graph_name, features)
    made = prepared(engine, options, program(name), graph, features)
    for _ in range(2):  # a second run starts from the same state
        made.reset(inputs)
        statistics = made.run(most_supersteps(name))
        found = compare(program(name), outputs_of(made, program(name)), expected)
        assert found.ok, f"{graph_name}: {found.detail}"
        assert statistics.settled == program(name).control.settles
        assert len(statistics.supersteps) == supersteps
    made.close()


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("row", [*TODAY, *(pytest.param(*[row], marks=pytest.mark.full) for row in LONGER)], ids=label)
def test_engines(row):
    for graph_name in ("rmat", "path", "no edges"):
        check(*row, graph_name)


@pytest.mark.full
@pytest.mark.parametrize("row", covering(ROWS, pairs), ids=label)
def test_every_schedule(row):
    for graph_name in GRAPHS:
        check(*row, graph_name)


@pytest.mark.full
@pytest.mark.parametrize("name", ["mst", "components", "hops"])
def test_torch(name):
    pytest.importorskip("torch")
    for graph_name, features in itertools.product(GRAPHS, (1, 5)):
        check("torch", {}, name, features, graph_name)


DRAWN = [
    ("onyx", {}), ("onyx", {"direction": "push"}), ("onyx", {"fold": False}), ("onyx", {"feature_aware": False}),
    ("tigr", {"degree_bound": 1}), ("simdx", {"warp_degree": 1, "block_degree": 2}), ("torch", {}),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("seed", range(28))
def test_random_programs(seed):
    engine, options = DRAWN[seed % len(DRAWN)]
    assert named_vertices.check_drawn(seed, lambda: new_engine(engine, options), CPU)


@pytest.mark.parametrize(("engine", "options", "reason"), [
    ("onyx", {"change_driven": True}, "jump reads from vertices that values name, so that a change has no known "),
    ("gunrock", {}, "jump reads from vertices that values name, so that a change has no known readers to follow"),
    ("scaph", {}, "jump reads from vertices that values name, so that a change has no known readers to follow"),
    ("scaph", {"rounds": 3}, "jump reads from vertices that values name"),
    ("scipy", {}, "jump names vertices by values, which is not a sparse product"),
    ("krylov", {}, "mst does not change one scalar or vector of the vertices"),
    ("lonestar", {}, "the program has no step that updates both ends of an edge"),
    ("scipy_graph", {}, "has no function for this program"),
    ("networkx", {}, "has no function for this program"),
], ids=lambda one: one if isinstance(one, str) else "")  # fmt: skip
def test_others_refuse_before_anything_runs(engine, options, reason):
    graph, *_ = problem("mst", "grid", 1)
    answer = new_engine(engine, options).supports(program("mst"), graph, 1, CPU)
    assert isinstance(answer, No)
    assert reason in answer.reason


def test_onyx_visits_all_edges_unless_changes_are_asked_for():
    for name in named_vertices.ALGORITHMS:
        graph, *_ = problem(name, "rmat", 1)
        engine = new_engine("onyx", {})
        engine.generate(program(name), graph, 1, CPU)
        assert engine.resolved_options()["change_driven"] is False


def test_a_value_that_is_no_vertex_reaches_nothing():
    """Engines read the vertex's own value, or truncate, where the reference raises an error."""
    from harness.language import Algorithm, Inputs, trace

    class Wild(Algorithm):
        name = "wild"

        def build(self, p):
            p.vertex("to")
            p.vertex("x", start="to")
            p.vertex("y", start=0.0)
            p.over_vertices(lambda v: {"y": v.at(v.to).x})
            p.over_vertices(into="top", reduce="max", at=lambda v: v.to)(lambda v: 1.0 + 0.0 * v.y)
            p.over_vertices(lambda v: {"x": v.top})
            p.repeat(1)
            p.output("x", bound=0.0)
            p.output("y", bound=0.0)

    to = np.array([-1, 4, 1e30, -1e30, 2.75], np.float32)
    graph = GRAPHS["no edges"]()
    for engine in ("onyx", "tigr"):
        made = prepared(engine, {}, trace(Wild()), graph, 1)
        made.reset(Inputs({"to": to}))
        made.run(1)
        assert made.values("y").tolist() == [-1.0, 2.75, *to[2:4].tolist(), to[2]]
        assert np.isneginf(made.values("x")).tolist() == [True, True, False, True, False]
        made.close()


def test_mst_from_python():
    graph = nx.gnm_random_graph(40, 90, seed=2)
    for number, (u, v) in enumerate(graph.edges):
        graph.edges[u, v]["weight"] = float(number * 7 % 10)
    result = onyx_harness.run("tigr", "mst", graph, validate=True)
    lower = result.answer("lower")
    edges = {(int(u), int(v)) for u, v in zip(lower, result.answer("upper"), strict=True) if np.isfinite(u)}
    assert nx.is_forest(nx.Graph(edges))
    expected = nx.minimum_spanning_tree(graph)
    assert len(edges) == expected.number_of_edges()
    assert sum(graph.edges[e]["weight"] for e in edges) == expected.size("weight")
