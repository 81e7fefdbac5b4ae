"""Onyx with change tracking while nearly everything moves: supersteps without tracking, and how tracking resumes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from engines.onyx import cuda_tracking_policy
from engines.onyx.cuda_fused_next_superstep import FIRST_OF_STRETCH, fused_next_superstep
from harness.graph.generators import grid
from harness.language import Inputs, where
from harness.language.criterion import TEST_EVERY
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.changing_edges import check_every_superstep
from tests.engines.cuda_schedules import SCHEDULES, begins_untracked, pausing_of_plan
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.problems import outputs_of, problem, program
from tests.engines.programs import PROGRAMS, graph_for, inputs_for, program_named, to_and_fro, traced, two_sides
from tests.engines.test_changing_edges_on_cuda import ROUNDING
from tests.engines.test_cuda import prepared

pytestmark = pytest.mark.gpu
PUSHED = {
    "pausing": ("onyx", {"direction": "push"}),
    "pausing-warps": ("onyx", {"direction": "push", "balance": "warp"}),
    "pausing-loops": ("onyx", {"direction": "push", "feature_aware": False, "fold": False}),
}
PULLED = {
    "pausing-pull": ("onyx", {"balance": "warp"}),
    "pausing-pull-edges": ("onyx", {"balance": "edge"}),
    "pausing-pull-loops": ("onyx", {"feature_aware": False, "fold": False}),
}
PAUSING = {**PUSHED, **PULLED}
SHORT, LONG = 8, 32  # turns that begin without tracking, and end without it
BOTH = 12  # supersteps with both kinds, and some after those without tracking


@pytest.fixture(autouse=True)
def _schedules(monkeypatch):
    """Let stretches without tracking end after some turns, also while everything moves, so that tracking resumes."""
    for name, made in PAUSING.items():
        monkeypatch.setitem(SCHEDULES, name, made)
    monkeypatch.setattr(cuda_tracking_policy, "LASTING", 1 << 30)


def whenever_anything_moves(monkeypatch):
    """Pause tracking whenever anything moves."""
    monkeypatch.setattr("engines.onyx.cuda_tracking_policy.untracked_share", lambda *_, **__: 1e-9)


def check(engine, program_, graph, inputs, features, supersteps):
    """Compare superstep by superstep with the reference; return whether each ran without tracking, as the record
    says."""
    run = ReferenceRun(program_, graph, features)
    run.reset(inputs)
    engine.reset(inputs)
    found = []
    for superstep in range(supersteps):
        found.append(bool(engine.executor.state.fields()["untracked"]))
        expected, taken = run.run(1), engine.run(1)
        compared = compare(program_, outputs_of(engine, program_), outputs_of(run, program_))
        assert compared.ok, f"after superstep {superstep}: {compared.detail}"
        if expected.settled or taken.settled:
            break
        (record,) = taken.supersteps
        assert record.direction == "dense" or not found[-1]
        assert record.direction == "push" or found[-1] or engine.planned.direction == "pull"
    return found


CASES = [
    (schedule, name, (1, 3, 8, 33)[(i + j) % 4])
    for i, schedule in enumerate(PAUSING)
    for j, name in enumerate(PROGRAMS)
]


@pytest.mark.parametrize(("schedule", "name", "features"), CASES)
def test_operations(schedule, name, features, device, monkeypatch):
    whenever_anything_moves(monkeypatch)
    program_, graph = program_named(name), graph_for(name)
    engine = prepared(schedule, program_, graph, features, device)
    inputs = inputs_for(program_, graph, features, seed=features)
    found = check(engine, program_, graph, inputs, features, BOTH)
    if schedule in PUSHED and pausing_of_plan(engine.planned) and not any(found) and not program_.control.alternate:
        # no source moved in two consecutive supersteps
        engine.reset(inputs)
        moved = [step.active > 0 for step in engine.run(BOTH).supersteps[1:]]
        assert not any(both == (True, True) for both in pairwise(moved))
    engine.close()


EDGE_CASES = [
    (schedule, case) for schedule in PAUSING for case in EDGE_PROGRAMS if case != "largest flow" or schedule in PULLED
]


@pytest.mark.parametrize(("schedule", "case"), EDGE_CASES)
def test_programs_that_update_edges(schedule, case, device, monkeypatch):
    whenever_anything_moves(monkeypatch)
    build, make, names = EDGE_PROGRAMS[case]
    program_, graph, k = traced(build, build.__name__), make(), 5
    engine = prepared(schedule, program_, graph, k, device)
    inputs = inputs_for(program_, graph, k, seed=2)
    check_every_superstep(engine, program_, graph, inputs, k, names, ROUNDING, supersteps=BOTH)


@pytest.mark.parametrize("tracked_first", [False, True])
@pytest.mark.parametrize("features", [1, 5, 33])
@pytest.mark.parametrize("case", ["handed on", "handed back"])
def test_an_update_reduces_for_the_next_superstep(case, features, tracked_first, device, monkeypatch):
    """Stretches without tracking, in each of which only the first superstep reduces by itself."""
    whenever_anything_moves(monkeypatch)
    if tracked_first:
        monkeypatch.setattr("engines.onyx.cuda_tracking_policy.edges_change", lambda _: False)
    build, make, names = EDGE_PROGRAMS[case]
    program_, graph = traced(build, build.__name__), make()
    engine = prepared("pausing-pull-edges", program_, graph, features, device)
    _, reductions = fused_next_superstep(engine.planned.program)
    alone = {
        kernel.name for kernel in engine.planned.kernels if set(FIRST_OF_STRETCH.terms) <= set(kernel.unless.terms)
    }
    assert alone == {f"{stage}_untracked" for stage in ("gather", *(f"clear_{stage.into}" for stage in reductions))}
    inputs = inputs_for(program_, graph, features, seed=features)
    untracked = []
    engine.reset(Inputs(inputs.properties, {**inputs.parameters, "tolerance": 0.0}))
    for _ in range(34):
        untracked.append(bool(engine.executor.state.fields()["untracked"]))
        engine.run(1)
    assert begins_untracked(engine.planned) != tracked_first
    begun = sum(now and not before for before, now in pairwise([False, *untracked]))
    assert begun >= 1 + tracked_first, untracked
    assert sum(untracked) > SHORT + begun
    check_every_superstep(engine, program_, graph, inputs, features, names, ROUNDING, supersteps=34)


ALGORITHMS = {
    "label_propagation": "rmat",
    "pagerank": "rmat",
    "als": "ratings",
    "belief_propagation": "picture",
    "multimodal": "rmat",
    "manifold_ranking": "rmat",
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("schedule", PAUSING)
def test_algorithms(schedule, name, device, monkeypatch):
    whenever_anything_moves(monkeypatch)
    k = 3
    program_, (graph, inputs) = program(name), problem(name, ALGORITHMS[name], k)
    engine = prepared(schedule, program_, graph, k, device)
    sides = 2 if program_.control.alternate else 1
    found = check(engine, program_, graph, inputs, k, 16)
    wanted = [False] * 2 * sides + [True] * SHORT * sides + [False] * 2 * sides + [True] * 16
    assert begins_untracked(engine.planned) == (name == "belief_propagation")
    assert found == ([True] * 16 if begins_untracked(engine.planned) else wanted)[: len(found)]
    assert any(found)
    engine.close()


def awake_for_hours(p, self):
    """Let the values of each vertex move from one hour until another."""
    p.vertex("dawn")
    p.vertex("dusk")
    p.vertex("hour", start=0.0)
    p.vertex("x", start=0.0)
    p.vertex("y", start=0.0)

    @p.over_edges(into="heard", reduce="sum")
    def spread(src):
        return src.x

    @p.over_vertices
    def step(v):
        awake = (v.hour >= v.dawn) & (v.hour < v.dusk)
        return {"y": v.heard, "hour": v.hour + 1.0, "x": where(awake, v.x + 0.25, v.x)}

    p.until_settled(self.tolerance, at_most=200)
    p.output("y", bound=1e-5)


def awake(dusk, dawn=0.0):
    """Return the program, its graph, and its inputs: hours of each vertex."""
    program_, graph = traced(awake_for_hours, "awake_for_hours", tolerance_value=0.01), grid(rows=8, columns=9)
    hours = {"dawn": np.broadcast_to(np.float32(dawn), dusk.shape).copy(), "dusk": dusk}
    return program_, graph, Inputs(hours, dict(program_.parameters))


def hours(number):
    """Return as many hours for each vertex."""
    return np.full(72, number, np.float32)


def tracked(stretches, supersteps):
    """Return whether each superstep is tracked: two that are, then a stretch that is not, and so on."""
    found = [flag for stretch in stretches for flag in [False, False] + [True] * stretch]
    return (found + [False] * supersteps)[:supersteps]


@pytest.mark.parametrize("schedule", PAUSING)
def test_tracking_resumes_when_little_moves(schedule, device):
    dusk = hours(20.0)
    dusk[:7] = 60.0
    program_, graph, inputs = awake(dusk)
    engine = prepared(schedule, program_, graph, 1, device)
    found = check(engine, program_, graph, inputs, 1, 70)
    # 2 + 8 + 2 supersteps, and of 16 untracked ones the ninth is the first in which little moves
    assert found == tracked((SHORT, 9), len(found))
    assert 60 < len(found) < 65  # a clock, and the confirmed value
    engine.reset(inputs)
    taken = engine.run(70)
    assert taken.settled
    if schedule in PUSHED:
        dense = [step.direction == "dense" for step in taken.supersteps]
        assert dense in (found, [*found, False])  # which ends with the reference, and confirms nothing
        assert max(step.edges for step in taken.supersteps[30:59]) == int(graph.out_degrees[:7].sum())
    engine.close()


@pytest.mark.parametrize("schedule", PAUSING)
def test_stretches_grow_where_everything_moves_for_long(schedule, device):
    program_, graph, inputs = awake(hours(150.0))
    engine = prepared(schedule, program_, graph, 1, device)
    found = check(engine, program_, graph, inputs, 1, 120)
    assert found == tracked((SHORT, 2 * SHORT, LONG, LONG, LONG), 120)
    engine.close()


@pytest.mark.parametrize("schedule", PULLED)
def test_a_stretch_goes_on_while_much_moves(schedule, device, monkeypatch):
    """Until hour 40 everything moves. Then less moves than lets a stretch go on, but more than ends it at once."""
    monkeypatch.setattr(cuda_tracking_policy, "LASTING", 2)
    dusk = hours(40.0)
    program_, graph, inputs = awake(dusk)
    engine = prepared(schedule, program_, graph, 1, device)
    limit = engine.planned.extension.pausing.share
    dusk[: int(1.5 * limit * len(dusk))] = 60.0
    found = check(engine, program_, graph, Inputs({**inputs.properties, "dusk": dusk}, inputs.parameters), 1, 64)
    engine.close()
    ended = found.index(False, 2)
    assert found[:ended] == [False] * 2 + [True] * (ended - 2)
    assert 40 <= ended <= 42


@pytest.mark.parametrize("schedule", [*PULLED, "full"])
def test_a_property_of_two_steps_is_measured_also_without_tracking(schedule, device, monkeypatch):
    monkeypatch.setattr(cuda_tracking_policy, "LASTING", 2)
    monkeypatch.setitem(SCHEDULES, "full", ("onyx", {"direction": "pull", "change_driven": False}))
    program_, graph = traced(to_and_fro, "to_and_fro", tolerance_value=0.01), grid(8, 9)
    run, inputs = ReferenceRun(program_, graph, 1), Inputs({}, dict(program_.parameters))
    run.reset(inputs)
    wanted = run.run(60)
    engine = prepared(schedule, program_, graph, 1, device)
    engine.reset(inputs)
    found = engine.run(60)
    engine.close()
    assert wanted.settled
    assert found.settled
    assert abs(len(found.supersteps) - len(wanted.supersteps)) <= TEST_EVERY


@pytest.mark.parametrize("schedule", PAUSING)
def test_pauses_that_nothing_suggested_at_first(schedule, device):
    """One vertex moves early and keeps the run going. When all others wake, the device may not pause until the host
    knows; the host then queues both halves of a superstep again. Answers do not change."""
    dawn = hours(40.0)
    dawn[0] = 0.0
    program_, graph, inputs = awake(dawn + 60.0, dawn)
    engine = prepared(schedule, program_, graph, 1, device)
    found = check(engine, program_, graph, inputs, 1, 90)
    assert not any(found[:43])
    assert sum(found[43:90]) > 30
    assert not engine.executor.run_in_progress.observer.omits
    for steps in (90, 17):  # at once, and with reads in between
        engine.reset(inputs)
        taken = []
        while len(taken) < 90:
            taken += engine.run(min(steps, 90 - len(taken))).supersteps
        run = ReferenceRun(program_, graph, 1)
        run.reset(inputs)
        run.run(90)
        compared = compare(program_, outputs_of(engine, program_), outputs_of(run, program_))
        assert compared.ok, compared.detail
        if schedule in PUSHED:
            dense = [step.direction == "dense" for step in taken]
            assert not any(dense[:43])
            assert sum(dense[43:90]) > 15
    engine.close()


def cycling(p, self):
    """Cycle values through 0, 1, 2, 0, ..., received at once where sides do not alternate."""
    p.vertex("x", start=0.0)
    p.vertex("y", start=0.0)

    @p.over_vertices
    def turn(v):
        return {"x": where(v.x > 1.5, 0.0, v.x + 1.0)}

    @p.over_edges(into="heard", reduce="sum")
    def spread(src):
        return src.x

    @p.over_vertices
    def add(v):
        return {"y": 0.5 * v.y + v.heard}

    p.until_settled(self.tolerance, at_most=200)
    p.output("y", bound=1e-4)


def cycling_sides(p, self):
    """Cycle values on alternating sides."""
    cycling(p, self)
    p.alternate_sides()


@pytest.mark.parametrize("build", [cycling, cycling_sides])
@pytest.mark.parametrize("schedule", PAUSING)
def test_values_equal_to_those_before_a_pause_have_moved(schedule, build, device):
    """Nine turns, a multiple of three, lie between the value sent before a pause and the value compared after it."""
    program_, graph = traced(build, build.__name__, tolerance_value=0.01), two_sides()
    engine = prepared(schedule, program_, graph, 1, device)
    found = check(engine, program_, graph, Inputs({}, dict(program_.parameters)), 1, 60)
    assert len(found) == 60
    assert any(found)
    engine.close()


def awake_twice(p, self):
    """Let the values of each vertex move until one hour, and again from another; they are received in the next
    superstep."""
    for name in ("dusk", "dawn"):
        p.vertex(name)
    for name in ("hour", "x", "y"):
        p.vertex(name, start=0.0)

    p.over_edges(into="heard", reduce="sum")(lambda src: src.x)

    @p.over_vertices
    def step(v):
        awake = (v.hour < v.dusk) | (v.hour >= v.dawn)
        return {"y": v.heard, "hour": v.hour + 1.0, "x": where(awake, v.x + 0.25, v.x)}

    p.repeat(40)
    p.output("y", bound=1e-5)


def awake_twice_on_sides(p, self):
    """Let them move on alternating sides."""
    awake_twice(p, self)
    p.alternate_sides()


@pytest.mark.parametrize("build", [awake_twice, awake_twice_on_sides])
@pytest.mark.parametrize("schedule", PAUSING)
def test_values_that_moved_in_a_pause_have_been_sent_without_a_tolerance(schedule, build, device):
    """Some vertices rest before a pause and move in it; others rest after it, and some of them move again. What they
    send is the change since the superstep that rebuilt the sums."""
    program_, graph = traced(build, build.__name__), two_sides() if "sides" in build.__name__ else grid(8, 9)
    number, turns = np.arange(graph.num_vertices), 2 if "sides" in build.__name__ else 1
    dusk, dawn = np.where(number % 3 == 0, 4.0 + number % 5, 13.0), np.where(number % 9 == 0, 20.0 + number % 7, 99.0)
    late = number % 9 == 4
    dusk[late], dawn[late] = 0.0, 4.0 + number[late] % 5
    inputs = Inputs({"dusk": dusk.astype(np.float32), "dawn": dawn.astype(np.float32)}, dict(program_.parameters))
    engine = prepared(schedule, program_, graph, 1, device)
    found = check(engine, program_, graph, inputs, 1, 40 * turns)
    assert any(found)
    engine.close()


@pytest.mark.parametrize("schedule", PAUSING)
def test_never_where_little_moves(schedule, device):
    dusk = hours(0.0)
    dusk[:5] = 20.0
    program_, graph, inputs = awake(dusk)
    engine = prepared(schedule, program_, graph, 1, device)
    found = check(engine, program_, graph, inputs, 1, 20)
    assert not any(found)
    engine.close()


@pytest.mark.parametrize("schedule", PUSHED)
def test_never_if_sums_are_never_rebuilt(schedule, device, monkeypatch):
    kind, options = SCHEDULES[schedule]
    monkeypatch.setitem(SCHEDULES, schedule, (kind, {**options, "rebuild": 0}))
    program_, graph, inputs = awake(hours(20.0))
    engine = prepared(schedule, program_, graph, 1, device)
    found = check(engine, program_, graph, inputs, 1, 20)
    assert not any(found)
    engine.close()
