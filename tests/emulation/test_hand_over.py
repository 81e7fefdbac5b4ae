"""Edges of hubs that passes leave again and again, on emulated CUDA devices: lane groups own the hubs."""

from __future__ import annotations

import numpy as np
import pytest

from engines.lonestar import cuda_templates, hand_over
from engines.lonestar.cuda_executor import LonestarExecutor
from engines.lonestar.cuda_plan import plan
from engines.lonestar.schedule import LonestarSchedule
from harness.contract import EngineFailure
from harness.graph import Graph
from harness.language import trace
from tests.engines.test_lonestar import replayed, sides
from tests.engines.test_lonestar_on_cuda import ALGORITHM, cuda_engine


def hubs():
    """Return a graph with two hubs on each side and an edge between hubs."""
    pairs = [(i, i % 2) for i in range(160)] + [(i % 2, i) for i in range(2, 90)] + [(0, 1)]
    return sides(pairs, 160, 90)


@pytest.fixture
def early(monkeypatch):
    """Hand over after every pass that leaves edges; return the list of the numbers of edges that were."""
    monkeypatch.setattr(hand_over, "LEAST", 2)
    monkeypatch.setattr(hand_over, "LEAST_SHARE", 1)
    monkeypatch.setattr(hand_over, "TURN", 1)
    counts, run = [], LonestarExecutor._hand_over

    def noted(self, kernels, number, left, ran):
        counts.append(left)
        run(self, kernels, number, left, ran)

    monkeypatch.setattr(LonestarExecutor, "_hand_over", noted)
    return counts


def prepared(emulated, features, **options):
    graph = ALGORITHM.prepare_graph(hubs())
    program, inputs = trace(ALGORITHM), ALGORITHM.inputs(graph, features)
    return cuda_engine(program, graph, features, emulated, **options), program, graph, inputs, features


def test_hubs_that_are_all_locked_are_left_to_later_passes(emulated, early, monkeypatch):
    """A column whose lock is held leaves all of its edges."""
    engine, program, graph, inputs, _ = prepared(emulated, 16, order="el")
    engine.reset(inputs)
    column, executor, left = 160, engine.executor, []
    run = LonestarExecutor._hand_over

    def held(self, kernels, number, count, ran):
        self.arrays["locks"][column] = 1
        run(self, kernels, number, count, ran)
        self.arrays["locks"][column] = 0
        left.append(self._left(1))

    monkeypatch.setattr(LonestarExecutor, "_hand_over", held)
    found = replayed(engine, program, graph, inputs, 16, supersteps=1)
    assert found.ok, found.detail
    listed = executor.arrays["sizes"].get()
    assert left[0] >= 40
    assert not listed[:3].any()


@pytest.mark.parametrize(
    ("options", "features"),
    [
        ({"order": "el"}, 16),
        *(
            pytest.param(options, k, marks=pytest.mark.full)
            for options in (
                {"order": "el", "barrier": "launch"}, {"order": "el", "barrier": "grid"}, {"order": "hybrid"},
                {"order": "owner", "hub": 50},
            )
            for k in (16, 33)
        ),
    ],
)  # fmt: skip
def test_edges_that_are_handed_over_run_once_each(options, features, emulated, early):
    engine, *rest = prepared(emulated, features, **options)
    found = replayed(engine, *rest, supersteps=2)
    assert found.ok, found.detail
    assert not engine.executor.arrays["locks"].get().any()
    assert engine.executor.passes["step"] > 1
    engine.close()
    if options["order"] == "el":  # others leave hardly any edges to passes over lists
        assert early


@pytest.fixture
def columns(monkeypatch):
    """Give the edges that a pass leaves to columns; return the list of the numbers of these edges."""
    monkeypatch.setattr(hand_over, "COLUMN_LEAST", 2)
    monkeypatch.setattr(hand_over, "COLUMN_SHARE", 1)
    counts, run = [], LonestarExecutor._columns_take

    def noted(self, kernels, number, left, ran):
        counts.append(left)
        run(self, kernels, number, left, ran)

    monkeypatch.setattr(LonestarExecutor, "_columns_take", noted)
    return counts


@pytest.mark.parametrize("options", [{"order": "el"}, pytest.param({"order": "hybrid"}, marks=pytest.mark.full)])
@pytest.mark.parametrize("features", [16, pytest.param(33, marks=pytest.mark.full)])
def test_columns_run_the_edges_that_passes_leave_once_each(options, features, emulated, columns):
    engine, *rest = prepared(emulated, features, **options, barrier="launch")
    found = replayed(engine, *rest, supersteps=2)
    assert found.ok, found.detail
    assert not engine.executor.arrays["locks"].get().any()
    assert columns or options["order"] == "hybrid"
    engine.close()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("done[list_0[i]] = false;", "if (i) done[list_0[i]] = false;"), ("i < last;", "i + 1 < last;")],
)
def test_an_edge_that_columns_do_not_take_is_missed(right, wrong, emulated, columns, monkeypatch):
    monkeypatch.setattr(cuda_templates, "PENDING", cuda_templates.PENDING.replace(right, wrong))
    engine, *rest = prepared(emulated, 16, order="el", barrier="launch")
    with pytest.raises(EngineFailure, match="stamps"):
        replayed(engine, *rest, supersteps=1)
    assert columns


def test_columns_take_over_only_where_they_are_no_rows():
    oriented, either = hubs(), Graph.from_edges([0, 1, 2], [1, 2, 0], name="cycle")
    for graph, order, expected in (
        (oriented, "el", True), (oriented, "hybrid", True), (oriented, "owner", False), (either, "el", False),
    ):  # fmt: skip
        planned = plan(trace(ALGORITHM), LonestarSchedule(order=order), graph.facts, 3)
        assert ("step_pending" in planned.source) is expected
    alone = plan(trace(ALGORITHM), LonestarSchedule(order="el", hand_over=False), hubs().facts, 3)
    assert "step_pending" not in alone.source


def test_more_hubs_than_units_share_them(emulated, early, monkeypatch):
    monkeypatch.setattr("engines.lonestar.cuda_executor.MOST_UNITS", 2)
    engine, *rest = prepared(emulated, 16, order="el")
    assert replayed(engine, *rest, supersteps=1).ok
    assert early


def test_without_hand_over_passes_go_on(emulated, early):
    engine, *rest = prepared(emulated, 16, order="el", hand_over=False)
    assert "step_owned" not in engine.executor.functions
    assert replayed(engine, *rest, supersteps=2).ok
    assert not early


DEFECTS = {  # of a template: what it does wrong, and where
    "skipped edge": ("OWNED", "for (EdgeId i = owned[unit]; i < end; ++i)",
                     "for (EdgeId i = owned[unit] + 1; i < end; ++i)"),
    "doubled edge": ("OWNED", "i < end; ++i)", "i < end + (unit == first); ++i)"),
    "skipped edge of a column": ("OWNED_COLUMNS", "base = owned[unit];", "base = owned[unit] + 1;"),
    "row of another edge": ("OWNED_COLUMNS", "const auto& got = fetched[d];", "const auto& got = fetched[0];"),
    "column not written": ("OWNED_COLUMNS", "@finish", "if (v & 1)\n        @finish"),
    "lock of a column left held": ("OWNED_COLUMNS", "        unlock(group, locks, v);\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("defect", [one if "skipped" in one else pytest.param(one, marks=pytest.mark.full)
                                    for one in DEFECTS])  # fmt: skip
def test_a_wrong_kernel_is_found(defect, monkeypatch, emulated, early):
    name, right, wrong = DEFECTS[defect]
    text = getattr(cuda_templates, name)
    assert text.count(right) == 1
    monkeypatch.setattr(cuda_templates, name, text.replace(right, wrong))
    engine, *rest = prepared(emulated, 16, order="el")
    try:
        assert not replayed(engine, *rest, supersteps=2).ok
    except EngineFailure as failure:
        assert any(word in str(failure) for word in ("stamps", "held", "cycle")), failure  # noqa: PT017
    assert early


def test_passes_read_every_place_of_their_list_once(emulated, early, monkeypatch):
    monkeypatch.setattr(hand_over, "LEAST", 1 << 20)  # passes only, each in another turn
    engine, *rest = prepared(emulated, 16, order="el", barrier="launch")
    assert replayed(engine, *rest, supersteps=2).ok
    assert engine.executor.passes["step"] > 2
    right = "const Turn turn(pass / 1, count);"
    assert right in engine.planned.source
    monkeypatch.setattr(cuda_templates, "EDGE_LOCKED", cuda_templates.EDGE_LOCKED.replace("turn.places; i", "count; i"))
    engine, *rest = prepared(emulated, 16, order="el", barrier="launch")
    with pytest.raises(EngineFailure, match="stamps"):
        replayed(engine, *rest, supersteps=2)
    assert np.count_nonzero(early) == 0
