"""Supersteps of Onyx without tracking, emulated."""

from __future__ import annotations

import itertools

import pytest

from tests.covering import covering
from tests.engines import test_untracked_on_cuda as on_cuda
from tests.engines.test_untracked_on_cuda import _schedules  # noqa: F401  a fixture

CYCLING = (on_cuda.cycling, on_cuda.cycling_sides)
EVERY = 22  # of the cases, one is not marked as full


def by_turns(rows):
    """Return the rows (schedule, case) as parameters; those not needed to have every schedule and case, and every case
    pushed or pulled in turns, are marked as full."""
    schedules, cases = list(on_cuda.PAUSING), list(dict.fromkeys(case for _, case in rows))
    kept = [(schedules.index(schedule) - cases.index(case)) % len(schedules) == 0 for schedule, case in rows]
    assert {row[0] for row, one in zip(rows, kept, strict=True) if one} == set(schedules)
    return [pytest.param(*row, marks=() if one else (pytest.mark.full,)) for row, one in zip(rows, kept, strict=True)]


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(
    ("schedule", "name", "features"),
    [pytest.param(*row, marks=() if i % EVERY == 0 else (pytest.mark.full,)) for i, row in enumerate(on_cuda.CASES)],
)
def test_operations(schedule, name, features, emulated, monkeypatch):
    on_cuda.test_operations(schedule, name, features, emulated, monkeypatch)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(("schedule", "case"), by_turns(on_cuda.EDGE_CASES))
def test_programs_that_update_edges(schedule, case, emulated, monkeypatch):
    on_cuda.test_programs_that_update_edges(schedule, case, emulated, monkeypatch)


HANDED = list(itertools.product(("handed on", "handed back"), (1, 5, 33), (False, True)))
PAIRED = covering(HANDED, lambda row: itertools.combinations(row, 2))


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(
    ("case", "features", "tracked_first"),
    [pytest.param(*row, marks=() if row in PAIRED else (pytest.mark.full,)) for row in HANDED],
)
def test_an_update_reduces_for_the_next_superstep(case, features, tracked_first, emulated, monkeypatch):
    on_cuda.test_an_update_reduces_for_the_next_superstep(case, features, tracked_first, emulated, monkeypatch)


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(("schedule", "name"), by_turns(list(itertools.product(on_cuda.PAUSING, on_cuda.ALGORITHMS))))
def test_algorithms(schedule, name, emulated, monkeypatch):
    on_cuda.test_algorithms(schedule, name, emulated, monkeypatch)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_tracking_resumes_when_little_moves(schedule, emulated):
    on_cuda.test_tracking_resumes_when_little_moves(schedule, emulated)


@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_stretches_grow_where_everything_moves_for_long(schedule, emulated):
    on_cuda.test_stretches_grow_where_everything_moves_for_long(schedule, emulated)


@pytest.mark.parametrize("schedule", on_cuda.PULLED)
def test_a_stretch_goes_on_while_much_moves(schedule, emulated, monkeypatch):
    on_cuda.test_a_stretch_goes_on_while_much_moves(schedule, emulated, monkeypatch)


@pytest.mark.parametrize("schedule", [*on_cuda.PULLED, "full"])
def test_a_property_of_two_steps_is_measured_also_without_tracking(schedule, emulated, monkeypatch):
    on_cuda.test_a_property_of_two_steps_is_measured_also_without_tracking(schedule, emulated, monkeypatch)


@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_pauses_that_nothing_suggested_at_first(schedule, emulated):
    on_cuda.test_pauses_that_nothing_suggested_at_first(schedule, emulated)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(
    ("schedule", "build"),
    [
        pytest.param(schedule, build, marks=() if (i + j) % 2 == 0 else (pytest.mark.full,))
        for i, schedule in enumerate(on_cuda.PAUSING)
        for j, build in enumerate(CYCLING)
    ],
)
def test_values_equal_to_those_before_a_pause_have_moved(schedule, build, emulated):
    on_cuda.test_values_equal_to_those_before_a_pause_have_moved(schedule, build, emulated)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("build", [on_cuda.awake_twice, on_cuda.awake_twice_on_sides])
@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_values_that_moved_in_a_pause_have_been_sent_without_a_tolerance(schedule, build, emulated):
    on_cuda.test_values_that_moved_in_a_pause_have_been_sent_without_a_tolerance(schedule, build, emulated)


@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_never_where_little_moves(schedule, emulated):
    on_cuda.test_never_where_little_moves(schedule, emulated)


@pytest.mark.parametrize("schedule", on_cuda.PUSHED)
def test_never_if_sums_are_never_rebuilt(schedule, emulated, monkeypatch):
    on_cuda.test_never_if_sums_are_never_rebuilt(schedule, emulated, monkeypatch)
