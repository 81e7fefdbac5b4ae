"""Values that return to what they were, and what every superstep counts, on the emulated device (``pulses.py``)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from tests.emulation.device import POLICY, THREADS
from tests.engines import pulses
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import prepared

ADAPTIVE = {"direction": "adaptive", "rebuild": 0}
LISTS = {"warp_degree": 3, "block_degree": 6}
# Engine, options, its way through the edges, and the share of the edges at which that changes; 1: it never does.
ROWS = {
    "owners": ("onyx", {"direction": "pull", "balance": "warp"}, "pull", 0.25),
    "owners of few": ("onyx", {"direction": "pull", "balance": "warp"}, "pull", 1.0),
    "tiles": ("onyx", {"direction": "pull", "balance": "edge"}, "pull", 0.25),
    "tiles of few": ("onyx", {"direction": "pull", "balance": "edge"}, "pull", 1.0),
    "unfolded": ("onyx", {"direction": "pull", "balance": "warp", "fold": False}, "pull", 0.25),
    "all by owners": ("onyx", {"change_driven": False, "balance": "warp"}, "all pull", 1.0),
    "all by tiles": ("onyx", {"change_driven": False, "balance": "edge"}, "all pull", 1.0),
    "adaptive": ("onyx", {**ADAPTIVE, "balance": "warp"}, "adaptive", 0.25),
    "adaptive by tiles": ("onyx", {**ADAPTIVE, "balance": "edge"}, "adaptive", 0.25),
    "adaptive in one launch": ("onyx", {**ADAPTIVE, "balance": "parts", "persistent": True}, "adaptive", 0.25),
    "push": ("onyx", {"direction": "push", "rebuild": 0, "balance": "warp"}, "push", 1.0),
    "push by parts": ("onyx", {"direction": "push", "rebuild": 0, "balance": "parts"}, "push", 1.0),
    "gunrock": ("gunrock", {"rebuild": 0}, "push", 1.0),
    "gunrock by merge path": ("gunrock", {"rebuild": 0, "balance": "merge_path"}, "push", 1.0),
    "emogi": ("emogi", {"rebuild": 0}, "push", 1.0),
    "emogi by tiles": ("emogi", {"rebuild": 0, "access": "tiled"}, "push", 1.0),
    "tigr": ("tigr", {"degree_bound": 3}, "all push", 1.0),
    "simdx": ("simdx", {**LISTS, "fusion": "none", "pull_share": 0.25}, "simdx", 0.25),
    "simdx in one launch": ("simdx", {**LISTS, "fusion": "all", "filter": "ballot", "pull_share": 0.25}, "simdx", 0.25),
    "scaph": ("scaph", {"window_mb": 0.0003}, "rebuilding push", 1.0),
    "scaph reads rows": ("scaph", {"window_mb": 0.0003, "values": "low"}, "rebuilding push", 1.0),
    "scaph reads in place": (
        "scaph", {"window_mb": 0.0003, "low": "zero_copy", "values": "low"}, "rebuilding push", 1.0,
    ),
    "streamed": (
        "onyx", {"direction": "pull", "balance": "warp", "edges": "streamed", "window_mb": 0.0003}, "pull", 0.25,
    ),
    "mapped": ("onyx", {"direction": "push", "rebuild": 0, "edges": "mapped"}, "push", 1.0),
    "gunrock rebuilds": ("gunrock", {}, "rebuilding push", 1.0),
    "simdx on sides": ("simdx", LISTS, "all pull", 1.0),
}  # fmt: skip
FEATURES = (1, 3, 40)
GRAPHS = {"ring": pulses.ring, "two sides": pulses.two_sides}
TODAY = {(name, (i + i // 2) % 3, i % 2) for i, name in enumerate(ROWS)} | {
    ("adaptive", 2, 1), ("tiles", 1, 1), ("simdx in one launch", 1, 0), ("simdx on sides", 1, 1)
}  # fmt: skip


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize(
    ("name", "features", "graph"),
    [
        pytest.param(name, features, graph, marks=() if (name, i, j) in TODAY else (pytest.mark.full,))
        for name in ROWS
        for i, features in enumerate(FEATURES)
        for j, graph in enumerate(GRAPHS)
        if "simdx" not in name or ("sides" in name) == (graph == "two sides")
    ],
)
def test_every_superstep_has_the_values_and_counts_of_numpy(name, features, graph, emulated, monkeypatch):
    """Blocks own hubs, warps the vertices of a few edges; tracking does not pause, which would visit other edges."""
    engine_name, options, way, share = ROWS[name]
    lists = {"middle_edges": 2, "middle_share": 0.0, "fewest_owners": 1, "hub_edges": (6, 6)}
    monkeypatch.setattr(OnyxCudaEngine, "policy", replace(POLICY, **lists, patience=10**6))
    given = {"dense_share": share} if way in ("pull", "adaptive") else {}
    given |= {"block_size": THREADS} if engine_name == "onyx" else {}
    monkeypatch.setitem(SCHEDULES, name, (engine_name, {**options, **given}))
    chosen = GRAPHS[graph]()
    engine = prepared(name, pulses.program_for(chosen), chosen, features, emulated)
    pulses.check(engine, chosen, features, way, share)
