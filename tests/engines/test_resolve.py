"""Resolving a schedule fills in every option that is None, from facts only; lowering chooses none of them again."""

import itertools
from dataclasses import asdict, replace
from functools import cache
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from engines.libraries.cusparse_ways import all_ways
from engines.onyx.policy import Policy, lane_groups_of_vertex, untracked_share
from engines.onyx.resolve import resolve
from engines.onyx.schedule import OnyxSchedule
from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx import resolve as simdx
from engines.pullbaseline.simdx.cuda_executor import SimdxExecutor
from engines.pushbaseline.gunrock import resolve as gunrock
from engines.pushbaseline.schedules import GunrockSchedule
from harness.api import DeviceFacts, GraphFacts
from harness.campaign.cell import load
from harness.contract import Device, No, ScheduleError, options_of
from harness.facts import Degrees
from harness.graph import Graph
from harness.graph.generators import grid, random_ratings, rmat
from harness.language import Algorithm, K, minimum, trace
from harness.lowering.accumulators import separated
from harness.lowering.cuda.device_store import DeviceStore
from harness.lowering.log_products import products_as_sums
from harness.options import options_in
from tests.covering import covering
from tests.engines.cuda_modules import DECLARED, VARIANTS, algorithms, pairs, problem, registry
from tests.engines.problems import ALGORITHMS, new_engine, program, small
from tests.engines.programs import traced

DEVICES = {kind: DeviceFacts(kind) for kind in ("cpu", "cuda")}
VALUES = {
    item.name: item.values for item in options_in(OnyxSchedule) if item.values and item.name in OnyxSchedule.GPU_ONLY
}

# of the engines that try schedules, run panels, or choose the order or the solver of a run, and of no schedule within
ELSEWHERE = (
    "tune", "tune_s", "tried", "panel", "cache_mb", "order", "delta", "order_reason", "order_estimates", "hooking",
    "solver", "solved",
)  # fmt: skip
schedules = st.builds(
    OnyxSchedule,
    feature_aware=st.booleans(),
    change_driven=st.none() | st.booleans(),
    fold=st.booleans(),
    direction=st.none() | st.sampled_from(("push", "pull")),
    dense_share=st.none() | st.floats(0.0, 1.0),
    pipeline=st.none() | st.booleans(),
    edges=st.none() | st.sampled_from(("resident", "mapped", "streamed", "managed")),
    **{name: st.none() | st.sampled_from(VALUES[name]) for name in VALUES},
)
facts = st.builds(GraphFacts, st.integers(0, 2**31), st.integers(0, 2**40), st.integers(0, 2**31))


def lowered(name):
    return separated(products_as_sums(program(name), masked=True))


@given(schedules, st.sampled_from(sorted(ALGORITHMS)), st.integers(1, 300), facts, st.sampled_from(sorted(DEVICES)))
def test_resolving_is_idempotent_and_pure_and_fills_in_every_option(schedule, algorithm, features, graph, device):
    traced_program, before = lowered(algorithm), asdict(schedule)
    serialised = traced_program.serialise()
    found = resolve(schedule, traced_program, features, graph, DEVICES[device])
    assert resolve(schedule, traced_program, features, graph, DEVICES[device]) == found
    assert resolve(found, traced_program, features, graph, DEVICES[device]) == found
    assert asdict(schedule) == before
    assert traced_program.serialise() == serialised
    chosen = {name: value for name, value in asdict(found).items() if before[name] is None and name not in ELSEWHERE}
    assert asdict(found) == before | chosen
    assert found.change_driven is not None
    turns = found.direction == "adaptive" and schedule.dense_share is None
    assert chosen.pop("share_by") == ("fitted" if turns else None)
    assert chosen.pop("edges", "resident") == "resident"
    assert chosen.pop("advice") == ("read_mostly" if schedule.edges == "managed" else None)
    wide = device == "cuda" and features >= Policy().wide_features
    assert chosen.pop("window_mb") == ((64 if wide else 32) if schedule.edges == "streamed" else None)
    assert chosen.pop("codes") == ("plain" if schedule.edges == "streamed" else None)
    if device == "cuda":
        assert None not in chosen.values()
    else:  # options of a GPU stay unchanged
        assert {name for name, value in chosen.items() if value is None} == set(chosen) & set(OnyxSchedule.GPU_ONLY)
        assert 0.0 <= found.dense_share <= 1.0
    assert found.direction in (("push", "pull", "adaptive") if device == "cpu" else ("push", "pull"))


# Segments pay off from 8 edges per vertex, or with a hub; otherwise owners of vertices gather.
FEW, MANY = GraphFacts(10**7, 7 * 10**7, 20), GraphFacts(10**7, 8 * 10**7, 20)
HUB = GraphFacts(5 * 10**7, 6 * 10**7, 1024)
CHOICES = [
    ({}, "pagerank", 8, FEW, {"balance": "warp", "vector_width": 4}),
    ({}, "pagerank", 8, MANY, {"balance": "edge", "vector_width": 4}),
    ({}, "pagerank", 8, HUB, {"balance": "edge", "vector_width": 4}),
    ({}, "pagerank", 8, replace(HUB, max_in_degree=1023), {"balance": "warp", "vector_width": 4}),
    ({"direction": "push"}, "pagerank", 2, FEW, {"balance": "edge", "vector_width": 2}),
    ({"direction": "push", "feature_aware": False}, "pagerank", 8, MANY, {"balance": "warp", "vector_width": 1}),
    ({}, "als", 8, MANY, {"balance": "warp", "vector_width": 1}),
    ({"balance": "warp", "vector_width": 2}, "pagerank", 8, MANY, {"balance": "warp", "vector_width": 2}),
    ({"block_size": 64, "pipeline": False}, "pagerank", 8, MANY, {"block_size": 64, "pipeline": False}),
    ({}, "pagerank", 8, MANY, {"block_size": 256, "pipeline": True, "dense_share": 0.01}),
]


@pytest.mark.parametrize(("options", "algorithm", "features", "graph", "expected"), CHOICES)
def test_choices_on_a_gpu(options, algorithm, features, graph, expected):
    found = asdict(resolve(OnyxSchedule(**options), lowered(algorithm), features, graph, DEVICES["cuda"]))
    assert {name: found[name] for name in expected} == expected


def test_the_facts_of_a_graph():
    degrees = Degrees(((1, 3000), (3000, 1)))
    assert small("hub").facts == GraphFacts(3001, 6000, 3000, degrees, degrees, paired=True)
    none = Degrees(((0, 5),))
    assert small("no edges").facts == GraphFacts(5, 0, 0, none, none, paired=True)
    ratings = random_ratings(users=40, items=30, num_ratings=200)
    assert ratings.facts.bipartite == (40, 30)
    directed = Graph.from_edges([0, 1, 1], [1, 2, 0], num_vertices=4, name="directed").facts
    assert directed == GraphFacts(4, 3, 1, Degrees(((0, 1), (1, 3))), Degrees(((0, 2), (1, 1), (2, 1))))


def test_degrees_are_summarised_without_loss():
    graph = rmat(7, 6)
    found, degrees = graph.facts.out_degrees, graph.out_degrees
    for first, last in ((0, None), (3, 10), (5, 4), (1000, None)):
        wanted = (degrees >= first) & (True if last is None else degrees <= last)
        assert found.between(first, last) == wanted.sum()
    for size in (1, 3, 8):
        assert found.slices(size) == (-(-degrees // size)).sum()


OPEN = {  # with None, which leaves the choice to the engine
    "onyx": {"pipeline": (None,), "balance": (None, "warp"), "vector_width": (None, 2), "block_size": (None, 64)},
    "gunrock": {"balance": (None, "block", "merge_path")},
    "simdx": {
        "fusion": (None, "none", "all"), "filter": (None, "ballot"), "bin_size": (None, 16), "pull_share": (None, 0.5),
        "resident_blocks": (None, 3),
    },
}  # fmt: skip


@cache
def few_edges(algorithm):
    """Return the program of an algorithm and a graph of small degrees that it can run on."""
    name, parameters = VARIANTS.get(algorithm, (algorithm, {}))
    chosen = load(registry().algorithm(name).factory)(**parameters)
    graph = random_ratings(users=40, items=30, num_ratings=200) if name == "als" else grid(rows=6, columns=7)
    return problem(algorithm)[0], chosen.prepare_graph(graph)


def is_valid(name, schedule):
    """Return whether the options of a schedule can be combined."""
    try:
        registry().engine(name).schedule(**dict(schedule))
    except ScheduleError:
        return False
    return True


def planned(engine, problem, features):
    """Return the plan of a program, or the reason why it is refused."""
    traced_program, graph = problem
    return engine.plan(traced_program, graph.facts, features)


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        pytest.param(name, algorithm, marks=() if (i + j) % 2 == 0 else (pytest.mark.full,))
        for i, name in enumerate(OPEN)
        for j, algorithm in enumerate(algorithms())
    ],
)
def test_lowering_a_resolved_schedule_makes_the_same_kernels(name, algorithm):
    """So no option is chosen after ``resolve``."""
    declared = DECLARED[name]
    every = replace(declared, options={**declared.options, **OPEN[name]})
    compared = 0
    valid = [one for one in every.schedules() if is_valid(name, one)]
    accepted = [one for one in valid if not isinstance(planned(every.build(one), problem(algorithm), 8), No)]
    for schedule in covering(accepted, pairs):
        for features, posed in itertools.product((1, 8, 128), (problem(algorithm), few_edges(algorithm))):
            engine = every.build(schedule)
            found = planned(engine, posed, features)
            if isinstance(found, No):
                continue
            again = every.build(tuple(options_of(found.schedule).items()))
            assert planned(again, posed, features) == found
            compared += 1
    # Gunrock's style updates no edges, and follows no changes of vertices that values name.
    assert compared or (name, algorithm.split()[0]) in {("gunrock", "belief_propagation"), ("gunrock", "mst")}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_explain_shows_every_option_resolved(device):
    engine = new_engine("onyx")
    engine.generate(program("pagerank"), small("rmat"), 8, Device(device))
    first, second = [line for line in engine.explain().splitlines() if line.startswith(("schedule", "chosen by"))]
    assert first.startswith("schedule OnyxSchedule(edges='resident', feature_aware=True, ")
    assert "None" not in first
    chosen = [name for name in engine.resolved_options() if name not in options_of(engine.schedule)]
    assert second == f"chosen by the engine: {', '.join(chosen)}"


TASKS_ONLY = {"filter": "jit", "bin_size": 64, "pull_share": 0.3}
SIMDX = [
    ({}, "bfs", 1, {**TASKS_ONLY, "fusion": "push_pull", "resident_blocks": None}),
    ({"filter": "ballot", "fusion": "all"}, "bfs", 1, {"filter": "ballot", "bin_size": None, "fusion": "all"}),
    ({"bin_size": 16, "pull_share": 0.0}, "bfs", 1, {"bin_size": 16, "pull_share": 0.0}),
    ({}, "pagerank", 1, {**dict.fromkeys(TASKS_ONLY), "fusion": "push_pull"}),
    ({}, "pagerank", 2, {"fusion": "none"}),
    ({"resident_blocks": 3}, "pagerank", 2, {"fusion": "push_pull", "resident_blocks": 3}),
]


@pytest.mark.parametrize(("options", "algorithm", "features", "expected"), SIMDX)
def test_simdx_choices_on_a_gpu(options, algorithm, features, expected):
    schedule = SimdxSchedule(**options)
    found = simdx.resolve(schedule, lowered(algorithm), features)
    assert {name: getattr(found, name) for name in expected} == expected
    assert simdx.resolve(found, lowered(algorithm), features) == found
    assert schedule == SimdxSchedule(**options)


def test_the_blocks_of_fused_kernels_are_known_once_they_are_loaded():
    engine = new_engine("simdx", {"warp_degree": 4})
    engine.generate(program("bfs"), small("rmat"), 1, Device("cuda"))
    assert "resident_blocks" not in engine.resolved_options()
    assert "resident_blocks: as many as the device holds" in engine.explain()
    loaded = engine.prepared._executor = SimdxExecutor(engine.prepared.planned, DeviceStore(small("rmat")))
    loaded.blocks_of = {"fused_push": 132, "fused_pull": 264}
    assert engine.resolved_options()["resident_blocks"] == [132, 264]
    for same in ({"fused_push": 132, "fused_pull": 132}, {"fused": 132}):
        loaded.blocks_of = same
        assert engine.resolved_options()["resident_blocks"] == 132
        assert engine.explain().startswith("\n".join(f"{name}: 132 blocks, all resident" for name in same))


def test_gunrock_balances_by_blocks_on_a_gpu():
    for device, balance in {"cuda": "block", "cpu": None}.items():
        wanted = GunrockSchedule(3, balance, edges="resident")
        assert gunrock.resolve(GunrockSchedule(rebuild=3), DEVICES[device]) == wanted
    given_ = GunrockSchedule(balance="merge_path", edges="mapped")
    assert gunrock.resolve(given_, DEVICES["cuda"]) == given_


def tuned(split, *ways, **schedule):
    """Return an engine of cuSPARSE with the given choices (algorithm, order, preprocessing)."""
    pytest.importorskip("cupy", reason="the engine imports CuPy")
    engine = new_engine("cusparse", schedule)
    named = [SimpleNamespace(algorithm=a, order=order, preprocess=first) for a, order, first in ways]
    engine.choices = SimpleNamespace(made={i: SimpleNamespace(way=way) for i, way in enumerate(named)})
    engine.split = split
    return engine


def test_cusparses_tuned_options_are_resolved():
    one = tuned(["no"], (2, "row", False))
    assert one.resolved_options() == {"algorithm": 2, "order": "row", "preprocess": "no", "split": "no"}
    several = tuned(["yes", "yes"], (2, "row", False), (3, "column", True), (2, "row", False), algorithm=0)
    assert several.resolved_options() == {
        "algorithm": [2, 3, 2],
        "order": ["row", "column", "row"],
        "preprocess": ["no", "yes", "no"],
        "split": "yes",
    }
    assert tuned([], order="column").resolved_options() == {"order": "column"}
    assert new_engine("cusparse").resolved_options() == {}


@pytest.mark.parametrize(
    ("facts_", "share"),
    [(GraphFacts(0, 1000, 1), 0.95), (GraphFacts(50, 1000, 1), 0.75), (GraphFacts(1000, 0, 0), 0.55)],
)
def test_the_share_from_which_a_push_is_not_tracked_grows_with_degrees(facts_, share):
    found = untracked_share(facts_, Policy(), pulls=False, dense_share=0.0, edges_change=False)
    assert found == pytest.approx(share, abs=1e-4)
    assert untracked_share(facts_, Policy(), pulls=False, dense_share=1.0, edges_change=True) == 0.5
    for dense, pulled in ((0.0, 0.1), (0.3, 0.3)):
        assert untracked_share(facts_, Policy(), pulls=True, dense_share=dense, edges_change=False) == pulled


@pytest.mark.parametrize(("edges", "shared"), [(0, 1), (799, 1), (800, 2), (1600, 4), (3200, 8), (10**6, 8)])
def test_lane_groups_share_a_vertex_by_its_average_degree(edges, shared):
    assert lane_groups_of_vertex(GraphFacts(100, edges, 5), 10, Policy()) == shared
    assert lane_groups_of_vertex(GraphFacts(100, edges, 5), 1, Policy()) == 1


@pytest.mark.parametrize(
    ("edges", "features", "device", "options", "followed"),
    [
        (20_000, 1, "cpu", {}, False),
        (20_000, 8, "cpu", {}, False),
        (20_000, 16, "cpu", {}, True),  # each edge takes twice as long
        ((1 << 15) - 1, 8, "cpu", {}, False),
        (1 << 15, 8, "cpu", {}, True),
        (1 << 14, 15, "cpu", {}, False),
        (1 << 14, 16, "cpu", {}, True),
        (40_000, 1, "cpu", {}, True),
        (20_000, 1, "cuda", {}, False),
        (5_000_000, 1, "cuda", {}, True),
        (20_000, 1, "cuda", {"balance": "edge"}, True),
        (20_000, 1, "cuda", {"edges": "mapped"}, True),
        (20_000, 1, "cuda", {"fold": False}, True),
        (20_000, 1, "cpu", {"direction": "pull"}, True),
        (20_000, 1, "cpu", {"dense_share": 0.1}, True),
        (20_000, 1, "cpu", {"edges": "streamed"}, True),
        (20_000, 1, "cpu", {"edges": "resident"}, False),
        (20_000, 1, "cpu", {"change_driven": True}, True),
        (40_000, 1, "cpu", {"change_driven": False}, False),
    ],
)
def test_changes_are_followed_by_default_unless_edges_are_few(edges, features, device, options, followed):
    graph = GraphFacts(edges // 4, edges, 9)
    found = resolve(OnyxSchedule(**options), lowered("bfs"), features, graph, DEVICES[device])
    assert found.change_driven is followed
    if not followed:
        assert found.direction == "pull"


PULL, TILES = ("pull", False, "warp", True), ("pull", False, "edge", True)
LAUNCHED, OTHERS = ("pull", False, "warp", False), ("pull", True, "warp", False)  # OTHERS: of graphs not measured
PUSH_LARGE, ADAPTIVE = ("push", True, "warp", True), ("adaptive", True, "parts", True)
PUSHED, ADAPTIVE_LAUNCHED = ("push", True, "edge", False), (*ADAPTIVE[:3], False)


@pytest.mark.parametrize(
    ("algorithm", "features", "edges", "max_in_degree", "wanted"),
    [
        ("bfs", 1, 50_000, 64, PULL),
        ("bfs", 3, (3 << 21) - 1, 64, PULL),
        ("bfs", 64, 3 << 21, 64, ADAPTIVE),
        ("kcore", 1, 3 << 21, 64, ADAPTIVE),
        ("kcore", 16, 3 << 21, 64, ADAPTIVE),  # sums of single numbers
        ("label_propagation", 11, (1 << 25) - 1, 64, ADAPTIVE),
        ("label_propagation", 12, 3 << 21, 64, ADAPTIVE_LAUNCHED),  # sums of long rows
        ("manifold_ranking", 64, (1 << 25) - 1, 64, ADAPTIVE_LAUNCHED),
        ("components", 1, 3 << 21, 63, PULL),
        ("pagerank", 1, 3 << 21, 64, PULL),  # reduces over the graph
        ("belief_propagation", 2, 3 << 21, 64, TILES),  # edges are updated
        ("multimodal", 3, 3 << 21, 64, ADAPTIVE),
        ("multimodal", 4, 3 << 21, 64, ADAPTIVE_LAUNCHED),  # sums of matrices
        ("sssp", 4, 1 << 20, 64, PULL),
        ("bfs", 3, (1 << 22) - 1, 63, PULL),
        ("bfs", 1, 1 << 22, 63, PUSH_LARGE),
        ("sssp", 64, 1 << 18, 63, PULL),
        ("sssp", 64, 1 << 22, 63, PUSH_LARGE),
        ("components", 1, 50_000, 64, PULL),
        ("components", 1, (1 << 23) - 1, 63, PULL),
        ("components", 1, 1 << 23, 63, LAUNCHED),  # of many vertices
        ("components", 1, (1 << 25) - 1, 63, LAUNCHED),
        ("pagerank", 1, 1 << 24, 64, PULL),
        ("pagerank", 9, 1 << 21, 64, PULL),
        ("pagerank", 16, 1 << 22, 64, TILES),
        ("pagerank", 3, 1 << 22, 63, PULL),
        ("pagerank", 4, 1 << 22, 63, OTHERS),
        ("pagerank", 15, 1 << 22, 63, OTHERS),
        ("pagerank", 16, 1 << 22, 63, PUSHED),  # reduces over the graph
        ("label_propagation", 16, 1 << 22, 63, OTHERS),
        ("label_propagation", 64, 1 << 19, 63, LAUNCHED),
        ("label_propagation", 64, 1 << 19, 64, TILES),
        ("belief_propagation", 2, 50_000, 64, TILES),  # edges are updated
        ("belief_propagation", 2, 50_000, 63, PULL),
        ("multimodal", 4, 50_000, 64, PULL),  # sums of matrices
        ("als", 8, 50_000, 64, OTHERS),  # of k x k
        ("pagerank", 65, 50_000, 63, OTHERS),
        ("pagerank", 1, 1 << 25, 63, OTHERS),
    ],
)
def test_choices_by_measurement_on_a_gpu(algorithm, features, edges, max_in_degree, wanted):
    graph = GraphFacts(edges // 4, edges, max_in_degree)
    found = resolve(OnyxSchedule(), lowered(algorithm), features, graph, DEVICES["cuda"])
    assert (found.direction, found.change_driven, found.balance, found.persistent) == wanted
    one_given = resolve(OnyxSchedule(balance="warp"), lowered(algorithm), features, graph, DEVICES["cuda"])
    assert (one_given.direction, one_given.change_driven, one_given.persistent) == ("pull", True, False)


def test_changes_that_cannot_be_pushed_are_pulled_where_those_of_sums_are_pushed():
    def build(p, self):
        p.vertex("x0", K)
        p.vertex("x", K, start="x0")

        @p.over_edges(into="best", reduce="max")
        def greatest(src):
            return src.x

        @p.over_graph(into="total", reduce="sum")
        def total(v):
            return v.x

        @p.over_vertices
        def step(v, graph):
            return {"x": 0.5 * v.best + 0.1 * graph.total}

        p.until_settled(self.tolerance, at_most=50)
        p.output("x", bound=1e-3)

    read, graph = traced(build, "greatest", tolerance_value=0.01), GraphFacts(1 << 20, 1 << 22, 63)
    found = resolve(OnyxSchedule(), read, 16, graph, DEVICES["cuda"])
    assert (found.direction, found.change_driven, found.balance, found.persistent) == OTHERS


def test_another_policy_chooses_otherwise():
    eager = Policy(dense_degree=2, block_size=64, dense_share_cuda=0.5)
    found = resolve(OnyxSchedule(), lowered("pagerank"), 8, FEW, DEVICES["cuda"], eager)
    assert (found.balance, found.block_size, found.dense_share) == ("edge", 64, 0.5)


@pytest.mark.parametrize("features", [1, 8])
def test_every_schedule_of_cusparse_leaves_a_way(features):
    pytest.importorskip("cupy", reason="the engine imports CuPy")
    values = {"algorithm": (0, 1, 2, 3), "order": ("auto", "row", "column"), "preprocess": ("auto", "yes", "no")}
    for chosen in itertools.product(*values.values()):
        options = dict(zip(values, chosen, strict=True))
        allowed = new_engine("cusparse", options)._allowed
        assert [way for way in all_ways(features) if allowed(way, features)], options


@pytest.mark.parametrize(("weighted", "direction"), [
    ((False,), "adaptive"), ((True,), "push"), ((True, True), "push"), ((True, False), "adaptive"),
    ((False, True), "adaptive"),
])  # fmt: skip
def test_changes_are_pushed_on_the_cpu_if_all_messages_travel_along_paths(weighted, direction):
    """A message that is only the value of its source moves most vertices at once."""

    class Several(Algorithm):
        name = "several"

        def build(self, p):
            for number, along in enumerate(weighted):
                self.reduction(p, f"x{number}", float(along))
            p.repeat(9)
            p.output("x0", bound=0.0)

        def reduction(self, p, name, step):
            p.vertex(name, start=1.0)
            p.over_edges(into=f"least_{name}", reduce="min")(
                lambda src: getattr(src, name) + step if step else getattr(src, name)
            )
            p.over_vertices(lambda v: {name: minimum(getattr(v, name), getattr(v, f"least_{name}"))})

    graph = GraphFacts(1 << 18, 1 << 20, 9)
    found = resolve(OnyxSchedule(), trace(Several()), 1, graph, DEVICES["cpu"])
    assert (found.change_driven, found.direction) == (True, direction)
