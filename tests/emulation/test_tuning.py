"""Plans of Onyx chosen by timing, on an emulated device: an order without supersteps is one of them."""

from __future__ import annotations

import pytest

from engines.onyx import tuning
from harness.contract import Phases, RunStatistics
from harness.emulation.compiler import unavailable
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.emulation.device import emulate
from tests.emulation.test_near_far import emulate_near_far
from tests.engines.problems import new_engine, outputs_of, problem, program

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


def test_the_faster_of_near_far_and_supersteps_runs(monkeypatch):
    device, name, other = emulate(monkeypatch), "bfs", "near_far"
    emulate_near_far(monkeypatch)
    monkeypatch.setattr(tuning, "known_figures", lambda *_: None)
    monkeypatch.setattr(tuning, "figures_of", lambda *_: None)
    every = tuning.plans
    monkeypatch.setattr(tuning, "plans", lambda *given: {"default": every(*given)["default"]})  # one to compile
    graph, inputs = problem(name, "grid", 1)
    for fastest in (other, "default"):
        engine = new_engine("onyx", {"tune": True, "tune_s": 600.0})
        monkeypatch.setattr(tuning.TunedEngine, "_fastest", lambda self, found=fastest: found)
        engine.prepare(program(name), graph, 1, device, Phases())
        engine.reset(inputs)
        assert dict(engine.resolved_options()["tried"]).keys() == {"default", other}
        assert engine.run(program(name).max_supersteps) == RunStatistics(True)
        reference = ReferenceRun(program(name), graph, 1)
        reference.reset(inputs)
        reference.run(program(name).max_supersteps)
        found = compare(program(name), outputs_of(engine, program(name)), outputs_of(reference, program(name)))
        assert found.ok, found.detail
        engine.close()
