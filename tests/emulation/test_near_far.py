"""Near-far on the emulated device: its kernel gives the values of supersteps."""

from __future__ import annotations

import gc
import re
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from engines.onyx.engine import OnyxEngine
from engines.onyx.schedule import OnyxSchedule
from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx.engine import SimdxEngine
from engines.pushbaseline.gunrock.engine import GunrockEngine
from engines.pushbaseline.schedules import GunrockSchedule
from harness.contract import No, Phases, Yes
from harness.device.compilation import Compiled
from harness.emulation import arrays
from harness.emulation.arrays import DeviceArray
from harness.emulation.compiler import library
from harness.graph import Graph
from harness.language import Inputs, K, maximum, minimum
from harness.lowering.cuda import near_far
from tests.emulation.device import ATTRIBUTES, emulate
from tests.engines.near_far import GRAPHS, PROGRAMS, by_supersteps, check, run, runs_again, scattered, starts
from tests.engines.programs import traced

STEPS = GunrockEngine(GunrockSchedule(order="near_far", delta=3.0))


def emulate_near_far(monkeypatch, *, racing=False, blocks=1):
    """Have the kernels of near-far run on the emulated device, with small blocks and pieces."""

    def made(source, headers, _):
        return Compiled(str(library(source, headers, racing=racing, concurrent=blocks > 1)).encode(), "")

    monkeypatch.setattr(near_far, "compiled", made)
    monkeypatch.setattr(near_far, "architecture", lambda _: "sm_90")
    attributes = {**ATTRIBUTES, "MultiProcessorCount": blocks}
    monkeypatch.setattr(near_far, "open_device", lambda _: SimpleNamespace(attributes=attributes))
    monkeypatch.setattr(near_far, "require_memory", lambda _: None)
    monkeypatch.setattr(near_far, "BLOCK", 64)
    monkeypatch.setattr(near_far, "LONG", 40)


@pytest.fixture
def emulated_near_far(emulated, monkeypatch):
    """Return the emulated device, for the kernels of near-far, too."""
    emulate_near_far(monkeypatch)
    return emulated


@pytest.mark.parametrize("name", ["scattered", "hub", "roads"])
@pytest.mark.parametrize("style", [OnyxEngine(OnyxSchedule(order="near_far", delta=3.0)), STEPS])
def test_no_threads_race(name, style, emulated, monkeypatch):
    device = emulate(monkeypatch, racing=True)
    emulate_near_far(monkeypatch, racing=True)
    check(style, "lengths", GRAPHS[name](), 2, device)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("program", "features"), [("lengths", 1), ("lengths", 3), ("smallest edge", 2)])
def test_the_kernel_gives_the_values_of_supersteps(name, program, features, emulated_near_far):
    check(OnyxEngine(OnyxSchedule(order="near_far")), program, GRAPHS[name](), features, emulated_near_far)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("program", "features"), [("lengths", 2), ("smallest edge", 1)])
def test_launches_of_single_steps_give_the_same(name, program, features, emulated_near_far):
    check(GunrockEngine(GunrockSchedule(order="near_far")), program, GRAPHS[name](), features, emulated_near_far)


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(
    "sizes", [{}, {"SHORT": 200, "MOST_EDGES": 30}, {"SHORT": 200, "MOST_EDGES": 30, "MOST_SHORT": 1}], ids=str
)
@pytest.mark.parametrize("delta", [3.0, 1e30])
@pytest.mark.parametrize("name", ["scattered", "skewed", "roads", "hub"])
def test_blocks_that_run_at_the_same_time_give_the_values_of_supersteps(name, delta, sizes, emulated, monkeypatch):
    emulate_near_far(monkeypatch, blocks=3)
    with_sizes(monkeypatch, **sizes)
    check(OnyxEngine(OnyxSchedule(order="near_far", delta=delta)), "lengths", GRAPHS[name](), 2, emulated)


def test_launches_of_single_steps_do_the_work_of_one_launch(emulated_near_far):
    graph = GRAPHS["roads"]()
    one, many = (
        check(engine, "lengths", graph, 1, emulated_near_far)
        for engine in (
            SimdxEngine(SimdxSchedule(order="near_far", delta=4.0)),
            GunrockEngine(GunrockSchedule(order="near_far", delta=4.0)),
        )
    )
    assert one == many
    assert one["supersteps"] > 8


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name not in ("lengths", "smallest edge")])
def test_other_messages(program, emulated_near_far):
    check(OnyxEngine(OnyxSchedule(order="near_far")), program, scattered(8), 2, emulated_near_far)


@pytest.mark.parametrize("delta", [0.25, 3.0, 1e30])
@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_with_any_delta(seed, delta, emulated_near_far):
    graph = scattered(seed, vertices=60, edges=240)
    check(OnyxEngine(OnyxSchedule(order="near_far", delta=delta)), "lengths", graph, 2, emulated_near_far, seed)


def test_a_small_delta_visits_fewer_edges(emulated_near_far):
    roads = GRAPHS["roads"]()
    narrow, wide = (
        check(OnyxEngine(OnyxSchedule(order="near_far", delta=delta)), "lengths", roads, 1, emulated_near_far)
        for delta in (1.0, 1e30)
    )
    assert narrow["edges"] < wide["edges"]
    assert narrow["thresholds"] > wide["thresholds"] == 1


@pytest.mark.parametrize("style", [OnyxEngine(OnyxSchedule(order="near_far", delta=2.0)), STEPS])
def test_a_hub_that_ends_a_threshold_sends_once(style, emulated_near_far):
    """Its edges are cut into pieces in the last superstep before its neighbours' threshold."""
    leaves = np.arange(2, 302)
    graph = Graph.from_edges(
        np.r_[0, np.ones(300, int), leaves], np.r_[1, leaves, np.full(300, 302)], num_vertices=303, name="late hub",
        weights=np.r_[1.0, np.full(300, 10.0), np.full(300, 50.0)],
    )  # fmt: skip
    style.prepare(program := PROGRAMS["lengths"], graph, 1, emulated_near_far, Phases())
    own = np.full((303, 1), np.inf, np.float32)
    own[0] = 0.0
    style.reset(Inputs({"own": own}, dict(program.parameters)))
    assert style.run(1).settled
    assert style.values("x").ravel().tolist() == [0.0, 1.0, *300 * [11.0], 61.0]
    assert dict(style.resolved_options()["solved"])["edges"] == graph.num_edges, "every vertex sends once"
    style.close()


def with_sizes(monkeypatch, **sizes):
    """Have the source of the kernels define constants with other values."""
    text = near_far.NearFarCudaEngine.source

    def source(engine):
        found = text(engine)
        for name, size in sizes.items():
            found, times = re.subn(rf"(#define {name} |constexpr Item {name} = )[^;\n]*", rf"\g<1>{size}", found)
            assert times == 1, name
        return found

    monkeypatch.setattr(near_far.NearFarCudaEngine, "source", source)


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("delta", [3.0, 1e30])
@pytest.mark.parametrize("name", ["hub", "skewed", "roads", "scattered"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"ROOM": 3, "SHORT": 2},  # full collections
        {"MOST_EDGES": 30},  # items whose edges are left for all blocks
        {"SHORT": 3, "MOST_SHORT": 2},  # other blocks have waited long enough
        {"SHORT": 0},
        {"SHORT": 1000},
    ],
    ids=str,
)
def test_other_sizes_give_the_values_of_supersteps(sizes, name, delta, emulated_near_far, monkeypatch):
    with_sizes(monkeypatch, **sizes)
    check(OnyxEngine(OnyxSchedule(order="near_far", delta=delta)), "lengths", GRAPHS[name](), 2, emulated_near_far)


def hubs_in_a_row(hubs=6, leaves=30):
    """Return a graph in which each hub sends to leaves, and these to the next hub."""
    hub = np.arange(hubs) * (leaves + 1)
    leaf = (hub[:, None] + np.arange(1, leaves + 1)).ravel()
    sources, targets = np.r_[np.repeat(hub, leaves), leaf], np.r_[leaf, np.repeat(hub + leaves + 1, leaves)]
    return Graph.from_edges(sources, targets, num_vertices=hubs * (leaves + 1) + 1, name="hubs in a row")


def barriers_of(graph, device):
    """Return the global barriers and the supersteps of a search from vertex 0."""
    engine, program = OnyxEngine(OnyxSchedule(order="near_far")), PROGRAMS["hops"]
    engine.prepare(program, graph, 1, device, Phases())
    own = np.full((graph.num_vertices, 1), np.inf, np.float32)
    own[0] = 0.0
    engine.reset(Inputs({"own": own}, dict(program.parameters)))
    engine.run(1)
    passed = int(engine.on(device)._lock.get()[0])
    supersteps = dict(engine.resolved_options()["solved"])["supersteps"]
    engine.close()
    return passed, supersteps


def test_short_lists_need_no_global_barrier_until_other_blocks_have_waited_long_enough(emulated_near_far, monkeypatch):
    graph, found = hubs_in_a_row(), {}
    for sizes in ({"SHORT": 0}, {}, {"MOST_SHORT": 4}, {"MOST_EDGES": 29}):
        with monkeypatch.context() as changed:
            with_sizes(changed, **sizes)
            found[str(sizes)] = barriers_of(graph, emulated_near_far)
    each, few, parts, left = found.values()
    begun = 3  # barriers before the near list sends
    assert each == (begun + 13, 13), "one for each superstep"
    assert few == (begun + 1, 13)
    assert parts == (begun + 4, 13)
    assert left == (begun + 6 + 6 + 1, 13 + 6), "each hub is left for the next superstep, of all blocks"


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("program", ["hops", "copies"])
def test_short_lists_do_the_work_of_others(name, program, emulated_near_far, monkeypatch):
    """Each superstep sends the same list, whether one block sends it or all of them."""
    graph, found = GRAPHS[name](), []
    for short in (0, 1, 7, 1000):
        with monkeypatch.context() as changed:
            with_sizes(changed, SHORT=short, MOST_EDGES=1 << 20)  # no items are left for all blocks
            found.append(check(OnyxEngine(OnyxSchedule(order="near_far")), program, graph, 1, emulated_near_far))
    assert all(other == found[0] for other in found), found


def test_items_for_which_the_warps_have_no_place_are_sent_by_their_lanes(emulated_near_far, monkeypatch):
    """A short list has a hundred vertices of 20 edges each, of which warps share those of some."""
    middle = 1 + np.arange(100)
    ends = np.concatenate([middle, 101 + np.arange(2000)])
    graph = Graph.from_edges(np.concatenate([np.zeros(100, np.int64), np.repeat(middle, 20)]), ends, name="broom")
    with_sizes(monkeypatch, SHORT=1000, MOST_EDGES=1 << 20)
    own = np.full((graph.num_vertices, 1), np.inf, np.float32)
    own[0] = 0.0
    engine = OnyxEngine(OnyxSchedule(order="near_far"))
    levels, _ = run(engine, PROGRAMS["hops"], graph, 1, emulated_near_far, Inputs({"own": own}))
    assert levels.ravel().tolist() == [0.0, *[1.0] * 100, *[2.0] * 2000]


def test_the_pieces_of_hubs_are_those_of_their_edges(monkeypatch):
    monkeypatch.setattr(near_far, "LONG", 40)
    graph = GRAPHS["skewed"]()
    degrees = np.diff(graph.csr.offsets)
    assert near_far.pieces_of(graph.facts) == sum(-(-int(one) // 40) for one in degrees[degrees > 40]) > 0
    for degree, pieces in ((39, 0), (40, 0), (41, 2), (80, 2), (81, 3)):
        star = Graph.from_edges(np.zeros(degree, np.int64), 1 + np.arange(degree), name="star")
        assert near_far.pieces_of(star.facts) == pieces


def test_more_items_than_their_numbers_are_refused(emulated_near_far, monkeypatch):
    monkeypatch.setattr(near_far, "MOST_ITEMS", 500)
    answer = OnyxEngine(OnyxSchedule(order="near_far")).supports(
        PROGRAMS["lengths"], scattered(1), 3, emulated_near_far
    )
    assert answer == No("order=near_far numbers vertices times features up to 500; take fewer features")


def one_number(p, self):
    """Search from the vertices whose number is 0; a vertex has one number for any number of features."""
    p.vertex("own")
    p.vertex("x", start="own")

    @p.over_edges(into="best", reduce="min")
    def send(src):
        return src.x + 1.0

    @p.over_vertices
    def take(v):
        return {"x": minimum(v.x, v.best)}

    p.until_settled(at_most=1_000_000)
    p.output("x", bound=1e-5)


def test_items_of_programs_with_one_number_are_vertices(emulated_near_far, monkeypatch):
    monkeypatch.setattr(near_far, "MOST_ITEMS", 500)
    engine, program = OnyxEngine(OnyxSchedule(order="near_far")), traced(one_number, "one number")
    assert isinstance(engine.supports(program, scattered(1), 3, emulated_near_far), Yes)
    assert isinstance(engine.supports(program, scattered(1, vertices=501), 1, emulated_near_far), No)


def longer(p, self):
    """Find paths whose length counts no less than a number of the last edge."""
    for name in ("weight", "toll"):
        p.edge(name)
    p.vertex("own", K)
    p.vertex("x", K, start="own")

    @p.over_edges(into="best", reduce="min")
    def send(src, edge):
        return maximum(src.x + edge.weight, edge.toll)

    @p.over_vertices
    def take(v):
        return {"x": minimum(v.x, v.best)}

    p.until_settled(at_most=1_000_000)
    p.output("x", bound=1e-5)


def test_all_inputs_of_edges_are_priced(emulated_near_far):
    engine, graph, program = OnyxEngine(OnyxSchedule(order="near_far")), scattered(1), traced(longer, "longer")
    needed = [engine.supports(one, graph, 2, emulated_near_far).bytes_needed for one in (PROGRAMS["lengths"], program)]
    assert needed[1] - needed[0] == 4 * graph.num_edges
    engine.prepare(program, graph, 2, emulated_near_far, Phases())
    toll = np.linspace(0, 50, graph.num_edges, dtype=np.float32)
    inputs = Inputs({"own": starts(graph, 2, "min"), "toll": toll})
    engine.reset(inputs)
    assert engine.run(1).settled
    assert np.array_equal(engine.values("x"), by_supersteps(program, graph, 2, inputs))
    engine.close()


def test_inputs_may_be_on_the_device(emulated_near_far, monkeypatch):
    """CuPy refuses to turn its arrays into those of the host, but by ``get``."""
    graph, program, got = scattered(1), traced(longer, "longer"), []
    get = DeviceArray.get
    monkeypatch.setattr(DeviceArray, "get", lambda one, **options: (got.append(one), get(one, **options))[1])
    properties = {"own": starts(graph, 2, "min"), "toll": np.linspace(0, 50, graph.num_edges, dtype=np.float32)}
    on_device = {name: values.view(DeviceArray) for name, values in properties.items()}
    engine = OnyxEngine(OnyxSchedule(order="near_far"))
    engine.prepare(program, graph, 2, emulated_near_far, Phases())
    engine.reset(Inputs(on_device))
    assert all(any(one is values for one in got) for values in on_device.values())
    engine.run(1)
    assert np.array_equal(engine.values("x"), by_supersteps(program, graph, 2, Inputs(properties)))
    engine.close()


@pytest.mark.parametrize("launching", ["one launch", "steps"])
def test_inputs_of_edges_are_those_of_the_last_reset(launching, emulated_near_far):
    """Arrays of edges beside the lengths, and other lengths than those of the graph, may change between runs."""
    engine = {"one launch": OnyxEngine(OnyxSchedule(order="near_far")), "steps": STEPS}[launching]
    graph, program, rng = scattered(1), traced(longer, "longer"), np.random.default_rng(8)
    weight, toll, other = (rng.uniform(0, high, graph.num_edges).astype(np.float32) for high in (9, 30, 80))
    own = starts(graph, 2, "min")
    engine.prepare(program, graph, 2, emulated_near_far, Phases())
    answers = []
    for given in (
        {"toll": toll}, {"toll": other}, {"toll": toll}, {"toll": toll, "weight": weight}, {"toll": weight},
        {"toll": weight, "weight": toll}, {"toll": toll, "weight": weight},
    ):  # fmt: skip
        inputs = Inputs({"own": own, **given})
        engine.reset(inputs)
        assert engine.run(1).settled
        answers.append(engine.values("x"))
        np.testing.assert_array_equal(answers[-1], by_supersteps(program, graph, 2, inputs))
    assert len({answer.tobytes() for answer in answers}) == 5, "each array counts"
    engine.close()


@pytest.mark.parametrize(
    "engine",
    [OnyxEngine(OnyxSchedule(order="near_far")), GunrockEngine(GunrockSchedule(order="near_far"))],
    ids=["one launch", "single steps"],
)
def test_each_run_has_its_own_inputs_and_the_record_the_first(engine, emulated_near_far, monkeypatch):
    """A closed engine has released what it has allocated on the device."""
    made, allocate = [], arrays.allocated

    def allocated(*given):
        array = allocate(*given)
        made.append(weakref.ref(array))
        return array

    monkeypatch.setattr(arrays, "allocated", allocated)
    runs_again(engine, emulated_near_far)
    gc.collect()
    assert len(made) > 20
    assert not [one() for one in made if one() is not None]
