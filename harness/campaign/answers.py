"""``save=answer``: keep the outputs of a cell beside its record, with the names of the vertices."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.campaign.errors import CampaignError
from harness.plugins import closest

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language import Program

NONE, ARRAYS, ANSWER = "none", "arrays", "answer"
SAVED = (NONE, ARRAYS, ANSWER)
ARRAYS_FILE = "answer.npz"
_TABLES = {"vertex": "answer.parquet", "edge": "answer_edges.parquet"}


def checked_save(value: Any) -> str:
    """Return the value of the key ``save``.

    Raises CampaignError for an unknown one, and for tables without the package that writes them.
    """
    if value not in SAVED:
        raise CampaignError(f"save is {value!r}{closest(str(value), SAVED)} (there are: {', '.join(SAVED)})")
    if value == ANSWER and importlib.util.find_spec("duckdb") is None:
        raise CampaignError(
            "save=answer writes Parquet, which needs DuckDB: pip install 'onyx-harness[query]', or give save=arrays"
        )
    return str(value)


def save_answer(folder: Path, kind: str, program: Program, graph: Graph, values: Mapping[str, NDArray[Any]]) -> None:
    """Write the outputs of all phases of a right answer into a folder; ``graph`` is the one that the program ran on.

    ``answer.npz`` has every output by name, in the shape that the program declares, and ``vertex``, the name of each
    vertex, if the vertices have names. With ``kind`` "answer", ``answer.parquet`` has one row per vertex and
    ``answer_edges.parquet`` one row per edge, if there are such outputs; `columns_of` names the columns.
    """
    declared = program.answers
    outputs = {name: np.asarray(values[name]) for name in declared}
    names = graph.vertex_names
    named = {} if names is None or "vertex" in outputs else {"vertex": names}
    np.savez(folder / ARRAYS_FILE, allow_pickle=False, **named, **outputs)
    if kind != ANSWER:
        return
    from harness.records.tables import write_table

    for place, file in _TABLES.items():
        chosen = {name: array for name, array in outputs.items() if declared[name].place == place}
        if chosen:
            ends = _vertices(graph) if place == "vertex" else _edges(graph)
            parts = {column: part for name, array in chosen.items() for column, part in columns_of(name, array)}
            write_table(folder / file, ends | parts)


def columns_of(name: str, values: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the columns of one output: ``x``, or ``x_0``, ``x_1``, ... of a vector, ``x_0_0``, ... of a matrix.

    An output with one element per vertex, such as ``[V, 1]``, has one column.
    """
    shape = values.shape[1:]
    if values.size == len(values):
        yield name, values.reshape(len(values))
        return
    for index in np.ndindex(*shape):
        yield "_".join([name, *map(str, index)]), np.ascontiguousarray(values[(slice(None), *index)])


def _names(graph: Graph) -> NDArray[Any]:
    names = graph.vertex_names
    return np.arange(graph.num_vertices) if names is None else names


def _vertices(graph: Graph) -> dict[str, NDArray[Any]]:
    """Return the columns that name the vertices: ``vertex``, and ``side`` (left or right) of a bipartite graph."""
    columns = {"vertex": _names(graph)}
    if graph.bipartite is not None:
        columns["side"] = np.repeat(np.array(["left", "right"]), graph.bipartite)
    return columns


def _edges(graph: Graph) -> dict[str, NDArray[Any]]:
    names = _names(graph)
    return {"source": names[graph.csr.row_of_edge], "destination": names[graph.csr.neighbours]}
