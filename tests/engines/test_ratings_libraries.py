"""LIBMF and Surprise: what they recognise and refuse, and their answers; small fakes stand in for absent packages."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from engines.libraries import libmf_engine, onyx_engines
from engines.libraries.libmf_engine import LEAST_RATINGS, LibmfEngine
from engines.libraries.libmf_object import Libmf, build_of, object_path
from engines.libraries.schedules import LibmfSchedule, SurpriseSchedule
from engines.libraries.surprise_engine import SurpriseEngine
from harness.algorithms.recognition_of_sgd import recognised_sgd
from harness.algorithms.sgd_mf import RATES, SGDMatrixFactorisation
from harness.campaign.random_orders import interval, metrics_in_random_orders
from harness.contract import Device, EngineFailure, No, Phases, Unsupported, Yes
from harness.graph import Graph
from harness.graph.generators import random_ratings
from harness.language import Inputs, trace
from harness.language.replay import replay
from harness.language.validation import compare
from tests.engines.problems import program
from tests.language.programs import program_of
from tests.language.test_edge_steps import stepping

TWIN = {"rates": "twin", "normalise": "deviation", "conflicts": "lossy"}
SUMMARIES = {spec.name: spec for spec in onyx_engines()}


def ratings(count=2500):
    return random_ratings(users=120, items=80, num_ratings=count, seed=4)


def posed(given, features, **options):
    """Return program, graph and inputs."""
    algorithm = SGDMatrixFactorisation(**{"alpha": 0.1, "epochs": 4, **options})
    graph = algorithm.prepare_graph(given)
    return trace(algorithm), graph, algorithm.inputs(graph, features)


# recognition ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("bias", ["none", "both"])
def test_every_form_of_the_algorithm_is_recognised(bias, rates):
    algorithm = SGDMatrixFactorisation(bias=bias, rates=rates, conflicts="lossy", epochs=3, lam=0.7)
    found = recognised_sgd(trace(algorithm))
    assert (found.bias, found.rates, found.conflicts, found.order) == (bias == "both", rates, "lossy", "any")
    assert found.properties["x"] == "x"
    assert found.parameters["lam"] == "lam"


def test_other_steps_in_place_are_not_recognised():
    assert recognised_sgd(program("pagerank")) is None
    assert recognised_sgd(program_of(stepping)) is None  # without regularisation


def test_a_step_that_writes_the_other_end_is_another_program():
    traced = trace(SGDMatrixFactorisation())
    (step,) = traced.stages
    other = {"src": "dst", "dst": "src"}
    swapped = replace(step, values=tuple((other[end], name, value) for end, name, value in step.values))
    assert recognised_sgd(replace(traced, stages=(step,))) is not None
    assert recognised_sgd(replace(traced, stages=(swapped,))) is None


# refusals -------------------------------------------------------------------------------------------------------------
def refusal(engine, features=3, device=None, graph=None, **options):
    traced, prepared, _ = posed(ratings(), features, **options)
    answer = engine.supports(traced, graph or prepared, features, device or Device(threads=1))
    return answer.reason if isinstance(answer, No) else ""


def test_each_library_refuses_by_name_what_its_update_is_not():
    libmf, surprise = LibmfEngine(LibmfSchedule()), SurpriseEngine(SurpriseSchedule())
    assert "the program has rates=power; give rates=twin" in refusal(libmf, conflicts="lossy")
    assert "no biases" in refusal(libmf, **TWIN, bias="both")
    assert "give order=any and conflicts=lossy" in refusal(libmf, **{**TWIN, "conflicts": "serial"})
    assert f"at least {LEAST_RATINGS:,} ratings" in refusal(libmf, **TWIN)
    assert "rates=adagrad has some for each" in refusal(surprise, rates="adagrad")
    assert refusal(surprise) == ""
    for engine in (libmf, surprise):
        assert "on the processor only" in refusal(engine, device=Device("cuda"))
        assert "bipartite" in refusal(engine, graph=Graph.from_edges([0, 1], [1, 2], name="chain", weights=[1.0, 2.0]))
        answer = engine.supports(program("pagerank"), ratings(), 1, Device())
        assert isinstance(answer, No)
        assert "no function for this program" in answer.reason


def test_missing_packages_are_named_with_their_command():
    assert "onyx-harness[sgd]" in SUMMARIES["surprise"].install
    assert "-DUSEAVX" in SUMMARIES["libmf"].install


# Surprise -------------------------------------------------------------------------------------------------------------
class FakeSVD:
    """The loop of Surprise's SVD."""

    def __init__(self, *, n_factors, n_epochs, biased, lr_all, reg_all, random_state):
        self.k, self.sweeps, self.biased, self.rate, self.lam = n_factors, n_epochs, biased, lr_all, reg_all
        self.random = random_state

    def fit(self, given):
        self.pu = self.random.normal(0.0, 0.1, size=(given.n_users, self.k))
        self.qi = self.random.normal(0.0, 0.1, size=(given.n_items, self.k))
        self.bu, self.bi = np.zeros(given.n_users), np.zeros(given.n_items)
        for _ in range(self.sweeps):
            for user, of_user in given.ur.items():
                for item, rating in of_user:
                    self._step(user, item, rating - given._global_mean * self.biased)
        return self

    def _step(self, user, item, rating):
        p, q = self.pu[user].copy(), self.qi[item].copy()
        error = rating - self.bu[user] - self.bi[item] - p @ q
        if self.biased:
            self.bu[user] += self.rate * (error - self.lam * self.bu[user])
            self.bi[item] += self.rate * (error - self.lam * self.bi[item])
        self.pu[user] += self.rate * (error * q - self.lam * p)
        self.qi[item] += self.rate * (error * p - self.lam * q)


def fake_trainset(of_users, of_items, users, items, *rest):
    return SimpleNamespace(ur=of_users, n_users=users, n_items=items, _global_mean=None)


@pytest.fixture(params=["fake", "installed"])
def surprise(request, monkeypatch):
    """Surprise, or a module with the same loop."""
    if request.param == "fake":
        monkeypatch.setitem(sys.modules, "surprise", SimpleNamespace(SVD=FakeSVD, Trainset=fake_trainset))
    else:
        pytest.importorskip("surprise", reason="engine 'surprise' needs the extra 'sgd'")
    return SurpriseEngine(SurpriseSchedule())


@pytest.mark.parametrize("options", [{}, {"beta": 0.0, "bias": "both"}, {"order": "given", "beta": 0.0}])
def test_surprise_gives_the_values_of_float64_in_the_order_that_it_tells(surprise, options):
    traced, graph, inputs = posed(ratings(), 3, **options)
    surprise.prepare(traced, graph, 3, Device(threads=1), Phases())
    surprise.reset(inputs)
    orders = [surprise.ordered_superstep() for _ in range(3)]
    exact = replay(traced, graph, 3, inputs, orders)
    found = {name: surprise.values(name) for name in traced.outputs}
    comparison = compare(traced, found, exact)
    assert comparison.ok, comparison.detail
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    surprise.reset(inputs)
    assert surprise.run(3).edges == 3 * graph.num_edges
    assert all(np.array_equal(surprise.values(name), found[name]) for name in found)
    surprise.reset(inputs)
    assert np.array_equal(surprise.values("x"), inputs.properties["initial"])


def test_surprise_refuses_rates_that_change_with_biases_and_warm_starts(surprise):
    traced, graph, inputs = posed(ratings(), 3, bias="both")
    surprise.prepare(traced, graph, 3, Device(threads=1), Phases())
    with pytest.raises(Unsupported, match="give beta=0"):
        surprise.reset(inputs)
    with pytest.raises(Unsupported, match="own start"):
        surprise.reset(inputs, {"x": inputs.properties["initial"]})


# LIBMF ----------------------------------------------------------------------------------------------------------------
class FakeLibmf:
    """Returns the number of sweeps as factors, and NaN for rows without ratings, as LIBMF does."""

    def __init__(self, path):
        self.calls = []

    def train(self, given, shape, features, sweeps, *, rate, lam, threads, bins):
        self.calls.append((sweeps, rate, lam, threads, bins))
        found = np.full((sum(shape), features), np.nan, np.float32)
        found[given["u"]] = found[shape[0] + given["v"]] = sweeps
        return SimpleNamespace(read=lambda: found)


@pytest.fixture
def fake_libmf(monkeypatch, tmp_path):
    made = tmp_path / "libmf.so"
    made.write_bytes(b"... \x86\x5a\x37\x5f ...")
    monkeypatch.setenv("LIBMF_OBJ", str(made))
    monkeypatch.setattr(libmf_engine, "Libmf", FakeLibmf)
    monkeypatch.setattr(libmf_engine, "LEAST_RATINGS", 1)
    return made


def test_libmf_runs_all_sweeps_from_the_start_with_the_programs_rate_and_lambda(fake_libmf):
    edges = [0, 0, 1], [3, 4, 4]
    given = Graph.from_edges(*edges, num_vertices=6, weights=[1.0, 5.0, 2.0], name="few", bipartite=(3, 3))
    traced, graph, inputs = posed(given, 2, **TWIN)
    engine = LibmfEngine(LibmfSchedule())
    engine.prepare(traced, graph, 2, Device(threads=2), Phases())
    start = np.full((6, 2), 0.5 / np.sqrt(2), np.float32)
    inputs = Inputs({**inputs.properties, "initial": start}, inputs.parameters)
    engine.reset(inputs)
    assert np.array_equal(engine.values("x"), start)
    assert engine.ordered_superstep() == {"step": 0.0}
    assert engine.run(3).edges == 9
    assert engine.object.calls == [(1, 0.1, 0.05, 2, 26), (4, 0.1, 0.05, 2, 26)]
    rows = engine.values("x")[:, 0].tolist()
    assert [rows[v] for v in (0, 1, 3, 4)] == [4.0] * 4
    assert [rows[v] for v in (2, 5)] == pytest.approx([0.5 / np.sqrt(2)] * 2)  # without ratings
    assert engine.resolved_options() == {"build": "scalar", "bins": 26}
    assert "-DUSEAVX" in engine.explain()


def test_libmf_refuses_another_scale_and_another_start(fake_libmf):
    engine = LibmfEngine(LibmfSchedule())
    for normalise, message in (("centre", "standard deviation, here"), ("deviation", "from its own factors")):
        traced, graph, inputs = posed(ratings(), 3, **{**TWIN, "normalise": normalise})
        engine.prepare(traced, graph, 3, Device(threads=1), Phases())
        given = Inputs({**inputs.properties, "initial": inputs.properties["initial"] - 0.2}, inputs.parameters)
        with pytest.raises(Unsupported, match=message):
            engine.reset(given)


def test_the_build_of_libmf_is_recorded_and_can_be_required(fake_libmf):
    assert object_path() == fake_libmf
    assert build_of(fake_libmf) == "scalar"
    traced, graph, _ = posed(ratings(), 3, **TWIN)
    with pytest.raises(Unsupported, match="is a scalar build; install: CXXFLAGS="):
        LibmfEngine(LibmfSchedule(build="vector")).prepare(traced, graph, 3, Device(threads=1), Phases())
    fake_libmf.write_bytes(b"another")
    assert build_of(fake_libmf) == "vector"


def test_a_file_that_is_not_libmf_is_refused(tmp_path):
    (tmp_path / "other.so").write_bytes(b"no")
    with pytest.raises(EngineFailure, match="is not LIBMF's shared object"):
        Libmf(tmp_path / "other.so")


def test_the_metrics_of_libmf_are_those_of_its_program_in_random_orders():
    pytest.importorskip("libmf", reason="engine 'libmf' needs the extra 'sgd'")
    given = random_ratings(users=3000, items=400, num_ratings=LEAST_RATINGS + 10_000, seed=4)
    algorithm = SGDMatrixFactorisation(alpha=0.1, epochs=3, holdout=0.1, **TWIN)
    graph = algorithm.prepare_graph(given)
    traced, inputs = trace(algorithm), algorithm.inputs(graph, 16)
    engine = LibmfEngine(LibmfSchedule())
    assert isinstance(engine.supports(traced, graph, 16, Device(threads=1)), Yes)
    engine.prepare(traced, graph, 16, Device(threads=1), Phases())
    engine.reset(inputs)
    engine.run(3)
    found = algorithm.metrics(given, {"x": engine.values("x")})
    problem = SimpleNamespace(
        algorithm=algorithm, program=traced, given=given, graph=graph, inputs=inputs, features=16, max_supersteps=3
    )
    for name, runs in metrics_in_random_orders(problem).values.items():
        _, low, high = interval(runs[:, -1], SGDMatrixFactorisation.interval_slack)
        assert low <= found[name] <= high, name
    engine.close()


# the rates of LIBMF ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("features", [3, 8, 20])
def test_twin_rates_are_those_of_libmfs_scalar_loop(features):
    """The update of ``sg_update`` in LIBMF's source, for the first 8 features and the padded rest."""
    traced, graph, inputs = posed(ratings(300), features, **TWIN)
    padded = -(-features // 8) * 8
    x = np.zeros((graph.num_vertices, padded))
    x[:, :features] = inputs.properties["initial"]
    sums = np.ones((graph.num_vertices, 2))
    rating = inputs.properties["rating"].astype(np.float64)
    order = np.random.default_rng(1).permutation(graph.num_edges)
    for sweep in range(2):
        for e in order:
            u, v = graph.csr.row_of_edge[e], graph.csr.neighbours[e]
            z = rating[e] - x[u] @ x[v]
            for part, (first, last) in enumerate([(0, 8), (8, padded)]):
                if part == 1 and (sweep == 0 or first == last):
                    continue
                rows = [x[u, first:last].copy(), x[v, first:last].copy()]
                down = [0.05 * own - z * other for own, other in (rows, rows[::-1])]
                for w, gradient in zip((u, v), down, strict=True):
                    x[w, first:last] -= 0.1 / np.sqrt(sums[w, part]) * gradient
                    sums[w, part] += (gradient**2).sum() / (last - first)
    exact = replay(traced, graph, features, inputs, [{"step": order}] * 2)
    np.testing.assert_allclose(exact["x"], x[:, :features], rtol=1e-6, atol=1e-9)
