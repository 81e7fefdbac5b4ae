"""Engines refuse with a reason; they run what they accept."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contract import Device, EngineFailure, No, ScheduleError, Yes, schedule_from_options
from harness.edge_places import EdgeOptions
from harness.language import K, maximum, minimum, normalize, where
from harness.options import options_in
from tests.engines.problems import LIBRARIES, PUSH, SPECS, STRATEGIES, new_engine, prepared, problem, program
from tests.engines.programs import edges_and_loops, inputs_for, program_named, traced, two_sides

ALL = {**STRATEGIES, "pull-loops": ("onyx", {"feature_aware": False})}
DELTAS = ("push", "gunrock")


def refusal(strategy, program_, features=2, graph=None, device=None):
    name, options = ALL[strategy]
    answer = new_engine(name, options).supports(
        program_, edges_and_loops() if graph is None else graph, features, device or Device(threads=1)
    )
    assert isinstance(answer, (Yes, No))
    if isinstance(answer, No):
        assert len(answer.reason.split()) >= 4, "a reason is a sentence"
        return answer.reason
    assert answer.bytes_needed > 0
    return ""


def product_over_graph(p, self):
    p.vertex("x0")
    p.vertex("x", start="x0")

    @p.over_graph(into="all", reduce="prod")
    def everything(v):
        return v.x

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src):
        return src.x

    @p.over_vertices
    def step(v, graph):
        return {"x": v.aggr / (1.0 + graph.all)}

    p.repeat(3)
    p.output("x", bound=1e-3)


def reversed_edges(p, self):
    p.edge("w")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src, edge):
        return edge.reverse.w * src.x

    @p.over_vertices
    def step(v):
        return {"x": v.aggr}

    p.repeat(3)
    p.output("x", bound=1e-3)


def settles_on_the_graph(p, self):
    """Read moving values only in a whole-graph reduction."""
    p.vertex("x0")
    p.vertex("x", start="x0")
    p.vertex("c")

    @p.over_graph(into="mean", reduce="sum")
    def mean_of(v, graph):
        return v.x / graph.num_vertices

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src):
        return src.c

    @p.over_vertices
    def step(v, graph):
        return {"x": 0.5 * v.x + 0.25 * graph.mean + 0.0 * v.aggr}

    p.until_settled(self.tolerance, at_most=50)
    p.output("x", bound=1e-3)


def long_rows(p, self):
    p.vertex("x0", (300,))
    p.vertex("x", (300,), start="x0")

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src):
        return src.x

    @p.over_vertices
    def step(v):
        return {"x": normalize(v.aggr)}

    p.repeat(2)
    p.output("x", bound=1e-3)


def descending(p, self):
    """Reduce by min with a message that decreases with its source, or with a step that drops the old value."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="best", reduce="min")
    def fall(src):
        return 1.0 - src.x

    @p.over_vertices
    def step(v):
        return {"x": minimum(v.x, v.best)}

    p.repeat(3)
    p.output("x", bound=1e-3)


def forgetful(p, self):
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="best", reduce="max")
    def rise(src):
        return src.x + 1.0

    @p.over_vertices
    def step(v):
        return {"x": maximum(v.best, 0.0)}

    p.repeat(3)
    p.output("x", bound=1e-3)


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize(
    ("build", "word"),
    [(product_over_graph, "everything"), (reversed_edges, "spread")],
)
def test_operations_that_are_not_lowered_are_refused_by_name(strategy, build, word):
    if strategy in LIBRARIES and build is product_over_graph:
        pytest.skip("a library multiplies over the graph")
    assert word in refusal(strategy, traced(build, build.__name__))


@pytest.mark.parametrize("strategy", ALL)
def test_edge_updates_are_taken_by_all_but_sparse_products(strategy):
    reason = refusal(strategy, program_named("beliefs"), graph=two_sides())
    assert ("message updates an edge property" in reason) if strategy == "scipy" else not reason


@pytest.mark.parametrize("build", [descending, forgetful])
@pytest.mark.parametrize("strategy", ALL)
def test_programs_without_a_delta_form_are_refused_in_push(strategy, build):
    reason = refusal(strategy, traced(build, build.__name__))
    assert bool(reason) == (strategy in DELTAS or strategy == "scipy")
    if strategy in DELTAS:
        assert ("fall" if build is descending else "step") in reason


@pytest.mark.parametrize("strategy", DELTAS)
def test_a_message_that_reads_its_destination_has_no_delta_form(strategy):
    assert "destination" in refusal(strategy, program_named("reads_destination"))
    assert "graph" in refusal(strategy, program_named("message_reads_graph"))


@pytest.mark.parametrize("strategy", ALL)
def test_alternating_sides_need_a_bipartite_graph(strategy):
    assert "bipartite" in refusal(strategy, program("als"))


@pytest.mark.parametrize("strategy", ALL)
def test_other_devices_are_refused(strategy):
    if "cuda" in SPECS[ALL[strategy][0]].devices:
        pytest.skip("it runs on CUDA devices as well")
    reason = refusal(strategy, program("pagerank"), device=Device("cuda", threads=1)).lower()
    assert ("runs on the processor only" if strategy == "scipy" else "cuda") in reason


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("build", [settles_on_the_graph, long_rows])
@pytest.mark.short_run(rows=10)
def test_a_yes_is_kept(strategy, build):
    """Every accepted program runs, and does not settle too early."""
    program_, graph = traced(build, build.__name__), edges_and_loops()
    if refusal(strategy, program_):
        return
    name, options = ALL[strategy]
    engine = prepared(name, options, program_, graph, 2)
    engine.reset(inputs_for(program_, graph, 2))
    statistics = engine.run(50)
    assert len(statistics.supersteps) > (10 if build is settles_on_the_graph else 1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("pipeline", True), ("balance", "edge"), ("vector_width", 4), ("block_size", 256), ("persistent", True),
        ("bottom_up", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("direction", ["push", "pull"])
def test_options_of_gpus_are_refused_by_name(option, value, direction):
    graph, _ = problem("pagerank", "grid", 1)
    answer = new_engine("onyx", {option: value, "direction": direction}).supports(
        program("pagerank"), graph, 1, Device(threads=1)
    )
    assert isinstance(answer, No)
    assert option in answer.reason


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("belief_propagation", {}, "reads or updates edges that change; give push or pull"),
        ("pagerank", {"change_driven": False}, "pushes what changed while little does; give change_driven=true"),
    ],
)
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_direction_that_switches_by_itself_is_refused_by_name(kind, name, options, reason):
    kept, device = "picture" if name == "belief_propagation" else "grid", Device(kind, threads=1)
    graph, _ = problem(name, kept, 2)
    engine = new_engine("onyx", {"direction": "adaptive", "dense_share": 0.5, **options})
    answer = engine.supports(program(name), graph, 2, device)
    assert isinstance(answer, No)
    assert reason in answer.reason
    with pytest.raises(EngineFailure, match="adaptive"):  # and no other direction is chosen instead
        engine.generate(program(name), graph, 2, device)


@pytest.mark.parametrize(
    ("name", "options"), [("gunrock", {}), ("tigr", {}), ("simdx", {}), ("onyx", {"balance": "edge"})]
)
def test_schedules_that_cannot_stream_edges_are_refused_by_name_on_gpus(name, options):
    engine = new_engine(name, {"edges": "streamed", **options})
    answer = engine.supports(program("pagerank"), edges_and_loops(), 1, Device("cuda"))
    assert isinstance(answer, No)
    assert "of this schedule does not work on consecutive vertices; give edges=mapped" in answer.reason


@pytest.mark.parametrize("name", ["onyx", "gunrock", "tigr", "simdx"])
def test_managed_edges_are_refused_by_name_on_the_cpu(name):
    answer = new_engine(name, {"edges": "managed"}).supports(
        program("pagerank"), edges_and_loops(), 1, Device(threads=1)
    )  # fmt: skip
    assert answer == No("edges=managed is for GPUs; give one of resident, mapped, streamed on the CPU")


def test_advice_needs_managed_edges():
    with pytest.raises(ScheduleError, match="advice=prefetch applies only to edges=managed"):
        new_engine("tigr", {"edges": "mapped", "advice": "prefetch"})


@pytest.mark.parametrize("edges", ["sharded", "host"])
def test_places_that_are_not_built_are_no_values_of_the_option(edges):
    with pytest.raises(ScheduleError, match=f"edges='{edges}': give one of resident, mapped, streamed, managed"):
        schedule_from_options(SPECS["tigr"], {"edges": edges})


def test_the_balance_of_gunrock_is_refused_by_name():
    graph, _ = problem("pagerank", "grid", 1)
    answer = new_engine("gunrock", {"balance": "merge_path"}).supports(program("pagerank"), graph, 1, Device(threads=1))
    assert isinstance(answer, No)
    assert "balance" in answer.reason


@pytest.mark.parametrize(
    ("option", "value"),
    [("filter", "jit"), ("bin_size", 64), ("pull_share", 0.3), ("fusion", "none"), ("resident_blocks", 4)],
)
def test_the_tasks_of_simdx_are_refused_by_name_on_the_cpu(option, value):
    graph, _ = problem("bfs", "grid", 1)
    answer = new_engine("simdx", {option: value}).supports(program("bfs"), graph, 1, Device(threads=1))
    assert isinstance(answer, No)
    assert option in answer.reason


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("onyx", {"direction": "sideways"}), ("onyx", {"rebuild": -1}), ("onyx", {"dense_share": -0.5}),
        ("tigr", {"degree_bound": 0}), ("simdx", {"warp_degree": 9, "block_degree": 3}), ("gunrock", {"rebuild": -2}),
        ("simdx", {"filter": "batch"}), ("simdx", {"fusion": "pull"}), ("simdx", {"bin_size": 0}),
        ("simdx", {"bin_size": 64, "filter": "ballot"}), ("simdx", {"pull_share": 1.5}),
        ("simdx", {"resident_blocks": 8, "fusion": "none"}), ("onyx", {"balance": "hub"}),
        ("onyx", {"vector_width": 3}), ("onyx", {"block_size": 100}), ("onyx", {"block_size": 1024}),
    ],
)  # fmt: skip
def test_senseless_options_are_refused(name, options):
    with pytest.raises(ScheduleError, match=next(iter(options))):
        schedule_from_options(SPECS[name], options)


@pytest.mark.parametrize("name", SPECS)
def test_schedules_are_frozen_described_and_readable(name):
    spec = SPECS[name]
    schedule = spec.schedule()
    assert repr(schedule).startswith(type(schedule).__name__)
    for field in spec.schedule.__dataclass_fields__.values():
        if not str(field.type).startswith("ClassVar"):
            assert field.metadata["help"]
            with pytest.raises(AttributeError):
                setattr(schedule, field.name, field.default)
    with pytest.raises(ScheduleError, match="no schedule option"):
        schedule_from_options(spec, {"no_such_option": 1})


@pytest.mark.parametrize("strategy", DELTAS)
def test_sums_of_where_and_constants_are_accepted(strategy):
    def build(p, self):
        p.vertex("x0", K)
        p.vertex("x", K, start="x0")

        @p.over_edges(into="aggr", reduce="sum")
        def spread(src, edge):
            return where(src.x > 0.5, src.x, 0.5)

        @p.over_vertices
        def step(v):
            return {"x": normalize(v.aggr)}

        p.repeat(2)
        p.output("x", bound=1e-3)

    assert refusal(strategy, traced(build, "accepted")) == ""


def test_bytes_needed_grow_with_features():
    graph, _ = problem("pagerank", "rmat", 1)
    for strategy in STRATEGIES:
        name, options = STRATEGIES[strategy]
        few, many = (
            new_engine(name, options).supports(program("pagerank"), graph, k, Device(threads=1)).bytes_needed
            for k in (8, 64)
        )
        assert few < many
        assert many >= 2 * 4 * 64 * graph.num_vertices  # at least what is read and written
    assert np.isfinite(many)


def test_push_schedules_share_their_options():
    assert new_engine("onyx", PUSH).schedule.direction == "push"


@pytest.mark.parametrize("name", ["onyx", "simdx", "emogi"])
def test_options_described_as_those_of_gpus_are_those_refused_on_the_cpu(name):
    """The description of an option and the list of refused ones are written apart."""
    schedule = SPECS[name].schedule
    inherited = {option.name for option in options_in(EdgeOptions)}  # which depend on edges=, tested above
    described = {option.name for option in options_in(schedule) if option.help.startswith("GPU: ")} - inherited
    assert described
    assert described <= set(schedule.GPU_ONLY)
