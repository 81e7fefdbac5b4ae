"""Ways of cuSPARSE are timed as often as it takes to find the fastest; those that do not fit leave no arrays."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections import Counter

import pytest

from engines.libraries.cusparse_ways import MOST_CALLS, QUEUE_MS, ROUNDS, Way, all_ways, medians, queued_calls
from tests.engines.numpy_cusparse import cusparse
from tests.engines.test_cusparse_in_numpy import matrix_of

__all__ = ["cusparse"]

FAST, CLOSE, SLOW = Way("SpMM", 1), Way("SpMM", 2), Way("SpMM", 3)


def counted(milliseconds, before=None):
    """Return the medians with the number of timings of every way; ``milliseconds``: the times of each, in order."""
    times, calls = {way: itertools.cycle(one) for way, one in milliseconds.items()}, Counter()

    def time(way):
        calls[way] += 1
        return next(times[way])

    return medians(tuple(milliseconds), time, before), calls


def test_only_ways_that_may_be_the_fastest_are_timed_in_all_rounds():
    found, calls = counted({FAST: [1.0], CLOSE: [1.4], SLOW: [1.6]})
    assert calls == {FAST: ROUNDS, CLOSE: ROUNDS, SLOW: 2}
    assert found == {FAST: 1.0, CLOSE: 1.4, SLOW: 1.6}


def test_a_pause_in_one_round_excludes_no_way():
    found, calls = counted({FAST: [9.0, 1.0, 1.0, 1.0, 1.0], CLOSE: [1.2]})
    assert calls[FAST] == ROUNDS
    assert min(found, key=found.get) == FAST


def test_one_way_is_timed_in_all_rounds_and_a_long_one_twice():
    assert counted({FAST: [1.0]})[1] == {FAST: ROUNDS}
    assert counted({FAST: [60.0], SLOW: [59.0]})[1] == {FAST: 2, SLOW: 2}


def test_the_second_call_of_a_long_way_is_its_first_timing():
    before = {FAST: (80.0, 60.0), CLOSE: (300.0, 70.0)}  # the first call of a way may load its kernels
    found, calls = counted({FAST: [62.0], CLOSE: [72.0]}, before)
    assert calls == {FAST: 1, CLOSE: 1}
    assert found == {FAST: 61.0, CLOSE: 71.0}


def test_a_way_whose_two_calls_were_far_from_the_shortest_is_not_timed_again():
    before = {FAST: (30.0, 20.0), SLOW: (900.0, 81.0)}
    found, calls = counted({FAST: [20.0], SLOW: [80.0]}, before)
    assert calls == {FAST: ROUNDS}
    assert found == {FAST: 20.0, SLOW: 81.0}
    for one_pause in ((900.0, 79.0), (79.0, 900.0)):
        assert counted({FAST: [20.0], SLOW: [19.0]}, before | {SLOW: one_pause})[1][SLOW] >= 1


def test_short_calls_decide_nothing():
    found, calls = counted({FAST: [1.0], SLOW: [1.2]}, {FAST: (9.0, 0.1), SLOW: (9.0, 40.0)})
    assert calls == {FAST: ROUNDS, SLOW: ROUNDS}
    assert found == {FAST: 1.0, SLOW: 1.2}


def test_one_column_is_multiplied_as_a_vector_too_and_several_in_either_order():
    kinds = {k: {(way.routine, way.order) for way in all_ways(k)} for k in (1, 2, 3)}
    assert kinds[1] == {("SpMM", "row"), ("SpMV", "row")}
    assert kinds[2] == kinds[3] == {("SpMM", "row"), ("SpMM", "column")}


def test_every_way_is_timed():
    assert set(counted({way: [1.0] for way in all_ways(4)})[0]) == set(all_ways(4))


def test_a_sample_queues_short_products_and_no_long_ones():
    assert queued_calls(1.7) * 1.7 >= 0.9 * QUEUE_MS
    assert queued_calls(0.01) == queued_calls(0.0) == MOST_CALLS
    assert queued_calls(QUEUE_MS) == queued_calls(200.0) == 1


@pytest.mark.parametrize("fitting", [0, 1])
def test_products_that_do_not_fit_are_left_out_and_keep_no_arrays(cusparse, monkeypatch, fitting):
    module, held, ways = cusparse.modules.cusparse_matrix, [], []

    def guard_of(_, dense, way, expected, tolerance):
        held.extend(map(weakref.ref, (expected, tolerance)))
        ways.append(way)
        if len(ways) > fitting:
            raise MemoryError("no memory is left")
        return "none"

    monkeypatch.setattr(module, "FEW_ENTRIES", 0)
    monkeypatch.setattr(module, "_guard_of", guard_of)
    made, _ = matrix_of(cusparse)
    gc.disable()
    try:
        if fitting:
            choice = module.Choices()._chosen(made, 3)
            assert (list(choice.ms), set(choice.refused)) == (ways[:1], set(ways[1:]))
        else:
            with pytest.raises(MemoryError, match="no memory is left"):
                module.Choices()._chosen(made, 3)
        assert held
        assert all(one() is None for one in held)
    finally:
        gc.enable()
    assert set(ways) == set(all_ways(3))
