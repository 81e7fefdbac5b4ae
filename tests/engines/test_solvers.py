"""Engines that pass the whole problem to a library: right answers by every method, refusals, and the choice."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

from engines.libraries import solving
from engines.libraries.schedules import SolverSchedule
from engines.libraries.solving import Solving
from harness.algorithms.pagerank import PageRank
from harness.algorithms.recognition import recognised
from harness.conformance.subject import load
from harness.contract import Device, Engine, EngineFailure, No, Phases, ScheduleError, Unsupported, Yes
from harness.graph import Graph
from harness.graph.generators import grid
from harness.language import Inputs, K, minimum, trace
from harness.language.affine import not_affine
from harness.language.converged import answer_at_limit, fixed_point
from harness.language.validation import compare
from tests.engines.problems import ALGORITHMS, SPECS, new_engine, outputs_of, prepared, problem, program, small
from tests.engines.programs import traced

SOLVERS = {name: load(spec.factory) for name, spec in SPECS.items() if spec.schedule is SolverSchedule}
SYSTEMS = ("pagerank", "manifold_ranking", "multimodal")
GRAPHS = ("scattered", "chain", "rmat", "one loop", "no edges")
FEATURES = 3


def ways():
    """Return (engine, algorithm, way): every way of every library, except those for some graphs only."""
    for name, cls in SOLVERS.items():
        if name == "krylov":
            yield from ((name, algorithm, way) for algorithm in SYSTEMS for way in cls.every_way if way != "cg")
        else:
            found = ((name, algorithm, way) for algorithm, own in cls.ways.items() for way in own)
            yield from (case for case in found if case[2] != "piteration")


@functools.cache
def truth(algorithm, graph_name, features):
    """Return the settled answer with its allowances: by a library if the algorithm has one, else the fixed point."""
    graph, inputs = problem(algorithm, graph_name, features)
    traced_program = program(algorithm)
    whole = ALGORITHMS[algorithm].settled_answer(graph, features)
    return whole or fixed_point(traced_program, graph, features, inputs, traced_program.max_supersteps)


def features_of(engine, algorithm):
    return 1 if (engine, algorithm) == ("networkit", "pagerank") else FEATURES


@pytest.mark.short_run(rows=28)
@pytest.mark.parametrize(("engine", "algorithm", "way"), list(ways()))
def test_every_way_gives_the_right_answer(engine, algorithm, way):
    features, answered = features_of(engine, algorithm), 0
    graphs = [name for name in GRAPHS if name != "no edges" or not needs_edges(engine, algorithm)]
    for graph_name in graphs:
        graph, inputs = problem(algorithm, graph_name, features)
        made = prepared(engine, {"way": way}, program(algorithm), graph, features)
        made.reset(inputs)
        assert made.run(1).settled
        expected = truth(algorithm, graph_name, features)
        found = compare(program(algorithm), outputs_of(made, program(algorithm)), expected.values, expected.allowances)
        made.close()
        assert found.ok, f"{graph_name}: {found.detail}"
        answered += 1
    assert answered == len(graphs) >= 4


def needs_edges(engine, algorithm):
    """Return whether a library rejects an empty graph; the engine refuses it."""
    reason = says(
        engine, program(algorithm), problem(algorithm, "no edges", FEATURES)[0], features_of(engine, algorithm)
    )
    assert not reason or "needs a graph with edges" in reason
    return bool(reason)


EXACT = ("bfs", "components", "kcore", "sssp")


@pytest.mark.short_run(rows=100)  # all
@pytest.mark.parametrize("graph_name", ["ratings", "hub", "one vertex"])
@pytest.mark.parametrize(("engine", "algorithm", "way"), [case for case in ways() if case[1] in EXACT])
def test_exact_answers_do_not_depend_on_the_form_of_the_graph(engine, algorithm, way, graph_name):
    """A bipartite graph, a tree of one hub and a graph without edges also end at the answer of the definition."""
    if graph_name == "one vertex" and needs_edges(engine, algorithm):
        return
    graph, inputs = problem(algorithm, graph_name, FEATURES)
    made = prepared(engine, {"way": way}, program(algorithm), graph, FEATURES)
    made.reset(inputs)
    assert made.run(1).settled
    expected = truth(algorithm, graph_name, FEATURES)
    found = compare(program(algorithm), outputs_of(made, program(algorithm)), expected.values, expected.allowances)
    assert found.ok, found.detail
    made.close()


FOR_SOME_GRAPHS = [("scikit_network", "pagerank", "piteration"), ("krylov", "multimodal", "cg")]


@pytest.mark.parametrize(("engine", "algorithm", "way"), FOR_SOME_GRAPHS)
def test_a_way_for_some_graphs_only_is_right_there(engine, algorithm, way):
    graph, inputs = problem(algorithm, "grid", FEATURES)
    made = prepared(engine, {"way": way}, program(algorithm), graph, FEATURES)
    made.reset(inputs)
    made.run(1)
    expected = truth(algorithm, "grid", FEATURES)
    assert compare(program(algorithm), outputs_of(made, program(algorithm)), expected.values, expected.allowances).ok
    graph, inputs = problem(algorithm, "scattered", FEATURES)  # with sinks, and not symmetric
    made = prepared(engine, {"way": way}, program(algorithm), graph, FEATURES)
    with pytest.raises(EngineFailure, match="does not solve"):
        made.reset(inputs)


@pytest.mark.parametrize("engine", SOLVERS)
def test_other_inputs_give_other_answers(engine):
    algorithm = "pagerank" if engine == "krylov" else "components"
    graph, inputs = problem(algorithm, "grid", FEATURES)
    made = prepared(engine, {}, program(algorithm), graph, FEATURES)
    made.reset(inputs)
    made.run(1)
    before = outputs_of(made, program(algorithm))
    rolled = Inputs({name: np.roll(array, 1, axis=0) for name, array in inputs.properties.items()}, inputs.parameters)
    made.reset(rolled)
    assert np.array_equal(made.values(made.result), rolled.properties[start_of(algorithm)])
    made.run(1)
    posed = program(algorithm), graph, FEATURES, rolled, program(algorithm).max_supersteps
    expected = fixed_point(*posed) or answer_at_limit(*posed)
    found = compare(program(algorithm), outputs_of(made, program(algorithm)), expected.values, expected.allowances)
    assert found.ok, found.detail
    if engine == "krylov":
        assert not np.array_equal(outputs_of(made, program(algorithm))["rank"], before["rank"])


def test_a_run_does_not_convert_the_result(monkeypatch):
    """The conversion of a library's own result is like the download of other engines: not part of the solve time."""
    graph, inputs = problem("components", "grid", 1)
    conversions = []

    def solve():
        return lambda: conversions.append("converted") or np.ones(graph.num_vertices)

    monkeypatch.setattr(SOLVERS["scipy_graph"], "solvers", lambda self: {"components": solve, "dijkstra": solve})
    made = prepared("scipy_graph", {"way": "auto"}, program("components"), graph, 1)
    made.reset(inputs)
    made.run(1)
    assert not conversions
    assert (made.values(made.result) == 1.0).all()
    assert conversions == ["converted"]


def start_of(algorithm):
    return {"pagerank": "teleport", "components": "own"}[algorithm]


# recognition ----------------------------------------------------------------------------------------------------------
def renamed_levels(start="seed0", step=1.0, extra=False):
    def build(p, self):
        p.vertex("seed0", K)
        p.vertex("other", K)
        p.vertex("far", K, start=start)

        @p.over_edges(into="via", reduce="min")
        def hop(src):
            return src.far + step

        @p.over_vertices
        def keep(v):
            value = minimum(v.far, v.via)
            return {"far": minimum(value, v.other) if extra else value}

        p.until_settled(at_most=50)
        p.output("far", bound=0.0)

    return traced(build, "levels")


def test_a_program_is_recognised_by_its_structure_under_any_names():
    found = recognised(renamed_levels())
    assert found.kind == "bfs"
    assert found.properties == {"nearest": "via", "level": "far", "source": "seed0"}
    for kind in ("pagerank", "bfs", "sssp", "components", "kcore"):
        assert recognised(program(kind)).kind == kind
    assert recognised(program("kcore")).core == 3


@pytest.mark.parametrize("other", [
    renamed_levels(step=2.0), renamed_levels(extra=True), renamed_levels(start=0.0), *map(program, (
        "label_propagation", "als", "belief_propagation", "manifold_ranking", "multimodal")),
])  # fmt: skip
def test_kernels_that_differ_in_more_than_names_are_distinct(other):
    assert recognised(other) is None


@pytest.mark.parametrize("change", [
    {"settles": False}, {"tolerance": None}, {"norm": "max"}, {"relative": False}, {"alternate": True},
])  # fmt: skip
def test_another_stopping_rule_is_another_program(change):
    pagerank = program("pagerank")
    other = dataclasses.replace(pagerank, control=dataclasses.replace(pagerank.control, **change))
    assert recognised(other) is None


def test_programs_whose_superstep_is_affine_are_linear_systems():
    assert [not_affine(program(name)) for name in SYSTEMS] == ["", "", ""]
    assert "n_aggr is not an affine function" in not_affine(program("label_propagation"))
    assert "does not converge to a tolerance" in not_affine(program("bfs"))
    assert "does not change one" in not_affine(program("belief_propagation"))


# refusals -------------------------------------------------------------------------------------------------------------
def says(engine, traced_program, graph, features=1, way="auto", device=None):
    made = SOLVERS[engine](SolverSchedule(way))
    answer = made.supports(traced_program, graph, features, device or Device(threads=1))
    return answer.reason if isinstance(answer, No) else ""


def test_supports_needs_no_library():
    """The table of what runs where is made without them."""
    for engine in SOLVERS:
        assert "has no function" in says(engine, program("als"), small("rmat")) or engine == "krylov"
        assert says(engine, program("als"), small("rmat"), device=Device("cuda"))


def test_a_library_refuses_with_a_reason():
    rmat = small("rmat")
    assert "takes no teleport vector" in says("networkit", program("pagerank"), rmat, 2)
    assert says("networkit", program("pagerank"), rmat, 1) == ""
    assert "has no function" in says("scikit_network", program("sssp"), rmat)
    assert "undirected" in says("igraph", program("components"), rmat)
    assert rmat.directed
    loops = Graph.from_edges([0, 0, 1], [0, 1, 0], num_vertices=2, name="loops", directed=False)
    assert "simple undirected" in says("networkx", program("kcore"), loops)
    assert says("networkx", program("components"), loops) == ""
    assert "does not solve bfs" in says("networkit", program("bfs"), rmat, way="cores")


def test_an_unknown_way_is_refused_with_those_that_there_are():
    with pytest.raises(ScheduleError, match="way='sideways' is not known to NetworKit; give one of: auto, spsp"):
        new_engine("networkit", {"way": "sideways"})


@pytest.mark.parametrize(("change", "message"), [
    ({"source": np.zeros((256, 2), np.float32)}, "one source a feature"),
    ({"weight": "ones"}, "the weights of the graph"),
])  # fmt: skip
def test_inputs_that_a_library_cannot_take_are_unsupported(change, message):
    graph, inputs = problem("sssp", "rmat", 2)
    made = prepared("scipy_graph", {}, program("sssp"), graph, 2)
    given = {name: np.ones(graph.num_edges, np.float32) if isinstance(v, str) else v for name, v in change.items()}
    with pytest.raises(Unsupported, match=message):
        made.reset(Inputs({**inputs.properties, **given}, inputs.parameters))


def test_one_vector_that_is_not_uniform_is_unsupported_by_a_uniform_pagerank():
    algorithm = PageRank(personalise="vertices")
    graph = small("rmat")
    made = prepared("networkit", {}, trace(algorithm), graph, 1)
    made.reset(algorithm.inputs(graph, 1))
    with pytest.raises(Unsupported, match="is not uniform"):
        made.run(1)


@pytest.mark.parametrize("engine", ["scipy_graph", "krylov"])
def test_a_warm_state_is_unsupported(engine):
    algorithm, output = ("pagerank", "rank") if engine == "krylov" else ("bfs", "level")
    graph, inputs = problem(algorithm, "rmat", 2)
    made = prepared(engine, {}, program(algorithm), graph, 2)
    with pytest.raises(Unsupported, match="own start"):
        made.reset(inputs, {output: np.ones((graph.num_vertices, 2), np.float32)})


@pytest.mark.parametrize("way", ["bicgstab", "cgs", "gmres", "tfqmr"])
def test_no_vertex_is_beyond_its_bound_where_a_solver_concentrates_its_errors(way):
    algorithm, graph, features = PageRank(), grid(rows=50, columns=50), 8
    traced_program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    made = prepared("krylov", {"way": way}, traced_program, graph, features)
    made.reset(inputs)
    made.run(1)
    posed = traced_program, graph, features, inputs, traced_program.max_supersteps
    expected = fixed_point(*posed) or answer_at_limit(*posed)
    found = compare(traced_program, outputs_of(made, traced_program), expected.values, expected.allowances)
    assert found.ok, found.detail


def test_a_solver_that_does_not_converge_fails_with_a_remedy():
    """A tolerance below float64's resolution."""
    graph, inputs = problem("manifold_ranking", "rmat", 2)
    made = prepared("krylov", {"way": "bicgstab"}, program("manifold_ranking"), graph, 2)
    made.reset(Inputs(inputs.properties, {**inputs.parameters, "tolerance": 1e-30}))
    with pytest.raises(EngineFailure, match="did not meet the program's criterion.*larger tolerance"):
        made.run(1)


# the choice -----------------------------------------------------------------------------------------------------------
class Timed(Solving, Engine):
    """Ways that take as many seconds of a fake clock as their names say; "fails" fails."""

    library = "fake"
    every_way = ("3", "1", "2", "fails")
    calls: list[str]

    def supports(self, *_):
        return Yes(1)

    def prepare(self, *_):
        self.calls = []
        self.program = program("bfs")

    @property
    def result(self):
        return "level"

    def pose(self, inputs, state):
        self.start = np.zeros((2, 1))

    def solvers(self):
        return {name: functools.partial(self.solve, name) for name in self.every_way}

    def solve(self, name):
        if name == "fails":
            raise EngineFailure("it does not converge")
        Timed.clock += float(name)
        self.calls.append(name)
        return lambda: np.full((2, 1), float(name))


@pytest.fixture
def timed(monkeypatch):
    Timed.clock = 0.0
    monkeypatch.setattr(solving.time, "perf_counter", lambda: Timed.clock)

    def make(way="auto"):
        engine = Timed(SolverSchedule(way))
        engine.prepare(None, None, 1, Device(), Phases())
        return engine

    return make


def test_the_fastest_way_is_chosen_once_on_the_first_inputs(timed):
    engine = timed()
    assert engine.resolved_options() == {"way": "auto"}
    engine.reset(Inputs())
    assert sorted(engine.calls) == ["1", "2", "3"]
    engine.run(1)
    engine.run(1)  # it is solved
    engine.reset(Inputs())
    engine.run(1)
    assert engine.calls[3:] == ["1", "1"]
    assert engine.resolved_options() == {"way": "1"}
    assert "timed on the first inputs: 3 3e+03 ms, 1 1e+03 ms, 2 2e+03 ms" in engine.explain()
    assert "way fails failed: it does not converge" in engine.explain()
    assert engine.values("level").tolist() == [[1.0], [1.0]]
    with pytest.raises(EngineFailure, match="no other property"):
        engine.values("nearest")


def test_a_way_that_does_not_solve_other_inputs_is_not_chosen_for_them(timed, monkeypatch):
    engine = timed()
    engine.reset(Inputs())
    assert engine.resolved_options() == {"way": "1"}
    monkeypatch.setattr(engine, "solvers", lambda: {name: functools.partial(engine.solve, name) for name in ("3", "2")})
    engine.reset(Inputs())
    assert engine.resolved_options() == {"way": "2"}


def test_a_given_way_is_taken_untimed(timed):
    engine = timed("3")
    engine.reset(Inputs())
    assert engine.calls == []
    engine.run(1)
    assert engine.calls == ["3"]
    failing = timed("fails")
    failing.reset(Inputs())
    with pytest.raises(EngineFailure, match="does not converge"):
        failing.run(1)


def test_a_way_is_as_fast_as_its_shortest_run(timed, monkeypatch):
    """Both runs of one way together take longer than the run of the other."""
    first, later, steady = 0.95 * solving.TRIAL_S, 0.1 * solving.TRIAL_S, solving.TRIAL_S
    seconds = {"slow once": iter([first, *99 * [later]]), "steady": iter(99 * [steady])}

    def solve(name):
        Timed.clock += next(seconds[name])

    engine = timed()
    monkeypatch.setattr(engine, "solvers", lambda: {name: functools.partial(solve, name) for name in seconds})
    engine.reset(Inputs())
    assert engine.resolved_options() == {"way": "slow once"}
