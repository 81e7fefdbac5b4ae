"""The default order of Onyx on the emulated device: meshes in order of priority, other graphs by supersteps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.engine import OnyxEngine
from engines.onyx.policy import DEFAULT
from engines.onyx.schedule import OnyxSchedule
from harness.algorithms.pagerank import PageRank
from harness.campaign.guarded_engine import GuardedEngine
from harness.contract import No, Phases, Unsupported
from harness.language import Inputs, trace
from tests.emulation.test_hooking import hooking_emulated  # noqa: F401  a fixture
from tests.emulation.test_near_far import emulated_near_far  # noqa: F401  a fixture
from tests.engines.near_far import GRAPHS, PROGRAMS, by_supersteps, starts

TOO_MANY = DEFAULT.order_features[1] + 1


@pytest.fixture
def device(emulated_near_far, hooking_emulated, monkeypatch):  # noqa: F811
    """Return the emulated device, whose supersteps are taken to last 1 ms."""
    monkeypatch.setattr(OnyxEngine, "policy", replace(DEFAULT, visiting_s=(0, 1e-3, 0, 0)))
    return emulated_near_far


def run(graph, device, program="lengths", inputs=None, **options):
    """Return the values of a run, its statistics, the options in the record, and the explanation."""
    engine, features = OnyxEngine(OnyxSchedule(**options)), 1
    inputs = inputs or Inputs({"own": starts(graph, features, PROGRAMS[program].stages[0].reducer)})
    answer = engine.supports(PROGRAMS[program], graph, features, device)
    assert not isinstance(answer, No)
    try:
        engine.prepare(PROGRAMS[program], graph, features, device, Phases())
        assert engine.stepwise == (answer.stepwise is not False)
        engine.reset(inputs)
        statistics = engine.run(1_000_000)
        assert statistics.settled
        return engine.values("x"), statistics, engine.resolved_options(), engine.explain()
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("name", "order"),
    [("roads", "near_far"), ("mesh", "near_far"), ("skewed", "supersteps"), ("no edges", "supersteps")],
)
@pytest.mark.parametrize("program", ["lengths", "hops"])
def test_the_default_gives_the_values_of_supersteps(name, order, program, device, monkeypatch):
    if order == "supersteps":  # a superstep costs nothing, which is how the edges of large graphs weigh
        monkeypatch.setattr(OnyxEngine, "policy", replace(DEFAULT, visiting_s=(0, 0, 1e-12, 0)))
    graph = GRAPHS[name]()
    inputs = Inputs({"own": starts(graph, 1, "min")})
    values, statistics, options, text = run(graph, device, program, inputs)
    assert np.array_equal(values, by_supersteps(PROGRAMS[program], graph, 1, inputs))
    assert options["order"] == order
    assert bool(statistics.supersteps) == (order == "supersteps")
    assert f"order: {order}, chosen by the engine: " in text
    assert ("solved" in options) == (order == "near_far")


@pytest.mark.parametrize("order", ["supersteps", "near_far", "adaptive"])
def test_a_given_order_gives_the_same_values(order, device):
    graph = GRAPHS["mesh"]()
    values, statistics, options, text = run(graph, device, order=order)
    assert np.array_equal(values, run(graph, device)[0])
    assert bool(statistics.supersteps) == (order == "supersteps")
    assert options["order"] == ("supersteps" if order == "supersteps" else "near_far")
    assert ("chosen by the engine: degrees" in text) == (order == "adaptive")


def test_an_answer_does_not_depend_on_the_problem_that_was_prepared(device):
    """The orders of paths and components are chosen; PageRank has supersteps only."""
    mesh, others = GRAPHS["mesh"](), [trace(PageRank()), PROGRAMS["lengths"], PROGRAMS["copies"]]

    def answers(engine):
        return [engine.supports(program, mesh, features, device) for program in others for features in (1, TOO_MANY)]

    expected = answers(GuardedEngine(OnyxEngine(OnyxSchedule())))
    assert [answer.stepwise for answer in expected] == [True, True, False, True, False, True]
    engine = GuardedEngine(OnyxEngine(OnyxSchedule()))
    for program, features in (("lengths", 1), ("copies", 1), ("lengths", TOO_MANY)):
        engine.prepare(PROGRAMS[program], mesh, features, device, Phases())
        assert engine.stepwise == (features == TOO_MANY)
        assert answers(engine) == expected
    engine.close()


def test_negative_lengths_are_refused_at_the_reset(device):
    graph = GRAPHS["mesh"]()
    lengths = np.ones(graph.num_edges, np.float32)
    lengths[0] = -1
    inputs = Inputs({"own": starts(graph, 1, "min"), "weight": lengths})
    with pytest.raises(Unsupported, match="'weight' from -1 to 1 a message of send may be better"):
        run(graph, device, inputs=inputs)


def test_an_engine_takes_problems_of_either_order(device):
    """One engine is prepared for several problems, one after another."""
    engine, mesh = OnyxEngine(OnyxSchedule()), GRAPHS["mesh"]()
    for program, features in (("lengths", 1), ("copies", 1), ("lengths", TOO_MANY), ("lengths", 1)):
        inputs = Inputs({"own": starts(mesh, features, "min")})
        engine.prepare(PROGRAMS[program], mesh, features, device, Phases())
        assert engine.stepwise == (features == TOO_MANY)
        check_choice(engine, program, mesh, features, device)
        engine.reset(inputs)
        engine.run(1_000_000)
        assert np.array_equal(engine.values("x"), by_supersteps(PROGRAMS[program], mesh, features, inputs))
        assert engine.resolved_options().get("hooking") == (True if program == "copies" else None)
    engine.close()


def check_choice(engine, program, graph, features, device):
    """Compare what an engine records and explains of its choice with a new engine for the problem."""
    new = OnyxEngine(OnyxSchedule())
    new.generate(PROGRAMS[program], graph, features, device)
    wanted, found = new.resolved_options(), engine.resolved_options()
    for name in ("order", "order_reason", "order_estimates", "hooking"):
        assert found.get(name) == wanted.get(name), name
    assert engine.explain().splitlines()[:2] == new.explain().splitlines()[:2]


FIRST = ("lengths", "mesh", 1)


@pytest.mark.parametrize("made", ["prepare", "generate"])
@pytest.mark.parametrize(
    "second", [("lengths", "roads", 1), ("hops", "mesh", 1), ("copies", "mesh", 1), ("lengths", "mesh", 2),
               ("lengths", "mesh", TOO_MANY)],
)  # fmt: skip
def test_the_choice_that_is_recorded_is_that_of_the_second_problem(second, made, device):
    """One part of the problem is another: the program, the graph, or the number of features."""
    engine = OnyxEngine(OnyxSchedule())
    for program, name, features in (FIRST, second, FIRST):
        graph = GRAPHS[name]()
        posed = (PROGRAMS[program], graph, features, device)
        engine.generate(*posed) if made == "generate" else engine.prepare(*posed, Phases())
        check_choice(engine, program, graph, features, device)
    engine.close()


@pytest.mark.parametrize("program", ["lengths", "copies"])
def test_values_remain_on_the_device(program, device):
    engine, mesh = OnyxEngine(OnyxSchedule()), GRAPHS["mesh"]()
    engine.prepare(PROGRAMS[program], mesh, 1, device, Phases())
    assert not engine.stepwise
    engine.reset(Inputs({"own": starts(mesh, 1, "min")}))
    engine.run(1)
    values, kept = engine.values("x"), engine.device_values("x")
    engine.close()
    assert kept.dtype == np.float32
    assert np.array_equal(kept.get(), values)
