"""Onyx with edge properties that change, emulated: every schedule, after every superstep of two runs."""

from __future__ import annotations

import pytest

from tests.engines import test_changing_edges_on_cuda as on_cuda

EVERY = 11  # of the cases, one is not marked as full
TWO_LANES = 5  # features: teams of two lanes, the second of which has little to do


@pytest.mark.parametrize(
    ("schedule", "case", "features"),
    [pytest.param(*row, marks=() if i % EVERY == 0 else (pytest.mark.full,)) for i, row in enumerate(on_cuda.CASES)],
)
def test_programs_that_update_edges(schedule, case, features, emulated):
    on_cuda.test_programs_that_update_edges(schedule, case, features, emulated)


def test_an_edge_sends_a_number_that_all_lanes_have_read(emulated):
    on_cuda.test_programs_that_update_edges("changes-push-edges", "two updates", TWO_LANES, emulated)


@pytest.mark.full
@pytest.mark.parametrize("case", ["both ends", "reads back", "overwritten", "products"])
@pytest.mark.parametrize("schedule", on_cuda.TRACKED)
def test_hubs_loops_and_parallel_edges(schedule, case, emulated):
    on_cuda.test_hubs_loops_and_parallel_edges(schedule, case, emulated)


@pytest.mark.full
@pytest.mark.parametrize("rule", ["sum", "max"])
@pytest.mark.parametrize("case", on_cuda.NETWORKS)
@pytest.mark.parametrize("schedule", on_cuda.TRACKED)
def test_beliefs_and_messages_are_those_of_full_propagation(schedule, case, rule, emulated):
    on_cuda.test_beliefs_and_messages_are_those_of_full_propagation(schedule, case, rule, emulated)


@pytest.mark.full
@pytest.mark.parametrize("schedule", on_cuda.TRACKED)
def test_what_has_settled_is_visited_no_more(schedule, emulated):
    on_cuda.test_what_has_settled_is_visited_no_more_and_the_answer_is_within_the_bound(schedule, emulated)


@pytest.mark.parametrize("schedule", ["changes-pull", "changes-push-loops"])
def test_evidence_that_wakes_nobody_costs_nothing(schedule, emulated):
    on_cuda.test_evidence_that_wakes_nobody_costs_nothing(schedule, emulated)
