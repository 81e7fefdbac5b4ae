"""When a run on the CPU rebuilds kept accumulators, works on one thread, and ends: by hand, without kernels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from harness.lowering.cpu.executor import host_loop
from harness.lowering.cpu.policy import CpuPolicy
from harness.lowering.cpu.run import Run

EDGES, THREADS = 1000, 8


def run_with(*, sides=1, most_edges=0, largest=1, watched=(), **state):
    """Return a run in the middle of its supersteps. ``most_edges``: of active sources; ``largest``: out-degree."""
    rules = {"change_driven": True, "settles": True, **{name: state.pop(name) for name in ("change_driven", "settles")
                                                       if name in state}}  # fmt: skip
    run = object.__new__(Run)
    run.rules = SimpleNamespace(
        graph=SimpleNamespace(num_edges=EDGES, num_vertices=100), policy=CpuPolicy(rebuild_share=0.9, few=4096),
        direction="push", threads=THREADS, **rules,
    )  # fmt: skip
    run.sides, run.threads, run.dearest = [None] * sides, THREADS, 2 + largest
    run.call = SimpleNamespace(workers=0)
    run.memory = SimpleNamespace(arrays={"watched": np.array(watched, np.int64)})
    run.active_sources = SimpleNamespace(most_edges=lambda: most_edges)
    defaults = {"superstep_index": 0, "rebuild_every": 0, "active": 0, "edges": 0, "moved": 0, "choice": None}
    flags = dict.fromkeys(("settled", "confirming", "rebuilt", "narrowed", "counts_movement"), False)
    for name, value in {**defaults, **flags, **state}.items():
        setattr(run, name, value)
    return run


@pytest.mark.parametrize(
    ("state", "rebuilds"),
    [
        ({}, True),
        ({"narrowed": True}, False),
        ({"superstep_index": 1}, False),
        ({"superstep_index": 1, "sides": 2}, True),
        ({"superstep_index": 2, "sides": 2}, False),
        ({"superstep_index": 4, "rebuild_every": 4}, True),
        ({"superstep_index": 5, "rebuild_every": 4}, False),
        ({"superstep_index": 9, "sides": 2, "rebuild_every": 4}, True),
        ({"superstep_index": 10, "sides": 2, "rebuild_every": 4}, False),
        ({"superstep_index": 0, "narrowed": True, "rebuild_every": 4}, True),
        ({"superstep_index": 5, "rebuild_every": 4, "most_edges": 900}, True),
        ({"superstep_index": 5, "rebuild_every": 4, "most_edges": 899}, False),
        ({"superstep_index": 10, "sides": 2, "rebuild_every": 4, "most_edges": 450}, True),
        ({"superstep_index": 10, "sides": 2, "rebuild_every": 4, "most_edges": 449}, False),
        ({"superstep_index": 5, "rebuild_every": 0, "most_edges": 1000}, False),
        ({"superstep_index": 5, "confirming": True}, True),
    ],
)
def test_accumulators_are_rebuilt_at_first_every_so_often_and_where_nearly_all_is_sent(state, rebuilds):
    run = run_with(rebuilt=not rebuilds, **state)
    assert run.rebuilding() is rebuilds
    assert run.rebuilt is rebuilds


@pytest.mark.parametrize(
    ("state", "settled", "confirming"),
    [
        ({"superstep_index": 1}, True, False),
        ({"superstep_index": 1, "settles": False}, False, False),
        ({"superstep_index": 1, "sides": 2}, False, False),
        ({"superstep_index": 2, "sides": 2}, True, False),
        ({"superstep_index": 1, "rebuild_every": 4}, False, True),
        ({"superstep_index": 1, "rebuild_every": 4, "rebuilt": True}, True, False),
        ({"superstep_index": 1, "rebuild_every": 4, "change_driven": False}, True, False),
        ({"superstep_index": 1, "rebuild_every": 4, "settles": False}, False, False),
        ({"superstep_index": 1, "sides": 2, "rebuild_every": 4}, False, False),
    ],
)
def test_a_run_has_settled_once_a_superstep_that_rebuilds_moves_nothing(state, settled, confirming):
    run = run_with(**state)
    assert (run.has_settled(), run.confirming) == (settled, confirming)


@pytest.mark.parametrize(
    ("active", "largest", "change_driven", "workers"),
    [(1365, 1, True, 1), (1366, 1, True, THREADS), (1365, 1, False, THREADS), (1, 4093, True, 1),
     (1, 4094, True, THREADS), (0, 10**9, True, 1)],
)  # fmt: skip
def test_few_active_sources_are_processed_by_one_thread(active, largest, change_driven, workers):
    """Of 4,096 sources and edges, at most; each source may have as many edges as the largest."""
    run = run_with(active=active, largest=largest, change_driven=change_driven, edges=7, moved=3, choice="many")
    run.taken = "pull"
    run.begin_superstep()
    assert run.workers == workers
    assert (run.edges, run.moved, run.taken, run.choice) == (0, 0, "push", None)


def test_what_moved_in_all_parts_is_active_in_the_next_superstep():
    run = run_with(moved=5, watched=(1, 0, 3), superstep_index=6)
    run.end_superstep()
    assert (run.active, run.superstep_index) == (9, 7)
    assert run.memory.arrays["watched"].tolist() == [0, 0, 0]


class Measured:
    """Movement that is within the tolerance in a superstep, and notes its calls."""

    def __init__(self, within, *, counted=False):
        self.ends, self.counted, self.calls = within, counted, []

    def note(self, superstep):
        self.calls.append(("note", superstep))

    def within(self, superstep):
        self.calls.append(("within", superstep))
        return superstep == self.ends


def stepping(actives, **state):
    """Return a run and a step that leaves these numbers of active sources, one superstep after the other."""
    run, left = run_with(active=50, watched=(0,), **state), iter(actives)

    def step():
        run.moved, run.edges = next(left), 2 * run.superstep_index

    return run, step


def test_a_run_ends_when_nothing_is_active():
    run, step = stepping([7, 3, 0, 9])
    found = host_loop(run, [step], None, 10)
    assert [(one.active, one.edges, one.direction) for one in found.supersteps] == [
        (50, 0, "push"), (7, 2, "push"), (3, 4, "push"),
    ]  # fmt: skip
    assert (found.settled, run.settled) == (True, True)
    again = host_loop(run, [step], None, 10)
    assert (again.settled, again.supersteps) == (True, [])


def test_a_run_stops_at_its_limit_and_continues():
    run, step = stepping([7, 3, 2, 0])
    first = host_loop(run, [step], None, 2)
    assert (first.settled, len(first.supersteps)) == (False, 2)
    assert [one.active for one in host_loop(run, [step], None, 9).supersteps] == [3, 2]
    assert host_loop(run, [step], None, 0).settled


def test_a_superstep_without_movement_is_confirmed_by_one_that_rebuilds():
    run, step = stepping([0, 0, 0], superstep_index=1, rebuild_every=100)
    rebuilt = []

    def rebuild():
        rebuilt.append(run.rebuilding())

    found = host_loop(run, [rebuild, step], None, 10)
    assert rebuilt == [False, True]
    assert (found.settled, run.confirming) == (True, False)


def test_movement_within_the_tolerance_ends_a_run():
    run, step = stepping([7, 6, 5, 4])
    movement = Measured(2)
    assert len(host_loop(run, [step], movement, 10).supersteps) == 3
    assert run.settled
    assert movement.calls == [(what, superstep) for superstep in range(3) for what in ("note", "within")]


@pytest.mark.parametrize(("counted", "counts", "calls"), [(True, True, 0), (True, False, 2), (False, True, 2)])
def test_movement_that_a_superstep_counts_itself_is_not_measured_too(counted, counts, calls):
    run, step = stepping([7], counts_movement=counts)
    movement = Measured(9, counted=counted)
    host_loop(run, [step], movement, 1)
    assert len(movement.calls) == calls
