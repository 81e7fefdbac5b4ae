"""Long rows that segments gather panel by panel."""

from __future__ import annotations

import pytest

from engines.onyx.cuda_panels import PanelLayout, panel_of
from harness.algorithms.label_propagation import LabelPropagation
from harness.graph.generators import rmat
from harness.language import trace
from harness.lowering.cuda.layout import DeviceLayout
from harness.transactions import Behaviour
from tests.engines.cuda_schedules import cuda_engine, plan_of
from tests.engines.panels import SCHEDULES, check_panels, check_statistics, divided, panels_of
from tests.engines.programs import edges_and_loops, program_named

STATISTICS = ("shortest_paths", "aggregate_rewritten", "sides")


@pytest.mark.parametrize(("features", "panel"), [(128, 64), (192, 64), (256, 64), (64, 0), (96, 0), (100, 0), (130, 0)])
def test_panels_divide_rows(features, panel):
    assert panel_of(program_named("shortest_paths"), features) == panel


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("power_iteration", "its message takes the largest feature"),
        ("largest_label", "its message is one number"),
    ],
)
def test_rows_are_whole_where_features_meet(name, why):
    assert panel_of(program_named(name), 128) == 0, why


def test_a_panel_lies_within_whole_rows():
    whole, panels = DeviceLayout(192), PanelLayout(192, 64)
    assert (whole.panels, panels.panels) == (1, 3)
    row, number = program_named("shortest_paths").properties["first"].shape, ()
    assert panels.dims(row) == (64,)
    assert panels.stride(row) == whole.stride(row) == 192
    assert (panels.dims(number), panels.stride(number)) == ((), 1)


@pytest.mark.parametrize(("schedule", "panels"), [("pull-edges", 2), ("pull-edges-loops", 1), ("pull", 1), ("push", 1)])
def test_only_segments_use_panels(schedule, panels):
    engine = cuda_engine(schedule)
    plan = plan_of(engine, program_named("own_aggregate"), edges_and_loops(), 128)
    assert max(kernel.panels for kernel in plan.kernels) == panels
    assert all(kernel.panels == 1 or "segments<" in kernel.source for kernel in plan.kernels)


def test_products_are_taken_whole():
    """Without a factor, their value depends on whether any factor is zero."""
    assert panels_of("pull-edges", "shortest_paths", 128) > 1
    assert panels_of("pull-edges", "sums_and_products_without", 128) == 1


def test_a_model_counts_every_panel():
    """Rows of twice the length have twice the loads, except for those of vertices."""
    algorithm, graph = LabelPropagation(seeds="random"), rmat(scale=8, edge_factor=16, seed=2)
    loaded = {}
    for features in (64, 128):
        engine = cuda_engine("pull-edges")
        found = engine.memory_model(trace(algorithm), graph, features, algorithm.inputs(graph, features))
        assert isinstance(found, Behaviour)
        loaded[features] = found.kernels["spread"].loads
    assert loaded[128].sectors == pytest.approx(2 * loaded[64].sectors, rel=0.02)
    assert loaded[128].bytes == pytest.approx(2 * loaded[64].bytes, rel=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("features", [128, 192])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_panels(schedule, features, device):
    for name in divided(schedule):
        check_panels(schedule, name, features, device)


@pytest.mark.gpu
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics(schedule, name, device, monkeypatch):
    check_statistics(schedule, name, device, monkeypatch)
