"""Libraries as engines: their packages, the functions that solve a problem, phases, and LIBMF's C interface."""

from __future__ import annotations

import importlib.util
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from engines.libraries import libmf_object, library_engine, onyx_engines
from engines.libraries.libmf_engine import LEAST_RATINGS, LibmfEngine
from engines.libraries.libmf_object import Libmf, nodes, object_path
from engines.libraries.schedules import LibmfSchedule
from engines.libraries.surprise_engine import SurpriseEngine
from harness.algorithms.recognition_of_sgd import recognised_sgd
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import Device, EngineFailure, Phases
from harness.emulation.compiler import COMPILER, unavailable
from harness.graph import Graph
from harness.language import trace
from tests.engines.problems import new_engine, problem, program
from tests.engines.test_solvers import SOLVERS

PEERS, SGD = "pip install 'onyx-harness[peers]'", "pip install 'onyx-harness[sgd]'"
PACKAGES = {  # modules, devices, and the command that installs them
    "scipy": (("scipy",), ("cpu",), ""), "scipy_graph": (("scipy",), ("cpu",), ""),
    "krylov": (("scipy",), ("cpu",), ""), "networkit": (("networkit",), ("cpu",), PEERS),
    "scikit_network": (("sknetwork",), ("cpu",), PEERS), "networkx": (("networkx",), ("cpu",), PEERS),
    "igraph": (("igraph",), ("cpu",), PEERS), "graphblas": (("graphblas",), ("cpu",), PEERS),
    "cusparse": (("cupy",), ("cuda",), "pip install 'onyx-harness[cuda13]'"),
    "torch": (("torch",), ("cpu", "cuda"), "pip install 'onyx-harness[torch]'"),
    "libmf": (("libmf",), ("cpu",), f"CXXFLAGS='-O3 -march=native -DUSEAVX' {SGD}"),
    "surprise": (("surprise",), ("cpu",), SGD),
}  # fmt: skip
PATHS = {"bfs": ("spsp", "one_by_one"), "sssp": ("spsp", "one_by_one")}
WAYS = {
    "scipy_graph": {"bfs": ("breadth_first_order", "dijkstra"), "sssp": ("dijkstra",), "components": ("components",)},
    "networkit": PATHS | {
        "components": ("components", "parallel_components"), "kcore": ("cores",), "pagerank": ("pagerank",),
    },
    "scikit_network": {
        "bfs": ("distances",), "components": ("components",), "kcore": ("cores",), "pagerank": ("RH", "piteration"),
    },
    "networkx": {
        "bfs": ("levels",), "sssp": ("dijkstra",), "components": ("components",), "kcore": ("k_core",),
        "pagerank": ("pagerank",),
    },
    "igraph": {
        "bfs": ("distances", "bfs"), "sssp": ("distances",), "components": ("components",), "kcore": ("coreness",),
        "pagerank": ("prpack",),
    },
    "graphblas": {
        "bfs": ("together", "one_by_one"), "sssp": ("together", "one_by_one"), "components": ("fast_sv",),
        "kcore": ("peeling",), "pagerank": ("power",),
    },
}  # fmt: skip


def test_every_library_names_its_module_its_devices_and_the_command_that_installs_it():
    found = {spec.name: (tuple(spec.requires), tuple(spec.devices), spec.install) for spec in onyx_engines()}
    assert found == PACKAGES


def test_the_functions_that_solve_each_problem():
    own = {name: cls.ways for name, cls in SOLVERS.items() if name != "krylov"}
    assert {name: {kind: tuple(ways) for kind, ways in one.items()} for name, one in own.items()} == WAYS
    for name, kinds in WAYS.items():
        assert set(SOLVERS[name].every_way) == {way for ways in kinds.values() for way in ways}
    assert set(SOLVERS["krylov"].every_way) == {"bicgstab", "cg", "cgs", "gmres", "tfqmr"}


@pytest.mark.parametrize("name", ["scipy_graph", "igraph"])
def test_import_and_conversion_are_phases_and_closing_releases_the_graph(name):
    engine, phases = new_engine(name), Phases()
    graph, inputs = problem("components", "grid", 1)
    engine.prepare(program("components"), graph, 1, Device(threads=1), phases)
    assert set(phases.seconds) == {"load", "transform"}
    engine.reset(inputs)
    engine.run(1)
    assert {"network", "_case"} <= vars(engine).keys()
    engine.close()
    assert not {"network", "_case"} & vars(engine).keys()
    engine.close()


def test_fast_sv_hooks_and_jumps_so_that_a_long_chain_takes_few_products():
    pytest.importorskip("graphblas")
    count = 512
    order = np.random.default_rng(1).permutation(count)
    graph = Graph.from_edges(
        np.concatenate([order[:-1], order[1:]]),
        np.concatenate([order[1:], order[:-1]]),
        num_vertices=count,
        name="chain",
    )
    engine, products = new_engine("graphblas"), []
    engine.prepare(program("components"), graph, 1, Device(threads=1), Phases())
    network, own = engine.network, np.arange(count, dtype=np.float64)
    engine.network = type("Counted", (), {"__matmul__": lambda _, values: products.append(1) or network @ values})()
    assert not engine.fast_sv(SimpleNamespace(own=own))().any()
    assert len(products) <= 14, "about log2 of the vertices; the labels of neighbours alone would take hundreds"


# what engines share ---------------------------------------------------------------------------------------------------
def test_the_matrix_of_a_graph_has_each_edge_once_the_shortest_or_their_number():
    source, target = [0, 0, 0, 2, 2, 3], [1, 1, 3, 2, 2, 0]
    lengths = [4.0, 2.0, 1.0, 7.0, 9.0, 3.0]
    graph = Graph.from_edges(source, target, num_vertices=5, weights=lengths, name="few", duplicates="keep")
    wanted = {"sssp": np.zeros((5, 5)), "bfs": np.zeros((5, 5))}
    for one, other, length in zip(source, target, lengths, strict=True):
        wanted["bfs"][one, other] += 1
        before = wanted["sssp"][one, other]
        wanted["sssp"][one, other] = min(before, length) if before else length
    for kind in ("sssp", "bfs", "components", "pagerank"):
        found = library_engine.matrix_of(graph, kind)
        assert (found.shape, found.nnz, found.dtype) == ((5, 5), 4, np.float64)
        np.testing.assert_array_equal(found.toarray(), wanted["sssp" if kind == "sssp" else "bfs"])
    empty = library_engine.matrix_of(Graph.from_edges([], [], num_vertices=3, name="none"), "sssp")
    assert (empty.shape, empty.nnz) == ((3, 3), 0)


def test_labels_are_the_least_of_a_component():
    found = library_engine.least_labels(np.array([2, 0, 2, 0, 1]), np.array([5.0, 7.0, 3.0, 8.0, 0.0]))
    assert found.tolist() == [3.0, 7.0, 3.0, 7.0, 0.0]
    assert library_engine.least_labels(np.empty(0), np.empty(0)).shape == (0,)
    assert library_engine.columns([[1, 2, 3], np.array([4, 5, 6])]).tolist() == [[1, 4], [2, 5], [3, 6]]


# LIBMF ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("count", "taken"), [(LEAST_RATINGS - 1, False), (LEAST_RATINGS, True)])
def test_libmf_takes_so_many_ratings_and_no_fewer(count, taken):
    options = {"rates": "twin", "normalise": "deviation", "conflicts": "lossy"}
    posed = recognised_sgd(trace(SGDMatrixFactorisation(alpha=0.1, epochs=4, **options)))
    reason = LibmfEngine(LibmfSchedule()).refused(posed, SimpleNamespace(num_edges=count), 3)
    assert (reason == "") == taken
    assert taken or f"{LEAST_RATINGS:,} ratings" in reason


@pytest.mark.parametrize("engine", [LibmfEngine, SurpriseEngine])
def test_engines_of_ratings_have_phases_and_release_what_they_keep(engine, monkeypatch):
    made = engine(LibmfSchedule())
    monkeypatch.setattr(engine, "load", lambda self: None)
    given = Graph.from_edges(
        [0, 0, 1], [3, 4, 4], num_vertices=6, weights=[1.0, 5.0, 2.0], name="few", bipartite=(3, 3)
    )
    algorithm = SGDMatrixFactorisation(alpha=0.1, epochs=4, rates="twin", normalise="deviation", conflicts="lossy")
    if engine is SurpriseEngine:
        algorithm = SGDMatrixFactorisation(alpha=0.1, epochs=4)
    monkeypatch.setattr("engines.libraries.libmf_engine.LEAST_RATINGS", 1)
    phases = Phases()
    made.prepare(trace(algorithm), algorithm.prepare_graph(given), 2, Device(threads=1), phases)
    assert set(phases.seconds) == {"load", "transform"}
    made.ratings = made.trained = made.start = made.answer = {"x": np.ones(2)}
    kept = {LibmfEngine: {"graph", "start", "ratings", "ends", "trained"}, SurpriseEngine: {
        "graph", "start", "ratings", "answer", "users", "items",
    }}[engine]  # fmt: skip
    assert kept <= vars(made).keys()
    made.close()
    assert not kept & vars(made).keys()
    made.close()


@pytest.mark.parametrize("origin", [None, "nowhere"])
def test_a_package_without_a_shared_object_is_named(monkeypatch, tmp_path, origin):
    monkeypatch.delenv("LIBMF_OBJ", raising=False)
    path = None if origin is None else str(tmp_path / "libmf" / "__init__.py")
    for found in (None, SimpleNamespace(origin=path)):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, found=found: found)
        with pytest.raises(
            EngineFailure, match="has no shared object in (None|/.*); install it again, or set LIBMF_OBJ"
        ):
            object_path()
    if path:
        (tmp_path / "libmf.cpython.so").touch()
        assert object_path() == tmp_path / "libmf.cpython.so"


# The structures of LIBMF's mf.h (version 0.9.2 of the package), and functions that show what they are given.
SOURCE = """
struct node { int u, v; float r; };
struct problem { int m, n; long long nnz; node* R; };
struct parameter {
    int fun, k, nr_threads, nr_bins, nr_iters;
    float lambda_p1, lambda_p2, lambda_q1, lambda_q2, eta;
    bool do_nmf, quiet, copy_data;
};
struct model { int fun, m, n, k; float b; float *P, *Q; };
extern "C" int destroyed = 0;
extern "C" parameter mf_get_default_param() { return {0, DEFAULTS, 0, 0.1f, 0, 0.1f, 0.1f, false, false, true}; }
extern "C" model* mf_train(const problem* given, parameter p)
{
    if (p.nr_bins == 0) return nullptr;
    float *users = new float[given->m * p.k](), *items = new float[given->n * p.k]();
    model* made = new model{p.fun, given->m, given->n, p.k, 0.5f, users, items};
    const int whole[] = {p.fun, p.k, p.nr_threads, p.nr_bins, p.nr_iters,
                         p.do_nmf, p.quiet, p.copy_data, int(given->nnz)};
    const float real[] = {p.lambda_p1, p.lambda_p2, p.lambda_q1, p.lambda_q2, p.eta};
    for (int i = 0; i < 9; ++i) users[i] = whole[i];
    for (int i = 0; i < 5; ++i) users[9 + i] = real[i];
    for (int i = 0; i < given->nnz; ++i) items[given->R[i].v * p.k + given->R[i].u] = given->R[i].r;
    return made;
}
extern "C" void mf_destroy_model(model** made) { ++destroyed; delete[] (*made)->P; delete[] (*made)->Q; delete *made; }
"""


@pytest.fixture(scope="module", params=["8, 12, 20, 20", "8, 12, 20, 30"], ids=["this version", "another"])
def shared_object(request, tmp_path_factory):
    """Return a shared object with LIBMF's interface, and whether its defaults are those of the known version."""
    if unavailable():
        pytest.skip(unavailable())
    folder = tmp_path_factory.mktemp("libmf")
    (folder / "mf.cpp").write_text(SOURCE.replace("DEFAULTS", request.param))
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", folder / "libmf.so", folder / "mf.cpp"], check=True)
    return folder / "libmf.so", request.param.endswith(" 20")


def test_libmf_gets_ratings_and_parameters_as_its_header_declares_them(shared_object):
    path, known = shared_object
    if not known:
        with pytest.raises(EngineFailure, match="other parameters than LIBMF of the package"):
            Libmf(path)
        return
    made = Libmf(path)
    ratings = nodes(np.array([0, 1, 1]), np.array([3, 0, 2]), np.array([1.5, -2.0, 4.0], np.float32))
    given = {"rate": 0.25, "lam": 0.125, "threads": 3, "bins": 7}
    factors = made.train(ratings, (2, 4), 16, 9, **given)
    found = factors.read()
    assert (found.shape, found.dtype) == ((6, 16), np.float32)
    assert found[0, :14].tolist() == [0, 16, 3, 7, 9, False, True, True, 3, 0.0, 0.125, 0.0, 0.125, 0.25]
    items = np.zeros((4, 16))
    items[3, 0], items[0, 1], items[2, 1] = 1.5, -2.0, 4.0
    np.testing.assert_array_equal(found[2:], items)
    destroyed = libmf_object.ctypes.c_int.in_dll(made._functions, "destroyed")
    assert destroyed.value == 0
    del factors
    assert destroyed.value == 1
    with pytest.raises(EngineFailure, match="refused its parameters"):
        made.train(ratings, (2, 4), 16, 9, **{**given, "bins": 0})
