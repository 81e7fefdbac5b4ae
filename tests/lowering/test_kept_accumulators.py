"""When kept accumulators must be rebuilt: not for extrema or exact sums."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contract import schedule_from_options
from harness.language import integer_ranges
from harness.language.analysis import change_driven
from harness.lowering.accumulators import separated
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.log_products import products_as_sums
from tests.engines.cuda_schedules import loaded, plan_of
from tests.engines.problems import ALGORITHMS, SPECS, program, small

EXTREMA, EXACT = ("bfs", "sssp", "components"), ("kcore",)
MOST_NEIGHBOURS = 3000  # of the hub


def kept(algorithm, graph="hub", rebuild=64):
    lowered = separated(products_as_sums(program(algorithm)))
    return KeptAccumulators.of(lowered, small(graph).facts, change_driven(lowered), rebuild)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_extrema_and_sums_of_integers_are_never_rebuilt(algorithm):
    found = kept(algorithm)
    assert found.extrema == (algorithm in EXTREMA)
    assert found.rebuild_every({}) == (0 if algorithm in EXTREMA + EXACT else 64)
    assert found.rebuild == (0 if algorithm in EXTREMA else 64)
    assert kept(algorithm, rebuild=0).rebuild_every({}) == 0


@pytest.mark.parametrize(("most", "every"), [(MOST_NEIGHBOURS, 0), (MOST_NEIGHBOURS - 1, 64)])
def test_a_vertex_of_more_neighbours_than_float32_counts_has_its_sum_rebuilt(most, every, monkeypatch):
    monkeypatch.setattr(integer_ranges, "MOST", most)
    assert kept("kcore").rebuild_every({}) == every


@pytest.mark.parametrize(
    ("alive", "every"),
    [([1.0, 0.0, 1.0], 0), ([1.0, 0.5, 1.0], 64), ([2.0, 1.0, 1.0], 64), ([1.0, np.nan, 0.0], 64), ([-1.0, 0, 0], 64)],
)
def test_a_state_that_is_given_has_to_be_within_the_ranges(alive, every):
    assert kept("kcore").rebuild_every({"alive": np.array(alive, np.float32)}) == every


def test_a_state_of_float64_is_not_rounded_before_its_ranges_are_checked():
    assert kept("kcore").rebuild_every({"alive": np.array([1.0 - 1e-12, 0.0, 1.0])}) == 64
    assert kept("kcore").rebuild_every({"alive": np.array([1.0 + 1e-12, 0.0, 1.0])}) == 64
    assert kept("kcore").rebuild_every({"alive": np.array([True, False])}) == 0


def test_without_changes_to_push_nothing_is_kept():
    assert KeptAccumulators().rebuild_every({"alive": np.array([0.5])}) == 0
    assert KeptAccumulators.of(program("kcore"), small("hub").facts, (), 64).rebuild_every({}) == 0


@pytest.mark.parametrize(("name", "options"), [("onyx", {"direction": "push"}), ("gunrock", {})])
@pytest.mark.parametrize(("algorithm", "rebuild"), [("kcore", 64), ("kcore", 0), ("pagerank", 64), ("bfs", 64)])
def test_engines_for_cuda_devices_keep_the_same(name, options, algorithm, rebuild):
    kind = loaded(loaded(SPECS[name].factory).engines["cuda"])
    engine = kind(schedule_from_options(SPECS[name], {**options, "rebuild": rebuild}))
    plan = plan_of(engine, program(algorithm), small("hub"), 4)
    assert plan.accumulators == kept(algorithm, rebuild=rebuild)
    assert plan.thresholds.rebuild == 0.9
