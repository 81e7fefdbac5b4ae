"""Engines, graphs, algorithms and reference answers for the engine tests."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import pytest

from engines import libraries, lonestar, onyx, outofmemory, pullbaseline, pushbaseline
from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.feature_diffusion import FeatureDiffusion
from harness.algorithms.hits import HITS
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.mf_gd import GradientDescentMatrixFactorisation
from harness.algorithms.mst import MST
from harness.algorithms.multimodal import Multimodal
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.algorithms.sssp import SSSP
from harness.conformance.matrix import FEATURES
from harness.contract import Device, Phases, Yes, schedule_from_options
from harness.graph import Graph, load_graph
from harness.graph.catalogue import digits, motorcycle
from harness.graph.generators import grid, random_ratings, rmat
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun
from tests.algorithms.networks import forest, grid_network, network_hub, picture

PLUGINS = (onyx, pushbaseline, pullbaseline, libraries, lonestar, outofmemory)
SPECS = {spec.name: spec for plugin in PLUGINS for spec in plugin.onyx_engines()}
CLASSES = {
    "onyx": "engines.onyx.engine:OnyxEngine",
    "gunrock": "engines.pushbaseline.gunrock.engine:GunrockEngine",
    "tigr": "engines.pushbaseline.tigr.engine:TigrEngine",
    "simdx": "engines.pullbaseline.simdx.engine:SimdxEngine",
    "scipy": "engines.libraries.scipy_engine:ScipyEngine",
    "cusparse": "engines.libraries.cusparse_engine:CusparseEngine",
    "torch": "engines.libraries.torch_engine:TorchEngine",
    "scipy_graph": "engines.libraries.scipy_graph_engine:ScipyGraphEngine",
    "krylov": "engines.libraries.krylov_engine:KrylovEngine",
    "networkit": "engines.libraries.networkit_engine:NetworkitEngine",
    "scikit_network": "engines.libraries.scikit_network_engine:ScikitNetworkEngine",
    "networkx": "engines.libraries.networkx_engine:NetworkxEngine",
    "igraph": "engines.libraries.igraph_engine:IgraphEngine",
    "graphblas": "engines.libraries.graphblas_engine:GraphblasEngine",
    "libmf": "engines.libraries.libmf_engine:LibmfEngine",
    "surprise": "engines.libraries.surprise_engine:SurpriseEngine",
    "lonestar": "engines.lonestar.engine:LonestarEngine",
    "emogi": "engines.outofmemory.emogi.engine:EmogiEngine",
    "scaph": "engines.outofmemory.scaph.engine:ScaphEngine",
}
LIBRARIES = ("scipy", "torch")

PULL = {"direction": "pull"}
PUSH = {"direction": "push"}
# One schedule of every strategy; thresholds are low, so that small graphs fill all three lists of simdx.
STRATEGIES = {
    "pull": ("onyx", PULL),
    "pull-all": ("onyx", {"change_driven": False}),
    "push": ("onyx", PUSH),
    "push-all": ("onyx", {**PUSH, "change_driven": False}),
    "gunrock": ("gunrock", {}),
    "tigr": ("tigr", {}),
    "simdx": ("simdx", {"warp_degree": 3, "block_degree": 9}),
    "scipy": ("scipy", {}),
    "torch": ("torch", {}),
}
CHANGE_DRIVEN = {
    "pull": ("onyx", {**PULL, "dense_share": 0.5}),
    "pull-sparse": ("onyx", {**PULL, "dense_share": 1.0}),  # recomputes everything only at the start
    "push": ("onyx", {**PUSH, "rebuild": 0}),
    "gunrock": ("gunrock", {"rebuild": 0}),
}


LEAVE_SUPERSTEPS = {"order", "hooking", "solver", "tune", "delta"}


def new_engine(name, options=None):
    """Return an engine under a schedule, Onyx by supersteps; skip the test if a required module is not installed."""
    options = dict(options or {})
    if name == "onyx" and not LEAVE_SUPERSTEPS & options.keys():
        options["order"] = "supersteps"
    for required in SPECS[name].requires:
        pytest.importorskip(required, reason=f"engine {name!r} needs the module {required!r}")
    module, _, attribute = SPECS[name].factory.partition(":")
    assert SPECS[name].factory == CLASSES[name]
    cls = getattr(__import__(module, fromlist=[attribute]), attribute)
    return cls(schedule_from_options(SPECS[name], options))


def prepared(name, options, program, graph, features, threads=2):
    """Return an engine that supports the program and is prepared for it."""
    engine, device = new_engine(name, options), Device(threads=threads)
    answer = engine.supports(program, graph, features, device)
    assert isinstance(answer, Yes), answer
    assert answer.bytes_needed >= 0
    engine.prepare(program, graph, features, device, Phases())
    return engine


# graphs ---------------------------------------------------------------------------------------------------------------
def _edges(pairs, vertices, name, **options):
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    weights = np.random.default_rng(5).uniform(0.5, 2.0, len(pairs)).astype(np.float32)
    return Graph.from_edges(
        pairs[:, 0], pairs[:, 1], num_vertices=vertices, weights=weights, name=name, duplicates="keep", **options
    )


def hub(leaves=3000):
    """Return one vertex with an edge to and from ``leaves`` others."""
    leaf = np.arange(1, leaves + 1)
    centre = np.zeros_like(leaf)
    return _edges(np.concatenate([np.stack([leaf, centre], 1), np.stack([centre, leaf], 1)]), leaves + 1, "hub")


def scattered():
    """Return random edges among the even vertices of 200, with self-loops and parallel edges; odd vertices are
    isolated."""
    pairs = 2 * np.random.default_rng(8).integers(0, 100, (400, 2))
    loops = np.repeat(2 * np.arange(20), 2)
    return _edges(np.concatenate([pairs, pairs[:60], np.stack([loops, loops], 1)]), 200, "scattered")


SMALL = {
    "hub": hub,
    "scattered": scattered,
    "no edges": lambda: _edges([], 5, "no edges"),
    "one vertex": lambda: _edges([], 1, "one vertex"),
    "one loop": lambda: _edges([[0, 0], [0, 0]], 1, "one loop"),
    "chain": lambda: _edges([[i, i + 1] for i in range(40)], 41, "chain"),
    "grid": lambda: grid(rows=12, columns=11),
    "rmat": lambda: rmat(scale=8, edge_factor=8, max_weight=4),
    "ratings": lambda: random_ratings(users=60, items=40, num_ratings=700),
}
NETWORKS = {  # for k features
    "picture": picture,
    "network": grid_network,
    "forest": lambda features: forest(),
    "network hub": lambda features: network_hub(),
    "pair": lambda features: motorcycle(shrink=16),
}
LARGE = {"great hub": lambda: hub(100_000)}
DATA = {
    "digits": "digits-knn10.npz",
    "wiki-Vote": "wiki-Vote.txt",
    "rome99": "rome99.gr",
    "cit-HepTh": "cit-HepTh.npz",
    "as-caida": "as-caida20071105.npz",
}


@functools.cache
def small(name):
    """Return a generated graph."""
    return {**SMALL, **LARGE}[name]()


@functools.cache
def published(name):
    """Return a graph of HARNESS_DATA; skip the test if that is not set (the catalogue also has the digits)."""
    folder = os.environ.get("HARNESS_DATA")
    if name == "digits" and not folder:
        return digits(neighbours=10)
    if not folder:
        pytest.skip("HARNESS_DATA does not name the folder of published graphs")
    if name == "movielens":
        return load_graph(Path(folder) / "ml-latest-small" / "ratings.csv")
    return load_graph(Path(folder) / DATA[name], duplicates="min")  # rome99 has parallel streets


# algorithms -----------------------------------------------------------------------------------------------------------
ALGORITHMS = {
    "label_propagation": LabelPropagation(),
    "pagerank": PageRank(),
    "als": ALS(),
    "als_all": ALS(sides="all"),
    "belief_propagation": BeliefPropagation(damping=0.3),
    "belief_propagation_max": BeliefPropagation(rule="max", damping=0.5),
    "belief_propagation_edge": BeliefPropagation(potentials="edge", damping=0.3),
    "bfs": BFS(),
    "sssp": SSSP(),
    "components": Components(),
    "kcore": KCore(core=3),
    "manifold_ranking": ManifoldRanking(alpha=0.9, supersteps=300),
    "multimodal": Multimodal(),
    "feature_diffusion": FeatureDiffusion(),
    "hits": HITS(),
}

IN_PLACE = {"sgd_mf": SGDMatrixFactorisation()}  # of steps in place: one engine runs these, and nothing else

ELSEWHERE = {
    "mf_gd": GradientDescentMatrixFactorisation(),  # of the operations of others: tests/algorithms/test_mf_gd.py
    "mst": MST(),  # names vertices by values: test_named_vertices.py
}


def turns(engine, algorithm):
    """Return the two numbers of features with which an engine's default schedule runs an algorithm in tests that do
    not run all: every engine meets every number, and so does every algorithm on the first four engines. Kernels are
    compiled for a number of features, so tests of other schedules and of warm runs use the same ones."""
    turn = (list(SPECS).index(engine) + sorted(ALGORITHMS).index(algorithm)) % 4
    return FEATURES[turn], FEATURES[turn + 4]


def one_number(engine, algorithm):
    """Return the smaller of :func:`turns`; for belief propagation, the slowest to compile, the number of its own
    tests."""
    if algorithm.startswith("belief"):
        return 5 if algorithm.endswith("edge") else 3
    return turns(engine, algorithm)[0]


@functools.cache
def program(algorithm):
    """Return the traced program of an algorithm."""
    return trace(ALGORITHMS[algorithm])


@functools.cache
def problem(algorithm, graph_name, features):
    """Return the graph that the program runs on and its inputs."""
    chosen = ALGORITHMS[algorithm]
    if graph_name in NETWORKS:
        given = NETWORKS[graph_name](features)
    else:
        given = small(graph_name) if graph_name in {**SMALL, **LARGE} else published(graph_name)
    graph = chosen.prepare_graph(given)
    return graph, chosen.inputs(graph, features)


def exactly(inputs):
    """Return the same inputs with tolerance 0."""
    return Inputs(inputs.properties, {**inputs.parameters, "tolerance": 0.0})


@functools.cache
def reference(algorithm, graph_name, features, supersteps):
    """Return the outputs after a number of supersteps (fewer if the run settles), and that number."""
    graph, inputs = problem(algorithm, graph_name, features)
    run = ReferenceRun(program(algorithm), graph, features)
    run.reset(inputs)
    statistics = run.run(supersteps)
    outputs = {name: run.values(name) for name in program(algorithm).outputs}
    return outputs, len(statistics.supersteps), statistics.settled


@functools.cache
def exact_trace(algorithm, graph_name, features, supersteps):
    """Return the outputs after each of a number of supersteps, with tolerance 0."""
    graph, inputs = problem(algorithm, graph_name, features)
    run = ReferenceRun(program(algorithm), graph, features)
    run.reset(exactly(inputs))
    found = []
    for _ in range(supersteps):
        run.run(1)
        found.append({name: run.values(name) for name in program(algorithm).outputs})
    return found


def outputs_of(engine, program):
    """Return all outputs of a program."""
    return {name: engine.values(name) for name in program.outputs}
