"""The allowance of each entry of an answer: enough for right float32 programs, and at most a few times that."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.graph import Graph
from harness.graph.generators import grid, rmat
from harness.language import Inputs, trace
from harness.language.converged import FIXED_POINT, METHOD, answer_at_limit, fixed_point
from harness.language.criterion import PROPAGATED_SHARE
from harness.language.evaluation import Evaluator
from harness.language.reference import ReferenceRun
from harness.language.residual import distances
from harness.language.rounding import UNIT
from harness.language.validation import compare
from tests.covering import covering
from tests.language.programs import program_of

LEAVES = 20_000


class Float32Run(ReferenceRun):
    """A plain float32 program: sums over in-edges are added one after another."""

    def reset(self, inputs, state=None):
        """Set every property to its initial value, or to ``state``, in float32."""
        super().reset(inputs, state)
        for name, values in self._value.items():
            if values.dtype != np.bool_:
                self._value[name] = values.astype(np.float32)

    def _evaluates(self, read, without=None, at=None):
        return Evaluator(read, self._parameters, self.features, np.float32, without, at=at)

    def _reduced(self, messages, offsets, reducer):
        if reducer != "sum":
            return super()._reduced(messages, offsets, reducer)
        terms = np.asarray(messages, np.float32).reshape(len(messages), -1)  # NumPy would sum pairwise
        ones = csr_array(
            (np.ones(len(terms), np.float32), np.arange(len(terms)), offsets), shape=(len(offsets) - 1, len(terms))
        )
        return np.asarray((ones @ terms).reshape(-1, *messages.shape[1:]))

    def _reduce_graph(self, stage):
        super()._reduce_graph(stage)
        self._value[stage.into] = self._value[stage.into].astype(np.float32)


class LaggingRun(ReferenceRun):
    """Stores messages as change-driven engines do.

    A message is stored if an entry has moved by more than the tolerance, or, relative to its new value, by more than a
    quarter of the tolerance divided by the number of factors.
    """

    def _update_edges(self, stage):
        old = self._value[stage.updates]
        super()._update_edges(stage)
        new, count = self._value[stage.updates], np.empty((self.graph.num_edges, 1))
        count[self._edge, 0] = self.graph.in_degrees[self._destinations]
        tolerance, moved = self._parameters["tolerance"], np.abs(new - old)
        far = (moved > tolerance) | (moved > PROPAGATED_SHARE * tolerance / count * np.abs(new))
        self._value[stage.updates] = np.where(far.any(axis=1, keepdims=True), new, old)


def ranks_of_a_path(both):
    """Return PageRank's program, the ranks of a long path from a linear solver, and the expected answer."""
    vertices, features = 400, 2
    first = np.arange(vertices - 1)
    ends = (np.r_[first, first + 1], np.r_[first + 1, first]) if both else (first, first + 1)
    graph = Graph.from_edges(*ends, num_vertices=vertices, name="path")
    algorithm = PageRank(personalise="vertices")
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    teleport, degrees = inputs.properties["teleport"].astype(float), np.diff(graph.csr.offsets)
    sources, alpha = graph.csr.row_of_edge, algorithm.alpha
    share = np.zeros((vertices, vertices))
    np.add.at(share, (graph.csr.neighbours, sources), 1 / degrees[sources])
    ranks = [
        np.linalg.solve(np.eye(vertices) - alpha * (share + np.outer(start, degrees == 0)), (1 - alpha) * start)
        for start in teleport.T
    ]
    return program, np.stack(ranks, 1), fixed_point(program, graph, features, inputs, algorithm.supersteps)


@pytest.mark.parametrize("both", [True, False], ids=["undirected", "directed"])
def test_a_solver_that_goes_on_is_right_where_supersteps_reach_nothing(both):
    """Ranks of distant vertices are small, and not zero."""
    program, ranks, answer = ranks_of_a_path(both)
    found = compare(program, {"rank": ranks.astype(np.float32)}, answer.values, answer.allowances)
    assert found.ok, found.detail


@pytest.mark.parametrize(("part", "right"), [(0.0, True), (5e-7, True), (1e-5, False)])
def test_small_values_may_be_off_by_a_negligible_part_of_the_mean(part, right):
    program, ranks, answer = ranks_of_a_path(both=True)
    smallest = ranks.max(axis=1).argmin()
    assert (ranks[smallest] < 1e-12).all()
    ranks[smallest] += part * ranks.mean(axis=0)
    assert compare(program, {"rank": ranks.astype(np.float32)}, answer.values, answer.allowances).ok is right


def posed(algorithm, graph, features):
    """Return the program, the graph that it runs on, the number of features and the inputs."""
    graph = algorithm.prepare_graph(graph)
    return trace(algorithm), graph, features, algorithm.inputs(graph, features)


def answer_for(question):
    limited = *question, question[0].max_supersteps
    return fixed_point(*limited) or answer_at_limit(*limited)


def outputs(run, inputs, program):
    run.reset(inputs)
    statistics = run.run(program.max_supersteps)
    return {name: run.values(name) for name in program.outputs}, statistics


def star():
    """Return a hub with edges from all of its leaves."""
    leaves = np.arange(1, LEAVES + 1)
    return Graph.from_edges(leaves, np.zeros(LEAVES, np.int64), num_vertices=LEAVES + 1, name="star")


def long_path(count=3000):
    source = np.arange(count - 1)
    return Graph.from_edges(
        source, source + 1, weights=np.full(count - 1, 0.1, np.float32), num_vertices=count, name="path"
    )


# shortest paths ------------------------------------------------------------------------------------------------------
def test_a_path_is_allowed_one_rounding_per_edge():
    graph, algorithm = long_path(), SSSP(sources="0")
    program, answer = trace(algorithm), algorithm.settled_answer(graph, 1)
    right = np.add.accumulate(np.append(np.float32(0), graph.weights), dtype=np.float32)[:, None]
    off = np.abs(right[:, 0] / np.maximum(answer.values["distance"][:, 0], 0.1) - 1).max()
    assert off > 1e-5  # more than any bound for short paths
    assert compare(program, {"distance": right}, answer.values, answer.allowances).ok
    entries = answer.allowances["distance"].entries[:, 0]
    edges = np.arange(1, len(entries))
    relative = entries[1:] / answer.values["distance"][1:, 0]
    assert (relative <= 2.01 * edges * UNIT).all()
    assert relative[0] <= 4 * UNIT
    for place in (20, 300, 2999):
        wrong = answer.values["distance"].copy()
        wrong[place] += 3 * max(entries[place], 16 * UNIT * wrong[place, 0])
        found = compare(program, {"distance": wrong}, answer.values, answer.allowances)
        assert f"distance of vertex {place} is off" in found.detail


def test_edges_of_length_zero_and_ties_do_not_raise_the_allowance():
    graph = Graph.from_edges(
        [0, 0, 1, 2], [1, 2, 3, 3], weights=np.float32([0.5, 0, 0.5, 1]), num_vertices=5, name="ties"
    )
    entries = SSSP(sources="0").settled_answer(graph, 1).allowances["distance"].entries[:, 0]
    assert entries[[0, 2, 4]].tolist() == [0.0, 0.0, 0.0]
    assert 0 < entries[1] <= 2 * UNIT * 0.5
    assert 0 < entries[3] <= 4 * UNIT


# hubs ----------------------------------------------------------------------------------------------------------------
def test_a_hub_is_allowed_one_rounding_per_in_edge_and_others_a_few():
    graph = rmat(scale=10, edge_factor=8)
    into_hub = np.arange(1, graph.num_vertices)
    source = np.concatenate([graph.csr.row_of_edge, into_hub])
    destination = np.concatenate([graph.csr.neighbours, np.zeros(len(into_hub), np.int64)])
    graph = Graph.from_edges(source, destination, num_vertices=graph.num_vertices, name="hub", duplicates="min")
    question = posed(PageRank(tolerance=1e-6), graph, 1)
    answer = answer_for(question)
    relative = (answer.allowances["rank"].entries / answer.values["rank"])[:, 0]
    assert UNIT * graph.in_degrees[0] < relative[0]
    few = graph.in_degrees <= 3
    assert np.median(relative[few]) < relative[0] / 4


def test_a_sum_over_many_equal_leaves_one_after_another_is_right():
    question = program, graph, features, inputs = posed(PageRank(), star(), 1)
    answer = answer_for(question)
    values, _ = outputs(Float32Run(program, graph, features), inputs, program)
    assert abs(values["rank"][0, 0] / answer.values["rank"][0, 0] - 1) > 5e-4
    found = compare(program, values, answer.values, answer.allowances)
    assert found.ok, found.detail
    values["rank"] = answer.values["rank"] * (1 + 1e-2 * (graph.in_degrees > 0)[:, None])
    assert not compare(program, values, answer.values, answer.allowances).ok


# stopping ------------------------------------------------------------------------------------------------------------
TOLERANCES = {
    "pagerank": (PageRank(), lambda: rmat(scale=9, edge_factor=8), 3),
    "label_propagation": (LabelPropagation(), lambda: rmat(scale=9, edge_factor=8, symmetric=True), 3),
    "belief_propagation": (
        BeliefPropagation(vertices="drawn", tolerance=1e-4), lambda: grid(rows=8, columns=8), 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLERANCES)
def test_an_answer_from_ten_times_the_tolerance_is_wrong(name):
    algorithm, make, features = TOLERANCES[name]
    question = program, graph, _, inputs = posed(algorithm, make(), features)
    answer = answer_for(question)
    assert answer.method == FIXED_POINT
    right, statistics = outputs(ReferenceRun(program, graph, features), inputs, program)
    assert statistics.settled
    assert compare(program, right, answer.values, answer.allowances).ok
    looser = dataclasses.replace(
        inputs, parameters={**inputs.parameters, "tolerance": 10 * inputs.parameters["tolerance"]}
    )
    wrong, statistics = outputs(ReferenceRun(program, graph, features), looser, program)
    assert statistics.settled
    assert not compare(program, wrong, answer.values, answer.allowances).ok


def test_a_run_may_stop_where_errors_change_their_sign():
    """At some vertices of a grid, the reference is near the fixed point a few supersteps before a run stops."""
    question = program, graph, features, inputs = posed(PageRank(), grid(rows=24, columns=24), 2)
    answer = answer_for(question)
    values, statistics = outputs(ReferenceRun(program, graph, features), inputs, program)
    assert statistics.settled
    found = compare(program, values, answer.values, answer.allowances)
    assert found.ok, found.detail


SETTINGS = {"default": {}, "thesis": {"smoothness": 0.5, "tolerance": 1e-4}}
MAKERS = {"grid": lambda: grid(rows=24, columns=24), "hubs": lambda: rmat(scale=9, symmetric=True)}
EVERY_BELIEF = [
    (graph, features, supersteps, setting)
    for graph, features in (("grid", 2), ("grid", 8), ("hubs", 4), ("hubs", 8))
    for supersteps, setting in itertools.product((5, 20, 60), SETTINGS)
]
PAIRED = covering(EVERY_BELIEF, lambda row: itertools.combinations(enumerate(row), 2))


@pytest.mark.parametrize(
    ("graph_name", "features", "supersteps", "setting"),
    [pytest.param(*row, marks=() if row in PAIRED else (pytest.mark.full,)) for row in EVERY_BELIEF],
)
def test_messages_within_the_tolerance_need_not_be_stored(graph_name, features, supersteps, setting):
    algorithm = BeliefPropagation(vertices="drawn", supersteps=supersteps, **SETTINGS[setting])
    question = program, graph, _, inputs = posed(algorithm, MAKERS[graph_name](), features)
    answer = answer_for(question)
    values, _ = outputs(LaggingRun(program, graph, features), inputs, program)
    found = compare(program, values, answer.values, answer.allowances)
    assert found.ok, found.detail


def test_a_small_feature_is_not_hidden_behind_a_large_one():
    question = program, *_ = posed(PageRank(personalise="vertices", tolerance=1e-6), rmat(scale=9, edge_factor=8), 4)
    answer = answer_for(question)
    wrong = answer.values["rank"].copy()
    large = wrong[:, 0] > 0
    smaller = large & (wrong[:, 1] < 1e-3 * wrong[:, 0])
    wrong[smaller, 1] = 0.0
    wrong[:, 1] += np.where(wrong[:, 1] > 0, 0.2 * answer.allowances["rank"].entries.max(axis=1), 0.0)
    found = compare(program, {"rank": wrong}, answer.values, answer.allowances)
    assert "feature 1 of rank is off by" in found.detail
    assert "in the L1 norm over the graph" in found.detail


def test_a_run_stopped_at_its_limit_is_compared_after_equally_many_supersteps():
    question = program, graph, features, inputs = posed(PageRank(supersteps=3), rmat(scale=8, edge_factor=8), 2)
    answer = answer_for(question)
    assert answer.method == METHOD
    values, _ = outputs(Float32Run(program, graph, features), inputs, program)
    assert compare(program, values, answer.values, answer.allowances).ok
    fewer = ReferenceRun(program, graph, features)
    fewer.reset(inputs)
    fewer.run(2)
    assert not compare(program, {"rank": fewer.values("rank")}, answer.values, answer.allowances).ok


def test_the_distance_from_a_value_that_is_not_finite_is_zero():
    exact = {"x": np.array([1.0, np.inf, np.inf, 2.0])}
    found = distances(exact, {"x": np.array([np.inf, np.inf, 3.0, 2.5], np.float32)})
    assert found["x"].tolist() == [0.0, 0.0, 0.0, 0.5]


def test_a_graph_without_vertices_has_an_answer_without_rows():
    nothing = np.zeros(0, np.uint32)
    graph = Graph.from_edges(nothing, nothing, num_vertices=0, name="nothing")
    answer = fixed_point(*posed(PageRank(), graph, 1), 100)
    assert answer.values["rank"].shape == answer.allowances["rank"].entries.shape == (0, 1)


def test_outputs_that_must_be_equal_have_no_allowance():
    graph = rmat(scale=6, symmetric=True)
    for algorithm, most in ((BFS(seed=1), 2), (Components(), 100)):
        program, graph_, features, inputs = posed(algorithm, graph, 1)
        answer = answer_at_limit(program, graph_, features, inputs, most)
        assert (answer.method, dict(answer.allowances)) == (METHOD, {})
        run = ReferenceRun(program, graph_, features)
        run.reset(inputs)
        run.run(most)
        for name in program.outputs:
            assert np.array_equal(answer.values[name], run.values(name))


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.99])
def test_a_constant_error_of_every_superstep_is_allowed_as_often_as_supersteps_repeat_it(keep):
    """The fixed point of x = keep x + b is off by the error of one superstep, repeated 1 / (1 - keep) times."""

    def build(p, self):
        p.vertex("b")
        p.vertex("first")
        p.vertex("x", start="first")
        p.over_edges(into="met", reduce="sum")(lambda src: keep * src.x)
        p.over_vertices(lambda v: {"x": v.met + v.b})
        p.until_settled(self.tolerance, at_most=4000)
        p.output("x", bound=1e-3)

    ring = Graph.from_edges(np.arange(4), (np.arange(4) + 1) % 4, num_vertices=4, name="ring")
    tolerance, b = 1e-4, 1 - np.float64(np.float32(keep))
    given = {"b": np.full(4, b, np.float64), "first": np.ones(4)}  # the run begins at its fixed point
    answer = fixed_point(program_of(build, tolerance=tolerance), ring, 1, Inputs(given, {"tolerance": tolerance}), 4000)
    np.testing.assert_allclose(answer.values["x"], 1.0, rtol=1e-4)
    every = (PROPAGATED_SHARE * tolerance + 3 * UNIT) * keep
    ratio = answer.allowances["x"].entries / (every / (1 - keep))
    assert ((ratio > 1.5) & (ratio <= 2)).all()  # twice the response, up to what four supersteps add at the end
