"""Long rows gathered panel by panel on emulated CUDA devices."""

from __future__ import annotations

import pytest

from tests.engines.panels import SCHEDULES, check_panels, check_statistics, divided

TODAY = {
    ("changes-pull-edges", "shortest_paths", 128), ("pull-edges", "aggregate_rewritten", 128),
    ("pull-edges-unfolded", "message_reads_graph", 192), ("pull-edges", "reads_destination", 192),
    ("changes-pull-edges", "sides", 128),
}  # fmt: skip


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(("schedule", "name", "features"), sorted(TODAY))
def test_panels(schedule, name, features, emulated):
    check_panels(schedule, name, features, emulated)


@pytest.mark.full
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_more_panels(schedule, emulated):
    names = divided(schedule)
    assert len(names) > 3
    for number, name in enumerate(names):
        check_panels(schedule, name, (128, 192)[number % 2], emulated)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("schedule", ["pull-edges", "changes-pull-edges"])
def test_statistics(schedule, emulated, monkeypatch):
    check_statistics(schedule, "aggregate_rewritten", emulated, monkeypatch)
