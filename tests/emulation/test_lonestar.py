"""Steps in place on emulated CUDA devices: the replay in the engine's own order agrees, and finds planted defects.

Blocks run one after another, and the lane groups of a block in turns: this shows the logic of locks, not races of
hardware.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from engines.lonestar import cuda_plan, cuda_templates, hand_over
from engines.lonestar.cuda_plan import plan
from engines.lonestar.schedule import BATCHED, LOCKED, LonestarSchedule
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import EngineFailure
from harness.graph.generators import random_ratings
from harness.language import Inputs, K, trace
from harness.language.replay import replay
from harness.language.validation import compare
from tests.engines.test_lonestar import OPTIONS, replayed, sides
from tests.engines.test_lonestar_on_cuda import ALGORITHM, LOSSY, check_replay, cuda_engine
from tests.language.programs import program_of

SHORT = (
    ("el", 16, {}, {}), ("agm_e", 3, {}, {}), ("owner", 3, {"hub": 30}, {"bias": "both", "rates": "adagrad"}),
    ("grid", 12, {"blocks": 3}, {"rates": "twin", "normalise": "deviation"}),
    *((order, 3, OPTIONS.get(order, {}), {}) for order in (*BATCHED, *LOCKED) if order != "agm_e"),
    ("nl", 5, {}, {"bias": "both", "rates": "adagrad"}), ("blkdiag", 16, {"feature_aware": False}, {}),
)  # fmt: skip
LONG = (
    *((order, k, OPTIONS.get(order, {}), {}) for order in ("el", "owner", "grid") for k in (1, 33, 128)),
    *((order, 16, {"feature_aware": False}, {}) for order in ("el", "nl", "blkdiag")), ("owner", 16, {}, {}),
    ("agm_e", 3, {"barrier": "launch"}, {}), ("agm_e", 3, {"barrier": "grid"}, {}),
    ("el", 3, {"barrier": "launch"}, {}), ("el", 3, {"shuffle": False}, {}), ("el", 3, {}, {"sides": "double"}),
    *((order, 5, OPTIONS.get(order, {}), {"bias": "both", "rates": "adagrad"}) for order in (*LOCKED, "blkdiag")),
)  # fmt: skip


@functools.cache
def given():
    return random_ratings(users=60, items=40, num_ratings=500, seed=4)


@pytest.mark.short_run(rows=10)
@pytest.mark.parametrize(
    ("order", "features", "options", "parameters"),
    [*SHORT, *(pytest.param(*one, marks=pytest.mark.full) for one in LONG if one not in SHORT)],
)
def test_float64_in_the_engines_own_order_gives_its_values(order, features, options, parameters, emulated):
    algorithm = SGDMatrixFactorisation(alpha=0.1, epochs=3, **parameters)
    check_replay(algorithm, given(), features, emulated, order=order, **options)


@pytest.mark.parametrize("order", ["nl", pytest.param("el", marks=pytest.mark.full)])
def test_long_columns_read_more_rows_at_once(order, emulated, monkeypatch):
    monkeypatch.setattr(cuda_plan, "LONG", 1)
    monkeypatch.setattr(hand_over, "COLUMN_LEAST", 2)
    monkeypatch.setattr(hand_over, "COLUMN_SHARE", 1)
    engine = check_replay(ALGORITHM, given(), 16, emulated, order=order, barrier="launch")
    assert f"lock_sources<{cuda_plan.DEEP}>" in engine.planned.source
    few = plan(trace(ALGORITHM), LonestarSchedule(order=order, feature_aware=False), given().facts, 16)
    assert f"lock_sources<{cuda_plan.DEPTH}>" in few.source  # a thread would hold whole rows


DEFECTS = {  # of a template: what it does wrong, and where
    "skipped edge": ("agm_e", "BATCHED", "i < end;", "i + (batch == 2) < end;"),
    "doubled edge": ("agm_e", "BATCHED", "const EdgeId end = batches[batch + 1];",
                     "const EdgeId end = batches[batch + 1] + (batch == 2);"),
    "missing barrier": ("agm_e", "BATCHED", "if (batch + 1 < last) wait_for_all(barrier);", ""),
    "edge not left for later": ("el", "EDGE_LOCKED", "= e;\n            }", ";\n            }"),
    "forgotten lock": ("el", "EDGE_LOCKED", "if (try_both(group, locks, u, v))",
                       "if (try_both(group, locks, u, v) | 1)"),
    "lock left held": ("el", "EDGE_LOCKED", "unlock_both(group, locks, u, v);", "unlock(group, locks, u);"),
    "row of another edge": ("nl", "NODE_LOCKED", "const auto& got = fetched[d];", "const auto& got = fetched[0];"),
    "column not written": ("nl", "NODE_LOCKED", "@finish", "if (v & 1)\n            @finish"),
    "lock of a block forgotten": ("wavefront", "WAVEFRONT", "if (!try_lock(group, locks, c)) {{",
                                  "if (!try_lock(group, locks, c) && false) {{"),
}  # fmt: skip
IN_THE_SHORT_RUN = ("skipped edge", "forgotten lock")


@pytest.mark.parametrize(
    "defect", [one if one in IN_THE_SHORT_RUN else pytest.param(one, marks=pytest.mark.full) for one in DEFECTS]
)
def test_a_wrong_kernel_is_found(defect, monkeypatch, emulated):
    order, name, right, wrong = DEFECTS[defect]
    text = getattr(cuda_templates, name)
    assert text.count(right) == 1
    monkeypatch.setattr(cuda_templates, name, text.replace(right, wrong))
    graph = ALGORITHM.prepare_graph(given())
    program, inputs = trace(ALGORITHM), ALGORITHM.inputs(graph, 16)
    engine = cuda_engine(program, graph, 16, emulated, order=order, **OPTIONS.get(order, {}))
    try:
        assert not replayed(engine, program, graph, inputs, 16).ok
    except EngineFailure as failure:
        assert any(word in str(failure) for word in ("stamps", "held", "cycle")), failure  # noqa: PT017


@pytest.mark.parametrize("order", ["nl", pytest.param("el", marks=pytest.mark.full)])
def test_an_edge_whose_end_is_locked_is_left_alone(order, emulated):
    graph = ALGORITHM.prepare_graph(given())
    program, inputs = trace(ALGORITHM), ALGORITHM.inputs(graph, 3)
    engine = cuda_engine(program, graph, 3, emulated, order=order)
    engine.reset(inputs)
    before, held = engine.values("x"), 5
    engine.executor.arrays["locks"][held] = 1
    engine.executor.wait()
    with pytest.raises(EngineFailure, match="left held"):
        engine.run(1)
    after = engine.values("x")
    assert np.array_equal(after[held], before[held])
    assert (np.delete(after, held, axis=0)[:50] != np.delete(before, held, axis=0)[:50]).any(axis=1).all()
    engine.reset(inputs)  # all locks are free again
    assert len(engine.run(1).supersteps) == 1
    assert (engine.values("x")[held] != before[held]).any()


@pytest.mark.parametrize(
    "order", ["el", *(pytest.param(order, marks=pytest.mark.full) for order in LOCKED if order != "el")]
)
def test_edges_that_all_need_one_lock_are_run_once_each(order, emulated):
    graph = sides([(i, 0) for i in range(150)], 150, 1)
    program, inputs = trace(ALGORITHM), ALGORITHM.inputs(graph, 16)
    engine = cuda_engine(program, graph, 16, emulated, order=order, **({"hub": 10} if order == "owner" else {}))
    found = replayed(engine, program, graph, inputs, 16, supersteps=1)
    assert found.ok, found.detail
    assert 1 <= engine.executor.passes["step"] <= graph.num_edges
    assert not engine.executor.arrays["locks"].get().any()


def one_worker(engine, algorithm, graph, features):
    """Check two supersteps of one worker, which takes edges in the order of the CSR, against float64 in that order."""
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    engine.reset(inputs)
    assert [engine.ordered_superstep()["step"] for _ in range(2)] == [0.0, 0.0]
    exact = replay(program, graph, features, inputs, [{"step": np.arange(graph.num_edges)}] * 2)
    found = compare(program, {name: engine.values(name) for name in program.outputs}, exact)
    assert found.ok, found.detail


def test_hogwild_of_one_worker_is_serial_and_others_lose_updates(emulated):
    graph, schedule = LOSSY.prepare_graph(given()), {"order": "hogwild", "writes": "store"}
    engine = cuda_engine(trace(LOSSY), graph, 3, emulated, **schedule, workers=1, shuffle=False)
    one_worker(engine, LOSSY, graph, 3)
    engine = cuda_engine(trace(LOSSY), graph, 16, emulated, **schedule, workers=64, batch=4)
    engine.reset(LOSSY.inputs(graph, 16))
    assert 0 < engine.ordered_superstep()["step"] < 1


@pytest.mark.parametrize(
    ("features", "options", "parameters"),
    [
        (3, {}, {}),
        *(pytest.param(*one, marks=pytest.mark.full) for one in (
            (16, {}, {"bias": "both", "rates": "adagrad"}), (33, {"feature_aware": False}, {"rates": "twin"}),
            (128, {}, {}),
        )),
    ],
)  # fmt: skip
def test_hogwild_that_adds_changes_is_serial_with_one_worker_and_loses_none_with_many(
    features, options, parameters, emulated
):
    algorithm = SGDMatrixFactorisation(alpha=0.05, epochs=3, conflicts="lossy", **parameters)
    graph = algorithm.prepare_graph(given())
    engine = cuda_engine(
        trace(algorithm), graph, features, emulated, order="hogwild", workers=1, shuffle=False, **options
    )
    assert engine.taken.writes == "add"
    one_worker(engine, algorithm, graph, features)
    engine = cuda_engine(trace(algorithm), graph, features, emulated, order="hogwild", workers=64, batch=3, **options)
    engine.reset(algorithm.inputs(graph, features))
    assert engine.ordered_superstep()["step"] == 0.0


@pytest.mark.parametrize("defect", ["edge of a batch left out", pytest.param("edge run twice", marks=pytest.mark.full)])
def test_counts_of_hogwild_find_wrong_kernels(defect, monkeypatch, emulated):
    right, wrong = {
        "edge of a batch left out": ("i < end; ++i", "i + 1 < end; ++i"),
        "edge run twice": ("< {edges} ? base + batch :", "< {edges} ? base + batch + 1 :"),
    }[defect]
    assert cuda_templates.ADDING.count(right) == 1
    monkeypatch.setattr(cuda_templates, "ADDING", cuda_templates.ADDING.replace(right, wrong))
    graph = LOSSY.prepare_graph(given())
    engine = cuda_engine(trace(LOSSY), graph, 16, emulated, order="hogwild", workers=8, batch=9)
    engine.reset(LOSSY.inputs(graph, 16))
    assert engine.ordered_superstep()["step"] != 0.0


def test_values_of_edges_that_are_no_numbers_are_read_where_they_are(emulated):
    """A row for every edge is not listed: kernels find it by the edge."""

    def rows(p, self):
        p.edge("given", K)
        p.vertex("x", K, start=1.0)

        @p.over_edges(update="both", conflicts="lossy")
        def step(src, dst, edge):
            return {"src": {"x": src.x + 0.5 * edge.given}, "dst": {"x": edge.given + dst.x}}

        p.repeat(1)
        p.output("x", bound=1e-5)

    graph = LOSSY.prepare_graph(given())
    draws = np.random.default_rng(0).random((graph.num_edges, 5), np.float32)
    engine = cuda_engine(program_of(rows), graph, 5, emulated, order="hogwild", workers=16, batch=3)
    engine.reset(Inputs({"given": draws}, {}))
    engine.run(1)
    right = np.ones((graph.num_vertices, 5))
    np.add.at(right, graph.csr.row_of_edge, 0.5 * draws)
    np.add.at(right, graph.csr.neighbours, draws)
    assert "listed_given" not in engine.planned.source
    assert np.allclose(engine.values("x"), right, rtol=1e-5)
