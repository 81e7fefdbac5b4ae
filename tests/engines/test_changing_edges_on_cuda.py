"""Change tracking of edge properties on CUDA devices: with tolerance 0, equal to updating everything, after every
superstep; the generated code compiles without a device."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

from harness.contract import Device, No, Phases
from harness.graph import Graph
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.algorithms.networks import forest, grid_network, network_hub
from tests.engines.changing_edges import check_every_superstep, check_that_little_is_visited, lone_evidence, posed
from tests.engines.cuda_modules import Module, module_of
from tests.engines.cuda_resources import resources
from tests.engines.cuda_schedules import SCHEDULES, begins_untracked, cuda_engine
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.programs import inputs_for, traced

gpu = pytest.mark.gpu
TRACKED = [schedule for schedule in SCHEDULES if schedule.startswith("changes-")]
FEATURES = (1, 3, 5, 8, 17, 33)
ROUNDING = 5e-5


@functools.cache
def hub_and_loops():
    """Return 90 vertices with every edge in both directions: a hub connected to all others, parallel edges,
    self-loops."""
    rng = np.random.default_rng(9)
    pairs = np.concatenate([
        np.stack([np.zeros(89, np.int64), np.arange(1, 90)], 1), rng.integers(1, 60, (120, 2)), [[3, 4]] * 5,
        [[0, 7]] * 3, np.stack([np.arange(5, 9)] * 2, 1), [[0, 0]],
    ])  # fmt: skip
    return Graph.from_edges(
        pairs[:, 0], pairs[:, 1], num_vertices=90, name="hub and loops", duplicates="keep", symmetrize=True,
        weights=rng.uniform(0.25, 1.0, len(pairs)).astype(np.float32),
    )  # fmt: skip


def prepared(schedule, program, graph, features, device):
    engine = cuda_engine(schedule)
    answer = engine.supports(program, graph, features, device)
    assert not isinstance(answer, No), answer
    engine.prepare(program, graph, features, device, Phases())
    return engine


def check(schedule, program, graph, inputs, features, names, device, rounding=ROUNDING):
    engine = prepared(schedule, program, graph, features, device)
    check_every_superstep(engine, program, graph, inputs, features, names, rounding, supersteps=8)


def pushes(schedule):
    return SCHEDULES[schedule][1].get("direction") == "push"


FULL = ["pull", "pull-edges", "push", "push-edges"]  # everything is updated in every superstep
CASES = [
    (schedule, case, FEATURES[(2 * i + j + i // 3) % len(FEATURES)])
    for i, schedule in enumerate([*TRACKED, *FULL])
    for j, case in enumerate(EDGE_PROGRAMS)
    if not (case == "largest flow" and pushes(schedule))
]


@gpu
@pytest.mark.parametrize(("schedule", "case", "features"), CASES)
def test_programs_that_update_edges(schedule, case, features, device):
    build, graph, names = EDGE_PROGRAMS[case]
    program = traced(build, build.__name__)
    inputs = inputs_for(program, graph(), features, seed=2)
    check(schedule, program, graph(), inputs, features, names, device)


@gpu
@pytest.mark.parametrize("case", ["both ends", "reads back", "overwritten", "products"])
@pytest.mark.parametrize("schedule", TRACKED)
def test_hubs_loops_and_parallel_edges(schedule, case, device):
    build, _, names = EDGE_PROGRAMS[case]
    program, graph = traced(build, build.__name__), hub_and_loops()
    rounding = ROUNDING * (1 + (case == "products") + 2 * (case == "both ends"))
    check(schedule, program, graph, inputs_for(program, graph, 6, seed=3), 6, names, device, rounding)


NETWORKS = {
    "forest": (forest, 5, {"potentials": "edge"}),
    "grid": (lambda: grid_network(5), 5, {"potentials": "edge", "damping": 0.5}),
    "hub": (network_hub, 3, {"truncation": 1.0}),
}


@functools.cache
def belief_propagation(case, rule):
    make, k, options = NETWORKS[case]
    return posed(make(), k, rule=rule, **options)


@gpu
@pytest.mark.parametrize("rule", ["sum", "max"])
@pytest.mark.parametrize("case", NETWORKS)
@pytest.mark.parametrize("schedule", TRACKED)
def test_beliefs_and_messages_are_those_of_full_propagation(schedule, case, rule, device):
    program, graph, inputs, k = belief_propagation(case, rule)
    # atomic sums at a hub in any order: errors up to 6.2e-5 in 96 runs of each form, with and without tracking
    rounding = 1e-4 if case == "hub" and pushes(schedule) else ROUNDING
    check(schedule, program, graph, inputs, k, ("belief", "msg"), device, rounding)


@gpu
@pytest.mark.parametrize("schedule", TRACKED)
def test_settled_vertices_are_not_visited_and_the_answer_is_within_the_bound(schedule, device):
    program, graph, inputs, k = belief_propagation("forest", "sum")
    run, engine = ReferenceRun(program, graph, k), prepared(schedule, program, graph, k, device)
    run.reset(inputs)
    full = run.run(60)
    engine.reset(inputs)
    statistics = engine.run(60)
    found = compare(program, {"belief": engine.values("belief")}, {"belief": run.values("belief")})
    assert found.ok, found.detail
    assert full.settled
    assert statistics.settled
    assert abs(len(statistics.supersteps) - len(full.supersteps)) <= 3
    assert engine.run(5).supersteps == []
    engine.close()


@gpu
@pytest.mark.parametrize("schedule", ["changes-pull", "changes-pull-edges", "changes-push", "changes-push-loops"])
def test_evidence_that_activates_no_vertex_costs_nothing(schedule, device):
    program, graph, inputs, k = lone_evidence()
    engine = prepared(schedule, program, graph, k, device)
    untracked = begins_untracked(engine.planned)  # such a run needs three supersteps to detect that little moves
    check_that_little_is_visited(engine, program, graph, inputs, k, supersteps=30, first=3 + untracked)


@pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")
@pytest.mark.parametrize(
    ("schedule", "case", "features"),
    [pytest.param(*row, marks=() if i in (3, 40, 53) else (pytest.mark.full,)) for i, row in enumerate(CASES)],
)
def test_programs_that_update_edges_compile(schedule, case, features):
    build, graph, _ = EDGE_PROGRAMS[case]
    module = module_of(cuda_engine(schedule), traced(build, build.__name__), graph().facts, features)
    assert isinstance(module, Module)
    assert resources(module, "sm_90")


@pytest.mark.parametrize("schedule", ["changes-push", "changes-push-loops"])
def test_an_extremum_of_edges_that_change_is_refused_where_changes_are_pushed(schedule):
    build, graph, _ = EDGE_PROGRAMS["largest flow"]
    answer = cuda_engine(schedule).supports(traced(build, build.__name__), graph(), 3, Device("cuda"))
    assert isinstance(answer, No)
    assert "an edge's changing property 'flow'" in answer.reason
