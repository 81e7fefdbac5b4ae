"""Kernels of the CPU that take locks, with their threads interleaved at random between any two accesses of locks.

A template is run as it stands, as a generator of Python that pauses at every lock, at every published number and at
every edge. While a thread runs the edges of a block or of a vertex, no other may run one with the same.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from engines.lonestar import cpu_blocks, cpu_locks
from engines.lonestar.orders import GridTable, WaveTable, equal_blocks
from engines.lonestar.schedule import LonestarSchedule
from tests.engines.test_lonestar import ratings, sides

ACCESS = re.compile(r"\b(published|publish|try_lock|unlock|give_way)\(([^()]*)\)")


def program_of(template, arguments):
    """Return the template as a generator function of a part ``t`` and arrays."""
    text = ACCESS.sub(lambda found: f'(yield ("{found[1]}", {found[2]}))', template)
    text = re.sub(r"^( *)@edge$", r'\1yield ("edge", int(u), int(v), int(e))', text, flags=re.MULTILINE)
    text = re.sub(r"^( *)@stamp$", r'\1yield ("stamp", int(u), int(v), int(e))', text, flags=re.MULTILINE)
    text = text.replace("@part", "pass")
    names = {"int64": int, "at": lambda array, place: array[place]}
    exec(f"def run(t, {', '.join(arguments)}):\n{text}", names)
    return names["run"]


def interleaved(template, parts, arrays, seed, keys):
    """Run the parts of a kernel; return the edges in the order in which they ran.

    ``keys``: return what an edge writes. No other thread may run an edge that writes the same before the thread has
    released a lock or published a number. Only the thread that took a lock may release it.
    """
    random, run, order = np.random.default_rng(seed), program_of(template, arrays), []
    threads = {t: run(t, **arrays) for t in range(parts)}
    waiting = dict.fromkeys(threads, ("begin",))
    holds, writes = {t: set() for t in threads}, {t: set() for t in threads}
    pace = random.dirichlet(np.full(parts, 0.5)) + 1e-3  # some threads are much slower than others
    steps = 0
    while waiting:
        steps += 1
        assert steps < 10**6, "the kernel does not end"
        there = sorted(waiting)
        t = there[0] if len(there) == 1 else int(random.choice(there, p=pace[there] / pace[there].sum()))
        operation, *given = waiting[t]
        answer = None
        if operation == "edge":
            assert holds[t], "an edge runs without a lock"
            mine = keys(*given)
            for other, theirs in writes.items():
                assert other == t or not theirs & mine, f"threads {t} and {other} run edges of the same {theirs & mine}"
            writes[t] |= mine
            order.append(given[2])
        elif operation == "stamp":
            assert keys(*given) <= writes[t], "an edge is stamped after its locks were released"
        elif operation == "try_lock":
            locks, place = given
            answer = not locks[place]
            if answer:
                locks[place] = 1
                holds[t].add(int(place))
        elif operation == "unlock":
            locks, place = given
            assert place in holds[t], "the lock of another thread is released"
            holds[t].remove(int(place))
            locks[place] = 0
            writes[t] = set()
        elif operation == "publish":
            numbers, place, value = given
            assert place in holds[t], "the number of another's block row is published"
            numbers[place] = value
            writes[t] = set()
        elif operation == "published":
            numbers, place = given
            answer = numbers[place]
        try:
            waiting[t] = threads[t].send(answer)
        except StopIteration:
            del waiting[t]
    assert not any(holds.values())
    return order


def blocks_of(graph, rows, columns):
    """Return a function that returns the block row and the block column of an edge."""
    left, right = graph.bipartite
    of_row = equal_blocks(graph.csr.row_of_edge.astype(np.int64), left, rows)
    of_column = equal_blocks(graph.csr.neighbours.astype(np.int64) - left, right, columns)
    return lambda u, v, e: {("row", of_row[u]), ("column", of_column[v - left])}


def ends(u, v, e):
    return {u, v}


GRAPHS = {"ratings": lambda: ratings(300), "star": lambda: sides([(0, i) for i in range(9)], 1, 9)}
SEEDS = range(8)


@pytest.mark.short_run(rows=10**6)
@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (2, 2), (3, 2), (3, 3), (5, 4)])
def test_threads_of_a_grid_meet_in_no_block_row_or_column(blocks, threads, graph_name):
    """Whatever the order of threads, every block row and every block column runs its edges in the order of strata."""
    graph = GRAPHS[graph_name]()
    schedule = LonestarSchedule(order="grid", blocks=blocks).resolved(given=False)
    table = GridTable(schedule)
    made, keys = table.named(table.of(graph)), blocks_of(graph, blocks, blocks)
    made.pop("batches", None)
    place = {int(e): i for i, e in enumerate(made["edge_order"])}
    for seed in SEEDS:
        arrays = {"starts": np.arange(threads) * blocks // threads, "progress": np.zeros(blocks, int),
                  "locks": np.zeros(blocks, int), **made}  # fmt: skip
        order = interleaved(cpu_blocks.GRID, threads, arrays, seed, keys)
        assert sorted(order) == list(range(graph.num_edges))
        assert (arrays["progress"] == blocks).all()
        latest = {}
        for e in order:
            for key in keys(graph.csr.row_of_edge[e], graph.csr.neighbours[e], e):
                assert place[e] > latest.get(key, -1), f"edge {e} runs before an earlier one of {key}"
                latest[key] = place[e]


def passes(template, parts, arrays, seed, keys, edges):
    """Run passes until no edge is left; return the edges in their order."""
    order, left = [], edges
    while left:
        order += interleaved(template, parts, arrays, seed + len(order), keys)
        assert not arrays["locks"].any()
        assert arrays["left"].sum() == edges - len(order), "the parts count the edges that are left"
        left = edges - len(order)
    return order


@pytest.mark.short_run(rows=10**6)
@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_threads_of_a_wavefront_meet_in_no_block_column(rows, graph_name):
    graph, table = GRAPHS[graph_name](), WaveTable(rows, 3)
    made, keys = table.named(table.of(graph)), blocks_of(graph, rows, 2 * rows)
    for seed in SEEDS:
        arrays = {"left": np.zeros(rows, int), "locks": np.zeros(2 * rows, int),
                  "done_blocks": np.zeros(rows * 2 * rows, bool), **made}  # fmt: skip
        order = []
        while not arrays["done_blocks"].all():
            order += interleaved(cpu_blocks.WAVEFRONT, rows, arrays, seed, keys)
            assert arrays["left"].sum() == np.count_nonzero(~arrays["done_blocks"])
            assert not arrays["locks"].any()
        assert sorted(order) == list(range(graph.num_edges))


@pytest.mark.short_run(rows=10**6)
@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_threads_that_lock_vertices_meet_at_none(parts, graph_name):
    """In passes over columns, and over lists of edges, which keep those whose locks were taken."""
    graph = GRAPHS[graph_name]()
    edges, random = graph.num_edges, np.random.default_rng(1)
    for seed in SEEDS:
        shared = {"left": np.zeros(parts, int), "locks": np.zeros(graph.num_vertices, int)}
        arrays = {
            **shared, "bounds": np.linspace(0, graph.num_vertices, parts + 1).astype(int),
            "done": np.zeros(edges, bool), "in_offsets": graph.csc.offsets, "in_neighbours": graph.csc.neighbours,
            "in_edge_ids": graph.in_edge_ids,
        }  # fmt: skip
        template = cpu_locks.NODE_LOCKED.format(column="n")
        assert sorted(passes(template, parts, arrays, seed, ends, edges)) == list(range(edges))
        assert arrays["done"].all()

        waiting, order = random.permutation(edges), []
        while len(waiting):
            bounds = np.linspace(0, len(waiting), parts + 1).astype(int)
            arrays = {**shared, "bounds": bounds, "waiting": waiting.copy(), "out_rows": graph.csr.row_of_edge,
                      "out_neighbours": graph.csr.neighbours}  # fmt: skip
            order += interleaved(cpu_locks.EDGE_LOCKED, parts, arrays, seed, ends)
            assert not shared["locks"].any()
            kept = [
                arrays["waiting"][first : first + count] for first, count in zip(bounds, shared["left"], strict=False)
            ]
            waiting = np.concatenate(kept)
            assert len(waiting) + len(order) == edges, "some edge runs in each pass, and the others are kept"
        assert sorted(order) == list(range(edges))


DEFECTS = {  # kernel, text, and text with a defect
    "the next block row is not looked at again": ("GRID", " and published(progress, after) >= stratum:", ":"),
    "an old stratum runs": ("GRID", "stratum = int64(published(progress, row))\n                    if", "if"),
    "a stratum is published before it has run": (
        "GRID", "block = stratum * rows + row", "block = stratum * rows + row; publish(progress, row, stratum + 1)",
    ),
    "a column is released before its edges": (
        "WAVEFRONT", "for j in range", "unlock(locks, c)\n            for j in range",
    ),
}  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_missing_check_or_an_early_release_is_found(defect, monkeypatch):
    name, right, wrong = DEFECTS[defect]
    text = getattr(cpu_blocks, name)
    assert text.count(right) == 1
    monkeypatch.setattr(cpu_blocks, name, text.replace(right, wrong))
    with pytest.raises(AssertionError):
        if name == "GRID":
            test_threads_of_a_grid_meet_in_no_block_row_or_column(5, 4, "ratings")
        else:
            test_threads_of_a_wavefront_meet_in_no_block_column(3, "ratings")
