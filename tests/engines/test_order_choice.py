"""The order of a run is a function of the program, the facts of the graph, the number of features and the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.engine import OnyxEngine
from engines.onyx.hooking import LEAST_EDGES
from engines.onyx.order_choice import OrderChoice, chosen_order, dispersion, expected_supersteps, second_neighbours
from engines.onyx.policy import DEFAULT
from engines.onyx.resolve import measured_choice
from engines.onyx.schedule import OnyxSchedule
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.api.cpu import usable_threads
from harness.api.figures import own_cache_bytes
from harness.contract import Device, No, ScheduleError, Yes
from harness.facts import Degrees, DeviceFacts, GraphFacts
from harness.graph.generators import delaunay, grid, rmat
from harness.language import Inputs, trace
from harness.lowering.cuda.engine import CudaEngine
from tests.engines.near_far import PROGRAMS, paths

CUDA = Device("cuda")
GPU = DeviceFacts("cuda")
CPU = DeviceFacts("cpu", 2, cache_bytes=1 << 20)
SLOW = replace(DEFAULT, visiting_s=(0, 1e-3, 0, 0))  # supersteps that visit all edges take 1 ms
# Degrees of a mesh, and of a graph whose vertices differ in their degrees, each of about 12 M edges.
MESH = Degrees(((4, 300_000), (5, 500_000), (6, 600_000), (7, 400_000), (8, 200_000)))
HUBS = Degrees(((0, 100_000), (4, 300_000), (20, 90_000), (300, 25_000), (5_000, 100), (40_000, 20)))


def facts(degrees):
    """Return the facts of a symmetric graph with some degrees."""
    vertices = sum(count for _, count in degrees.counts)
    edges = sum(degree * count for degree, count in degrees.counts)
    return GraphFacts(vertices, edges, degrees.largest, degrees, degrees, paired=True)


def chosen(graph, *, algorithm=SSSP, features=1, device=GPU, policy=DEFAULT, **options):
    """Return the choice for an algorithm on a graph."""
    return chosen_order(OnyxSchedule(**options), trace(algorithm()), graph, features, device, policy)


# the decision ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("algorithm", [BFS, SSSP])
@pytest.mark.parametrize(("degrees", "order"), [(MESH, "near_far"), (HUBS, "supersteps")])
@pytest.mark.parametrize("device", [GPU, CPU], ids=["gpu", "cpu"])
def test_meshes_are_run_in_order_of_priority_and_graphs_with_hubs_by_supersteps(algorithm, degrees, order, device):
    found = chosen(facts(degrees), algorithm=algorithm, device=device)
    estimates = dict(found.estimates)
    assert found.order == order
    gain = DEFAULT.order_gain if device == GPU else 1
    assert (order == "near_far") == (estimates["near_far"] < gain * estimates["supersteps"])
    assert list(estimates) == ["supersteps", "near_far"]
    assert all(seconds > 0 for seconds in estimates.values())
    assert "variance / mean" in found.reason
    assert all(f"{1e3 * seconds:.3g} ms" in found.reason for seconds in estimates.values())


@pytest.mark.parametrize("device", [GPU, CPU], ids=["gpu", "cpu"])
def test_components_of_meshes_are_found_by_hooking(device):
    found = chosen(facts(MESH), algorithm=Components, device=device)
    estimates = dict(found.estimates)
    assert found.order == "hooking" == min(estimates, key=estimates.__getitem__)
    assert list(estimates) == ["supersteps", "hooking"]
    assert found.under(OnyxSchedule()) == OnyxSchedule(hooking=True)
    assert "order" not in found.options(), "it is no value of the option"
    one_way = chosen(replace(facts(MESH), paired=False), algorithm=Components, device=device)
    assert (one_way.order, one_way.estimates) == ("supersteps", ())
    assert one_way.reason == "hooking finds components of graphs in which every edge has a reverse edge"


def test_an_order_that_saves_little_is_not_taken_on_a_gpu():
    graph = facts(Degrees(((2, 1000), (3, 3000), (4, 1000))))
    supersteps = dict(chosen(graph).estimates)["supersteps"]
    for share, order in ((0.89, "near_far"), (0.91, "supersteps")):  # of the time of supersteps
        policy = replace(DEFAULT, near_far_s=(share * supersteps, 0, 0), near_far_short=(0, 0))
        assert chosen(graph, policy=policy).order == order
    assert chosen(graph, policy=replace(policy, order_gain=1.0)).order == "near_far"
    cpu = dict(chosen(graph, device=CPU).estimates)
    for share, order in ((0.99, "near_far"), (1.01, "supersteps")):  # of the time of supersteps
        vertex = DEFAULT.cpu_near_far_cached_s[0] * share * cpu["supersteps"] / cpu["near_far"]
        edge = DEFAULT.cpu_near_far_cached_s[1] * share * cpu["supersteps"] / cpu["near_far"]
        assert chosen(graph, device=CPU, policy=replace(DEFAULT, cpu_near_far_cached_s=(vertex, edge))).order == order


def test_a_plan_is_a_value():
    graph = facts(MESH)
    assert chosen(graph) == chosen(facts(MESH)) == chosen(graph, order="adaptive")
    engine, program = OnyxEngine(OnyxSchedule()), trace(BFS())
    small = grid(20, 20)
    assert engine.supports(program, small, 1, CUDA) == engine.supports(program, small, 1, CUDA)
    for device in (CUDA, Device(threads=2)):
        found = engine.order_of(program, small, 1, device)
        assert found == OnyxEngine(OnyxSchedule()).order_of(program, small, 1, device)
        of_cpu = DeviceFacts("cpu", usable_threads(device), cache_bytes=own_cache_bytes())
        assert found == chosen_order(OnyxSchedule(), program, small.facts, 1, GPU if device == CUDA else of_cpu)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"features": 129}, "orders were compared with up to"),
        ({"algorithm": lambda: Components(supersteps=99)}, "components may end before it, after 99 supersteps"),
        ({"algorithm": lambda: SSSP(supersteps=99)}, "sssp may end before it, after 99 supersteps"),
    ],
)
@pytest.mark.parametrize("device", [GPU, CPU], ids=["gpu", "cpu"])
def test_supersteps_have_a_reason(given, reason, device):
    found = chosen(facts(MESH), device=device, **given)
    assert (found.order, found.estimates) == ("supersteps", ())
    assert reason in found.reason
    assert "order_estimates" not in found.options()


@pytest.mark.parametrize(("device", "most"), [(GPU, 64), (CPU, 128)], ids=["gpu", "cpu"])
def test_orders_are_chosen_with_as_many_features_as_were_compared(device, most):
    assert chosen(facts(MESH), algorithm=BFS, features=most, device=device).order == "near_far"
    found = chosen(facts(MESH), algorithm=BFS, features=most + 1, device=device)
    assert (found.order, found.reason) == ("supersteps", f"orders were compared with up to {most} features")


@pytest.mark.parametrize(
    "options",
    [{"order": "supersteps"}, {"order": "near_far"}, {"direction": "push"}, {"fold": False}, {"edges": "mapped"},
     {"panel": 1}, {"tune": True}, {"rebuild": 0}, {"hooking": False}],
)  # fmt: skip
@pytest.mark.parametrize("device", [GPU, CPU], ids=["gpu", "cpu"])
def test_nothing_is_chosen_if_an_option_is_given(options, device):
    assert chosen(facts(MESH), device=device, **options) is None


def test_an_option_that_is_given_with_its_default_value_counts_as_not_given():
    assert chosen(facts(MESH), fold=True, rebuild=64, direction=None) == chosen(facts(MESH))


@pytest.mark.parametrize("device", [GPU, CPU], ids=["gpu", "cpu"])
def test_nothing_is_chosen_for_other_programs(device):
    assert chosen(facts(MESH), algorithm=PageRank, device=device) is None
    assert chosen(facts(MESH), algorithm=PageRank, order="adaptive", device=device).order == "supersteps"


def test_more_edges_favour_supersteps_and_more_steps_near_far():
    """The estimates of graphs with hubs differ in their edges, those of meshes in their steps."""
    many = dict(chosen(facts(HUBS)).estimates)
    double = dict(chosen(facts(Degrees(tuple((2 * degree, count) for degree, count in HUBS.counts)))).estimates)
    assert double["near_far"] - many["near_far"] > double["supersteps"] - many["supersteps"]
    mesh = dict(chosen(facts(MESH)).estimates)
    large = dict(chosen(facts(Degrees(tuple((degree, 4 * count) for degree, count in MESH.counts)))).estimates)
    assert large["supersteps"] / large["near_far"] > 0.5 * mesh["supersteps"] / mesh["near_far"] > 1


# the estimates of near-far on a GPU -----------------------------------------------------------------------------------
def test_short_steps_take_less_time_and_lengths_more_visits():
    launch, step, edge = DEFAULT.near_far_s
    short, few = DEFAULT.near_far_short
    for count, features, one in ((few, 1, short), (few + 1, 1, step), (few // 2, 2, short), (few // 2 + 1, 2, step)):
        expected = expected_supersteps(of_edges_of_steps(count)).steps
        assert expected == 256
        for algorithm, visits in ((BFS, 1.0), (SSSP, DEFAULT.near_far_visits)):
            found = dict(chosen(of_edges_of_steps(count), algorithm=algorithm, features=features).estimates)["near_far"]
            assert found == pytest.approx(launch + 256 * one + 256 * count * features * visits * edge)


def of_edges_of_steps(edges_of_step):
    """Return the facts of a mesh in a plane, with so many edges in each of the 256 expected supersteps."""
    degrees = Degrees(((4, 65_536),))
    return GraphFacts(65_536, 256 * edges_of_step, 4, degrees, degrees)


@pytest.mark.parametrize("degrees", [MESH, HUBS])
def test_estimates_of_components_on_a_gpu(degrees):
    graph, steps = facts(degrees), expected_supersteps(facts(degrees)).steps
    found = dict(chosen(graph, algorithm=Components).estimates)
    plan = measured_choice(OnyxSchedule(order="supersteps"), trace(Components()), 1, graph, DEFAULT)
    followed = plan.change_driven is not False
    launch, step, edge, _ = DEFAULT.following_s if followed else DEFAULT.visiting_s
    visits = DEFAULT.flood_visits if followed else steps
    launches, vertex, value = DEFAULT.hooking_s
    most = min(graph.num_vertices, DEFAULT.hooking_vertices)
    vertices = graph.num_vertices * DEFAULT.flood_vertex_s
    assert found == pytest.approx({
        "supersteps": launch + steps * step + visits * graph.num_edges * edge + vertices,
        "hooking": launches + most * vertex + graph.num_vertices * value,
    })  # fmt: skip


# the estimates on a CPU -----------------------------------------------------------------------------------------------
EDGES = sum(degree * count for degree, count in MESH.counts)
STEP, EDGE, FEATURE, NEAR_EDGE = DEFAULT.cpu_supersteps_s
START, VERTEX, OF_EDGE = DEFAULT.cpu_near_far_s


@pytest.mark.parametrize(("features", "threads"), [(1, 1), (1, 4), (4, 2), (4, 16)])
def test_estimates_of_meshes_on_a_cpu(features, threads):
    device = DeviceFacts("cpu", threads, cache_bytes=1 << 20)
    found = dict(chosen(facts(MESH), features=features, device=device).estimates)
    vertices, expected = facts(MESH).num_vertices, expected_supersteps(facts(MESH)).steps
    supersteps = expected * STEP + EDGES * features * NEAR_EDGE / threads
    used = min(threads, features)
    of_feature = vertices * VERTEX + EDGES * OF_EDGE
    wanted = {"supersteps": supersteps, "near_far": START * (used > 1) + of_feature * features / used}
    assert found == pytest.approx(wanted)
    trees = dict(chosen(facts(MESH), algorithm=Components, device=device).estimates)
    start, of_threads, vertex, edge = DEFAULT.cpu_hooking_s
    start += of_threads * (threads > 1)
    flood = expected * STEP + DEFAULT.flood_visits * EDGES * EDGE / threads
    assert trees == pytest.approx(
        {"supersteps": flood, "hooking": start + (vertices * vertex + EDGES * edge) / threads}
    )


def test_features_share_edges_on_a_cpu_unless_these_join_near_places():
    edges = sum(degree * count for degree, count in HUBS.counts)
    found = {k: dict(chosen(facts(HUBS), features=k, device=CPU).estimates)["supersteps"] for k in (1, 5)}
    assert found[5] - found[1] == pytest.approx(4 * edges * FEATURE / 2)


def test_a_small_graph_visits_all_edges_in_every_superstep_on_a_cpu():
    graph = facts(Degrees(((3, 4000), (5, 4000))))
    expected = expected_supersteps(graph).steps
    found = dict(chosen(graph, device=CPU).estimates)
    assert graph.num_edges < DEFAULT.fewest_followed[0]
    assert found["supersteps"] == pytest.approx(expected * (STEP + graph.num_edges * EDGE / 2))
    many = replace(DEFAULT, fewest_followed=(graph.num_edges, 0))
    found = dict(chosen(graph, device=CPU, policy=many).estimates)
    assert found["supersteps"] == pytest.approx(expected * STEP + graph.num_edges * NEAR_EDGE / 2)


def test_few_edges_are_hooked_by_fewer_threads_on_a_cpu():
    start, of_threads, vertex, edge = DEFAULT.cpu_hooking_s
    for count, threads in ((LEAST_EDGES - 1, 1), (3 * LEAST_EDGES - 1, 2), (99 * LEAST_EDGES, 4)):
        graph = GraphFacts(1000, count, 400, HUBS, HUBS, paired=True)
        found = dict(chosen(graph, algorithm=Components, device=replace(CPU, threads=4)).estimates)["hooking"]
        begun = start + of_threads * (threads > 1)
        assert found == pytest.approx(begun + (1000 * vertex + count * edge) / threads)


@pytest.mark.parametrize(("more", "cached"), [(0, True), (1, False)])
def test_near_far_takes_less_time_if_its_lists_are_in_the_cache(more, cached):
    vertices = (1 << 20) // DEFAULT.near_far_bytes + more
    graph = facts(Degrees(((6, vertices),)))
    vertex, edge = DEFAULT.cpu_near_far_cached_s if cached else (VERTEX, OF_EDGE)
    found = dict(chosen(graph, device=CPU).estimates)["near_far"]
    assert found == pytest.approx(vertices * vertex + graph.num_edges * edge)


# the number of supersteps ---------------------------------------------------------------------------------------------
def depth(graph):
    """Return the supersteps of a search that find a vertex."""
    return BFS().settled_answer(graph, 1).least_supersteps


@pytest.mark.parametrize(
    ("made", "factor"),
    [(lambda: grid(120, 120, removed=0.3), 4), (lambda: delaunay(20_000), 4), (lambda: rmat(14, symmetric=True), 4),
     (lambda: rmat(15, edge_factor=3, a=0.25, b=0.25, c=0.25, d=0.25, symmetric=True), 3)],
    ids=["roads", "mesh", "hubs", "random"],
)  # fmt: skip
def test_the_expected_supersteps_are_near_to_those_of_a_search(made, factor):
    graph = made()
    expected = expected_supersteps(graph.facts)
    assert 1 / factor < expected.steps / depth(graph) < factor


def test_edges_between_random_vertices_are_told_from_those_of_a_mesh():
    random = rmat(15, edge_factor=3, a=0.25, b=0.25, c=0.25, d=0.25, symmetric=True).facts
    assert dispersion(random.in_degrees) == pytest.approx(1, abs=0.05)
    found = expected_supersteps(random)
    assert "as at random or more" in found.reason
    assert not found.near
    mesh = delaunay(20_000).facts
    assert dispersion(mesh.in_degrees) < 0.5
    found = expected_supersteps(mesh)
    assert found.steps == pytest.approx(20_000**0.5)
    assert "as in a plane" in found.reason
    assert found.near


def test_degrees_that_no_planar_graph_has_are_those_of_space():
    found = expected_supersteps(facts(Degrees(((13, 1000), (14, 60_000), (15, 3000)))))
    assert found.steps == pytest.approx(64_000 ** (1 / 3))
    assert found.reason.endswith("as in space")
    assert found.near


ALIKE, UNLIKE = Degrees(((8, 4096),)), Degrees(((4, 2048), (12, 2048)))  # as of k nearest neighbours, and of others
FLAT, RANDOM = Degrees(((4, 4096),)), Degrees(((2, 2048), (6, 2048)))


@pytest.mark.parametrize(
    ("inwards", "outwards", "expected"),
    [
        (ALIKE, UNLIKE, None), (UNLIKE, ALIKE, None), (UNLIKE, UNLIKE, None), (ALIKE, ALIKE, 16.0),
        (FLAT, RANDOM, None), (RANDOM, FLAT, None), (FLAT, FLAT, 64.0),
    ],
)  # fmt: skip
def test_a_mesh_has_degrees_that_differ_little_in_both_directions(inwards, outwards, expected):
    """The degrees differ as at random or more if those of either direction do. Second neighbours are out-edges."""
    mean = sum(degree * count for degree, count in outwards.counts) / 4096
    graph = GraphFacts(4096, int(4096 * mean), inwards.largest, inwards, outwards)
    found = expected_supersteps(graph)
    spread = max(dispersion(inwards), dispersion(outwards))
    assert f"(variance / mean {spread:.2g})" in found.reason
    assert ("as at random or more" in found.reason) == (expected is None) == (not found.near)
    random = 1 + np.log(4096 / mean) / np.log(second_neighbours(outwards) / mean)
    assert found.steps == pytest.approx(random if expected is None else expected)


@pytest.mark.parametrize("mean", [4, 8])
@pytest.mark.parametrize(("errors", "near"), [(4.2, True), (3.8, False)])
def test_degrees_differ_less_than_at_random_by_four_standard_errors(mean, errors, near):
    vertices = 1 << 16
    variance = mean * (1 - errors * ((2 + 1 / mean) / vertices) ** 0.5)
    apart = round(vertices * variance / 8)  # vertices with 2 edges more, and as many with 2 less
    degrees = Degrees(((mean - 2, apart), (mean, vertices - 2 * apart), (mean + 2, apart)))
    assert ("less than at random" in expected_supersteps(facts(degrees)).reason) is near


def test_moments_of_degrees():
    degrees = Degrees(((1, 2), (4, 2)))  # mean 2.5, of squares 8.5
    assert dispersion(degrees) == pytest.approx((8.5 - 6.25) / 2.5)
    assert second_neighbours(degrees) == pytest.approx(6)
    assert dispersion(Degrees()) == 0


@pytest.mark.parametrize("counts", [(), ((0, 7),), ((1, 2),), ((2, 5),), ((0, 1), (1, 1))])
def test_graphs_of_few_edges_have_an_order(counts):
    found = chosen(facts(Degrees(counts)), policy=SLOW)
    assert isinstance(found, OrderChoice)
    assert all(np.isfinite(seconds) for _, seconds in found.estimates)


# the engine -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def slow(monkeypatch):
    """Let the default leave supersteps on small graphs."""
    monkeypatch.setattr(OnyxEngine, "policy", SLOW)


def generated(graph, *, program="lengths", **options):
    engine = OnyxEngine(OnyxSchedule(**options))
    engine.generate(PROGRAMS[program], graph, 1, CUDA)
    return engine


def test_the_answer_says_whether_the_plan_of_a_problem_is_stepwise(slow):
    engine, program = OnyxEngine(OnyxSchedule()), PROGRAMS["lengths"]
    mesh = delaunay(3000)
    explicit = OnyxEngine(OnyxSchedule(order="near_far")).supports(program, mesh, 1, CUDA)
    answer = engine.supports(program, mesh, 1, CUDA)
    assert isinstance(answer, Yes)
    assert answer == explicit
    assert answer.stepwise is False
    assert engine.stepwise, "supports() changes nothing"
    assert engine.supports(program, mesh, 65, CUDA).stepwise is True
    engine.stepwise = False  # as after the preparation of a mesh
    assert engine.supports(program, mesh, 65, CUDA).stepwise is True
    assert OnyxEngine(OnyxSchedule(order="supersteps")).supports(program, mesh, 1, CUDA).stepwise is None


def test_the_explanation_and_the_record_have_the_order_the_reason_and_the_estimates(slow):
    engine = generated(delaunay(3000))
    options = engine.resolved_options()
    assert options["order"] == "near_far"
    assert [name for name, _ in options["order_estimates"]] == ["supersteps", "near_far"]
    assert "as in a plane" in options["order_reason"]
    lines = engine.explain().splitlines()
    assert lines[0] == f"order: near_far, chosen by the engine: {options['order_reason']}"
    assert any(line.startswith("near-far: leaves bulk-synchronous order") for line in lines)


def test_explicit_supersteps_are_recorded_and_give_no_reason():
    engine = generated(delaunay(300), order="supersteps")
    assert engine.resolved_options()["order"] == "supersteps"
    assert "order_reason" not in engine.resolved_options()
    assert "order: " not in engine.explain()


def test_supersteps_that_are_chosen_say_why(monkeypatch):
    monkeypatch.setattr(OnyxEngine, "policy", replace(DEFAULT, near_far_s=(1.0, 0, 0)))
    engine = generated(grid(8, 8))
    options = engine.resolved_options()
    assert options["order"] == "supersteps"
    assert options["direction"] in ("pull", "push", "adaptive")
    assert dict(options["order_estimates"]).keys() == {"supersteps", "near_far"}
    assert f"order: supersteps, chosen by the engine: {options['order_reason']}\n" in engine.explain()


def test_accesses_are_modelled_of_the_order_that_runs(slow, monkeypatch):
    """A model of supersteps is none of a run by near-far."""
    engine, mesh, hubs = OnyxEngine(OnyxSchedule(order="adaptive")), delaunay(3000), rmat(8, symmetric=True)
    monkeypatch.setattr(CudaEngine, "memory_model", lambda *_: "of supersteps")
    reason = "memory transactions are counted for a superstep, and order=adaptive chooses"
    assert engine.supports(PROGRAMS["lengths"], mesh, 1, CUDA).stepwise is False
    for name, order in (("lengths", "near_far"), ("copies", "hooking")):
        found = engine.memory_model(PROGRAMS[name], mesh, 1, Inputs({}))
        assert found == No(f"{reason} {order}; give order=supersteps")
    monkeypatch.setattr(OnyxEngine, "policy", replace(DEFAULT, visiting_s=(0, 0, 1e-12, 0)))
    assert engine.memory_model(PROGRAMS["lengths"], hubs, 1, Inputs({})) == "of supersteps"
    for options in ({}, {"order": "supersteps"}):  # of a run on a CPU, or where the harness has chosen supersteps
        assert OnyxEngine(OnyxSchedule(**options)).memory_model(PROGRAMS["lengths"], mesh, 1, Inputs({})) == (
            "of supersteps"
        )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"order": "adaptive", "direction": "pull"}, "order=adaptive may run without supersteps, and direction='pull'"),
        ({"order": "adaptive", "delta": 2.0}, "delta has no meaning without order=near_far"),
        ({"order": "supersteps", "delta": 2.0}, "delta has no meaning without order=near_far"),
        ({"order": "supersteps", "solver": "auto"}, "order has no meaning with a solver"),
        ({"order": "supersteps", "hooking": True}, "hooking=true has no supersteps, and order='supersteps'"),
        ({"order_reason": "because"}, "order_reason is set by order"),
        ({"order_estimates": ()}, "order_estimates is set by order"),
    ],
)
def test_options_without_a_meaning_are_refused(options, reason):
    with pytest.raises(ScheduleError, match=reason):
        OnyxSchedule(**options)


def test_supersteps_take_the_other_options():
    program, graph = paths(lambda x, w, _: x + w), grid(8, 8)
    engine = OnyxEngine(OnyxSchedule(order="supersteps", direction="push", change_driven=True))
    engine.generate(program, graph, 1, CUDA)
    assert engine.resolved_options()["direction"] == "push"
