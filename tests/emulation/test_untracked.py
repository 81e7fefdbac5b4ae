"""Supersteps of Onyx without tracking, emulated."""

from __future__ import annotations

import itertools

import pytest

from tests.engines import test_untracked_on_cuda as on_cuda
from tests.engines.test_untracked_on_cuda import _schedules  # noqa: F401  a fixture

EVERY = 22  # of the cases, one is not marked as full


def by_turns(rows):
    """Return the rows (schedule, case), two thirds of them marked as full; a push and a pull of every case are not."""
    schedules, cases = list(on_cuda.PAUSING), list(dict.fromkeys(case for _, case in rows))
    kept = [(schedules.index(schedule) + cases.index(case)) % 3 == 0 for schedule, case in rows]
    return [pytest.param(*row, marks=() if one else (pytest.mark.full,)) for row, one in zip(rows, kept, strict=True)]


@pytest.mark.parametrize(
    ("schedule", "name", "features"),
    [pytest.param(*row, marks=() if i % EVERY == 0 else (pytest.mark.full,)) for i, row in enumerate(on_cuda.CASES)],
)
def test_operations(schedule, name, features, emulated, monkeypatch):
    on_cuda.test_operations(schedule, name, features, emulated, monkeypatch)


@pytest.mark.parametrize(("schedule", "case"), by_turns(on_cuda.EDGE_CASES))
def test_programs_that_update_edges(schedule, case, emulated, monkeypatch):
    on_cuda.test_programs_that_update_edges(schedule, case, emulated, monkeypatch)


@pytest.mark.parametrize("tracked_first", [False, True])
@pytest.mark.parametrize("features", [1, pytest.param(5, marks=pytest.mark.full), 33])
@pytest.mark.parametrize("case", ["handed on", "handed back"])
def test_an_update_reduces_for_the_next_superstep(case, features, tracked_first, emulated, monkeypatch):
    on_cuda.test_an_update_reduces_for_the_next_superstep(case, features, tracked_first, emulated, monkeypatch)


@pytest.mark.parametrize(("schedule", "name"), by_turns(list(itertools.product(on_cuda.PAUSING, on_cuda.ALGORITHMS))))
def test_algorithms(schedule, name, emulated, monkeypatch):
    on_cuda.test_algorithms(schedule, name, emulated, monkeypatch)


@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_tracking_resumes_when_little_moves(schedule, emulated):
    on_cuda.test_tracking_resumes_when_little_moves(schedule, emulated)


@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_stretches_grow_where_everything_moves_for_long(schedule, emulated):
    on_cuda.test_stretches_grow_where_everything_moves_for_long(schedule, emulated)


@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_pauses_that_nothing_suggested_at_first(schedule, emulated):
    on_cuda.test_pauses_that_nothing_suggested_at_first(schedule, emulated)


@pytest.mark.parametrize("build", [on_cuda.cycling, on_cuda.cycling_sides])
@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_values_equal_to_those_before_a_pause_have_moved(schedule, build, emulated):
    on_cuda.test_values_equal_to_those_before_a_pause_have_moved(schedule, build, emulated)


@pytest.mark.parametrize("schedule", on_cuda.PAUSING)
def test_never_where_little_moves(schedule, emulated):
    on_cuda.test_never_where_little_moves(schedule, emulated)


@pytest.mark.parametrize("schedule", on_cuda.PUSHED)
def test_never_if_sums_are_never_rebuilt(schedule, emulated, monkeypatch):
    on_cuda.test_never_if_sums_are_never_rebuilt(schedule, emulated, monkeypatch)
