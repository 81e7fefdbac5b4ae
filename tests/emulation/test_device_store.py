"""The store of a graph on a CUDA device: shared by executors, with places and loops that can be replaced."""

from __future__ import annotations

import gc
import itertools
import weakref

import numpy as np
import pytest

from harness.algorithms.als import ALS
from harness.contract import Phases
from harness.edge_places import Place
from harness.emulation.arrays import DeviceArray
from harness.graph import Graph
from harness.graph.generators import grid
from harness.language import Inputs, InvalidInput, K, trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.buffers import Order
from harness.lowering.cpu.host_store import HostStore
from harness.lowering.cuda import executor as cuda
from harness.lowering.cuda import memory
from harness.lowering.cuda.device_store import DeviceStore
from harness.lowering.cuda.edge_places import PLACES, ResidentEdges
from harness.lowering.cuda.ranges import Over
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine, plan_of
from tests.engines.programs import edges_and_loops, inputs_for, program_named, traced, two_sides
from tests.engines.test_cuda import prepared

SUPERSTEPS, FEATURES = 4, 3


def checked(run, program, graph, inputs):
    """Compare what a run has left with the reference."""
    reference = ReferenceRun(program, graph, FEATURES)
    reference.reset(inputs)
    reference.run(SUPERSTEPS)
    wanted = {name: reference.values(name) for name in program.outputs}
    found = compare(program, {name: run.values(name) for name in wanted}, wanted)
    assert found.ok, found.detail


def test_executors_on_one_graph_share_its_arrays(emulated):
    program, graph = program_named("own_aggregate"), edges_and_loops()
    inputs = inputs_for(program, graph, FEATURES)
    one, other = (prepared(schedule, program, graph, FEATURES, emulated) for schedule in ("pull", "pull-unfolded"))
    assert one.executor.store is other.executor.store
    shared = {name for name, array in one.executor.arrays.items() if array is other.executor.arrays.get(name)}
    assert shared == {buffer.name for buffer in one.planned.buffers if buffer.source is not None}
    assert {"in_offsets", "in_neighbours"} <= shared
    for engine in (one, other):
        engine.reset(inputs)
    one.run(SUPERSTEPS)
    one.close()
    other.run(SUPERSTEPS)
    checked(other, program, graph, inputs)
    third = prepared("pull", program, graph, FEATURES, emulated)
    assert third.executor.arrays["in_neighbours"] is other.executor.arrays["in_neighbours"]


def test_the_arrays_of_a_graph_live_as_long_as_executors_use_them(emulated):
    program, graph = program_named("own_aggregate"), edges_and_loops()
    one, other = (prepared(schedule, program, graph, FEATURES, emulated) for schedule in ("tigr", "tigr-short"))
    store, array = (weakref.ref(part) for part in (one.executor.store, one.executor.arrays["out_neighbours"]))
    gc.disable()  # nothing is left to the garbage collector
    try:
        one.close()
        assert store() is other.executor.store
        other.close()
        assert (store(), array()) == (None, None)
    finally:
        gc.enable()


@pytest.mark.parametrize("other", [grid(rows=4, columns=6), None], ids=["graph", "features"])
def test_a_plan_for_another_problem_is_not_prepared(emulated, other):
    program, graph = program_named("own_aggregate"), edges_and_loops()
    engine = cuda_engine("pull")
    built = (graph, FEATURES + 1) if other is None else (other, FEATURES)
    engine.build(program, *built, emulated, Phases())
    engine.prepare(program, graph, FEATURES, emulated, Phases())
    inputs = inputs_for(program, graph, FEATURES)
    engine.reset(inputs)
    engine.run(SUPERSTEPS)
    checked(engine, program, graph, inputs)


def test_an_engine_out_of_memory_releases_its_uploads(emulated, monkeypatch):
    program, graph = program_named("own_aggregate"), edges_and_loops()
    uploaded, array = [], DeviceStore.array

    def full(store, buffer):
        if len(uploaded) == 2:
            raise MemoryError("the device is full")
        found = array(store, buffer)
        uploaded.append(weakref.ref(found))
        return found

    monkeypatch.setattr(DeviceStore, "array", full)
    engine = cuda_engine("tigr")
    with pytest.raises(MemoryError, match="full") as failed:
        engine.prepare(program, graph, FEATURES, emulated, Phases())
    assert all(one() is not None for one in uploaded)
    engine.close()
    assert [one() for one in uploaded] == [None, None], "although the error refers to the executor"
    assert failed.tb is not None


@pytest.mark.parametrize("kind", [DeviceStore, HostStore])
def test_stores_differ_by_kind_graph_place_device_advice_and_packing(kind):
    """Each part of the request is changed by itself, and a store has what was requested."""
    graph, places = edges_and_loops(), [place for place in Place if place in kind.places()]
    first = {"graph": graph, "place": places[0], "device": 0, "advice": "", "packed": False}
    changes = [{}, {"graph": edges_and_loops.__wrapped__()}, {"device": 1}, {"device": 2}, {"packed": True}]
    changes += [{"advice": advice} for advice in ("preferred_host", "read_mostly")]
    changes += [{"place": place} for place in places[1:]]
    if Place.MANAGED in places:
        changes += [{"place": Place.MANAGED, "advice": advice} for advice in ("preferred_host", "read_mostly")]
        changes += [{"place": Place.MANAGED, "device": 1}, {"place": Place.MANAGED, "packed": True}]
    requests = [{**first, **change} for change in changes]
    stores = [kind.of(**request) for request in requests]
    assert len({id(store) for store in stores}) == len(stores)
    another = HostStore if kind is DeviceStore else DeviceStore
    for store, request in zip(stores, requests, strict=True):
        assert kind.of(**request) is store
        assert {name: getattr(store, name) for name in request} == request
        if request["place"] in another.places():
            assert type(another.of(**request)) is another


def test_engines_with_different_advice_use_different_edges_in_managed_memory(emulated, monkeypatch):
    program, graph = program_named("own_aggregate"), edges_and_loops()
    kind, options = SCHEDULES["pull"]
    engines = []
    for advice in ("none", "read_mostly", "none"):
        monkeypatch.setitem(SCHEDULES, "pull", (kind, {**options, "edges": "managed", "advice": advice}))
        engines.append(prepared("pull", program, graph, FEATURES, emulated))
    stores = [engine.executor.store for engine in engines]
    assert [store.advice for store in stores] == [engine.planned.advice for engine in engines]
    assert stores[0] is stores[2] is not stores[1]
    for engine in engines:
        engine.close()


def test_memory_is_required_only_for_what_the_store_lacks(emulated, monkeypatch):
    required = []
    monkeypatch.setattr(cuda, "require_memory", required.append)
    program, graph = program_named("own_aggregate"), edges_and_loops()
    engines = [prepared(schedule, program, graph, FEATURES, emulated) for schedule in ("pull", "pull")]
    plan = engines[0].planned
    of_graph = sum(buffer.nbytes for buffer in plan.buffers if buffer.source is not None)
    assert of_graph >= 4 * graph.num_edges
    assert required == [plan.bytes_needed, plan.bytes_needed - of_graph]
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("graph", [edges_and_loops, two_sides])
def test_edge_values_are_reordered_in_parts(graph, emulated, monkeypatch):
    """Values of one number, of features and of truth; the edges of the second graph pair."""
    monkeypatch.setattr(memory, "EDGES_AT_ONCE", 7)
    program, graph = program_named("edge_operations"), graph()
    engine = prepared("pull", program, graph, FEATURES, emulated)
    inputs = inputs_for(program, graph, FEATURES)
    engine.reset(inputs)
    held, layout = engine.executor.arrays, engine.planned.layout
    found = [one for one in engine.planned.buffers if one.order is Order.CSC and one.of in inputs.properties]
    assert {one.of for one in found} >= {"phi", "side", "mask", "pair"}
    for buffer in found:
        values = held[buffer.name].get()[: buffer.length].reshape(graph.num_edges, buffer.stride)
        given = inputs.properties[buffer.of].reshape(graph.num_edges, -1)[graph.csc.edge_ids]
        if len(program.properties[buffer.of].shape) < 2:
            np.testing.assert_array_equal(values[:, : given.shape[1]], given)
    assert layout.features == FEATURES
    engine.close()


def test_a_place_that_is_not_built_is_refused_by_name():
    with pytest.raises(
        NotImplementedError,
        match="place=sharded is planned; give one that is built: resident, mapped, managed, streamed",
    ):
        DeviceStore(edges_and_loops(), Place.SHARDED)


# what a place and a loop may replace ----------------------------------------------------------------------------------
class OneByOne:
    """Starts calls one by one, without recording them."""

    def __init__(self, calls):
        self.calls = calls

    def launch(self):
        for call in self.calls:
            call.start()


class InWindows(ResidentEdges):
    """Stores arrays in separate memory; launches over vertices run window by window and are not recorded."""

    writable = False

    def __init__(self):
        self.uploaded, self.made, self.windows = [], [], 0

    def upload(self, values):
        self.uploaded.append(super().upload(values))
        return self.uploaded[-1]

    def empty(self, length, dtype):
        self.made.append(super().empty(length, dtype))
        return self.made[-1]

    def device_bytes(self, buffers):
        return 0

    def replay(self, calls):
        return OneByOne([part for call in calls for part in self.cut(call)])

    def cut(self, call):
        takes = any(array is value for array in (*self.uploaded, *self.made) for value in call.arguments.values())
        if not takes or call.launch.over is not Over.VERTICES:
            return [call]
        first, last = call.bounds
        ends = [*range(first, last, 7), last]
        self.windows += len(ends) - 1
        return [call.between(*bounds) for bounds in itertools.pairwise(ends)]


def made(plan, store, **options):
    """Return an executor that is ready for a reset."""
    executor = cuda.CudaExecutor(plan, store, **options)
    executor.compile()
    executor.load()
    executor.allocate()
    return executor


@pytest.mark.parametrize(
    ("schedule", "name", "edge_arrays"),
    [("pull", "aggregate_rewritten", {"csc_weight"}), ("pull-loops", "several_reductions", {"csc_weight", "csc_kind"})],
)
def test_a_place_is_added_without_a_change_of_executors(schedule, name, edge_arrays, emulated, monkeypatch):
    monkeypatch.setitem(PLACES, Place.STREAMED, InWindows)
    required = []
    monkeypatch.setattr(cuda, "require_memory", required.append)
    program, graph = program_named(name), edges_and_loops()
    inputs, plan = inputs_for(program, graph, FEATURES), plan_of(cuda_engine(schedule), program, graph, FEATURES)
    store = DeviceStore(graph, Place.STREAMED)
    executor = made(plan, store)
    executor.reset(inputs, {})
    executor.run(SUPERSTEPS)
    checked(executor, program, graph, inputs)
    placed = {
        name
        for name, array in executor.arrays.items()
        if any(array is one for one in (*store.edges.uploaded, *store.edges.made))
    }
    assert placed == {buffer.name for buffer in plan.buffers if buffer.of_edges}
    assert placed == {"in_neighbours", *edge_arrays}
    assert store.edges.windows > SUPERSTEPS
    assert required == [sum(buffer.nbytes for buffer in plan.buffers if not buffer.of_edges)]


def test_another_loop_of_supersteps_can_take_the_place_of_the_usual_one(emulated):
    """The loop waits for each superstep, so that data may be exchanged between two of them."""
    queued = []

    def step_by_step(run, first, wanted):
        for number in range(first, wanted):
            run.superstep(number)
            run.stream.synchronize()
            queued.append(run.state.fields()["superstep"])

    program, graph = program_named("own_aggregate"), edges_and_loops()
    inputs, plan = inputs_for(program, graph, FEATURES), plan_of(cuda_engine("pull"), program, graph, FEATURES)
    executor = made(plan, DeviceStore(graph), loop=step_by_step)
    executor.reset(inputs, {})
    assert len(executor.run(SUPERSTEPS - 1).supersteps) == SUPERSTEPS - 1
    executor.run(1)
    assert queued == list(range(1, SUPERSTEPS + 1))
    checked(executor, program, graph, inputs)


@pytest.mark.parametrize("schedule", ["pull", "tigr", "simdx"])
def test_a_reset_with_the_same_inputs_uploads_no_array(emulated, monkeypatch, schedule):
    algorithm, graph = ALS(sides="all"), grid(rows=16, columns=16)
    program, graph = trace(algorithm), algorithm.prepare_graph(graph)
    inputs = algorithm.inputs(graph, FEATURES)  # no kernel reads "initial", from which "lf" starts
    engine = prepared(schedule, program, graph, FEATURES, emulated)
    uploaded, upload = [], DeviceArray.set

    def counted(array, values):
        uploaded.append(values.nbytes)
        upload(array, values)

    monkeypatch.setattr(DeviceArray, "set", counted)
    engine.reset(inputs)
    engine.run(SUPERSTEPS)
    first = sum(uploaded)
    uploaded.clear()
    engine.reset(inputs)
    engine.run(SUPERSTEPS)
    assert sum(uploaded) < 4 * graph.num_vertices < 4 * FEATURES * graph.num_vertices < first
    checked(engine, program, graph, inputs)


def test_what_an_engine_uploads_of_the_graph_is_computed_before_it_uses_the_device(emulated, monkeypatch):
    def late(*_):
        raise AssertionError("computed while the device is used")

    program, graph = program_named("own_aggregate"), edges_and_loops()
    engine = cuda_engine("tigr")
    engine.build(program, graph, FEATURES, emulated, Phases())
    monkeypatch.setattr(DeviceStore, "_values", late)
    engine.prepare(program, graph, FEATURES, emulated, Phases())
    inputs = inputs_for(program, graph, FEATURES)
    engine.reset(inputs)
    engine.run(SUPERSTEPS)
    checked(engine, program, graph, inputs)


def scaled(factor):
    """Return a program that sums a multiple of the values of neighbours; its name is the same for every factor."""

    def build(p, self):
        p.vertex("x0", K)
        p.vertex("x", K, start="x0")
        p.over_edges(into="heard", reduce="sum")(lambda src: factor * src.x)
        p.over_vertices(lambda v: {"x": v.heard})
        p.repeat(SUPERSTEPS)
        p.output("x", bound=1e-4)

    return traced(build, "scaled")


@pytest.mark.parametrize("differs", ["program", "graph", "features"])
def test_what_was_built_for_something_else_is_not_used(differs, emulated):
    programs = [scaled(factor) for factor in (0.25, 0.125)]
    graphs = [edges_and_loops(), Graph.from_edges([0, 1, 2], [1, 2, 0], num_vertices=24, name="edges and loops")]
    assert programs[0].name == programs[1].name
    engine = cuda_engine("pull")
    features = 1 if differs == "features" else FEATURES
    engine.build(programs[0], graphs[0], features, emulated, Phases())
    program, graph = programs[differs == "program"], graphs[differs == "graph"]
    inputs = inputs_for(program, graph, FEATURES)
    engine.prepare(program, graph, FEATURES, emulated, Phases())
    engine.reset(inputs)
    engine.run(SUPERSTEPS)
    checked(engine, program, graph, inputs)
    engine.close()


def test_an_engine_that_is_closed_twice_leaves_the_arrays_of_others(emulated):
    program = program_named("own_aggregate")
    graph = Graph.from_edges([0, 1, 2], [1, 2, 0], num_vertices=24, name="its own")
    engine = cuda_engine("tigr")
    engine.prepare(program, graph, FEATURES, emulated, Phases())
    executor, store = engine.executor, engine.executor.store
    store.attach()  # of another engine on the same graph
    assert (held := len(store._arrays))
    for _ in range(2):
        executor.close()
        assert len(store._arrays) == held
    store.detach()
    assert not store._arrays
    engine.close()


def two_inputs(p, self):
    """Sum one input of vertices, weighted by one of edges and a state that starts from another input."""
    p.vertex("a", K)
    p.vertex("b", K)
    p.edge("c")
    p.vertex("x", K, start="b")
    p.over_edges(into="heard", reduce="sum")(lambda src, edge: edge.c * src.a * src.x)
    p.over_vertices(lambda v: {"x": 0.5 * v.heard + v.b})
    p.repeat(SUPERSTEPS)
    p.output("x", bound=1e-5)


@pytest.mark.parametrize("bad", ["a", "b", "c", "state"])
@pytest.mark.parametrize("schedule", ["pull", "push", "tigr", "simdx", "emogi"])
def test_a_reset_after_one_that_failed_uses_its_own_inputs(emulated, schedule, bad):
    """Each input in turn is misshapen, or the state is, while all others are changed."""
    program, graph = traced(two_inputs, "two_inputs"), edges_and_loops()
    first, other = (inputs_for(program, graph, FEATURES, seed) for seed in (0, 1))
    wrong = {name: values[:-1] if name == bad else values for name, values in other.properties.items()}
    state = {"x": np.zeros((graph.num_vertices - 1, FEATURES), np.float32)} if bad == "state" else None
    engine = prepared(schedule, program, graph, FEATURES, emulated)
    for inputs in (first, other):
        engine.reset(inputs)
        with pytest.raises((InvalidInput, ValueError)):
            engine.reset(Inputs(wrong, other.parameters), state)
        engine.reset(inputs)
        engine.run(SUPERSTEPS)
        checked(engine, program, graph, inputs)
    engine.close()
