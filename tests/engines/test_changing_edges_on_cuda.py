"""Change tracking of edge properties on CUDA devices: with tolerance 0 as if everything were updated, after every
superstep; what it generates compiles without a device."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.contract import Device, No, Phases
from harness.graph import Graph
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.algorithms.networks import forest, grid_network, network_hub
from tests.engines.cuda_modules import Module, module_of
from tests.engines.cuda_resources import resources
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.programs import inputs_for, traced

gpu = pytest.mark.gpu
TRACKED = [schedule for schedule in SCHEDULES if schedule.startswith("changes-")]
FEATURES = (1, 3, 5, 8, 17, 33)
ROUNDING = 5e-5


@functools.cache
def hub_and_loops():
    """90 vertices, every arc in both directions: one of them joined with all others, parallel edges, self-loops."""
    rng = np.random.default_rng(9)
    pairs = np.concatenate([
        np.stack([np.zeros(89, np.int64), np.arange(1, 90)], 1), rng.integers(1, 60, (120, 2)), [[3, 4]] * 5,
        [[0, 7]] * 3, np.stack([np.arange(5, 9)] * 2, 1), [[0, 0]],
    ])  # fmt: skip
    return Graph.from_edges(
        pairs[:, 0], pairs[:, 1], num_vertices=90, name="hub and loops", duplicates="keep", symmetrize=True,
        weights=rng.uniform(0.25, 1.0, len(pairs)).astype(np.float32),
    )  # fmt: skip


def check_every_superstep(schedule, program, graph, inputs, features, names, device, rounding=ROUNDING, supersteps=8):
    """The values of ``names`` after every superstep of two runs; the edges visited in those of the second."""
    engine = cuda_engine(schedule)
    answer = engine.supports(program, graph, features, device)
    assert not isinstance(answer, No), answer
    engine.prepare(program, graph, features, device, Phases())
    run = ReferenceRun(program, graph, features)
    for _ in range(2):  # nothing of a run may be left in the next one
        exactly = Inputs(inputs.properties, {**inputs.parameters, "tolerance": 0.0})
        engine.reset(exactly)
        run.reset(exactly)
        visited = []
        for superstep in range(supersteps):
            run.run(1)
            visited.append(engine.run(1).edges)
            for name in names:
                off = np.abs(engine.values(name) - run.values(name)).max(initial=0)
                assert off <= rounding, f"{name} after superstep {superstep}: {off}"
    engine.close()
    return visited


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
    check_every_superstep(schedule, program, graph(), inputs, features, names, device)


@gpu
@pytest.mark.parametrize("case", ["both ends", "reads back", "overwritten", "products"])
@pytest.mark.parametrize("schedule", TRACKED)
def test_hubs_loops_and_parallel_edges(schedule, case, device):
    build, _, names = EDGE_PROGRAMS[case]
    program, graph = traced(build, build.__name__), hub_and_loops()
    rounding = ROUNDING * (1 + (case == "products") + 2 * (case == "both ends"))
    check_every_superstep(schedule, program, graph, inputs_for(program, graph, 6, seed=3), 6, names, device, rounding)


NETWORKS = {
    "forest": (forest, 5, {"potentials": "edge"}),
    "grid": (lambda: grid_network(5), 5, {"potentials": "edge", "damping": 0.5}),
    "hub": (network_hub, 3, {"truncation": 1.0}),
}


@functools.cache
def belief_propagation(case, rule):
    make, k, options = NETWORKS[case]
    graph = make()
    k = max(k, graph.vertex_data["unary"].shape[1])
    algorithm = BeliefPropagation(rule=rule, **options)
    graph = algorithm.prepare_graph(graph)
    return trace(algorithm), graph, algorithm.inputs(graph, k), k


@gpu
@pytest.mark.parametrize("rule", ["sum", "max"])
@pytest.mark.parametrize("case", NETWORKS)
@pytest.mark.parametrize("schedule", TRACKED)
def test_beliefs_and_messages_are_those_of_full_propagation(schedule, case, rule, device):
    program, graph, inputs, k = belief_propagation(case, rule)
    check_every_superstep(schedule, program, graph, inputs, k, ("belief", "msg"), device)


@gpu
@pytest.mark.parametrize("schedule", TRACKED)
def test_what_has_settled_is_visited_no_more_and_the_answer_is_within_the_bound(schedule, device):
    program, graph, inputs, k = belief_propagation("forest", "sum")
    run, engine = ReferenceRun(program, graph, k), cuda_engine(schedule)
    run.reset(inputs)
    full = run.run(60)
    assert not isinstance(engine.supports(program, graph, k, device), No)
    engine.prepare(program, graph, k, device, Phases())
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
def test_evidence_that_wakes_nobody_costs_nothing(schedule, device):
    """A long chain with a potential at its head alone: messages upwards stay even, those downwards move one edge a
    superstep."""
    length, k = 400, 3
    unary = np.ones((length, k))
    unary[0] = [0.2, 0.8, 0.2]
    chain = Graph.from_edges(
        np.arange(length - 1), np.arange(1, length), num_vertices=length, name="chain", symmetrize=True,
        vertex_data={"unary": unary},
    )  # fmt: skip
    algorithm = BeliefPropagation(smoothness=5.0, truncation=1.0)
    graph = algorithm.prepare_graph(chain)
    program, inputs = trace(algorithm), algorithm.inputs(graph, k)
    engine = cuda_engine(schedule)
    assert not isinstance(engine.supports(program, graph, k, device), No)
    engine.prepare(program, graph, k, device, Phases())
    engine.reset(inputs)
    supersteps = engine.run(30).supersteps[3:]
    assert all(1 <= step.active <= 3 for step in supersteps)  # an edge, an aggregate
    assert max(step.edges for step in supersteps) <= 30
    run = ReferenceRun(program, graph, k)
    run.reset(inputs)
    run.run(30)
    assert np.abs(engine.values("belief") - run.values("belief")).max() < 1e-4
    engine.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the compiler for CUDA is installed on Linux alone")
@pytest.mark.parametrize(
    ("schedule", "case", "features"),
    [pytest.param(*row, marks=() if i in (3, 40, 53) else (pytest.mark.full,)) for i, row in enumerate(CASES)],
)
def test_programs_that_update_edges_compile(schedule, case, features):
    build, graph, _ = EDGE_PROGRAMS[case]
    module = module_of(cuda_engine(schedule), traced(build, build.__name__), graph(), features)
    assert isinstance(module, Module)
    assert resources(module, "sm_90")


@pytest.mark.parametrize("schedule", ["changes-push", "changes-push-loops"])
def test_an_extremum_of_edges_that_change_is_refused_where_changes_are_pushed(schedule):
    build, graph, _ = EDGE_PROGRAMS["largest flow"]
    answer = cuda_engine(schedule).supports(traced(build, build.__name__), graph(), 3, Device("cuda"))
    assert isinstance(answer, No)
    assert "an edge's changing property 'flow'" in answer.reason
