"""Orders of edges: their batches on a small graph, the bounds of blocks, and the stamps of any order."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.lonestar.cpu_blocks import GridPass
from engines.lonestar.cpu_engine import LonestarCpuEngine
from engines.lonestar.cpu_locks import HubColumns
from engines.lonestar.cuda_tables import edges_of_degrees
from engines.lonestar.orders import BatchTable, GridTable, WaveTable, batches_of, block_numbers, equal_blocks, strata
from engines.lonestar.problem_facts import ProblemFacts
from engines.lonestar.schedule import LonestarSchedule
from engines.lonestar.stamps import serial_order
from harness.contract import EngineFailure
from harness.facts import Degrees
from tests.engines.test_lonestar import example, letters, of_batches, sides, stamps_of

# By hand: a letter is a rating of figures 3 and 5 of the paper (PAPER in test_lonestar).
BATCHES = {
    "agm_e": ({}, ["agi", "fbj", "kch", "ld", "e"]),
    "agm_n": ({"nodes": 2}, ["ag", "fb", "ch", "d", "e", "i", "j", "k", "l"]),
    "sgm": ({"nodes": 2}, ["ag", "fb", "ch", "d", "e", "ki", "lj"]),
    "diag": ({}, ["k", "l", "f", "ag", "bi", "c", "hj", "d", "e"]),
    "blkdiag": ({}, ["kl", "afbgi", "cj", "dhe"]),
    "levels": ({"shuffle": False}, ["ai", "fb", "kgc", "ld", "he", "j"]),
    "grid": ({"blocks": 2}, ["abihj", "fgklcde"]),
}


@pytest.mark.parametrize("order", BATCHES)
def test_batches_of_the_papers_example(order):
    options, wanted = BATCHES[order]
    found = batches_of(example(), LonestarSchedule(order=order, **options))
    assert [letters(example(), edges) for edges in of_batches(example(), found)] == wanted
    assert found.sizes.tolist() == list(map(len, wanted))


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_levels_of_a_shuffled_order_keep_it_at_every_vertex(seed):
    graph = example()
    order = np.random.default_rng(seed).permutation(graph.num_edges)
    found = batches_of(graph, LonestarSchedule(order="levels", shuffle=True, seed=seed))
    assert sorted(found.edges.tolist()) == list(range(graph.num_edges))
    place = {edge: number for number, edge in enumerate(order.tolist())}
    batch = np.repeat(np.arange(len(found.sizes)), found.sizes)
    number = dict(zip(found.edges.tolist(), batch.tolist(), strict=True))
    for ends in (graph.csr.row_of_edge, graph.csr.neighbours):
        for vertex in np.unique(ends):
            own = sorted(np.flatnonzero(ends == vertex).tolist(), key=place.__getitem__)
            assert [number[edge] for edge in own] == sorted({number[edge] for edge in own})


def test_the_sizes_of_batches_are_shown_with_their_median():
    class Batched(LonestarCpuEngine):
        taken = LonestarSchedule(order="blkdiag")
        sizes = (1, 2, 2, 3000)

        def _batches(self):
            return SimpleNamespace(sizes=np.array(self.sizes, np.int64))

    engine = Batched(Batched.taken)
    assert engine._observed() == "4 batches of 3,000 edges at most, 2 in the median"
    engine.sizes = ()
    assert engine._observed() == "0 batches of 0 edges at most, 0 in the median"


DEGREES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5)), max_size=8)


@given(DEGREES)
@settings(max_examples=60)
def test_two_random_edges_have_a_vertex_in_common_as_often_as_shares_say(counts):
    degrees = np.repeat([degree for degree, _ in counts], [vertices for _, vertices in counts]).astype(float)
    edges = degrees.sum()
    expected = ((degrees / edges) ** 2).sum() if edges else 0.0
    assert edges_of_degrees(tuple(counts)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("degrees", "tail"),
    [
        ([], 1.0), ([1], 1.0), ([5, 5], 1.0), ([1] * 99 + [100], 100 / 1.99), ([1] * 199 + [1000], 1.0 / 5.995),
        ([1] * 198 + [50, 1000], 50 / 6.24), ([1, 3], 1.5),
    ],
)  # fmt: skip
def test_the_tail_is_the_degree_that_a_hundredth_of_the_vertices_reach_over_the_mean(degrees, tail):
    rows = np.repeat(np.arange(len(degrees)), degrees)
    facts = SimpleNamespace(
        out_degrees=Degrees(tuple(sorted(Counter(degrees).items()))), in_degrees=Degrees(),
        num_vertices=len(degrees), num_edges=len(rows), bipartite=None, one_way=False, differences=(0, 0),
    )  # fmt: skip
    assert ProblemFacts.of(facts, 1, 1, nodes=4, blocks=(2, 2)).tail == pytest.approx(tail)


def test_columns_of_a_block_of_matchings_are_sorted_by_falling_degree():
    """The columns 0, 1, 2 and 3 have 1, 2, 4 and 2 edges; equal ones stay in their order."""
    graph = sides([(0, 0), (0, 1), (0, 2), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3)], 4, 4)
    found = of_batches(graph, batches_of(graph, LonestarSchedule(order="sgm", nodes=2)))
    columns = [sorted(graph.csr.neighbours[edges] - 4) for edges in found]
    assert columns == [[1, 2], [1, 2], [2], [2], [0, 3], [3]]


COLUMNS = sides([(0, 0), (0, 1), (1, 1), (2, 1), (0, 2), (1, 2)], 3, 3)  # of one, three and two edges


@pytest.mark.parametrize(("hub", "columns"), [(1, [1, 2, 0]), (2, [1, 2]), (3, [1]), (4, [])])
def test_columns_of_at_least_as_many_edges_are_hubs_the_largest_first(hub, columns):
    assert (HubColumns(hub).of(COLUMNS) - 3).tolist() == columns


@given(st.data())
def test_stamps_of_any_order_give_an_order_with_these_stamps(data):
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(4, 7)), max_size=14))
    u, v = np.array(pairs, np.int64).reshape(-1, 2).T
    order = data.draw(st.permutations(range(len(pairs))))
    stamps = stamps_of(order, u, v)
    found = serial_order(u, v, stamps)
    assert sorted(found) == list(range(len(pairs)))
    assert np.array_equal(stamps_of(found, u, v), stamps)


def test_wrong_stamps_name_the_vertex_or_the_edges():
    u, v = np.array([0, 0, 1]), np.array([2, 3, 3])
    stamps = stamps_of([0, 1, 2], u, v)
    stamps[2, 1] = 0
    with pytest.raises(
        EngineFailure, match=r"^edges updated vertex 3 at the same time, or not once each: their stamps"
    ):
        serial_order(u, v, stamps)
    u, v = np.array([0, 0, 1, 1, 5]), np.array([2, 3, 3, 2, 6])
    stamps = stamps_of([0, 1, 2, 3, 4], u, v)
    stamps[3, 1], stamps[0, 1] = 0, 1
    with pytest.raises(EngineFailure, match=r"^the stamps of 4 edges have a cycle: the superstep is not serialisable$"):
        serial_order(u, v, stamps)


def test_blocks_have_equal_numbers_of_edges_and_every_vertex_one_block():
    vertex = np.repeat([0, 1, 2, 3, 5], [6, 2, 2, 1, 1])
    assert equal_blocks(vertex, 6, 2).tolist() == [0, 1, 1, 1, 1, 1]
    assert equal_blocks(vertex, 6, 3).tolist() == [0, 1, 2, 2, 2, 2]
    assert equal_blocks(vertex[:0], 3, 2).tolist() == [0, 0, 0]
    rows, columns = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert block_numbers(rows, columns, (2, 2), 2).tolist() == [0, 2, 3, 1]


def test_the_tables_of_a_grid_and_of_a_wavefront():
    graph = sides([(row, column) for row in range(4) for column in range(4)], 4, 4)
    edges, bounds = GridTable(LonestarSchedule(order="grid", blocks=2)).of(graph)
    assert bounds.tolist() == [0, 4, 8, 12, 16]
    assert edges.sources.tolist() == [0, 1, 0, 1, 2, 3, 2, 3] * 2  # rows in turn
    assert edges.destinations.tolist() == [4, 4, 5, 5, 6, 6, 7, 7, 6, 6, 7, 7, 4, 4, 5, 5]
    table = WaveTable(2, 7)
    wave = table.of(graph)
    assert table.columns == 4
    assert wave.bounds.tolist() == [0, 2, 4, 6, 8, 10, 12, 14, 16]
    assert wave.sources.tolist() == [0, 1] * 4 + [2, 3] * 4
    assert wave.destinations.tolist() == [4, 4, 5, 5, 6, 6, 7, 7] * 2
    assert [sorted(wave.visits[first : first + 4]) for first in (0, 4)] == [[0, 1, 2, 3]] * 2
    assert WaveTable(2, 8).of(graph).visits.tolist() != wave.visits.tolist()


def test_strata_of_mostly_empty_blocks_are_those_of_their_numbers():
    """10^5 block rows and columns: counters of all blocks would take 80 GB."""
    rng = np.random.default_rng(3)
    rows, columns = np.sort(rng.integers(0, 40, 300)), rng.integers(0, 30, 300)
    for blocks in (3, 20, 100_000):
        found = strata(rows, columns, (40, 30), blocks)
        number = block_numbers(rows, columns, (40, 30), blocks)[found.edges]
        assert sorted(found.edges) == list(range(300))
        assert (np.diff(number) >= 0).all()
        assert found.units is not None
        assert found.units.tolist() == [0, *(np.flatnonzero(np.diff(number)) + 1), 300]
        assert len(found.batches) == len({*(number // blocks)}) + 1


@pytest.mark.parametrize("order", ["agm_e", "diag", "blkdiag", "levels"])
def test_a_table_takes_no_more_bytes_than_it_says(order):
    schedule = LonestarSchedule(order=order, shuffle=False if order == "levels" else None)
    graph = example()
    for table in (BatchTable(schedule), GridTable(LonestarSchedule(order="grid", blocks=3)), WaveTable(3, 0)):
        made = table.named(table.of(graph))
        assert np.array_equal(made["order_sources"], graph.csr.row_of_edge[made["edge_order"]])
        assert np.array_equal(made["order_destinations"], graph.csr.neighbours[made["edge_order"]])
        assert sum(array.nbytes for array in made.values()) <= table.nbytes(graph.facts)
    units = BatchTable(schedule).named(BatchTable(schedule).of(graph)).get("units")
    assert (units is None) == (order != "blkdiag")


@pytest.mark.parametrize(
    ("threads", "blocks", "starts"),
    [(1, 5, [0]), (2, 5, [0, 2]), (3, 5, [0, 1, 3]), (8, 5, [0, 1, 2, 3, 4]), (4, 16, [0, 4, 8, 12])],
)
def test_threads_of_a_grid_begin_at_blocks_apart(threads, blocks, starts):
    calls, arrays = [], {"progress": np.ones(blocks, np.int32), "locks": np.ones(blocks, np.int32)}

    def call(kernel, parts, **named):
        assert not arrays["progress"].any()
        assert not arrays["locks"].any()
        calls.append((kernel, parts, named["starts"].tolist()))
        arrays["progress"][: blocks - missing] = blocks

    graph = SimpleNamespace(num_edges=70)
    run = SimpleNamespace(
        threads=threads, memory=SimpleNamespace(arrays=arrays), call=call, edges=3, rules=SimpleNamespace(graph=graph)
    )
    step, missing = GridPass("step", blocks).bound(run), 0
    step()
    assert calls == [("step", len(starts), starts)]
    assert run.edges == 73
    missing = 1
    with pytest.raises(EngineFailure, match=f"^step ran {blocks * (blocks - 1)} of {blocks**2} blocks$"):
        step()
    assert run.edges == 73
