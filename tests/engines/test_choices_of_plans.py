"""What plans choose from facts of a program and a graph, at both sides of every limit, and what they say about it."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from engines.onyx import cpu_plan
from engines.onyx import cuda_engine as onyx_on_cuda
from engines.onyx.cuda_bottom_up import explained
from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.cuda_executor import OnyxExecutor
from engines.onyx.cuda_hubs import VerticesByDegree
from engines.onyx.cuda_plan import OnyxPlanner
from engines.onyx.engine import OnyxEngine
from engines.onyx.policy import Policy
from engines.onyx.resolve import along_paths, far_rows, measured_choice, resolve
from engines.onyx.schedule import OnyxSchedule
from engines.onyx.tuning import TunedEngine
from engines.pullbaseline.simdx.activity import activity
from harness.contract import Device, No, Yes
from harness.facts import DeviceFacts, GraphFacts, Spans
from harness.graph import Graph
from harness.graph.generators import grid
from harness.language import K, minimum
from harness.lowering.buffers import Holds
from harness.lowering.cpu.policy import CpuPolicy
from harness.lowering.cuda.persistent_executor import PersistentExecutor
from harness.lowering.setting import LoweredProgram
from tests.engines import bottom_up, gates
from tests.engines.cuda_schedules import cuda_engine, plan_of
from tests.engines.problems import new_engine, program, small
from tests.engines.programs import graph_for, program_named, traced


def paths(reduce="min", message=lambda src: src.x + 1.0, *, tolerance=False):
    """Return a program that keeps the best messages."""

    def build(p, self):
        p.vertex("first", K)
        p.vertex("x", K, start="first")
        p.over_edges(into="best", reduce=reduce)(message)
        p.over_vertices(lambda v: {"x": minimum(v.x, v.best)})
        p.until_settled(*((self.tolerance,) if tolerance else ()), at_most=9)
        p.output("x", bound=0.0)

    return traced(build, "paths", tolerance_value=0.5)


def alone(p, _):
    """Read no edges."""
    p.vertex("x", start=1.0)
    p.over_vertices(lambda v: {"x": 0.5 * v.x})
    p.until_settled(at_most=9)
    p.output("x", bound=0.0)


@pytest.mark.parametrize(
    ("chosen", "along"),
    [
        (program("bfs"), True), (program("sssp"), True), (paths(), True), (paths(message=lambda src: src.x), False),
        (paths(tolerance=True), False), (program("components"), False), (program("pagerank"), False),
        (program("kcore"), False), (program("als"), False), (traced(alone, "alone"), False),
    ],
)  # fmt: skip
def test_changes_travel_along_paths_if_messages_change_the_value_and_every_movement_counts(chosen, along):
    assert along_paths(LoweredProgram.of(chosen).program) is along


@pytest.mark.parametrize(
    ("vertices", "spans", "far"),
    [
        (256, ((0, 1), (20, 99)), False),  # all rows are in the cache
        (257, ((0, 1), (20, 99)), True),
        (257, ((6, 75), (20, 25)), True),  # as many edges are long as the limit
        (257, ((6, 76), (20, 24)), False),
        (257, ((8, 76), (20, 24)), False),  # less than 256 rows apart
        (257, ((9, 76), (20, 24)), True),
        (257, (), True),
    ],
)
def test_rows_are_far_if_a_quarter_of_the_edges_is_longer_than_the_cache(vertices, spans, far):
    """Rows of four floats are 16 bytes, of which the cache holds 256."""
    facts = GraphFacts(vertices, 1000, 9, spans=Spans(spans))
    assert far_rows(facts, 4, DeviceFacts("cpu", cache_bytes=16 * 256), Policy(far_share=0.25)) is far


@pytest.mark.parametrize(
    ("name", "message", "best"),
    [
        ("bfs", "(best.level + 1)", "the min of the sources that moved"),
        ("components", "best.label", "the min of the sources that moved"),
        (
            "sssp", "(best.distance + extreme.weight)",
            "the min of the sources that moved, extreme: the least of an input",
        ),
        (
            "bottleneck", "minimum(best.width, extreme.weight)",
            "the max of the sources that moved, extreme: the greatest of an input",
        ),
        ("decay", "(best.value * 0.5)", "the max of the sources that moved"),
    ],
)  # fmt: skip
def test_a_plan_states_what_its_pulls_skip(name, message, best):
    chosen = LoweredProgram.of(bottom_up.problem(name, grid(3, 3), 1)[0]).program
    assert explained(chosen, OnyxSchedule(bottom_up=True)) == (
        f"bottom_up: pulls skip vertices that are as good as {message}, and end rows there (best: {best})"
    )
    whole = "bottom_up: pulls read all edges, because bottom_up=false"
    assert explained(chosen, OnyxSchedule(bottom_up=False)) == whole


@pytest.mark.parametrize("measure", [False, True])
@pytest.mark.parametrize("share_by", ["estimated", "fitted"])
@pytest.mark.parametrize("known", [False, True])
def test_a_gpu_is_measured_only_for_an_estimate_that_the_cache_does_not_have(known, share_by, measure, monkeypatch):
    cached, found, calls = (("cache", 1.0),), (("cache", 2.0),), []

    def measured(name, device, probe):
        calls.append((name, device, probe()))
        return found

    for name, value in {
        "cuda_unavailable": lambda _: "", "device_name": lambda _: "made", "cuda_figures": lambda index: ("of", index),
        "known_figures": lambda *_: cached if known else None, "figures_of": measured,
    }.items():  # fmt: skip
        monkeypatch.setattr(onyx_on_cuda, name, value)
    device = Device("cuda", 3)
    facts = OnyxCudaEngine(OnyxSchedule(direction="adaptive", share_by=share_by)).facts_of(device, measure=measure)
    needed = measure and share_by == "estimated" and not known
    assert calls == ([(onyx_on_cuda.FIGURES, device, ("of", 3))] if needed else [])
    assert facts == DeviceFacts("cuda", name="made", figures=cached if known else found if needed else ())


def test_a_tuned_engine_gives_the_reason_of_its_first_plan(monkeypatch):
    device, graph = Device(threads=1), small("grid")
    for fit, wanted in (
        ((), No("reason 0")), ((2,), Yes(7, 2, stepwise=True)), ((1, 3), Yes(7, 3, stepwise=True)),
        ((1, 6), Yes(7, 6, stepwise=False)),  # the last one is near-far
    ):  # fmt: skip
        answers = iter([Yes(7, number) if number in fit else No(f"reason {number}") for number in range(9)])
        monkeypatch.setattr(OnyxEngine, "supports", lambda *_, left=answers: next(left))
        assert TunedEngine(OnyxSchedule(tune=True)).supports(program("bfs"), graph, 1, device) == wanted


@pytest.mark.parametrize("name", ["bfs", "pagerank"])
def test_simdx_states_why_a_program_has_no_active_vertices(name):
    engine = new_engine("simdx", {})
    engine.generate(program(name), small("rmat"), 1, Device("cuda"))
    reason = activity(engine.prepared.planned.program)
    assert isinstance(reason, str) == (name == "pagerank")
    assert ("bulk-synchronous: " in engine.explain()) == isinstance(reason, str)
    assert not isinstance(reason, str) or engine.explain().startswith(f"bulk-synchronous: {reason}\n")


@pytest.mark.parametrize(
    "schedule", ["changes-pull", "changes-pull-edges-sparse", "changes-push", "changes-push-edges"]
)
@pytest.mark.parametrize("name", ["beliefs", "gates"])
def test_a_plan_has_no_array_of_sent_edges_that_no_kernel_takes(name, schedule):
    chosen, graph = (gates.program(), gates.graph()) if name == "gates" else (program_named(name), graph_for(name))
    plan = plan_of(cuda_engine(schedule), chosen, graph, 3)
    taken = {argument for kernel in plan.kernels for argument in kernel.arguments}
    sent = [one for one in plan.buffers if one.holds is Holds.SENT]
    assert {one.name for one in sent if one.rows == graph.num_edges} <= taken
    assert sent or "pull" in schedule


@pytest.mark.parametrize(("name", "lists"), [("shortest_paths", True), ("reads_destination", False)])
def test_emogi_lists_active_vertices_only_if_changes_are_tracked(name, lists):
    plan = plan_of(cuda_engine("emogi-list"), program_named(name), graph_for(name), 3)
    assert plan.tracking.change_driven is lists
    assert any(kernel.name.startswith(("list_", "empty_")) for kernel in plan.kernels) is lists


@pytest.mark.parametrize("feature_aware", [True, False])
def test_sources_make_messages_only_of_rows_whose_features_are_processed_together(feature_aware):
    schedule = OnyxSchedule(change_driven=True, direction="pull", feature_aware=feature_aware)
    facts = GraphFacts(1000, 8000, 20)
    found = cpu_plan.plan(program("pagerank"), schedule, facts, 8, DeviceFacts("cpu", 2), CpuPolicy())
    assert any(kernel.name.endswith("_ready") for kernel in found.kernels) is feature_aware


@pytest.mark.parametrize(
    ("kind", "features", "options", "megabytes"),
    [
        ("cuda", 63, {"edges": "streamed"}, 32), ("cuda", 64, {"edges": "streamed"}, 64),
        ("cuda", 64, {"edges": "streamed", "window_mb": 2.5}, 2.5), ("cuda", 64, {"edges": "mapped"}, None),
        ("cuda", 64, {}, None), ("cpu", 64, {"edges": "streamed"}, 32),
    ],
)  # fmt: skip
def test_windows_of_many_features_are_wide_on_a_gpu(kind, features, options, megabytes):
    facts = GraphFacts(81, 288, 4)
    found = resolve(OnyxSchedule(**options), program("pagerank"), features, facts, DeviceFacts(kind))
    assert found.window_mb == megabytes


GIVEN = {  # every value that an option of the measured choice may have, also those that are false
    "direction": ("pull", "push", "adaptive"), "change_driven": (True, False), "balance": ("warp", "edge"),
    "persistent": (True, False), "dense_share": (0.0, 0.01, 1.0), "fold": (False,), "feature_aware": (False,),
    "edges": ("mapped", "managed", "streamed"),
}  # fmt: skip
MEASURED = [  # of each kind: algorithm, features, edges, largest in-degree
    ("bfs", 1, 50_000, 64), ("bfs", 3, 3 << 21, 64), ("bfs", 1, 1 << 22, 63), ("pagerank", 16, 1 << 22, 64),
    ("label_propagation", 64, 1 << 19, 63), ("label_propagation", 64, 3 << 21, 64),
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "features", "edges", "max_in_degree"), MEASURED)
@pytest.mark.parametrize("name", GIVEN)
def test_each_given_option_by_itself_keeps_the_measured_choice_away(name, algorithm, features, edges, max_in_degree):
    graph, policy = GraphFacts(edges // 4, edges, max_in_degree), Policy()
    chosen_program = LoweredProgram.of(program(algorithm)).program
    chosen = measured_choice(OnyxSchedule(), chosen_program, features, graph, policy)
    assert chosen != OnyxSchedule()
    for value in GIVEN[name]:
        schedule = OnyxSchedule(**{name: value})
        assert measured_choice(schedule, chosen_program, features, graph, policy) == schedule
    for other in ({"pipeline": False}, {"rebuild": 0}, {"block_size": 64}, {"vector_width": 1}, {"edges": "resident"}):
        found = measured_choice(OnyxSchedule(**other), chosen_program, features, graph, policy)
        assert found == replace(chosen, **other)


def of_every_degree(most=14, each=3):
    """Return a graph whose vertices have 0 to ``most`` in-edges, a few of them each number."""
    degrees = np.repeat(np.arange(most + 1), each)
    ends = np.repeat(np.arange(len(degrees)), degrees)
    sources = np.concatenate([np.arange(degree) for degree in degrees])
    return Graph.from_edges(sources, ends, num_vertices=len(degrees), name="degrees")


@pytest.mark.parametrize(
    ("degrees", "small_graph", "least"),
    [
        ([40] * 9 + [10] * 30 + [2] * 300, 1 << 20, 8),
        ([40] * 9 + [10] * 30 + [2] * 300, 1260, 32),  # as many edges as a graph that is not small
        ([40] * 9 + [10] * 30 + [2] * 300, 1261, 8),
        ([31] * 9 + [10] * 30 + [2] * 300, 1 << 20, None),  # no vertex of 32 in-edges
        ([100] * 10 + [2] * 4000, 1 << 20, 32),  # too few vertices have 8 edges for a list of these
        ([100] + [2] * 4000, 1 << 20, None),
    ],
)
def test_a_warp_owns_vertices_of_fewer_edges_in_small_graphs(degrees, small_graph, least, monkeypatch):
    policy = replace(OnyxCudaEngine.policy, edges_of_lane_group=99, small_graph=small_graph)
    monkeypatch.setattr(OnyxCudaEngine, "policy", policy)
    vertices = len(degrees)
    ends, sources = np.repeat(np.arange(vertices), degrees), np.arange(sum(degrees)) % vertices
    graph = Graph.from_edges(sources, ends, num_vertices=vertices, name="degrees", duplicates="keep")
    assert graph.in_degrees.tolist() == degrees
    schedule = OnyxSchedule(balance="warp", change_driven=False)
    plan = plan_of(OnyxCudaEngine(schedule), program("pagerank"), graph, 1)
    launches = plan.combined.steps if plan.combined else plan.launches
    lists = {one.over for one in launches if isinstance(one.over, VerticesByDegree)}
    assert [one.least for one in lists] == ([] if least is None else [least])


@pytest.mark.parametrize(
    ("vertices", "sides", "launches", "blocks"),
    [
        (1000, 1, 1, 132),  # 4 blocks have work, and a multiprocessor has a block
        (60_000, 1, 1, 235),
        (60_000, 2, 1, 157),  # of the larger side
        (500_000, 1, 1, 528),  # all that are resident
        (1000, 1, 2, 528),  # the work of several launches is in different blocks
    ],
)
def test_a_barrier_waits_for_few_blocks_that_have_no_work(vertices, sides, launches, blocks, monkeypatch):
    monkeypatch.setattr(PersistentExecutor, "_blocks", lambda self, kernel: 528)
    bounds = [(0, vertices)] if sides == 1 else [(0, vertices // 3), (vertices // 3, vertices)]
    steps = [SimpleNamespace(over="all", lanes=1, blocks=0)] * launches
    executor = OnyxExecutor.__new__(OnyxExecutor)
    executor.plan = SimpleNamespace(combined=SimpleNamespace(steps=steps), sides=bounds, threads=256)
    executor.ranges = SimpleNamespace(bounds=lambda over, side: bounds[side])
    executor.attributes = {"MultiProcessorCount": 132}
    assert executor._blocks(None) == blocks
    executor.plan.combined = None
    assert executor._blocks(None) == 528


@pytest.mark.parametrize("hub", [4, 5, 6, 14, 15, 99])
@pytest.mark.parametrize("middle", [2, 3, 10, 99])
@pytest.mark.parametrize(("name", "options"), [
    ("pagerank", {"change_driven": False}), ("pagerank", {"change_driven": True}), ("bfs", {"direction": "adaptive"}),
])  # fmt: skip
def test_a_vertex_is_on_one_list_at_most_and_the_others_have_fewer_edges(name, options, middle, hub, monkeypatch):
    """Every list of a gather takes the degrees below those of the list before it, without a gap."""
    monkeypatch.setattr(OnyxPlanner, "hub", hub)
    policy = replace(
        OnyxCudaEngine.policy, edges_of_lane_group=99, middle_edges=middle, fewest_owners=1, middle_share=0
    )
    monkeypatch.setattr(OnyxCudaEngine, "policy", policy)
    graph = of_every_degree()
    plan = plan_of(OnyxCudaEngine(OnyxSchedule(balance="warp", **options)), program(name), graph, 3)
    lists = {one.over for one in plan.launches if isinstance(one.over, VerticesByDegree)}
    listed = [one.of(graph).arrays[one.name] for one in lists]
    fewer = 8 if middle == 10 and hub > 8 else middle  # the graph is small, and has vertices of 10 in-edges
    limits = {"hubs": hub, "middle": fewer}
    wanted = {list_ for list_, used in (("hubs", hub <= 14), ("middle", fewer < min(hub, 15))) if used}
    assert {one.name: one.least for one in lists} == {list_: limits[list_] for list_ in wanted}
    found = np.concatenate([np.zeros(0, int), *listed])
    least = min([limits[list_] for list_ in wanted], default=15)
    assert np.array_equal(np.sort(found), np.flatnonzero(graph.in_degrees >= least))
    others = [one for one in plan.launches if one.apart and one.over not in lists]
    assert others
    left = {re.search(r"\bgather\w*<[^;(]*?(\d+)>\(", one.kernel.source)[1] for one in others}
    assert left == {str(least if wanted else 0)}
