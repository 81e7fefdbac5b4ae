"""Long rows gathered panel by panel on emulated CUDA devices."""

from __future__ import annotations

import pytest

from tests.engines.panels import check_panels, check_statistics, divided

TODAY = {
    ("changes-pull-edges", "shortest_paths", 128), ("pull-edges", "aggregate_rewritten", 128),
    ("pull-edges-unfolded", "message_reads_graph", 192), ("pull-edges", "reads_destination", 192),
    ("changes-pull-edges", "sides", 128),
}  # fmt: skip


@pytest.mark.parametrize(
    ("schedule", "name", "features"),
    [
        pytest.param(*pair, k, marks=() if (*pair, k) in TODAY else (pytest.mark.full,))
        for number, pair in enumerate(divided())
        for k in (128, 192)
        if (*pair, k) in TODAY or k == (128, 192)[number % 2]
    ],
)
def test_panels(schedule, name, features, emulated):
    check_panels(schedule, name, features, emulated)


def test_today_there_are_some():
    assert {(schedule, name) for schedule, name, _ in TODAY} <= set(divided())


@pytest.mark.parametrize("schedule", ["pull-edges", "changes-pull-edges"])
def test_statistics(schedule, emulated, monkeypatch):
    check_statistics(schedule, "aggregate_rewritten", emulated, monkeypatch)
