"""The bytes of tables of the CPU: none has more than its engine counts from the facts of a graph.

Plans for CUDA devices have a buffer for every array of a table, and count the bytes of buffers.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest

from engines.lonestar.cpu_locks import FirstList, HubColumns, InEdgeIds
from engines.lonestar.orders import BatchTable, GridTable, WaveTable
from engines.lonestar.schedule import LonestarSchedule
from engines.pullbaseline.simdx.cpu_engine import DegreeLists
from engines.pushbaseline.tigr.cpu_engine import Nodes
from harness.graph import Graph
from harness.lowering.cpu.hubs import Hubs
from harness.lowering.cpu.partition import Partition
from harness.lowering.cpu.tables import Owned, SideParts, SourceParts
from harness.lowering.edge_tables import Places, Reverse, Rows
from harness.lowering.graph_store import Table

OWNERS = 8
EACH = 600  # vertices of a side: more than a cache line of each owner's
PARTITION = Partition(threads=4, parts_per_thread=16, smallest_part=1)
BATCHES = [
    LonestarSchedule(**options).resolved(given=False)
    for options in ({"order": "diag"}, {"order": "blkdiag", "block_rows": 1, "block_columns": 1})
]
GRID = LonestarSchedule(order="grid", blocks=9).resolved(given=False)
TABLES = (
    Reverse(), Places(), Rows(incoming=True), Rows(incoming=False), SideParts(PARTITION, alternate=False),
    SideParts(PARTITION, alternate=True), SourceParts(PARTITION), Owned(OWNERS), Hubs(OWNERS),
    Nodes(OWNERS, bound=1), Nodes(OWNERS, bound=8), Nodes(1, bound=8), DegreeLists(3, 9, 4, alternate=True),
    DegreeLists(0, 0, 1, alternate=False), InEdgeIds(), FirstList(shuffle=True, seed=1), HubColumns(hub=9),
    *map(BatchTable, BATCHES), GridTable(GRID), WaveTable(rows=5, seed=1),
)  # fmt: skip


def bipartite(sources, destinations, name):
    return Graph.from_edges(
        sources, EACH + destinations, num_vertices=2 * EACH, bipartite=(EACH, EACH), duplicates="keep", name=name
    )


@functools.cache
def graphs():
    """Return edges that lead from each vertex to all owners, two hubs, parallel edges, and none."""
    rng = np.random.default_rng(5)
    rows = np.arange(EACH)
    return (
        bipartite(np.repeat(rows, 8), rng.integers(0, EACH, 8 * EACH), "scattered"),
        bipartite(np.tile(rows, 2), np.repeat([7, EACH - 1], EACH), "hubs"),
        bipartite(np.zeros(EACH, int), np.ones(EACH, int), "parallel"),
        bipartite(rows[:0], rows[:0], "no edges"),
    )


def arrays_in(value) -> Iterable[np.ndarray]:
    """Yield the arrays of what a table computes."""
    if isinstance(value, np.ndarray):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from arrays_in(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield from arrays_in(list(value.values()))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from arrays_in(one)


@pytest.mark.parametrize("graph", graphs(), ids=lambda graph: graph.name)
def test_no_table_has_more_bytes_than_counted(graph):
    of_graph = [graph.csr.offsets, graph.csr.neighbours, graph.csc.offsets, graph.csc.neighbours, graph.in_edge_ids]
    for table in TABLES:
        own = {id(array): array.nbytes for array in arrays_in(table.of(graph))}
        size = sum(nbytes for key, nbytes in own.items() if key not in map(id, of_graph))
        assert size <= table.nbytes(graph.facts), table


def test_every_kind_of_table_is_among_them():
    found, kinds = set(), [Table]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if not inspect.isabstract(kind) and "cuda" not in kind.__module__ and "tests" not in kind.__module__:
            found.add(kind)
    assert found == set(map(type, TABLES))


def test_tables_of_edges_have_an_element_for_each_edge():
    """Where edges are in files, their arrays are too."""
    graph = graphs()[0]
    for table in TABLES:
        lengths = {len(array) for array in arrays_in(table.named(table.of(graph)))}
        if isinstance(table, (Reverse, Places, Rows)):
            assert table.of_edges
        if table.of_edges:
            assert lengths == {graph.num_edges}, table
