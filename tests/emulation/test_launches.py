"""Supersteps are recorded once and launched many times; how far ahead of the device they are queued."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contract import Phases
from harness.emulation.arrays import Stream
from harness.emulation.compiler import EmulationError
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda import executor as cuda
from harness.lowering.cuda.launcher import Launcher
from harness.lowering.cuda.loop import LOOK_EVERY
from harness.lowering.cuda.run_state import RunState
from tests.benchmarks.workloads import Aggregation
from tests.engines.cuda_schedules import cuda_engine
from tests.engines.programs import edges_and_loops, inputs_for, program_named, two_sides
from tests.engines.test_cuda import algorithms, prepared


@pytest.fixture
def recorded(monkeypatch):
    """Return the launches of every graph that is recorded."""
    found = []
    end = Stream.end_capture

    def end_capture(stream):
        graph = end(stream)
        found.append(graph)
        return graph

    monkeypatch.setattr(Stream, "end_capture", end_capture)
    return found


@pytest.mark.parametrize(
    ("schedule", "name", "graphs"), [("pull", "own_aggregate", 2), ("pull", "sides", 2), ("tigr", "own_aggregate", 2)]
)
def test_supersteps_are_recorded_once(schedule, name, graphs, recorded, emulated, monkeypatch):
    """One recording per parity, and a new one if a longer run needs larger buffers for statistics."""
    monkeypatch.setattr(cuda, "USUAL_SUPERSTEPS", 5)
    program, graph = program_named(name), two_sides() if name == "sides" else edges_and_loops()
    inputs = inputs_for(program, graph, 3)
    engine, run = prepared(schedule, program, graph, 3, emulated), ReferenceRun(program, graph, 3)
    for supersteps, made in ((1, 1), (4, graphs), (5, graphs), (6, 2 * graphs), (9, 3 * graphs), (2, 3 * graphs)):
        for one in (engine, run):
            one.reset(inputs)
        done = engine.run(supersteps)
        run.run(supersteps)
        assert len(done.supersteps) == supersteps
        assert len(recorded) == made
        wanted = {output: run.values(output) for output in program.outputs}
        found = compare(program, {output: engine.values(output) for output in wanted}, wanted)
        assert found.ok, found.detail


def test_little_is_queued_after_the_end_of_a_short_run(emulated, monkeypatch):
    queued = []
    superstep = Launcher.superstep
    monkeypatch.setattr(
        Launcher, "superstep", lambda self, n, past, **how: (queued.append(n), superstep(self, n, past, **how))[1]
    )
    algorithm, graph = algorithms()["kcore"], edges_and_loops()
    graph = algorithm.prepare_graph(graph)
    engine = prepared("push-edges", trace(algorithm), graph, 1, emulated)
    engine.reset(algorithm.inputs(graph, 1))
    done = engine.run(1000)
    assert done.settled
    assert len(done.supersteps) < LOOK_EVERY, "no short run"
    assert queued == list(range(len(done.supersteps) + 1))
    assert np.all(engine.values("alive") <= 1)


def test_a_launch_that_fails_leaves_the_stream_as_it_was(emulated):
    program, graph = program_named("own_aggregate"), edges_and_loops()
    inputs = inputs_for(program, graph, 3)
    engine, other = (prepared(schedule, program, graph, 3, emulated) for schedule in ("pull", "push"))
    for one in (engine, other):
        one.reset(inputs)
    last = engine.planned.launches[-1].kernel.name
    kept = engine.executor.functions[last]

    def failing(*_, **__):
        raise RuntimeError("too many resources requested for launch")

    engine.executor.functions[last] = failing
    with pytest.raises(RuntimeError, match="too many resources"):
        engine.run(2)
    engine.executor.functions[last] = kept
    assert len(other.run(2).supersteps) == 2
    engine.reset(inputs)
    assert len(engine.run(2).supersteps) == 2


def test_an_engine_that_got_no_memory_closes(emulated, monkeypatch):
    def full(*_, **__):
        raise MemoryError("the device is full")

    monkeypatch.setattr(cuda.DeviceMemory, "allocate", full)
    program, engine = program_named("own_aggregate"), cuda_engine("pull")
    with pytest.raises(MemoryError, match="full"):
        engine.prepare(program, edges_and_loops(), 3, emulated, Phases())
    engine.close()


def test_shared_memory_of_launches_is_requested(emulated, monkeypatch):
    """Any size must be requested: the usual 48 KiB also hold arrays that kernels declare themselves."""
    sizes = []
    monkeypatch.setattr(cuda, "allow_shared_memory", lambda _, size: sizes.append(size))
    engine = prepared("pull", program_named("tall_matrices"), edges_and_loops(), 41, emulated)
    plan = engine.planned
    assert sizes == [plan.shared_of(kernel) for kernel in plan.kernels if plan.shared_of(kernel)] != []
    assert max(sizes) < 48 << 10
    engine.close()


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize(
    ("schedule", "adds"), [("pull", 0), ("push", 6), ("changes-push", 6), ("tigr", 6), ("gunrock", 6), ("simdx", 0)]
)
def test_a_run_counts_its_launches_and_its_atomic_additions(schedule, adds, emulated, recorded):
    """A push adds a row of six along every edge that it visits."""
    algorithm, graph = Aggregation(supersteps=3), edges_and_loops()
    engine = prepared(schedule, trace(algorithm), graph, 6, emulated)
    engine.reset(algorithm.inputs(graph, 6))
    statistics = engine.run(3)
    found = engine.operations(statistics)
    # a fused kernel runs all supersteps in one launch, which is not recorded
    even, odd = (len(one._launches) for one in recorded) if recorded else (0, 1)
    assert found.launches == 2 * even + odd
    assert found.launches == 1 or even >= 2
    assert found.adds == adds * statistics.edges
    assert statistics.edges >= graph.num_edges
    engine.close()


def test_a_launch_that_does_not_wait_for_writes_of_the_host_is_found(emulated, monkeypatch):
    program, graph = program_named("own_aggregate"), edges_and_loops()
    with monkeypatch.context() as broken:
        broken.setattr(cuda.CudaExecutor, "wait", staticmethod(lambda: None))
        engine = prepared("pull", program, graph, 1, emulated)
        engine.reset(inputs_for(program, graph, 1))
        with pytest.raises(EmulationError, match="synchronize the device"):
            engine.run(1)
    engine.reset(inputs_for(program, graph, 1))
    assert engine.run(1).supersteps


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("algorithm", ["pagerank", "kcore", "als"])
@pytest.mark.parametrize(
    "schedule", ["pull", "changes-pull", "changes-push", "gunrock", "tigr", "simdx", "simdx-lists", "emogi-list"]
)
def test_a_run_of_several_parts_is_the_same(schedule, algorithm, emulated, monkeypatch):
    """Parts end where the host reads the records: after an odd number of supersteps, so that buffers have swapped."""
    given = algorithms()[algorithm]
    graph = given.prepare_graph(two_sides() if algorithm == "als" else edges_and_loops())
    features = 3 if algorithm == "als" else 1
    program, inputs, runs = trace(given), given.inputs(graph, features), []
    parts, begin = [], RunState.begin
    monkeypatch.setattr(RunState, "begin", lambda state, **part: (parts.append(part), begin(state, **part)))
    for most in (1 << 14, 3):
        monkeypatch.setattr(cuda, "MOST_SUPERSTEPS", most)
        engine = prepared(schedule, program, graph, features, emulated)
        parts.clear()
        engine.reset(inputs)
        done = engine.run(20)
        runs.append((done.supersteps, done.settled, done.transfers))
        outputs = {name: engine.values(name) for name in program.outputs}
        run = ReferenceRun(program, graph, features)
        run.reset(inputs)
        run.run(len(done.supersteps))
        found = compare(program, outputs, {name: run.values(name) for name in program.outputs})
        assert found.ok, found.detail
        engine.close()
    assert len(done.supersteps) > 3, "no run of several parts"
    assert [part["first"] for part in parts] == list(range(0, len(done.supersteps), 3))
    assert runs[0] == runs[1]
