"""Long rows gathered panel by panel on emulated CUDA devices."""

from __future__ import annotations

import pytest

from tests.engines.panels import SCHEDULES, check_panels, divided

TODAY = {
    ("shortest_paths", "changes-pull-edges", 128), ("aggregate_rewritten", "pull-edges", 128),
    ("message_reads_graph", "pull-edges-unfolded", 192), ("sums_and_products_without", "pull-edges", 128),
    ("sides", "changes-pull-edges", 128),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "schedule", "features"),
    [
        pytest.param(name, schedule, k, marks=() if (name, schedule, k) in TODAY else (pytest.mark.full,))
        for name in divided()
        for schedule in SCHEDULES
        for k in (128, 192)
    ],
)
def test_panels(name, schedule, features, emulated):
    check_panels(schedule, name, features, emulated)
