"""Engines that run a panel of features at a time: answers, continued and warm runs, statistics, prices, refusals."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from harness.contract import (
    Device,
    Engine,
    EngineFailure,
    No,
    Operations,
    Phases,
    RunStatistics,
    ScheduleError,
    Superstep,
    Transfers,
    Unsupported,
    Yes,
    schedule_from_options,
)
from harness.edge_places import EdgeOptions
from harness.language import Inputs, InvalidInput
from harness.language.independent_features import not_in_panels
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.panels.engine import PanelEngine
from harness.panels.panel import Panel, largest_panel, panels_of, together
from tests.engines.problems import SPECS, new_engine, prepared, problem, program
from tests.engines.programs import PROGRAMS, graph_for, inputs_for, program_named

FEATURES, PANEL = 5, 2
DEVICE = Device(threads=1)
STEPS = 4


class Exact(Engine):
    """The float64 reference as an engine; it compiles nothing."""

    deterministic = True

    def supports(self, program, graph, features, device):
        return Yes(1000 * features)

    def prepare(self, program, graph, features, device, phases):
        self.reference = ReferenceRun(program, graph, features)

    def reset(self, inputs, state=None):
        assert all(array.dtype in (np.float32, bool) for array in (state or {}).values())
        self.reference.reset(inputs, state)
        self.settled = False

    def run(self, max_supersteps):
        assert not self.settled, "a settled panel does not run again"
        found = self.reference.run(max_supersteps)
        self.settled = found.settled
        return found

    def values(self, name):
        found = self.reference.values(name)
        return found if found.dtype == bool else found.astype(np.float32)

    def close(self):
        pass


def in_panels(panel=PANEL):
    """Return the reference behind panels."""
    return PanelEngine(EdgeOptions(panel=panel), Exact(EdgeOptions()))


def started(engine, program, graph, inputs, features=FEATURES, state=None):
    """Prepare and reset an engine."""
    assert isinstance(engine.supports(program, graph, features, DEVICE), Yes)
    engine.prepare(program, graph, features, DEVICE, Phases())
    engine.reset(inputs, state)
    return engine


def reference(program, graph, inputs, supersteps, state=None):
    """Return the outputs of the float64 reference."""
    run = ReferenceRun(program, graph, FEATURES)
    run.reset(inputs, state)
    run.run(supersteps)
    return {name: run.values(name) for name in program.outputs}


def outputs(engine, program):
    return {name: engine.values(name) for name in program.outputs}


def agrees(program, found, wanted):
    comparison = compare(program, found, wanted)
    assert comparison.ok, comparison.detail


# panels ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("features", "width"), [(1, 1), (5, 2), (6, 3), (4, 4), (7, 5)])
def test_panels_cover_every_feature_once(features, width):
    values = np.arange(2 * features).reshape(2, features)
    found = np.full_like(values, -1)
    for panel in panels_of(features, width):
        part = panel.of(values)
        assert part.shape == (2, width)
        assert (part[:, panel.last - panel.first :] == values[:, panel.last - 1 : panel.last]).all()
        assert (found[:, panel.first : panel.last] == -1).all()
        panel.put(found, part)
    np.testing.assert_array_equal(found, values)


def test_a_full_panel_copies_nothing():
    values = np.zeros((3, 6), np.float32)
    assert np.shares_memory(Panel(2, 4, 2).of(values), values)


# answers --------------------------------------------------------------------------------------------------------------
def runs_in_panels(name):
    return not not_in_panels(program_named(name))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if runs_in_panels(name)])
@pytest.mark.parametrize("panel", [1, 2])
def test_every_example_is_answered_right(name, panel):
    traced_program, graph = program_named(name), graph_for(name)
    engine, inputs = in_panels(panel), inputs_for(traced_program, graph, FEATURES)
    started(engine, traced_program, graph, inputs).run(STEPS)
    agrees(traced_program, outputs(engine, traced_program), reference(traced_program, graph, inputs, STEPS))


ENGINES = {
    "onyx": {"direction": "pull", "change_driven": False}, "onyx streamed": {"edges": "streamed", "window_mb": 0.01},
    "onyx push": {"direction": "push"}, "gunrock": {}, "tigr": {}, "simdx": {}, "emogi": {}, "scaph": {},
    "scaph queue": {"rounds": 4},
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["bfs", "pagerank", "feature_diffusion"])
@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_answers_as_it_does_without_panels(name, algorithm):
    traced_program, features = program(algorithm), 3
    graph, inputs = problem(algorithm, "scattered", features)
    engine = new_engine(name.split()[0], {**ENGINES[name], "panel": 2})
    answer = engine.supports(traced_program, graph, features, DEVICE)
    if isinstance(answer, No):
        assert name == "scaph queue"
        assert "panel" not in answer.reason
        return
    whole = prepared(name.split()[0], ENGINES[name], traced_program, graph, features, threads=1)
    whole.reset(inputs)
    wanted = whole.run(traced_program.max_supersteps)
    started(engine, traced_program, graph, inputs, features)
    found = engine.run(traced_program.max_supersteps)
    assert found.settled == wanted.settled
    assert len(found.supersteps) == len(wanted.supersteps)
    agrees(traced_program, outputs(engine, traced_program), outputs(whole, traced_program))
    assert engine.resolved_options() == {**whole.resolved_options(), "panel": 2}
    assert engine.explain().startswith("3 features in 2 panels of 2, one after another")
    assert type(engine.schedule).__name__ in engine.explain()
    if name.startswith("scaph"):
        assert found.transfers.visited > 0
    engine.close()
    whole.close()


def test_one_panel_of_all_features_is_the_engine_itself():
    traced_program = program("label_propagation")  # its features are not independent
    graph, inputs = problem("label_propagation", "scattered", FEATURES)
    engine = started(in_panels(FEATURES + 1), traced_program, graph, inputs)
    assert engine.supports(traced_program, graph, FEATURES, DEVICE) == Yes(1000 * FEATURES)
    assert len(engine.run(STEPS).supersteps) == STEPS
    assert engine.resolved_options()["panel"] == FEATURES
    assert engine.explain() == engine.engine.explain()
    agrees(traced_program, outputs(engine, traced_program), reference(traced_program, graph, inputs, STEPS))
    np.testing.assert_array_equal(engine.rows("lp", np.array([3, 1])), engine.values("lp")[[3, 1]])


# runs -----------------------------------------------------------------------------------------------------------------
@pytest.fixture
def ranks():
    """Return PageRank with five features, its graph and its inputs."""
    return program("pagerank"), *problem("pagerank", "scattered", FEATURES)


def test_a_run_is_continued_from_the_state_of_each_panel(ranks):
    traced_program, graph, inputs = ranks
    engine = started(in_panels(), traced_program, graph, inputs)
    np.testing.assert_array_equal(engine.values("rank"), inputs.properties["teleport"])
    for done in range(1, 4):
        assert len(engine.run(1).supersteps) == 1
        agrees(traced_program, outputs(engine, traced_program), reference(traced_program, graph, inputs, done))
    assert engine.run(0) == RunStatistics(settled=False)
    engine.reset(inputs)
    engine.run(1)
    agrees(traced_program, outputs(engine, traced_program), reference(traced_program, graph, inputs, 1))


def test_a_settled_panel_does_not_run_again_and_others_do():
    """A source without out-edges settles in two supersteps, one at the start of a chain of 41 vertices in 41."""
    traced_program = program("bfs")
    graph, _ = problem("bfs", "chain", 2)
    source = np.full((graph.num_vertices, 2), np.inf, np.float32)
    source[-1, 0] = source[0, 1] = 0.0
    engine = started(in_panels(1), traced_program, graph, Inputs({"source": source}, {}), 2)
    first = engine.run(5)
    assert (first.settled, len(first.supersteps)) == (False, 5)
    assert [step.edges for step in first.supersteps] == [80, *[40] * 4]
    second = engine.run(1000)
    assert second.settled
    assert len(first.supersteps) + len(second.supersteps) == 41
    assert {step.edges for step in second.supersteps} == {40}
    np.testing.assert_array_equal(engine.values("level")[:, 1], np.arange(41))
    assert engine.run(3) == RunStatistics(settled=True)


def test_a_warm_state_is_cut_into_panels_and_not_written(ranks):
    traced_program, graph, inputs = ranks
    state = {"rank": np.random.default_rng(1).uniform(0, 1, (graph.num_vertices, FEATURES)).astype(np.float32)}
    kept = state["rank"].copy()
    engine = started(in_panels(), traced_program, graph, inputs, state=state)
    np.testing.assert_array_equal(engine.values("rank"), kept)
    engine.run(2)
    agrees(traced_program, outputs(engine, traced_program), reference(traced_program, graph, inputs, 2, state))
    np.testing.assert_array_equal(state["rank"], kept)


class Recording(PanelEngine):
    """Panels around an engine that records how it is reset."""

    def __init__(self):
        super().__init__(EdgeOptions(panel=PANEL), Exact(EdgeOptions()))
        self.calls = []
        reset = self.engine.reset
        self.engine.narrow = lambda *given: self.calls.append(given)
        self.engine.reset = lambda *given: (self.calls.append(None), reset(*given))


def test_every_panel_of_a_narrowed_run_is_narrowed_once(ranks):
    traced_program, graph, inputs = ranks
    engine = started(Recording(), traced_program, graph, inputs)
    stale, senders = np.ones(graph.num_vertices, bool), np.zeros(graph.num_vertices, bool)
    engine.narrow(stale, senders)
    engine.run(1)
    assert engine.calls == [None, (stale, senders)] * 3
    engine.run(1)
    assert engine.calls[6:] == [None] * 3
    engine.reset(inputs)
    engine.run(1)
    assert engine.calls[9:] == [None] * 3


def test_values_are_copies_and_rows_are_theirs(ranks):
    traced_program, graph, inputs = ranks
    engine = started(in_panels(), traced_program, graph, inputs)
    engine.run(2)
    values = engine.values("rank")
    kept = values.copy()
    values[...] = 0
    np.testing.assert_array_equal(engine.values("rank"), kept)
    index = np.array([7, 0, 7])
    np.testing.assert_array_equal(engine.rows("rank", index), kept[index])
    engine.rows("rank", index)[...] = 0
    np.testing.assert_array_equal(engine.values("rank"), kept)
    assert engine.device_values("rank") is None
    np.testing.assert_array_equal(engine.values("teleport"), inputs.properties["teleport"])
    with pytest.raises(EngineFailure, match="'aggr' is neither a state nor an output"):
        engine.values("aggr")


def test_unchanged_inputs_stay_the_same_objects_and_panels_of_others_are_read_only():
    traced_program = program("feature_diffusion")
    graph, inputs = problem("feature_diffusion", "scattered", FEATURES)
    engine, given = started(in_panels(), traced_program, graph, inputs), []
    reset = engine.engine.reset
    engine.engine.reset = lambda one, state: (given.append(one), reset(one, state))
    engine.run(1)
    assert len(given) == 3
    for one in given:
        assert one.properties["coefficient"] is inputs.properties["coefficient"]
        assert one.properties["given"].shape == (graph.num_vertices, PANEL)
        assert not one.properties["given"].flags.writeable
    assert inputs.properties["given"].flags.writeable


def test_inputs_are_checked_for_all_features_at_a_reset(ranks):
    traced_program, graph, inputs = ranks
    engine = started(in_panels(), traced_program, graph, inputs)
    wrong = inputs.properties["teleport"].copy()
    wrong[3, FEATURES - 1] = np.nan
    for given, state in (
        (Inputs({"teleport": wrong}, inputs.parameters), None), (Inputs({}, inputs.parameters), None),
        (Inputs({"teleport": wrong[:, :PANEL]}, inputs.parameters), None), (inputs, {"rank": wrong[:-1]}),
        (inputs, {"nothing": wrong}),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="teleport|rank|nothing"):
            engine.reset(given, state)

    on_device = SimpleNamespace(__cuda_array_interface__={})
    with pytest.raises(Unsupported, match="input 'teleport' is on the device"):
        engine.reset(Inputs({"teleport": on_device}, inputs.parameters))
    engine.reset(inputs)
    engine.run(1)
    agrees(traced_program, outputs(engine, traced_program), reference(traced_program, graph, inputs, 1))


# statistics, prices, refusals -----------------------------------------------------------------------------------------
def test_the_statistics_of_panels_are_put_together():
    def step(active, edges, direction="pull"):
        return Superstep(active, edges, direction)

    one = RunStatistics(True, [step(9, 10)], Transfers(5, {"copied": 7}))
    two = RunStatistics(True, [step(4, 10, "push"), step(3, 2, "dense")], Transfers(1, {"copied": 1, "read": 2}))
    merged = RunStatistics(True, [step(9, 20), step(3, 2, "dense")], Transfers(6, {"copied": 8, "read": 2}))
    assert together([one, two]) == merged
    assert not together([one, dataclasses.replace(two, settled=False)]).settled
    assert together([RunStatistics(True), RunStatistics(True)]) == RunStatistics(True)


def test_operations_are_those_of_all_panels(ranks):
    traced_program, graph, inputs = ranks
    engine = started(in_panels(), traced_program, graph, inputs)
    engine.engine.operations = lambda statistics: Operations(2, len(statistics.supersteps), wide=True)
    statistics = engine.run(2)
    assert engine.operations(statistics) == Operations(6, 6, wide=True)


def test_memory_is_that_of_a_panel_and_what_the_host_keeps(ranks):
    traced_program, graph, _ = ranks
    one = new_engine("onyx", {"panel": PANEL}).supports(traced_program, graph, FEATURES, DEVICE)
    panel, whole = (
        new_engine("onyx").supports(traced_program, graph, features, DEVICE) for features in (PANEL, FEATURES)
    )
    host = 4 * graph.num_vertices * (FEATURES + 2 * PANEL)  # ranks; a panel of them and of teleport
    assert one == Yes(panel.bytes_needed + host)
    cuda = Device("cuda")
    panel, whole = (new_engine("onyx").supports(traced_program, graph, features, cuda) for features in (8, 64))
    one = new_engine("onyx", {"panel": 8}).supports(traced_program, graph, 64, cuda)
    assert one == Yes(panel.bytes_needed, 4 * graph.num_vertices * (64 + 2 * 8))
    assert one.bytes_needed < whole.bytes_needed


def test_programs_whose_features_are_not_independent_are_refused_with_the_reason():
    traced_program = program("label_propagation")
    graph, _ = problem("label_propagation", "scattered", FEATURES)
    engine = new_engine("emogi", {"panel": PANEL})
    for device in (DEVICE, Device("cuda")):
        answer = engine.supports(traced_program, graph, FEATURES, device)
        assert answer == No("panel=2 of 5 features: n_aggr normalises over features (l1)")
        with pytest.raises(EngineFailure, match="n_aggr normalises over features"):
            engine.prepare(traced_program, graph, FEATURES, device, Phases())
        with pytest.raises(EngineFailure, match="n_aggr normalises over features"):
            engine.generate(traced_program, graph, FEATURES, device)


def test_an_engine_that_refuses_a_panel_is_asked_for_its_reason(ranks):
    traced_program, graph, _ = ranks
    answer = new_engine("emogi", {"panel": PANEL, "edges": "managed"}).supports(traced_program, graph, FEATURES, DEVICE)
    assert isinstance(answer, No)
    assert "edges=managed has no meaning on the CPU" in answer.reason


def test_plans_are_not_timed_panel_by_panel(ranks):
    traced_program, graph, _ = ranks
    answer = new_engine("onyx", {"panel": PANEL, "tune": True}).supports(traced_program, graph, FEATURES, DEVICE)
    assert isinstance(answer, No)
    assert "tune=true times plans at a reset" in answer.reason


# a panel that fits ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("features", "most", "chosen"),
    [(128, 127, 64), (128, 64, 64), (128, 50, 44), (128, 43, 43), (7, 6, 4), (10, 3, 3), (10, 0, 1), (2, 1, 1)],
)
def test_the_largest_panel_that_fits_is_as_even_as_the_others(features, most, chosen):
    widths = []

    def fits(width):
        widths.append(width)
        return width <= most

    assert largest_panel(features, fits) == chosen
    assert len(widths) <= 1 + features.bit_length()


def test_panels_fit_the_memory_of_the_device(ranks):
    traced_program, graph, _ = ranks
    features = 64
    needed = [new_engine("onyx").supports(traced_program, graph, k, Device("cuda")).bytes_needed for k in (1, 16, 64)]
    for memory, width in ((needed[2], 64), (needed[2] - 1, 32), (needed[1], 16), (needed[0] - 1, 1)):
        engine, device = new_engine("onyx", {"panel": "auto"}), Device("cuda", memory=memory)
        answer = engine.supports(traced_program, graph, features, device)
        assert (answer.bytes_needed <= memory) == (memory >= needed[0])
        engine.generate(traced_program, graph, features, device)
        assert engine.resolved_options()["panel"] == width
    engine = new_engine("onyx", {"panel": "auto"})
    assert engine.supports(traced_program, graph, features, Device("cuda", memory=needed[1])).bytes_needed <= needed[1]


def test_what_cannot_be_cut_is_refused_if_it_does_not_fit():
    traced_program = program("label_propagation")
    graph, _ = problem("label_propagation", "scattered", FEATURES)
    needed = new_engine("onyx").supports(traced_program, graph, FEATURES, Device("cuda")).bytes_needed
    engine = new_engine("onyx", {"panel": "auto"})
    assert engine.supports(traced_program, graph, FEATURES, Device("cuda", memory=needed)) == Yes(needed)
    answer = engine.supports(traced_program, graph, FEATURES, Device("cuda", memory=needed - 1))
    assert isinstance(answer, No)
    assert "of 5 features: n_aggr normalises over features (l1)" in answer.reason


def test_the_processor_has_no_automatic_panel(ranks):
    traced_program, graph, _ = ranks
    answer = new_engine("onyx", {"panel": "auto"}).supports(traced_program, graph, FEATURES, DEVICE)
    assert answer == No("panel=auto chooses by the memory of a GPU; give a number of features on the CPU")


@pytest.mark.parametrize("panel", [0, -1, 2.5, True, "two"])
def test_a_panel_is_a_number_of_features(panel):
    with pytest.raises(ScheduleError, match="panel="):
        schedule_from_options(SPECS["onyx"], {"panel": panel})


def test_accesses_are_counted_for_all_features_only(ranks):
    traced_program, graph, inputs = ranks
    engine = new_engine("onyx", {"panel": PANEL})
    answer = engine.memory_model(traced_program, graph, FEATURES, inputs)
    assert answer == No("accesses are counted for all features at once; omit panel")
