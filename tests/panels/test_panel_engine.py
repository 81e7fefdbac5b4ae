"""What panels pass on to the engine behind them, and with which arguments."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contract import Device, Engine, No, Operations, Phases, RunStatistics, Superstep, Yes
from harness.edge_places import AUTO, EdgeOptions
from harness.language import Inputs, InvalidInput, K
from harness.language.initial_state import Start
from harness.panels.engine import PanelEngine
from harness.panels.panel import Problem
from tests.engines.problems import problem, program
from tests.engines.programs import graph_for, inputs_for, program_named, traced

CPU, GPU = Device(threads=1), Device("cuda")


class Noting(Engine):
    """An engine that notes its calls; ``settles``: for each run, whether it settles."""

    deterministic = True
    settles = ()

    def __init__(self, schedule=None):
        super().__init__(schedule)
        self.calls, self.state = [], {}

    def supports(self, program, graph, features, device):
        return Yes(1000 * features)

    def prepare(self, *given):
        self.calls.append(("prepare", *given))

    def build(self, *given):
        self.calls.append(("build", *given))

    def generate(self, *given):
        self.calls.append(("generate", *given))

    def narrow(self, *given):
        self.calls.append(("narrow", *given))

    def reset(self, inputs, state=None):
        self.calls.append(("reset", inputs, state))
        _, posed, graph, features, *_ = self.calls[0]
        self.start = Start(posed, graph, features, inputs, state or {})

    def run(self, max_supersteps):
        self.calls.append(("run", max_supersteps))
        self.settles, settled = self.settles[1:], bool(self.settles) and self.settles[0]
        return RunStatistics(settled, [Superstep(1, 2, "pull")])

    def values(self, name):
        prop = self.start.program.properties[name]
        if prop.role == "temporary":
            count = {"vertex": self.start.graph.num_vertices, "edge": self.start.graph.num_edges, "graph": 1}[
                prop.place
            ]
            sizes = {"k": self.start.features}
            return np.zeros((count, *(sizes.get(str(one), one) for one in prop.shape)), np.float32)
        return self.start.of(prop).astype(bool if prop.dtype == "bool" else np.float32)

    def memory_model(self, *given):
        return "memory_model", *given

    def operations(self, statistics):
        return Operations(7, 8, wide=True)

    def explain(self):
        return "explained"

    def resolved_options(self):
        return {"own": 1}

    def close(self):
        self.calls.append(("close",))


def made(panel):
    inner = Noting()
    return PanelEngine(EdgeOptions(panel=panel), inner), inner


@pytest.mark.parametrize(("panel", "width"), [(2, 2), (5, 5), (6, 5)])
def test_code_is_built_for_the_features_of_a_panel(panel, width):
    posed, (graph, _) = program("pagerank"), problem("pagerank", "scattered", 5)
    engine, inner = made(panel)
    phases = Phases()
    engine.build(posed, graph, 5, CPU, phases)
    engine.generate(posed, graph, 5, GPU)
    engine.prepare(posed, graph, 5, CPU, phases)
    wanted = [("build", CPU, phases), ("generate", GPU), ("prepare", CPU, phases)]
    assert inner.calls == [(name, posed, graph, width, *rest) for name, *rest in wanted]
    assert engine.resolved_options() == {"own": 1, "panel": width}
    assert engine.deterministic


@pytest.mark.parametrize("panel", [1, 4, 5, 6, AUTO])
def test_accesses_are_counted_where_one_panel_has_all_features(panel):
    posed, (graph, inputs) = program("pagerank"), problem("pagerank", "scattered", 5)
    found = made(panel)[0].memory_model(posed, graph, 5, inputs)
    if panel in (5, 6):
        assert found == ("memory_model", posed, graph, 5, inputs)
    else:
        assert found == No("accesses are counted for all features at once; omit panel")


@pytest.mark.parametrize("device", [CPU, GPU])
def test_an_answer_says_whether_the_plan_of_a_panel_is_stepwise(device, monkeypatch):
    posed, (graph, _) = program("pagerank"), problem("pagerank", "scattered", 5)
    engine, inner = made(2)
    assert engine.supports(posed, graph, 5, device).stepwise is None
    monkeypatch.setattr(inner, "supports", lambda *_: Yes(1000, stepwise=False))
    assert engine.supports(posed, graph, 5, device).stepwise is False


def test_a_panel_is_chosen_automatically_on_a_gpu_only():
    posed, (graph, _) = program("pagerank"), problem("pagerank", "scattered", 5)
    engine, inner = made(AUTO)
    assert isinstance(engine.supports(posed, graph, 5, CPU), No)
    answer = engine.supports(posed, graph, 5, Device("cuda", memory=3000))
    assert (answer.bytes_needed, answer.host_bytes > 0) == (3000, True)
    assert engine.supports(posed, graph, 5, Device("cuda", memory=5000)) == Yes(5000)
    engine.generate(posed, graph, 5, Device("cuda", memory=3000))
    assert inner.calls[0][3] == 3


def test_closing_closes_the_engine_and_drops_what_is_kept():
    posed, (graph, inputs) = program("pagerank"), problem("pagerank", "scattered", 5)
    engine, inner = made(2)
    engine.prepare(posed, graph, 5, CPU, Phases())
    engine.reset(inputs)
    engine.run(1)
    assert engine._kept
    engine.close()
    assert inner.calls[-1] == ("close",)
    assert not engine._kept
    assert not engine._inputs.properties


@pytest.mark.parametrize("settles", [(True, True, True), (True, False, True), (False, False, False)])
def test_a_run_has_settled_once_every_panel_has(settles):
    posed, (graph, inputs) = program("pagerank"), problem("pagerank", "scattered", 5)
    engine, inner = made(2)
    engine.prepare(posed, graph, 5, CPU, Phases())
    engine.reset(inputs)
    inner.settles = settles
    found = engine.run(4)
    assert found.settled == all(settles)
    assert engine.operations(found) == Operations(21, 24, wide=True)
    assert engine.run(0) == RunStatistics(all(settles))
    before = len([call for call in inner.calls if call[0] == "run"])
    inner.settles = (True,) * 3
    assert engine.run(4).settled
    assert len([call for call in inner.calls if call[0] == "run"]) - before == settles.count(False)
    engine.reset(inputs)
    assert not engine.run(0).settled


def test_a_continued_run_gives_every_panel_its_state_and_nothing_else():
    posed, graph = program_named("shortest_paths"), graph_for("shortest_paths")
    engine, inner = made(2)
    assert isinstance(engine.supports(posed, graph, 5, CPU), Yes)
    inputs = inputs_for(posed, graph, 5)
    engine.prepare(posed, graph, 5, CPU, Phases())
    engine.reset(inputs)
    engine.run(1)
    kept = {one: engine.values(one) for one, prop in posed.properties.items() if prop.role == "state"}
    inner.calls[1:] = []
    engine.run(1)
    states = [call[2] for call in inner.calls if call[0] == "reset"]
    assert [set(state) for state in states] == [set(kept)] * 3
    for one, values in kept.items():
        for columns, state in zip(([0, 1], [2, 3], [4, 4]), states, strict=True):
            whole = values.shape == state[one].shape
            np.testing.assert_array_equal(state[one], values if whole else values[..., columns])


def test_only_the_first_run_after_a_reset_begins_with_the_given_vertices():
    posed, (graph, inputs) = program("pagerank"), problem("pagerank", "scattered", 5)
    engine, inner = made(2)
    engine.prepare(posed, graph, 5, CPU, Phases())
    engine.reset(inputs)
    given = np.zeros(graph.num_vertices, bool), np.ones(graph.num_vertices, bool)
    engine.narrow(*given)
    for wanted in (3, 0):  # panels that begin with the vertices
        inner.calls[1:] = []
        engine.run(1)
        narrowed = [call[1:] for call in inner.calls if call[0] == "narrow"]
        assert len(narrowed) == wanted
        assert all(one is two for call in narrowed for one, two in zip(call, given, strict=True))


@pytest.mark.parametrize("algorithm", ["feature_diffusion", "pagerank", "sssp", "bfs"])
def test_every_input_is_checked_at_a_reset(algorithm):
    posed, (graph, inputs) = program(algorithm), problem(algorithm, "scattered", 5)
    engine, _ = made(2)
    engine.prepare(posed, graph, 5, CPU, Phases())
    engine.reset(inputs)
    assert inputs.properties
    for name, array in inputs.properties.items():
        for wrong in (array[:-1], np.where(np.arange(array.shape[-1]) == array.shape[-1] - 1, np.nan, array)):
            with pytest.raises(InvalidInput, match=name):
                engine.reset(Inputs({**inputs.properties, name: wrong.astype(array.dtype)}, inputs.parameters))


def several(p, self):
    """Declare states and inputs of every kind."""
    p.vertex("given", K)
    p.vertex("number")
    p.edge("weight")
    p.vertex("x", K, start="given")
    p.vertex("y", start="number")
    p.vertex("flag", dtype=bool, start=False)
    p.over_edges(into="arrived", reduce="sum")(lambda src, edge: edge.weight * src.x)
    p.over_vertices(lambda v: {"x": 0.5 * v.arrived, "y": v.y + 1.0, "flag": v.y > 2.0})
    p.repeat(3)
    for name in ("x", "y"):
        p.output(name, bound=1e-5)


@pytest.mark.parametrize(("features", "width"), [(5, 2), (8, 4), (7, 1)])
def test_the_host_keeps_states_and_a_panel_of_them_and_of_the_rows_of_inputs(features, width):
    posed, graph = traced(several, "several"), graph_for("shortest_paths")
    whole, panel = (4 * k + 4 + 1 for k in (features, width))
    found = Problem(posed, graph, features, width)
    assert {prop.name for prop in found.kept} == {"x", "y", "flag"}
    assert found.host_bytes == graph.num_vertices * (whole + panel + 4 * width)
