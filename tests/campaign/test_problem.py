"""A mistake of an algorithm's author is an error of the input, reported with the author's line."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from harness.campaign import application, inputs_cache
from harness.campaign.child_report import ChildReport
from harness.campaign.problem import limits_of, set_problem
from harness.contract import AlgorithmSpec, Device, GraphSpec, Phases
from harness.language import MOST_FEATURES, Algorithm, Inputs, InvalidInput, K, LanguageError

VERTICES = 12
MADE = []  # the scales of inputs that were made


class Sound(Algorithm):
    """Sums over in-edges."""

    name = "sound"

    def build(self, p):
        p.vertex("seed", K, nonnegative=True)
        p.vertex("x", K, start="seed")

        @p.over_edges(into="total", reduce="sum")
        def gather(src):
            return src.x

        @p.over_vertices
        def settle(v):
            return {"x": self.step(v)}

        p.repeat(2)
        p.output("x", bound=1e-4)

    def step(self, v):
        return v.total

    def inputs(self, graph, features):
        return Inputs({"seed": np.ones((graph.num_vertices, features), np.float32)})


class Scaled(Sound):
    """Sums over in-edges, from a start that the parameter gives."""

    scale: float = 1.0

    def inputs(self, graph, features):
        MADE.append(self.scale)
        seed = self.scale * np.arange(graph.num_vertices * features, dtype=np.float32)
        return Inputs({"seed": seed.reshape(graph.num_vertices, features)})


class Reversed(Scaled):
    def inputs(self, graph, features):
        return Inputs({"seed": super().inputs(graph, features).properties["seed"][::-1].copy()})


class Transposed(Sound):
    def inputs(self, graph, features):
        return Inputs({"seed": np.ones((features, graph.num_vertices), np.float32)})


class Absent(Sound):
    def inputs(self, graph, features):
        return Inputs({"seeds": np.ones((graph.num_vertices, features), np.float32)})


class Words(Sound):
    def inputs(self, graph, features):
        return Inputs({"seed": np.full((graph.num_vertices, features), "one")})


class NotANumber(Sound):
    def inputs(self, graph, features):
        return Inputs({"seed": np.full((graph.num_vertices, features), np.nan, np.float32)})


class Negative(Sound):
    def inputs(self, graph, features):
        return Inputs({"seed": -np.ones((graph.num_vertices, features), np.float32)})


class Mapping(Sound):
    def inputs(self, graph, features):
        return {"seed": np.ones((graph.num_vertices, features), np.float32)}


class Raises(Sound):
    def inputs(self, graph, features):
        return Inputs({"seed": graph.vertex_data["no such data"]})  # the author's line


class Unprepared(Sound):
    def prepare_graph(self, graph):
        return graph.without_loops()  # the author's line


class Sine(Sound):
    def step(self, v):
        return np.sin(v.total)  # the author's line


class Misspelt(Sound):
    def step(self, v):
        return undefined_name  # noqa: F821  # the author's line


class Suggests(Sound):
    def default_features(self, graph):
        return MOST_FEATURES + 1


def posed(algorithm, features=3, max_supersteps=None, *, columns=4, make_again=False, **parameters):
    """Return the problem of an algorithm of this file on a small grid."""
    spec = AlgorithmSpec("mine", "", f"{__name__}:{algorithm.__name__}")
    graph = GraphSpec("grid", "", "harness.graph.catalogue:grid", {"rows": 3, "columns": 4, "removed": 0.0})
    registry = SimpleNamespace(graph=lambda name: graph, algorithm=lambda name: spec)
    cell = SimpleNamespace(
        graph="grid", graph_parameters={"columns": columns}, algorithm=algorithm.__name__, parameters=parameters,
        features=features, max_supersteps=max_supersteps, engine="", schedule={}, device=Device("cpu"), sources="",
    )  # fmt: skip
    return set_problem(cell, registry, ChildReport(io.BytesIO()), Phases(), make_again=make_again)


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (Transposed, r"input 'seed' has shape \(3, 12\); the program needs \(12, 3\)"),
        (Absent, r"input 'seed' .* was not given"),
        (Words, r"input 'seed' is <U3; the program needs float"),
        (NotANumber, "input 'seed' contains NaN"),
        (Negative, "input 'seed' must be nonnegative"),
        (Mapping, r"inputs\(\) of sound returned dict; it must return Inputs"),
        (Raises, r"sound\.inputs raised KeyError: 'no such data'"),
        (Unprepared, r"sound\.prepare_graph raised AttributeError: .*without_loops"),
    ],
)
def test_wrong_inputs_name_the_property_before_any_engine_sees_them(algorithm, message):
    with pytest.raises(InvalidInput, match=message) as met:
        posed(algorithm)
    if algorithm in (Raises, Unprepared):
        assert __file__ in str(met.value)
        assert "the author's line" in str(met.value)


def test_a_function_of_numpy_is_refused_at_the_author_s_line():
    with pytest.raises(LanguageError) as met:
        posed(Sine)
    assert "NumPy's sin cannot take a traced value" in met.value.message
    assert "absolute, all_features, any_feature, dot, exp" in met.value.message
    assert met.value.where.text == "return np.sin(v.total)  # the author's line"


def test_any_exception_of_build_is_reported_at_the_authors_line():
    with pytest.raises(LanguageError, match=r"sound\.build raised NameError: name 'undefined_name'") as met:
        posed(Misspelt)
    assert met.value.where.text.endswith("# the author's line")


def test_there_is_one_limit_of_features(capsys):
    with pytest.raises(
        InvalidInput, match=f"suggests features={MOST_FEATURES + 1}; a program has 1 to {MOST_FEATURES}"
    ):
        posed(Suggests, features=None)
    for engine in ("scipy", "onyx"):
        command = [f"engine={engine}", "graph=grid", "algorithm=pagerank", f"features=1,{MOST_FEATURES + 1}"]
        assert application.main(command) == 2
        assert f"features is 257; a program has 1 to {MOST_FEATURES} on every engine" in capsys.readouterr().err
    assert application.main(["features=[1,2]"]) == 2
    assert "to sweep, write features=1,2 without brackets" in capsys.readouterr().err


class OfEveryPlace(Sound):
    """Properties of vertices, edges and the graph, scalars, vectors and matrices."""

    def build(self, p):
        p.vertex("seed", K)
        p.vertex("square", (K, K), start=0.0)
        p.vertex("x", K, start="seed")
        p.edge("flow", start=0.0)

        @p.over_edges(into="total", reduce="sum")
        def gather(src):
            return src.x

        @p.over_vertices
        def settle(v):
            return {"x": v.total, "square": v.square + 1.0}

        @p.over_edges(updates="flow")
        def update(edge):
            return edge.flow + 1.0

        @p.over_graph(into="sum", reduce="sum")
        def add(v):
            return v.x

        p.repeat(2)
        p.output("x", bound=1e-4)
        p.output("flow", bound=1e-4)


def test_bytes_are_those_of_the_places_and_shapes_of_properties():
    problem = posed(OfEveryPlace, features=3)
    edges = problem.graph.num_edges
    assert edges not in (VERTICES, 2 * VERTICES)
    assert problem.answer_bytes == 4 * (3 * VERTICES + edges)
    own = 3 * 3 * VERTICES + 9 * VERTICES + edges + 3  # seed, x, total; square; flow; sum
    assert problem.state_bytes == 4 * (own + 3 * VERTICES + 2)  # with degrees and numbers of vertices and edges
    assert problem.validated == ("x", "flow")
    by_residual = replace(problem, by_residual=True)
    assert set(by_residual.validated) == {"x", "flow", "square"}
    assert by_residual.answer_bytes == problem.answer_bytes + 4 * 9 * VERTICES


class Three(Algorithm):
    """Three phases, of which the first and the last can settle."""

    name = "three"

    def build(self, p):
        p.vertex("seed")
        self.phase(p, "seed", "a").until_settled(at_most=9)
        p.output("a", bound=1e-4)
        p.then()
        self.phase(p, "a", "b").repeat(2)
        p.output("b", bound=1e-4)
        p.then()
        self.phase(p, "b", "c").until_settled(at_most=9)
        p.output("c", bound=1e-4)

    def phase(self, p, start, name):
        p.vertex(name, start=start)
        p.over_edges(into=f"total_{name}", reduce="sum")(lambda src: getattr(src, name))
        p.over_vertices(lambda v: {name: 0.1 * getattr(v, f"total_{name}")})
        return p

    def inputs(self, graph, features):
        return Inputs({"seed": np.ones(graph.num_vertices, np.float32)})


@pytest.mark.parametrize(("settled", "unsettled"), [((True, False), False), ((False, False), True),
                                                    ((False, True), True), ((True, True), False)])  # fmt: skip
def test_a_phase_that_did_not_settle_is_known_to_all_after_it(settled, unsettled):
    problem = posed(Three)
    assert (problem.unsettled, problem.several_phases, len(problem.later)) == (False, True, 2)
    keys = [problem.key]
    for phase, (name, done) in enumerate(zip("ab", settled, strict=True)):
        values = {name: np.full(VERTICES, phase + 0.5, np.float32)}
        other = problem.after({name: values[name] + 1}, settled=done)
        problem = problem.after(values, settled=done)
        np.testing.assert_array_equal(problem.inputs.properties[name], values[name])
        keys += [problem.key, other.key]
    assert problem.unsettled is unsettled
    assert (problem.later, problem.several_phases, set(problem.carried)) == ((), True, {"a", "b"})
    assert len(set(keys)) == len(keys), "the key depends on the outputs of the phase before"


@pytest.mark.parametrize(
    ("phases", "given", "limits"),
    [
        ([20], None, [20]), ([20], 3, [3]), ([20], 50, [50]), ([9, 2, 9], None, [9, 2, 9]), ([9, 2, 9], 5, [5, 2, 5]),
        ([9, 2, 9], 50, [9, 2, 9]),
    ],
)  # fmt: skip
def test_a_limit_replaces_that_of_one_phase_and_lowers_those_of_several(phases, given, limits):
    programs = [SimpleNamespace(max_supersteps=most, earlier=None) for most in phases]
    program = programs[-1]
    program.phases, program.earlier = programs, programs[0] if len(programs) > 1 else None
    assert limits_of(program, given) == limits


def test_the_bound_and_the_limit_on_record_are_those_of_all_phases():
    problem = posed(Three)
    assert problem.record_fields["program"] == {
        "fingerprint": problem.later[-1].fingerprint, "bound": 1e-4, "max_supersteps": 9 + 2 + 9,
    }  # fmt: skip
    assert (problem.max_supersteps, [phase.max_supersteps for phase in problem.later]) == (9, [2, 9])
    graph = problem.record_fields["graph"]
    assert (graph["vertices"], graph["edges"]) == (problem.graph.num_vertices, problem.graph.num_edges)
    assert (graph["name"], graph["content_hash"]) == (problem.graph.name, problem.given.content_hash)


def test_the_key_of_a_problem_is_that_of_its_answer():
    """It depends on features, the limit, inputs and the algorithm; not on how the problem is run."""
    first = posed(OfEveryPlace, features=3)
    assert posed(OfEveryPlace, features=3).key == first.key
    others = [posed(OfEveryPlace, features=2), posed(OfEveryPlace, features=3, max_supersteps=1), posed(Sound)]
    assert len({first.key, *(one.key for one in others)}) == 4


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        (Scaled, {"features": 1}), (Scaled, {"features": 6}), (Scaled, {"features": 6, "columns": 2}),
        (Scaled, {"columns": 5}), (Scaled, {"scale": 2.0}), (Reversed, {}),
    ],
)  # fmt: skip
def test_inputs_are_shared_by_the_cells_of_one_problem_only(algorithm, changes, tmp_path, monkeypatch):
    """Inputs that are stored are those that the algorithm makes for this graph, these features and parameters."""
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(inputs_cache, "LEAST_S", 0.0)
    MADE.clear()
    first, again = posed(Scaled), posed(Scaled, max_supersteps=1)
    np.testing.assert_array_equal(first.inputs.properties["seed"], again.inputs.properties["seed"])
    assert len(MADE) == 1, "they are stored"
    stored, made = (posed(algorithm, **changes, make_again=again) for again in (False, True))
    np.testing.assert_array_equal(stored.inputs.properties["seed"], made.inputs.properties["seed"], strict=True)
    assert stored.key == made.key != first.key


def test_an_algorithm_without_a_natural_number_of_features_has_one_unless_told_otherwise():
    assert posed(Sound, features=None).features == 1
    assert posed(Sound, features=2).features == 2
