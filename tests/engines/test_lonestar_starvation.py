"""Edges that are refused their locks again and again: passes of made conflicts."""

from __future__ import annotations

import textwrap
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from engines.lonestar import cpu_locks
from engines.lonestar.cpu_blocks import WavePass
from engines.lonestar.cpu_kernels import counters_of, passes_of, stamps_of
from engines.lonestar.cpu_locks import FirstList, LockedPass, Passes
from engines.lonestar.cpu_plan import BATCHED, EACH, IN_UNITS
from engines.lonestar.hand_over import LEAST, by_hub, starving
from engines.lonestar.orders import WaveTable
from engines.lonestar.schedule import LonestarSchedule
from harness.contract import EngineFailure

EDGES, THREADS = 6000, 4


class Run:
    """Passes that run the edges that ``ran(number, workers, edges)`` chooses, bool by edge; it notes the passes."""

    threads = THREADS

    def __init__(self, ran):
        nothing = np.zeros(0, np.int32)
        self.memory = SimpleNamespace(arrays={
            "waiting": np.zeros(EDGES, np.int64), "left": np.zeros(64, np.int64), "locks": np.zeros(8, np.int32),
            passes_of("step"): np.zeros(1, np.int64), stamps_of("step"): nothing, counters_of("step"): nothing,
        })  # fmt: skip
        self.rules = SimpleNamespace(graph=SimpleNamespace(num_edges=EDGES), partition=SimpleNamespace(most=64))
        self.store = SimpleNamespace(table=lambda table: np.arange(EDGES))
        self.edges, self.ran, self.passes, self.done = 0, ran, [], []

    def call(self, kernel, parts, bounds, **_):
        arrays = self.memory.arrays
        waiting = arrays["waiting"]
        listed = waiting[: bounds[-1]].copy()
        chosen = self.ran(len(self.passes), self.workers, listed)
        self.passes.append((self.workers, listed))
        self.done.append(listed[chosen])
        for part in range(parts):
            first, last = bounds[part], bounds[part + 1]
            kept = listed[first:last][~chosen[first:last]]
            waiting[first : first + len(kept)] = kept
            arrays["left"][part] = len(kept)


def step_of(ran, *, hand_over=True):
    run = Run(ran)
    passes = Passes(LockedPass("step", False, FirstList(True, 3), hand_over=hand_over), run)
    for _ in range(2):  # a superstep has passes of its own
        run.passes, run.done = [], []
        passes.step()
        assert sorted(np.concatenate(run.done)) == list(range(EDGES)), "each edge runs once"
        assert run.memory.arrays[passes_of("step")][0] == len(run.passes)
    return run


def test_a_pass_that_runs_less_than_a_share_of_its_edges_leaves_the_rest_to_one_thread():
    alone = lambda number, workers, edges: np.full(len(edges), workers == 1) | (np.arange(len(edges)) < 59)  # noqa: E731
    run = step_of(alone)
    assert [workers for workers, _ in run.passes] == [THREADS, 1]


def test_without_hand_over_all_threads_go_on():
    run = step_of(lambda number, workers, edges: np.arange(len(edges)) < 59, hand_over=False)
    assert all(workers == THREADS for workers, edges in run.passes if len(edges) >= cpu_locks.FEWEST)
    assert len(run.passes) > EDGES // 60


def test_passes_that_run_a_share_of_their_edges_keep_all_threads():
    run = step_of(lambda number, workers, edges: np.arange(len(edges)) < max(1, 0.02 * len(edges) + 1))
    counts = [len(edges) for _, edges in run.passes]
    assert all(workers == THREADS for (workers, _), count in zip(run.passes, counts, strict=True)
               if count >= cpu_locks.FEWEST)  # fmt: skip
    assert len(run.passes) > 2 * cpu_locks.SHUFFLED_AFTER


def test_the_list_is_shuffled_after_some_passes_only():
    run = step_of(lambda number, workers, edges: np.arange(len(edges)) < max(1, len(edges) // 10))
    rising = [bool((np.diff(edges) > 0).all()) for _, edges in run.passes]
    assert rising[: cpu_locks.SHUFFLED_AFTER] == [True] * cpu_locks.SHUFFLED_AFTER
    assert not any(rising[cpu_locks.SHUFFLED_AFTER : 2 * cpu_locks.SHUFFLED_AFTER])
    again = step_of(lambda number, workers, edges: np.arange(len(edges)) < max(1, len(edges) // 10))
    assert all(np.array_equal(one, other) for (_, one), (_, other) in zip(run.passes, again.passes, strict=True))


def test_a_pass_that_runs_no_edge_is_an_error_and_not_an_endless_loop():
    with pytest.raises(EngineFailure, match="ran none of 6000 edges: locks were left held"):
        step_of(lambda number, workers, edges: np.zeros(len(edges), bool))


# on a GPU -------------------------------------------------------------------------------------------------------------
def test_few_edges_of_a_long_list_are_starving():
    assert starving(10_000, 9_901)
    assert not starving(10_000, 9_900)
    assert starving(LEAST + 6, LEAST)
    assert not starving(LEAST + 5, LEAST - 1)


@pytest.mark.parametrize("most", [1000, 6])
def test_edges_of_a_hub_are_consecutive(most):
    rng = np.random.default_rng(4)
    sources, destinations = rng.zipf(1.6, 400) % 50, 50 + rng.zipf(1.6, 400) % 40
    edges = rng.permutation(1000)[:400]
    order, bounds, single = by_hub(edges, sources, destinations, most)
    assert sorted(order) == list(range(400))
    degree = {}
    for vertex in (*sources, *destinations):
        degree[vertex] = degree.get(vertex, 0) + 1
    hubs = [u if degree[u] > degree[v] else v for u, v in zip(sources[order], destinations[order], strict=True)]
    changes = [i for i in range(400) if i == 0 or hubs[i] != hubs[i - 1]]
    assert len(changes) == len(set(hubs))
    assert (bounds[0], bounds[-1]) == (0, 400)
    assert set(bounds[:-1]) <= set(changes)
    assert len(bounds) - 1 == min(most, len(changes))
    for first, last in pairwise(bounds[: single + 1]):
        assert set(hubs[first:last]) == {destinations[order[first]]}
        assert (np.diff(edges[order[first:last]]) > 0).all()
    assert single == min(most // 2, len({hub for hub in hubs if hub >= 50}))
    assert (np.diff(np.diff(bounds[: single + 1])) <= 0).all()
    nothing = np.zeros(0, np.int64)
    order, bounds, single = by_hub(nothing, nothing, nothing, most)
    assert (len(order), bounds.tolist(), single) == (0, [0], 0)


def test_orders_without_lists_have_nothing_to_hand_over():
    assert "no meaning for order=nl" in LonestarSchedule(order="nl", hand_over=True).refusal(given=False)
    for order, expected in (("el", True), ("hybrid", True), ("owner", True), ("nl", None), ("grid", None)):
        assert LonestarSchedule(order=order).resolved(given=False).hand_over is expected
    assert LonestarSchedule(order="el", hand_over=False).resolved(given=False).hand_over is False


class Columns(Run):
    """Passes over 5 columns in two parts; ``left``: the edges that are left after each pass."""

    bounds = np.array([0, 2, 5])

    def __init__(self, left):
        super().__init__(None)
        self.memory.arrays["done"] = np.ones(EDGES, np.bool_)
        self.left, self.calls = list(left), []

    def call(self, kernel, parts, bounds, **_):
        arrays, left = self.memory.arrays, self.left.pop(0)
        self.calls.append((kernel, parts, bounds.tolist(), bool(arrays["done"].any())))
        arrays["left"][:] = 77  # of other parts
        arrays["left"][:2] = left // 2, left - left // 2


def test_passes_over_columns_run_until_no_edge_is_left():
    run = Columns([5999, 31, 0, 0])
    passes = Passes(LockedPass("step", True, None), run)
    for count, edges in ((3, EDGES), (1, 2 * EDGES)):
        run.calls = []
        passes.step()
        assert run.calls == [("step_nodes", 2, [0, 2, 5], False)] * count
        assert (run.memory.arrays[passes_of("step")][0], run.edges) == (count, edges)
        run.memory.arrays["done"][:] = True


@pytest.mark.parametrize("left", [[EDGES], [40, 40]])
def test_a_pass_over_columns_that_runs_no_edge_is_an_error(left):
    with pytest.raises(EngineFailure, match=f"a pass of step ran none of {left[-1]} edges"):
        Passes(LockedPass("step", True, None), Columns(left)).step()


class Blocks:
    """Passes over 3 x 6 blocks; ``left``: the blocks that are left after each pass; one block row has all of them."""

    def __init__(self, left, held=0):
        nothing = np.zeros(0, np.int32)
        self.memory = SimpleNamespace(arrays={
            "done_blocks": np.ones(18, np.bool_), "left": np.zeros(3, np.int64), "locks": np.repeat([1, 0], [held, 5]),
            passes_of("step"): np.zeros(1, np.int64), stamps_of("step"): nothing, counters_of("step"): nothing,
        })  # fmt: skip
        self.rules = SimpleNamespace(graph=SimpleNamespace(num_edges=700))
        self.edges, self.left, self.calls = 11, list(left), []

    def call(self, kernel, parts, bounds, **_):
        self.calls.append((kernel, parts, bounds.tolist(), bool(self.memory.arrays["done_blocks"].any())))
        self.memory.arrays["left"][:] = 0, self.left.pop(0), 0


def test_a_wavefront_runs_until_no_block_is_left_and_counts_every_edge_once():
    run = Blocks([9, 2, 0, 18, 0])
    step = WavePass("step", WaveTable(3, 0)).bound(run)
    for passes, edges in ((3, 711), (2, 1411)):  # a superstep has passes of its own
        run.calls = []
        step()
        assert run.calls == [("step_blocks", 3, [0, 1, 2, 3], False)] * passes
        assert (run.memory.arrays[passes_of("step")][0], run.edges) == (passes, edges)
        run.memory.arrays["done_blocks"][:] = True


@pytest.mark.parametrize(
    ("left", "held", "text"),
    [([19], 0, "a pass of step ran none of 19 blocks"), ([5, 5], 0, "ran none of 5 blocks"),
     ([0], 2, "2 locks are held after all of step")],
)  # fmt: skip
def test_a_wavefront_that_stands_still_or_keeps_locks_is_an_error(left, held, text):
    with pytest.raises(EngineFailure, match=text):
        WavePass("step", WaveTable(3, 0)).bound(Blocks(left, held))()


@pytest.mark.parametrize("units", [None, [0, 3, 3, 4, 9, 12]])
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_the_parts_of_a_batch_run_its_edges_once_each(units, parts):
    """The loops of the kernel, run as they are written; a part has whole units."""
    order = np.random.default_rng(1).permutation(12)
    batches = [0, 4, 4, 12] if units is None else [0, 2, 5]
    loops = BATCHED.format(edge=EACH if units is None else IN_UNITS).replace("@part", "pass")
    code = compile(textwrap.dedent(loops.replace("@edge", "ran.append((t, e, u, v))")), "loops", "exec")
    given = {
        "at": lambda values, i: values[i], "batches": batches, "units": units, "parts": parts,
        "edge_order": order.tolist(), "order_sources": range(100, 112), "order_destinations": range(200, 212),
    }  # fmt: skip
    for batch, (first, last) in enumerate(pairwise(batches)):
        first, last = (first, last) if units is None else (units[first], units[last])
        ran = []
        for part in range(parts):
            exec(code, {**given, "batch": batch, "t": part, "ran": ran})  # the product's own loops
        assert [one[1:] for one in ran] == [(int(order[i]), 100 + i, 200 + i) for i in range(first, last)]
        counts = np.bincount([one[0] for one in ran], minlength=parts)
        if units is None:
            assert counts.max() - counts.min() <= 1
