"""Values that return to what they were, and what every superstep counts, on the CPU (``pulses.py``)."""

from __future__ import annotations

import pytest

from harness.lowering.cpu.engine import CpuEngine
from harness.lowering.cpu.policy import CpuPolicy
from tests.engines import pulses
from tests.engines.problems import prepared
from tests.engines.programs import traced

PULL, PUSH = {"direction": "pull"}, {"direction": "push"}
ADAPTIVE = {"direction": "adaptive", "dense_share": 0.25, "rebuild": 0}
# Engine, options, its way through the edges, and the share of the edges at which that changes; 1: it never does.
ROWS = {
    "gathers": ("onyx", {**PULL, "dense_share": 0.25}, "follow", 0.25),
    "gathers of few": ("onyx", {**PULL, "dense_share": 1.0}, "follow", 1.0),
    "loops of few": ("onyx", {**PULL, "dense_share": 1.0, "feature_aware": False}, "follow", 1.0),
    "unfolded": ("onyx", {**PULL, "dense_share": 0.25, "fold": False}, "follow", 0.25),
    "all gathered": ("onyx", {"change_driven": False}, "all pull", 1.0),
    "adaptive": ("onyx", ADAPTIVE, "adaptive", 0.25),
    "push": ("onyx", {**PUSH, "rebuild": 0}, "push", 1.0),
    "all pushed": ("onyx", {**PUSH, "change_driven": False}, "all push", 1.0),
    "gunrock": ("gunrock", {"rebuild": 0}, "push", 1.0),
    "emogi": ("emogi", {"rebuild": 0}, "push", 1.0),
    "tigr": ("tigr", {"degree_bound": 3}, "all push", 1.0),
    "simdx": ("simdx", {"warp_degree": 3, "block_degree": 6}, "all pull", 1.0),
    "scaph": ("scaph", {"window_mb": 0.0005}, "push", 1.0),
}
GRAPHS = {"ring": pulses.ring, "two sides": pulses.two_sides}


AT_LENGTH = ("loops of few", "unfolded", "all pushed", "tigr")


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(
    ("name", "graph"),
    [
        pytest.param(name, graph, marks=(pytest.mark.full,) if name in AT_LENGTH else ())
        for name in ROWS
        for graph in GRAPHS
    ],
)
def test_every_superstep_has_the_values_and_counts_of_numpy(name, graph, monkeypatch):
    """Three threads process a few vertices at a time."""
    monkeypatch.setattr(CpuEngine, "runs", CpuPolicy(few=0, parts_per_thread=3, smallest_part=4))
    engine, options, way, share = ROWS[name]
    chosen, features = GRAPHS[graph](), 3
    found = prepared(engine, options, pulses.program_for(chosen), chosen, features, threads=3)
    pauses = way == "follow" and "fold" not in options and graph == "ring"
    pulses.check(found, chosen, features, way, share, pauses=pauses)


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize(
    "name",
    ["gathers of few", "loops of few", *(pytest.param(name, marks=pytest.mark.full) for name in ("unfolded", "push"))],
)
def test_a_vertex_that_moves_reads_its_edges_again_only_if_one_of_their_sources_moved(name, monkeypatch):
    monkeypatch.setattr(CpuEngine, "runs", CpuPolicy(few=0, parts_per_thread=3, smallest_part=4))
    engine, options, way, share = ROWS[name]
    ring = pulses.ring()
    found = prepared(engine, options, traced(pulses.toggles, "toggles"), ring, 1, threads=3)
    folded = name.endswith("of few")
    pulses.check(found, ring, 1, way, share, pauses=folded, toggled=True, folded=folded)
