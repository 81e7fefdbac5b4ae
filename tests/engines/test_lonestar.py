"""Steps in place on the CPU: orders, locks, and the replay in the engine's own order, which finds planted defects."""

from __future__ import annotations

import functools
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lonestar import cpu_blocks, cpu_locks, cpu_plan, onyx_engines
from engines.lonestar.counts import lost_share
from engines.lonestar.cpu_engine import LonestarCpuEngine
from engines.lonestar.orders import batches_of, equal_blocks, matching_of_edges
from engines.lonestar.schedule import BATCHED, LOCKED, LonestarSchedule
from engines.lonestar.sorted_edges import ROWS_IN_TURN, alternating
from engines.lonestar.stamps import serial_order
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import Device, EngineFailure, No, Phases, ScheduleError, schedule_from_options
from harness.graph import Graph, load_graph
from harness.graph.generators import random_ratings
from harness.language import Inputs, trace
from harness.language.expressions import substitute
from harness.language.reference import ReferenceRun
from harness.language.replay import replay
from harness.language.validation import compare
from tests.algorithms.answers import data
from tests.language.programs import program_of
from tests.language.test_edge_steps import stepping

ORDERS = (*BATCHED, *LOCKED)
OPTIONS = {"owner": {"hub": 40}, "grid": {"blocks": 5}, "wavefront": {"blocks": 3}}  # for graphs of 2,500 edges
ALGORITHM = SGDMatrixFactorisation(alpha=0.1, epochs=3)
# Figures 3 and 5 of the paper: user and movie of each rating.
PAPER = dict(zip("abcdefghijkl", [(0, 0), (1, 0), (2, 0), (4, 0), (5, 0), (0, 1), (1, 1), (4, 1), (3, 2), (5, 2),
                                  (0, 3), (1, 3)], strict=True))  # fmt: skip


@functools.cache
def ratings(count=2500):
    graph = random_ratings(users=120, items=80, num_ratings=count, seed=4)
    return ALGORITHM.prepare_graph(graph)


def sides(pairs, left, right):
    rows, columns = np.asarray(pairs, np.int64).reshape(-1, 2).T
    weights = np.random.default_rng(1).uniform(-1, 1, len(rows))
    return Graph.from_edges(
        rows, columns + left, num_vertices=left + right, weights=weights, name="sides", bipartite=(left, right),
        duplicates="keep",
    )  # fmt: skip


@functools.cache
def example():
    return sides(list(PAPER.values()), 6, 4)


def letters(graph, edges):
    names = {pair: name for name, pair in PAPER.items()}
    u, v = graph.csr.row_of_edge[edges], graph.csr.neighbours[edges]
    return "".join(names[int(a), int(b) - 6] for a, b in zip(u, v, strict=True))


def of_batches(graph, found):
    bounds = found.batches if found.units is None else found.units[found.batches]
    return [found.edges[first:last] for first, last in pairwise(bounds)]


def uneven():
    """Return ratings of columns whose numbers do not follow their degrees."""
    pairs = np.random.default_rng(1).integers(0, [6, 9], (40, 2))
    return sides([(int(row), int(column)) for row, column in np.unique(pairs, axis=0)], 6, 9)


# orders ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("graph", [example(), sides([], 3, 2), sides([(0, 0)], 1, 1), sides([(0, i) for i in range(9)],
                         1, 9), sides([(0, 0), (0, 0), (1, 0)], 2, 1), ratings(), uneven()],
                         ids=["paper", "empty", "one", "star", "parallel", "ratings", "uneven"])  # fmt: skip
@pytest.mark.parametrize("order", BATCHED)
@pytest.mark.short_run(rows=99)  # a row takes milliseconds
def test_batches_have_every_edge_once_and_units_without_a_common_end(order, graph):
    schedule = LonestarSchedule(order=order, nodes=3, blocks=4).resolved(given=False)
    found = batches_of(graph, schedule)
    assert sorted(found.edges) == list(range(graph.num_edges))
    assert found.sizes.sum() == graph.num_edges
    assert (found.sizes > 0).all()
    ends = np.stack([graph.csr.row_of_edge, graph.csr.neighbours], 1)
    unit = np.arange(graph.num_edges)
    if found.units is not None:
        unit = np.repeat(np.arange(len(found.units) - 1), np.diff(found.units))
    for edges, units in zip(
        of_batches(graph, found), np.split(unit, np.cumsum(found.sizes)[:-1]) if len(found.sizes) else [], strict=True
    ):
        owners = {}
        for e, one in zip(edges, units, strict=True):
            assert all(owners.setdefault(v, one) == one for v in ends[e])


def test_the_diagonals_of_the_papers_example():
    graph = example()
    found = of_batches(graph, batches_of(graph, LonestarSchedule(order="diag")))
    assert [letters(graph, edges) for edges in found] == ["k", "l", "f", "ag", "bi", "c", "hj", "d", "e"]
    blocks = of_batches(graph, batches_of(graph, LonestarSchedule(order="blkdiag")))
    assert [set(letters(graph, edges)) for edges in blocks] == [set("kl"), set("abfgi"), set("cj"), set("deh")]


def test_the_papers_example_has_as_many_matchings_as_its_largest_degree():
    graph = example()
    found = of_batches(graph, batches_of(graph, LonestarSchedule(order="agm_e")))
    assert len(found) == 5
    blocks = of_batches(graph, batches_of(graph, LonestarSchedule(order="sgm", nodes=2)))
    # movies 0 and 1 have 5 and 3 ratings, and matchings of their own; then movies 2 and 3
    assert [set(letters(graph, edges)) <= set("abcdefgh") for edges in blocks] == [True] * 5 + [False] * 2
    by_block = of_batches(graph, batches_of(graph, LonestarSchedule(order="agm_n", nodes=2)))
    assert "".join(sorted("".join(letters(graph, edges) for edges in by_block[:5]))) == "abcdefgh"
    assert len(by_block) > len(blocks)  # the matchings of the whole graph do not fit the block


@given(st.data())
def test_matchings_are_maximal(data):
    """Of two sides, or of vertices that are the source of some edges and the destination of others."""
    first, last = data.draw(st.sampled_from([(6, 7), (12, 0)]))
    ends = st.tuples(st.integers(0, first), st.integers(last, 12)).filter(lambda pair: pair[0] != pair[1])
    pairs = data.draw(st.lists(ends, max_size=40, unique=True))
    rows, columns = np.asarray(pairs, np.int64).reshape(-1, 2).T.copy()
    found = matching_of_edges(rows, columns, 13, np.argsort(columns, kind="stable"))
    degrees = np.bincount(np.concatenate([rows, columns]), minlength=1)
    assert found.max(initial=0) <= max(2 * degrees.max() - 2, 0)
    for e, (u, v) in enumerate(pairs):
        near = (rows == u) | (columns == v) | (rows == v) | (columns == u)
        assert sorted(found[near]).count(found[e]) == 1
        assert set(range(found[e])) <= set(found[near])  # every earlier matching has an edge at one of its ends


def test_levels_take_no_more_batches_than_the_longest_chain():
    graph = sides([(0, 0), (1, 0), (1, 1), (2, 1), (3, 3)], 4, 4)
    found = batches_of(graph, LonestarSchedule(order="levels", shuffle=False))
    assert found.sizes.tolist() == [2, 1, 1, 1]


# stamps ---------------------------------------------------------------------------------------------------------------
def stamps_of(order, u, v):
    count, stamps = {}, np.empty((len(u), 2), np.int32)
    for e in order:
        for end, vertex in enumerate((u[e], v[e])):
            stamps[e, end] = count.get(vertex, 0)
            count[vertex] = stamps[e, end] + 1
    return stamps


def test_stamps_give_an_order_with_the_same_result():
    u, v = np.array([0, 0, 1, 1, 2]), np.array([3, 4, 4, 3, 3])
    stamps = stamps_of([4, 2, 0, 1, 3], u, v)
    assert np.array_equal(stamps_of(serial_order(u, v, stamps), u, v), stamps)
    assert len(serial_order(u[:0], v[:0], stamps[:0])) == 0


@pytest.mark.parametrize("defect", ["tie", "gap", "missing", "cycle"])
def test_stamps_without_an_order_are_found(defect):
    u, v = np.array([0, 0, 1, 1]), np.array([2, 3, 3, 2])
    stamps = stamps_of([0, 1, 2, 3], u, v)
    match defect:
        case "tie":  # two edges at vertex 2 at the same time
            stamps[3, 1] = 0
        case "gap":
            stamps[3, 1] = 2
        case "missing":
            stamps[1] = -1
        case "cycle":  # 0 before 1 at vertex 0, before 2 at vertex 3, before 3 at vertex 1, before 0 at vertex 2
            stamps[3, 1], stamps[0, 1] = 0, 1
    with pytest.raises(EngineFailure, match="cycle" if defect == "cycle" else "same time"):
        serial_order(u, v, stamps)


# replay ---------------------------------------------------------------------------------------------------------------
def replayed(engine, program, graph, inputs, features, supersteps=3):
    """Compare an engine, after some supersteps, with float64 in the order that the engine reports."""
    engine.reset(inputs)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    for _ in range(supersteps):
        run.orders = engine.ordered_superstep()
        for order in run.orders.values():
            assert sorted(order) == list(range(graph.num_edges))
        run.run(1)
    values = {name: engine.values(name) for name in program.outputs}
    return compare(program, values, {name: run.values(name) for name in program.outputs})


def engine_for(order, program, graph, features, threads=2, **options):
    engine = LonestarCpuEngine(LonestarSchedule(order=order, **{**OPTIONS.get(order, {}), **options}))
    engine.prepare(program, graph, features, Device(threads=threads), Phases())
    return engine


CASES = [(order, k, {}) for order in ORDERS for k in (1, 3, 16, 33, 128)]
SHORT = [
    *((order, 3, {}) for order in ORDERS), ("agm_e", 33, {"bias": "both", "rates": "adagrad", "sides": "double"}),
    ("levels", 100, {"bias": "both", "rates": "adagrad"}), ("grid", 41, {"rates": "twin", "normalise": "deviation"}),
    ("el", 16, {"normalise": "largest"}), ("grid", 16, {"rates": "twin", "normalise": "deviation"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("order", "features", "options"),
    [*SHORT, *(pytest.param(*case, marks=pytest.mark.full) for case in CASES if case not in SHORT)],
)
def test_float64_in_the_engines_own_order_gives_its_values(order, features, options):
    algorithm = SGDMatrixFactorisation(alpha=0.1, epochs=3, **options)
    graph = algorithm.prepare_graph(random_ratings(users=120, items=80, num_ratings=2500, seed=4))
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    engine = engine_for(order, program, graph, features)
    found = replayed(engine, program, graph, inputs, features)
    assert found.ok, found.detail
    engine.reset(inputs)
    statistics = engine.run(2)
    assert [(step.active, step.edges) for step in statistics.supersteps] == [(graph.num_vertices, 2500)] * 2
    assert engine.deterministic == (order in BATCHED)
    assert ("batches of" if order in BATCHED else "in the last superstep") in engine.explain()


def test_the_grid_gives_the_same_bits_on_any_number_of_threads():
    program, graph = trace(ALGORITHM), ALGORITHM.prepare_graph(random_ratings(users=900, items=300, num_ratings=40_000,
                                                                             seed=4))  # fmt: skip
    inputs, answers = ALGORITHM.inputs(graph, 16), []
    for threads in (1, 2, 2):
        engine = engine_for("grid", program, graph, 16, threads, blocks=7)
        engine.reset(inputs)
        engine.run(5)
        answers.append(engine.values("x"))
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


def test_the_grid_prefetches_the_ends_of_a_later_edge_of_the_block():
    algorithm = replace(ALGORITHM, bias="both")
    lines = engine_for("grid", trace(algorithm), algorithm.prepare_graph(ratings()), 48).explain().splitlines()
    assert "ahead = min(j + 6, at(block_bounds, block + 1) - 1)" in [line.strip() for line in lines]
    fetched = [line.strip() for line in lines if line.strip().startswith("prefetch") and "ahead" in line]
    for ids in ("order_sources", "order_destinations"):
        assert f"prefetch_row(vertex_x, int64(at({ids}, ahead)) * 48, 48)" in fetched
    assert len(fetched) == 4, "factors and biases of both ends"


@pytest.mark.parametrize("blocks", [1, 2, 3, 64])
def test_every_number_of_blocks_is_run_to_the_end(blocks):
    program, graph = trace(ALGORITHM), ratings()
    for threads in (1, 2):
        engine = engine_for("grid", program, graph, 3, threads, blocks=blocks)
        found = replayed(engine, program, graph, ALGORITHM.inputs(graph, 3), 3, supersteps=1)
        assert found.ok, found.detail


def test_another_seed_shuffles_otherwise():
    program, graph = trace(ALGORITHM), ratings()
    orders = []
    for seed in (0, 1, 1):
        engine = engine_for("el", program, graph, 3, threads=1, shuffle=True, seed=seed)
        engine.reset(ALGORITHM.inputs(graph, 3))
        [found] = engine.ordered_superstep().values()
        orders.append(found)
        assert sorted(found) == list(range(graph.num_edges))
    assert not np.array_equal(orders[0], orders[1])
    assert np.array_equal(orders[1], orders[2])


def test_batches_and_single_threads_repeat_bit_for_bit():
    program, graph = trace(ALGORITHM), ratings()
    inputs = ALGORITHM.inputs(graph, 3)
    for order, threads in (("sgm", 2), ("hybrid", 1)):
        engine = engine_for(order, program, graph, 3, threads)
        assert engine.deterministic
        answers = []
        for _ in range(2):
            engine.reset(inputs)
            engine.run(3)
            answers.append(engine.values("x"))
        assert np.array_equal(*answers)


@pytest.mark.parametrize(
    ("order", "options", "passes"),
    [("el", {}, 1), ("nl", {}, 1), ("hybrid", {}, 1), ("owner", {}, 2), ("owner", {"hub": 10**6}, 1)],
)
def test_passes_are_those_of_the_last_superstep(order, options, passes):
    """A single thread finds every lock free. *owner* has a pass over hubs, if any, and one over the other edges."""
    engine = engine_for(order, trace(ALGORITHM), ratings(), 3, threads=1, **options)
    for _ in range(2):
        engine.reset(ALGORITHM.inputs(ratings(), 3))
        engine.run(2)
        assert f"passes of step: {passes} in the last superstep" in engine.explain()


@pytest.mark.full
def test_held_out_ratings_of_movielens_are_predicted():
    given = load_graph(data("ml-latest-small/ratings.csv"))
    algorithm = SGDMatrixFactorisation(alpha=0.1, rates="adagrad", bias="both", holdout=0.1, epochs=8)
    graph = algorithm.prepare_graph(given)
    engine = engine_for("agm_e", trace(algorithm), graph, 16)
    engine.reset(algorithm.inputs(graph, 16))
    engine.run(8)
    found = algorithm.metrics(given, {name: engine.values(name) for name in ("x", "b")})
    assert found["rmse"] < 0.88  # 0.865 was measured; the standard deviation of the ratings is 1.04
    assert found["train_rmse"] < 0.65


def test_a_given_order_is_run_by_levels_only():
    program = program_of(lambda p, self: stepping(p, self, order="given"))
    graph = ratings()
    assert isinstance(LonestarCpuEngine(LonestarSchedule()).supports(program, graph, 3, Device()), No)
    shuffled = LonestarCpuEngine(LonestarSchedule(order="levels", shuffle=True))
    assert isinstance(shuffled.supports(program, graph, 3, Device()), No)
    levels = engine_for("levels", program, graph, 3)
    assert levels.resolved_options()["shuffle"] is False
    seed = np.random.default_rng(2).random((graph.num_vertices, 3), np.float32)
    inputs = Inputs({"rating": graph.weights, "seed": seed}, {"rate": 0.05})
    levels.reset(inputs)
    levels.run(2)
    in_csr_order = ReferenceRun(program, graph, 3)
    in_csr_order.reset(inputs)
    in_csr_order.run(2)
    np.testing.assert_allclose(levels.values("x"), in_csr_order.values("x"), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("order", ["nl", "hybrid", "owner", "wavefront", "agm_n", "sgm", "diag", "blkdiag", "grid"])
def test_schedules_of_rows_and_columns_refuse_other_graphs(order):
    program = trace(ALGORITHM)
    engine = LonestarCpuEngine(LonestarSchedule(order=order))
    both = ratings().with_reverse_edges()
    for graph in (both, Graph.from_edges([0, 1], [1, 2], name="chain", weights=[1.0, 2.0])):
        answer = engine.supports(program, graph, 3, Device())
        assert isinstance(answer, No)
        assert "from its left to its right side" in answer.reason


def test_edges_in_both_directions_and_chains_run_edge_by_edge():
    program = trace(ALGORITHM)
    graph = ratings().with_reverse_edges()
    inputs = ALGORITHM.inputs(graph, 3)
    for order in ("agm_e", "levels", "el"):
        found = replayed(engine_for(order, program, graph, 3), program, graph, inputs, 3)
        assert found.ok, found.detail


def test_programs_of_other_stages_and_self_loops_are_refused():
    def pulled(p, self):
        p.vertex("x", start=1.0)
        p.over_edges(into="sum", reduce="sum")(lambda src: src.x)
        p.over_edges(update="both")(lambda src, dst: {"src": {"x": dst.x}, "dst": {"x": src.sum}})
        p.repeat(1)
        p.output("x", bound=1e-5)

    def bulk(p, self):
        p.vertex("x", start=1.0)
        p.over_vertices(lambda v: {"x": v.x + 1.0})
        p.repeat(1)
        p.output("x", bound=1e-5)

    engine, loop = LonestarCpuEngine(LonestarSchedule()), Graph.from_edges([0], [0], name="loop")
    for program, graph, reason in (
        (program_of(pulled), ratings(), "neither a step"), (program_of(bulk), ratings(), "is for those"),
        (program_of(stepping), loop, "self-loops"),
    ):  # fmt: skip
        answer = engine.supports(program, graph, 1, Device())
        assert isinstance(answer, No)
        assert reason in answer.reason


def test_lossy_schedules_refuse_serial_programs():
    answer = LonestarCpuEngine(LonestarSchedule(order="hogwild")).supports(trace(ALGORITHM), ratings(), 3, Device())
    assert isinstance(answer, No)
    assert "accepts no lost updates" in answer.reason


def test_threads_store_rows():
    program, facts = trace(SGDMatrixFactorisation(conflicts="lossy")), ratings()
    for options, reason in (
        ({"order": "hogwild", "writes": "add"}, "writes=add is built on GPUs"),
        ({"order": "el", "writes": "store"}, "writes has no meaning for order=el"),
    ):
        answer = LonestarCpuEngine(LonestarSchedule(**options)).supports(program, facts, 3, Device())
        assert isinstance(answer, No)
        assert reason in answer.reason
    stored = LonestarCpuEngine(LonestarSchedule(order="hogwild", writes="store"))
    assert not isinstance(stored.supports(program, facts, 3, Device()), No)


@pytest.mark.parametrize("threads", [1, 2])
def test_hogwild_runs_every_edge_and_tells_the_share_of_lost_updates(threads):
    algorithm, graph = SGDMatrixFactorisation(alpha=0.1, epochs=3, conflicts="lossy"), ratings()
    engine = engine_for("hogwild", trace(algorithm), graph, 3, threads, shuffle=False, batch=64)
    inputs = algorithm.inputs(graph, 3)
    engine.reset(inputs)
    lost = [engine.ordered_superstep()["step"] for _ in range(2)]
    assert all(0 <= share < 1 for share in lost)
    if threads == 1:  # then nothing is lost, and the order is that of the CSR
        assert lost == [0.0, 0.0]
        assert engine.deterministic
        exact = replay(trace(algorithm), graph, 3, inputs, [{"step": np.arange(graph.num_edges)}] * 2)
        assert compare(trace(algorithm), {"x": engine.values("x")}, exact).ok
    assert engine.run(1).supersteps[0].edges == graph.num_edges


def test_lost_updates_are_counted():
    assert lost_share(np.array([3, 5, 2]), np.array([3, 4, 1])) == 0.2
    assert lost_share(np.zeros(2, np.int64), np.zeros(2, np.int32)) == 0.0


def test_grid_has_a_stratum_for_each_shift_and_blocks_of_equal_edges():
    graph = ratings()
    found = batches_of(graph, LonestarSchedule(order="grid", blocks=4))
    assert len(found.batches) == 5
    assert found.sizes.max() < 2 * graph.num_edges / 4
    per_row = np.bincount(equal_blocks(graph.csr.row_of_edge.astype(np.int64), 120, 4)[graph.csr.row_of_edge])
    assert per_row.max() < 1.2 * graph.num_edges / 4


def test_rows_of_a_block_are_taken_in_turn():
    graph, rng = ratings(), np.random.default_rng(3)
    rows, block = graph.csr.row_of_edge.astype(np.int64), rng.integers(0, 4, graph.num_edges)
    block[rows % 7 == 3] = 2  # rows with all edges in one block
    expected = []
    for own in range(4):
        present = np.unique(rows[block == own])
        for first in range(0, len(present), ROWS_IN_TURN):
            queues = [list(np.flatnonzero((rows == row) & (block == own))) for row in present[first:][:ROWS_IN_TURN]]
            while any(queues):
                expected += [queue.pop(0) for queue in queues if queue]
    assert alternating(rows, block, 4).tolist() == expected
    assert alternating(rows[:0], block[:0], 4).tolist() == []


def test_meaningless_options_are_refused():
    for options in ({"order": "fast"}, {"nodes": 0}, {"block_rows": 0}, {"seed": -1}):
        with pytest.raises(ScheduleError):
            schedule_from_options(onyx_engines()[0], options)
    refused = LonestarCpuEngine(LonestarSchedule(order="diag", shuffle=True))
    answer = refused.supports(trace(ALGORITHM), ratings(), 3, Device())
    assert isinstance(answer, No)
    assert "shuffle has no meaning" in answer.reason
    answer = LonestarCpuEngine(LonestarSchedule(hub=9)).supports(trace(ALGORITHM), ratings(), 3, Device())
    assert isinstance(answer, No)
    assert "hub has no meaning" in answer.reason


def test_vertex_steps_and_reductions_run_beside_steps_of_edges():
    def build(p, self):
        p.vertex("x", start=1.0)
        p.over_edges(update="both")(lambda src, dst: {"src": {"x": src.x + dst.x}, "dst": {"x": 0.5 * dst.x}})
        p.over_graph(into="most", reduce="max")(lambda v: v.x)
        p.over_vertices(lambda v, graph: {"x": v.x / graph.most})
        p.repeat(2)
        p.output("x", bound=1e-5)

    program, graph = program_of(build), ratings()
    found = replayed(engine_for("sgm", program, graph, 1), program, graph, Inputs(), 1, supersteps=2)
    assert found.ok, found.detail


# defects --------------------------------------------------------------------------------------------------------------
KERNELS = {  # what a kernel over batches does wrong, and where
    "skip": ("BATCHED", "range(first + t", "range(first + (batch == 2) + t"),
    "double": ("BATCHED", "range(first + t", "range(first - (batch == 2) + t"),
    "other edge": ("EACH", "e = at(edge_order, i)", "e = at(edge_order, i - (i > 9))"),
}


BLOCKS = {  # the same of a kernel over a grid
    "skip": ("range(at(block_bounds, block), at", "range(at(block_bounds, block) + (block == 2), at"),
    "double": ("range(at(block_bounds, block), at", "range(at(block_bounds, block) - (block == 2), at"),
    "no block of a row": ("publish(progress, row, stratum + 1)", "publish(progress, row, stratum + 1 + (row == 3))"),
}


@pytest.mark.parametrize("defect", BLOCKS)
def test_a_grid_that_runs_wrong_edges_is_found(monkeypatch, defect):
    right, wrong = BLOCKS[defect]
    assert cpu_blocks.GRID.count(right) == 1
    monkeypatch.setattr(cpu_blocks, "GRID", cpu_blocks.GRID.replace(right, wrong))
    program, graph = trace(ALGORITHM), ratings()
    engine = engine_for("grid", program, graph, 3, threads=1)
    try:
        assert not replayed(engine, program, graph, ALGORITHM.inputs(graph, 3), 3).ok
    except EngineFailure as failure:
        assert "blocks" in str(failure)  # noqa: PT017


@pytest.mark.parametrize("defect", KERNELS)
def test_a_kernel_that_runs_wrong_edges_is_found(monkeypatch, defect):
    name, right, wrong = KERNELS[defect]
    assert getattr(cpu_plan, name).count(right) == 1
    monkeypatch.setattr(cpu_plan, name, getattr(cpu_plan, name).replace(right, wrong))
    program, graph = trace(ALGORITHM), ratings()
    found = replayed(engine_for("agm_e", program, graph, 3), program, graph, ALGORITHM.inputs(graph, 3), 3)
    assert not found.ok


def test_a_kernel_that_reads_the_new_row_of_the_other_end_is_found():
    program, graph = trace(ALGORITHM), ratings()
    (step,) = program.stages
    new = {name: value for end, name, value in step.values if end == "src"}
    values = [
        (end, name, value if end == "src" else substitute(value, lambda node: new["x"] if node.op == "read"
         and node.attribute == ("src", "x") else None)) for end, name, value in step.values
    ]  # fmt: skip
    other = replace(program, stages=(replace(step, values=tuple(values)),))
    found = replayed(engine_for("agm_e", other, graph, 3), program, graph, ALGORITHM.inputs(graph, 3), 3)
    assert not found.ok


class Loop:
    """Runs the edges in a random order with a planted defect, one after another."""

    def __init__(self, graph, inputs, defect):
        self.graph, self.inputs, self.defect = graph, inputs, defect
        self.random = np.random.default_rng(0)

    def reset(self, inputs):
        self.x, self.sweep = inputs.properties["initial"].astype(np.float64), 0

    def values(self, name):
        return self.x.astype(np.float32)

    def ordered_superstep(self):
        u, v = self.graph.csr.row_of_edge, self.graph.csr.neighbours
        order = self.random.permutation(self.graph.num_edges)
        rate, x, old = ALGORITHM.alpha / (1 + ALGORITHM.beta * self.sweep**1.5), self.x, self.x.copy()
        run = np.delete(order, 7) if self.defect == "skip" else order
        run = np.insert(run, 7, run[3]) if self.defect == "double" else run
        for number, e in enumerate(run):
            if number % 4 == 0:  # four edges at a time read before any of them writes
                old = x.copy()
            row, column = (old if self.defect == "stale" else x)[[u[e], v[e]]]
            error = self.inputs.properties["rating"][e] - row @ column
            new = [a + rate * (error * b - ALGORITHM.lam * a) for a, b in ((row, column), (column, row))]
            x[u[e]], x[v[e]] = new
        self.sweep += 1
        reported = np.roll(order, 1) if self.defect == "another order" else order
        return {"step": reported}


@pytest.mark.parametrize("defect", ["none", "skip", "double", "stale", "another order"])
def test_one_wrong_edge_is_found_by_the_replay(defect):
    program, graph = trace(ALGORITHM), ratings(600)
    inputs = ALGORITHM.inputs(graph, 3)
    found = replayed(Loop(graph, inputs, defect), program, graph, inputs, 3, supersteps=2)
    assert found.ok == (defect == "none")


@pytest.mark.parametrize("order", [order for order in LOCKED if order != "wavefront"])
def test_an_edge_whose_end_is_locked_is_left_alone(order):
    program, graph = trace(ALGORITHM), ratings()
    engine = engine_for(order, program, graph, 3)
    engine.reset(ALGORITHM.inputs(graph, 3))
    before, held = engine.values("x"), 5
    engine.executor.memory.arrays["locks"][held] = 1
    with pytest.raises(EngineFailure, match="left held"):
        engine.run(1)
    assert np.array_equal(engine.values("x")[held], before[held])
    rated = graph.csr.neighbours[graph.csr.offsets[held] : graph.csr.offsets[held + 1]]
    others = np.delete(np.arange(120), held)
    assert (engine.values("x")[others] != before[others]).any(axis=1).all()
    assert len(rated) > 0


def test_a_block_whose_column_is_locked_is_left_alone():
    program, graph = trace(ALGORITHM), ratings()
    engine = engine_for("wavefront", program, graph, 3)
    engine.reset(ALGORITHM.inputs(graph, 3))
    before = engine.values("x")
    engine.executor.memory.arrays["locks"][0] = 1
    with pytest.raises(EngineFailure, match="left held"):
        engine.run(1)
    moved = (engine.values("x")[120:] != before[120:]).any(axis=1)
    block = equal_blocks(graph.csr.neighbours.astype(np.int64) - 120, 80, 6)
    assert np.array_equal(moved, block != 0)
    assert 0 < moved.sum() < 80


@functools.cache
def star(hub):
    """Return a graph whose edges all meet at one vertex, a row or a column."""
    return sides([(0, i) for i in range(3000)] if hub == "row" else [(i, 0) for i in range(3000)],
                 *((1, 3000) if hub == "row" else (3000, 1)))  # fmt: skip


@pytest.mark.parametrize("hub", ["row", "column"])
@pytest.mark.parametrize("order", LOCKED)
def test_edges_that_all_need_one_lock_are_run_once_each(order, hub):
    program, graph = trace(ALGORITHM), star(hub)
    engine = engine_for(order, program, graph, 3, **({"hub": 100} if order == "owner" else {"blocks": 7}
                        if order == "wavefront" else {}))  # fmt: skip
    found = replayed(engine, program, graph, ALGORITHM.inputs(graph, 3), 3, supersteps=2)
    assert found.ok, found.detail
    arrays = engine.executor.memory.arrays
    assert not arrays["locks"].any()
    assert 1 <= arrays["passes_step"][0] <= graph.num_edges


def test_edges_in_opposite_directions_do_not_wait_for_each_other():
    """A ring in both directions: threads that waited for their second lock would stop each other."""
    program, count = trace(ALGORITHM), 2000
    ring = Graph.from_edges(range(count), [*range(1, count), 0], name="ring", weights=np.linspace(-1, 1, count))
    graph = ring.with_reverse_edges()
    engine = engine_for("el", program, graph, 3, shuffle=False)
    for _ in range(3):
        found = replayed(engine, program, graph, ALGORITHM.inputs(graph, 3), 3, supersteps=2)
        assert found.ok, found.detail


FORGOTTEN = {
    "el": (cpu_locks, "EDGE_LOCKED", "if try_lock(locks, low):"),
    "nl": (cpu_locks, "NODE_LOCKED", "if try_lock(locks, u):"),
    "owner": (cpu_locks, "NODE_LOCKED", "if try_lock(locks, u):"),
    "wavefront": (cpu_blocks, "WAVEFRONT", "if try_lock(locks, c):"),
}


@pytest.mark.full
@pytest.mark.parametrize("order", FORGOTTEN)
def test_a_forgotten_lock_is_found(monkeypatch, order):
    module, template, taken = FORGOTTEN[order]
    assert getattr(module, template).count(taken) == 1
    monkeypatch.setattr(module, template, getattr(module, template).replace(taken, "if True:"))
    stars = sides([(i % 16, i) for i in range(200_000)], 16, 200_000)  # all edges lock one of 16 rows
    if order in ("owner", "wavefront"):  # all columns are hubs, and meet in 16 rows
        stars = sides([(i % 16, i // 16 % 64) for i in range(50_000)], 16, 64)
    program = trace(ALGORITHM)
    engine = engine_for(order, program, stars, 33)
    engine.reset(ALGORITHM.inputs(stars, 33))
    with pytest.raises(EngineFailure, match="at the same time"):
        for _ in range(200):
            engine.ordered_superstep()


@pytest.mark.parametrize(("edges", "hub"), [(0, 256), (2_500, 256), (1 << 20, 256), (1 << 21, 512), (1 << 30, 1 << 18)])
def test_a_column_with_a_4096th_of_the_edges_is_a_hub_but_none_of_few_edges(edges, hub):
    assert LonestarSchedule(order="owner").resolved(given=False, edges=edges).hub == hub
    assert LonestarSchedule(order="owner", hub=9).resolved(given=False, edges=edges).hub == 9
    assert LonestarSchedule(order="el").resolved(given=False, edges=edges).hub is None
