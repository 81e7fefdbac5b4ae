"""The arrays of runs on the CPU: what a reset gives them, where edges are, and which phases of time it takes."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from harness.contract import Device, Phases
from harness.edge_places import Place
from harness.facts import Degrees, GraphFacts
from harness.language import Inputs
from harness.language.program import EdgeUpdate
from harness.lowering.buffers import Holds, Order
from harness.lowering.cpu import executor, memory, movement
from harness.lowering.cpu.engine import usable_threads
from harness.lowering.cpu.flags import blocks_of
from harness.lowering.cpu.host_store import HostStore
from harness.lowering.cpu.memory import Memory
from harness.lowering.cpu.plan import CpuPlan
from harness.lowering.cpu.sent_edges import SentEdges
from harness.lowering.layout import Layout
from harness.per_device import PerDevice
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.problems import ALGORITHMS, new_engine, problem, program
from tests.engines.programs import edges_and_loops, inputs_for, traced
from tests.lowering.test_cpu_plan import example, planned

LARGE = [{"edges": "mapped"}, {"edges": "streamed", "window_mb": 0.1}]  # for the largest vertices of facts
FILES = [{"edges": "mapped"}, {"edges": "streamed", "window_mb": 0.004}]
PACKED = {"edges": "streamed", "window_mb": 0.004, "codes": "packed"}


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    """Return kernels that do nothing."""
    for module in (executor, movement):
        monkeypatch.setattr(module, "compiled", lambda kernel: lambda *_: 0)


def prepared(options, traced_program, graph, features, phases=None):
    """Return the engine of the CPU with its arrays allocated."""
    engine = new_engine("onyx", options)
    engine.prepare(traced_program, graph, features, Device(threads=1), phases or Phases())
    return engine.prepared if isinstance(engine, PerDevice) else engine


def test_an_engine_has_the_threads_that_it_is_given_and_no_more_than_numba_has(monkeypatch):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 4)
    assert [usable_threads(Device(threads=threads)) for threads in (1, 3, 4, 5)] == [1, 3, 4, 4]


def test_a_property_has_a_value_for_each_vertex_or_edge_or_one_for_the_graph():
    facts = GraphFacts(7, 11, 3)
    assert [order.rows(facts) for order in (Order.VERTEX, Order.CSR, Order.CSC, Order.GRAPH)] == [7, 11, 11, 1]


@pytest.mark.parametrize("options", [{}, *FILES, PACKED], ids=["resident", "mapped", "streamed", "packed"])
def test_phases_are_those_of_the_place_of_the_edges(options):
    graph, inputs = problem("pagerank", "rmat", 3)
    phases = Phases()
    engine = prepared(options, program("pagerank"), graph, 3, phases)
    assert set(phases.seconds) == {"lower", "transform", "compile", "upload"} | (
        {"pack_ids"} if options is PACKED else set()
    )
    store = engine.executor.store
    assert (store.place.value, store.packed) == (options.get("edges", "resident"), options is PACKED)
    engine.reset(inputs)


@pytest.mark.parametrize("options", [{}, *LARGE], ids=["resident", "mapped", "streamed"])
def test_plans_state_where_edges_are_if_they_are_in_files(options):
    plan = planned("onyx", options, "sssp")
    assert isinstance(plan, CpuPlan)
    in_files = plan.place is not Place.RESIDENT
    assert in_files == bool(options)
    assert ("from files" in plan.text) == in_files
    assert "packed" not in plan.text


@pytest.mark.parametrize("place", [{}, *LARGE], ids=["resident", "mapped", "streamed"])
@pytest.mark.parametrize("name", ["sssp", "both ends"])
def test_edges_in_files_need_no_memory(name, place):
    """64 times as many edges in a graph of as many vertices, of which none has more edges than before."""
    options, degrees = {**place, "direction": "pull", "change_driven": False}, Degrees(((200, 1000),))
    plans = [
        planned("onyx", options, name, GraphFacts(1000, edges, 200, degrees, degrees, paired=True))
        for edges in (20_000, 64 * 20_000)
    ]
    if name == "both ends" and place.get("edges") == "streamed":
        assert all("only edges that do not change stream" in plan.reason for plan in plans)
        return
    more = plans[1].bytes_needed - plans[0].bytes_needed
    of_edges = {("sssp", ""): 4, ("both ends", ""): 4 + 2 * 12, ("both ends", "mapped"): 2 * 12}
    assert more == 63 * 20_000 * of_edges.get((name, place.get("edges", "")), 0)


def test_given_parameters_replace_those_of_the_program():
    graph, inputs = problem("pagerank", "rmat", 3)
    engine = prepared({}, program("pagerank"), graph, 3)
    names = list(program("pagerank").parameters)
    for value in (0.25, 0.75):
        engine.reset(Inputs(inputs.properties, {names[-1]: value}))
        wanted = {**program("pagerank").parameters, names[-1]: value}
        found = engine.executor.memory.arrays["parameters"]
        np.testing.assert_array_equal(found, np.array([wanted[name] for name in names], np.float32))


@pytest.mark.parametrize("options", [{}, {"edges": "mapped"}], ids=["resident", "mapped"])
@pytest.mark.parametrize("direction", ["pull", "push"])
def test_edge_values_are_in_the_order_of_their_kernels(options, direction, monkeypatch):
    """Rows of several features, of which few are packed at once on their way to a file."""
    monkeypatch.setattr(memory, "EDGES_AT_ONCE", 7)

    def rows_of_edges(p, self):
        p.edge("given", 3)
        p.vertex("x", 3, start=0.0)
        p.over_edges(into="got", reduce="sum")(lambda edge: edge.given)
        p.over_vertices(lambda v: {"x": v.got})
        p.repeat(1)
        p.output("x", bound=1e-5)

    traced_program, graph = traced(rows_of_edges, "rows of edges"), edges_and_loops()
    given = np.random.default_rng(1).random((graph.num_edges, 3)).astype(np.float32)
    engine = prepared({**options, "direction": direction, "change_driven": False}, traced_program, graph, 2)
    arrays = engine.executor.memory
    for factor in (1.0, 2.0):
        engine.reset(Inputs({"given": factor * given}))
        (buffer,) = (one for one in arrays.holding(Holds.PROPERTY) if one.of == "given")
        assert buffer.order is (Order.CSC if direction == "pull" else Order.CSR)
        wanted = factor * (given[graph.csc.edge_ids] if direction == "pull" else given)
        np.testing.assert_array_equal(Layout(2).unpack(arrays.arrays[buffer.name], (3,)), wanted)
        np.testing.assert_array_equal(arrays.values("given"), factor * given)


def test_a_run_that_begins_with_few_vertices_counts_each_once():
    graph, inputs = problem("pagerank", "rmat", 1)
    engine = prepared({"change_driven": True, "direction": "push"}, program("pagerank"), graph, 1)
    engine.reset(inputs)
    assert engine.executor.run_state.active == graph.num_vertices
    stale, senders = (np.isin(np.arange(graph.num_vertices), chosen) for chosen in ((3, 5), (5, 6, 9)))
    engine.executor.run_state.begin_with(stale, senders)
    run = engine.executor.run_state
    assert (run.active, run.narrowed, run.superstep_index) == (4, True, 0)
    for buffer in run.memory.holding(Holds.DIRTY, Holds.ACTIVE):
        wanted = stale if buffer.holds is Holds.DIRTY else senders
        np.testing.assert_array_equal(run.memory.arrays[buffer.name], wanted)
    for buffer in run.memory.holding(Holds.KEPT):
        assert not run.memory.arrays[buffer.name].any()


@pytest.mark.parametrize("name", [*ALGORITHMS, "both ends", "mixed updates"])
def test_flags_of_edges_are_in_plans_whose_edges_change(name):
    """Without them, moved edges are sent only with their sources."""
    plan = planned("onyx", {"direction": "push", "change_driven": True}, name)
    changing = any(isinstance(stage, EdgeUpdate) for stage in example(name).stages)
    if isinstance(plan, CpuPlan):
        assert bool([one for one in plan.buffers if one.holds in (Holds.MOVED, Holds.ROWS)]) == changing
        lengths = {one.length for one in plan.buffers if one.holds is Holds.MOVED}
        assert lengths <= {plan.rules.graph.num_edges}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_pull_keeps_propagated_values_only_for_a_tolerance(name):
    """Without one, every change is propagated, and no second copy of the vertices is needed."""
    plan = planned("onyx", {"direction": "pull", "change_driven": True}, name)
    updates = any(isinstance(stage, EdgeUpdate) for stage in example(name).stages)
    if isinstance(plan, CpuPlan) and not updates:
        sent = [one for one in plan.buffers if one.holds is Holds.SENT]
        assert bool(sent) == (example(name).control.tolerance is not None)
        assert not any("sent_" in kernel.source for kernel in plan.kernels) or sent


def test_a_full_superstep_propagates_all_edges_with_their_values():
    update, graph, _ = EDGE_PROGRAMS["mixed updates"]
    traced_program = traced(update, "mixed updates")
    engine = prepared({"direction": "push", "change_driven": True}, traced_program, graph(), 3)
    engine.reset(inputs_for(traced_program, graph(), 3))
    run, sent = engine.executor.run_state, SentEdges("gather", ("flow",))
    arrays = run.memory.arrays
    arrays["csr_flow"][:] = np.arange(3 * graph().num_edges)
    arrays[sent.changed][:] = True
    run.memory.set_flags(sent.rows, True)
    sent.all_propagated(run)
    assert not arrays[sent.changed].any()
    assert not arrays[sent.rows].any()
    np.testing.assert_array_equal(arrays["sent_gather_flow"], np.arange(3 * graph().num_edges))


def test_only_flags_have_a_second_level():
    graph, inputs = problem("pagerank", "rmat", 2)
    engine = prepared({"change_driven": True, "direction": "push"}, program("pagerank"), graph, 2)
    engine.reset(inputs)
    held = engine.executor.memory
    for buffer in held.buffers:
        assert (blocks_of(buffer.name) in held.arrays) == buffer.two_levels
        if buffer.start is not None:
            assert (held.arrays[buffer.name] == buffer.start).all()
    assert isinstance(held, Memory)
    assert isinstance(engine.executor.store, HostStore)
