"""Which function of a library a way calls, and with which arguments: a record in place of the library."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from engines.libraries.schedules import SolverSchedule
from engines.libraries.scikit_network_engine import MOST_PRODUCTS
from harness.contract import Device, Unsupported
from harness.graph import Graph
from tests.engines.problems import SPECS
from tests.engines.test_solvers import SOLVERS

TELEPORT = np.array([[0.5, 0.25], [0.5, 0.25], [0.0, 0.5]])
HALVES = np.full((4, 1), 0.25)
NET = object()


class Record:
    """Anything's attributes and results; ``calls``: the functions called, by their path, with their arguments."""

    def __init__(self, calls=None, path=""):
        self.__dict__.update(calls=[] if calls is None else calls, at=path)

    def __getattr__(self, name):
        return Record(self.calls, f"{self.at}.{name}".lstrip("."))

    def __setattr__(self, name, value):
        self.calls.append((f"{self.at}.{name}=", value))

    def __call__(self, *arguments, **named):
        shown = tuple(
            a.at if isinstance(a, Record) else tuple(a) if isinstance(a, np.ndarray) else a for a in arguments
        )
        named = {
            n: tuple(a) if isinstance(a, np.ndarray) else a.at if isinstance(a, Record) else a for n, a in named.items()
        }
        self.calls.append((self.at, *shown, *([named] if named else [])))
        return Record(self.calls, f"{self.at}()")


def case(kind, **changed):
    given = {
        "kind": kind, "features": 2, "core": 3, "alpha": 0.8, "tolerance": 1e-4, "sources": np.array([2, 0]),
        "teleport": TELEPORT, "totals": np.ones(2), "own": np.arange(3.0), "graph": SimpleNamespace(num_vertices=3),
    }  # fmt: skip
    return SimpleNamespace(**{**given, **changed})


def paths(function, *more, **named):
    return [(function, NET, source, *more, *([named] if named else [])) for source in (2, 0)]


TERMS = math.ceil(math.log(1e-4) / math.log(0.8))
CALLS = [
    ("networkit", "spsp", "bfs", [("distance.SPSP", NET, [2, 0]), ("distance.SPSP().run",)]),
    ("networkit", "components", "components", [
        ("components.ConnectedComponents", NET), ("components.ConnectedComponents().run",)]),
    ("networkit", "parallel_components", "components", [
        ("components.ParallelConnectedComponents", NET), ("components.ParallelConnectedComponents().run",)]),
    ("networkit", "cores", "kcore", [
        ("centrality.CoreDecomposition", NET), ("centrality.CoreDecomposition().run",)]),
    ("scikit_network", "distances", "bfs", [
        ("path.get_distances", NET, {"source": 2}), ("path.get_distances", NET, {"source": 0})]),
    ("scikit_network", "components", "components", [("topology.get_connected_components", NET)]),
    ("scikit_network", "cores", "kcore", [("topology.get_core_decomposition", NET)]),
    ("networkx", "levels", "bfs", paths("single_source_shortest_path_length")),
    ("networkx", "dijkstra", "sssp", paths("single_source_dijkstra_path_length")),
]  # fmt: skip
for solver, terms in (("RH", TERMS), ("piteration", MOST_PRODUCTS)):
    asked = [("ranking.PageRank", 0.8, solver, {"n_iter": terms, "tol": 1e-4})]
    asked += [("ranking.PageRank().fit_predict", NET, {"weights": tuple(column)}) for column in TELEPORT.T]
    CALLS.append(("scikit_network", solver, "pagerank", asked))
for kind, function in (("bfs", "BFS"), ("sssp", "Dijkstra")):
    asked = [(f"distance.{function}", NET, 2, False), (f"distance.{function}().run",)]
    asked += [(f"distance.{function}", NET, 0, False), (f"distance.{function}().run",)]
    CALLS.append(("networkit", "one_by_one", kind, asked))


def engine_with(name, record, network=NET):
    held = {"networkit": "nk", "scikit_network": "sknetwork", "networkx": "nx"}[name]
    engine = SOLVERS[name](SolverSchedule())
    engine.__dict__.update({held: record, "network": network})
    return engine


@pytest.mark.parametrize(("name", "way", "kind", "calls"), CALLS, ids=lambda one: one if isinstance(one, str) else "")
def test_a_way_calls_the_function_that_it_is_named_after(name, way, kind, calls):
    record = Record()
    engine = engine_with(name, record)
    if name == "networkx":  # it reads the results at once
        record.__dict__["calls"] = made = []
        engine.nx = SimpleNamespace(**{calls[0][0]: lambda *given: made.append((calls[0][0], *given)) or {}})
    engine.ways[kind][way](engine, case(kind))
    assert record.calls == calls


@pytest.mark.parametrize("teleport", [HALVES, np.array([[0.2], [0.3], [0.25], [0.25]])], ids=["uniform", "another"])
def test_networkits_pagerank_is_that_of_the_program_or_refused(teleport):
    record = Record()
    engine, posed = engine_with("networkit", record), case("pagerank", teleport=teleport)
    posed.graph.num_vertices = 4
    if teleport is not HALVES:
        with pytest.raises(Unsupported, match="no teleport vector"):
            engine.pagerank(posed)
        assert not record.calls
        return
    engine.pagerank(posed)
    made, norm, run = record.calls
    assert made == (
        "centrality.PageRank",
        NET,
        0.8,
        1e-4,
        {"distributeSinks": "centrality.SinkHandling.DistributeSinks"},
    )
    assert (norm[0], norm[1].at) == ("centrality.PageRank().norm=", "centrality.Norm.L1_NORM")
    assert run == ("centrality.PageRank().run",)


def test_igraph_takes_lengths_for_shortest_paths_only_and_each_teleport_vector():
    record = Record()
    engine = SOLVERS["igraph"](SolverSchedule())
    engine.network, engine.lengths = record, [1.5, 2.5]
    for kind in ("bfs", "sssp"):
        engine.distances(case(kind))
    engine.prpack(case("pagerank"))
    engine.components(case("components"))
    engine.coreness(case("kcore"))
    solved = [
        ("personalized_pagerank", {"damping": 0.8, "reset": tuple(column), "implementation": "prpack"})
        for column in TELEPORT.T
    ]
    assert record.calls == [
        ("distances", [2, 0], {"mode": "out"}),
        ("distances", [2, 0], {"mode": "out", "weights": [1.5, 2.5], "algorithm": "dijkstra"}),
        *solved, ("connected_components", {"mode": "weak"}), ("coreness",),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["bfs", "sssp", "components", "kcore", "pagerank"])
@pytest.mark.parametrize("name", ["networkit", "igraph"])
def test_the_graph_of_a_library_has_every_edge_of_a_direction_once(name, kind):
    pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 2)] if kind != "kcore" else [(0, 1), (1, 0), (1, 2), (2, 1)]
    source, target = zip(*pairs, strict=True)
    lengths = [4.0, 4.0, 2.0, 2.0, 7.0][: len(pairs)]
    graph = Graph.from_edges(source, target, num_vertices=4, weights=lengths, name="few")
    record, directed = Record(), kind not in ("components", "kcore")
    engine = SOLVERS[name](SolverSchedule())
    engine.nk = engine.igraph = record
    engine.convert(graph, kind)
    wanted = [(pair, length) for pair, length in zip(pairs, lengths, strict=True) if directed or pair[0] <= pair[1]]
    [(function, *given)] = record.calls
    if name == "igraph":
        edges = sorted(map(tuple, np.array([list(one) for one in given[0]["edges"]]).tolist()))
        assert (function, given[0]["n"], given[0]["directed"]) == ("Graph", 4, directed)
        assert edges == [pair for pair, _ in wanted]
        assert engine.lengths == ([length for _, length in wanted] if kind == "sssp" else None)
    else:
        (weights, ends), named = given
        assert (function, named) == ("GraphFromCoo", {"n": 4, "weighted": kind == "sssp", "directed": directed})
        found = zip(*(one.tolist() for one in ends), weights.tolist(), strict=True)
        assert sorted(((a, b), length) for a, b, length in found) == wanted


def test_libraries_with_threads_use_those_of_the_device(monkeypatch):
    asked = []
    networkit = SimpleNamespace(setNumberOfThreads=asked.append)
    monkeypatch.setitem(sys.modules, "networkit", networkit)
    graphblas = SimpleNamespace(ss=SimpleNamespace(config={}))
    monkeypatch.setitem(sys.modules, "graphblas", graphblas)
    for name in ("networkit", "graphblas"):
        engine = SOLVERS[name](SolverSchedule())
        engine.load(Device(threads=3))
        assert SPECS[name].requires == (name,)
    assert (asked, graphblas.ss.config) == ([3], {"nthreads": 3})
