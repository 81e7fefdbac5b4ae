"""Run in process: answers by vertex, statistics, records, explanations, refusals, and no needless imports."""

from __future__ import annotations

import linecache
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

from harness.api import Algorithm, Device, Inputs, InvalidInput, LanguageError, ScheduleError
from harness.graph import Graph
from harness.language import K
from harness.records import validate
from onyx_harness import CampaignError, UnknownName, Unsupported, Variant, WrongAnswer, as_graph, run
from onyx_harness.requests import engine_request

KARATE = nx.karate_club_graph()


class Spread(Algorithm):
    """Heat that spreads from a source and leaks."""

    name = "spread_in_a_test"
    leak: float = 0.2
    tolerance: float = 1e-6
    supersteps: int = 30

    def build(self, p):
        p.vertex("source", K)
        p.vertex("heat", K, start="source")

        @p.over_edges(into="flow", reduce="sum")
        def flow(src):
            return src.heat / src.out_degree

        @p.over_vertices
        def mix(v):
            return {"heat": self.leak * v.source + (1 - self.leak) * v.flow}

        p.until_settled(self.tolerance, at_most=self.supersteps)
        p.output("heat", bound=1e-4)

    def inputs(self, graph, features):
        source = np.zeros((graph.num_vertices, features), np.float32)
        source[0] = 1
        return Inputs({"source": source}, self.parameter_values())


@pytest.mark.parametrize("graph", [KARATE, nx.DiGraph(nx.gnp_random_graph(60, 0.1, seed=2, directed=True))])
def test_pagerank_of_a_networkx_graph_is_that_of_networkx(graph):
    result = run("scipy", "pagerank", graph, alpha=0.9, tolerance=1e-6)
    expected = nx.pagerank(graph, alpha=0.9, tol=1e-10, weight=None)
    ranks = result.by_vertex("rank")
    assert list(ranks) == list(graph)
    assert ranks == pytest.approx(expected, abs=2e-5)
    assert np.array_equal(result.answer()[:, 0], np.array(list(ranks.values()), np.float32))


@pytest.mark.usefixtures("fakes")
def test_shortest_paths_start_at_a_named_vertex():
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([("home", "park", 2.0), ("park", "work", 3.0), ("home", "work", 9.0)])
    named = as_graph(graph)
    result = run("fake_right", "sssp", named, sources=named.index("home"))
    assert result.by_vertex("distance") == {"home": 0.0, "park": 2.0, "work": 5.0}
    two = run("fake_right", "sssp", named, features=2, sources=[named.index("home"), named.index("park")])
    assert two.by_vertex("distance")["work"].tolist() == [5.0, 3.0]
    assert two.metrics["farthest"] == 5.0


def test_a_result_has_statistics_times_record_and_text():
    result = run("scipy", "pagerank", KARATE)
    assert result.settled is True
    assert result.edges_visited == 156 * result.supersteps
    assert {"open", "trace", "inputs", "solve", "download"} <= set(result.seconds)
    record = validate(result.record)
    assert record["config"]["engine"] == "scipy"
    assert record["labels"]["algorithm"] == "pagerank"
    assert record["graph"]["vertices"] == 34
    assert record["bytes_needed"] > record["host_bytes"] == 0
    assert len(record["supersteps"]) == result.supersteps
    assert "rank float32[34, 1]" in repr(result)
    assert "settled after" in repr(result)
    explanation = result.explain()
    assert "program pagerank" in explanation
    assert "schedule" in explanation


def test_answers_are_the_callers_own():
    result = run("scipy", "pagerank", KARATE)
    result.answer()[:] = 0
    assert run("scipy", "pagerank", KARATE).answer().sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.usefixtures("fakes")
def test_validation_compares_with_the_reference():
    result = run("fake_right", "sssp", KARATE, validate=True)
    assert result.validation["ok"]
    assert "dijkstra" in result.validation["against"]
    assert result.validation["against"] in repr(result)
    assert run("scipy", "pagerank", KARATE, validate=True).validation["error"] < 1e-3
    with pytest.raises(WrongAnswer, match="compared with"):
        run("fake_wrong", "pagerank", KARATE, validate=True)


def test_an_engine_that_solves_the_whole_problem_counts_no_supersteps():
    result = run("krylov", "pagerank", KARATE, alpha=0.9, tolerance=1e-6, validate=True)
    assert result.by_vertex("rank") == pytest.approx(nx.pagerank(KARATE, alpha=0.9, tol=1e-10, weight=None), abs=2e-5)
    assert (result.supersteps, result.settled) == (0, True)
    assert "settled; the engine counts no supersteps" in repr(result)
    with pytest.raises(Unsupported, match="cannot stop after 2 supersteps"):
        run("krylov", "pagerank", KARATE, max_supersteps=2)


def test_a_fixed_number_of_supersteps_and_a_limit():
    limited = run("scipy", "pagerank", KARATE, max_supersteps=2)
    assert (limited.supersteps, limited.settled) == (2, False)
    assert "not settled after 2" in repr(limited)
    further = run("scipy", "pagerank", KARATE, max_supersteps=3)
    assert limited.record["identity"] != further.record["identity"]


@pytest.mark.parametrize("given", [Spread, Spread(leak=0.3)])
def test_an_algorithm_is_a_class_or_an_instance(given):
    own = {} if isinstance(given, Spread) else {"leak": 0.3}
    result = run("scipy", given, KARATE, features=2, validate=True, **own)
    assert result.answer("heat").shape == (34, 2)
    assert validate(result.record)["labels"]["algorithm"] == "spread_in_a_test (leak=0.3)"


def test_an_algorithm_of_a_notebook_cell_runs_and_errors_show_its_line():
    lines = (
        "from harness.api import Algorithm, Inputs\n"
        "class Cell(Algorithm):\n"
        "    name = 'cell'\n"
        "    def build(self, p):\n"
        "        p.vertex('x', start=1.0)\n"
        "        @p.over_vertices\n"
        "        def step(v):\n"
        "            return {'x': v.WORD}\n"
        "        p.repeat(1)\n"
        "        p.output('x', bound=1e-6)\n"
    )
    for word, kept in (("x", True), ("x", False), ("y", True)):  # IPython registers a cell's source; exec does not
        namespace: dict = {"__name__": "__main__"}
        source, file = lines.replace("WORD", word), f"<ipython-input-{word}-{kept}>"
        if kept:
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), namespace)
        if word == "x":
            assert run("scipy", namespace["Cell"], KARATE).by_vertex("x")[0] == 1.0
        else:
            with pytest.raises(LanguageError, match=r"<ipython-input-y-True>:8\n    return \{'x': v.y\}"):
                run("scipy", namespace["Cell"], KARATE)


def test_inputs_are_replaced_by_name():
    source = np.zeros(34)
    source[3] = 1
    result = run("scipy", Spread, KARATE, inputs={"source": source})
    assert max(result.by_vertex("heat"), key=result.by_vertex("heat").get) == 3
    with pytest.raises(InvalidInput, match=r"no input 'sauce'; did you mean 'source'\? \(it has: source\)"):
        run("scipy", Spread, KARATE, inputs={"sauce": source})
    with pytest.raises(InvalidInput, match="source"):
        run("scipy", Spread, KARATE, inputs={"source": source[:5]})


@pytest.mark.usefixtures("fakes")
def test_a_schedule_is_given_as_options_or_as_a_variant():
    options = {"direction": "pull", "width": np.int64(3)}
    variant = Variant("fake_right", **options)
    for result in (run("fake_right", Spread, KARATE, schedule=options), run(variant, Spread, KARATE)):
        assert result.schedule == {"direction": "pull", "width": 3}
        assert "fake_right (direction=pull, width=3) on cpu" in repr(result)
    assert repr(Variant("onyx", fold=True)) == "Variant('onyx', fold=True)"


def test_a_configuration_file_names_a_variant_of_the_device():
    name, options = "onyx_unfolded", {"direction": "push", "fold": False}
    spec, found = engine_request(name, None, Device())
    assert (spec.name, found) == ("onyx", options)
    assert engine_request(name, None, Device(kind="cuda"))[1] == {**options, "balance": "warp"}
    assert engine_request(Variant(name, fold=True), None, Device())[1]["fold"] is True


@pytest.mark.usefixtures("fakes")
def test_a_schedule_that_the_engine_refuses_is_resolved_unless_it_was_given():
    resolved = run("fake_pulls", "pagerank", KARATE)
    assert resolved.record["resolution"]["resolved"] == {"direction": "pull"}
    assert "resolved: engine.direction=pull instead of engine.direction=push" in resolved.explain()
    with pytest.raises(Unsupported, match="nothing pushes here; engine.direction=pull would run it"):
        run("fake_pulls", "pagerank", KARATE, schedule={"direction": "push"})


@pytest.mark.usefixtures("fakes")
def test_results_and_inputs_of_an_engine_are_checked():
    with pytest.raises(TypeError, match="it must be of dtype float32 and shape"):
        run("fake_misshapen", "pagerank", KARATE)
    with pytest.raises(MemoryError, match="this machine has .*; take a smaller graph or fewer features"):
        run("fake_wants_much", "pagerank", KARATE)
    with pytest.raises(Unsupported, match="needs the Python module 'no_such_module'"):
        run("fake_absent", "pagerank", KARATE)
    with pytest.raises(RuntimeError, match="was refused"):
        run("fake_raises", "pagerank", KARATE)


@pytest.mark.parametrize(
    ("engine", "algorithm", "options", "error", "message"),
    [
        ("onix", "pagerank", {}, UnknownName, "no engine called 'onix'; did you mean 'onyx'"),
        ("scipy", "page_rank", {}, UnknownName, "no algorithm called 'page_rank'; did you mean 'pagerank'"),
        ("scipy", "pagerank", {"alhpa": 0.9}, CampaignError, "no parameter 'alhpa'; did you mean 'alpha'"),
        ("scipy", "pagerank", {"validate": "sampled"}, CampaignError, "validate is 'sampled'"),
        ("scipy", "pagerank", {"alpha": "high"}, CampaignError, "must be a number"),
        ("scipy", "pagerank", {"alpha": 0.9, "parameters": {"alpha": 0.8}}, CampaignError, "'alpha' is given twice"),
        ("scipy", "sgd_mf", {"sides": "double", "validate": True}, CampaignError, "in the engine's own order"),
        ("scipy", Spread(), {"leak": 0.9}, CampaignError, "Spread already has its parameters; give leak="),
        ("onyx", "pagerank", {"direction": "push"}, CampaignError, "'direction' is an option of engine 'onyx'"),
        ("onyx", "pagerank", {"schedule": {"directon": "push"}}, ScheduleError, "did you mean 'direction'"),
        ("scipy", "pagerank", {"features": 0}, CampaignError, "features is 0"),
        ("scipy", "label_propagation", {}, InvalidInput, "no natural number of features on graph .*; set features=K"),
        ("scipy", "pagerank", {"features": 500}, CampaignError, "1 to 256"),
        ("scipy", "pagerank", {"device": "gpu"}, CampaignError, "'cpu', 'cuda', 'cuda:INDEX' or a Device"),
        ("scipy", "pagerank", {"device": "cuda"}, Unsupported, "does not run on cuda"),
        ("scipy", "pagerank", {"max_supersteps": 0}, CampaignError, "max_supersteps is 0"),
        ("scipy", "pagerank", {"alpha": 2.0}, InvalidInput, r"alpha=2\.0: give a number in \(0, 1\)"),
        (7, "pagerank", {}, CampaignError, "engine is 7; it must be a name or a Variant"),
        ("scipy", 7, {}, CampaignError, "algorithm is 7; it must be a name, or a class or an instance"),
    ],
)  # fmt: skip
def test_a_mistake_says_what_to_do(engine, algorithm, options, error, message):
    with pytest.raises(error, match=message):
        run(engine, algorithm, KARATE, **options)


def test_an_unknown_output_names_the_outputs():
    result = run("scipy", "pagerank", KARATE, device=Device(threads=1))
    with pytest.raises(KeyError, match=r"no output 'ranks'; did you mean 'rank'"):
        result.answer("ranks")


def test_nothing_is_imported_that_the_run_does_not_need():
    source = (
        "import sys, onyx_harness\n"
        "light = [m for m in ('numpy', 'scipy', 'numba', 'hydra', 'rich') if m in sys.modules]\n"
        "onyx_harness.run('scipy', 'pagerank', ([0, 1], [1, 0])).by_vertex()\n"
        "names = ('numba', 'cupy', 'hydra', 'rich', 'pandas', 'polars', 'networkx', 'torch')\n"
        "print(light, [m for m in names if m in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == ["[]", "[]"]


def test_a_second_run_loads_no_other_kernel(monkeypatch):
    from harness.lowering.cpu import module_source

    load, loaded = module_source.load_module, []

    def recorded(source, stem):
        known = set(sys.modules)
        module = load(source, stem)
        loaded.append(module.__name__ in known)
        return module

    monkeypatch.setattr(module_source, "load_module", recorded)
    run("onyx", Spread, KARATE, features=3)
    assert not all(loaded)
    loaded.clear()
    other = nx.Graph(KARATE.edges)
    other.remove_edge(0, 1)
    run("onyx", Spread, other, features=3, leak=0.4)  # another graph of the same kind, and another value
    assert loaded
    assert all(loaded)


def test_a_graph_without_vertices_has_an_empty_answer():
    assert run("scipy", "pagerank", nx.DiGraph()).by_vertex() == {}


class OneMore(Spread):
    """Run on a graph with one more vertex."""

    name = "one_more"

    def prepare_graph(self, graph):
        ends = np.arange(graph.num_vertices)
        return Graph.from_edges(ends, ends + 1, num_vertices=graph.num_vertices + 1, name="one more")


def test_values_of_vertices_of_another_graph_have_no_names():
    result = run("scipy", OneMore, KARATE)
    assert len(result.answer()) == KARATE.number_of_nodes() + 1
    with pytest.raises(ValueError, match="has no value for each vertex of the graph"):
        result.by_vertex()
