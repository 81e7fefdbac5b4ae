"""The bytes that a run reports are those of this run."""

from __future__ import annotations

import pytest

from harness.contract import Phases
from tests.emulation.test_packed_edges import engine_for
from tests.engines.problems import problem, program

FEATURES, SUPERSTEPS = 3, 4


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(("way", "name"), [("pull", "pagerank"), ("changes", "sssp"), ("LBASE", "pagerank")])
def test_transfers_before_a_reset_are_not_those_of_the_next_run(way, name, emulated, monkeypatch):
    """Neither a run that has failed nor copies that no run has reported count in the run after a reset."""
    (graph, inputs), traced = problem(name, "rmat", FEATURES), program(name)
    engine = engine_for(monkeypatch, way, 0.005, "plain")
    engine.prepare(traced, graph, FEATURES, emulated, Phases())
    found = []

    def failed(*_):
        raise RuntimeError("the device failed")

    for fails in (False, True, False, True, False):
        engine.reset(inputs)
        if not fails:
            found.append(engine.run(SUPERSTEPS).transfers)
            continue
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="the device failed"):
            patch.setattr(type(engine.executor.state), "queue_copy", failed)
            engine.run(SUPERSTEPS)
    assert found[0].visited > 0
    assert found == [found[0]] * 3
    engine.close()
