"""Alternating sides with different numbers of edges: visits of every superstep, and the end where a side is at rest."""

from __future__ import annotations

import pytest

from tests.engines.problems import STRATEGIES, prepared
from tests.engines.programs import inputs_for, program_named, traced
from tests.engines.uneven_sides import AT_REST, check_sides, first_distances, gains, inputs_at_rest, uneven

FEATURES = 4
ENGINES = {
    **STRATEGIES, "pull-sparse": ("onyx", {"direction": "pull", "dense_share": 1.0}),
    "push-rebuilding": ("onyx", {"direction": "push", "rebuild": 2}), "gunrock-changes": ("gunrock", {"rebuild": 0}),
    "gunrock-rebuilding": ("gunrock", {"rebuild": 2}), "emogi": ("emogi", {}),
    "emogi-rebuilding": ("emogi", {"rebuild": 1}), "scaph": ("scaph", {"window_mb": 0.0005}),
}  # fmt: skip
WHOLE = ("pull-all", "push-all", "tigr", "simdx", "scipy", "torch")  # visit all edges to a side


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize("name", ENGINES)
def test_a_superstep_visits_the_edges_to_its_own_side(name):
    """All vertices move in every superstep, so that changes are those of all edges to a side, too."""
    program = program_named("sides")
    engine = prepared(*ENGINES[name], program, uneven(), FEATURES)
    check_sides(engine, program, inputs_for(program, uneven(), FEATURES), FEATURES, every_edge=name != "pull-sparse")
    engine.close()


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("name", [name for name in ENGINES if name not in ("scipy", "torch")])
def test_extrema_settle_once_both_sides_were_computed(name):
    program = program_named("sides_settle")
    engine = prepared(*ENGINES[name], program, uneven(), FEATURES)
    for rest in AT_REST:
        check_sides(engine, program, first_distances(rest, FEATURES), FEATURES, every_edge=name in WHOLE)
    engine.close()


@pytest.mark.short_run(rows=10**6)
@pytest.mark.parametrize("name", ["scipy", "torch", "pull-all"])
def test_sums_settle_once_both_sides_were_computed(name):
    program = traced(gains, "gains")
    engine = prepared(*ENGINES[name], program, uneven(), FEATURES)
    for rest in AT_REST:
        check_sides(engine, program, inputs_at_rest(rest, FEATURES), FEATURES, every_edge=name in WHOLE, most=20)
    engine.close()
