"""Rebuilding of sums by Onyx and Gunrock in change-driven push, emulated: exact sums are rebuilt only while nearly
all sources are active; afterwards it is known what sources have sent."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph import Graph
from harness.graph.generators import grid
from harness.language import Inputs
from harness.language.criterion import PROPAGATED_SHARE
from harness.language.reference import ReferenceRun
from tests.engines import small_changes
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.problems import program
from tests.engines.test_cuda import prepared

REBUILDING = {
    "onyx": ("onyx", {"direction": "push"}),
    "onyx by warps": ("onyx", {"direction": "push", "balance": "warp"}),
    "gunrock": ("gunrock", {}),
}


@pytest.fixture(params=REBUILDING)
def schedule(request, emulated, monkeypatch):
    """Return a schedule that rebuilds sums; tests share its modules."""
    monkeypatch.setitem(SCHEDULES, request.param, REBUILDING[request.param])
    return request.param


def rebuilt(engine, supersteps):
    """Run superstep by superstep until the run has settled; return for each whether sums were rebuilt."""
    found = []
    for _ in range(supersteps):
        found.append(bool(engine.executor.state.fields()["rebuilding"]))
        if engine.run(1).settled:
            break
    return found


def nearly_all(graph, sources):
    return int(graph.out_degrees[sources].sum()) >= int(0.9 * graph.num_edges)


def star_and_clique(leaves=20):
    """Return a hub with its leaves, and four vertices that are all connected."""
    ends = np.array([(u, v) for u in range(4) for v in range(u)] + [(4, 5 + leaf) for leaf in range(leaves)])
    return Graph.from_edges(ends[:, 0], ends[:, 1], num_vertices=5 + leaves, name="star", symmetrize=True)


def chain():
    return Graph.from_edges(np.arange(30), np.arange(1, 31), name="chain", symmetrize=True)


# A core of 3: the grid peels from its border, all leaves go at once, and then the hub; of a chain all go at once.
CORES = {"grid": lambda: grid(rows=6, columns=7), "star": star_and_clique, "chain": chain}


@pytest.mark.parametrize("name", CORES)
def test_a_core_takes_as_many_supersteps_as_in_full(name, schedule, emulated):
    program_, graph = program("kcore"), CORES[name]()
    engine, run = prepared(schedule, program_, graph, 1, emulated), ReferenceRun(program_, graph, 1)
    engine.reset(Inputs({}))
    run.reset(Inputs({}))
    wanted, before = [True], run.values("alive")
    while not run.run(1).settled:
        alive = run.values("alive")
        wanted.append(nearly_all(graph, alive != before))
        before = alive
    assert rebuilt(engine, 100) == wanted
    assert (name == "chain") == any(wanted[1:])
    assert np.array_equal(engine.values("alive"), run.values("alive"))
    engine.close()


EVERY = 3  # supersteps between rebuilds


@pytest.mark.parametrize(("pace", "movers"), [(0.3, "half"), (0.3, "all"), (0.6, "all")])
def test_after_a_rebuild_sources_have_sent_their_values(pace, movers, schedule, emulated, monkeypatch):
    kind, options = SCHEDULES[schedule]
    monkeypatch.setitem(SCHEDULES, schedule, (kind, {**options, "rebuild": EVERY}))
    program_, graph = small_changes.creeping_program(), grid(rows=6, columns=7)
    paces = np.full(graph.num_vertices, pace, np.float32)
    paces[: graph.num_vertices // 2 if movers == "half" else 0] = 0.0
    paces[0] = 2 * small_changes.UNSENT / PROPAGATED_SHARE  # which moves by more than the tolerance: the run continues
    engine = prepared(schedule, program_, graph, 1, emulated)
    engine.reset(Inputs({"pace": paces}, dict(program_.parameters)))
    x, sent, dense, far = np.zeros(graph.num_vertices), np.zeros(graph.num_vertices), [], []
    for superstep in range(10):
        active = np.abs(x - sent) > small_changes.UNSENT
        dense.append(nearly_all(graph, active))
        rebuilds = superstep % EVERY == 0 or dense[-1]
        sent = np.where(active | rebuilds, x, sent)
        assert rebuilt(engine, 1) == [rebuilds]
        wanted = np.bincount(graph.csr.neighbours, sent[graph.csr.row_of_edge], graph.num_vertices)
        np.testing.assert_allclose(engine.values("y"), wanted, rtol=1e-5)
        x = x + paces
        far.append(bool(active.any()))
    assert any(far)
    assert any(dense) == (movers == "all")
    engine.close()


@pytest.mark.parametrize("rebuild", [0, 64])
def test_never_is_never(rebuild, schedule, emulated, monkeypatch):
    kind, options = SCHEDULES[schedule]
    monkeypatch.setitem(SCHEDULES, schedule, (kind, {**options, "rebuild": rebuild}))
    engine = prepared(schedule, program("kcore"), chain(), 1, emulated)
    engine.reset(Inputs({}))
    assert rebuilt(engine, 10) == [True, rebuild > 0]
    assert not engine.values("alive").any()
    engine.close()
