"""Plans on the CPU: pure functions of facts, equal for equal facts, and sufficient for an executor."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import weakref

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from harness.conformance.matrix import schedules
from harness.contract import Device, No, Phases, RunStatistics, Superstep, Yes
from harness.edge_places import Place
from harness.facts import Degrees, DeviceFacts, GraphFacts
from harness.language import trace
from harness.lowering.buffers import Holds
from harness.lowering.cpu import executor, movement
from harness.lowering.cpu.flags import blocks_of
from harness.lowering.cpu.host_store import HostStore
from harness.lowering.cpu.policy import CpuPolicy
from harness.lowering.cpu.tables import Owned, SideParts, SourceParts
from harness.lowering.graph_store import Structure
from harness.per_device import PerDevice
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.problems import ALGORITHMS, IN_PLACE, SPECS, STRATEGIES, new_engine, problem, program, small
from tests.engines.programs import PROGRAMS, program_named, traced

NAMES = [*ALGORITHMS, *IN_PLACE, *PROGRAMS, *EDGE_PROGRAMS]
GENERATING = ("onyx", "gunrock", "tigr", "simdx")
PLANNING = (*GENERATING, "emogi", "scaph", "lonestar")
PLACED = [(name, (("edges", edges),)) for name in GENERATING for edges in ("mapped", "streamed", "managed")]
SCHEDULES = [
    *((name, tuple(options.items())) for name in PLANNING for options in schedules(SPECS[name])),
    *PLACED, ("emogi", (("edges", "managed"),)), ("onyx", (("persistent", True),)),
]  # fmt: skip
EVERY_EDGE_PAIRS = GraphFacts(
    1000, 9000, 3000, Degrees(((6, 999), (3006, 1))), Degrees(((6, 999), (3006, 1))), (400, 600), paired=True
)


# Options that may stay None: they have no meaning for the program or beside the other options, or their value is known
# only once kernels are loaded or batches are formed.
OF_ORDERS = {"writes": ("hogwild",), "hand_over": ("el", "hybrid", "owner")}  # options with a meaning there only
LEFT_OPEN = {
    "onyx": {"hooking", "order", "order_reason", "order_estimates", "delta", "solver", "solved", "tune", "tune_s",
             "tried"},
    "gunrock": {"order", "delta", "solved"},
    "simdx": {"filter", "bin_size", "pull_share", "resident_blocks", "order", "delta", "solved"},
    "scaph": {"extract_threads"}, "lonestar": {"shuffle", "hub", "blocks", "barrier", "workers", "estimates", "basis",
                                               "tune", "tune_s", "tried", "trial_s"},
}  # fmt: skip


def unresolved(engine, plan, device):
    """Return the options that have a meaning on the device and are not resolved."""
    schedule = plan.schedule
    found = {field.name for field in dataclasses.fields(schedule) if getattr(schedule, field.name) is None}
    edges = getattr(schedule, "edges", "resident")
    found -= {"share_by"} if getattr(schedule, "direction", "") != "adaptive" else set()
    found -= {"codes", "window_mb"} if edges != "streamed" else set()
    if engine == "lonestar":
        found -= {name for name, orders in OF_ORDERS.items() if schedule.order not in orders}
    found -= {"advice"} if edges != "managed" else set()
    found -= {"cache_mb", "kept_share", "panel"}  # None: no cache, all pages stay, and all features at once
    if device == "cpu":
        found -= {*getattr(schedule, "GPU_ONLY", ()), "feature_aware"}
    return found - LEFT_OPEN.get(engine, set())


@functools.cache
def example(name):
    """Return the traced program of an algorithm or of an example."""
    if name in ALGORITHMS:
        return program(name)
    if name in IN_PLACE:
        return trace(IN_PLACE[name])
    return program_named(name) if name in PROGRAMS else traced(EDGE_PROGRAMS[name][0], name)


def engine_of_the_cpu(name, options):
    engine = new_engine(name, dict(options))
    return engine.on(Device("cpu")) if isinstance(engine, PerDevice) else engine


def planned(name, options, example_name, graph=EVERY_EDGE_PAIRS, features=3, threads=2):
    engine = engine_of_the_cpu(name, options)
    return engine.plan(example(example_name), graph, features, DeviceFacts("cpu", threads))


@pytest.mark.parametrize("name", NAMES)
def test_every_program_is_planned_from_facts_under_every_schedule(name):
    """Without a graph, and hence without arrays."""
    plans = [planned(engine, options, name) for engine, options in SCHEDULES]
    assert all(plan.reason for plan in plans if isinstance(plan, No))
    found = [plan for plan in plans if not isinstance(plan, No)]
    assert found
    for (engine, _), plan in zip(SCHEDULES, plans, strict=True):
        assert isinstance(plan, No) or unresolved(engine, plan, "cpu") == set()
    for plan in found:
        assert plan.passes
        made = [buffer.name for buffer in plan.buffers]
        assert len(made) == len(set(made))
        assert len(plan.kernels) == len({kernel.name for kernel in plan.kernels})
        assert {f"vertex_{into}" for into, _ in plan.rules.reductions} <= set(made)


FACTS = st.builds(
    lambda degree, count, sides, paired, loops: GraphFacts(
        count, degree * count, degree, Degrees(((degree, count),)), Degrees(((degree, count),)),
        (count // 2, count - count // 2) if sides else None, paired, loops and not sides, sides and not paired,
    ),
    st.integers(0, 2000), st.integers(1, 2**33), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip


@settings(max_examples=60)
@given(st.sampled_from(NAMES), st.sampled_from(SCHEDULES), FACTS, st.integers(1, 100), st.integers(1, 64))
def test_planning_twice_gives_equal_plans_and_changes_nothing_else(name, schedule, graph, features, threads):
    traced_, device = example(name), DeviceFacts("cpu", threads)
    engine = engine_of_the_cpu(*schedule)
    given_ = traced_.serialise(), dict(traced_.parameters), engine.schedule, graph, device
    before = copy.deepcopy((*given_, vars(engine)))
    first = engine.plan(traced_, graph, features, device)
    assert first == engine.plan(traced_, graph, features, device)
    assert (traced_.serialise(), dict(traced_.parameters), engine.schedule, graph, device, vars(engine)) == before
    if not isinstance(first, No):
        again = dataclasses.replace(first, schedule=None)
        assert again != first
        assert planned(*schedule, name, graph, features, threads + 1) != first


@pytest.mark.parametrize("name", GENERATING)
def test_plans_receive_the_constants_of_runs(name):
    engine, usual = engine_of_the_cpu(name, {}), planned(name, {}, "pagerank")
    assert usual.rules.policy == CpuPolicy()
    engine.runs = CpuPolicy(few=0, rebuild_share=0.5, smallest_part=16)
    other = engine.plan(program("pagerank"), EVERY_EDGE_PAIRS, 3, DeviceFacts("cpu", 2))
    assert other.rules.policy == engine.runs
    assert other != usual
    parts = [{table for table in plan.tables if isinstance(table, (SideParts, SourceParts))} for plan in (usual, other)]
    assert parts[0].isdisjoint(parts[1]), "a store that both share gives each its own parts"
    assert other.source == usual.source


@pytest.mark.parametrize("name", GENERATING)
def test_asking_for_support_leaves_the_plan_of_an_engine(name):
    engine, device = engine_of_the_cpu(name, {}), Device(threads=2)
    engine.generate(program("pagerank"), small("rmat"), 3, device)
    before, text = dict(vars(engine)), engine.explain()
    for features, graph in ((5, "rmat"), (3, "hub"), (0, "hub")):
        engine.supports(program("sssp"), small(graph), features, device)
    assert vars(engine) == before
    assert engine.explain() == text


@pytest.fixture
def uncompiled(monkeypatch):
    """Return kernels that do nothing."""
    for module in (executor, movement):
        monkeypatch.setattr(module, "compiled", lambda kernel: lambda *_: 0)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("strategy", ["pull", "pull-all", "push", "push-all", "gunrock", "tigr", "simdx"])
@pytest.mark.parametrize(("algorithm", "graph_name"), [("pagerank", "hub"), ("belief_propagation_edge", "network")])
def test_a_plan_counts_the_bytes_of_an_executor(strategy, algorithm, graph_name):
    """Tables may be smaller than planned: their lengths depend on where edges lead."""
    name, options = STRATEGIES[strategy]
    graph, inputs = problem(algorithm, graph_name, 3)
    engine = engine_of_the_cpu(name, options)
    answer = engine.supports(program(algorithm), graph, 3, Device(threads=2))
    assert isinstance(answer, Yes)
    engine.prepare(program(algorithm), graph, 3, Device(threads=2), Phases())
    engine.reset(inputs)
    memory, plan = engine.executor.memory, engine.planned
    named = [buffer.name for buffer in plan.buffers]
    named += [blocks_of(buffer.name) for buffer in plan.buffers if buffer.two_levels]
    buffers = sum(memory.arrays[name].nbytes for name in named)
    tables = sum(table.nbytes(graph.facts) for table in plan.tables)
    assert answer.bytes_needed == buffers + tables
    of_graph = [graph.csr.offsets, graph.csr.neighbours, graph.csc.offsets, graph.csc.neighbours, graph.csc.edge_ids]
    others = [array for name, array in memory.arrays.items() if name not in named]
    assert sum(a.nbytes for a in others if not any(a is one for one in of_graph)) <= tables


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", GENERATING)
def test_closing_an_engine_drops_its_arrays_and_tables_at_once(name):
    graph, inputs = problem("pagerank", "scattered", 4)
    engine = engine_of_the_cpu(name, {"direction": "push"} if name == "onyx" else {})
    engine.prepare(program("pagerank"), graph, 4, Device(threads=2), Phases())
    engine.reset(inputs)
    engine.run(2)
    dropped = [weakref.ref(engine.executor.store), weakref.ref(engine.executor.memory)]
    gc.disable()  # nothing is left to the garbage collector
    try:
        engine.close()
        assert [one() for one in dropped] == [None, None]
    finally:
        gc.enable()


@pytest.mark.usefixtures("uncompiled")
def test_a_reset_clears_the_flags_of_the_previous_run():
    graph, inputs = problem("pagerank", "scattered", 4)
    engine = engine_of_the_cpu("onyx", {"change_driven": True})
    engine.prepare(program("pagerank"), graph, 4, Device(threads=1), Phases())
    memory = engine.executor.memory
    flags = [buffer for buffer in memory.buffers if buffer.two_levels]
    assert {flag.holds for flag in flags} == {Holds.DIRTY, Holds.ACTIVE, Holds.FRESH}
    for flag in flags:
        memory.set_flags(flag.name, not flag.start)
    engine.reset(inputs)
    for flag in flags:
        assert (memory.arrays[flag.name] == flag.start).all()
        assert (memory.arrays[blocks_of(flag.name)] == flag.start).all()


# the store and the loop -----------------------------------------------------------------------------------------------
def test_executors_on_one_store_share_its_tables():
    store = HostStore(small("hub"))
    assert store.table(Owned(2)) is store.table(Owned(2))
    assert store.table(Owned(2)) is not store.table(Owned(3))
    assert store.structure(Structure.OUT_NEIGHBOURS) is small("hub").csr.neighbours


@pytest.mark.usefixtures("uncompiled")
def test_engines_on_one_graph_share_its_store():
    graph, _ = problem("pagerank", "scattered", 4)
    engines = [engine_of_the_cpu(name, {}) for name in ("onyx", "gunrock")]
    for engine in engines:
        engine.prepare(program("pagerank"), graph, 4, Device(threads=2), Phases())
    assert engines[0].executor.store is engines[1].executor.store


@pytest.mark.parametrize("place", [Place.MANAGED, Place.SHARDED])
def test_places_that_are_not_built_are_refused_by_name(place):
    with pytest.raises(NotImplementedError, match=f"place={place.value}"):
        HostStore(small("hub"), place)


@pytest.mark.usefixtures("uncompiled")
def test_another_loop_of_supersteps_can_take_the_place_of_the_usual_one():
    graph, _ = problem("pagerank", "scattered", 4)
    plan = planned("onyx", {}, "pagerank", graph.facts, 4)

    def loop(run, steps, measured, max_supersteps):
        assert len(steps) == len(plan.passes)
        return RunStatistics(settled=False, supersteps=[Superstep(run.threads, 0, "dense")] * max_supersteps)

    found = executor.CpuExecutor(plan, HostStore(graph), Phases(), loop).run(3)
    assert found.supersteps == [Superstep(2, 0, "dense")] * 3
